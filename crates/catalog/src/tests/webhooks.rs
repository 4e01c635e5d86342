//! Webhooks: changes, subscriptions, limits of their queues, and golden bytes.

use std::sync::Arc;

use proptest::prelude::*;

use super::instances::instance;
use super::rules::{gray, rule};
use super::*;
use crate::catalog::client_refusals::ClientRefusal;
use crate::catalog::history::Thing;
use crate::catalog::rekey::Rebirth;
use crate::catalog::webhooks::WebhookEvent;
use crate::format::pack;
use crate::model::access_key::SealedSecret;
use crate::model::code::Code;
use crate::model::config_file::ConfigKey;
use crate::model::instance::{HealthCheckDraft, HeartbeatDraft};
use crate::model::rule::Family;
use crate::model::webhook::{HookEvent, Progress, WebhookDraft, WebhookTold};
use crate::model::wire::Uint32;

fn hook(name: &str) -> WebhookDraft {
    WebhookDraft { name: name.into(), ..WebhookDraft::default() }
}

fn whole(name: &str) -> WebhookDraft {
    WebhookDraft { url: Some("https://h/".into()), secret: Some(SealedSecret("c0ffee".into())), ..hook(name) }
}

fn wanting(name: &str, events: &[HookEvent], namespace: &str) -> WebhookDraft {
    WebhookDraft { events: Some(events.to_vec()), namespace: Some(namespace.into()), ..whole(name) }
}

fn create(drafts: Vec<WebhookDraft>) -> Command {
    Command::Webhooks(Op::Create, drafts)
}

fn update(draft: WebhookDraft) -> Command {
    Command::Webhooks(Op::Update, vec![draft])
}

impl Bench {
    fn hooked(drafts: Vec<WebhookDraft>) -> Bench {
        let mut bench = Bench::founded();
        let count = drafts.len();
        assert_eq!(bench.codes(create(drafts)), vec![200000; count]);
        bench
    }

    /// Publishes a file, for an event that carries its content.
    fn publish_some(&mut self, count: usize) {
        for _ in 0..count {
            let content = format!("k={}", self.index);
            assert_eq!(self.codes(publish("f.properties", &content, "")), [200000]);
        }
    }

    fn waiting(&self, name: &str) -> Vec<Arc<WebhookEvent>> {
        let next = |after| self.catalog.webhooks.next(name, after).cloned();
        std::iter::successors(next(0), |event| next(event.number)).collect()
    }

    /// Returns the events that wait for a webhook: event, kind, name.
    fn words(&self, name: &str) -> Vec<(HookEvent, String, String)> {
        let word = |event: &Arc<WebhookEvent>| {
            let news = &event.news;
            (news.event, news.kind.clone(), news.name.clone())
        };
        self.waiting(name).iter().map(word).collect()
    }

    fn progress(&self, name: &str) -> Progress {
        self.catalog.webhooks.get(name).expect("kept").progress.clone()
    }

    fn report(&mut self, name: &str, through: u64, given_up: u64, failure: Option<&str>) -> u32 {
        let id = self.catalog.webhooks.get(name).map(|hook| hook.id.clone()).unwrap_or_default();
        let told = WebhookTold { id, through, given_up, failure: failure.map(str::to_owned) };
        let code = self.codes(Command::WebhooksTold(vec![told]))[0];
        self.check();
        code
    }

    fn check(&self) {
        assert_eq!(self.reloaded(), self.catalog);
    }
}

#[test]
fn webhooks_by_the_rules() {
    let mut bench = Bench::founded();
    let moved = WebhookDraft { url: Some("https://other/".into()), ..hook("one") };
    let without = WebhookDraft { url: None, ..whole("two") };
    let rows = [
        (Op::Create, vec![whole("one"), whole("one"), without, hook("two")], vec![200000, 400201, 400103, 400103]),
        (Op::Update, vec![moved.clone(), moved, hook("none")], vec![200000, 200002, 400202]),
        (Op::Create, vec![whole("two")], vec![200000]),
        (Op::Delete, vec![hook("two"), hook("two")], vec![200000; 2]),
    ];
    for (op, items, expected) in rows {
        let shown = format!("{op:?} {items:?}");
        assert_eq!(bench.codes(Command::Webhooks(op, items)), expected, "{shown}");
        bench.check();
    }
    let kept = bench.catalog.webhooks.get("one").expect("kept").clone();
    assert_eq!((kept.url.as_str(), bench.catalog.webhooks.len()), ("https://other/", 1));
    assert!(kept.modified.time > kept.created.time && kept.modified.by == "tester");
    let many = (0..limits::WEBHOOKS_MAX).map(|number| whole(&format!("h{number}"))).collect();
    let codes = [vec![200000; limits::WEBHOOKS_MAX - 1], vec![507002]].concat();
    assert_eq!(bench.codes(create(many)), codes, "there are few");
    let listed = bench.catalog.webhooks.list(Some(&NameFilter::parse("H1*")), &Page::new(0, 100));
    assert_eq!((listed.amount, listed.rows[0].name.as_str()), (10, "h1"));
}

