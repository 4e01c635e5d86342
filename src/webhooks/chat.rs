//! Messages in the formats of chat robots, and the interpretation of their responses.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::json;

use crate::model::webhook::{MessageFormat, News};
use crate::model::wire::Words;

/// Returns the body of a message, or `None` for receivers of JSON.
pub(super) fn body(format: MessageFormat, news: &News) -> Option<Vec<u8>> {
    let text = text(news);
    let body = match format {
        MessageFormat::Json => return None,
        MessageFormat::Slack => json!({ "text": text }),
        MessageFormat::Feishu => json!({ "msg_type": "text", "content": { "text": text } }),
        MessageFormat::DingTalk | MessageFormat::WeCom => json!({ "msgtype": "text", "text": { "content": text } }),
    };
    serde_json::to_vec(&body).ok()
}

/// Returns a line of text. It begins with the keyword that some robots require.
fn text(news: &News) -> String {
    let News { event, kind, namespace, group, name, release, health, request, .. } = news;
    let News { emergency, rollout, client, login, .. } = news;
    let slash = if group.is_empty() { "" } else { "/" };
    let mut text = format!("Thuban {}: {kind} {namespace}/{group}{slash}{name}", event.word());
    let mut say = |part: String| text.write_fmt(format_args!(", {part}")).unwrap_or_default();
    if let Some(release) = release {
        let by = if release.user.is_empty() { String::new() } else { format!(" by {}", release.user) };
        say(format!("release {} version {}{by}", release.release_name, release.version));
        if !release.comment.is_empty() {
            say(release.comment.clone());
        }
    }
    if let Some(health) = health {
        say(format!("{} of {} instances healthy", health.healthy, health.total));
    }
    if let Some(request) = request {
        say(format!(
            "{} asked for by {} (request {}), {}: {}",
            request.act, request.user, request.id, request.by, request.comment
        ));
    }
    if let Some(emergency) = emergency {
        say(format!("by {}: {}", emergency.user, emergency.reason));
    }
    if let Some(rollout) = rollout {
        say(format!("step {}, {} %, {}", rollout.step, rollout.percent, rollout.state.word()));
    }
    if let Some(client) = client {
        say(format!("client {} {}: {}", client.address, client.agent, client.message));
    }
    if let Some(login) = login {
        say(format!("logged in from {} {}", login.address, login.agent).trim_end().to_owned());
    }
    text
}

/// Response body of a robot. Some services return 200 for refused messages, with an error code in the body.
#[derive(Deserialize)]
struct RobotAnswer {
    #[serde(alias = "errcode", alias = "StatusCode")]
    code: i64,
    #[serde(default, alias = "errmsg", alias = "StatusMessage")]
    msg: String,
}

/// Checks the body of a successful response for an error code.
pub(super) fn judge(format: MessageFormat, answer: &[u8]) -> Result<(), String> {
    if matches!(format, MessageFormat::Json | MessageFormat::Slack) {
        return Ok(());
    }
    match serde_json::from_slice::<RobotAnswer>(answer) {
        Ok(answer) if answer.code != 0 => Err(format!("answered code {}: {}", answer.code, answer.msg)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::model::webhook::{HookEvent, ReleaseNews};

    fn news() -> News {
        let release = ReleaseNews {
            user: "ann".into(),
            release_name: "v2".into(),
            version: 2,
            comment: "faster".into(),
            ..ReleaseNews::default()
        };
        News {
            event: HookEvent::Publish,
            kind: "configfile".into(),
            namespace: "shop".into(),
            group: "pay".into(),
            name: "app.yml".into(),
            release: Some(release),
            ..News::default()
        }
    }

    #[test]
    fn bodies_are_those_that_the_services_document() {
        let line = "Thuban publish: configfile shop/pay/app.yml, release v2 version 2 by ann, faster";
        let rows = [
            (MessageFormat::Slack, json!({"text": line})),
            (MessageFormat::Feishu, json!({"msg_type": "text", "content": {"text": line}})),
            (MessageFormat::DingTalk, json!({"msgtype": "text", "text": {"content": line}})),
            (MessageFormat::WeCom, json!({"msgtype": "text", "text": {"content": line}})),
        ];
        for (format, expected) in rows {
            let body = body(format, &news()).expect("a body");
            assert_eq!(serde_json::from_slice::<Value>(&body).expect("JSON"), expected, "{format:?}");
        }
        assert_eq!(body(MessageFormat::Json, &news()), None);
    }

    #[test]
    fn a_refusal_in_the_body_is_one() {
        let refused = r#"{"errcode":310000,"errmsg":"keywords not in content"}"#;
        let why = "answered code 310000: keywords not in content".to_owned();
        assert_eq!(judge(MessageFormat::DingTalk, refused.as_bytes()), Err(why));
        assert_eq!(judge(MessageFormat::WeCom, br#"{"errcode":0,"errmsg":"ok"}"#), Ok(()));
        assert!(judge(MessageFormat::Feishu, br#"{"code":19024,"msg":"Key Words Not Found","data":{}}"#).is_err());
        assert_eq!(judge(MessageFormat::Feishu, br#"{"StatusCode":0,"StatusMessage":"success"}"#), Ok(()));
        assert_eq!(judge(MessageFormat::Slack, b"ok"), Ok(()));
        assert_eq!(judge(MessageFormat::Feishu, b"<html>"), Ok(()), "its status says it was taken");
    }
}
