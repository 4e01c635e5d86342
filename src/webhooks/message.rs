//! Message to a receiver: the body, its signature, and further headers.

use bytes::Bytes;
use hmac::{Hmac, Mac};
use serde::Serialize;
use sha2::Sha256;

use super::chat;
use crate::catalog::webhooks::WebhookEvent;
use crate::model::webhook::{
    ClientNews, EmergencyNews, HookEvent, InstanceNews, LoginNews, News, RequestNews, RolloutNews, Webhook,
};
use crate::model::wire::Words;

/// One event for one receiver, identical in every attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) event: &'static str,
    pub(super) time: String,
    pub(super) signature: String,
    pub(super) body: Bytes,
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    event: HookEvent,
    /// `YYYY-MM-DD HH:MM:SS`, UTC.
    time: &'a str,
    cluster: &'a str,
    webhook: &'a str,
    kind: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<Release<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Health<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a RequestNews>,
    #[serde(skip_serializing_if = "Option::is_none")]
    emergency: Option<&'a EmergencyNews>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rollout: Option<&'a RolloutNews>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a ClientNews>,
    #[serde(skip_serializing_if = "Option::is_none")]
    login: Option<&'a LoginNews>,
}

#[derive(Serialize)]
struct Release<'a> {
    name: &'a str,
    version: u64,
    from_version: u64,
    user: &'a str,
    comment: &'a str,
}

#[derive(Serialize)]
struct Health<'a> {
    total: u64,
    healthy: u64,
    changed: u64,
    instances: &'a [InstanceNews],
}

impl Message {
    pub(super) fn new(cluster: &str, hook: &Webhook, event: &WebhookEvent, secret: &[u8]) -> Message {
        let News {
            event: word,
            time,
            kind,
            namespace,
            group,
            name,
            release,
            health,
            request,
            emergency,
            rollout,
            client,
            login,
        } = &*event.news;
        let (id, time) = (format!("{:016x}", event.number), time.text());
        let body = Body {
            id: &id,
            event: *word,
            time: &time,
            cluster,
            webhook: &hook.name,
            kind,
            namespace,
            group,
            name,
            release: release.as_ref().map(|release| Release {
                name: &release.release_name,
                version: release.version,
                from_version: release.from_version,
                user: &release.user,
                comment: &release.comment,
            }),
            health: health.as_ref().map(|health| Health {
                total: health.total,
                healthy: health.healthy,
                changed: health.changed,
                instances: &health.instances,
            }),
            request: request.as_ref(),
            emergency: emergency.as_ref(),
            rollout: rollout.as_ref(),
            client: client.as_ref(),
            login: login.as_ref(),
        };
        let json = || serde_json::to_vec(&body).expect("texts and numbers");
        let body = chat::body(hook.format, &event.news).unwrap_or_else(json);
        Message { signature: sign(secret, &body), id, event: word.word(), time, body: body.into() }
    }
}

/// Returns the signature of the body: `sha256=` and its HMAC-SHA256 in hex.
fn sign(secret: &[u8], body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length will do");
    format!("sha256={}", hex::encode(mac.chain_update(body).finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::model::time::Timestamp;
    use crate::model::webhook::{HealthNews, ReleaseNews};

    fn event(news: News) -> WebhookEvent {
        WebhookEvent { number: 0x1_0002, to: Vec::new(), news: Arc::new(news) }
    }

    fn hook() -> Webhook {
        Webhook { name: "ops".into(), ..Webhook::default() }
    }

    fn read(message: &Message) -> Value {
        serde_json::from_slice(&message.body).expect("JSON")
    }

    /// Second example of RFC 4231.
    #[test]
    fn it_is_signed_as_the_standard_says() {
        let signature = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(sign(b"Jefe", b"what do ya want for nothing?"), signature);
    }

    #[test]
    fn a_release_is_told_of() {
        let release = ReleaseNews {
            user: "ann".into(),
            release_name: "r2".into(),
            version: 3,
            from_version: 2,
            ..ReleaseNews::default()
        };
        let news = News {
            event: HookEvent::Promote,
            time: Timestamp(1_795_163_435_225),
            kind: "configfile".into(),
            namespace: "prod".into(),
            group: "shop".into(),
            name: "app.yml".into(),
            release: Some(release),
            ..News::default()
        };
        let message = Message::new("c1", &hook(), &event(news), b"secret");
        let expected = json!({
            "id": "0000000000010002", "event": "promote", "time": "2026-11-20 08:30:35", "cluster": "c1",
            "webhook": "ops", "kind": "configfile", "namespace": "prod", "group": "shop", "name": "app.yml",
            "release": { "name": "r2", "version": 3, "from_version": 2, "user": "ann", "comment": "" },
        });
        assert_eq!(read(&message), expected);
        assert_eq!((message.id.as_str(), message.event), ("0000000000010002", "promote"));
        assert_eq!(message.signature, sign(b"secret", &message.body));
    }

    #[test]
    fn health_is_told_of() {
        let instances = vec![InstanceNews { id: "i".into(), host: "10.0.0.1".into(), port: 80, healthy: false }];
        let health = HealthNews { total: 2, healthy: 1, changed: 1, instances };
        let (kind, name) = ("service".into(), "pay".into());
        let news = News { event: HookEvent::Health, kind, name, health: Some(health), ..News::default() };
        let told = read(&Message::new("c1", &hook(), &event(news), b"secret"));
        assert_eq!(
            told["health"]["instances"][0],
            json!({ "id": "i", "host": "10.0.0.1", "port": 80, "healthy": false })
        );
        assert_eq!((told["health"]["total"].as_u64(), told.get("release"), told.get("group")), (Some(2), None, None));
    }
}