#[test]
fn releases_and_health_are_told_of_to_who_wants_them() {
    let mut bench = Bench::hooked(vec![
        whole("all"),
        wanting("gray", &[HookEvent::Gray], ""),
        wanting("prod", &[], "prod"),
        wanting("ill", &[HookEvent::Health], "n"),
        WebhookDraft { disabled: Some(true), ..whole("off") },
    ]);
    bench.publish_some(1);
    bench.codes(Command::Rules(Op::Create, vec![rule(Family::Routing, "x")]));
    bench.codes(Command::PublishRules(Family::Routing, vec![gray("x", "g", "one")]));
    let checked = InstanceDraft {
        enable_health_check: Some(true),
        health_check: Some(HealthCheckDraft {
            heartbeat: Some(HeartbeatDraft { ttl: Some(Uint32(1)) }),
            ..Default::default()
        }),
        healthy: Some(true),
        ..instance("n", "s", "h", 80)
    };
    let other = InstanceDraft { host: Some("i".into()), ..checked.clone() };
    let ids = [checked.instance_id(), other.instance_id()];
    bench.codes(Command::Instances(Op::Create, vec![checked, other]));
    let health = |healthy| {
        ids.iter().map(|id| InstanceHealth { id: id.clone(), healthy, ..InstanceHealth::default() }).collect()
    };
    bench.codes(Command::InstanceHealth(health(false)));
    bench.codes(Command::InstanceHealth(health(false)));
    let expected = |words: &[(HookEvent, &str, &str)]| -> Vec<_> {
        words.iter().map(|(event, kind, name)| (*event, (*kind).to_owned(), (*name).to_owned())).collect()
    };
    let (file, routing) = ((HookEvent::Publish, "configfile", "f.properties"), (HookEvent::Gray, "routing", "x"));
    let ill = (HookEvent::Health, "service", "s");
    assert_eq!(bench.words("all"), expected(&[file, (routing.0, Family::Routing.word(), "x"), ill]));
    assert_eq!(bench.words("gray").len(), 1);
    assert_eq!(bench.words("prod"), expected(&[file]));
    assert_eq!(bench.words("ill"), expected(&[ill]));
    assert_eq!(bench.words("off"), expected(&[]));
    let event = bench.waiting("ill")[0].news.clone();
    let health = event.health.as_ref().expect("of health");
    assert_eq!((health.total, health.healthy, health.changed, health.instances.len()), (2, 0, 2, 2));
    let event = bench.waiting("all")[0].news.clone();
    let release = event.release.as_ref().expect("of a release");
    assert_eq!((release.user.as_str(), release.version, release.from_version), ("tester", 1, 0));
    assert_eq!((event.namespace.as_str(), event.group.as_str()), ("prod", "shop"));
    assert_eq!(bench.catalog.webhooks.event_count(), 3, "each is held once");
    bench.check();
}

#[test]
fn nothing_is_kept_that_nobody_waits_for() {
    let mut bench = Bench::founded();
    bench.publish_some(3);
    assert_eq!(bench.catalog.webhooks.event_count(), 0, "there is no webhook");
    bench.codes(create(vec![whole("one"), whole("two")]));
    bench.publish_some(3);
    let numbers: Vec<u64> = bench.waiting("one").iter().map(|event| event.number).collect();
    assert_eq!(bench.report("one", numbers[1], 0, None), 200000);
    assert_eq!((bench.waiting("one").len(), bench.waiting("two").len()), (1, 3));
    assert_eq!(bench.catalog.webhooks.event_count(), 3, "the other one waits for them");
    assert_eq!(bench.report("two", numbers[0], 0, None), 200000);
    assert_eq!(bench.catalog.webhooks.event_count(), 2);
    bench.codes(Command::Webhooks(Op::Delete, vec![hook("two")]));
    assert_eq!(bench.catalog.webhooks.event_count(), 1);
    assert_eq!(bench.report("one", numbers[2], 0, None), 200000);
    assert_eq!((bench.catalog.webhooks.event_count(), bench.progress("one").delivered), (0, 3));
    assert!(!bench.rows.keys().any(|key| Table::of_key(key).expect("a table") == Table::WebhookEvent));
    assert_eq!(bench.report("one", numbers[2], 0, None), 200002, "it was written down before");
    assert_eq!(bench.progress("one").delivered, 3);
}

