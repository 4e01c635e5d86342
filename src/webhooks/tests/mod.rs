//! Tests of the sender against local receivers, and of the deliveries of a node.

mod receiver;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::http_sender::{HttpSender, Resolver};
use super::message::Message;
use super::*;
use crate::catalog::webhooks::WebhookEvent;
use crate::catalog::{Command, Op};
use crate::controllers::testing::{founding, lone_setup};
use crate::controllers::{Controllers, gauges, run};
use crate::data_key::DataKey;
use crate::format::level::{Level, LevelRange};
use crate::metrics::Metrics;
use crate::model::config_file::{ConfigFileDraft, ConfigPublish, ConfigReleaseDraft};
use crate::model::webhook::{HookEvent, News, WebhookRequest};
use crate::raft::start::{Setup, start};
use crate::store::Store;
use crate::tls::{Authority, Listening, TlsFiles};
use crate::watch::Hub;
use receiver::{Manner, Receiver, eventually};

fn hook(url: &str, allow_private: bool) -> Webhook {
    Webhook { url: url.to_owned(), allow_private, ..Webhook::default() }
}

/// Returns settings that permit webhooks to the loopback network.
fn near(ca_file: Option<PathBuf>) -> WebhookSettings {
    WebhookSettings { ca_file, private_networks: vec!["127.0.0.0/8".parse().expect("a network")] }
}

fn sender(url: &str) -> HttpSender {
    HttpSender::new(&hook(url, true), &near(None))
}

fn message(number: u64) -> Message {
    let news = News { event: HookEvent::Gray, name: "f".into(), ..News::default() };
    Message::new(
        "c1",
        &Webhook { name: "ops".into(), ..Webhook::default() },
        &WebhookEvent { number, to: Vec::new(), news: Arc::new(news) },
        b"secret",
    )
}

/// Returns a resolver with the same addresses for every name, and the count of its calls.
fn resolver(addresses: &[&str]) -> (Resolver, Arc<AtomicUsize>) {
    let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().expect("an address")).collect();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let resolver: Resolver = Arc::new(move |_, port| {
        count.fetch_add(1, Ordering::Relaxed);
        let found: Vec<_> = addresses.iter().map(|address| SocketAddr::new(*address, port)).collect();
        Box::pin(std::future::ready(Ok(found)))
    });
    (resolver, asked)
}

#[tokio::test]
async fn a_receiver_gets_the_message_and_its_signature() {
    let receiver = Receiver::start(Manner::Status(200)).await;
    let mut sender = sender(&receiver.url());
    for number in [1, 2] {
        assert_eq!(sender.post(message(number)).await, Ok(()));
    }
    let got = receiver.got();
    assert!(got[0].head.starts_with("post /hook?x=1 http/1.1\r\n"), "{}", got[0].head);
    for (got, expected) in got.iter().zip([message(1), message(2)]) {
        assert_eq!(got.body, expected.body);
        assert_eq!(got.header("x-thuban-signature"), expected.signature);
        assert_eq!(got.header("x-thuban-event-id"), expected.id);
        assert_eq!((got.header("x-thuban-event"), got.header("content-type")), ("gray", "application/json"));
    }
    assert_eq!(receiver.connections(), 1, "a connection serves many");
}

#[tokio::test]
async fn whatever_is_no_success_is_told_in_few_words() {
    let elsewhere = Receiver::start(Manner::Status(200)).await;
    let receiver = Receiver::start(Manner::Close).await;
    let url = receiver.url();
    let rows = [
        (Manner::Status(500), "answered 500"),
        (Manner::Status(410), "answered 410"),
        (Manner::Redirect(elsewhere.url()), "answered 302, and redirects are not followed"),
        (Manner::Close, ""),
        (Manner::Silent, "no answer within 0.3 s"),
    ];
    for (manner, expected) in rows {
        let shown = format!("{manner:?}");
        receiver.answer(manner);
        let why = sender(&url).within(Duration::from_millis(300)).post(message(1)).await.expect_err(&shown);
        assert!(why.contains(expected), "{shown}: {why}");
        assert!(!why.contains("x=1"), "the URL may hold a secret: {why}");
    }
    assert_eq!(elsewhere.connections(), 0);
    drop(receiver);
    let gone = sender("http://127.0.0.1:1/").post(message(1)).await.expect_err("nobody listens");
    assert!(gone.starts_with("cannot connect"), "{gone}");
}

