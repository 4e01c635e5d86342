//! Polaris' SDKs as they are published, on a node: `scripts/clients` counts what each version of them does.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::harness::{Api, Cluster, asked_client, eventually, patient, program, report};

/// SDKs ask for each key every two seconds, and watch config files from the fifth second on.
const WITHIN: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A program on an SDK, which does what the lines of its input ask for.
struct Sdk {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Changes that it reported by itself.
    events: Vec<Value>,
    _process: Child,
    _directory: TempDir,
}

impl Sdk {
    /// Starts a program that is connected to the first node; none without its language or its registry.
    async fn start((language, variant): (&str, &str), cluster: &Cluster) -> Option<Sdk> {
        let path = program(language, "polaris", variant).await?;
        let directory = TempDir::new().expect("a temporary directory can be made");
        let address = cluster.grpc(1).to_string();
        let mut command = Command::new(path);
        command.args([&address, &address, "shop"]).arg(directory.path());
        command.env("THUBAN_TOKEN", cluster.api(1).token().expect("a token"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        let mut process = command.spawn().expect("the program can be run");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let mut sdk = Sdk { input, output, events: Vec::new(), _process: process, _directory: directory };
        assert_eq!(sdk.line().await["event"], "ready");
        Some(sdk)
    }

    async fn line(&mut self) -> Value {
        let line = timeout(patient(ANSWER_LIMIT), self.output.next_line()).await.expect("in time");
        let line = line.expect("text").expect("the program goes on");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Asks for an act, and returns its answer.
    async fn ask(&mut self, act: &str) -> Value {
        self.input.write_all(format!("{act}\n").as_bytes()).await.expect("it reads");
        loop {
            let line = self.line().await;
            if line["event"].is_null() {
                return line;
            }
            self.events.push(line);
        }
    }

    /// Asks until the answer is the expected one.
    async fn until(&mut self, act: &str, is_expected: impl Fn(&Value) -> bool) {
        let deadline = tokio::time::Instant::now() + patient(WITHIN);
        loop {
            let answer = self.ask(act).await;
            if is_expected(&answer) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{act}: {answer}");
        }
    }

    /// Waits for a change that the SDK reports by itself.
    async fn event(&mut self, is_expected: impl Fn(&Value) -> bool) {
        let told = async {
            loop {
                if let Some(at) = self.events.iter().position(&is_expected) {
                    return drop(self.events.drain(..=at));
                }
                let line = self.output.next_line().await.expect("text").expect("the program goes on");
                self.events.push(serde_json::from_str(&line).expect("a line of JSON"));
            }
        };
        timeout(patient(WITHIN), told).await.expect("an event in time");
    }
}

/// The SDK that scripts/clients asks for, or the newest of each language.
fn sdks() -> Vec<(&'static str, &'static str)> {
    let all = [("go", "newest"), ("go", "1.6"), ("java", "newest")].into_iter();
    match asked_client() {
        Some(asked) => all.filter(|(language, variant)| asked == format!("{language}/polaris/{variant}")).collect(),
        None => all.filter(|(_, variant)| *variant == "newest").collect(),
    }
}

async fn release(api: &Api, kind: &str, item: Value) {
    let name = item[0]["name"].clone();
    api.post(&format!("/naming/v1/{kind}"), &item).await.expect_code(200_000);
    let release = json!([{"rule_name": name, "namespace": "shop"}]);
    api.post(&format!("/naming/v1/{kind}/releases"), &release).await.expect_code(200_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sdk_registers_discovers_routes_and_breaks() {
    for which in sdks() {
        let cluster = Cluster::start(1).await;
        let api = cluster.api(1);
        let Some(mut sdk) = Sdk::start(which, &cluster).await else { continue };
        let (one, both) = (json!(["10.0.0.1:80"]), json!(["10.0.0.1:80", "10.0.0.2:80"]));
        let registered = sdk.ask("register pay 10.0.0.1 80 2 zone=a").await;
        assert_eq!(registered["id"].as_str().map(str::len), Some(40), "{registered}");
        sdk.until("instances pay", |answer| answer["instances"] == one).await;
        assert_eq!(sdk.ask("watch pay").await["error"], Value::Null);
        sdk.ask("register pay 10.0.0.2 80 2 zone=b").await;
        sdk.event(|event| event["event"] == "instances").await;
        sdk.until("instances pay", |answer| answer["instances"] == both).await;
        // It sends heartbeats by itself: without them both would be unhealthy after three ttls.
        let found = api.get("/naming/v1/instances?namespace=shop&service=pay&healthy=true").await;
        assert_eq!(found.body["amount"], 2, "{found}");
        release(
            &api,
            "routings",
            json!([{"name": "canary", "namespace": "shop", "route_policy": "RulePolicy",
            "routing_config": {"rules": [{"name": "to-a",
                "arguments": {"arguments": [{"type": "HEADER", "key": "x", "value": {"value": "1"}}]},
                "destinations": [{"service": "pay", "labels": {"zone": {"value": "a"}}, "name": "a"}]}]}}]),
        )
        .await;
        sdk.until("route pay web x=1", |answer| answer["instances"] == one).await;
        sdk.until("route pay web x=2", |answer| answer["instances"] == both).await;
        release(
            &api,
            "ratelimits",
            json!([{"name": "few", "namespace": "shop", "service": "pay", "type": "LOCAL",
            "rules": [{"amounts": [{"maxAmount": 2, "validDuration": "3600s"}]}]}]),
        )
        .await;
        sdk.until("quota pay /any", |answer| answer["passes"] == false).await;
        release(
            &api,
            "circuitbreakers",
            json!([{"name": "breaker", "namespace": "shop", "level": "SERVICE",
            "rule_matcher": {"source": {"service": "*", "namespace": "*"},
                "destination": {"service": "pay", "namespace": "shop"}},
            "recover_condition": {"sleep_window": 3600, "consecutive_success": 1},
            "block_configs": [{
                "error_conditions": [{"input_type": "RET_CODE", "condition": {"type": "EXACT", "value": "500"}}],
                "trigger_conditions": [{"trigger_type": "CONSECUTIVE_ERROR", "error_count": 3}]}]}]),
        )
        .await;
        sdk.until("call pay /any fails", |answer| answer["passes"] == false).await;
        assert_eq!(sdk.ask("deregister pay 10.0.0.2 80").await["error"], Value::Null);
        sdk.until("instances pay", |answer| answer["instances"] == one).await;
        let holders = "/naming/v1/ratelimits/subscribers?rule_name=few&namespace=shop";
        eventually(WITHIN, "the SDK is known to have the limit", || async {
            let answer = api.get(holders).await.expect_code(200_000);
            let row = &answer.body["data"][0];
            let is_there = row["protocol"] == "polaris" && row["current"] == true;
            if is_there { Ok(()) } else { Err(answer.to_string()) }
        })
        .await;
        let answer = api.get(holders).await;
        report(format!("{which:?} is known as {}", answer.body["data"][0]["agent"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sdk_follows_config_files() {
    for which in sdks() {
        let cluster = Cluster::start(1).await;
        let api = cluster.api(1);
        let Some(mut sdk) = Sdk::start(which, &cluster).await else { continue };
        api.publish("shop", "g", "app.yaml", "number:1").await.expect_code(200_000);
        sdk.until("config g app.yaml", |answer| answer["content"] == "number:1").await;
        for number in 2..4 {
            let content = format!("number:{number}");
            api.publish("shop", "g", "app.yaml", &content).await.expect_code(200_000);
            sdk.event(|event| event["event"] == "config" && event["content"] == content.as_str()).await;
        }
        for content in ["first", "second"] {
            let done = sdk.ask(&format!("publish g made.txt {content}")).await;
            assert_eq!(done["error"], Value::Null, "{done}");
        }
        let path = "/config/v1/configfiles?namespace=shop&group=g&name=made.txt";
        let found = api.get(path).await;
        assert!(found.to_string().contains("second"), "{found}");
    }
}
