//! Instances by the command line: registered, kept alive, listed, deregistered.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::Desk;
use crate::harness::{eventually, thuban};

const LIMIT: Duration = Duration::from_secs(20);

async fn listed(desk: &Desk) -> Value {
    let told = desk.line("instance list --service pay -n shop -o json").await.expect(0);
    serde_json::from_str(&told).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_registered_with_all_that_it_is() {
    let desk = Desk::start(1).await;
    let told = desk
        .line(
            "instance register 10.0.0.7:8080 --service pay -n shop --label version=2 --label zone=a --weight 50 \
             --protocol grpc --location eu/eu-1/a --ttl 2",
        )
        .await
        .expect(0);
    assert_eq!(told, "10.0.0.7:8080 of service/pay in shop: registered, a heartbeat is due every 2 s\n");
    desk.line("instance register [::1]:80 --service pay -n shop").await.expect(0);
    let table = desk.line("instances list -s pay -n shop").await.expect(0);
    assert!(table.contains("10.0.0.7:8080") && table.contains("::1:80"), "{table}");
    let all = listed(&desk).await;
    let first = all.as_array().expect("rows").iter().find(|row| row["spec"]["host"] == "10.0.0.7").expect("listed");
    let spec = &first["spec"];
    assert_eq!((&spec["weight"], &spec["protocol"]), (&50.into(), &"grpc".into()), "{first}");
    assert_eq!((&spec["metadata"]["version"], &spec["metadata"]["zone"]), (&"2".into(), &"a".into()), "{first}");
    assert_eq!(spec["location"]["zone"], "eu-1", "{first}");
    assert_eq!(spec["healthCheck"]["heartbeat"]["ttl"], 2, "{first}");
    assert!(desk.line("instance list -A").await.expect(0).contains("10.0.0.7:8080"));
    desk.line("instance deregister 10.0.0.7:8080 --service pay -n shop").await.expect(0);
    desk.line("instance deregister 10.0.0.7:8080 --service pay -n shop").await.expect(0);
    assert_eq!(listed(&desk).await.as_array().map(Vec::len), Some(1));
    for line in ["instance register 10.0.0.7 --service pay", "instance register a:1 --service pay --ttl 0"] {
        desk.line(line).await.expect(2);
    }
    let refused = desk.line("instance register 10.0.0.7:80 --service pay --weight 4294967295 -n a/b!").await.expect(3);
    assert!(refused.trim_end().ends_with(')'), "{refused}");
}

/// The instance of a command with --heartbeat stays healthy, is registered again after it was deleted, and is gone
/// after the signal.
#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_go_on_until_the_signal() {
    let desk = Desk::start(1).await;
    let mut command = thuban();
    command.env("THUBAN_ENDPOINT", &desk.endpoints).env("THUBAN_TOKEN", desk.cluster.token());
    command.args("instance register 10.0.0.8:80 --service pay -n shop --ttl 1 --heartbeat".split_whitespace());
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let mut next = async || lines.next_line().await.expect("text").unwrap_or_default();
    assert!(next().await.contains("registered, a heartbeat is due every 1 s"));
    desk.line("instance deregister 10.0.0.8:80 --service pay -n shop").await.expect(0);
    assert!(next().await.contains("registered again"));
    // Without heartbeats it would be unhealthy after three times its ttl, and another one is.
    desk.line("instance register 10.0.0.9:80 --service pay -n shop --ttl 1").await.expect(0);
    eventually(LIMIT, "the one without heartbeats is unhealthy", async || {
        let all = listed(&desk).await;
        let healthy = |host: &str| {
            let found = all.as_array().expect("rows").iter().find(|row| row["spec"]["host"] == host);
            found.map(|row| row["spec"]["healthy"] == true)
        };
        assert_eq!(healthy("10.0.0.8"), Some(true), "{all}");
        if healthy("10.0.0.9") == Some(false) { Ok(()) } else { Err(all.to_string()) }
    })
    .await;
    let pid = child.id().expect("it runs").to_string();
    let kill = tokio::process::Command::new("kill").args(["-INT", &pid]).status().await.expect("kill runs");
    assert!(kill.success());
    assert!(next().await.contains("deregistered"));
    assert!(child.wait().await.expect("it ends").success());
    let all = listed(&desk).await;
    assert!(!all.to_string().contains("10.0.0.8"), "{all}");
}
