//! The audit trail: what is recorded, pruned and found.

use super::trust::{asked, asked_by, grant, token_of};
use super::*;
use crate::catalog::audit::{AuditEvent, AuditNote, Filter, TrailPage, Walk, key};
use crate::model::grant::Role;

const DAY_MS: u64 = 24 * 3600 * 1000;

fn number_of(key: &[u8]) -> Option<u64> {
    row::numbered(key).filter(|(table, _)| *table == Table::Audit).map(|(_, number)| number)
}

impl Bench {
    fn found(&self, filter: &Filter, page: Page) -> (usize, Vec<AuditEvent>) {
        let mut gathered = TrailPage::new(filter, page, self.catalog.trail.rows());
        let rows = self.rows.iter().rev().filter(|(key, _)| number_of(key).is_some());
        for (_, value) in rows {
            if gathered.take(value).expect("a row that apply made") != Walk::On {
                break;
            }
        }
        let listed = gathered.listed();
        (listed.amount, listed.rows)
    }

    /// Returns all matching events, in pages by key of two events.
    fn walked(&self, filter: &Filter) -> Vec<AuditEvent> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = Page::first(2).by_key(after);
            let mut gathered = TrailPage::new(filter, page, self.catalog.trail.rows());
            let first = gathered.first().unwrap_or(u64::MAX);
            let rows = self.rows.iter().rev().filter(|(key, _)| number_of(key).is_some_and(|number| number <= first));
            for (_, value) in rows {
                if gathered.take(value).expect("a row that apply made") != Walk::On {
                    break;
                }
            }
            let listed = gathered.listed();
            assert_eq!(listed.amount, self.found(filter, Page::first(0)).0);
            all.extend(listed.rows);
            after = listed.after;
            if after.is_none() {
                return all;
            }
        }
    }

    fn trail(&self) -> Vec<AuditEvent> {
        self.found(&Filter::default(), Page::first(usize::MAX)).1
    }

    fn stored(&self) -> Vec<u64> {
        self.rows.keys().filter_map(|key| number_of(key)).collect()
    }

    /// Applies a command like [`Bench::apply`], a number of days after the start.
    fn apply_on(&mut self, day: u64, command: Command) -> usize {
        self.pass_time_until(day * DAY_MS);
        self.index += 1;
        let ctx = Ctx::new(
            self.index,
            Timestamp(day * DAY_MS + self.index),
            [0; 16],
            RequestId(u128::from(self.index)),
            "tester",
        );
        self.apply_as(&ctx, command).edits.len()
    }

    fn set(&mut self, change: SettingsChange) {
        assert_eq!(self.by("admin", Command::Settings(change)), [200000]);
    }
}

fn note(time: u64) -> AuditNote {
    AuditNote { time: Timestamp(time), action: "login".into(), code: 401001, count: 3, ..AuditNote::default() }
}

fn fields_of(event: &AuditEvent) -> (&str, &str, &str, &str, &str, u32) {
    (&event.user, &event.action, &event.kind, &event.namespace, &event.name, event.code)
}