#[tokio::test]
async fn of_an_endless_answer_little_is_read() {
    let receiver = Receiver::start(Manner::Endless).await;
    let mut sender = sender(&receiver.url());
    assert_eq!(sender.post(message(1)).await, Ok(()), "its status counts");
    receiver.answer(Manner::Status(200));
    assert_eq!(sender.post(message(2)).await, Ok(()));
    assert_eq!(receiver.connections(), 2, "the first one was given up");
    // Bytes in the buffers of the system were not read when the connection ended.
    assert!(receiver.sent() < 16 * 1024 * 1024, "{}", receiver.sent());
}

#[tokio::test]
async fn nothing_goes_to_an_address_that_is_not_allowed() {
    let receiver = Receiver::start(Manner::Status(200)).await;
    let port = receiver.address.port();
    let hosts = ["127.0.0.1", "127.1", "[::ffff:127.0.0.1]", "0.0.0.0", "localhost"];
    for host in hosts {
        let url = format!("http://{host}:{port}/");
        let why = HttpSender::new(&hook(&url, false), &near(None)).post(message(1)).await.expect_err(host);
        assert!(why.starts_with("not sent: "), "{host}: {why}");
    }
    for addresses in [&["127.0.0.1"][..], &["::ffff:127.0.0.1"], &["10.0.0.1", "127.0.0.1"], &["169.254.169.254"], &[]]
    {
        let name = format!("http://receiver.test:{port}/");
        let sender = HttpSender::new(&hook(&name, false), &near(None));
        let refused = sender.resolving(resolver(addresses).0).post(message(1)).await;
        assert!(refused.is_err(), "{addresses:?}");
    }
    let metadata = sender(&format!("http://receiver.test:{port}/")).resolving(resolver(&["169.254.169.254"]).0);
    let why = { metadata }.post(message(1)).await.expect_err("never");
    assert!(why.contains("169.254.169.254"), "{why}");
    assert_eq!(receiver.connections(), 0);
}

/// Only the resolver knows the name, so the connection must go to the validated address.
#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_judged() {
    let receiver = Receiver::start(Manner::Status(200)).await;
    let url = format!("http://receiver.test:{}/", receiver.address.port());
    let (resolver, asked) = resolver(&["169.254.169.254", "0.0.0.0", "127.0.0.1"]);
    let mut sender = sender(&url).resolving(resolver);
    for number in 1..=3 {
        assert_eq!(sender.post(message(number)).await, Ok(()));
    }
    assert_eq!((receiver.connections(), asked.load(Ordering::Relaxed)), (1, 1), "asked once, and believed then");
    assert_eq!(receiver.got()[0].header("host"), format!("receiver.test:{}", receiver.address.port()));
    receiver.answer(Manner::Status(500));
    assert!(sender.post(message(4)).await.is_err());
    receiver.answer(Manner::Status(200));
    assert_eq!(sender.post(message(4)).await, Ok(()));
    assert_eq!(asked.load(Ordering::Relaxed), 2, "after a failure the name is looked up again");
}

#[tokio::test]
async fn a_receiver_with_tls_has_to_be_vouched_for() {
    let dir = TempDir::new().expect("a directory");
    let authority = Authority::open(dir.path()).expect("an authority");
    assert!(authority.issue("receiver", &["receiver.test".to_owned()], 30).expect("made"));
    let file = |name: &str| dir.path().join(name);
    let files = TlsFiles { cert: file("receiver.pem"), key: file("receiver-key.pem"), client_ca: None };
    let tls = Listening::open(files).expect("a pair");
    let receiver = Receiver::start_with(Manner::Status(200), Some(tls)).await;
    let post = |name: &str, ca: Option<&str>| {
        let url = format!("https://{name}:{}/", receiver.address.port());
        let sender = HttpSender::new(&hook(&url, true), &near(ca.map(file))).resolving(resolver(&["127.0.0.1"]).0);
        async move { { sender }.post(message(1)).await }
    };
    assert_eq!(post("receiver.test", Some("ca.pem")).await, Ok(()));
    let other = post("other.test", Some("ca.pem")).await.expect_err("not its name");
    assert!(other.starts_with("cannot connect"), "{other}");
    assert!(post("receiver.test", Some("none.pem")).await.expect_err("no file").contains("TLS"));
    assert!(post("receiver.test", None).await.is_err(), "nobody in the system vouches for it");
    assert_eq!(receiver.got().len(), 1);
}

