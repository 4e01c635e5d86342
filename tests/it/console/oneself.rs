//! One's own account: where one is logged in, and another password.

use reqwest::StatusCode;
use serde_json::json;

use super::visit::{Visit, place};
use crate::harness::Cluster;

const ACCOUNT: &str = "/ui/account";

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_ended_and_a_password_changed_on_the_page_of_oneself() {
    let cluster = Cluster::start(1).await;
    let grants = json!([{"role": "reader", "namespace": "shop"}]);
    let ann = json!([{"name": "ann", "password": "first password", "grants": grants}]);
    cluster.api(1).post("/auth/v1/users", &ann).await.expect_code(200_000);
    let own = Visit::signed_in(&cluster, 1, "ann", "first password").await;
    let shown = own.get(ACCOUNT).await.text().await.expect("text");
    assert!(shown.contains("reader shop / *") && shown.contains("127.0.0.1"), "{shown}");
    let lost = Visit::signed_in(&cluster, 1, "ann", "first password").await;
    let sessions = lost.get(ACCOUNT).await.text().await.expect("text");
    // The newest is first: that of the visitor.
    let id = sessions.split("name=\"id\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
    let token = own.form_token().await;
    let ended = own.post(ACCOUNT, &[("form_token", &token), ("change", "end"), ("id", id)]).await;
    assert_eq!((ended.status(), place(&ended)), (StatusCode::SEE_OTHER, "/ui/account?done=changed"));
    assert_eq!(lost.get(ACCOUNT).await.status(), StatusCode::SEE_OTHER, "to sign in again");
    assert_eq!(own.get(ACCOUNT).await.status(), StatusCode::OK);

    let change = |old: &'static str, new: &'static str, again: &'static str| {
        let fields = [("change", "password"), ("old_password", old), ("new_password", new), ("again", again)];
        let (own, token) = (&own, token.as_str());
        async move { own.post(ACCOUNT, &[fields.as_slice(), &[("form_token", token)]].concat()).await }
    };
    assert_eq!(change("first password", "second password", "secnod password").await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(change("a guess", "second password", "second password").await.status(), StatusCode::UNAUTHORIZED);
    let changed = change("first password", "second password", "second password").await;
    assert_eq!((changed.status(), place(&changed)), (StatusCode::SEE_OTHER, "/ui/sign-in"));
    assert_eq!(own.get(ACCOUNT).await.status(), StatusCode::SEE_OTHER);
    Visit::signed_in(&cluster, 1, "ann", "second password").await;
}
