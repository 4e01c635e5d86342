//! Streams with their session, in paused time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;

use super::super::testing::FakeSource;
use super::super::{Context, Peer, Session, StreamEnd, View};
use super::*;
use crate::budget::{Budget, Held};
use crate::metrics::Metrics;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::origin::Origin;
use crate::proto::envoy::config::core::v3::Node;
use crate::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use crate::subscribers::Subscribers;

const SHORT: Duration = Duration::from_millis(10);

struct Bench {
    source: Arc<FakeSource>,
    session: Arc<Session<FakeSource>>,
    subscribers: Arc<Subscribers>,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
    kept: Budget,
}

struct Client {
    requests: mpsc::UnboundedSender<Result<DiscoveryRequest, ()>>,
    responses: mpsc::Receiver<Box<DiscoveryResponse>>,
    served: JoinHandle<StreamEnd>,
}

impl Bench {
    fn new(view: FakeView) -> Bench {
        Bench::aging(view, None)
    }

    fn aging(view: FakeView, max_age: Option<Duration>) -> Bench {
        let (source, subscribers) = (FakeSource::of(view), Arc::<Subscribers>::default());
        let (metrics, shutdown) = (Arc::new(Metrics::new().expect("metrics")), CancellationToken::new());
        let context = Context {
            subscribers: subscribers.clone(),
            metrics: metrics.clone(),
            node: "n1".to_owned(),
            max_age,
            shutdown: shutdown.clone(),
            clock: Arc::new(|| Timestamp(7)),
        };
        let session = Arc::new(Session::new(source.clone(), context));
        let kept = Budget::of_streams(Some(1), &metrics);
        Bench { source, session, subscribers, metrics, shutdown, kept }
    }

    fn connect(&self) -> Client {
        let (requests, incoming) = mpsc::unbounded_channel();
        let (outgoing, responses) = mpsc::channel(1);
        let (session, room) = (self.session.clone(), self.room());
        let incoming = UnboundedReceiverStream::new(incoming);
        let served = async move { session.serve_sotw(peer(), room, incoming, outgoing).await };
        Client { requests, responses, served: tokio::spawn(served) }
    }

    fn room(&self) -> Held {
        self.kept.nothing(Origin::UNKNOWN)
    }

    /// Returns the responses of a delta stream with one request.
    fn delta(&self, first: DeltaDiscoveryRequest) -> mpsc::Receiver<Box<DeltaDiscoveryResponse>> {
        let requests = Box::pin(futures_util::StreamExt::chain(stream::iter([Ok::<_, ()>(first)]), stream::pending()));
        let (outgoing, responses) = mpsc::channel(4);
        let (session, room) = (self.session.clone(), self.room());
        tokio::spawn(async move { session.serve_delta(peer(), room, requests, outgoing).await });
        responses
    }

    fn series(&self, line: &str) -> bool {
        String::from_utf8(self.metrics.render()).expect("text").lines().any(|found| found == line)
    }
}

impl Client {
    fn ask(&self, kind: ResourceType, names: &str, nonce: &str) {
        self.send(DiscoveryRequest { response_nonce: nonce.to_owned(), ..request(kind, names) });
    }

    fn send(&self, request: DiscoveryRequest) {
        self.requests.send(Ok(request)).expect("an open stream");
    }

    async fn next(&mut self) -> Option<String> {
        let response = timeout(SHORT, self.responses.recv()).await.ok()??;
        let resources: Vec<_> = response.resources.iter().collect();
        let told = in_short(&response.type_url, &resources, &[], &response.resource_errors);
        Some(format!("{} {told}", response.nonce))
    }
}

fn peer() -> Peer {
    Peer { address: None, origin: Origin::UNKNOWN, read_scope: ReadScope::Everything }
}

