//! Addresses: typed ones, those of refused forms, and links between pages.

use reqwest::StatusCode;
use serde_json::json;

use super::visit::{Visit, place};
use crate::harness::{ADMIN_PASSWORD, Cluster};

#[tokio::test(flavor = "multi_thread")]
async fn an_address_leads_to_a_page_or_says_in_one_that_there_is_none() {
    let cluster = Cluster::start(1).await;
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    for nowhere in ["/ui/none", "/ui/none/of/these", "/ui/rules/none", "/ui/rules/none/new", "/ui/rules/none/explain"] {
        let answer = visit.get(nowhere).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{nowhere}");
        assert!(answer.text().await.expect("text").contains("there is no such page"), "{nowhere}");
    }
    // After a refused form the address bar has the form's path, which the browser requests again after a change of the
    // language or a new login.
    for (of_the_form, page) in [
        ("/ui/", "/ui"),
        ("/ui/rules", "/ui/rules/routings"),
        ("/ui/rules/ratelimits/an%20id/release", "/ui/rules/ratelimits/an%20id"),
        ("/ui/rules/ratelimits/an%20id/change", "/ui/rules/ratelimits/an%20id"),
        ("/ui/config/file/release?namespace=a&group=b&name=c", "/ui/config/file?namespace=a&group=b&name=c"),
        ("/ui/config/file/delete?namespace=a&group=b&name=c", "/ui/config/file?namespace=a&group=b&name=c"),
        ("/ui/service/instance?namespace=a&name=b", "/ui/service?namespace=a&name=b"),
        ("/ui/sign-out", "/ui"),
    ] {
        let answer = visit.get(of_the_form).await;
        assert_eq!((answer.status(), place(&answer)), (StatusCode::SEE_OTHER, page), "{of_the_form}");
    }
    let stranger = Visit::of(&cluster, 1);
    assert_eq!(stranger.get("/ui/none").await.status(), StatusCode::SEE_OTHER, "who is not known is asked who it is");

    cluster.api(1).publish("shop", "app", "a.properties", "a=1").await;
    // As escaped in a page.
    let file = "?namespace=shop&#38;group=app&#38;name=a.properties";
    let page = visit.page("/ui/config/file?namespace=shop&group=app&name=a.properties").await;
    for deed in ["", "/release", "/change", "/delete"] {
        assert!(page.contains(&format!("action=\"/ui/config/file{deed}{file}\"")), "{deed}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_leads_to_what_is_about_it_and_nothing_is_offered_that_is_refused() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let visit = Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await;
    let service = json!([{"namespace": "shop", "name": "pay"}]);
    api.post("/naming/v1/services", &service).await.expect_code(200_000);
    let lonely = visit.page("/ui/service?namespace=shop&name=pay").await;
    assert!(lonely.contains("None is registered") && lonely.contains("No rule names it."), "{lonely}");
    let explained = "/ui/explain?namespace=shop&amp;service=pay";
    assert!(lonely.contains(explained), "{lonely}");

    let rules = json!([
        {"namespace": "shop", "name": "limit", "service": "pay", "rules": [
            {"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]},
        {"namespace": "other", "name": "limit", "callee": {"namespace": "shop", "service": "pay"}, "rules": [
            {"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &rules).await.expect_code(200_000);
    for path in ["/ui/service?namespace=shop&name=pay", "/ui/rules/ratelimits"] {
        let page = visit.page(path).await;
        assert!(page.contains("<td>pay</td>") && page.contains("<td>shop / pay</td>"), "{path}: {page}");
    }
    // No page shows what no read of the API does.
    let alias = json!([{"namespace": "shop", "service": "pay", "alias": "p", "alias_namespace": "shop",
        "service_token": "a-token-of-the-alias"}]);
    api.post("/naming/v1/service/alias", &alias).await.expect_code(200_000);
    let alias = visit.page("/ui/edit/aliases?alias_namespace=shop&alias=p").await;
    assert!(alias.contains("name=\"/service_token\"") && !alias.contains("a-token-of-the-alias"), "{alias}");
    // An id may have any printable character.
    let odd = json!([{"id": "of/pay?#+%", "namespace": "shop", "name": "odd", "service": "pay", "rules": [
        {"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]}]);
    api.post("/naming/v1/ratelimits", &odd).await.expect_code(200_000);
    let link = "/ui/rules/ratelimits/of%2Fpay%3F%23%2B%25";
    let listed = ["/ui/search?q=odd", "/ui/rules/ratelimits", "/ui/service?namespace=shop&name=pay", link]
        .map(|path| visit.page(path));
    for page in futures_util::future::join_all(listed).await {
        assert!(page.contains(&format!("\"{link}")), "{page}");
    }
    let page = visit.page(link).await;
    let (release, token) = (format!("{link}/release"), visit.form_token().await);
    let deed = visit.post(&release, &[("form_token", &token), ("type", "normal")]).await;
    assert_eq!(
        (deed.status(), place(&deed)),
        (StatusCode::SEE_OTHER, format!("{link}?done=released").as_str()),
        "{page}"
    );
    // Every part of a condition can be set for the request, and is retained.
    let sketch =
        visit.page("/ui/rules/routings/explain?namespace=shop&service=pay&cookies=a%3D1&caller_metadata=b%3D2");
    let sketch = sketch.await;
    for (name, text) in [("cookies", "a=1"), ("caller_metadata", "b=2")] {
        assert!(sketch.contains(&format!("name=\"{name}\" ")) && sketch.contains(&format!(">{text}</textarea>")));
    }

    assert!(visit.page("/ui/rules/ratelimits?name=none").await.contains("None match."));
    assert!(visit.page("/ui/rules/routings").await.contains("There are none yet."));
    assert!(!visit.page("/ui/cluster").await.contains("value=\"remove\""), "who leads is not removed");
    let template = json!([{"name": "spring-boot", "content": "a: 1"}]);
    api.post("/config/v1/configfiletemplates", &template).await.expect_code(200_000);
    assert!(visit.page("/ui/templates?name=boot").await.contains("spring-boot"), "a part of a name is enough");
}
