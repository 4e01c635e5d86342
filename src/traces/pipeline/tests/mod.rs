use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use opentelemetry::trace::{SpanContext, Status};
use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::with_default;
use tracing_subscriber::layer::SubscriberExt;

use super::super::{RequestInfo, answered, appending, arrived, draft_id, proposing, reading};
use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// Processor that stores ended spans.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanProcessor for Kept {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.lock().push(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Returns the spans recorded by `work` with this share.
fn recorded(share: f64, work: impl FnOnce()) -> Vec<SpanData> {
    let kept = Kept::default();
    let provider = provider(kept.clone());
    with_default(tracing_subscriber::registry().with(layer(&provider, Recorded { share })), work);
    std::mem::take(&mut *kept.0.lock())
}

fn traceparent(trace: &str, flags: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("00-{trace}-{CALLER}-{flags}")).expect("a value");
    HeaderMap::from_iter([("traceparent".parse().expect("a name"), value)])
}

fn arrival<'a>(id: &'a str, headers: &'a HeaderMap) -> RequestInfo<'a> {
    RequestInfo { id, headers, method: Some("POST"), route: Some("/naming/v1/services"), is_frequent: false }
}

fn attribute(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| attribute.value.to_string()).unwrap_or_default()
}

#[test]
fn the_spans_of_a_request_are_one_trace_over_two_nodes() {
    let none = HeaderMap::new();
    let spans = recorded(1.0, || {
        let span = arrived(&arrival(TRACE, &none));
        let draft = span.in_scope(|| {
            drop(reading());
            draft_id(&proposing())
        });
        // The leader, another node, would do this.
        drop(appending(draft, || Some(TRACE.to_owned())));
        answered(&span, StatusCode::SERVICE_UNAVAILABLE);
    });
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(names, ["raft read index", "raft propose", "raft append", "POST /naming/v1/services"]);
    assert!(spans.iter().all(|span| span.span_context.trace_id().to_string() == TRACE), "{spans:?}");
    let [read, propose, append, request] = &spans[..] else { panic!("{spans:?}") };
    let id = |span: &SpanData| span.span_context.span_id();
    assert_eq!(request.parent_span_id, SpanId::INVALID);
    assert_eq!((read.parent_span_id, propose.parent_span_id), (id(request), id(request)));
    assert_eq!((append.parent_span_id, append.parent_span_is_remote), (id(propose), true));
    assert_eq!((&request.span_kind, &append.span_kind), (&SpanKind::Server, &SpanKind::Server));
    assert_eq!(request.status, Status::error(""));
    let words = ["http.request.method", "http.route", "http.response.status_code", "error.type", "request.id"]
        .map(|key| attribute(request, key));
    assert_eq!(words, ["POST", "/naming/v1/services", "503", "503", TRACE]);
    let code = request.attributes.iter().find(|attribute| attribute.key.as_str() == "http.response.status_code");
    assert_eq!(code.map(|code| code.value.clone()), Some(opentelemetry::Value::I64(503)), "a number");
}

#[test]
fn a_caller_says_which_span_is_the_parent_and_whether_it_is_recorded() {
    let begin = |id: &str, headers: &HeaderMap| answered(&arrived(&arrival(id, headers)), StatusCode::OK);
    for (share, flags, count) in [(0.0, "01", 1), (1.0, "01", 1), (0.0, "00", 0), (1.0, "00", 0)] {
        let spans = recorded(share, || begin(TRACE, &traceparent(TRACE, flags)));
        assert_eq!(spans.len(), count, "{share} {flags}");
        for span in spans {
            assert_eq!((span.parent_span_id.to_string(), span.parent_span_is_remote), (CALLER.to_owned(), true));
            assert_eq!(span.status, Status::Unset);
        }
    }
    // The request has an id of its own, so the caller's trace is linked.
    let spans = recorded(1.0, || begin("order-17", &traceparent(TRACE, "01")));
    assert_eq!(spans[0].parent_span_id, SpanId::INVALID);
    assert_eq!(spans[0].links.links[0].span_context.trace_id().to_string(), TRACE);
    assert_ne!(spans[0].span_context.trace_id().to_string(), TRACE);
}

