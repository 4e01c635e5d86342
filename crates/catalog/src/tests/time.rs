//! The time of the cluster: steps in doubt, what waits for their end, and times that were set.

use super::house::{House, Kind, Say, kinds, name};
use super::trust::{asked, grant, token_of};
use super::*;
use crate::catalog::audit::{AuditNote, key};
use crate::catalog::releases::RolloutChange;
use crate::catalog::time::{Doubt, STEP_MAX_MS, TimeChange};
use crate::model::grant::Role;
use crate::model::release::ReleaseState;
use crate::model::rollout::RolloutPlan;
use crate::model::service_token::{Rotation, ServiceTokenChange, ServiceTokenDraft};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

impl Bench {
    /// Applies the next entry with a given stamp.
    pub(super) fn apply_at(&mut self, time: u64, epoch: u16, command: Command) -> Applied {
        self.index += 1;
        let ctx = self.ctx(self.index);
        let mut ctx = Ctx::new(self.index, Timestamp(time), ctx.seed, ctx.request, "tester");
        ctx.epoch = epoch;
        let applied = self.apply_as(&ctx, command);
        assert_eq!(self.reloaded(), self.catalog, "a restart and a snapshot keep it");
        applied
    }

    fn time_at(&mut self, time: u64, epoch: u16, change: TimeChange) -> u32 {
        self.apply_at(time, epoch, asked("admin", Command::Time(change))).outcomes[0].code.number()
    }

    pub(super) fn now(&self) -> u64 {
        self.catalog.clock().0
    }

    pub(super) fn doubt(&self) -> Option<Doubt> {
        self.catalog.time.doubt().copied()
    }

    /// Returns the time without the doubted part.
    pub(super) fn sure(&self) -> u64 {
        self.now() - self.doubt().map_or(0, |doubt| doubt.ahead_ms)
    }

    fn audit_rows(&self) -> usize {
        self.rows.keys().filter(|row| row.first() == key(0).first()).count()
    }
}

pub(super) fn tick() -> Command {
    Command::Time(TimeChange::Tick)
}

#[test]
fn a_step_of_more_than_an_hour_is_doubted() {
    for (step_ms, is_doubted) in [(0, false), (STEP_MAX_MS, false), (STEP_MAX_MS + 1, true), (400 * DAY, true)] {
        let mut bench = Bench::founded();
        let before = bench.now();
        bench.apply_at(before + step_ms, 0, Command::Forget { node_id: 9 });
        let of = |before: u64| Doubt {
            index: bench.index,
            before: Timestamp(before),
            from: Timestamp(before + step_ms),
            ahead_ms: step_ms,
        };
        assert_eq!(bench.doubt(), is_doubted.then(|| of(before)), "{step_ms}");
        assert_eq!(bench.now(), before + step_ms, "things are dated by the stamp");
        assert_eq!(bench.sure(), if is_doubted { before } else { before + step_ms });
    }
    let mut first = Bench::default();
    first.apply_at(1_900_000_000_000, 0, tick());
    assert_eq!(first.doubt(), None, "the first stamp of all has none before it");
}

#[test]
fn a_doubt_grows_with_further_steps_and_is_ended_by_its_name() {
    let mut bench = Bench::trusting();
    let before = bench.now();
    bench.apply_at(before + 5 * HOUR, 0, tick());
    let first = bench.doubt().expect("a doubt");
    bench.apply_at(before + 5 * HOUR + 600_000, 0, tick());
    assert_eq!((bench.doubt(), bench.sure()), (Some(first), before + 600_000), "the sure time goes on");
    bench.apply_at(before + 9 * HOUR, 0, tick());
    let second = bench.doubt().expect("a doubt");
    assert_eq!((second.before, second.from), (first.before, first.from));
    assert_eq!(second.ahead_ms, 9 * HOUR - 600_000);
    assert_eq!(bench.sure(), before + 600_000);
    let agree = |doubt: Doubt| Command::Time(TimeChange::Agree { doubt: doubt.index });
    let now = bench.now();
    bench.apply_at(now, 0, agree(first));
    assert_eq!(bench.doubt(), Some(second), "the clocks agreed with what was before");
    assert_eq!(bench.time_at(now, 0, TimeChange::Confirm { doubt: first.index }), 409_000);
    bench.apply_at(now, 0, agree(second));
    assert_eq!((bench.doubt(), bench.sure()), (None, now));
    assert_eq!(bench.time_at(now, 0, TimeChange::Confirm { doubt: second.index }), 409_000);
}

