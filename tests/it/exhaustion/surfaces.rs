//! Further requests that anybody may make: readiness, metrics, files in a browser, names that are not its own.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{Memory, dial};

use crate::harness::{Api, Cluster, Ports, Process, RawAnswer, eventually, report, thuban};

const LIMIT: Duration = Duration::from_secs(30);
const QUESTIONS: usize = 400;

#[tokio::test(flavor = "multi_thread")]
async fn questions_after_readiness_are_not_fsyncs() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let syncs = async || api.metric("thuban_log_fsync_duration_seconds_count").await.expect("the node counts them");
    let (began, before) = (Instant::now(), syncs().await);
    for _ in 0..QUESTIONS / 20 {
        let answers = join_all((0..20).map(|_| api.health("/readyz"))).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok((200, _)))), "{answers:?}");
    }
    let (took, syncs) = (began.elapsed().as_secs_f64(), syncs().await - before);
    report(format!("{QUESTIONS} questions in {took:.1} s, {syncs} fsyncs"));
    // One a second, and the node has some of its own.
    assert!(syncs < 10.0 + 3.0 * took, "{syncs} fsyncs in {took:.1} s");
}

/// Pages of foreign sites send their own host name, whatever address it resolves to.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_loopback_has_no_foreign_names() {
    let cluster = Cluster::start_with(1, &["--allowed-hosts", "config.example.com"]).await;
    let ports = cluster.ports(1);
    cluster.api(1).publish("default", "app", "application", "secret=yes").await;
    let get = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\n{host}\r\n");
    for host in ["Host: rebound.example:8890\r\n", "Host: 127.0.0.1.rebound.example\r\n"] {
        for path in ["/configs/app/default/application", "/configfiles/app/default/application"] {
            let answer = RawAnswer::of(ports.compat, get(path, host)).await;
            assert!(answer.status == 400 && !answer.body.contains("yes"), "{host} {path}: {answer:?}");
        }
        let answer = RawAnswer::of(ports.api, get("/livez", host)).await;
        assert_eq!(answer.code(), 400_000, "{host}: {answer:?}");
    }
    for host in ["Host: 127.0.0.1\r\n", "Host: localhost:1\r\n", "Host: config.example.com\r\n", "Host: n1\r\n"] {
        let answer = RawAnswer::of(ports.compat, get("/configs/app/default/application", host)).await;
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
    }
    let probe = RawAnswer::of(ports.api, "GET /readyz HTTP/1.0\r\n\r\n").await;
    assert_eq!(probe.status, 200, "a balancer's check names no host: {probe:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_does_nothing_in_a_browser_and_two_credentials_are_refused() {
    let cluster = Cluster::start(1).await;
    let door = cluster.ports(1).compat;
    let script = r#"<html xmlns="http://www.w3.org/1999/xhtml"><script>alert(1)</script></html>"#;
    cluster.api(1).publish("default", "app", "page.xml", script).await;
    for path in ["/configfiles/raw/app/default/page.xml", "/configfiles/app/default/page.xml"] {
        let answer = RawAnswer::of(door, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        for header in ["content-security-policy: sandbox", "x-content-type-options: nosniff"] {
            assert!(answer.head.contains(header), "{path}: {answer:?}");
        }
    }
    let two = "Authorization: Apollo app:x\r\nAuthorization: Bearer y\r\n";
    let request = format!("GET /configs/app/default/page.xml HTTP/1.1\r\nHost: localhost\r\n{two}\r\n");
    assert_eq!(RawAnswer::of(door, request).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_can_have_a_listener_of_their_own() {
    let metrics = Ports::reserve().api;
    let cluster = Cluster::start_with(1, &["--metrics-addr", &metrics.to_string()]).await;
    cluster.api(1).get("/metrics").await.expect_code(404_000);
    let apart = Api::new(metrics);
    let (status, text) = apart.health("/metrics").await.expect("metrics are answered");
    assert!(status == 200 && text.contains("thuban_build_info"), "{status} {text:.200}");
    for path in ["/livez", "/readyz"] {
        assert_eq!(apart.health(path).await.expect("it answers").0, 200, "{path}");
    }
    let served = apart.health("/naming/v1/services").await.expect("it answers").0;
    assert_eq!(served, 404, "nothing else is served there");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o777
}

/// Files with password hashes are readable by their owner alone, even in a directory made by another program.
#[tokio::test(flavor = "multi_thread")]
async fn data_and_passwords_are_closed_to_others() {
    let directory = tempfile::TempDir::new().expect("a temporary directory can be made");
    let (data, log) = (directory.path().join("data"), directory.path().join("log"));
    std::fs::create_dir(&data).expect("made");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).expect("open to all");
    let ports = Ports::reserve();
    let (api, compat, peer) = (ports.api.to_string(), ports.compat.to_string(), ports.peer.to_string());
    let members = format!("1={peer}");
    let flags = ["serve", "--node-id", "1", "--data-dir", data.to_str().expect("text"), "--api-addr", &api];
    let more = ["--compat-addr", &compat, "--peer-addr", &peer, "--initial-cluster", &members];
    let secret = ["--cluster-secret", "a cluster secret for tests, long enough"];
    let flags: Vec<String> = flags.iter().chain(&more).chain(&secret).map(|flag| (*flag).to_owned()).collect();
    let process = Process::start(&flags, &log).await.expect("the node starts");

    let file = data.join("first-password");
    let password = std::fs::read_to_string(&file).expect("the generated password is in a file");
    assert_eq!((mode(&data), mode(&file)), (0o700, 0o600));
    let node = Api::new(ports.api);
    let token = eventually(LIMIT, "the password is the administrator's", || node.login(password.trim())).await;
    let told = std::fs::read_to_string(&log).expect("the log can be read");
    assert!(told.contains("first-password") && !told.contains(password.trim()), "{told}");
    for entry in std::fs::read_dir(data.join("db")).expect("the database is there") {
        let path = entry.expect("an entry").path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }

    let backup = directory.path().join("backup");
    let out = backup.to_str().expect("text");
    let endpoint = format!("http://{}", ports.api);
    let arguments = ["backup", "--endpoint", &endpoint, "--out", out];
    let taken = thuban().args(arguments).env("THUBAN_TOKEN", &token).output().await.expect("it runs");
    assert!(taken.status.success(), "{taken:?}");
    assert_eq!(mode(&backup) & 0o077, 0);
    let pair = json!([{"namespace": "n", "name": "s"}]);
    node.with_token(&token).post("/naming/v1/services", &pair).await.expect_code(200_000);
    assert!(process.terminate().await.success());
}

/// Incomplete request heads of maximum size: their total memory is bounded, and clients with small ones are served.
#[tokio::test(flavor = "multi_thread")]
async fn heads_that_do_not_come_whole_share_their_room() {
    const HEADS: usize = 2000;
    let cluster = Cluster::start(1).await;
    let (api, door) = (cluster.api(1), cluster.ports(1).compat);
    let mut memory = Memory::of(&cluster, 1);
    let half = format!("GET /configs/app/default/application?label={} HTTP/1.1\r\n", "x".repeat(40 << 10));
    let mut flood = Vec::new();
    for number in 0..HEADS {
        let mut connection = dial(door).await.expect("the node listens");
        // A closed connection is noticed by a failed write.
        let _ = connection.write_all(half.as_bytes()).await;
        flood.push(connection);
        if number % 50 == 0 {
            memory.look(&cluster, 1);
            assert_eq!(api.health("/livez").await.expect("it answers").0, 200);
        }
    }
    let open = api.metric(r#"thuban_connections{listener="compat"}"#).await.expect("they are counted");
    memory.look(&cluster, 1);
    assert!(open < HEADS as f64 / 2.0, "{open} of {HEADS} are open");
    memory.expect_growth_below(96.0, &format!("{HEADS} heads of 40 kB, {open} of them kept"));
}
