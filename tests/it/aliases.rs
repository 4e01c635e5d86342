//! Service aliases: they resolve to a service, protect it from deletion, and are never listed as services.

use serde_json::json;

use crate::envelope::both;
use crate::harness::Cluster;
use crate::services::{SERVICES, names};

#[tokio::test(flavor = "multi_thread")]
async fn aliases_guard_their_service() {
    let cluster = Cluster::start(3).await;
    let [(_, leader), (_, follower)] = both(&cluster).await;
    let target = json!([{"namespace": "held", "name": "target"}]);
    leader.post(SERVICES, &target).await.expect_code(200_000);
    let alias = json!({"namespace": "held", "service": "target", "alias": "other", "alias_namespace": "held"});
    let created = follower.post("/naming/v1/service/alias", &alias).await.expect_code(200_000);
    assert_eq!(created.body["responses"][0]["serviceAlias"]["alias"], "other", "{created}");
    follower.post("/naming/v1/service/alias", &json!([alias])).await.expect_code(400_201);
    let lost = json!([{"namespace": "held", "service": "nothing", "alias": "lost", "alias_namespace": "held"}]);
    follower.post("/naming/v1/service/alias", &lost).await.expect_code(400_301);
    let missing = json!([{"alias": "nothing", "alias_namespace": "held", "comment": "x"}]);
    follower.put("/naming/v1/service/alias", &missing).await.expect_code(400_304);
    let list = leader.get("/naming/v1/service/aliases?namespace=held&service=target").await.expect_code(200_000);
    assert_eq!((list.amount(), &list.body["aliases"][0]["alias"]), (1, &json!("other")), "{list}");
    assert_eq!(names(&leader, "namespace=held").await, ["target"], "an alias shows as a service");

    leader.post("/naming/v1/services/delete", &target).await.expect_code(400_210);
    for _ in 0..2 {
        follower.post("/naming/v1/service/aliases/delete", &json!([alias])).await.expect_code(200_000);
    }
    leader.post("/naming/v1/services/delete", &target).await.expect_code(200_000);
}
