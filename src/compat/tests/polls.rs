//! `/notifications/v2`: contents and timing of answers, and misbehaving clients.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

use super::*;
use crate::reads::repeat_limiter::FLOOR;

const ACCURACY: Duration = Duration::from_millis(10);

/// Returns names and ids of an answer, in the order of the names.
fn names_and_ids(got: &Got) -> Vec<(String, u64)> {
    assert_eq!(got.status, StatusCode::OK, "{}", got.text());
    let body = got.json();
    let entries = body.as_array().expect("an array");
    let name = |entry: &serde_json::Value| entry["namespaceName"].as_str().expect("a name").to_owned();
    let mut told: Vec<_> =
        entries.iter().map(|entry| (name(entry), entry["notificationId"].as_u64().expect("an id"))).collect();
    told.sort();
    told
}

fn news(items: &[(&str, u64)]) -> Vec<(String, u64)> {
    items.iter().map(|(name, id)| (name.to_string(), *id)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_released_is_told_at_once() {
    let served = Served::new();
    served.source.publish("default", "application", "a=1");
    let asked = Instant::now();
    let got = served.poll(&list(&[("application", -1)])).await;
    assert_eq!(
        got.text(),
        r#"[{"namespaceName":"application","notificationId":1,"messages":{"details":{"app+default+application":1}}}]"#
    );
    assert_eq!(got.header("content-type"), Some("application/json;charset=UTF-8"));
    assert_eq!(asked.elapsed(), Duration::ZERO);
    assert_eq!((served.ended("changed"), served.metrics.polls_held.get()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn everything_newer_is_told_in_one_answer() {
    let served = Served::new();
    for file in ["a", "b.yml", "c", "A.properties"] {
        served.source.publish("default", file, "");
    }
    type Items<Id> = &'static [(&'static str, Id)];
    let table: &[(Items<i64>, Items<u64>)] = &[
        (&[("a", -1), ("b.yml", 0), ("c", 3)], &[("a", 4), ("b.yml", 2)]),
        (&[("a", 3), ("b.yml", 2), ("c", 3)], &[("a", 4)]),
        // Several spellings of one file: the lowest id counts, under its own spelling.
        (&[("a", 2), ("A.properties", 1)], &[("A.properties", 4)]),
        (&[("a", 1), ("A.properties", 2)], &[("a", 4)]),
        // Names as sent, whatever the stored spelling is.
        (&[("C.PROPERTIES", 0), ("B.yml", 0)], &[("B.yml", 2), ("C.PROPERTIES", 3)]),
    ];
    for (wanted, expected) in table {
        assert_eq!(names_and_ids(&served.poll(&list(wanted)).await), news(expected), "{wanted:?}");
    }
    let got = served.poll(&list(&[("C.PROPERTIES", 0)])).await.json();
    assert_eq!(got[0]["messages"]["details"], json!({"app+default+C.PROPERTIES": 3}));
}

#[tokio::test(start_paused = true)]
async fn a_publish_answers_the_held_poll_with_what_changed() {
    let served = Served::new();
    for file in ["a", "b", "c"] {
        served.source.publish("default", file, "");
    }
    let poll = served.held(&list(&[("a", 1), ("b", 2), ("c", 3)])).await;
    assert_eq!(served.metrics.polls_held.get(), 1);
    sleep(Duration::from_secs(10)).await;
    let published = Instant::now();
    served.source.publish("default", "b", "v=2");
    assert_eq!(names_and_ids(&poll.await.expect("answered")), news(&[("b", 4)]));
    assert_eq!(published.elapsed(), Duration::ZERO);
    assert_eq!((served.source.hub().waiters(), served.metrics.polls_held.get()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_change_between_two_polls_is_told_by_the_second() {
    let served = Served::new();
    let poll = served.held(&list(&[("a", -1), ("b", -1)])).await;
    served.source.publish("default", "a", "");
    let first = names_and_ids(&poll.await.expect("answered"));
    assert_eq!(first, news(&[("a", 1)]));
    served.source.publish("default", "b", "");
    let asked = Instant::now();
    assert_eq!(names_and_ids(&served.poll(&list(&[("a", 1), ("b", -1)])).await), news(&[("b", 2)]));
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn no_change_is_304_at_the_end_of_the_hold() {
    let served = Served::new();
    served.source.publish("default", "application", "");
    let mut holds = Vec::new();
    for app_and_names in [list(&[("application", 1)]), list(&[("unknown", -1)]), list(&[("application", 99), ("x", 0)])]
    {
        let asked = Instant::now();
        let got = served.held(&app_and_names).await.await.expect("answered");
        assert_eq!((got.status, got.body.len()), (StatusCode::NOT_MODIFIED, 0));
        assert_eq!((got.header("content-type"), got.header("connection")), (None, None));
        holds.push(asked.elapsed());
    }
    for hold in &holds {
        assert!(*hold <= HOLD + ACCURACY && *hold >= HOLD.mul_f64(0.95), "{hold:?}");
    }
    assert_eq!(served.ended("unchanged"), holds.len() as u64);
    assert_eq!(served.source.hub().waiters(), 0);
}

#[tokio::test(start_paused = true)]
async fn unknown_apps_are_held_and_hear_of_their_first_release() {
    let served = Served::new();
    let got = tokio::spawn({
        let (router, peer) = (served.router.clone(), SocketAddr::from(([192, 0, 2, 1], 1)));
        let target = "/notifications/v2?appId=nobody&cluster=x&notifications=[{%22namespaceName%22:%22a%22}]";
        async move { ask(router, Method::GET, target, &[], peer).await.status }
    });
    let poll = served.held(&list(&[("first", -1)])).await;
    served.source.publish("default", "first.properties", "");
    assert_eq!(names_and_ids(&poll.await.expect("answered")), news(&[("first", 1)]));
    assert_eq!(got.await.expect("answered"), StatusCode::NOT_MODIFIED);
}

#[tokio::test(start_paused = true)]
async fn the_whole_chain_wakes_and_nothing_else_does() {
    let table = [
        ("&cluster=c1&dataCenter=sz", "c1", true),
        ("&cluster=c1&dataCenter=sz", "sz", true),
        ("&cluster=c1&dataCenter=sz", "default", true),
        ("&cluster=c1", "default", true),
        ("&cluster=c1", "sz", false),
        ("&cluster=default", "c1", false),
        ("&cluster=C1", "c1", false),
    ];
    for (rest, namespace, wakes) in table {
        let served = Served::new();
        let poll = served.held_with(&list(&[("application", -1)]), rest).await;
        served.source.publish(namespace, "other", "");
        served.source.publish(namespace, "Application", "");
        let got = poll.await.expect("answered");
        let expected = if wakes { StatusCode::OK } else { StatusCode::NOT_MODIFIED };
        assert_eq!(got.status, expected, "{rest} {namespace}");
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_and_gray_releases_are_told_too() {
    let served = Served::new();
    served.source.publish("default", "application", "who=all");
    let changes: [&dyn Fn(&Fake); 3] = [
        &|source| source.publish_gray("application", "who=gray", ("zone", "eu")),
        &|source| source.stop_gray("application"),
        &|source| source.delete("default", "application"),
    ];
    for (known, change) in (1..).zip(changes) {
        let poll = served.held(&list(&[("application", known)])).await;
        change(&served.source);
        assert_eq!(names_and_ids(&poll.await.expect("answered")), news(&[("application", known as u64 + 1)]));
    }
    // The id remains after the deletion, for late polls.
    assert_eq!(names_and_ids(&served.poll(&list(&[("application", 1)])).await), news(&[("application", 4)]));
}

#[tokio::test(start_paused = true)]
async fn a_gray_publish_wakes_all_and_changes_what_some_pull() {
    let served = Served::new();
    served.source.publish("default", "application", "who=all");
    let poll = served.held(&list(&[("application", 1)])).await;
    served.source.publish_gray("application", "who=gray", ("zone", "eu"));
    names_and_ids(&poll.await.expect("answered"));
    let target = "/configs/app/default/application?releaseKey=default-app-application-1";
    assert_eq!(served.get(target).await.status, StatusCode::NOT_MODIFIED);
    let matched = served.get(&format!("{target}&label=zone%3Deu")).await;
    assert_eq!(matched.json()["configurations"], json!({"who": "gray"}));
}

#[tokio::test(start_paused = true)]
async fn a_suffix_in_the_request_settles() {
    let served = Served::new();
    served.source.publish("default", "application", "");
    let first = names_and_ids(&served.poll(&list(&[("application.properties", -1)])).await);
    assert_eq!(first, news(&[("application.properties", 1)]));
    let got = served.held(&list(&[("application.properties", 1)])).await.await.expect("answered");
    assert_eq!(got.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test(start_paused = true)]
async fn queries_are_taken_as_clients_write_them() {
    let served = Served::new();
    served.source.publish("default", "application", "");
    for notifications in [
        "%5B%7B%22namespaceName%22%3A%22application%22%2C%22notificationId%22%3A-1%7D%5D",
        "%5B%7B%22namespaceName%22%3A+%22application%22%2C+%22notificationId%22%3A+-1%7D%5D",
        "%5B%7B%22namespaceName%22%3A%20%22application%22%7D%5D",
        "[{%22namespaceName%22:%22application%22,%22notificationId%22:-1}]",
    ] {
        let got = served
            .get(&format!("/notifications/v2?&ip=1&appId=app&&cluster=default&notifications={notifications}"))
            .await;
        assert_eq!(names_and_ids(&got), news(&[("application", 1)]), "{notifications}");
    }
}

#[tokio::test(start_paused = true)]
async fn bad_polls_are_refused_but_never_at_once() {
    let served = Served::new();
    let good = list(&[("application", -1)]);
    let many = list(&(0..201).map(|n| (["x"; 201][n], n as i64)).collect::<Vec<_>>());
    assert!(served.held(&many).await.await.is_ok(), "201 times one name is one name");
    let names: Vec<_> = (0..201).map(|n| format!("n{n}")).collect();
    let many = list(&names.iter().map(|name| (name.as_str(), -1)).collect::<Vec<_>>());
    let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let table = [
        "appId=app&cluster=default".to_owned(),
        "appId=app&cluster=default&notifications=".to_owned(),
        "appId=app&cluster=default&notifications=%5B%5D".to_owned(),
        "appId=app&cluster=default&notifications=null".to_owned(),
        "appId=app&cluster=default&notifications=%7B%7D".to_owned(),
        format!("appId=app&cluster=default&notifications={}", encode(&many)),
        format!("appId=app&notifications={}", encode(&good)),
        format!("cluster=default&notifications={}", encode(&good)),
        format!("appId=&cluster=default&notifications={}", encode(&good)),
        format!("appId=a%20b&cluster=default&notifications={}", encode(&good)),
    ];
    for query in &table {
        for _ in 0..2 {
            let asked = Instant::now();
            let got = served.get(&format!("/notifications/v2?{query}")).await;
            assert_eq!(got.status, StatusCode::BAD_REQUEST, "{query}");
            assert_eq!(members(&got.json()), ["exception", "message", "status", "timestamp"], "{query}");
            assert!(asked.elapsed().abs_diff(FLOOR) < ACCURACY, "{query}");
        }
    }
    assert_eq!(served.ended("refused"), 2 * table.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn an_empty_cluster_is_the_default() {
    let served = Served::new();
    served.source.publish("default", "application", "");
    let target = poll_target(&list(&[("application", -1)]), "&cluster=&dataCenter=");
    let got = served.get(&target).await;
    assert_eq!(got.json()[0]["messages"]["details"], json!({"app+default+application": 1}), "{}", got.text());
    served.source.publish("east", "application", "");
    let target = poll_target(&list(&[("application", 1)]), "&cluster=&dataCenter=east");
    assert_eq!(names_and_ids(&served.get(&target).await), news(&[("application", 2)]));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_poll_meets_the_floor_and_news_do_not() {
    let served = Served::new();
    served.source.publish("default", "application", "");
    let peer = SocketAddr::from(([192, 0, 2, 1], 1));
    let same = poll_target(&list(&[("application", -1)]), "&cluster=default");
    let asked = Instant::now();
    for repeat in 0..5 {
        let got = served.ask(Method::GET, &same, &[], peer).await;
        assert_eq!(names_and_ids(&got), news(&[("application", 1)]));
        assert!(asked.elapsed().abs_diff(FLOOR * repeat) < ACCURACY * 5, "repeat {repeat}");
    }
    // Another client, or another request of the same client, is no repeat.
    let asked = Instant::now();
    served.poll(&list(&[("application", -1)])).await;
    let other = poll_target(&list(&[("application", 0)]), "&cluster=default");
    served.ask(Method::GET, &other, &[], peer).await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
    // A change is answered at once, even while an equal request waits for the minimum interval.
    let (router, target) = (served.router.clone(), same.clone());
    let waiting = tokio::spawn(async move { ask(router, Method::GET, &target, &[], peer).await });
    sleep(FLOOR / 4).await;
    assert!(!waiting.is_finished());
    served.source.publish("default", "application", "a=2");
    assert_eq!(names_and_ids(&waiting.await.expect("answered")), news(&[("application", 2)]));
    assert_eq!(asked.elapsed().as_millis(), (FLOOR / 4).as_millis());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_learns_is_told_after_each_wait_without_delay() {
    let served = Served::new();
    let stuck = list(&[("application", -1)]);
    let poll = served.held(&stuck).await;
    served.source.publish("default", "application", "");
    names_and_ids(&poll.await.expect("answered"));
    // An immediate repeat of the request gets no news, so the minimum interval applies.
    let asked = Instant::now();
    let got = served.ask(Method::GET, &poll_target(&stuck, "&cluster=default"), &[], ([192, 0, 2, 1], 1).into()).await;
    assert_eq!(names_and_ids(&got), news(&[("application", 1)]));
    assert!(asked.elapsed().abs_diff(FLOOR) < ACCURACY);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_is_forgotten() {
    let served = Served::new();
    let poll = served.held(&list(&[("a", -1), ("b", -1)])).await;
    assert_eq!((served.source.hub().waiters(), served.metrics.polls_held.get()), (1, 1));
    poll.abort();
    assert!(poll.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!((served.source.hub().waiters(), served.metrics.polls_held.get()), (0, 0));
    assert_eq!(served.ended("dropped"), 1);
}

/// Uses a socket: the handler must be dropped with its connection, and raw brackets are accepted.
#[tokio::test]
async fn a_closed_connection_drops_its_waiter() {
    let served = Served::new();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let service = served.router.clone().into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async move { axum::serve(listener, service).await });
    let mut client = TcpStream::connect(address).await.expect("a connection");
    let target = "/notifications/v2?appId=app&cluster=c&notifications=[{%22namespaceName%22:%22a%22}]";
    client.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.expect("sent");
    let waiters = |wanted| {
        let hub = served.source.hub().clone();
        timeout(Duration::from_secs(10), async move {
            while hub.waiters() != wanted {
                sleep(Duration::from_millis(1)).await;
            }
        })
    };
    waiters(1).await.expect("the poll is held");
    drop(client);
    waiters(0).await.expect("the waiter is gone");
    assert_eq!((served.ended("dropped"), served.metrics.polls_held.get()), (1, 0));
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_sends_everyone_to_another_node() {
    let served = Served::new();
    let polls = [served.held(&list(&[("a", -1)])).await, served.held(&list(&[("b", -1)])).await];
    served.source.hub().close();
    let asked = Instant::now();
    for poll in polls {
        let got = poll.await.expect("answered");
        assert_eq!((got.status, got.body.len()), (StatusCode::NOT_MODIFIED, 0));
        assert_eq!(got.header("connection"), Some("close"));
    }
    // A poll that arrives during the shutdown is answered too.
    let late = served.poll(&list(&[("a", -1)])).await;
    assert_eq!((late.status, late.header("connection")), (StatusCode::NOT_MODIFIED, Some("close")));
    assert_eq!(asked.elapsed(), Duration::ZERO);
    assert_eq!(served.ended("shutdown"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_new_state_is_read_by_all_polls() {
    let served = Served::new();
    let poll = served.held(&list(&[("application", -1)])).await;
    // A snapshot can contain a change whose key was never announced.
    served.source.0.ids.lock().insert(key("default", "app", "application"), 7);
    served.source.hub().wake_all();
    assert_eq!(names_and_ids(&poll.await.expect("answered")), news(&[("application", 7)]));
}

#[tokio::test(start_paused = true)]
async fn polls_over_the_limit_are_refused_after_the_floor() {
    let served = Served::with(Hub::new(1), |_| {});
    let poll = served.held(&list(&[("a", -1)])).await;
    let asked = Instant::now();
    let got = served.poll(&list(&[("a", -1)])).await;
    assert_eq!(got.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(asked.elapsed().abs_diff(FLOOR) < ACCURACY);
    poll.abort();
    assert!(poll.await.is_err());
    served.held(&list(&[("a", -1)])).await;
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_polls_of_one_file_are_all_told() {
    const CLIENTS: usize = 10_000;
    let served = Served::new();
    served.source.publish("default", "application", "a=1");
    let target = poll_target(&list(&[("application", 1)]), "&cluster=c1");
    let polls: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (router, target) = (served.router.clone(), target.clone());
            tokio::spawn(async move { ask(router, Method::GET, &target, &[], ([192, 0, 2, 1], 1).into()).await })
        })
        .collect();
    while served.source.hub().waiters() < CLIENTS {
        tokio::task::yield_now().await;
    }
    let published = Instant::now();
    served.source.publish("default", "application", "a=2");
    for poll in polls {
        assert_eq!(names_and_ids(&poll.await.expect("answered")), news(&[("application", 2)]));
    }
    assert_eq!(published.elapsed(), Duration::ZERO, "nobody waited for a floor or a timer");
    assert_eq!((served.source.hub().waiters(), served.ended("changed")), (0, CLIENTS as u64));
}

/// A token belongs to a fleet, with one address or many.
#[expect(clippy::async_yields_async, reason = "a poll that is held is looked at before its answer")]
#[tokio::test(start_paused = true)]
async fn polls_with_a_token_count_for_its_user() {
    // One address may hold one poll, and a user two.
    let served = Served::with(Hub::with_share(4, 1), |_| {});
    let hub = served.source.hub().clone();
    let begin = async |last: u8, headers: &'static [(&str, &str)]| {
        let (router, before) = (served.router.clone(), hub.waiters());
        let target = poll_target(&list(&[(&format!("f{last}"), -1)]), "&cluster=default");
        let asked = async move { ask(router, Method::GET, &target, headers, ([192, 0, 2, last], 1).into()).await };
        let poll = tokio::spawn(asked);
        while hub.waiters() == before && !poll.is_finished() {
            sleep(Duration::from_millis(1)).await;
        }
        poll
    };
    const OF_FLEET: &[(&str, &str)] = &[("authorization", TOKEN)];
    let held = [begin(1, OF_FLEET).await, begin(1, OF_FLEET).await, begin(1, &[]).await];
    assert_eq!(hub.waiters(), 3);
    for (last, headers, more) in [(2, OF_FLEET, 0), (1, &[][..], 0), (2, &[], 1)] {
        let poll = begin(last, headers).await;
        assert_eq!((poll.is_finished(), hub.waiters()), (more == 0, 3 + more), "{last} {headers:?}");
    }
    held.iter().for_each(JoinHandle::abort);
}
