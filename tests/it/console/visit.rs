//! A visitor of the console's pages.

use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};

use crate::harness::{Cluster, http};

/// A browser's manners without a browser.
pub(super) struct Visit {
    pub(super) client: Client,
    pub(super) base: String,
    pub(super) cookie: String,
}

impl Visit {
    pub(super) fn of(cluster: &Cluster, node: u64) -> Visit {
        let client = http().redirect(Policy::none()).build().expect("a client");
        Visit { client, base: format!("http://{}", cluster.ports(node).api), cookie: String::new() }
    }

    pub(super) async fn signed_in(cluster: &Cluster, node: u64, name: &str, password: &str) -> Visit {
        let mut visit = Visit::of(cluster, node);
        let answer = visit.post("/ui/sign-in", &[("user", name), ("password", password), ("to", "/ui/audit")]).await;
        assert_eq!((answer.status(), place(&answer)), (StatusCode::SEE_OTHER, "/ui/audit"));
        let cookie = answer.headers()[SET_COOKIE].to_str().expect("text").to_owned();
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax") && cookie.contains("Path=/ui"),
            "{cookie}"
        );
        visit.cookie = cookie.split(';').next().expect("a pair").to_owned();
        visit
    }

    pub(super) async fn get(&self, path: &str) -> Response {
        let request = self.client.get(format!("{}{path}", self.base)).header(COOKIE, &self.cookie);
        request.send().await.expect("an answer")
    }

    pub(super) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        answer.text().await.expect("text")
    }

    pub(super) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let body: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.client.post(format!("{}{path}", self.base)).header(COOKIE, &self.cookie);
        request.body(body).send().await.expect("an answer")
    }

    /// The token that pages carry in their forms.
    pub(super) async fn form_token(&self) -> String {
        let page = self.page("/ui").await;
        let rest = page.split("name=\"form_token\" value=\"").nth(1).expect("a form");
        rest.split('"').next().expect("a value").to_owned()
    }
}

pub(super) fn place(answer: &Response) -> &str {
    answer.headers().get(LOCATION).map_or("", |place| place.to_str().expect("text"))
}
