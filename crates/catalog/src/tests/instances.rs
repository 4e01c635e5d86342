//! Instances as tables of commands and expected answers.

use super::*;
use crate::catalog::instances::{InstanceCounts, InstanceFilter, InstanceNeeds};
use crate::model::wire::Uint32;

pub(super) fn instance(namespace: &str, service: &str, host: &str, port: u32) -> InstanceDraft {
    InstanceDraft {
        namespace: Some(namespace.into()),
        service: Some(service.into()),
        host: Some(host.into()),
        port: Some(Uint32(port)),
        ..InstanceDraft::default()
    }
}

fn checked(host: &str) -> InstanceDraft {
    InstanceDraft { enable_health_check: Some(true), ..instance("a", "x", host, 80) }
}

fn register(items: Vec<InstanceDraft>) -> Command {
    Command::Instances(Op::Create, items)
}

fn health(draft: &InstanceDraft, healthy: bool) -> Command {
    Command::InstanceHealth(vec![InstanceHealth { id: draft.instance_id(), healthy, ..InstanceHealth::default() }])
}

#[test]
fn instances_by_the_rules() {
    let mut bench = Bench::default();
    let one = || instance("a", "x", "h1", 80);
    let with_id = |id: &str, service: &str| InstanceDraft { id: Some(id.into()), ..instance("a", service, "h2", 80) };
    let by_id = |id: &str| InstanceDraft { id: Some(id.into()), ..InstanceDraft::default() };
    let weighed = |draft: InstanceDraft| InstanceDraft { weight: Some(Uint32(7)), ..draft };
    let revised = InstanceDraft { revision: Some("stale".into()), ..weighed(one()) };
    let isolated = |draft: InstanceDraft| InstanceDraft { isolate: Some(true), ..draft };
    let rows = [
        ("a service is made", register(vec![one(), one()]), vec![200000, 200000]),
        ("an id is given", register(vec![with_id("given", "x"), with_id("given", "y")]), vec![200000, 400201]),
        (
            "updates",
            Command::Instances(Op::Update, vec![weighed(one()), weighed(one()), revised]),
            vec![200000, 200002, 409000],
        ),
        (
            "whom an update names",
            Command::Instances(
                Op::Update,
                vec![weighed(by_id("given")), weighed(with_id("given", "y")), weighed(by_id("none"))],
            ),
            vec![200000, 400303, 400303],
        ),
        (
            "isolation by host",
            Command::InstancesIsolateHost(vec![
                isolated(one()),
                isolated(one()),
                isolated(instance("a", "x", "none", 1)),
            ]),
            vec![200000, 200002, 400303],
        ),
        ("a service with instances stays", Command::Services(Op::Delete, vec![service("a", "x")]), vec![400204]),
        ("deletion", Command::Instances(Op::Delete, vec![by_id("given"), by_id("given"), one()]), vec![200000; 3]),
        ("a service without may go", Command::Services(Op::Delete, vec![service("a", "x")]), vec![200000]),
    ];
    for (title, command, expected) in rows {
        assert_eq!(bench.codes(command), expected, "{title}");
        assert_eq!(bench.reloaded(), bench.catalog, "{title}");
    }
}

#[test]
fn a_registration_replaces_but_for_what_an_operator_set() {
    let mut bench = Bench::default();
    let full = InstanceDraft { version: Some("1".into()), weight: Some(Uint32(7)), ..checked("h") };
    bench.codes(register(vec![full.clone()]));
    let get = |bench: &Bench| bench.catalog.instances.get(&full.instance_id()).expect("registered").clone();
    let first = get(&bench);
    let again = bench.apply(register(vec![full.clone()]));
    assert!(again.changes.is_empty(), "nothing changed");
    assert_eq!(get(&bench), first);
    bench.codes(Command::InstancesIsolateHost(vec![InstanceDraft { isolate: Some(true), ..full.clone() }]));
    bench.codes(health(&full, false));
    bench.codes(register(vec![InstanceDraft { version: Some("2".into()), isolate: Some(false), ..checked("h") }]));
    let second = get(&bench);
    assert_eq!((second.version.as_str(), second.weight, second.isolate, second.healthy), ("2", 100, true, true));
    assert_eq!(second.ctime, first.ctime);
    assert_ne!(second.revision, first.revision);
    let moved = InstanceDraft { id: Some(first.id.clone()), ..instance("a", "x", "other", 81) };
    assert_eq!(bench.codes(register(vec![moved])), [200000], "an id moves within its service");
    assert_eq!((get(&bench).host.as_str(), get(&bench).port), ("other", 81));
}

#[test]
fn an_alias_has_no_instances() {
    let mut bench = Bench::default();
    bench.codes(Command::Services(Op::Create, vec![service("a", "x")]));
    bench.codes(Command::Aliases(Op::Create, vec![alias("one", "x")]));
    assert_eq!(bench.codes(register(vec![instance("a", "one", "h", 1)])), [400502]);
    assert_eq!(bench.catalog.instances.counts(), InstanceCounts::default());
}

