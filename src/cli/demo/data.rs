//! The objects of the demo: services and instances, config files, rules, releases, a policy, a contract.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use thuban_ctl::remote::{Refused, Remote};

use super::{Desk, NAMESPACE};
use crate::operations::new_token;

/// Group of the config files, which is the app id of their clients.
pub(super) const GROUP: &str = "shop";
/// Config files with the contents of their two releases.
pub(super) const FILES: [(&str, &str, &str); 3] = [
    ("application.properties", "timeout=5s\nretries=2\n", "timeout=3s\nretries=2\n"),
    ("features.yaml", "checkout:\n  express: false\n", "checkout:\n  express: true\n"),
    ("limits.json", "{\"burst\": 200, \"queue\": 50}\n", "{\"burst\": 500, \"queue\": 50}\n"),
];
/// File of the repeated stepwise rollouts.
const ROLLED_OUT: &str = "features.yaml";
const SERVICES: [(&str, &str); 5] =
    [("gateway", "edge"), ("checkout", "orders"), ("pay", "payments"), ("stock", "orders"), ("mail", "messages")];
const ZONES: [&str; 2] = ["a", "b"];

/// Seconds of the ttl; an instance without a heartbeat for three times as long is unhealthy.
const TTL_S: u64 = 5;
pub(super) const HEARTBEAT_EVERY: Duration = Duration::from_secs(3);
/// Seconds for which a rollout holds each of its steps.
const STEP_S: u64 = 30;
pub(super) const ROLLOUT_CHECKED_EVERY: Duration = Duration::from_secs(5);

/// Code of a create whose object exists already.
const EXISTS: u64 = 400_201;

/// Creates what is missing. Objects that exist stay as they are.
pub(super) async fn create(desk: &Desk, remote: &Remote) -> anyhow::Result<()> {
    if is_complete(remote).await? {
        return Ok(());
    }
    let services: Vec<Value> = SERVICES
        .iter()
        .map(|(name, department)| json!({"namespace": NAMESPACE, "name": name, "department": department}))
        .collect();
    make(remote, "/naming/v1/namespaces", json!([{"name": NAMESPACE, "comment": "thuban dev --demo"}])).await?;
    make(remote, "/naming/v1/services", Value::Array(services)).await?;
    make(remote, "/naming/v1/instances", Value::Array(instances())).await?;
    files(remote).await?;
    rules(remote).await?;
    canary(remote).await?;
    make(remote, "/admin/v1/contracts", contract()).await?;
    policy(desk, remote).await
}

/// Reports whether the policy exists: it and the request under it are created last.
async fn is_complete(remote: &Remote) -> anyhow::Result<bool> {
    let found = remote.get("/admin/v1/policies?name=pay-review").await?;
    Ok(found["amount"].as_u64().is_some_and(|amount| amount > 0))
}

/// Sends a batch of which each item may exist already.
async fn make(remote: &Remote, path: &str, items: Value) -> anyhow::Result<()> {
    match remote.call(Method::POST, path, Some(&items)).await {
        Ok(_) => Ok(()),
        Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.code == EXISTS) => Ok(()),
        Err(error) => Err(error.context(format!("POST {path}"))),
    }
}

/// Returns two instances of each service, one in each zone.
fn instances() -> Vec<Value> {
    let mut all = Vec::new();
    for (number, (service, _)) in (1..).zip(SERVICES) {
        for (zone, last) in ZONES.into_iter().zip(1..) {
            all.push(json!({
                "namespace": NAMESPACE, "service": service, "host": format!("10.20.{number}.{last}"), "port": 8080,
                "protocol": "http", "version": "1.4.0", "metadata": {"zone": zone},
                "location": {"region": "demo", "zone": zone, "campus": ""},
                "enable_health_check": true,
                "health_check": {"type": "HEARTBEAT", "heartbeat": {"ttl": TTL_S}},
            }));
        }
    }
    all
}