#[test]
fn who_fails_loses_the_oldest_and_takes_nothing_from_the_others() {
    let mut bench = Bench::hooked(vec![whole("fails"), whole("works")]);
    bench.publish_some(limits::WEBHOOK_EVENTS_MAX);
    let oldest = bench.waiting("fails")[0].number;
    let last = bench.waiting("works").last().expect("waits").number;
    bench.report("works", last, 0, None);
    assert_eq!(bench.report("fails", 0, 0, Some("answered 500")), 200000);
    bench.publish_some(3);
    assert_eq!(bench.waiting("fails").len(), limits::WEBHOOK_EVENTS_MAX);
    assert!(bench.waiting("fails")[0].number > oldest);
    assert_eq!((bench.progress("fails").dropped, bench.progress("works").dropped), (3, 0));
    assert_eq!((bench.waiting("works").len(), bench.catalog.webhooks.event_count()), (3, limits::WEBHOOK_EVENTS_MAX));
    assert!(bench.progress("fails").failing_since.is_some());
    bench.check();
}

#[test]
fn refusals_of_clients_push_out_their_like_alone() {
    let refused = |count: usize, version: u64| {
        let thing = Thing::File(ConfigKey::new("prod", "shop", "f.properties"));
        let refusal = |number: usize| ClientRefusal {
            thing: thing.clone(),
            version,
            address: number.to_string(),
            agent: String::new(),
            message: "no".into(),
            others: 2,
        };
        Command::ClientsRefused((0..count).map(refusal).collect())
    };
    let mut bench = Bench::founded();
    let hooks = vec![whole("all"), wanting("refusals", &[HookEvent::ClientRefused], "")];
    assert_eq!(bench.codes(create(hooks)), [200_000; 2]);
    bench.publish_some(1);
    let first = bench.waiting("all")[0].clone();
    (0..15).for_each(|_| assert_eq!(bench.codes(refused(100, 1)), [200_000; 100]));
    let most = limits::WEBHOOK_REFUSALS_MAX;
    assert_eq!((bench.waiting("all").len(), bench.waiting("refusals").len()), (most + 1, most));
    assert_eq!(bench.waiting("all")[0], first, "what happened before waits on");
    assert_eq!(bench.progress("all").dropped, 1400);
    assert_eq!(bench.waiting("refusals")[0].news.client.as_ref().map(|client| client.count), Some(3));
    // All other events take precedence over refusals.
    bench.publish_some(limits::WEBHOOK_EVENTS_MAX - 1);
    assert!(bench.waiting("all").iter().all(|event| event.news.event == HookEvent::Publish));
    assert_eq!((bench.waiting("all").len(), bench.waiting("refusals").len()), (limits::WEBHOOK_EVENTS_MAX, most));
    assert_eq!(bench.waiting("all")[0], first);
    let newest = limits::WEBHOOK_EVENTS_MAX as u64;
    assert_eq!(bench.codes(refused(1, newest)), [200_000]);
    assert_eq!((bench.waiting("all")[0].clone(), bench.waiting("all").len()), (first, limits::WEBHOOK_EVENTS_MAX));
    bench.check();
    let through = bench.waiting("refusals")[9].number;
    assert_eq!(bench.report("refusals", through, 0, None), 200_000);
    assert_eq!((bench.waiting("refusals").len(), bench.progress("refusals").delivered), (most - 10, 10));
}

/// The failure of a zone affects thousands of services in one entry.
#[test]
fn one_entry_makes_no_more_events_than_may_wait() {
    let mut bench = Bench::hooked(vec![whole("all"), wanting("prod", &[], "prod")]);
    bench.publish_some(1);
    let more = limits::WEBHOOK_EVENTS_MAX + 7;
    let mut ids = Vec::new();
    for number in 0..more {
        let draft = InstanceDraft {
            enable_health_check: Some(true),
            healthy: Some(true),
            ..instance("n", &format!("s{number:05}"), "h", 80)
        };
        ids.push(draft.instance_id());
        bench.codes(Command::Instances(Op::Create, vec![draft]));
    }
    bench.codes(Command::InstanceHealth(
        ids.into_iter().map(|id| InstanceHealth { id, healthy: false, ..InstanceHealth::default() }).collect(),
    ));
    assert_eq!(bench.waiting("all").len(), limits::WEBHOOK_EVENTS_MAX);
    assert_eq!(bench.progress("all").dropped, 8, "the seven first ones, and what waited before");
    assert_eq!((bench.waiting("prod").len(), bench.progress("prod").dropped), (1, 0));
    bench.check();
}