#[test]
fn health_changes_only_what_is_checked() {
    let mut bench = Bench::default();
    bench.codes(register(vec![checked("h"), instance("a", "x", "unchecked", 80)]));
    let applied = bench.apply(health(&checked("h"), false));
    assert_eq!(applied.changes, [Change::Instances { namespace: "a".into(), service: "x".into() }]);
    assert_eq!(bench.codes(health(&checked("h"), false)), [200002]);
    assert_eq!(bench.codes(health(&instance("a", "x", "unchecked", 80), false)), [200002]);
    assert_eq!(bench.codes(health(&checked("gone"), false)), [400303]);
    let counts = bench.catalog.instances.of_service("a", "x");
    assert_eq!(counts, InstanceCounts { total: 2, healthy: 1, isolated: 0 });
    assert_eq!(bench.codes(health(&checked("h"), true)), [200000]);
    assert_eq!(bench.catalog.instances.of_namespace("a").healthy, 2);
    assert_eq!(bench.reloaded(), bench.catalog);
}

#[test]
fn a_revision_belongs_to_the_set_of_instances() {
    let mut bench = Bench::default();
    let fold = |bench: &Bench| bench.catalog.instances.fold("a", "x");
    let none = fold(&bench);
    bench.codes(register(vec![checked("h1")]));
    let one = fold(&bench);
    bench.codes(register(vec![checked("h2")]));
    bench.codes(register(vec![instance("a", "other", "h1", 80)]));
    assert!(fold(&bench) != one && one != none);
    assert_eq!(bench.reloaded().instances.fold("a", "x"), fold(&bench));
    bench.codes(Command::InstancesDeleteHost(vec![checked("h2")]));
    assert_eq!(fold(&bench), one, "what came and went leaves no trace");
    bench.codes(Command::Instances(Op::Delete, vec![checked("h1")]));
    assert_eq!(fold(&bench), none);
}

/// Returns a catalog with three instances of two services; the letter is the host.
fn three() -> Bench {
    let mut bench = Bench::default();
    let tier = |value: &str| Some(BTreeMap::from([("tier".to_owned(), value.to_owned())]));
    bench.codes(register(vec![InstanceDraft { metadata: tier("gold"), ..instance("a", "x", "k", 80) }]));
    bench.codes(register(vec![InstanceDraft {
        healthy: Some(false),
        metadata: tier("silver"),
        weight: Some(Uint32(1)),
        ..instance("a", "x", "l", 81)
    }]));
    bench.codes(register(vec![InstanceDraft {
        isolate: Some(true),
        protocol: Some("grpc".into()),
        ..instance("a", "y", "m", 80)
    }]));
    bench
}

#[test]
fn lists_of_instances_are_filtered() {
    let bench = three();
    let name = |text: &str| Some(NameFilter::parse(text));
    let any = InstanceFilter::default;
    let rows: [(InstanceFilter, &str); 14] = [
        (any(), "mlk"),
        (InstanceFilter { namespace: name("a"), ..any() }, "mlk"),
        (InstanceFilter { namespace: name("a"), service: name("x"), ..any() }, "lk"),
        (InstanceFilter { service: name("*"), hosts: ["k".into(), "m".into()].into(), ..any() }, "mk"),
        (InstanceFilter { ports: [80].into(), ..any() }, "mk"),
        (InstanceFilter { healthy: Some(true), ..any() }, "mk"),
        (InstanceFilter { healthy: Some(false), ..any() }, "l"),
        (InstanceFilter { isolate: Some(true), ..any() }, "m"),
        (InstanceFilter { weight: Some(1), ..any() }, "l"),
        (InstanceFilter { protocol: Some("grpc".into()), ..any() }, "m"),
        (InstanceFilter { metadata: vec![("tier".into(), "gold".into())], ..any() }, "k"),
        (InstanceFilter { id: Some(instance("a", "x", "k", 80).instance_id()), ..any() }, "k"),
        (InstanceFilter { id: Some(instance("a", "x", "k", 80).instance_id()), ports: [81].into(), ..any() }, ""),
        (InstanceFilter { zone: Some("z".into()), ..any() }, ""),
    ];
    for (filter, expected) in rows {
        let listed = bench.catalog.instances.list(&filter, &Page::new(0, 100));
        let hosts: String = listed.rows.iter().map(|instance| instance.host.as_str()).collect();
        assert_eq!((hosts.as_str(), listed.amount), (expected, expected.len()), "{filter:?}");
    }
}

