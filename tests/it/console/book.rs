//! The book of the console: every page in both languages, with and without a visitor.

use std::collections::BTreeSet;

use reqwest::StatusCode;
use reqwest::header::ACCEPT_LANGUAGE;

use super::expect_manners;
use super::visit::{Visit, place};
use crate::harness::{ADMIN_PASSWORD, Cluster};

/// Names of the pages that a page of the book links to.
fn linked(page: &str) -> BTreeSet<String> {
    let links = page.split("href=\"/ui/book/").skip(1).filter_map(|rest| rest.split(['"', '#']).next());
    links.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_book_is_read_from_its_contents_on_in_both_languages() {
    let cluster = Cluster::start(1).await;
    let (stranger, visit) = (Visit::of(&cluster, 1), Visit::signed_in(&cluster, 1, "admin", ADMIN_PASSWORD).await);
    for (language, contents) in [("zh-CN", "/ui/book/zh/contents"), ("en", "/ui/book/contents")] {
        let request = stranger.client.get(format!("{}/ui/book", stranger.base)).header(ACCEPT_LANGUAGE, language);
        let answer = request.send().await.expect("an answer");
        assert_eq!((answer.status(), place(&answer)), (StatusCode::SEE_OTHER, contents));
    }

    let sign_in = stranger.get("/ui/sign-in").await.text().await.expect("text");
    assert!(sign_in.contains("href=\"/ui/book\""), "{sign_in}");

    let mut reached = BTreeSet::from(["contents".to_owned(), "zh/contents".to_owned()]);
    let mut open: Vec<_> = reached.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let path = format!("/ui/book/{name}");
        let answer = stranger.get(&path).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        expect_manners(answer.headers(), &path);
        let page = answer.text().await.expect("text");
        let heading = page.split("<h1 id=").nth(1).expect("a heading");
        assert!(page.contains(" · Thuban</title>") && heading.contains("</h1>"), "{path}");
        open.extend(linked(&page).into_iter().filter(|name| reached.insert(name.clone())));
    }
    assert!(reached.len() > 70 && reached.contains("clients/grpc-go"), "{reached:?}");

    // A visitor keeps the menu, and the language of the page is that of the page.
    let page = visit.page("/ui/book/zh/start").await;
    let parts = ["class=\"brand\"", "<article class=\"book\" lang=\"zh\">", "href=\"/ui/book/start\" hreflang=\"en\""];
    for part in parts {
        assert!(page.contains(part), "{part}: {page}");
    }
    for nowhere in ["/ui/book/none", "/ui/book/internals/layers", "/ui/book/..%2F..%2FCargo"] {
        for visit in [&stranger, &visit] {
            let answer = visit.get(nowhere).await;
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{nowhere}");
        }
    }
}
