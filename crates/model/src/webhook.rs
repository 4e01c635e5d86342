//! Webhooks: receivers of events over HTTP, and the selection of their events.
//!
//! The secret that signs the messages is stored like those of access keys ([`super::access_key`]): only its holders
//! know it in clear.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::access_key::{ClearSecret, SealedSecret};
use super::code::{Code, Refusal};
use super::draft::{lay_over, sparse};
pub use super::news::{
    ClientNews, EmergencyNews, HealthNews, InstanceNews, LoginNews, News, ReleaseNews, RequestNews, RolloutNews,
};
use super::release::Action;
use super::remote::Reach;
use super::stamp::Stamp;
use super::time::Timestamp;
use super::wire::{Words, wire_enum};
use super::{host, limits, name};

wire_enum! {
    /// Events for webhooks: changes of releases, named as in their history, and others.
    pub enum HookEvent {
        Publish = "publish",
        Gray = "gray",
        Promote = "promote",
        Rollback = "rollback",
        Stop = "stop",
        Withdraw = "withdraw",
        Schedule = "schedule",
        Failed = "failed",
        Delete = "delete",
        /// Instances of a service became healthy or unhealthy.
        Health = "health",
        /// An approval was requested.
        Requested = "requested",
        Approved = "approved",
        Refused = "refused",
        /// A gated act was performed without approval, or in a freeze.
        Emergency = "emergency",
        /// The share of a rollout grew.
        RolloutStep = "rollout_step",
        /// A rollout was stopped by a guard or a person, and its clients fell back.
        RolloutStopped = "rollout_stopped",
        /// A client reported that it could not apply a release.
        ClientRefused = "client_refused",
        /// A local administrator logged in with its password.
        LocalAdminLogin = "local_admin_login",
    }
}

wire_enum! {
    /// Form of the messages to a webhook.
    pub enum MessageFormat {
        Json = "json",
        Slack = "slack",
        Feishu = "feishu",
        DingTalk = "dingtalk",
        WeCom = "wecom",
    }
}

impl MessageFormat {
    pub fn is_json(&self) -> bool {
        *self == MessageFormat::Json
    }
}

impl HookEvent {
    /// Returns the event of a change of a release; `None` if the change is not an event.
    pub fn of(action: Action) -> Option<Self> {
        Some(match action {
            Action::Publish => HookEvent::Publish,
            Action::Gray => HookEvent::Gray,
            Action::Promote => HookEvent::Promote,
            Action::Rollback => HookEvent::Rollback,
            Action::Stop => HookEvent::Stop,
            Action::Withdraw => HookEvent::Withdraw,
            Action::Schedule => HookEvent::Schedule,
            Action::Failed => HookEvent::Failed,
            Action::Delete => HookEvent::Delete,
            Action::RolloutStep => HookEvent::RolloutStep,
            Action::RolloutStopped => HookEvent::RolloutStopped,
            Action::RolloutPaused | Action::RolloutResumed => return None,
        })
    }
}

/// A webhook. Its identity is its name, together with its id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    pub id: String,
    pub name: String,
    pub url: String,
    pub secret: SealedSecret,
    /// Events that it receives; empty for all.
    pub events: Vec<HookEvent>,
    /// Namespace of the events; empty for all.
    pub namespace: String,
    #[serde(default, skip_serializing_if = "MessageFormat::is_json")]
    pub format: MessageFormat,
    pub allow_private: bool,
    pub disabled: bool,
    pub comment: String,
    pub created: Stamp,
    pub modified: Stamp,
    /// Identifier that changes of the configuration replace; deliveries do not.
    pub revision: String,
    pub progress: Progress,
}

/// Progress of the deliveries to a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of the last event that was delivered or dropped.
    pub through: u64,
    pub delivered: u64,
    /// Events that were not delivered because too many waited, or for too long.
    pub dropped: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<Timestamp>,
    /// Time since which all deliveries fail, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// Last failure, and the time at which it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<(Timestamp, String)>,
}

impl Webhook {
    pub fn wants(&self, news: &News) -> bool {
        !self.disabled
            && (self.events.is_empty() || self.events.contains(&news.event))
            && (self.namespace.is_empty() || self.namespace == news.namespace)
    }
}

