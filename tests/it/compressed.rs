//! Answers that HTTP clients of others ask for compressed, and get the same: pulls, and discoveries.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::discover::question;
use crate::harness::{Cluster, program, report};

const LIMITS: &str = "/naming/v1/ratelimits";

/// Answer as a client has it.
#[derive(Debug, Deserialize, PartialEq, Eq)]
struct Got {
    status: u16,
    /// True if the client has unpacked it.
    unpacked: bool,
    body: String,
}

/// URLs with the body of a POST, of a node with a config file and rules of more than a few KiB.
async fn asked(cluster: &Cluster) -> Vec<(String, Option<Value>)> {
    let api = cluster.api(1);
    let pairs: String = (0..200).map(|number| format!("key.{number}=value of the key {number}\n")).collect();
    api.publish("default", "app", "application", &pairs).await;
    let names: Vec<_> = (0..40).map(|number| format!("limit-{number}")).collect();
    let limits: Vec<_> =
        names.iter().map(|name| json!({"name": name, "namespace": "shop", "service": "pay"})).collect();
    api.post(LIMITS, &json!(limits)).await.expect_code(200_000);
    let releases: Vec<_> = names.iter().map(|name| json!({"rule_name": name})).collect();
    api.post(&format!("{LIMITS}/releases"), &json!(releases)).await.expect_code(200_000);
    let config = format!("http://{}/configs/app/default/application", cluster.ports(1).compat);
    let discover = format!("http://{}/v1/Discover", cluster.ports(1).api);
    vec![(config, None), (discover, Some(question("RATE_LIMIT", "pay", json!({}))))]
}

/// The program runs with a URL and perhaps a body, and prints an answer.
async fn got(mut command: Command, cluster: &Cluster, url: &str, body: Option<&Value>) -> Got {
    let output = command
        .env("THUBAN_TOKEN", cluster.token())
        .arg(url)
        .args(body.map(Value::to_string))
        .output()
        .await
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Go's HTTP client requests gzip by default and decompresses the answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_gos_library_gets_the_same_compressed() {
    let cluster = Cluster::start(1).await;
    let Some(path) = program("go", "http", "newest").await else { return };
    for (url, body) in asked(&cluster).await {
        let compressed = got(Command::new(&path), &cluster, &url, body.as_ref()).await;
        let mut plain = Command::new(&path);
        plain.env("THUBAN_PLAIN", "1");
        let plain = got(plain, &cluster, &url, body.as_ref()).await;
        assert_eq!((compressed.status, compressed.unpacked, plain.unpacked), (200, true, false), "{url}");
        assert!(compressed.body == plain.body && plain.body.len() > 4_000, "{url}: {compressed:?} {plain:?}");
    }
}

/// curl prints the number of received bytes.
#[tokio::test(flavor = "multi_thread")]
async fn curl_gets_the_same_compressed() {
    let cluster = Cluster::start(1).await;
    for (url, body) in asked(&cluster).await {
        let mut answers = BTreeMap::new();
        for flags in [&[][..], &["--compressed"]] {
            let mut command = Command::new("curl");
            command.args(["--silent", "--show-error", "--fail", "--write-out", "\n%{size_download}"]).args(flags);
            if let Some(body) = &body {
                let token = format!("Authorization: {}", cluster.token());
                command.args(["--header", "Content-Type: application/json", "--header", &token]);
                command.args(["--data", &body.to_string()]);
            }
            let output = command.arg(&url).output().await.expect("curl runs");
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stdout).expect("unpacked");
            let (text, size) = text.rsplit_once('\n').expect("a size is written");
            let size: usize = size.parse().expect("a number");
            answers.insert(flags.len(), (text.to_owned(), size));
        }
        let [(plain, whole), (unpacked, packed)] = [&answers[&0], &answers[&1]];
        report(format!("{url}: {packed} bytes compressed, {whole} not"));
        assert!(plain == unpacked && *whole == plain.len() && packed * 4 < *whole, "{url}: {packed} of {whole}");
    }
}