fn request(kind: ResourceType, names: &str) -> DiscoveryRequest {
    let node = Node { id: "p-1".to_owned(), user_agent_name: "envoy".to_owned(), ..Node::default() };
    DiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        resource_names: strings(names),
        node: Some(node),
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_goes_out_and_the_register_knows_of_it() {
    let bench = Bench::new(two_services());
    let mut client = bench.connect();
    client.ask(CDS, "", "");
    assert_eq!(client.next().await.as_deref(), Some("1 cds s/a=1 s/b=1"));
    let entry = bench.subscribers.streams().all().remove(0);
    assert_eq!(
        (entry.client.node_id.as_str(), entry.client.since, entry.client.is_delta),
        ("p-1", Timestamp(7), false)
    );
    let delivered = entry.delivered(CDS);
    assert!(delivered.is_subscribed && delivered.in_flight.is_some() && delivered.acked.is_empty());
    assert!(bench.series("thuban_xds_streams{client=\"envoy\",type=\"cds\"} 1"));
    client.ask(CDS, "", "1");
    assert_eq!(client.next().await, None);
    let delivered = entry.delivered(CDS);
    assert!(delivered.in_flight.is_none() && delivered.acked.len() == 2);
    bench.source.change(|view| view.put(CDS, "s/a", "2"));
    assert_eq!(client.next().await.as_deref(), Some("2 cds s/a=2 s/b=1"));
    client.send(DiscoveryRequest {
        response_nonce: "2".to_owned(),
        error_detail: Some(refusal(&format!("s/a: {}", "é".repeat(5000)))),
        ..request(CDS, "")
    });
    assert_eq!(client.next().await, None);
    let refused = entry.delivered(CDS).refused.expect("refused");
    assert_eq!((refused.at, refused.resources.len()), (Timestamp(7), 1));
    assert!(refused.message.len() <= 4096 && refused.message.len() > 4090);
    assert!(bench.series("thuban_xds_nacks_total{client=\"envoy\",type=\"cds\"} 1"));
    assert!(bench.series("thuban_xds_responses_total{client=\"envoy\",type=\"cds\"} 2"));
    drop(client.requests);
    assert_eq!(client.served.await.expect("served"), StreamEnd::Closed);
    assert!(bench.subscribers.streams().all().is_empty());
    assert!(bench.series("thuban_xds_streams{client=\"envoy\",type=\"cds\"} 0"));
}

/// A client that does not read gets the newest state once it reads again.
#[tokio::test(start_paused = true)]
async fn who_reads_nothing_gets_the_newest_state_later() {
    let bench = Bench::new(two_services());
    let mut client = bench.connect();
    for kind in [CDS, EDS] {
        client.ask(kind, if kind == CDS { "" } else { "s/a" }, "");
    }
    for round in 2..100 {
        bench.source.change(|view| view.put(EDS, "s/a", &round.to_string()));
        advance(Duration::from_millis(1)).await;
        assert_eq!(client.responses.len(), 1);
    }
    assert_eq!(client.next().await.as_deref(), Some("1 cds s/a=1 s/b=1"));
    assert_eq!(client.next().await.as_deref(), Some("2 eds s/a=99"));
    assert_eq!(client.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn routes_wait_five_seconds_at_most() {
    let bench = Bench::new(two_services());
    let mut client = bench.connect();
    client.ask(CDS, "", "");
    assert_eq!(client.next().await.as_deref(), Some("1 cds s/a=1 s/b=1"));
    let began = Instant::now();
    client.ask(RDS, "s/a", "");
    let response = client.responses.recv().await.expect("in the end");
    assert_eq!(response.type_url, RDS.type_url());
    assert!(began.elapsed() >= Duration::from_secs(5) && began.elapsed() < Duration::from_millis(5_020));
}

#[tokio::test(start_paused = true)]
async fn who_has_seen_more_is_waited_for_and_then_sent_away() {
    let bench = Bench::new(two_services());
    let named = |index: u64| DiscoveryRequest { version_info: format!("{index}-00000000000000ab"), ..request(CDS, "") };
    let ahead = bench.source.view().index + 1;
    let mut client = bench.connect();
    client.send(named(ahead));
    assert_eq!(client.next().await, None);
    bench.source.change(|view| view.put(CDS, "s/a", "2"));
    assert_eq!(client.next().await.as_deref(), Some("1 cds s/a=2 s/b=1"));
    let client = bench.connect();
    client.send(named(ahead + 1));
    let began = Instant::now();
    assert_eq!(client.served.await.expect("served"), StreamEnd::Behind);
    assert_eq!(began.elapsed().as_secs(), 2);
}

/// The client comes from another cluster, or from this one before it was founded again.
#[tokio::test(start_paused = true)]
async fn who_comes_from_another_cluster_is_sent_everything() {
    let bench = Bench::new(two_services());
    bench.source.set_at_horizon();
    let version = "4711-00000000000000ab";
    let mut client = bench.connect();
    client.send(DiscoveryRequest { version_info: version.to_owned(), ..request(CDS, "") });
    let response = client.responses.recv().await.expect("an answer");
    assert_eq!(response.resources.len(), 2);
    assert!(!response.version_info.starts_with("4711-"), "{}", response.version_info);
    assert_eq!(bench.metrics.foreign_ids.get(), 1);
    let hash = bench.source.view().get(CDS, "s/a").expect("there").version.hash;
    let versions = [("s/a", format!("4711-{hash:016x}")), ("s/gone", version.to_owned())];
    let first = DeltaDiscoveryRequest {
        type_url: CDS.type_url().to_owned(),
        initial_resource_versions: versions.map(|(name, version)| (name.to_owned(), version)).into(),
        ..Default::default()
    };
    let mut responses = bench.delta(first);
    let response = responses.recv().await.expect("an answer");
    assert_eq!((response.resources.len(), response.removed_resources), (2, vec!["s/gone".to_owned()]));
    assert_eq!(bench.metrics.foreign_ids.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn streams_end_when_they_are_old_and_when_the_node_stops() {
    let hour = Duration::from_secs(3600);
    let bench = Bench::aging(two_services(), Some(hour));
    let (silent, client) = (bench.connect(), bench.connect());
    client.ask(CDS, "", "");
    for client in [silent, client] {
        assert_eq!(client.served.await.expect("served"), StreamEnd::Aged);
    }
    let mut ages = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        bench.connect().served.await.expect("served");
        ages.push(began.elapsed());
    }
    assert!(ages.iter().all(|age| *age >= hour * 9 / 10 && *age <= hour * 11 / 10 + SHORT), "{ages:?}");
    ages.dedup();
    assert!(ages.len() > 5, "not all at once");
    let (silent, client) = (bench.connect(), bench.connect());
    client.ask(CDS, "", "");
    advance(SHORT).await;
    bench.shutdown.cancel();
    for client in [silent, client] {
        assert_eq!(client.served.await.expect("served"), StreamEnd::Shutdown);
    }
}

#[tokio::test(start_paused = true)]
async fn streams_end_for_what_their_client_does() {
    let bench = Bench::new(two_services());
    let client = bench.connect();
    client.send(DiscoveryRequest::default());
    assert!(matches!(client.served.await.expect("served"), StreamEnd::Invalid(_)));
    let client = bench.connect();
    let names = (0..10_001).map(|number| format!("s/{number}")).collect();
    client.send(DiscoveryRequest { resource_names: names, ..request(EDS, "") });
    assert!(matches!(client.served.await.expect("served"), StreamEnd::TooMany(_)));
    let client = bench.connect();
    client.requests.send(Err(())).expect("open");
    assert_eq!(client.served.await.expect("served"), StreamEnd::Closed);
    let client = bench.connect();
    drop(client.responses);
    assert_eq!(client.served.await.expect("served"), StreamEnd::Closed);
    bench.source.set_ready(false);
    assert_eq!(bench.connect().served.await.expect("served"), StreamEnd::NotReady);
}

#[tokio::test(start_paused = true)]
async fn delta_is_served_alike() {
    let bench = Bench::new(two_services());
    let first = DeltaDiscoveryRequest { type_url: CDS.type_url().to_owned(), ..Default::default() };
    let mut responses = bench.delta(first);
    let response = responses.recv().await.expect("a response");
    assert_eq!((response.resources.len(), response.nonce.as_str()), (2, "1"));
    assert!(bench.subscribers.streams().all()[0].client.is_delta);
    bench.shutdown.cancel();
    assert!(responses.recv().await.is_none(), "it has ended");
}

/// The memory of streams is charged to the budget of their client and released with them.
#[tokio::test(start_paused = true)]
async fn names_and_labels_take_room_for_as_long_as_they_are_kept() {
    let bench = Bench::new(two_services());
    let many = |names: usize| (0..names).map(|number| format!("s/nothing-{number}")).collect::<Vec<_>>();
    let mut usual = bench.connect();
    usual.ask(CDS, "s/a s/b", "");
    assert!(usual.next().await.is_some());
    let usual_bytes = i64::try_from(limits::XDS_STREAM_BYTES).expect("few");
    assert_eq!(bench.metrics.stream_bytes.get(), usual_bytes, "a usual stream counts as one");
    let mut client = bench.connect();
    client.send(DiscoveryRequest { resource_names: many(5_000), ..request(EDS, "") });
    assert!(client.next().await.is_some());
    let taken = bench.metrics.stream_bytes.get() - 2 * usual_bytes;
    assert!(taken > 5_000 * 100 && taken < 5_000 * 200, "{taken}");
    client.send(DiscoveryRequest { resource_names: many(1_000), response_nonce: "1".to_owned(), ..request(EDS, "") });
    assert_eq!(client.next().await, None);
    assert!((bench.metrics.stream_bytes.get() - 2 * usual_bytes) * 4 < taken);
    let mut clients = vec![client];
    let refused = loop {
        let mut client = bench.connect();
        client.send(DiscoveryRequest { resource_names: many(9_000), ..request(EDS, "") });
        match client.next().await {
            Some(_) => clients.push(client),
            None => break client.served.await.expect("served"),
        }
        assert!(clients.len() < 100, "a third of 32 MiB holds no more");
    };
    assert!(matches!(&refused, StreamEnd::TooMany(text) if text.contains("of one client")), "{refused:?}");
    assert!(bench.metrics.stream_bytes.get() <= bench.metrics.stream_bytes_max.get() / 3);
    for client in clients {
        drop(client.requests);
        client.served.await.expect("served");
    }
    drop(usual.requests);
    usual.served.await.expect("served");
    assert_eq!(bench.metrics.stream_bytes.get(), 0);
}

/// A proxy must request the endpoints of all clusters that it was sent.
#[tokio::test(start_paused = true)]
async fn endpoints_of_the_clusters_of_a_wildcard_are_not_too_many() {
    let mut view = FakeView::default();
    let names: Vec<_> = (0..limits::XDS_NAMES_MAX + 50).map(|number| format!("s/{number}")).collect();
    names.iter().for_each(|name| view.put(CDS, name, "1"));
    let bench = Bench::new(view);
    let mut client = bench.connect();
    client.ask(CDS, "", "");
    assert!(client.next().await.is_some());
    client.send(DiscoveryRequest { resource_names: names.clone(), ..request(EDS, "") });
    assert!(client.next().await.is_some());
    // Endpoints of one cluster for invented localities do count.
    let places = (0..names.len()).map(|place| format!("s/1@{place}"));
    let more = names.iter().cloned().chain(places).collect();
    client.send(DiscoveryRequest { resource_names: more, response_nonce: "2".to_owned(), ..request(EDS, "") });
    assert!(matches!(client.served.await.expect("served"), StreamEnd::TooMany(_)));
    let client = bench.connect();
    client.send(DiscoveryRequest { resource_names: names, ..request(EDS, "") });
    assert!(matches!(client.served.await.expect("served"), StreamEnd::TooMany(_)), "it did not ask for clusters");
}