#[test]
fn what_was_asked_for_is_written_down_item_by_item() {
    let mut bench = Bench::trusting();
    bench.add("eva", &[grant(Role::Editor, "prod", "*")]);
    let command = Command::Services(Op::Create, vec![service("prod", "a"), service("test", "b"), service("prod", "a")]);
    let address = Some("192.0.2.7".parse().expect("an address"));
    let credential = Credential::Token(token_of("eva"));
    let request = "r-1".to_owned();
    let ask =
        AuthorizedCommand { credential, address, request, self_registration: false, mutes_refusals: false, command };
    let applied = bench.apply(Command::Authorized(Box::new(ask)));
    assert_eq!(applied.audit.len(), 1, "one stored row an entry");
    let trail = bench.trail();
    let rows: Vec<_> = trail.iter().map(fields_of).collect();
    assert_eq!(
        rows,
        [
            ("eva", "create", "service", "prod", "a", 400201),
            ("eva", "create", "service", "test", "b", 401001),
            ("eva", "create", "service", "prod", "a", 200000),
            ("tester", "login", "user", "", "tester", 200000),
            ("admin", "create", "user", "", "eva", 200000),
            ("tester", "login", "user", "", "tester", 200000),
        ]
    );
    let made = bench.catalog.services.get("prod", "a").expect("created");
    let row = &trail[2];
    assert_eq!((row.before.as_str(), &row.after), ("", &made.revision));
    assert_eq!((row.address, row.request.as_str(), row.token.as_str()), (address, "r-1", token_of("eva").id()));
    assert_eq!((row.time, row.count), (bench.catalog.clock(), 1));
    assert_eq!(bench.by("nobody", Command::Services(Op::Update, vec![service("prod", "a")])), [401004]);
    assert_eq!(fields_of(&bench.trail()[0]), ("tester", "update", "service", "prod", "a", 401004));
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn what_instances_say_is_written_down_if_the_settings_say_so() {
    let mut bench = Bench::trusting();
    let register = |port| {
        let item = InstanceDraft { id: Some("i".into()), ..super::instances::instance("prod", "s", "h", port) };
        asked_by("admin", true, Command::Instances(Op::Create, vec![item]))
    };
    let beats = |bench: &mut Bench, healthy| {
        bench.codes(Command::InstanceHealth(vec![InstanceHealth {
            id: "i".into(),
            healthy,
            ..InstanceHealth::default()
        }]))
    };
    let before = bench.trail().len();
    assert_eq!(bench.codes(register(80)), [200000]);
    beats(&mut bench, false);
    assert_eq!(bench.trail().len(), before);
    bench.set(SettingsChange { audit_instances: Some(1), ..SettingsChange::default() });
    assert_eq!(bench.codes(register(81)), [200000]);
    beats(&mut bench, false);
    let trail = bench.trail();
    let actions: Vec<_> =
        trail.iter().take(3).map(|row| (row.user.as_str(), &*row.action, row.name.as_str())).collect();
    assert_eq!(actions, [("tester", "health", "i"), ("admin", "register", "i"), ("admin", "settings", "")]);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn nobody_asks_for_a_note() {
    let mut bench = Bench::trusting();
    let before = bench.trail().len();
    assert_eq!(bench.by("admin", Command::Note(vec![note(0)])), [401001]);
    assert_eq!(bench.trail().len(), before);
}

#[test]
fn a_note_has_its_own_time_and_a_bound() {
    let mut bench = Bench::trusting();
    let clock = bench.catalog.clock().0;
    let long = AuditNote { user: "ü".repeat(1000), ..note(clock - 5) };
    let many = limits::AUDIT_NOTES_MAX + 1;
    bench.codes(Command::Note(vec![long; many]));
    bench.codes(Command::Note(vec![note(0), note(u64::MAX)]));
    let trail = bench.trail();
    assert_eq!(trail.len(), 2 + limits::AUDIT_NOTES_MAX + 1, "one login before");
    assert_eq!((trail[2].user.chars().count(), trail[2].count), (limits::AUDIT_TEXT_CHARS_MAX, 3));
    assert_eq!(trail[2].time, Timestamp(clock - 5));
    let now = bench.catalog.clock();
    assert_eq!(trail[0].time, now, "not in the future");
    assert_eq!(trail[1].time, Timestamp(now.0.saturating_sub(limits::AUDIT_NOTE_LATE_MS_MAX.into())));
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn rows_beyond_what_is_kept_go_a_bounded_number_at_a_time() {
    let mut bench = Bench::trusting();
    bench.set(SettingsChange { audit_kept_rows: Some(1_000), ..SettingsChange::default() });
    let batch = || {
        let items = (0..100).map(|number| service("prod", &format!("s{number}"))).collect();
        asked("admin", Command::Services(Op::Update, items))
    };
    for _ in 0..40 {
        bench.apply(batch());
        assert!(bench.catalog.trail.rows() <= 1_000);
    }
    assert_eq!(bench.catalog.trail.rows(), 1_000);
    assert_eq!(bench.reloaded(), bench.catalog);
    for number in 0..700 {
        bench.apply(asked("admin", Command::Services(Op::Update, vec![service("prod", &number.to_string())])));
    }
    assert_eq!(bench.catalog.trail.rows(), 1_000, "three batches and 700 rows of one item");
    let stored = bench.stored();
    assert!(stored.windows(2).all(|pair| pair[1] == pair[0] + 1), "no gap");
    // A batch of one item each adds many rows, and one entry removes only a limited number.
    let edits = bench.apply(batch()).edits.len();
    assert!(edits <= 2 + limits::AUDIT_PRUNED_PER_ENTRY_MAX, "{edits} edits");
    assert!(bench.catalog.trail.rows() <= 1_000);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn rows_that_are_too_old_go_and_the_newest_stays() {
    let mut bench = Bench::trusting();
    bench.set(SettingsChange { audit_kept_days: Some(7), ..SettingsChange::default() });
    let update = || asked("admin", Command::Services(Op::Update, vec![service("prod", "a")]));
    for day in 1..=6 {
        bench.apply_on(day, update());
    }
    let oldest = bench.stored()[0];
    assert_eq!(oldest, 0, "all of them are young enough");
    bench.apply_on(8, update());
    assert_eq!(bench.trail().last().expect("a row").time.day(), 1);
    assert_eq!(bench.reloaded(), bench.catalog);
    let last = *bench.stored().last().expect("a row");
    // An entry that records nothing prunes as well.
    let edits = bench.apply_on(1000, Command::Announce(NodeRecord::new(9, "i".into(), "a:1".into(), "c:1".into())));
    assert!(edits <= 8 + limits::AUDIT_PRUNED_PER_ENTRY_MAX, "{edits} edits");
    assert_eq!(bench.stored(), [last], "so that its number is not used again");
    bench.apply_on(1000, update());
    assert_eq!(bench.stored(), [last + 1], "{:?}", bench.stored());
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn the_trail_is_found_newest_first_by_who_what_and_when() {
    let mut bench = Bench::trusting();
    bench.add("eva", &[grant(Role::Editor, "*", "*")]);
    for (day, by, namespace, name) in [
        (1, "eva", "prod", "pay"),
        (2, "admin", "prod", "shop"),
        (3, "eva", "test", "Pay-2"),
        (4, "eva", "prod", "x y"),
    ] {
        bench.apply_on(day, asked(by, Command::Services(Op::Create, vec![service(namespace, name)])));
    }
    let all = Page::first(100);
    let some = |text: &str| Some(NameFilter::parse(text));
    let since = |day: u64| Some(Timestamp(day * DAY_MS));
    let open = Filter { since: since(1), ..Filter::default() };
    for (filter, names) in [
        (open.clone(), vec!["x y", "Pay-2", "shop", "pay"]),
        (Filter { user: some("eva"), ..open.clone() }, vec!["x y", "Pay-2", "pay"]),
        (Filter { user: some("e*"), namespace: some("prod"), ..open.clone() }, vec!["x y", "pay"]),
        (Filter { name: some("pay*"), ..open.clone() }, vec!["Pay-2", "pay"]),
        (Filter { since: since(2), until: since(4), ..open.clone() }, vec!["Pay-2", "shop"]),
        (Filter { kind: Some("user".into()), ..open.clone() }, vec![]),
        (Filter { kind: Some("user".into()), ..Filter::default() }, vec!["tester", "eva", "tester"]),
        (Filter { code: Some(200000), ..open.clone() }, vec!["x y", "Pay-2", "shop", "pay"]),
        (Filter { code: Some(400120), ..open.clone() }, vec![]),
    ] {
        let (amount, rows) = bench.found(&filter, all.clone());
        let found: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!((amount, &found), (names.len(), &names), "{filter:?}");
        assert_eq!(bench.walked(&filter), rows, "{filter:?} by key");
        for offset in 0..=names.len() {
            let (amount, rows) = bench.found(&filter, Page::new(offset, 2));
            let found: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
            let page: Vec<_> = names.iter().copied().skip(offset).take(2).collect();
            assert_eq!((amount, found), (names.len(), page), "{offset} of {filter:?}");
        }
    }
    // Without a filter, skipped rows are not read, nor are skipped items of a stored row.
    bench.by("admin", Command::Services(Op::Update, vec![service("n", "1"), service("n", "2"), service("n", "3")]));
    let whole: Vec<_> = bench.trail();
    for offset in 0..=whole.len() {
        let (amount, rows) = bench.found(&Filter::default(), Page::new(offset, 2));
        let page: Vec<_> = whole.iter().skip(offset).take(2).cloned().collect();
        assert_eq!((amount, rows), (whole.len(), page), "{offset}");
    }
    assert_eq!(bench.found(&Filter::default(), Page::first(0)), (whole.len(), vec![]));
    assert_eq!(bench.walked(&Filter::default()), whole);
}

#[test]
fn keys_come_in_the_order_of_numbers_and_gaps_are_noticed() {
    let keys: Vec<_> = [0, 1, 255, 256, u64::MAX].map(key).into();
    assert!(keys.is_sorted());
    assert_eq!(keys.iter().map(|key| number_of(key)).collect::<Vec<_>>(), [0, 1, 255, 256, u64::MAX].map(Some));
    assert_eq!((number_of(b""), number_of(b"\x15aaaaaaaa"), number_of(b"\x16a")), (None, None, None));
    let mut bench = Bench::trusting();
    bench.log("a");
    bench.log("b");
    let mut catalog = Catalog::default();
    let rows: Vec<_> = bench.rows.iter().filter(|(key, _)| number_of(key).is_some()).collect();
    catalog.load(rows[0].0, rows[0].1).expect("the first");
    catalog.load(rows[2].0, rows[2].1).expect_err("one is missing");
    catalog.load(rows[1].0, &[1, 2, 3]).expect_err("no head");
}

impl Bench {
    fn log(&mut self, name: &str) {
        self.by("admin", Command::Services(Op::Create, vec![service("prod", name)]));
    }
}