#[test]
fn only_who_manages_everything_confirms_or_sets_the_time() {
    let mut bench = Bench::trusting();
    bench.add("operator", &[grant(Role::Operator, "*", "*")]);
    bench.add("local", &[grant(Role::Admin, "prod", "*")]);
    let now = bench.now();
    bench.apply_at(now + 5 * HOUR, 0, tick());
    let doubt = bench.doubt().expect("a doubt");
    let (confirm, set) =
        (TimeChange::Confirm { doubt: doubt.index }, TimeChange::Set { shift_ms: -(5 * HOUR as i64), epoch: 0 });
    for (by, change, code) in [
        ("operator", confirm, 401_001),
        ("local", confirm, 401_001),
        ("operator", set, 401_001),
        ("admin", TimeChange::Tick, 401_001),
        ("admin", TimeChange::Agree { doubt: doubt.index }, 401_001),
        ("admin", confirm, 200_000),
    ] {
        let applied = bench.apply_at(now + 5 * HOUR, 0, asked(by, Command::Time(change)));
        assert_eq!(applied.outcomes[0].code.number(), code, "{by} {change:?}");
        let is_own = matches!(change, TimeChange::Tick | TimeChange::Agree { .. });
        assert_eq!(applied.audit.len(), usize::from(!is_own), "{by} {change:?} is written down");
    }
    assert_eq!(bench.doubt(), None);
}

#[test]
fn nothing_is_removed_by_age_while_the_time_is_in_doubt() {
    let mut bench = Bench::trusting();
    let note = || Command::Note(vec![AuditNote { action: "login".into(), count: 1, ..AuditNote::default() }]);
    (0..20).for_each(|_| drop(bench.apply(note())));
    let (rows, now) = (bench.audit_rows(), bench.now());
    assert!(rows >= 20);
    (0..30).for_each(|second| drop(bench.apply_at(now + 400 * DAY + second, 0, note())));
    assert_eq!(bench.audit_rows(), rows + 30, "the rows of the days before are there");
    assert!(bench.catalog.access.holder(&token_of("admin"), Timestamp(bench.sure())).is_some());
    let doubt = bench.doubt().expect("a doubt").index;
    assert_eq!(bench.time_at(now + 400 * DAY + 50, 0, TimeChange::Confirm { doubt }), 200_000);
    (0..30).for_each(|second| drop(bench.apply_at(now + 400 * DAY + 60 + second, 0, tick())));
    assert!(bench.audit_rows() <= 31, "{} rows, once the time is confirmed", bench.audit_rows());
}

#[test]
fn logins_and_tokens_end_by_the_sure_time() {
    let mut bench = Bench::trusting();
    let draft = ServiceTokenDraft {
        name: "ci".into(),
        hash: TokenHash("ci".into()),
        expires_in_s: 30 * DAY / 1000,
        ..ServiceTokenDraft::default()
    };
    assert_eq!(bench.by("admin", Command::ServiceTokens(Op::Create, vec![draft])), [200_000]);
    bench.add("eva", &[grant(Role::Editor, "*", "*")]);
    let now = bench.now();
    bench.apply_at(now + 100 * DAY, 0, tick());
    let write = |name| asked("eva", Command::Services(Op::Create, vec![service("prod", name)]));
    assert_eq!(bench.apply_at(now + 100 * DAY, 0, write("a")).outcomes[0].code.number(), 200_000);
    // A login removes expired ones.
    bench.log_in_at(now + 100 * DAY + 1, 0, "admin", "again");
    assert!(bench.catalog.access.is_login(&token_of("eva")));
    let sure = Timestamp(bench.sure());
    assert!(bench.catalog.access.service_token("ci").is_some_and(|token| !token.is_over(sure)));
    // They expire at the pace of the stamps all the same.
    let seven = 7 * DAY / HOUR;
    (1..=seven).for_each(|hour| drop(bench.apply_at(now + 100 * DAY + hour * HOUR, 0, tick())));
    assert_eq!(bench.apply_at(bench.now(), 0, write("b")).outcomes[0].code.number(), 401_004);
}

