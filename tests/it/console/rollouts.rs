//! A rollout by steps as a person begins and steers it.

use reqwest::StatusCode;

use super::visit::{Visit, place};
use crate::harness::{ADMIN_PASSWORD, Cluster};

const FILE: &str = "/ui/config/file?namespace=default&group=app&name=application.properties";

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_begun_shown_and_steered() {
    let cluster = Cluster::start(1).await;
    cluster.api(1).publish("default", "app", "application.properties", "v=1").await;
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let form_token = visit.form_token().await;
    let mut named = vec![
        ("form_token", form_token.as_str()),
        ("namespace", "default"),
        ("group", "app"),
        ("name", "application.properties"),
    ];
    let mut publish = named.clone();
    publish.extend([
        ("type", "gray"),
        ("release_name", "staged"),
        ("plan", "5%:1h, 50%:1h, 100%"),
        ("guards", "refused=1\nsignal\n"),
    ]);
    let answer = visit.post("/ui/config/file/release", &publish).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{}", answer.text().await.unwrap_or_default());
    let page = visit.page(FILE).await;
    for words in ["Rollout of staged", "running</span>", "5 %, step 1 / 3, next step at", "aria-label=\"5 %\""] {
        assert!(page.contains(words), "no {words:?} in {page}");
    }
    named.push(("release", "staged"));
    for (change, words) in [
        ("pause", "paused</span>"),
        ("resume", "running</span>"),
        ("advance", "50 %, step 2 / 3"),
        ("stop", "stopped</span>"),
    ] {
        let mut asked = named.clone();
        asked.push(("change", change));
        let answer = visit.post("/ui/config/file/change", &asked).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{change}");
        let page = visit.page(place(&answer)).await;
        assert!(page.contains(words), "{change}: no {words:?} in {page}");
    }
    publish.retain(|(name, _)| *name != "release_name");
    for (name, value, words) in [("plan", "5%:1h, 4%", "percent has to grow"), ("guards", "latency=1", "is no guard")] {
        let mut wrong = publish.clone();
        wrong.retain(|(known, _)| *known != name);
        wrong.push((name, value));
        let page = visit.post("/ui/config/file/release", &wrong).await.text().await.expect("a page");
        assert!(page.contains(words) && page.contains(value), "{name}: {page}");
    }
}
