//! Policies, and requests for approval of several acts: created by the API, shown and decided on pages.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;

use super::visit::{Visit, place};
use crate::harness::{ADMIN_PASSWORD, Api, Cluster, in_future};

#[tokio::test(flavor = "multi_thread")]
async fn an_approver_sees_what_a_request_would_change_and_decides_it_as_a_whole() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let admin = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let token = admin.form_token().await;
    let policy = [
        ("form_token", token.as_str()),
        ("/name", "two"),
        ("/namespace", "shop"),
        ("/approvals", "1"),
        ("/names", ""),
        ("/gates", ""),
        ("/freezes", ""),
        ("/freezes/0", ""),
        ("/freezes/0/days", ""),
        ("/freezes/0/from", "2020-01-01T00:00:00Z"),
        ("/freezes/0/until", "2020-01-02T00:00:00Z"),
    ];
    let made = admin.post("/ui/edit/policies", &policy).await;
    assert_eq!(place(&made), "/ui/policies?done=created", "{}", made.status());
    let kept = api.get("/admin/v1/policies").await;
    assert_eq!(kept.body["data"][0]["gates"].as_array().map(Vec::len), Some(5), "the usual ones: {kept}");
    let list = admin.page("/ui/policies").await;
    assert!(list.contains(">two</a>") && list.contains("no freeze"), "{list}");
    let none = [("form_token", token.as_str()), ("name", "two"), ("/gates", "")];
    let refused = admin.post("/ui/edit/policies", &none).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "a policy without any gate");

    let grants = json!([{"role": "approver", "namespace": "shop"}, {"role": "reader", "namespace": "shop"}]);
    let abe = json!([{"name": "abe", "password": "password of abe", "grants": grants}]);
    api.post("/auth/v1/users", &abe).await.expect_code(200_000);
    let rule = json!([{"id": "limit", "namespace": "shop", "name": "limit", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 7, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let file = json!({"namespace": "shop", "group": "g", "name": "f", "content": "greeting=<b>"});
    api.post("/config/v1/configfiles", &file).await.expect_code(200_000);
    let words = json!({"request": "both of them", "request_set": "tree"});
    let with = |mut act: serde_json::Value| {
        act.as_object_mut().expect("an object").extend(words.as_object().expect("an object").clone());
        json!([act])
    };
    let act = with(json!({"rule_name": "limit", "namespace": "shop"}));
    let asked = api.post("/naming/v1/ratelimits/releases", &act).await.expect_code(202_000);
    let id = asked.body["responses"][0]["request"]["id"].as_str().expect("an id").to_owned();
    let act = with(json!({"namespace": "shop", "group": "g", "file_name": "f"}));
    api.post("/config/v1/configfiles/release", &act).await.expect_code(202_000);

    let abe = Visit::signed_in(&cluster, 1, "abe", "password of abe").await;
    let inbox = abe.page("/ui/requests").await;
    assert!(inbox.matches("/ui/requests/").count() == 1 && !inbox.contains("/ui/policies"), "{inbox}");
    let page = abe.page(&format!("/ui/requests/{id}")).await;
    for part in
        ["shop/limit +1", "shop/g/f", "Acts on the calls of: <strong>shop/pay", "at most 7 per 1 s", "both of them"]
    {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
    assert!(!page.contains("<b>"), "text is shown as text");
    let link = page.split("<a href=\"").find(|rest| rest.contains("/explain?")).expect("a link");
    let link = link.split('"').next().expect("its end").replace("&#38;", "&").replace("&amp;", "&");
    let explained = abe.page(&link).await;
    let (now, then) = explained.split_once("Once approved</h2>").expect("both sides");
    assert!(!now.contains("/ui/rules/ratelimits/limit") && then.contains("/ui/rules/ratelimits/limit"), "{explained}");
    assert!(then.contains("\">applies</span>"), "{then}");

    let form_token = abe.form_token().await;
    let decision = [("form_token", form_token.as_str()), ("change", "approve"), ("comment", "fine"), ("parts", "1")];
    let decided = abe.post(&format!("/ui/requests/{id}"), &decision).await;
    assert_eq!(decided.status(), StatusCode::SEE_OTHER);
    let page = abe.page(&format!("/ui/requests/{id}")).await;
    assert!(page.matches("\">done</span>").count() >= 3 && page.contains("abe: fine"), "{page}");
    let gone = abe.get(&link).await;
    assert_eq!(gone.status(), StatusCode::NOT_FOUND, "nothing waits there any more");
    let releases = api.get("/naming/v1/ratelimits/releases?rule_name=limit").await;
    assert_eq!(releases.amount(), 1, "{releases}");
}

/// Saves a rule for `shop/pay`, and asks for its release; returns the id of the request.
async fn asked(api: &Api) -> String {
    let rule = json!([{"id": "limit", "namespace": "shop", "name": "limit", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 7, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let act = json!([{"rule_name": "limit", "namespace": "shop", "request": "less"}]);
    let asked = api.post("/naming/v1/ratelimits/releases", &act).await.expect_code(202_000);
    asked.body["responses"][0]["request"]["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_in_a_freeze_says_that_nothing_is_released() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let freeze = json!({"from": "2020-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"});
    let policy = json!([{"name": "ice", "namespace": "shop", "approvals": 2, "freezes": [freeze]}]);
    api.post("/admin/v1/policies", &policy).await.expect_code(200_000);
    let grants = json!([{"role": "approver", "namespace": "shop"}, {"role": "reader", "namespace": "shop"}]);
    for name in ["abe", "bea"] {
        let user = json!([{"name": name, "password": format!("password of {name}"), "grants": grants}]);
        api.post("/auth/v1/users", &user).await.expect_code(200_000);
    }
    let id = asked(&api).await;
    let link = format!("/ui/requests/{id}");
    let waits = "it waits for the freeze of ice, which ends at 2099-01-01T00:00:00Z";
    let steps = [
        ("abe", "approved 0 of 2", "approved 1 of 2; nothing is changed yet; approvals missing: 1", "<td>1/2</td>"),
        ("bea", "approved 1 of 2", "approved 2 of 2; nothing is changed yet; it waits", "<td>2/2</td>"),
    ];
    for (name, before, after, given) in steps {
        let visit = Visit::signed_in(&cluster, 1, name, &format!("password of {name}")).await;
        let page = visit.page(&link).await;
        assert!(page.contains(before) && page.contains("value=\"approve\""), "{page}");
        let form_token = visit.form_token().await;
        let decided = visit.post(&link, &[("form_token", form_token.as_str()), ("change", "approve")]).await;
        assert_eq!((decided.status(), place(&decided)), (StatusCode::SEE_OTHER, link.as_str()));
        let page = visit.page(&link).await;
        assert!(page.contains(after) && page.contains(waits), "{page}");
        assert!(!page.contains("Done.") && !page.contains("value=\"approve\""), "it is done with for {name}: {page}");
        let inbox = visit.page("/ui/requests").await;
        assert!(inbox.contains(given), "{inbox}");
    }
    let admin = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let page = admin.page(&link).await;
    assert!(page.contains(waits) && !page.contains("value=\"run\""), "nothing can be carried out in a freeze: {page}");
    let releases = api.get("/naming/v1/ratelimits/releases?rule_name=limit").await;
    assert_eq!(releases.amount(), 0, "{releases}");

    api.put("/admin/v1/policies", &json!([{"name": "ice", "freezes": []}])).await.expect_code(200_000);
    let page = admin.page(&link).await;
    assert!(page.contains("somebody has to carry it out") && page.contains("value=\"run\""), "{page}");
    let form_token = admin.form_token().await;
    admin.post(&link, &[("form_token", form_token.as_str()), ("change", "run")]).await;
    let page = admin.page(&link).await;
    assert!(page.contains("approved 2 of 2; carried out"), "{page}");
}

/// Acts on a release, and what the page says of each afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn pages_say_what_an_act_did_and_no_more() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let rule = json!([{"id": "limit", "namespace": "shop", "name": "limit", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 7, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rule).await.expect_code(200_000);
    let admin = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let token = admin.form_token().await;
    let link = "/ui/rules/ratelimits/limit";
    let page = admin.page(link).await;
    assert!(page.contains("Enforced by") && page.contains("Envoy gateway no (W16"), "{page}");
    let tomorrow = in_future(Duration::from_secs(86_400));
    let rows = [
        ("release", vec![("release_name", "first")], "released", "Released."),
        ("release", vec![("release_name", "later"), ("at", tomorrow.as_str())], "scheduled", "Scheduled"),
        ("change", vec![("change", "rollback"), ("release", "first")], "unchanged", "Nothing was changed"),
        (
            "release",
            vec![("release_name", "some"), ("type", "gray"), ("labels", "zone=a")],
            "canary",
            "some clients get it",
        ),
    ];
    for (act, fields, word, text) in rows {
        let form = [&[("form_token", token.as_str())][..], &fields].concat();
        let done = admin.post(&format!("{link}/{act}"), &form).await;
        let next = place(&done).to_owned();
        assert_eq!(next, format!("{link}?done={word}"), "{fields:?}");
        let page = admin.page(&next).await;
        assert!(page.contains(text), "{fields:?}: {page}");
    }
}
