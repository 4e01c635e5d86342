//! HTTP sender: posts one event to a URL chosen by a user, over a connection to a validated address.
//!
//! The sender resolves the name itself and checks every address ([`crate::model::remote::Reach`]). It connects only to
//! those that passed: the client does not resolve names on its own, follows no redirects and uses no proxy. The status
//! of the response decides; a little of its body is read, and none of it is stored or shown.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::CONTENT_TYPE;
use tokio::net::lookup_host;
use tokio::time::{Instant, timeout};
use url::{Host, Url};

use super::message::Message;
use super::{WebhookSettings, chat};
use crate::model::limits;
use crate::model::webhook::{MessageFormat, Webhook, is_reached, literal, read_url, refused_address};
use crate::outbound;
use crate::tasks;

const TRY_WITHIN: Duration = Duration::from_millis(limits::WEBHOOK_TRY_MS_MAX);
const RESOLVE_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for the rest of a response after its status.
const BODY_WITHIN: Duration = Duration::from_secs(1);
/// Time for which resolved addresses and their connections are used.
const ROUTE_LASTS: Duration = Duration::from_secs(60);
/// Maximum number of addresses tried per name.
const ADDRESSES_MAX: usize = 4;

/// Function that resolves a name and a port.
pub(super) type Resolver = Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Returns the resolver of the system.
fn by_system() -> Resolver {
    Arc::new(|name, port| Box::pin(async move { Ok(lookup_host((name, port)).await?.collect()) }))
}

pub(super) struct HttpSender {
    url: String,
    format: MessageFormat,
    allows_private: bool,
    settings: WebhookSettings,
    resolver: Resolver,
    limit: Duration,
    route: Option<ReceiverRoute>,
}

/// Client that connects only to validated addresses.
struct ReceiverRoute {
    client: Client,
    url: Url,
    made: Instant,
}

/// Resolver for the HTTP client that returns the validated addresses for any name.
struct JudgedAddresses(Vec<SocketAddr>);

impl Resolve for JudgedAddresses {
    fn resolve(&self, _: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(ready(Ok(addresses)))
    }
}

impl HttpSender {
    pub(super) fn new(hook: &Webhook, settings: &WebhookSettings) -> Self {
        let (url, format, allows_private) = (hook.url.clone(), hook.format, hook.allow_private);
        let settings = settings.clone();
        HttpSender { url, format, allows_private, settings, resolver: by_system(), limit: TRY_WITHIN, route: None }
    }

    #[cfg(test)]
    pub(super) fn resolving(self, resolver: Resolver) -> Self {
        HttpSender { resolver, ..self }
    }

    #[cfg(test)]
    pub(super) fn within(self, limit: Duration) -> Self {
        HttpSender { limit, ..self }
    }

    /// Sends a message once. The error briefly states why the receiver may not have it.
    pub(super) async fn post(&mut self, message: Message) -> Result<(), String> {
        let limit = self.limit;
        let posted = timeout(limit, self.post_without_limit(message)).await;
        let posted = posted.unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs_f32())));
        if posted.is_err() {
            // The name may resolve differently now, and the state of the connection is unknown.
            self.route = None;
        }
        posted
    }

    async fn post_without_limit(&mut self, message: Message) -> Result<(), String> {
        let ReceiverRoute { client, url, .. } = self.route().await?;
        let Message { id, event, time, signature, body } = message;
        let request = client
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("X-Thuban-Signature", signature)
            .header("X-Thuban-Event", event)
            .header("X-Thuban-Event-Id", id)
            .header("X-Thuban-Event-Time", time)
            .body(body);
        let response = request.send().await.map_err(|error| in_words(&error))?;
        let status = response.status();
        // Unread bytes would block the connection for the next request.
        let read = outbound::read_limited(response, limits::WEBHOOK_ANSWER_BYTES_MAX);
        let read = timeout(BODY_WITHIN, read).await.ok().and_then(Result::ok).flatten();
        if read.is_none() {
            self.route = None;
        }
        match status.as_u16() {
            200..300 => chat::judge(self.format, &read.unwrap_or_default()),
            300..400 => Err(format!("answered {}, and redirects are not followed", status.as_u16())),
            other => Err(format!("answered {other}")),
        }
    }

    async fn route(&mut self) -> Result<&ReceiverRoute, String> {
        if self.route.as_ref().is_none_or(|route| route.made.elapsed() > ROUTE_LASTS) {
            self.route = None;
            self.route = Some(self.new_route().await?);
        }
        self.route.as_ref().ok_or_else(|| "no route".to_owned())
    }

    async fn new_route(&self) -> Result<ReceiverRoute, String> {
        let url = read_url(&self.url).map_err(|refusal| refusal.detail)?;
        let addresses = self.addresses(&url).await?;
        let (is_secure, ca_file) = (url.scheme() == "https", self.settings.ca_file.clone());
        // Reads files.
        let made = tasks::blocking_errand(move || outbound::posting_client(is_secure, ca_file.as_deref())).await;
        let builder = made.map_err(|error| error.to_string())??;
        let client =
            builder.dns_resolver(Arc::new(JudgedAddresses(addresses))).build().map_err(|error| in_words(&error))?;
        Ok(ReceiverRoute { client, url, made: Instant::now() })
    }

    /// Returns the addresses of the URL that requests may be sent to.
    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, String> {
        let port = url.port_or_known_default().ok_or("the url has no port")?;
        let found = match (literal(url), url.host()) {
            (Some(address), _) => vec![SocketAddr::new(address, port)],
            (None, Some(Host::Domain(name))) => {
                let resolving = (self.resolver)(name.to_owned(), port);
                let resolved = timeout(RESOLVE_WITHIN, resolving).await;
                let resolved = resolved.map_err(|_| format!("{name} could not be resolved in time"))?;
                resolved.map_err(|error| format!("{name} cannot be resolved: {error}"))?
            }
            (None, _) => return Err("the url has no host".to_owned()),
        };
        let networks = &self.settings.private_networks;
        let is_allowed = |address: &SocketAddr| is_reached(address.ip(), self.allows_private, networks);
        let allowed: Vec<_> = found.iter().copied().filter(is_allowed).take(ADDRESSES_MAX).collect();
        match (allowed.is_empty(), found.first()) {
            (false, _) => Ok(allowed),
            (true, Some(first)) => Err(format!("not sent: {}", refused_address(first.ip(), self.allows_private))),
            (true, None) => Err("the name has no address".to_owned()),
        }
    }
}

fn in_words(error: &reqwest::Error) -> String {
    let is_late = error.is_timeout() && !error.is_connect();
    if is_late { "no answer in time".to_owned() } else { outbound::in_words(error) }
}
