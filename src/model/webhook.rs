//! Webhooks: who wants to be told by HTTP of what happens, and what is told.
//!
//! The secret that what is told is signed with is held as those of access keys are ([`super::access_key`]): sealed
//! everywhere but with its holders.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::access_key::{ClearSecret, SealedSecret};
use super::code::{Code, Refusal};
use super::config_file::Stamp;
use super::draft::{lay_over, sparse};
pub use super::news::{
    ClientNews, EmergencyNews, HealthNews, InstanceNews, News, ReleaseNews, RequestNews, RolloutNews,
};
use super::release::Action;
use super::remote::Reach;
use super::time::Timestamp;
use super::wire::{Words, wire_enum};
use super::{host, limits, name};

wire_enum! {
    /// Events that webhooks receive: changes of releases, by the words of their history, and the health of instances.
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
        /// Approval was asked for.
        Requested = "requested",
        Approved = "approved",
        Refused = "refused",
        /// Something that needs approval was done without it, or in a freeze.
        Emergency = "emergency",
        /// The share of a rollout grew.
        RolloutStep = "rollout_step",
        /// A rollout was stopped, by a guard or by somebody: its clients fell back.
        RolloutStopped = "rollout_stopped",
        /// A client said that it could not apply a release.
        ClientRefused = "client_refused",
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
    /// The event of a change of a release; `None` for one that nobody is told of.
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

/// A webhook as it is kept. Its identity is its name, for as long as it has this id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    pub id: String,
    pub name: String,
    pub url: String,
    pub secret: SealedSecret,
    /// None for all.
    pub events: Vec<HookEvent>,
    /// Empty for all.
    pub namespace: String,
    #[serde(default, skip_serializing_if = "MessageFormat::is_json")]
    pub format: MessageFormat,
    pub allow_private: bool,
    pub disabled: bool,
    pub comment: String,
    pub created: Stamp,
    pub modified: Stamp,
    /// Changes with what is asked of it, not with what it was told.
    pub revision: String,
    pub progress: Progress,
}

/// Progress of the deliveries to a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The number of the last event that is behind it.
    pub through: u64,
    pub delivered: u64,
    /// Events that it was not told of, as too many waited or they waited for too long.
    pub dropped: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<Timestamp>,
    /// Since when nothing succeeds, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// The last failure, and when it was written down.
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

/// Request for a webhook; an absent field stays as it is. It cannot be serialised: its secret is sealed
/// before it becomes part of a command.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "WebhookDraft")]
pub struct WebhookRequest {
    /// Letters, digits and `- . / : _`, at most 128 characters.
    #[schemars(regex(pattern = name::IDENTIFIER_PATTERN))]
    pub name: String,
    /// URL that events are posted to: `http://` or `https://`, without user, password and fragment, at most 2048
    /// characters. Required in a create.
    pub url: Option<String>,
    /// 16 to 128 characters of printable ASCII without blanks; generated by a create that gives none.
    #[schemars(with = "Option<String>")]
    pub secret: Option<ClearSecret>,
    /// Wanted events; none, or `[]`, for all.
    pub events: Option<Vec<HookEvent>>,
    /// Of which namespace; empty for all.
    pub namespace: Option<String>,
    /// `json`, also where absent, or the messages of a chat's robot: `slack`, `feishu`, `dingtalk`, `wecom`.
    pub format: Option<MessageFormat>,
    /// True if addresses of this machine and of private networks may be posted to: loopback, private, shared and
    /// link-local ones.
    pub allow_private: Option<bool>,
    /// Nothing is sent, nothing is kept for it, and what waited is dropped.
    pub disabled: Option<bool>,
    /// At most 1024 characters.
    pub comment: Option<String>,
    /// An update or delete is refused with 409000 if this is not the current one.
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

    /// Checks all that can be judged without the state, on create and update.
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

    /// Returns the draft that is proposed of it, with its secret sealed.
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

/// Parses the URL of a webhook, and refuses one that may not be kept.
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

/// The address that a URL names itself, in whatever form.
pub fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
    }
}

/// True if a node sends to an address: to public ones, and to private ones if the webhook allows them and the
/// operator of the node has named their network.
pub fn is_reached(address: IpAddr, allows_private: bool, networks: &[IpNet]) -> bool {
    let is_named = || networks.iter().any(|network| network.contains(&address.to_canonical()));
    Reach::of(address).is_allowed(allows_private && is_named())
}

/// Judges a webhook that asks for private addresses, or names one, by the private networks that the operator of the
/// node lets be reached.
pub fn check_reach(url: &str, allows_private: bool, networks: &[IpNet]) -> Result<(), Refusal> {
    if allows_private && networks.is_empty() {
        return Err(invalid("allow_private: no private network may be reached, see --webhook-private-networks"));
    }
    match literal(&read_url(url)?).filter(|address| !is_reached(*address, allows_private, networks)) {
        Some(address) => Err(invalid(refused_address(address, allows_private))),
        None => Ok(()),
    }
}

/// Reason why nothing is sent to an address.
pub fn refused_address(address: IpAddr, allows_private: bool) -> String {
    match Reach::of(address) {
        Reach::Private if allows_private => {
            format!("{address} is in none of the private networks that may be reached, see --webhook-private-networks")
        }
        Reach::Private => format!("{address} is not a public address: allow_private has to be true for that"),
        Reach::Public | Reach::Forbidden => format!("{address} is no address that anything is sent to"),
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
    /// Lays the given fields over `hook`; absent ones stay. The name identifies and never changes.
    pub fn lay_over(&self, hook: &mut Webhook) {
        lay_over!(self => hook: url, secret, events, namespace, format, allow_private, disabled, comment);
    }
}

/// Result of the deliveries to a webhook since the last result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookTold {
    /// Of the webhook.
    pub id: String,
    /// All events up to this number are behind it.
    pub through: u64,
    /// Those among them that were given up.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub given_up: u64,
    /// Reason why the last try failed; `None` if it did not.
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