/// Request for a webhook; an absent field is not changed. It cannot be serialized: its secret is sealed before it
/// becomes part of a command.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "WebhookDraft")]
pub struct WebhookRequest {
    /// Letters, digits and `- . / : _`, at most 128 characters.
    #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
    pub name: String,
    /// URL to which events are posted: `http://` or `https://`, without user, password and fragment, at most 2048
    /// characters. Required in a create request.
    pub url: Option<String>,
    /// Secret of 16 to 128 characters of printable ASCII without blanks; generated by a create request without one.
    #[schemars(with = "Option<String>")]
    pub secret: Option<ClearSecret>,
    /// Events to receive; all if absent or `[]`.
    pub events: Option<Vec<HookEvent>>,
    /// Namespace of the events; empty for all.
    pub namespace: Option<String>,
    /// `json`, also if absent, or the message format of a chat's bot: `slack`, `feishu`, `dingtalk`, `wecom`.
    pub format: Option<MessageFormat>,
    /// True if events may be posted to this machine and to private networks: loopback, private, shared and link-local
    /// addresses.
    pub allow_private: Option<bool>,
    /// True if nothing is sent or queued; events that wait are dropped.
    pub disabled: Option<bool>,
    /// Text of at most 1024 characters.
    pub comment: Option<String>,
    /// Expected revision; an update or delete with any other than the current one is refused with 409000.
    pub revision: Option<String>,
}

impl WebhookRequest {
    pub fn check_new(&self) -> Result<(), Refusal> {
        let url = self.url.as_deref().filter(|url| !url.is_empty());
        let url = url.ok_or_else(|| invalid("url is required"))?;
        if let Some(address) = literal(&read_url(url)?)
            && !Reach::of(address).is_allowed(self.allow_private.unwrap_or_default())
        {
            return Err(invalid(refused_address(address, false)));
        }
        self.check()
    }

    /// Checks everything that does not depend on the stored state, for create and update.
    pub fn check(&self) -> Result<(), Refusal> {
        self.check_named()?;
        if let Some(url) = &self.url {
            read_url(url)?;
        }
        let namespace = self.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        namespace.map_or(Ok(()), name::check_namespace)?;
        if self.events.as_ref().is_some_and(|events| events.len() > HookEvent::ALL.len()) {
            return Err(invalid("events names one twice"));
        }
        let comment = self.comment.as_deref().unwrap_or_default();
        name::check_length("comment", comment, limits::COMMENT_CHARS_MAX, Code::InvalidParameter)?;
        self.secret.as_ref().map_or(Ok(()), ClearSecret::check)
    }

    pub fn check_named(&self) -> Result<(), Refusal> {
        name::check_identifier("name", &self.name, limits::NAME_CHARS_MAX, Code::InvalidParameter)
    }

    /// Returns the draft to propose, with the sealed secret.
    pub fn into_draft(self, secret: Option<SealedSecret>) -> WebhookDraft {
        let WebhookRequest {
            name,
            url,
            secret: _,
            events,
            namespace,
            format,
            allow_private,
            disabled,
            comment,
            revision,
        } = self;
        let events = events.map(|mut events| {
            events.sort_unstable();
            events.dedup();
            events
        });
        WebhookDraft { name, url, secret, events, namespace, format, allow_private, disabled, comment, revision }
    }
}

fn invalid(why: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidParameter, why)
}

/// Parses the URL of a webhook, and refuses one that may not be stored.
pub fn read_url(text: &str) -> Result<Url, Refusal> {
    name::check_length("url", text, limits::WEBHOOK_URL_CHARS_MAX, Code::InvalidParameter)?;
    let url = Url::parse(text).map_err(|error| invalid(format!("url: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("url has to begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("url may not hold a user or a password"));
    }
    if url.fragment().is_some() {
        return Err(invalid("url may not have a fragment"));
    }
    match url.host_str().and_then(host::fault) {
        Some(why) => Err(invalid(format!("url: {why}"))),
        None => Ok(url),
    }
}

/// Returns the address that a URL contains literally, in any notation.
pub fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
    }
}

/// Reports whether a node sends to an address: public ones, and private ones if the webhook allows them and the
/// operator of the node has named their network.
pub fn is_reached(address: IpAddr, allows_private: bool, networks: &[IpNet]) -> bool {
    let is_named = || networks.iter().any(|network| network.contains(&address.to_canonical()));
    Reach::of(address).is_allowed(allows_private && is_named())
}

/// Checks a webhook that allows or names private addresses against the private networks that the operator of the node
/// permits.
pub fn check_reach(url: &str, allows_private: bool, networks: &[IpNet]) -> Result<(), Refusal> {
    if allows_private && networks.is_empty() {
        return Err(invalid("allow_private: no private network may be reached, see --webhook-private-networks"));
    }
    match literal(&read_url(url)?).filter(|address| !is_reached(*address, allows_private, networks)) {
        Some(address) => Err(invalid(refused_address(address, allows_private))),
        None => Ok(()),
    }
}

/// Returns the reason why nothing is sent to an address.
pub fn refused_address(address: IpAddr, allows_private: bool) -> String {
    match Reach::of(address) {
        Reach::Private if allows_private => {
            format!("{address} is in none of the private networks that may be reached, see --webhook-private-networks")
        }
        Reach::Private => format!("{address} is not a public address: allow_private has to be true for that"),
        Reach::Public | Reach::Forbidden => format!("nothing is sent to the address {address}"),
    }
}

