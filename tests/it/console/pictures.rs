//! Pictures of pages: clients of a release, releases over time, the map of services, the last minutes.

use std::time::Duration;

use serde_json::json;

use super::visit::Visit;
use crate::harness::{ADMIN_PASSWORD, Cluster, eventually};

const FILE: &str = "/ui/config/file?namespace=default&group=app&name=application.properties";
const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// Clients of each node: one refuses the release, one connects after it.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_release_are_squares_and_its_releases_lanes() {
    let cluster = Cluster::start(3).await;
    let api = cluster.api(1);
    api.publish("default", "app", "application.properties", "v=1").await;
    cluster.expect_equal_state().await;
    let pull = async |node: u64, client: &str| {
        let body = cluster.apollo(node).config_for("app", "application", &format!("ip={client}")).await;
        body["releaseKey"].clone()
    };
    pull(1, "10.3.0.9").await;
    api.publish("default", "app", "application.properties", "v=2").await;
    cluster.expect_equal_state().await;
    for (node, client, is_good) in [(1, "10.3.0.1", Some(true)), (2, "10.3.0.2", Some(false)), (3, "10.3.0.3", None)] {
        let key = pull(node, client).await;
        if let Some(is_good) = is_good {
            let refusal = (!is_good).then_some("bad port");
            cluster.apollo(node).say_applied(("app", "application"), client, &key, refusal).await;
        }
    }
    let visit = Visit::signed_in(&cluster, 2, "admin", ADMIN_PASSWORD).await;
    let page = eventually(SEEN_WITHIN, "all clients are drawn", async || {
        let page = visit.page(FILE).await;
        let told = "aria-label=\"1 refused, 1 behind, 1 have it, 1 applied\"";
        if page.contains(told) { Ok(page) } else { Err(page) }
    })
    .await;
    let (_, squares) = page.split_once("class=\"squares\"").expect("squares");
    let (squares, _) = squares.split_once("</div>").expect("an end");
    assert_eq!(squares.matches("<svg").count(), 4);
    assert!(squares.contains("<title>10.3.0.2: refused</title><use href=\"#hold-fault\"/>"), "{squares}");
    assert!(page.contains("bad port"), "{page}");
    let (_, lanes) = page.split_once("class=\"timeline\"").expect("a time line");
    let (lanes, _) = lanes.split_once("</p>").expect("an end");
    assert_eq!((lanes.matches("<text").count(), lanes.matches("<title>publish ").count()), (2, 2), "{lanes}");
    assert!(page.contains("value=\"rollback\""), "the head offers the way back");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_stand_on_a_map_by_their_calls_and_rules() {
    let cluster = Cluster::start(2).await;
    let api = cluster.api(1);
    let instance =
        |service: &str, host: &str| json!({ "namespace": "shop", "service": service, "host": host, "port": 1 });
    let all = json!([instance("cart", "10.4.0.1"), instance("pay", "10.4.0.2"), instance("mail", "10.4.0.3")]);
    api.post("/naming/v1/instances", &all).await.expect_code(200_000);
    let rule = json!([{ "id": "pair", "namespace": "shop", "name": "cart-to-mail", "enable": true, "routing_config": {
        "caller": { "service": "cart" }, "callee": { "service": "mail" },
        "rules": [{ "destinations": [{ "labels": { "version": { "value": "v1" } }, "weight": 100 }] }] } }]);
    api.post("/naming/v1/routings", &rule).await.expect_code(200_000);
    api.post("/naming/v1/routings/releases", &json!([{ "rule_id": "pair" }])).await.expect_code(200_000);
    cluster.expect_equal_state().await;
    // The client of one node is on the map of the other.
    let question = json!({ "type": "INSTANCE", "service": { "namespace": "shop", "name": "pay" },
        "filter": { "caller": { "labels": { "CLIENT_IP": "10.4.0.1" } } } });
    cluster.api(2).post("/v1/Discover", &question).await.expect_code(200_000);
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let map = visit.page("/ui/map?namespace=shop").await;
    for words in [
        "class=\"map\"",
        "<path class=\"seen\"",
        "<title>cart → pay: 1</title>",
        "<path class=\"ruled\"",
        "<title>cart → mail: 0</title>",
        "href=\"/ui/rules/routings/pair\">cart-to-mail</a>",
    ] {
        assert!(map.contains(words), "no {words:?} in {map}");
    }
    assert!(!visit.page("/ui/map?namespace=none").await.contains("class=\"map\""));
    let measured = eventually(SEEN_WITHIN, "two samples were taken", async || {
        let page = visit.page("/ui/cluster").await;
        let drawn = page.matches("<polyline points=\"1").count();
        if drawn == 5 { Ok(page) } else { Err(page) }
    })
    .await;
    assert!(measured.contains("The last 15 minutes of member 1"), "{measured}");
}
