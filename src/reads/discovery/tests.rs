//! Questions over a catalog, and held ones over a single node.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::catalog::testing::Bench;
use crate::catalog::{Command, Credential, Op};
use crate::controllers::Controllers;
use crate::controllers::testing::{founding, lone_setup};
use crate::format::level::LevelRange;
use crate::metrics::Metrics;
use crate::model::access::{PasswordHash, UserDraft};
use crate::model::grant::{Grant, Grants, ReadScope, Role, Verb};
use crate::operations::Bounds;
use crate::origin::Sender;
use crate::raft::node::Node;
use crate::raft::start::{Setup, start};
use crate::reads::hold::HoldEnd;
use crate::store::Store;
use crate::watch::Hub;

const HOLD: Duration = Duration::from_secs(20);

fn question(kind: DiscoveryKind, namespace: &str, name: &str) -> Question {
    Question {
        kind,
        namespace: namespace.into(),
        name: name.into(),
        revision: String::new(),
        metadata: Default::default(),
        only_healthy: false,
        read_scope: ReadScope::Everything,
        labels: Default::default(),
        agent: String::new(),
        address: Some([192, 0, 2, 1].into()),
        is_polaris: false,
        hold: HOLD,
    }
}

fn drafts<T: DeserializeOwned>(items: Value) -> Vec<T> {
    serde_json::from_value(items).expect("drafts")
}

/// Returns the names found, or `=` for a client that has the revision.
fn names(_: &Question, found: &Found) -> Vec<String> {
    match &found.findings {
        Findings::Unchanged => vec!["=".into()],
        Findings::Services(services) => services.iter().map(|(_, service)| service.name.clone()).collect(),
        Findings::Namespaces(all) => all.iter().map(|(_, _, namespace)| namespace.name.clone()).collect(),
        Findings::Instances(instances) => instances.iter().map(|instance| instance.host.clone()).collect(),
        Findings::Rules => found.releases.iter().map(|release| release.rule.name.clone()).collect(),
    }
}

#[test]
fn a_question_is_bounded_and_knows_its_client() {
    let asked = question(DiscoveryKind::Instances, "n", "s").checked().expect("it makes sense");
    assert_eq!(asked.label(CLIENT_ADDRESS_LABEL), Some("192.0.2.1"));
    let labels = [(CLIENT_ADDRESS_LABEL.to_owned(), "10.0.0.1".to_owned())].into();
    let named = Question { labels, ..question(DiscoveryKind::Namespaces, "", "") }.checked().expect("it makes sense");
    assert_eq!(named.label(CLIENT_ADDRESS_LABEL), Some("10.0.0.1"), "its own word comes first");
    let revision = "x".repeat(10_000);
    for (bad, code) in [
        (question(DiscoveryKind::Instances, "", "s"), Code::InvalidNamespaceName),
        (question(DiscoveryKind::Instances, "n", ""), Code::InvalidServiceName),
        (question(DiscoveryKind::Services, &revision, ""), Code::InvalidNamespaceName),
        (Question { revision, ..question(DiscoveryKind::Namespaces, "", "") }, Code::InvalidParameter),
    ] {
        assert_eq!(bad.checked().err().map(|refusal| refusal.code), Some(code));
    }
}