#[test]
fn what_is_told_is_written_down() {
    let mut bench = Bench::hooked(vec![whole("one")]);
    bench.publish_some(5);
    let numbers: Vec<u64> = bench.waiting("one").iter().map(|event| event.number).collect();
    assert_eq!(bench.report("one", numbers[0], 0, Some(&"long ".repeat(100))), 200000);
    let progress = bench.progress("one");
    assert_eq!((progress.delivered, progress.through), (1, numbers[0]));
    assert!(progress.failing_since.is_some() && progress.succeeded.is_some(), "one was told, the next one failed");
    assert_eq!(progress.failed.expect("kept").1.chars().count(), limits::WEBHOOK_FAILURE_CHARS_MAX);
    bench.report("one", numbers[3], 2, None);
    let progress = bench.progress("one");
    assert_eq!((progress.delivered, progress.dropped, progress.failing_since), (2, 2, None));
    bench.report("one", numbers[4], 9, Some("gave up"));
    let progress = bench.progress("one");
    assert_eq!((progress.delivered, progress.dropped), (2, 3), "no more than there were");
    assert!(progress.failing_since.is_some());
    let webhooks = &bench.catalog.webhooks;
    assert_eq!(webhooks.older("one", 0, Timestamp(u64::MAX)), None);
    let gone = WebhookTold { id: "gone".into(), through: 1, ..WebhookTold::default() };
    assert_eq!(bench.codes(Command::WebhooksTold(vec![gone])), [400202]);
}

#[test]
fn old_events_are_found_from_the_front() {
    let mut bench = Bench::hooked(vec![whole("one")]);
    bench.publish_some(4);
    let waiting = bench.waiting("one");
    let older = |after: u64, time: Timestamp| bench.catalog.webhooks.older("one", after, time);
    assert_eq!(older(0, waiting[0].news.time), None);
    assert_eq!(older(0, waiting[2].news.time), Some((waiting[1].number, 2)));
    assert_eq!(older(waiting[0].number, waiting[2].news.time), Some((waiting[1].number, 1)));
}

#[test]
fn what_is_switched_off_is_told_of_nothing() {
    let mut bench = Bench::hooked(vec![whole("one"), whole("two")]);
    bench.publish_some(2);
    let revision = |bench: &Bench| bench.catalog.webhooks.get("one").expect("kept").revision.clone();
    let before = revision(&bench);
    bench.codes(update(WebhookDraft { disabled: Some(true), ..hook("one") }));
    assert_eq!((bench.waiting("one").len(), bench.progress("one").dropped, bench.waiting("two").len()), (0, 2, 2));
    assert_ne!(revision(&bench), before, "its task begins anew");
    bench.check();
    bench.publish_some(1);
    bench.codes(update(WebhookDraft { disabled: Some(false), ..hook("one") }));
    let before = revision(&bench);
    bench.publish_some(1);
    assert_eq!((bench.waiting("one").len(), bench.waiting("two").len()), (1, 4));
    let number = bench.waiting("one")[0].number;
    bench.report("one", number, 0, None);
    assert_eq!(revision(&bench), before, "what it was told is no change of what is asked of it");
}

#[test]
fn a_restored_cluster_tells_nobody_and_a_recovered_one_goes_on() {
    let mut bench = Bench::hooked(vec![whole("one")]);
    bench.publish_some(2);
    let reborn = |survivor| {
        let rebirth = Rebirth { survivor, ..Rebirth::of("new") };
        let rows = bench
            .rows
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), rebirth.row(key, value).expect("readable")?)));
        let mut reborn =
            Bench { rows: rows.map(|(key, value)| (key, value.into_owned())).collect(), ..Bench::default() };
        reborn.catalog = reborn.reloaded();
        reborn
    };
    let restored = reborn(None);
    let kept = restored.catalog.webhooks.get("one").expect("it comes along");
    assert_eq!((kept.disabled, &kept.progress, kept.url.as_str()), (true, &Progress::default(), "https://h/"));
    assert_eq!((restored.waiting("one").len(), restored.catalog.webhooks.event_count()), (0, 0));
    let recovered = reborn(Some(1));
    assert_eq!(recovered.catalog.webhooks, bench.catalog.webhooks);
}

