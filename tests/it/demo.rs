//! `thuban dev` as a newcomer starts it, and its demo.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::harness::{Api, eventually, thuban};

const LIMIT: Duration = Duration::from_secs(30);
/// Time after READY within which the data of the demo is there, on a machine that does nothing else.
const DATA_LIMIT: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
struct Announced {
    api: SocketAddr,
}

/// A node of `thuban dev`, with the lines that it printed.
struct Desk {
    child: Child,
    api: Api,
    printed: Vec<String>,
}

impl Desk {
    async fn start(data: &Path, more: &[&str]) -> Desk {
        let mut command = thuban();
        command.args(["dev", "--api-port", "0", "--compat-port", "0", "--grpc-port", "0", "--data-dir"]).arg(data);
        let mut child = command.args(more).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let (mut printed, mut api) = (Vec::new(), None);
        let greeting = async {
            while let Some(line) = lines.next_line().await.expect("stdout is text") {
                if let Some(announced) = line.strip_prefix("THUBAN READY ") {
                    let announced: Announced = serde_json::from_str(announced).expect("addresses");
                    api = Some(Api::new(announced.api));
                }
                let is_last = line.starts_with("Stop with");
                printed.push(line);
                if is_last {
                    return;
                }
            }
        };
        tokio::time::timeout(LIMIT, greeting).await.expect("it greets in time");
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let password = std::fs::read_to_string(data.join("dev-password")).expect("the password is in a file");
        let api = api.expect("an announcement");
        let login = json!({"name": "admin", "password": password.trim()});
        let answer = api.post("/auth/v1/user/login", &login).await.expect_code(200_000);
        let api = api.with_token(answer.body["loginResponse"]["token"].as_str().expect("a token"));
        Desk { child, api, printed }
    }

    async fn end(mut self) {
        self.child.start_kill().expect("it can be killed");
        self.child.wait().await.expect("it ends");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desk_prints_no_password_and_seals_what_it_is_given() {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let data = directory.path().join("data");
    let desk = Desk::start(&data, &[]).await;
    let password = std::fs::read_to_string(data.join("dev-password")).expect("a password");
    assert!(!desk.printed.join("\n").contains(password.trim()), "{:?}", desk.printed);
    let hook = json!([{"name": "h", "url": "http://127.0.0.1:9/", "events": ["publish"], "allow_private": true}]);
    desk.api.post("/admin/v1/webhooks", &hook).await.expect_code(200_000);
    desk.end().await;
    let again = Desk::start(&data, &[]).await;
    let listed = again.api.get("/admin/v1/webhooks?name=h").await.expect_code(200_000);
    assert_eq!(listed.amount(), 1, "the key of the first start opens it: {listed}");
    again.end().await;
    std::fs::write(data.join("dev-data-key"), "no key\n").expect("the file can be written");
    let output = thuban().args(["dev", "--data-dir"]).arg(&data).output().await.expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("dev-data-key"), "{said}");
}

/// Counts the clients of an object, and those that refused it.
async fn clients(api: &Api, path: &str) -> (usize, usize) {
    let answer = api.get(path).await;
    let rows = answer.body["data"].as_array().cloned().unwrap_or_default();
    (rows.len(), rows.iter().filter(|row| row["applied"] == "refused").count())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_is_alive_and_goes_on_after_a_restart() {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let data = directory.path().join("data");
    let desk = Desk::start(&data, &["--demo"]).await;
    let api = &desk.api;
    // The greeting suggests to look at it: it is there by then.
    let rolled_out = "/config/v1/configfiles/releases?namespace=demo&group=shop&file_name=features.yaml";
    let answer = api.get(rolled_out).await.expect_code(200_000);
    let rows = answer.body["configFileReleases"].as_array().cloned().unwrap_or_default();
    assert!(rows.iter().any(|row| row["rollout"]["state"] == "running"), "{answer}");
    let limits = "/config/v1/configfiles/subscribers?namespace=demo&group=shop&file_name=limits.json";
    let pay = "/naming/v1/ratelimits/subscribers?namespace=demo&rule_name=pay-limit";
    eventually(DATA_LIMIT, "twenty clients have what is released", || async move {
        let (files, rules) = (clients(api, limits).await, clients(api, pay).await);
        if (files, rules.0) == ((12, 1), 8) { Ok(()) } else { Err(format!("{files:?} {rules:?}")) }
    })
    .await;
    for (path, least) in [
        ("/naming/v1/services?namespace=demo", 5),
        ("/naming/v1/instances?namespace=demo&healthy=true", 10),
        ("/naming/v1/ratelimits/releases?namespace=demo", 2),
        ("/naming/v1/routings/releases?namespace=demo", 1),
        ("/naming/v1/circuitbreakers/releases?namespace=demo", 1),
        ("/naming/v1/faultdetectors/releases?namespace=demo", 1),
        ("/config/v1/configfiles/releases?namespace=demo&group=shop", 6),
        ("/admin/v1/requests?state=open", 1),
        ("/admin/v1/contracts", 1),
    ] {
        let answer = api.get(path).await.expect_code(200_000);
        assert!(answer.amount() >= least, "{path}: {answer}");
    }
    let services = api.get("/naming/v1/services?namespace=demo").await.amount();
    desk.end().await;

    let again = Desk::start(&data, &["--demo"]).await;
    let api = &again.api;
    eventually(DATA_LIMIT, "the clients are back", || async move {
        let files = clients(api, limits).await;
        if files.0 == 12 { Ok(()) } else { Err(format!("{files:?}")) }
    })
    .await;
    let requests = api.get("/admin/v1/requests?state=open").await.expect_code(200_000);
    assert_eq!((requests.amount(), api.get("/naming/v1/services?namespace=demo").await.amount()), (1, services));
    again.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_touches_no_directory_of_others() {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let data = directory.path().join("data");
    Desk::start(&data, &[]).await.end().await;
    let output = thuban().args(["dev", "--demo", "--data-dir"]).arg(&data).output().await.expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--data-dir"), "{said}");
}