#[test]
fn what_the_vendors_of_a_caller_say_goes_along_on_this_node() {
    let mut headers = traceparent(TRACE, "01");
    for part in ["rojo=1", " congo=2,"] {
        headers.append("tracestate", HeaderValue::from_static(part));
    }
    let state = |context: &SpanContext| context.trace_state().header();
    let spans = recorded(0.0, || {
        let draft = arrived(&arrival(TRACE, &headers)).in_scope(|| draft_id(&proposing()));
        drop(appending(draft, || Some(TRACE.to_owned())));
    });
    let states: Vec<_> = spans.iter().map(|span| (span.name.as_ref(), state(&span.span_context))).collect();
    let told = "rojo=1,congo=2".to_owned();
    let here = [("raft propose", told.clone()), ("POST /naming/v1/services", told.clone())];
    assert_eq!(states, [&here[..], &[("raft append", String::new())]].concat());

    // With an id of its own, the request links to the caller's span and its trace state.
    let spans = recorded(1.0, || drop(arrived(&arrival("order-17", &headers))));
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((state(&span.span_context), state(&span.links.links[0].span_context)), (String::new(), told));
    // A trace state without a parent is ignored.
    headers.remove("traceparent");
    let spans = recorded(1.0, || drop(arrived(&arrival(TRACE, &headers))));
    assert_eq!(state(&spans[0].span_context), "");
}

#[test]
fn what_is_not_recorded_on_one_node_is_not_on_the_next_one() {
    let none = HeaderMap::new();
    let spans = recorded(0.0, || {
        let request = arrived(&arrival(TRACE, &none));
        let propose = request.in_scope(proposing);
        assert!(request.is_disabled() && propose.is_disabled(), "nothing begins that is not recorded");
        drop(appending(draft_id(&propose), || Some(TRACE.to_owned())));
    });
    assert!(spans.is_empty(), "{spans:?}");
    let spans = recorded(1.0, || {
        // Work without a request.
        assert!(proposing().is_disabled() && reading().is_disabled());
        drop(appending(draft_id(&proposing()), || Some(TRACE.to_owned())));
        drop(appending(rand::random(), || Some(TRACE.to_owned())));
        drop(appending(draft_id(&proposing()), || None));
    });
    assert!(spans.is_empty(), "{spans:?}");
}

#[test]
fn what_is_frequent_is_recorded_where_the_caller_does() {
    for (headers, count) in [
        (HeaderMap::new(), 0),
        (traceparent(TRACE, "00"), 0),
        (traceparent("x", "01"), 0),
        (traceparent(TRACE, "01"), 1),
    ] {
        let frequent = RequestInfo { is_frequent: true, ..arrival(TRACE, &headers) };
        assert_eq!(recorded(1.0, || drop(arrived(&frequent))).len(), count, "{headers:?}");
    }
}

#[test]
fn the_share_is_decided_by_the_trace_alone() {
    let none = HeaderMap::new();
    let sampled = |share: f64| -> Vec<String> {
        let ids = (0..500).map(|number| format!("request-{number}"));
        let spans = recorded(share, || ids.for_each(|id| drop(arrived(&arrival(&id, &none)))));
        spans.iter().map(|span| attribute(span, "request.id")).collect()
    };
    let (all, half, tenth) = (sampled(1.0), sampled(0.5), sampled(0.1));
    assert_eq!((all.len(), sampled(0.0).len()), (500, 0));
    assert_eq!((&half, &tenth), (&sampled(0.5), &sampled(0.1)), "the same ones each time");
    assert!((180..320).contains(&half.len()) && (20..90).contains(&tenth.len()), "{} {}", half.len(), tenth.len());
    assert!(tenth.iter().all(|id| half.contains(id)));
}

#[test]
fn what_the_log_says_does_not_go_to_the_collector() {
    let none = HeaderMap::new();
    let spans = recorded(1.0, || {
        arrived(&arrival(TRACE, &none)).in_scope(|| {
            tracing::error!(password = "secret", "said to the log");
            tracing::info_span!("of another place", token = "secret").in_scope(|| drop(proposing()));
        });
    });
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert!(!format!("{spans:?}").contains("secret"), "{spans:?}");
    assert_eq!(spans[0].parent_span_id, spans[1].span_context.span_id(), "through what is not sent");
}

/// The subscriber is that of `RUST_LOG=debug` without a collector.
#[test]
fn spans_for_the_log_alone_leave_no_mark() {
    with_default(tracing_subscriber::registry().with(LevelFilter::TRACE), || {
        let span = arrived(&arrival(TRACE, &traceparent(TRACE, "01")));
        assert!(!span.is_disabled());
        let draft = span.in_scope(|| draft_id(&proposing()));
        assert!(appending(draft, || Some(TRACE.to_owned())).is_disabled());
        answered(&span, StatusCode::OK);
    });
}