#[test]
fn what_the_client_has_or_does_not_see_is_not_shown() {
    let mut bench = Bench::founded();
    let services = json!([{"namespace": "n", "name": "s"}, {"namespace": "n", "name": "t"}]);
    bench.codes(Command::Services(Op::Create, drafts(services)));
    let alias = json!([{"namespace": "n", "service": "s", "alias": "other", "alias_namespace": "n"}]);
    bench.codes(Command::Aliases(Op::Create, drafts(alias)));
    let ask = |question: &Question| answer_of(&bench.catalog, question, &names).map_err(|refusal| refusal.code);
    let mut all = question(DiscoveryKind::Services, "n", "");
    assert_eq!(ask(&all), Ok(vec!["s".into(), "t".into()]));
    all.revision = Found::read(&bench.catalog, &all, 1).expect("it is there").revision;
    assert_eq!(ask(&all), Ok(vec!["=".into()]));
    let grant = Grant { role: Role::Reader, namespace: "n".into(), name: "t".into() };
    let read_scope = ReadScope::new(&Grants::new([grant]), &[Verb::Read]);
    let of_some = |kind, name| Question { read_scope: read_scope.clone(), ..question(kind, "n", name) };
    assert_eq!(ask(&of_some(DiscoveryKind::Services, "")), Ok(vec!["t".into()]));
    assert_eq!(ask(&of_some(DiscoveryKind::Instances, "s")), Err(Code::NotFoundResource));
    assert_eq!(ask(&of_some(DiscoveryKind::Instances, "t")), Ok(Vec::new()));
    // The target of an alias is returned only to callers that see it.
    let target = |asked: &Question| {
        let found = Found::read(&bench.catalog, asked, 1).expect("it is there");
        found.alias_target(asked).map(|target| target.service.clone())
    };
    let rules = DiscoveryKind::Rules(crate::model::rule::Family::Routing, None);
    assert_eq!(target(&question(rules, "n", "other")).as_deref(), Some("s"));
    assert_eq!((target(&question(rules, "n", "s")), target(&of_some(rules, "other"))), (None, None));
}

/// A revision reveals nothing that the caller does not see.
#[test]
fn a_revision_is_of_what_the_caller_sees() {
    let mut bench = Bench::founded();
    let mut make = |namespace: &str, name: &str| {
        let services = json!([{"namespace": namespace, "name": name}]);
        bench.codes(Command::Services(Op::Create, drafts(services)));
        let revision = |kind, namespace: &str, grants: &[(&str, &str)]| {
            let grant = |(namespace, name): &(&str, &str)| Grant {
                role: Role::Reader,
                namespace: (*namespace).into(),
                name: (*name).into(),
            };
            let read_scope = ReadScope::new(&Grants::new(grants.iter().map(grant).collect::<Vec<_>>()), &[Verb::Read]);
            let asked = Question { read_scope, ..question(kind, namespace, "") };
            let found = Found::read(&bench.catalog, &asked, 1).expect("it is there");
            let known = Question { revision: found.revision.clone(), ..asked.clone() };
            assert!(Found::reach(&bench.catalog, &known) > 0 || namespace == "b", "what is walked counts");
            found.revision
        };
        let (services, namespaces) = (DiscoveryKind::Services, DiscoveryKind::Namespaces);
        let of_a = [("a", "*")];
        [
            revision(services, "b", &of_a),
            revision(services, "", &of_a),
            revision(namespaces, "", &of_a),
            revision(services, "", &[]),
            revision(namespaces, "", &[]),
            revision(services, "a", &[("a", "x")]),
            revision(services, "a", &of_a),
        ]
    };
    let before = make("a", "x");
    let of_b = make("b", "y");
    assert_eq!(of_b, before, "of what is not seen");
    let of_a = make("a", "z");
    assert_eq!(of_a[..1], before[..1]);
    assert_eq!(of_a[2..6], before[2..6]);
    assert!(of_a[1] != before[1] && of_a[6] != before[6], "what is seen is news");
}

/// Operations of a cluster of one.
struct Served {
    operations: Arc<Operations>,
    node: Node,
    shutdown: CancellationToken,
    _dir: tempfile::TempDir,
}