#[test]
fn pauses_grow_up_to_a_limit_and_differ() {
    let whole: Vec<u64> = (1..=12).map(|failures| pause_after(failures, 0.0).as_secs()).collect();
    assert_eq!(whole, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    assert_eq!(pause_after(3, 1.0), Duration::from_secs(2));
    assert_eq!(pause_after(u32::MAX, 0.0), PAUSE_MAX);
}

#[test]
fn what_could_not_be_written_down_is_kept() {
    let ledger = DeliveryProgress::default();
    ledger.failed("a", "first".into());
    ledger.delivered("a", 3);
    ledger.given_up("a", 5, 2);
    let taken = ledger.take();
    assert!(ledger.is_empty());
    ledger.delivered("a", 7);
    ledger.put_back(taken.clone());
    let expected = WebhookTold { id: "a".into(), through: 7, given_up: 2, failure: Some("first".into()) };
    assert_eq!(ledger.take(), [expected]);
    ledger.failed("a", "second".into());
    ledger.put_back(taken);
    assert_eq!(ledger.take()[0].failure.as_deref(), Some("second"), "the last one counts");
}

/// A node that delivers webhooks.
struct Bench {
    node: Node,
    controllers: Arc<Controllers>,
    shutdown: CancellationToken,
    _dir: TempDir,
}

impl Bench {
    async fn start() -> Bench {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let metrics = Arc::new(Metrics::new().expect("a consistent table"));
        let store = Store::open(dir.path(), 1, LevelRange::OWN, metrics.clone()).expect("a new directory");
        let controllers = Controllers::new(founding("none"), DataKey::of_hex(&"a".repeat(64)));
        let setup = Setup { extension: controllers.clone(), ..lone_setup() };
        let (shutdown, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (node, _failed) = start(setup, store, Hub::new(10), metrics, &tasks, &shutdown).await.expect("a node");
        let founded = node.state().wait_applied(Duration::from_secs(20), |applied| applied.index >= 3).await;
        assert!(founded, "a single node founds its cluster and announces itself");
        let (delivery, until) = (
            run(node.clone(), WebhookController::new(&node, controllers.keyring.clone(), near(None))),
            shutdown.clone(),
        );
        tokio::spawn(async move { until.run_until_cancelled(delivery).await });
        Bench { node, controllers, shutdown, _dir: dir }
    }

    async fn propose(&self, command: Command) {
        assert_eq!(command.level().max(Level::FIRST), command.level());
        let outcomes = self.node.propose("ann", command).await.expect("done");
        assert!(outcomes.iter().all(|outcome| outcome.code.is_success()), "{outcomes:?}");
    }

    async fn hook(&self, name: &str, receiver: &Receiver) {
        let request = WebhookRequest {
            name: name.into(),
            url: Some(receiver.url()),
            allow_private: Some(true),
            ..WebhookRequest::default()
        };
        let (draft, _) = self.controllers.keyring.seal_new_webhook(request).expect("a data key");
        self.propose(Command::Webhooks(Op::Create, vec![draft])).await;
    }

    async fn publish(&self, count: usize) {
        for number in 0..count {
            let (namespace, group, name) = ("prod".to_owned(), "shop".to_owned(), format!("f{number}.properties"));
            let file = ConfigFileDraft {
                content: Some(format!("k={}", self.node.state().applied().index)),
                namespace: namespace.clone(),
                group: group.clone(),
                name: name.clone(),
                ..ConfigFileDraft::default()
            };
            let release = ConfigReleaseDraft { namespace, group, file_name: name, ..ConfigReleaseDraft::default() };
            self.propose(Command::ConfigCreateAndPublish(vec![ConfigPublish { file, release, md5: None }])).await;
        }
    }

    fn webhook(&self, name: &str) -> Arc<Webhook> {
        self.node.state().catalog().webhooks.get(name).expect("kept").clone()
    }

    async fn wait_until(&self, name: &str, is_so: impl Fn(&Webhook) -> bool) {
        eventually(|| is_so(&self.webhook(name)), || format!("{:?}", self.webhook(name))).await;
    }

    /// Returns the index of the last entry. Its changes may be visible shortly before the index is updated.
    async fn index(&self) -> u64 {
        self.node.await_linearizable().await.expect("it leads");
        self.node.state().applied().index
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.node.stop().await;
    }
}

fn ids(receiver: &Receiver) -> Vec<String> {
    receiver.got().iter().map(|got| got.header("x-thuban-event-id").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_receiver_delays_nobody_else_and_nothing_is_appended_when_all_is_told() {
    let bench = Bench::start().await;
    let (slow, fast) = (Receiver::start(Manner::Silent).await, Receiver::start(Manner::Status(200)).await);
    bench.hook("slow", &slow).await;
    bench.hook("fast", &fast).await;
    bench.publish(40).await;
    let got = fast.wait_for(40).await;
    assert!(ids(&fast).is_sorted() && slow.got().len() == 1, "one try at a time");
    let body: Value = serde_json::from_slice(&got[0].body).expect("JSON");
    assert_eq!(
        (&body["event"], &body["release"]["user"], &body["webhook"]),
        (&"publish".into(), &"ann".into(), &"fast".into())
    );
    bench.wait_until("fast", |hook| hook.progress.delivered == 40).await;
    gauges::record(&bench.node, &bench.controllers).await;
    assert_eq!(bench.node.metrics().webhook_pending.with_label_values(&["slow"]).get(), 40);
    assert_eq!(bench.node.metrics().webhook_pending.with_label_values(&["fast"]).get(), 0);

    // Now the receiver answers.
    slow.answer(Manner::Status(200));
    let request = WebhookRequest { name: "slow".into(), url: Some(slow.url() + "&again"), ..WebhookRequest::default() };
    let draft = bench.controllers.keyring.seal_webhook(request).expect("no secret");
    bench.propose(Command::Webhooks(Op::Update, vec![draft])).await;
    bench.wait_until("slow", |hook| hook.progress.delivered == 40).await;
    assert_eq!(slow.got().len(), 41, "the first one again, and in order");

    let index = bench.index().await;
    tokio::time::sleep(3 * WRITE_PAUSE).await;
    assert_eq!(bench.index().await, index, "an idle cluster appends nothing");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_shown_and_tried_again_and_few_entries_write_that_down() {
    let bench = Bench::start().await;
    let receiver = Receiver::start(Manner::Status(503)).await;
    bench.hook("ops", &receiver).await;
    bench.publish(30).await;
    bench.wait_until("ops", |hook| hook.progress.failing_since.is_some()).await;
    assert_eq!(bench.webhook("ops").progress.failed.as_ref().expect("told").1, "answered 503");
    receiver.answer(Manner::Status(200));
    let before = bench.node.state().applied().index;
    bench.wait_until("ops", |hook| hook.progress.delivered == 30).await;
    let entries = bench.node.state().applied().index - before;
    assert!(entries <= 10, "{entries} entries for 30 deliveries");
    let progress = bench.webhook("ops").progress.clone();
    assert_eq!((progress.dropped, progress.failing_since), (0, None));
    let mut seen = ids(&receiver);
    seen.dedup();
    assert!(seen.len() == 30 && seen.is_sorted(), "{seen:?}");
    bench.stop().await;
}

/// A secret sealed with another data key cannot sign on this node.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_cannot_be_read_is_a_failure_that_says_so() {
    let bench = Bench::start().await;
    let receiver = Receiver::start(Manner::Status(200)).await;
    let other = crate::keyring::Keyring::new(DataKey::of_hex(&"b".repeat(64)));
    let request = WebhookRequest { name: "ops".into(), url: Some(receiver.url()), ..WebhookRequest::default() };
    let (draft, _) = other.seal_new_webhook(request).expect("a data key");
    bench.propose(Command::Webhooks(Op::Create, vec![draft])).await;
    bench.publish(1).await;
    bench
        .wait_until("ops", |hook| hook.progress.failed.as_ref().is_some_and(|(_, why)| why.contains("--data-key-file")))
        .await;
    assert_eq!(receiver.connections(), 0);
    bench.stop().await;
}