impl Bench {
    fn log_in_at(&mut self, time: u64, epoch: u16, user: &str, token: &str) {
        let user_id = self.catalog.access.user_named(user).expect("a user").id.clone();
        let (hash, password) = (token_of(token), PasswordHash("h".into()));
        let sign_in = Command::SignIn { hash, user_id, password, from: Default::default() };
        assert_eq!(self.apply_at(time, epoch, sign_in).outcomes[0].code.number(), 200_000);
    }
}

fn planned(house: &House, name: &'static str, in_ms: u64) -> Say {
    Say { at: Some(Timestamp(house.bench.now() + in_ms)), ..super::house::name(name) }
}

#[test]
fn a_planned_release_waits_for_the_sure_time() {
    for kind in kinds() {
        let mut house = House::new(kind);
        house.draft("week");
        let say = planned(&house, "week", 7 * DAY);
        assert_eq!(house.publish(say), 200_000);
        let (before, jumped) = (house.bench.now(), house.bench.now() + 100 * DAY);
        let due = || Command::PublishDue(house.bench.catalog.due(Timestamp(jumped)));
        let codes = |applied: Applied| applied.outcomes.iter().map(|one| one.code.number()).collect::<Vec<_>>();
        let command = due();
        // For the entry that makes the step, it is due by its own stamp.
        assert_eq!(codes(house.bench.apply_at(jumped, 0, command)), [200_002], "{kind:?}");
        assert_eq!(house.find("week").expect("kept").state, ReleaseState::Scheduled);
        assert_eq!(house.bench.catalog.due(Timestamp(house.bench.sure())), []);
        let held = house
            .bench
            .catalog
            .held_up(crate::model::time::Present { stamped: Timestamp(jumped), sure: Timestamp(before) });
        assert_eq!(held.releases, 1);
        // A time between the sure time and the stamp is still in the future.
        house.draft("later");
        let say = Say { at: Some(Timestamp(before + 9 * DAY)), ..name("later") };
        let command = match kind {
            Kind::Rule(family) => Command::PublishRules(family, vec![House::of_rule(&say)]),
            Kind::File => Command::ConfigPublish(vec![House::of_file(&say)]),
        };
        assert_eq!(codes(house.bench.apply_at(jumped + 5, 0, command)), [200_000]);
        assert_eq!(house.find("later").expect("kept").state, ReleaseState::Scheduled);
        // The sure time arrives there at the pace of the stamps.
        (1..=7 * 24).for_each(|hour| drop(house.bench.apply_at(jumped + hour * HOUR, 0, tick())));
        let due = house.bench.catalog.due(Timestamp(house.bench.sure()));
        let now = house.bench.now();
        assert_eq!(codes(house.bench.apply_at(now, 0, Command::PublishDue(due))), [200_000]);
        assert_eq!(house.find("week").expect("kept").state, ReleaseState::NormalActive);
    }
}

fn stepped() -> Say {
    let json = r#"{"by":"zone","steps":[{"percent":5,"hold_s":3600},{"percent":100}],"guards":[]}"#;
    let plan: RolloutPlan = serde_json::from_str(json).expect("a plan");
    Say { is_gray: true, plan: Some(plan), ..name("gray") }
}

impl House {
    fn move_all_at(&mut self, time: u64, epoch: u16) -> u32 {
        let live = self.bench.catalog.live_rollouts().into_iter();
        let moves = live.map(|live| live.moved(RolloutChange::Advance)).collect();
        self.bench.apply_at(time, epoch, Command::Rollouts(moves)).outcomes[0].code.number()
    }
}

