//! Single sign-on: people by a browser, programs by bearer tokens, and how soon each is out, over nodes that are real
//! processes. The provider is the test's own and strict ([`provider`]).

mod bearers;
mod browser;
mod provider;
mod sign_in;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Answer, Api, Cluster, eventually};
use browser::Browser;
use provider::Provider;

const PROVIDERS: &str = "/auth/v1/providers";
const USERS: &str = "/auth/v1/users";
const SERVICES: &str = "/naming/v1/services";
const LOCAL: &str = "/naming/v1/services?consistency=local&limit=0";
const PASSWORD: &str = "a password of somebody";
/// Promised is a second; a busy machine may take longer.
const OUT_WITHIN: Duration = Duration::from_secs(10);

/// A cluster that knows a provider as `company`.
struct SsoCluster {
    cluster: Cluster,
    provider: Provider,
}

impl SsoCluster {
    async fn start(size: u64, options: &[&str]) -> SsoCluster {
        let cluster = Cluster::start_with_data_key(size, options).await;
        let provider = Provider::start().await;
        cluster.api(1).post(PROVIDERS, &json!([provider.item("company")])).await.expect_code(200_000);
        let callback = |id| format!("http://{}/ui/sso/company/callback", cluster.ports(id).api);
        cluster.ids().into_iter().for_each(|id| provider.register(&callback(id)));
        SsoCluster { cluster, provider }
    }

    /// Sends a browser through the provider from one node, and its answer to another one.
    async fn sign_in(&self, start: u64, callback: u64) -> Browser {
        let mut browser = Browser::new();
        let there = browser.begin(&self.cluster, start, "company", "/ui/account").await;
        let back = browser.at_provider(&there).await;
        let answer = browser.get(&moved(&back, &self.cluster, callback)).await;
        assert_eq!((answer.status, answer.place.as_str()), (303, "/ui/account"), "{answer:?}");
        browser
    }

    async fn change(&self, change: Value) {
        let mut item = json!({"name": "company"});
        item.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        self.cluster.api(1).put(PROVIDERS, &json!([item])).await.expect_code(200_000);
    }

    /// Waits until every node refuses what a browser and a token show.
    async fn expect_out(&self, browser: Option<&Browser>, token: Option<&str>) {
        join_all(self.cluster.ids().into_iter().map(|id| async move {
            if let Some(browser) = browser {
                eventually(OUT_WITHIN, "the session is over", || async {
                    let answer = browser.page(&self.cluster, id, "/ui/account").await;
                    if answer.place.starts_with("/ui/sign-in") { Ok(()) } else { Err(format!("{answer:?}")) }
                })
                .await;
            }
            if let Some(token) = token {
                eventually(OUT_WITHIN, "the token is refused", || async {
                    let answer = self.as_token(id, token).get(LOCAL).await;
                    if answer.status == 401 { Ok(()) } else { Err(answer.to_string()) }
                })
                .await;
            }
        }))
        .await;
    }

    fn as_token(&self, id: u64, token: &str) -> Api {
        self.cluster.api(id).with_token(&format!("Bearer {token}"))
    }

    /// The login of a command line that has an ID token.
    async fn log_in(&self, id: u64, body: &Value) -> Answer {
        Api::new(self.cluster.ports(id).api).post("/auth/v1/sso/company/login", body).await
    }
}

/// The same address at another node.
fn moved(address: &str, cluster: &Cluster, id: u64) -> String {
    let mut url = url::Url::parse(address).expect("an address");
    url.set_port(Some(cluster.ports(id).api.port())).expect("a port");
    url.into()
}