#[test]
fn services_are_found_by_their_instances() {
    let bench = three();
    let any = InstanceNeeds::default;
    let tier = |value: &str| vec![("tier".to_owned(), NameFilter::parse(value))];
    let rows: [(InstanceNeeds, &str); 9] = [
        (any(), "yx"),
        (InstanceNeeds { hosts: ["k".into()].into(), ..any() }, "x"),
        (InstanceNeeds { hosts: ["k".into(), "m".into()].into(), ..any() }, "yx"),
        (InstanceNeeds { ports: [80].into(), ..any() }, "yx"),
        (InstanceNeeds { hosts: ["k".into()].into(), ports: [81].into(), metadata: tier("sil*"), callable: true }, "x"),
        (InstanceNeeds { metadata: tier("*"), ..any() }, "x"),
        (InstanceNeeds { metadata: tier("lead"), ..any() }, ""),
        (InstanceNeeds { callable: true, ..any() }, "x"),
        (InstanceNeeds { hosts: ["m".into()].into(), callable: true, ..any() }, ""),
    ];
    for (instances, expected) in rows {
        let shown = format!("{instances:?}");
        let filter = ServiceFilter { instances, ..ServiceFilter::default() };
        let listed = bench.catalog.services.list(&filter, &bench.catalog.instances, &Page::ALL);
        let names: String = listed.rows.iter().map(|service| service.name.as_str()).collect();
        assert_eq!(names, expected, "{shown}");
    }
}

/// The leader finds an instance silent; the instance registers again before the finding is applied.
#[test]
fn what_was_found_of_an_instance_that_has_changed_since_changes_nothing() {
    let mut bench = Bench::founded();
    let weighed = |weight| InstanceDraft { weight: Some(Uint32(weight)), ..checked("h") };
    let id = checked("h").instance_id();
    bench.codes(register(vec![weighed(1)]));
    let found = |bench: &Bench, healthy| {
        let revision = bench.catalog.instances.get(&id).expect("registered").revision.clone();
        Command::InstanceHealth(vec![InstanceHealth { id: id.clone(), healthy, revision }])
    };
    let is_healthy = |bench: &Bench| bench.catalog.instances.get(&id).expect("registered").healthy;
    let silent = found(&bench, false);
    bench.codes(register(vec![weighed(2)]));
    let before = bench.catalog.instances.clone();
    assert_eq!(bench.codes(silent), [200002]);
    assert_eq!(bench.catalog.instances, before, "it has a whole window from there on");
    let silent = found(&bench, false);
    assert_eq!((bench.codes(silent), is_healthy(&bench)), (vec![200000], false));
    let back = found(&bench, true);
    assert_eq!((bench.codes(back.clone()), is_healthy(&bench)), (vec![200000], true));
    let silent = found(&bench, false);
    bench.codes(silent);
    assert_eq!((bench.codes(back), is_healthy(&bench)), (vec![200002], false), "of another time");
    assert_eq!(
        (bench.codes(health(&checked("h"), true)), is_healthy(&bench)),
        (vec![200000], true),
        "as below the level"
    );
    assert_eq!(bench.reloaded(), bench.catalog);
}

/// Golden bytes of the first version. Without a revision they are those of the previous format.
#[test]
fn golden_bytes_of_health_by_revision() {
    let command =
        Command::InstanceHealth(vec![InstanceHealth { id: "i".into(), healthy: false, revision: "r".into() }]);
    let golden = "81ae496e7374616e63654865616c74689183a26964a169a76865616c746879c2a87265766973696f6ea172";
    assert_eq!(hex::encode(crate::format::pack::to_bytes(&command)), golden);
}

/// Applying to a fork gives the same result as applying in place.
#[test]
fn what_is_applied_to_a_fork_is_what_would_be_applied_in_place() {
    let mut bench = Bench::default();
    let all: Vec<_> = (0..300).map(|number| checked(&format!("h{number}"))).collect();
    bench.apply(register(all.clone()));
    let changes: Vec<_> = all
        .iter()
        .map(|one| InstanceHealth { id: one.instance_id(), healthy: false, ..InstanceHealth::default() })
        .collect();
    let (mut in_place, mut read, ctx) = (bench.catalog.clone(), bench.catalog.clone(), bench.ctx(99));
    let mut beside = read.fork();
    let command = || Command::InstanceHealth(changes.clone());
    assert_eq!(beside.apply(&ctx, command()), in_place.apply(&ctx, command()));
    assert_eq!(beside, in_place);
    assert!(beside.apply(&ctx, command()).duplicate, "it remembers requests");
    assert_eq!(read.instances, bench.catalog.instances, "readers see what was");
    assert_eq!((read.instances.counts().healthy, beside.instances.counts().healthy), (300, 0));
}

#[test]
fn instances_are_found_by_their_host() {
    let mut bench = Bench::default();
    let three = || vec![instance("a", "x", "h1", 80), instance("a", "x", "h1", 81), instance("b", "y", "h1", 80)];
    let ports = |bench: &Bench, host: &str| {
        let mut ports: Vec<_> =
            bench.catalog.instances.on_host(host).map(|one| (one.service.clone(), one.port)).collect();
        ports.sort();
        ports
    };
    bench.apply(register(three()));
    bench.apply(register(three()));
    assert_eq!(ports(&bench, "h1"), [("x".to_owned(), 80), ("x".to_owned(), 81), ("y".to_owned(), 80)]);
    bench.apply(Command::Instances(Op::Delete, vec![instance("a", "x", "h1", 80)]));
    assert_eq!((ports(&bench, "h1").len(), ports(&bench, "h2").len()), (2, 0));
}