#[test]
fn a_step_of_a_rollout_waits_for_the_sure_time_and_is_moved_with_the_time() {
    for kind in [Kind::File, Kind::Rule(crate::model::rule::Family::Routing)] {
        let mut house = House::new(kind);
        house.draft("first");
        assert_eq!(house.publish(name("first")), 200_000);
        house.draft("gray");
        assert_eq!(house.publish(stepped()), 200_000);
        let now = house.bench.now();
        assert_eq!(house.move_all_at(now + 8 * HOUR, 0), 200_002, "{kind:?}");
        assert_eq!(house.move_all_at(now + 9 * HOUR - 60_000, 0), 200_002);
        // Two minutes later, its hour has passed by the sure time.
        assert_eq!(house.move_all_at(now + 9 * HOUR + 60_000, 0), 200_000);
        // A rollout that began under the wrong time is moved with it.
        house.draft("other");
        let begun = house.bench.now();
        let other = Say { is_gray: true, ..stepped() };
        let other = Say { name: "other", ..other };
        let command = match kind {
            Kind::Rule(family) => Command::PublishRules(family, vec![House::of_rule(&other)]),
            Kind::File => Command::ConfigPublish(vec![House::of_file(&other)]),
        };
        assert_eq!(house.bench.apply_at(begun, 0, command).outcomes[0].code.number(), 200_000);
        let set = Command::Time(TimeChange::Set { shift_ms: -(8 * HOUR as i64), epoch: 0 });
        house.bench.apply_at(begun, 0, set);
        assert_eq!(house.bench.now(), begun - 8 * HOUR);
        assert_eq!(house.move_all_at(begun - 8 * HOUR + 59 * 60_000, 1), 200_002);
        assert_eq!(house.move_all_at(begun - 7 * HOUR + 60_000, 1), 200_000);
    }
}

#[test]
fn the_time_is_set_back_and_what_acts_by_its_date_goes_with_it() {
    let back = 100 * DAY;
    let mut bench = Bench::trusting();
    bench.add("old", &[grant(Role::Editor, "*", "*")]);
    let token = |name: &str, days: u64| ServiceTokenDraft {
        name: name.into(),
        hash: TokenHash(name.into()),
        expires_in_s: days * DAY / 1000,
        ..ServiceTokenDraft::default()
    };
    let make = |name, days| Command::ServiceTokens(Op::Create, vec![token(name, days)]);
    assert_eq!(bench.by("admin", make("kept", 30)), [200_000]);
    let right = bench.now();
    let wrong = right + back;
    bench.apply_at(wrong, 0, asked("admin", make("new", 30)));
    bench.log_in_at(wrong + 1, 0, "old", "made under the wrong time");
    let rotated = ServiceTokenChange {
        name: "kept".into(),
        rotation: Some(Rotation { hash: TokenHash("other".into()), overlap_s: 3600 }),
        ..ServiceTokenChange::default()
    };
    bench.apply_at(wrong + 2, 0, asked("admin", Command::ChangeTokens(vec![rotated])));
    let applied = bench.apply_at(
        wrong + 3,
        0,
        asked("admin", Command::Users(Op::Create, vec![super::trust::user("young", &[])])),
    );
    assert_eq!(applied.outcomes[0].code.number(), 200_000);
    let set = TimeChange::Set { shift_ms: -(back as i64), epoch: 0 };
    let before = bench.now();
    let applied = bench.apply_at(before, 0, asked("admin", Command::Time(set)));
    assert_eq!(applied.outcomes[0].code.number(), 200_000);
    assert_eq!(applied.audit[0].written, Timestamp(before - back), "its row is dated right");
    let now = before - back;
    assert_eq!((bench.now(), bench.doubt(), bench.sure()), (now, None, now));
    let access = &bench.catalog.access;
    let end = |token: &str| access.service_token(token).expect("kept").expires.expect("ends").0;
    assert_eq!(end("new"), right + 30 * DAY);
    assert_eq!(end("kept"), right + 30 * DAY, "the end of before stays");
    let previous = access.service_token("kept").expect("kept").previous.clone().expect("rotated").until.0;
    assert_eq!(previous, right + 2 + HOUR);
    assert_eq!(access.end_of(&token_of("made under the wrong time")), Some(Timestamp(right + 1 + 7 * DAY)));
    assert!(access.user_named("young").is_some_and(|user| user.ctime == Timestamp(right + 3)));
    assert!(access.user_named("old").is_some_and(|user| user.ctime.0 < right));
    assert_eq!(bench.time_at(now, 1, TimeChange::Set { shift_ms: 5, epoch: 0 }), 409_000, "of before the setting");
}