impl Served {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let metrics = Arc::new(Metrics::new().expect("a consistent table"));
        let store = Store::open(dir.path(), 1, LevelRange::OWN, metrics.clone()).expect("a new directory");
        let shutdown = CancellationToken::new();
        let controllers = Controllers::new(founding("none"), []);
        let setup = Setup { extension: controllers.clone(), ..lone_setup() };
        let started = start(setup, store, Hub::new(10), metrics, &TaskTracker::new(), &shutdown).await;
        let (node, _failed) = started.expect("a node");
        let bounds = Bounds {
            config_content_chars_max: 1000,
            token_trust: Duration::from_secs(30),
            webhook_networks: Vec::new(),
            sso_ca_file: None,
        };
        let served =
            Served { operations: Operations::new(node.clone(), controllers, bounds), node, shutdown, _dir: dir };
        let founded = served.operations.node().state().wait_applied(HOLD, |applied| applied.index >= 3).await;
        assert!(founded, "a single node founds its cluster and announces itself");
        served
    }

    /// Authenticates a user by certificate.
    async fn caller(&self, name: &str) -> Caller {
        let sender = Sender { address: Some([192, 0, 2, 1].into()), is_local: false };
        self.operations.identify(Credential::Certificate(name.into()), sender, "r".into()).await.expect("a user")
    }

    async fn done(&self, command: Command) {
        let asked = self.caller("admin").await.asks(command);
        let outcomes = self.operations.ask("admin", asked).await.expect("it is done");
        assert!(outcomes.iter().all(|outcome| outcome.code == Code::ExecuteSuccess), "{outcomes:?}");
    }

    async fn discovery(&self, name: &str) -> Discovery<Vec<String>> {
        let asked = question(DiscoveryKind::Namespaces, "", "").checked().expect("it makes sense");
        Discovery::new(self.operations.clone(), self.caller(name).await, asked, Arc::new(names))
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.node.stop().await;
    }
}

fn namespace(name: &str) -> Command {
    Command::Namespaces(Op::Create, drafts(json!([{ "name": name }])))
}

/// In a stream, each answer continues from the previous one.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_held_again_and_again_tells_each_change_once() {
    let served = Served::start().await;
    let mut hold = served.discovery("admin").await.held().expect("there is room");
    let first = hold.look().await.expect("a caller").expect("all is new to it");
    for name in ["one", "two"] {
        hold = hold.query.held().expect("there is room");
        assert_eq!(hold.look().await, Ok(None), "it has what was sent");
        served.done(namespace(name)).await;
        let Ok(HoldEnd::News(news)) = hold.wait().await else { panic!("{name} is news") };
        assert!(news.len() > first.len() && news.contains(&name.to_owned()), "{news:?}");
    }
    hold = hold.query.held().expect("there is room");
    assert_eq!(hold.look().await, Ok(None));
    served.operations.node().state().hub().close();
    assert_eq!((hold.wait().await, hold.query.unchanged()), (Ok(HoldEnd::Shutdown), vec!["=".to_owned()]));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_is_no_more_is_held_no_more() {
    let served = Served::start().await;
    let grants = Some(Grants::all(Role::Reader));
    let ann =
        UserDraft { name: "ann".into(), password_hash: Some(PasswordHash("none".into())), ..UserDraft::default() };
    served.done(Command::Users(Op::Create, vec![UserDraft { grants, ..ann.clone() }])).await;
    let mut hold = served.discovery("ann").await.held().expect("there is room");
    assert!(hold.look().await.is_ok_and(|news| news.is_some()));
    let mut hold = hold.query.held().expect("there is room");
    assert_eq!(hold.look().await, Ok(None));
    served.done(Command::Users(Op::Delete, vec![ann])).await;
    assert_eq!(hold.wait().await.err().map(|refusal| refusal.code), Some(Code::TokenNotExisted));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_of_another_cluster_means_nothing_and_is_counted() {
    let served = Served::start().await;
    let discovery = served.discovery("admin").await;
    assert_eq!(discovery.catch_up(1).await, Ok(()));
    assert_eq!(served.operations.node().metrics().foreign_ids.get(), 0);
    assert_eq!(discovery.catch_up(u64::MAX).await, Ok(()));
    assert_eq!(served.operations.node().metrics().foreign_ids.get(), 1);
    served.stop().await;
}
