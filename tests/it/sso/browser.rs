//! A browser's manners about cookies and redirects, without a browser.

use reqwest::Client;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use url::Url;

use crate::harness::{Cluster, http};

/// A browser with its cookies. As in real ones, cookies of a host hold for all of its ports.
#[derive(Clone)]
pub(super) struct Browser {
    client: Client,
    cookies: Vec<Cookie>,
}

#[derive(Clone, Debug)]
struct Cookie {
    name: String,
    path: String,
    value: String,
}

#[derive(Debug)]
pub(super) struct Seen {
    pub(super) status: u16,
    /// Target of a redirect.
    pub(super) place: String,
    /// The header that leads a page on.
    pub(super) refresh: String,
    pub(super) text: String,
}

impl Browser {
    pub(super) fn new() -> Browser {
        let client = http().redirect(Policy::none()).build().expect("a client");
        Browser { client, cookies: Vec::new() }
    }

    pub(super) async fn get(&mut self, address: &str) -> Seen {
        let request = self.client.get(address).header(COOKIE, self.cookies_for(address));
        self.seen(request).await
    }

    pub(super) async fn post(&mut self, address: &str, fields: &[(&str, &str)]) -> Seen {
        let body: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self.client.post(address).header(COOKIE, self.cookies_for(address)).body(body);
        self.seen(request).await
    }

    async fn seen(&mut self, request: reqwest::RequestBuilder) -> Seen {
        let answer = request.send().await.expect("an answer");
        for set in answer.headers().get_all(SET_COOKIE) {
            self.keep(set.to_str().expect("text"));
        }
        let header = |name: &str| {
            answer.headers().get(name).map_or(String::new(), |value| value.to_str().expect("text").to_owned())
        };
        let (status, place, refresh) = (answer.status().as_u16(), header(LOCATION.as_str()), header("refresh"));
        Seen { status, place, refresh, text: answer.text().await.expect("text") }
    }

    fn keep(&mut self, set: &str) {
        let (pair, attributes) = set.split_once(';').expect("attributes");
        let (name, value) = pair.split_once('=').expect("a pair");
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax"), "{set}");
        assert!(set.len() <= 4096, "{} bytes", set.len());
        let of = |key: &str| attributes.split(';').find_map(|part| part.trim().strip_prefix(key)).unwrap_or_default();
        let path = of("Path=").to_owned();
        self.cookies.retain(|cookie| (cookie.name.as_str(), &cookie.path) != (name, &path));
        if of("Max-Age=") != "0" {
            self.cookies.push(Cookie { name: name.to_owned(), path, value: value.to_owned() });
        }
    }

    /// The cookies that go with a request.
    fn cookies_for(&self, address: &str) -> String {
        let path = Url::parse(address).expect("an address").path().to_owned();
        let is_below = |cookie: &&Cookie| {
            path.strip_prefix(&cookie.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let pairs = self.cookies.iter().filter(is_below).map(|cookie| format!("{}={}", cookie.name, cookie.value));
        pairs.collect::<Vec<_>>().join("; ")
    }

    /// Changes the path of the cookie of a pending sign-in, as no browser would.
    pub(super) fn misplace(&mut self, path: &str) {
        let pending = self.cookies.iter_mut().filter(|cookie| cookie.path.starts_with("/ui/sso/"));
        pending.for_each(|cookie| path.clone_into(&mut cookie.path));
    }

    /// A page of a node, without keeping its cookies.
    pub(super) async fn page(&self, cluster: &Cluster, id: u64, path: &str) -> Seen {
        self.clone().get(&format!("http://{}{path}", cluster.ports(id).api)).await
    }

    /// Begins a sign-in at a node, and returns the address of the provider.
    pub(super) async fn begin(&mut self, cluster: &Cluster, id: u64, provider: &str, to: &str) -> String {
        let to: String = url::form_urlencoded::byte_serialize(to.as_bytes()).collect();
        let address = format!("http://{}/ui/sso/{provider}/start?to={to}", cluster.ports(id).api);
        let answer = self.get(&address).await;
        assert_eq!(answer.status, 303, "{answer:?}");
        answer.place
    }

    /// Visits the provider, and returns where it leads back to. Cookies of the nodes do not go there.
    pub(super) async fn at_provider(&self, address: &str) -> String {
        let answer = self.client.get(address).send().await.expect("an answer");
        let place = answer.headers().get(LOCATION).map(|place| place.to_str().expect("text").to_owned());
        let status = answer.status();
        match place {
            Some(place) => place,
            None => panic!("{status} {}", answer.text().await.expect("text")),
        }
    }
}