#[test]
fn entries_of_the_time_that_was_left_move_nothing() {
    let mut bench = Bench::trusting();
    let (right, wrong) = (bench.now(), bench.now() + 400 * DAY);
    bench.apply_at(wrong, 0, tick());
    assert_eq!(bench.time_at(wrong, 0, TimeChange::Set { shift_ms: -(400 * DAY as i64), epoch: 0 }), 200_000);
    // Entries that were on their way when the time was set have stamps of the earlier epoch.
    for late in 1..=3 {
        let applied =
            bench.apply_at(wrong + late, 0, Command::Services(Op::Create, vec![service("prod", &format!("s{late}"))]));
        assert_eq!(applied.outcomes[0].code.number(), 200_000);
        assert_eq!((bench.now(), bench.doubt()), (right, None), "late {late}");
        let of = bench.catalog.services.get("prod", &format!("s{late}")).expect("written").ctime;
        assert_eq!(of, Timestamp(right));
    }
    bench.apply_at(right + 5000, 1, tick());
    assert_eq!((bench.now(), bench.doubt()), (right + 5000, None));
    // The time is set forward, as by mistake, and back again.
    let set = |days: i64, epoch| TimeChange::Set { shift_ms: days * DAY as i64, epoch };
    assert_eq!(bench.time_at(right + 6000, 1, set(3, 1)), 200_000);
    assert_eq!((bench.now(), bench.doubt()), (right + 6000 + 3 * DAY, None), "who sets it knows");
    assert_eq!(bench.time_at(right + 7000 + 3 * DAY, 2, set(-3, 2)), 200_000);
    assert_eq!((bench.now(), bench.doubt()), (right + 7000, None));
    let mark = bench.catalog.time_mark();
    assert_eq!((mark.epoch, mark.shift_ms), (3, -(400 * DAY as i64)));
}

/// Bytes of the log and of the row, which every later version has to read.
#[test]
fn golden_bytes_of_the_time() {
    let written = |change| hex::encode(crate::format::pack::to_bytes(&Command::Time(change)));
    for (change, bytes) in [
        (TimeChange::Tick, "a45469636b"),
        (TimeChange::Agree { doubt: 7 }, "81a5416772656581a5646f75627407"),
        (TimeChange::Confirm { doubt: 7 }, "81a7436f6e6669726d81a5646f75627407"),
        (TimeChange::Set { shift_ms: -5, epoch: 2 }, "81a353657482a873686966745f6d73fba565706f636802"),
    ] {
        assert_eq!(written(change), format!("81a454696d65{bytes}"), "{change:?}");
    }
    let mut bench = Bench::trusting();
    let no_row = [Table::Time as u8];
    assert!(!bench.rows.contains_key(&no_row[..]), "a time that nobody doubted is no row");
    let (now, index) = (bench.now(), bench.index);
    bench.apply_at(now, 0, asked("admin", Command::Time(TimeChange::Set { shift_ms: -5, epoch: 0 })));
    let row = |bench: &Bench| hex::encode(&bench.rows[&no_row[..]]);
    assert_eq!(row(&bench), "0182a565706f636801a873686966745f6d73fb");
    bench.apply_at(now - 5 + 2 * HOUR, 1, tick());
    let doubt = format!(
        "84a5696e646578{}a66265666f7265{}a466726f6d{}a861686561645f6d73ce006ddd00",
        hex::encode(crate::format::pack::to_bytes(&(index + 2))),
        hex::encode(crate::format::pack::to_bytes(&(now - 5))),
        hex::encode(crate::format::pack::to_bytes(&(now - 5 + 2 * HOUR))),
    );
    assert_eq!(row(&bench), format!("0183a565706f636801a873686966745f6d73fba5646f756274{doubt}"));
}