#[test]
fn an_operator_of_everything_may_and_it_is_audited() {
    let mut bench = crate::catalog::fuzzing::founded();
    let asked = |command| crate::catalog::fuzzing::asked(command, false);
    let applied = bench.apply(asked(create(vec![whole("one")])));
    let event = applied.audit[0].events().next().expect("an item");
    assert_eq!((applied.outcomes[0].code, event.action.as_ref()), (Code::ExecuteSuccess, "create"));
    assert_eq!((event.kind.as_ref(), event.name.as_str(), event.after.len()), ("webhook", "one", 32));
    let forged = asked(Command::WebhooksTold(vec![WebhookTold::default()]));
    assert_eq!(bench.codes(forged), [401001], "it is the leader's");
}

#[test]
fn it_adds_unless_it_deletes() {
    assert!(create(Vec::new()).adds() && !Command::WebhooksTold(Vec::new()).adds());
    assert!(!Command::Webhooks(Op::Delete, Vec::new()).adds());
}

/// Golden bytes of the first version.
#[test]
fn golden_bytes_of_webhooks() {
    let draft = WebhookDraft {
        allow_private: Some(true),
        disabled: Some(false),
        comment: Some("c".into()),
        ..wanting("one", &[HookEvent::Gray], "n")
    };
    let told = WebhookTold { id: "i".into(), through: 7, given_up: 1, failure: Some("f".into()) };
    let commands =
        [create(vec![draft]), Command::Webhooks(Op::Delete, vec![hook("one")]), Command::WebhooksTold(vec![told])];
    let mut bench = Bench::hooked(vec![wanting("one", &[HookEvent::Publish], "prod")]);
    bench.publish_some(2);
    let number = bench.waiting("one")[0].number;
    bench.report("one", number, 0, Some("f"));
    let rows = bench.rows.iter().filter(|(key, _)| key[0] >= Table::Webhook as u8);
    let rows: Vec<String> = rows.map(|(key, value)| format!("{} {}", hex::encode(key), hex::encode(value))).collect();
    let written: Vec<String> = commands.iter().map(|command| hex::encode(pack::to_bytes(command))).collect();
    let lines = written.iter().chain(&rows).map(|line| line.to_owned() + "\n");
    super::golden::assert_golden("golden_webhooks.txt", &lines.collect::<String>());
    for (command, line) in commands.iter().zip(written) {
        let read: Command = pack::from_bytes(&hex::decode(line).expect("hex")).expect("readable for ever");
        assert_eq!(read, *command);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish,
    Write(Op, WebhookDraft),
    /// Delivery of a number of waiting events, of which some are given up.
    Told(String, usize, u64, bool),
}

fn some_step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned);
    let op = prop::sample::select(vec![Op::Create, Op::Update, Op::Delete]);
    let flag = || prop::option::of(any::<bool>());
    let wanted = prop::option::of(prop::sample::select(vec![vec![], vec![HookEvent::Publish], vec![HookEvent::Gray]]));
    let write = (op, name(), wanted, flag()).prop_map(|(op, name, events, disabled)| {
        Step::Write(op, WebhookDraft { events, disabled, ..if op == Op::Create { whole(&name) } else { hook(&name) } })
    });
    let told = (name(), 0..5usize, 0..3u64, any::<bool>())
        .prop_map(|(name, count, given_up, fails)| Step::Told(name, count, given_up, fails));
    prop_oneof![3 => Just(Step::Publish), 2 => write, 2 => told]
}

proptest! {
    #![proptest_config(crate::test_seed::cases(64))]

    /// After any steps, the rows load the same catalog, every stored event is waited for, in order, and every event of
    /// a webhook was delivered, was dropped, or waits.
    #[test]
    fn rows_and_queues_never_part(steps in prop::collection::vec(some_step(), 1..40)) {
        let mut bench = Bench::founded();
        for step in steps {
            match step {
                Step::Publish => bench.publish_some(1),
                Step::Write(op, draft) => drop(bench.apply(Command::Webhooks(op, vec![draft]))),
                Step::Told(name, count, given_up, fails) => {
                    let through = bench.waiting(&name).get(count).map_or(0, |event| event.number);
                    bench.report(&name, through, given_up, fails.then_some("f"));
                }
            }
            prop_assert_eq!(bench.reloaded(), bench.catalog.clone());
            let names = ["a", "b", "c"];
            let mut awaited: Vec<u64> = Vec::new();
            for name in names {
                let numbers: Vec<u64> = bench.waiting(name).iter().map(|event| event.number).collect();
                prop_assert!(numbers.is_sorted());
                prop_assert_eq!(numbers.len(), bench.catalog.webhooks.pending(name));
                awaited.extend(numbers);
            }
            awaited.sort_unstable();
            awaited.dedup();
            prop_assert_eq!(awaited.len(), bench.catalog.webhooks.event_count());
        }
    }
}
