//! Clients from another cluster, or from before a restore: the ids and keys that they report are newer than any here.

use serde_json::json;
use tokio::time::Instant;

use super::*;

const FILE: &str = "/configs/app/default/application";

/// Returns a node that has applied everything that its leader knows.
fn served() -> Served {
    let served = Served::new();
    served.source.publish("default", "application", "a=1");
    served.source.publish("default", "application", "a=2");
    *served.source.0.leader.lock() = Some(2);
    served
}

fn messages(id: u32) -> String {
    let text = json!({"details": {"app+default+application": id}}).to_string();
    format!("messages={}", url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>())
}

/// Returns everything that a client may report, newer than the state here.
fn named() -> [String; 4] {
    let key = |version: u64| format!("releaseKey=default-app-application-{version}");
    [
        messages(9),
        key(9),
        format!("{}&{}", messages(9), key(9)),
        format!("{}&{}", messages(1_900_000_000), key(u64::MAX)),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_names_what_no_node_knows_is_served_at_once() {
    for query in named() {
        let served = served();
        let asked = Instant::now();
        let got = served.get(&format!("{FILE}?{query}")).await;
        assert_eq!(got.json()["configurations"], json!({"a": "2"}), "{query}");
        assert_eq!(asked.elapsed(), Duration::ZERO, "{query}");
        assert_eq!((served.metrics.pulls_behind.get(), served.metrics.foreign_ids.get()), (0, 1), "{query}");
    }
}

/// A node waits for an id that the leader knows; for an unknown one only until the leader has answered.
#[tokio::test(start_paused = true)]
async fn a_node_behind_its_leader_waits_for_what_there_is() {
    for (query, foreign) in [(messages(3), 0), (messages(4), 1), ("releaseKey=default-app-application-4".into(), 1)] {
        let served = Arc::new(served());
        *served.source.0.leader.lock() = Some(3);
        let (asking, target, asked) = (served.clone(), format!("{FILE}?{query}"), Instant::now());
        let pull = tokio::spawn(async move { asking.get(&target).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!pull.is_finished(), "{query}");
        served.source.publish("default", "application", "a=3");
        let got = pull.await.expect("the pull ends");
        assert_eq!(got.json()["configurations"], json!({"a": "3"}), "{query}");
        assert_eq!(asked.elapsed(), Duration::from_millis(300), "{query}");
        assert_eq!(served.metrics.foreign_ids.get(), foreign, "{query}");
    }
}

/// For an id far above the counter a recent answer of the leader suffices; for one close to it, only an answer
/// requested after the pull arrived.
#[tokio::test(start_paused = true)]
async fn what_is_far_above_needs_no_further_question() {
    let served = served();
    served.source.0.is_at_horizon.store(true, Ordering::Relaxed);
    let questions = || served.source.0.questions.load(Ordering::Relaxed);
    let key = |version: u64| format!("releaseKey=default-app-application-{version}");
    let far = [messages(1_900_000_000), key(5_000_000), format!("{}&{}", messages(1_900_000_000), key(1))];
    for query in far {
        let got = served.get(&format!("{FILE}?{query}")).await;
        assert_eq!((got.json()["configurations"].clone(), questions()), (json!({"a": "2"}), 0), "{query}");
    }
    for (asked, query) in (1..).zip([messages(3), key(3), format!("{}&{}", messages(1_900_000_000), key(3))]) {
        let got = served.get(&format!("{FILE}?{query}")).await;
        assert_eq!((got.json()["configurations"].clone(), questions()), (json!({"a": "2"}), asked), "{query}");
    }
    assert_eq!(served.metrics.foreign_ids.get(), 6);
}

/// An id that is applied during the lookup belongs to this cluster, and is not counted as foreign.
#[tokio::test(start_paused = true)]
async fn what_arrives_in_the_same_moment_is_not_of_elsewhere() {
    let served = served();
    served.source.0.is_at_horizon.store(true, Ordering::Relaxed);
    served.source.0.arrives.store(true, Ordering::Relaxed);
    let got = served.get(&format!("{FILE}?{}", messages(3))).await;
    assert_eq!(got.json()["configurations"], json!({"a": "late"}));
    assert_eq!(served.metrics.foreign_ids.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_names_an_id_of_elsewhere_is_told_what_is_current_and_then_what_is_new() {
    let served = served();
    served.source.publish("default", "other", "o=1");
    *served.source.0.leader.lock() = Some(3);
    let asked = Instant::now();
    let got = served.poll(&list(&[("application", 900), ("other", 3)])).await;
    let told = got.json();
    assert_eq!((told[0]["namespaceName"].as_str(), told[0]["notificationId"].as_u64()), (Some("application"), Some(2)));
    assert_eq!((told.as_array().map(Vec::len), asked.elapsed()), (Some(1), Duration::ZERO));
    let held = served.held(&list(&[("application", 2), ("other", 3)])).await;
    served.source.publish("default", "application", "a=3");
    assert_eq!(held.await.expect("no panic").json()[0]["notificationId"], 4);
}

/// A poll for a file without any release is held, whatever the client reports.
#[tokio::test(start_paused = true)]
async fn a_poll_for_what_never_was_is_held_and_sees_the_first_release() {
    let served = served();
    let held = served.held(&list(&[("never", 900)])).await;
    // Past the request to the leader.
    tokio::time::sleep(CATCH_UP_LIMIT * 2).await;
    assert!(!held.is_finished());
    served.source.publish("default", "never", "n=1");
    assert_eq!(held.await.expect("no panic").json()[0]["notificationId"], 3);
}

/// The id may be legitimate: the poll is held as usual.
#[tokio::test(start_paused = true)]
async fn without_a_leader_a_poll_is_held_and_a_pull_refused() {
    let served = served();
    *served.source.0.leader.lock() = None;
    let asked = Instant::now();
    let got = served.poll(&list(&[("application", 900)])).await;
    assert_eq!(got.status, StatusCode::NOT_MODIFIED);
    assert!(asked.elapsed() > HOLD * 9 / 10);
    let got = served.get(&format!("{FILE}?{}", messages(9))).await;
    assert_eq!((got.status, served.metrics.foreign_ids.get()), (StatusCode::SERVICE_UNAVAILABLE, 0));
}

/// An id below the counter that this file never had is foreign: a client that was moved here would otherwise keep an
/// old content until the next change of the file.
#[tokio::test(start_paused = true)]
async fn an_id_that_another_file_has_here_is_of_elsewhere() {
    let served = Served::new();
    served.source.publish("default", "application", "a=1");
    (0..32).for_each(|number| served.source.publish("default", "other", &format!("o={number}")));
    served.source.publish("blue", "application", "a=blue");
    *served.source.0.leader.lock() = Some(34);
    let asked = Instant::now();
    for known in [2, 5, 33] {
        let got = served.poll(&list(&[("application", known), ("other", 33)])).await;
        assert_eq!(got.json().as_array().map(Vec::len), Some(1), "{known}");
        assert_eq!(got.json()[0]["notificationId"], 1, "{known}");
    }
    assert_eq!((asked.elapsed(), served.metrics.foreign_ids.get()), (Duration::ZERO, 3));
    // The id of a file is the newest one in all places of its chain.
    let held = served.held_with(&list(&[("application", 34)]), "&cluster=blue").await;
    served.source.publish("default", "application", "a=2");
    assert_eq!(held.await.expect("no panic").json()[0]["notificationId"], 35);
    // A poll with the id of that answer is held.
    let got = served.held(&list(&[("application", 35), ("other", 33)])).await.await.expect("no panic");
    assert_eq!((got.status, served.metrics.foreign_ids.get()), (StatusCode::NOT_MODIFIED, 3));
}