sparse! {
    /// One item of a command on webhooks.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct WebhookDraft {
        pub name: String,
        pub url: Option<String>,
        pub secret: Option<SealedSecret>,
        pub events: Option<Vec<HookEvent>>,
        pub namespace: Option<String>,
        pub format: Option<MessageFormat>,
        pub allow_private: Option<bool>,
        pub disabled: Option<bool>,
        pub comment: Option<String>,
        pub revision: Option<String>,
    }
}

impl WebhookDraft {
    /// Overwrites `hook` with the given fields; absent ones are not changed, nor is the name.
    pub fn lay_over(&self, hook: &mut Webhook) {
        lay_over!(self => hook: url, secret, events, namespace, format, allow_private, disabled, comment);
    }
}

/// Result of deliveries to a webhook since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookTold {
    /// Id of the webhook.
    pub id: String,
    /// Number up to which all events were delivered or dropped.
    pub through: u64,
    /// Number of events among them that were dropped.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub given_up: u64,
    /// Reason why the last attempt failed; `None` if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(url: &str) -> WebhookRequest {
        WebhookRequest { name: "ops".into(), url: Some(url.into()), ..WebhookRequest::default() }
    }

    #[test]
    fn the_words_of_the_history_are_those_of_its_events() {
        for (action, word) in Action::ALL {
            assert!(HookEvent::of(*action).is_none_or(|event| event.word() == *word), "{word}");
        }
    }

    #[test]
    fn urls_are_judged() {
        for url in ["https://example.org/hook?x=1", "http://Example.org:8080", "http://1.1.1.1/", "https://[2a00::1]/"]
        {
            assert_eq!(asked(url).check_new(), Ok(()), "{url}");
        }
        let long = format!("https://example.org/{}", "a".repeat(limits::WEBHOOK_URL_CHARS_MAX));
        let refused = [
            "",
            "nowhere",
            "ftp://example.org/",
            "file:///etc/passwd",
            "https://",
            "https://ann:pw@example.org/",
            "https://ann@example.org/",
            "https://example.org/#part",
            &long,
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0/",
            "http://[::ffff:10.0.0.1]/",
            "http://[::1]/",
            "http://169.254.169.254/latest",
            "http://100.64.0.1/",
        ];
        for url in refused {
            assert_eq!(asked(url).check_new().expect_err(url).code, Code::InvalidParameter, "{url}");
        }
        let private = |url: &str| WebhookRequest { allow_private: Some(true), ..asked(url) }.check_new();
        assert_eq!((private("http://127.0.0.1/"), private("http://[fd00::1]/")), (Ok(()), Ok(())));
        assert!(private("http://169.254.169.254/").is_err() && private("http://0.0.0.0/").is_err());
    }

    #[test]
    fn the_other_fields_are_judged() {
        let good = || asked("https://example.org/");
        let secret = |text: &str| Some(ClearSecret::from(text.to_owned()));
        let bad = [
            WebhookRequest { name: String::new(), ..good() },
            WebhookRequest { name: "a b".into(), ..good() },
            WebhookRequest { secret: secret("short"), ..good() },
            WebhookRequest { namespace: Some("a b".into()), ..good() },
            WebhookRequest { events: Some(vec![HookEvent::Publish; HookEvent::ALL.len() + 1]), ..good() },
            WebhookRequest { comment: Some("c".repeat(limits::COMMENT_CHARS_MAX + 1)), ..good() },
        ];
        for request in bad {
            assert!(request.check_new().is_err() && request.check().is_err(), "{request:?}");
        }
        assert_eq!(WebhookRequest { url: None, ..good() }.check(), Ok(()), "an update need not name it");
        assert!(WebhookRequest { url: None, ..good() }.check_new().is_err());
        let events = Some(vec![HookEvent::Health, HookEvent::Publish, HookEvent::Health]);
        let draft = WebhookRequest { events, ..good() }.into_draft(None);
        assert_eq!(draft.events, Some(vec![HookEvent::Publish, HookEvent::Health]));
        let given = WebhookRequest { secret: secret("df23df3f59884980"), ..good() };
        assert!(!format!("{given:?}").contains("df23"));
    }

    #[test]
    fn events_are_chosen_by_word_and_namespace() {
        let news = |event, namespace: &str| News { event, namespace: namespace.into(), ..News::default() };
        let hook = |events: &[HookEvent], namespace: &str, disabled| Webhook {
            events: events.to_vec(),
            namespace: namespace.into(),
            disabled,
            ..Webhook::default()
        };
        let publish = news(HookEvent::Publish, "prod");
        assert!(hook(&[], "", false).wants(&publish) && hook(&[HookEvent::Publish], "prod", false).wants(&publish));
        assert!(!hook(&[], "", true).wants(&publish), "it is off");
        assert!(!hook(&[HookEvent::Gray], "", false).wants(&publish) && !hook(&[], "test", false).wants(&publish));
    }
}
