//! The state of a release in words, as commands print it.

use serde_json::Value;

use super::find::release_name;
use super::tables::text;
use super::under_way::clients_of;

/// Describes the state of a release and the clients that it is for.
pub(super) fn outcome(release: &Value) -> String {
    let (name, version) = (release_name(release), text(&release["version"]));
    let version = match name == format!("v{version}") {
        true => format!("version {version}"),
        false => format!("version {version} ({name})"),
    };
    let rollout = &release["rollout"];
    let clients = match clients_of(release) {
        Some(clients) => clients,
        None if rollout.is_object() => format!("{} % by {}", rollout["percent"], text(&rollout["by"])),
        None => "everyone".to_owned(),
    };
    let is_gray = is_of_type(release, "gray");
    let steps = match rollout["next_at"].as_str() {
        Some(at) => format!(", next step at {at} UTC"),
        None => String::new(),
    };
    match (release["state"].as_str(), release["publish_at"].as_str()) {
        (Some("active"), _) if is_gray => format!("{version} is a canary for {clients}{steps}"),
        (Some("active"), _) => format!("{version} is live for everyone"),
        (Some("scheduled"), Some(at)) if is_gray => {
            format!("{version} is scheduled as a canary for {clients} at {at} UTC")
        }
        (Some("scheduled"), Some(at)) => format!("{version} is scheduled for everyone at {at} UTC"),
        (Some("inactive"), _) => format!("{version} is not live"),
        (state, _) => format!("{version}, {}", state.unwrap_or("-")),
    }
}

/// Reports the type; rules and config files spell the member in two ways.
pub(super) fn is_of_type(release: &Value, word: &str) -> bool {
    [&release["release_type"], &release["releaseType"]].into_iter().any(|given| given == word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_release_says_whom_it_is_live_for() {
        let release = |more: Value| {
            let mut release = json!({"release_name": "v3", "version": 3, "state": "active", "release_type": "normal"});
            release.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            outcome(&release)
        };
        let labels = json!([{ "key": "zone", "value": { "type": "EXACT", "value": "a" } }]);
        let rollout = json!({ "by": "CLIENT_IP", "percent": 5, "next_at": "2026-11-26 10:00:00", "steps": [{}, {}] });
        let at = "2026-12-31 23:00:00";
        for (more, expected) in [
            (json!({}), "version 3 is live for everyone"),
            (json!({"release_name": "first"}), "version 3 (first) is live for everyone"),
            (json!({"release_type": "gray", "client_labels": labels}), "version 3 is a canary for zone=a"),
            (
                json!({"release_type": "gray", "betaLabels": labels, "client_percent": {"by": "zone", "percent": 7}}),
                "version 3 is a canary for zone=a, 7 % by zone",
            ),
            (
                json!({"release_type": "gray", "rollout": rollout}),
                "version 3 is a canary for 5 % by CLIENT_IP, next step at 2026-11-26 10:00:00 UTC",
            ),
            (
                json!({"state": "scheduled", "publish_at": at}),
                "version 3 is scheduled for everyone at 2026-12-31 23:00:00 UTC",
            ),
            (json!({"state": "inactive"}), "version 3 is not live"),
            (json!({"state": "failed"}), "version 3, failed"),
        ] {
            assert_eq!(release(more), expected);
        }
    }
}
