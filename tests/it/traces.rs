//! Traces: an OTLP collector receives the spans of a request from every node involved, and no request depends on the
//! collector's state.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{
    ADMIN_PASSWORD, Answer, Api, CLUSTER_SECRET, Cluster, Collector, Mood, Pki, Span, eventually, report,
};

const SENT_WITHIN: Duration = Duration::from_secs(15);
const SERVICES: &str = "/naming/v1/services";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

async fn ask(api: &Api, method: Method, path: &str, headers: &[(&str, &str)], body: Option<Value>) -> Answer {
    let request =
        headers.iter().fold(api.request(method, path), |request, (name, value)| request.header(*name, *value));
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    Answer::read(request).await.expect("an answer")
}

fn service(name: &str) -> Value {
    json!([{"namespace": "traced", "name": name}])
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn has(spans: &[Span], name: &str) -> bool {
    !named(spans, name).is_empty()
}

#[track_caller]
fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    match named(spans, name)[..] {
        [one] => one,
        _ => panic!("not one {name}: {spans:#?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_by_a_follower_is_one_trace_of_two_nodes() {
    let collector = Collector::start().await;
    let cluster = Cluster::start_with(3, &["--otlp-endpoint", &collector.endpoint()]).await;
    let (leader, follower) = (cluster.leader().await, cluster.followers().await[0]);
    let api = cluster.api(follower);
    let content = "of-the-file: what nobody else is to read";
    api.publish("traced", "g", "f.yaml", content).await;

    let answer = api.post(SERVICES, &service("pay")).await.expect_code(200_000);
    let id = answer.header("request-id").to_owned();
    let spans = collector.trace(&id, SENT_WITHIN, |spans| spans.len() >= 3).await;
    let (request, propose, append) =
        (one(&spans, "POST /naming/v1/services"), one(&spans, "raft propose"), one(&spans, "raft append"));
    assert_eq!(spans.len(), 3, "{spans:#?}");
    assert_eq!((&request.node, &propose.node), (&follower.to_string(), &follower.to_string()));
    assert_eq!(append.node, leader.to_string());
    assert_eq!((request.parent.as_str(), &propose.parent, &append.parent), ("", &request.id, &propose.id));
    assert_eq!((request.kind, propose.kind, append.kind), (2, 1, 2));
    assert!(request.began <= propose.began && propose.ended <= request.ended, "{spans:#?}");
    let words = ["http.request.method", "http.route", "http.response.status_code", "request.id"];
    assert_eq!(words.map(|key| request.attribute(key)), ["POST", SERVICES, "200", &id]);
    assert!(append.attribute("raft.log_index").parse::<u64>().is_ok_and(|index| index > 0), "{append:?}");
    assert!(spans.iter().all(|span| !span.is_error), "{spans:#?}");

    // The leader needs no other node, and an id that is no trace id is converted to one.
    let answer =
        ask(&cluster.api(leader), Method::POST, SERVICES, &[("Request-Id", "order-17")], Some(service("a"))).await;
    assert_eq!((answer.code(), answer.header("request-id")), (200_000, "order-17"));
    let hashed = "72a90ea3da8b5dd01bde2f27314e02e2";
    let spans = collector.trace(hashed, SENT_WITHIN, |spans| has(spans, "POST /naming/v1/services")).await;
    assert_eq!(one(&spans, "POST /naming/v1/services").attribute("request.id"), "order-17");
    assert!(has(&spans, "raft propose") && !has(&spans, "raft append"), "{spans:#?}");

    // A read waits for the leader, and the query string is not exported.
    let answer = api.get("/naming/v1/services?name=never-told-name").await.expect_code(200_000);
    let read = |spans: &[Span]| has(spans, "GET /naming/v1/services");
    let spans = collector.trace(answer.header("request-id"), SENT_WITHIN, read).await;
    assert_eq!(one(&spans, "raft read index").parent, one(&spans, "GET /naming/v1/services").id);
    let answer = api.get("/no/such/never-told-path").await;
    let spans = collector.trace(answer.header("request-id"), SENT_WITHIN, |spans| has(spans, "GET")).await;
    assert_eq!(one(&spans, "GET").attribute("http.response.status_code"), "404");

    let bytes = collector.bytes();
    let text = String::from_utf8_lossy(&bytes);
    for secret in [ADMIN_PASSWORD, CLUSTER_SECRET, cluster.token(), "never-told", "nobody else"] {
        assert!(!text.contains(secret), "{secret} was told to the collector");
    }
    assert!(text.contains("/auth/v1/user/login"), "the login itself is told of");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_with_a_trace_of_its_own_finds_the_request_in_it() {
    let collector = Collector::start().await;
    let cluster = Cluster::start_with(3, &["--otlp-endpoint", &collector.endpoint(), "--otlp-sample", "0"]).await;
    let follower = cluster.followers().await[0];
    let (api, compat) = (cluster.api(follower), Api::new(cluster.ports(follower).compat));
    cluster.api(follower).publish("default", "app", "application", "k=1").await;
    let traceparent = |trace: &str, flags: &str| format!("00-{trace}-{CALLER}-{flags}");

    // Recorded by the caller, so here and on the leader, although the share of this cluster is none.
    let told = traceparent(TRACE, "01");
    for name in ["one", "two"] {
        let headers = [("traceparent", told.as_str()), ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")];
        let answer = ask(&api, Method::POST, SERVICES, &headers, Some(service(name))).await;
        assert_eq!((answer.code(), answer.header("request-id")), (200_000, TRACE));
    }
    let headers = [("traceparent", told.as_str()), ("tracestate", "Not what the standard has")];
    let pulled = ask(&compat, Method::GET, "/configs/app/default/application", &headers, None).await;
    assert_eq!((pulled.status, pulled.header("request-id")), (200, TRACE));
    let spans = collector.trace(TRACE, SENT_WITHIN, |spans| spans.len() >= 7).await;
    let (requests, proposals) = (named(&spans, "POST /naming/v1/services"), named(&spans, "raft propose"));
    assert!(requests.len() == 2 && requests.iter().all(|span| span.parent == CALLER), "{spans:#?}");
    let is_told = |span: &&Span| span.state == "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";
    assert!(requests.iter().chain(&proposals).all(is_told), "{spans:#?}");
    for append in named(&spans, "raft append") {
        assert!(proposals.iter().any(|span| span.id == append.parent && span.node != append.node), "{spans:#?}");
    }
    let pull = spans.iter().find(|span| span.name.starts_with("GET /configs/")).expect("the pull");
    assert_eq!((pull.parent.as_str(), pull.state.as_str()), (CALLER, ""));

    // A request with a name of its own keeps it, and points to the caller's trace; that one decides nothing then.
    let headers = [("traceparent", told.as_str()), ("Request-Id", "f00000000000000000000000000000f0")];
    let answer = ask(&api, Method::POST, SERVICES, &headers, Some(service("three"))).await;
    assert_eq!(answer.header("request-id"), headers[1].1);
    // Neither these: not recorded by the caller, or no trace at all.
    let (unrecorded, twice) = ("1".repeat(32), "2".repeat(32));
    let answer =
        ask(&api, Method::POST, SERVICES, &[("traceparent", &traceparent(&unrecorded, "00"))], Some(service("four")))
            .await;
    assert_eq!(answer.header("request-id"), unrecorded);
    for wrong in [traceparent(&"0".repeat(32), "01"), traceparent(&twice, "1"), "x".repeat(4000)] {
        let answer = ask(&api, Method::POST, SERVICES, &[("traceparent", &wrong)], Some(service("five"))).await;
        assert!(answer.header("request-id").len() == 32 && !wrong.contains(answer.header("request-id")), "{answer}");
    }
    let pulled = ask(&compat, Method::GET, "/configs/app/default/application", &[], None).await;
    assert_eq!(pulled.status, 200);
    // One more exported span, so that those before it have arrived.
    let last = "3".repeat(32);
    ask(&api, Method::POST, SERVICES, &[("traceparent", &traceparent(&last, "01"))], Some(service("six"))).await;
    collector.trace(&last, SENT_WITHIN, |spans| spans.len() == 3).await;
    let others: Vec<_> =
        collector.spans().into_iter().filter(|span| ![TRACE, &last].contains(&span.trace.as_str())).collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_all_the_time_is_not_told_of() {
    let collector = Collector::start().await;
    let cluster = Cluster::start_with(1, &["--otlp-endpoint", &collector.endpoint()]).await;
    let (api, apollo) = (cluster.api(1), cluster.apollo(1));
    api.publish("default", "app", "application", "k=1").await;
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(api.health(path).await.expect("an answer").0, 200);
    }
    assert_eq!(apollo.config("app", "default", "application").await["configurations"]["k"], "1");
    let headers = [("traceparent", &*format!("00-{TRACE}-{CALLER}-01")), ("Request-Id", "a-name")];
    ask(&api, Method::POST, SERVICES, &headers, Some(service("last"))).await;
    let is_last = |span: &Span| span.attribute("request.id") == "a-name";
    eventually(SENT_WITHIN, "the last request is told of", || async {
        if collector.spans().iter().any(is_last) { Ok(()) } else { Err(format!("{:#?}", collector.spans())) }
    })
    .await;
    let spans = collector.spans();
    let last = spans.iter().find(|span| is_last(span)).expect("it was there");
    assert_eq!((last.parent.as_str(), &last.links[..]), ("", &[TRACE.to_owned()][..]));
    for span in &spans {
        let is_frequent = ["livez", "readyz", "metrics", "configs"].iter().any(|word| span.name.contains(word));
        assert!(!is_frequent, "{span:#?}");
    }
    // Work without a request, such as that of a leader, is in no trace.
    let asked: Vec<_> = spans.iter().filter(|span| span.kind == 2).map(|span| &span.trace).collect();
    assert!(spans.iter().all(|span| asked.contains(&&span.trace)), "{spans:#?}");
}

fn lines_of(log: &Path, words: &str) -> usize {
    let text = std::fs::read_to_string(log).expect("a log");
    text.lines().filter(|line| line.contains(words)).count()
}

/// Waits until the log has `count` lines with these words: spans are counted a moment before.
async fn expect_lines(log: &Path, words: &str, count: usize) {
    eventually(SENT_WITHIN, &format!("{count} lines of log say {words:?}"), || async {
        let found = lines_of(log, words);
        if found == count { Ok(()) } else { Err(format!("{found} do")) }
    })
    .await;
}

/// The spans of a node by what became of them.
async fn counted(api: &Api, outcome: &str) -> f64 {
    let series = format!("thuban_otlp_spans_total{{outcome=\"{outcome}\"}}");
    api.metric(&series).await.expect("a counter from the start on")
}

/// Writes until `is_enough`; the longest that one took.
async fn write_until(api: &Api, name: &str, is_enough: impl AsyncFn() -> bool) -> Duration {
    let (deadline, mut longest, mut number) = (Instant::now() + Duration::from_secs(60), Duration::ZERO, 0);
    while !is_enough().await {
        assert!(Instant::now() < deadline, "it never was enough");
        let writes = (0..20).map(|_| {
            number += 1;
            let body = service(&format!("{name}-{number}"));
            async move {
                let begun = Instant::now();
                api.post(SERVICES, &body).await.expect_code(200_000);
                begun.elapsed()
            }
        });
        longest = join_all(writes.collect::<Vec<_>>()).await.into_iter().max().unwrap_or_default().max(longest);
    }
    longest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_two_lines_of_log() {
    let mut collector = Collector::away();
    let mut cluster = Cluster::start_with(1, &["--otlp-endpoint", &collector.endpoint()]).await;
    let (api, log) = (cluster.api(1), cluster.log(1));
    // Two batches are given up.
    let longest = write_until(&api, "away", async || counted(&api, "failed").await >= 1024.0).await;
    report(format!("the slowest of the writes while no collector was there took {longest:?}"));
    assert_eq!((lines_of(&log, "accepts no traces"), lines_of(&log, "accepts traces again")), (1, 0));

    // Ill, in two ways, and then well.
    collector.set_mood(Mood::Answers(503));
    collector.come().await;
    let failed = counted(&api, "failed").await;
    write_until(&api, "ill", async || counted(&api, "failed").await > failed).await;
    collector.set_mood(Mood::Answers(400));
    let failed = counted(&api, "failed").await;
    write_until(&api, "refused", async || counted(&api, "failed").await > failed).await;
    assert_eq!(counted(&api, "exported").await, 0.0);
    collector.set_mood(Mood::Takes);
    write_until(&api, "well", async || counted(&api, "exported").await > 0.0).await;
    let answer = api.post(SERVICES, &service("last")).await.expect_code(200_000);
    collector.trace(answer.header("request-id"), SENT_WITHIN, |spans| spans.len() == 2).await;
    assert_eq!((lines_of(&log, "accepts no traces"), lines_of(&log, "accepts traces again")), (1, 1));

    // What ended last is sent before the process ends.
    let answer = api.post(SERVICES, &service("at-the-end")).await.expect_code(200_000);
    assert!(cluster.terminate(1).await.success());
    collector.trace(answer.header("request-id"), Duration::ZERO, |spans| spans.len() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_holds_up_neither_writes_nor_the_end() {
    let collector = Collector::start().await;
    collector.set_mood(Mood::Hangs);
    let mut cluster = Cluster::start_with(1, &["--otlp-endpoint", &collector.endpoint()]).await;
    let api = cluster.api(1);
    let longest = write_until(&api, "hangs", async || counted(&api, "dropped").await > 0.0).await;
    report(format!("the slowest of the writes while the collector hung took {longest:?}"));
    assert!(collector.posts() > 0);
    let told = Instant::now();
    assert!(cluster.terminate(1).await.success());
    report(format!("a node whose collector hangs ended {:?} after SIGTERM", told.elapsed()));
    assert_eq!(lines_of(&cluster.log(1), "failed to send the last traces in time"), 1);
}

const TOKEN: &str = "b1946ac92492d2347c6235b4d2611184";

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_open_to_all_is_shown_a_token_and_nobody_else_is() {
    let pki = Pki::new().await;
    let collector = Collector::start_secure(&pki).await;
    let (endpoint, ca, headers) = (collector.endpoint(), pki.path("ca.pem"), pki.path("headers"));
    let files = ["--otlp-ca-file", &ca, "--otlp-headers-file", &headers];
    let others = ["--otlp-endpoint", &endpoint, "--otlp-compression", "gzip"];
    let mut cluster = Cluster::prepare(1, &[files, others].concat());
    let loud = "info,hyper_util=trace,reqwest=trace,rustls=trace";
    cluster.set_environment(1, vec![("RUST_LOG".to_owned(), loud.to_owned())]);
    let put = |text: String| std::fs::write(&headers, text).expect("writable");

    put(format!("x-scope-orgid: ops\nBearer {TOKEN}\n"));
    let refused = cluster.launch(1).await.err().expect("it does not start with headers that are none");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.log.contains("--otlp-headers-file") && refused.log.contains("line 2 is not"), "{refused:?}");

    put(format!("# for traces\n\nAuthorization: Bearer {TOKEN}\nx-scope-orgid: ops\n"));
    cluster.restart_all().await;
    cluster.log_in_again().await;
    let api = cluster.api(1);
    let answer = api.post(SERVICES, &service("secured")).await.expect_code(200_000);
    let spans = collector.trace(answer.header("request-id"), SENT_WITHIN, |spans| spans.len() == 2).await;
    assert_eq!(one(&spans, "raft propose").parent, one(&spans, "POST /naming/v1/services").id);
    let bearer = |token: &str| format!("Bearer {token}");
    for head in collector.heads() {
        let shown = ["authorization", "x-scope-orgid", "content-encoding", "user-agent"].map(|name| &head[name]);
        let agent = concat!("thuban/", env!("CARGO_PKG_VERSION"));
        assert_eq!(shown, [bearer(TOKEN).as_str(), "ops", "gzip", agent]);
    }

    // The collector asks for another one: the node finds it in the file.
    let next = TOKEN.chars().rev().collect::<String>();
    put(format!("authorization: Bearer {next}"));
    collector.set_mood(Mood::Answers(401));
    let failed = counted(&api, "failed").await;
    write_until(&api, "refused", async || counted(&api, "failed").await > failed).await;
    expect_lines(&cluster.log(1), "answered 401", 1).await;
    collector.set_mood(Mood::Takes);
    let exported = counted(&api, "exported").await;
    write_until(&api, "taken", async || counted(&api, "exported").await > exported).await;
    assert_eq!(collector.heads().last().expect("posts")["authorization"], bearer(&next));

    let (log, metrics) = (std::fs::read_to_string(cluster.log(1)).expect("a log"), api.health("/metrics").await);
    assert!(log.contains("starting new connection"), "the log tells of what it never does else");
    for text in [log, metrics.expect("metrics").1, String::from_utf8_lossy(&collector.bytes()).into_owned()] {
        assert!(!text.contains(TOKEN) && !text.contains(&next), "a token was told of");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_nobody_vouches_for_gets_nothing() {
    let (pki, other) = (Pki::new().await, Pki::new().await);
    let collector = Collector::start_secure(&pki).await;
    let endpoint = collector.endpoint();
    let endpoint = ["--otlp-endpoint", &endpoint];
    let mut cluster = Cluster::prepare(1, &endpoint);
    // In the place of those that this machine trusts.
    cluster.set_environment(1, vec![("SSL_CERT_FILE".to_owned(), other.path("ca.pem"))]);
    cluster.restart_all().await;
    cluster.log_in_again().await;
    let (api, log) = (cluster.api(1), cluster.log(1));
    write_until(&api, "unknown", async || counted(&api, "failed").await > 0.0).await;
    assert_eq!((collector.posts(), counted(&api, "exported").await), (0, 0.0));
    let why = "accepts no traces; spans are lost until it does why=\"cannot connect: invalid peer certificate";
    expect_lines(&log, why, 1).await;

    // The file counts alone, and is read again while the collector does not take anything.
    let file = other.path("of-the-collector.pem");
    let trust = |pki: &Pki| std::fs::copy(pki.ca(), &file).expect("copied");
    trust(&other);
    assert!(cluster.terminate(1).await.success());
    cluster.set_environment(1, vec![("SSL_CERT_FILE".to_owned(), pki.path("ca.pem"))]);
    cluster.set_options(&[endpoint, ["--otlp-ca-file", &file]].concat());
    cluster.restart(1).await;
    write_until(&api, "another", async || counted(&api, "failed").await > 0.0).await;
    expect_lines(&log, why, 2).await;
    assert_eq!(collector.posts(), 0);
    trust(&pki);
    write_until(&api, "known", async || counted(&api, "exported").await > 0.0).await;
    expect_lines(&log, "accepts traces again", 1).await;
}