/// Sends one heartbeat of each instance.
pub(super) async fn beat(remote: &Remote) -> anyhow::Result<()> {
    remote.call(Method::POST, "/v1/Heartbeat", Some(&Value::Array(instances()))).await?;
    Ok(())
}

async fn files(remote: &Remote) -> anyhow::Result<()> {
    for (file, first, second) in FILES {
        for (content, name) in [(first, "first"), (second, "second")] {
            let body = json!({
                "namespace": NAMESPACE, "group": GROUP, "file_name": file, "content": content, "release_name": name,
            });
            remote.call(Method::POST, "/config/v1/configfiles/createandpub", Some(&body)).await?;
        }
    }
    Ok(())
}

/// Returns one rule of each family, as path and item.
fn rule_items() -> [(&'static str, Value); 4] {
    [
        ("ratelimits", limit(100)),
        (
            "routings",
            json!([{
                "name": "checkout-same-version", "namespace": NAMESPACE, "enable": true,
                "routing_config": {"@type": "type.googleapis.com/v1.RuleRoutingConfig", "rules": [{
                    "sources": [{"namespace": NAMESPACE, "service": "gateway",
                        "arguments": [{
                            "type": "HEADER", "key": "x-version", "value": {"type": "EXACT", "value": "1.4.0"}}]}],
                    "destinations": [{"namespace": NAMESPACE, "service": "checkout", "weight": 100, "priority": 0,
                        "labels": {"version": {"type": "EXACT", "value": "1.4.0"}}}],
                }]},
            }]),
        ),
        (
            "circuitbreakers",
            json!([{
                "name": "stock-breaker", "namespace": NAMESPACE, "enable": true, "level": "SERVICE",
                "rule_matcher": {"source": {"namespace": "*", "service": "*"},
                    "destination": {"namespace": NAMESPACE, "service": "stock"}},
                "block_configs": [{"name": "errors",
                    "error_conditions": [
                        {"input_type": "RET_CODE", "condition": {"type": "IN", "value": "500,502,503"}}],
                    "trigger_conditions": [
                        {"trigger_type": "ERROR_RATE", "error_percent": 50, "interval": 30, "minimum_request": 10}]}],
                "recover_condition": {"sleep_window": 30, "consecutive_success": 3},
            }]),
        ),
        (
            "faultdetectors",
            json!([{
                "name": "mail-probe", "namespace": NAMESPACE, "enable": true,
                "target_service": {"namespace": NAMESPACE, "service": "mail"},
                "rules": [{"interval": 10, "timeout": 1, "protocol": "HTTP",
                    "http_config": {"method": "GET", "url": "/healthz"}}],
            }]),
        ),
    ]
}

fn limit(amount: u64) -> Value {
    json!([{
        "name": "pay-limit", "namespace": NAMESPACE, "enable": true,
        "callee": {"namespace": NAMESPACE, "service": "pay"},
        "rules": [{"apis": [{"path": {"type": "EXACT", "value": "/charge"}}],
            "amounts": [{"maxAmount": amount, "validDuration": "1s"}]}],
    }])
}

async fn rules(remote: &Remote) -> anyhow::Result<()> {
    for (family, items) in rule_items() {
        let name = items[0]["name"].clone();
        make(remote, &format!("/naming/v1/{family}"), items).await?;
        let release = json!([{"rule_name": name, "release_name": "v1"}]);
        make(remote, &format!("/naming/v1/{family}/releases"), release).await?;
    }
    Ok(())
}

/// Releases a lower limit to the clients of zone a.
async fn canary(remote: &Remote) -> anyhow::Result<()> {
    remote.call(Method::PUT, "/naming/v1/ratelimits", Some(&limit(50))).await?;
    let release = json!([{
        "rule_name": "pay-limit", "release_name": "v2", "release_type": "gray",
        "client_labels": [{"key": "zone", "value": {"type": "EXACT", "value": "a"}}],
    }]);
    make(remote, "/naming/v1/ratelimits/releases", release).await
}

fn contract() -> Value {
    json!([{
        "name": "limits", "namespace": NAMESPACE, "names": [format!("{GROUP}/limits.json")], "kinds": ["configfile"],
        "mode": "refuse", "comment": "a burst is a whole number up to 1000",
        "schema": {"type": "object", "required": ["burst"],
            "properties": {"burst": {"type": "integer", "maximum": 1000}}},
    }])
}

/// Creates a policy on the rules of `pay`, and another user's request that the administrator can approve.
async fn policy(desk: &Desk, remote: &Remote) -> anyhow::Result<()> {
    let password = new_token();
    let grants: Vec<Value> =
        ["releaser", "editor"].iter().map(|role| json!({"role": role, "namespace": NAMESPACE})).collect();
    let user = json!([{"name": "rita", "password": password, "grants": grants, "comment": "asks for approval"}]);
    make(remote, "/auth/v1/users", user).await?;
    let policy = json!([{
        "name": "pay-review", "namespace": NAMESPACE, "names": ["pay", "pay-*"], "approvals": 1,
        "comment": "two people for what acts on pay",
    }]);
    make(remote, "/admin/v1/policies", policy).await?;
    // A login with the new password succeeds only at the first start; later the request exists already.
    let Ok(rita) = desk.log_in_as("rita", &password).await else { return Ok(()) };
    let rule = json!([{
        "name": "pay-limit-refunds", "namespace": NAMESPACE, "enable": true,
        "callee": {"namespace": NAMESPACE, "service": "pay"},
        "rules": [{"apis": [{"path": {"type": "EXACT", "value": "/refund"}}],
            "amounts": [{"maxAmount": 10, "validDuration": "1s"}]}],
    }]);
    make(&rita, "/naming/v1/ratelimits", rule).await?;
    let asked = json!([{"rule_name": "pay-limit-refunds", "release_name": "v1", "request": "refunds get a limit"}]);
    make(&rita, "/naming/v1/ratelimits/releases", asked).await
}

/// Begins a rollout of the file if none is under way, each with a new content.
pub(super) async fn roll_out(remote: &Remote) -> anyhow::Result<()> {
    let of_file = format!("namespace={NAMESPACE}&group={GROUP}&file_name={ROLLED_OUT}");
    let listed = remote.get(&format!("/config/v1/configfiles/releases?{of_file}&limit=100")).await?;
    let releases = listed["configFileReleases"].as_array().cloned().unwrap_or_default();
    let is_under_way = |release: &Value| {
        release["releaseType"] == "gray"
            && release["active"] == true
            && ["running", "paused"].iter().any(|state| release["rollout"]["state"] == *state)
    };
    if releases.iter().any(is_under_way) {
        return Ok(());
    }
    let newest = releases.iter().filter_map(|release| release["version"].as_u64()).max().unwrap_or(0);
    let draft = json!({
        "namespace": NAMESPACE, "group": GROUP, "name": ROLLED_OUT,
        "content": format!("checkout:\n  express: true\n  basket: {}\n", newest + 1),
    });
    remote.call(Method::PUT, "/config/v1/configfiles", Some(&draft)).await?;
    let steps = json!([
        {"percent": 10, "hold_s": STEP_S}, {"percent": 25, "hold_s": STEP_S}, {"percent": 50, "hold_s": STEP_S},
        {"percent": 100},
    ]);
    let release = json!({
        "namespace": NAMESPACE, "group": GROUP, "file_name": ROLLED_OUT, "name": format!("basket-{}", newest + 1),
        "release_type": "gray", "plan": {"by": "CLIENT_IP", "steps": steps, "guards": [{"kind": "signal"}]},
    });
    remote.call(Method::POST, "/config/v1/configfiles/release", Some(&release)).await?;
    Ok(())
}
