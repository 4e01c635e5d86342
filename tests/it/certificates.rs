//! Expiring certificates: warnings, replacement, and refusal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use time::OffsetDateTime;

use crate::harness::{Api, CLUSTER_SECRET, Cluster, Pki, Ports, Process, eventually, https, member_flags, thuban};

const LIMIT: Duration = Duration::from_secs(30);

/// Directory with a pair of files, whose dates a test chooses.
struct Pair(tempfile::TempDir);

impl Pair {
    fn new(from_days: i64, until_days: i64) -> Pair {
        let pair = Pair(tempfile::TempDir::new().expect("a temporary directory"));
        pair.put(from_days, until_days);
        pair
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes another pair, valid between two days from now.
    fn put(&self, from_days: i64, until_days: i64) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        let day = |days: i64| OffsetDateTime::now_utc() + time::Duration::days(days);
        (params.not_before, params.not_after) = (day(from_days), day(until_days));
        let pem = params.self_signed(&key).expect("a certificate").pem();
        std::fs::write(self.file("key.pem"), key.serialize_pem()).expect("writable");
        std::fs::write(self.file("cert.pem"), pem).expect("writable");
    }

    fn flags(&self) -> [String; 4] {
        let path = |name: &str| self.file(name).to_str().expect("text").to_owned();
        ["--tls-cert".to_owned(), path("cert.pem"), "--tls-key".to_owned(), path("key.pem")]
    }
}

/// Starts one node, and returns its address without TLS.
async fn start(pair: &Pair, directory: &Path) -> (Process, Api) {
    let data = directory.join("data");
    let mut flags = member_flags(1, data.to_str().expect("text"), Ports::any());
    let plain = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let plain = plain.expect("a free port");
    flags.extend(pair.flags());
    flags.extend(["--metrics-addr".to_owned(), plain.to_string()]);
    let process = Process::start(&flags, &directory.join("log")).await.expect("the node starts");
    (process, Api::new(plain))
}

async fn expect_log(directory: &Path, words: &str) {
    eventually(LIMIT, words, || async {
        let log = std::fs::read_to_string(directory.join("log")).map_err(|error| error.to_string())?;
        if log.contains(words) { Ok(()) } else { Err(log) }
    })
    .await;
}

async fn refused(api: &Api) -> Option<f64> {
    api.metric(r#"thuban_certificate_files_refused{listener="api"}"#).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_that_has_ended_does_not_replace_one_that_has_not() {
    let (pair, directory) = (Pair::new(-1, 365), tempfile::TempDir::new().expect("a directory"));
    let (_process, api) = start(&pair, directory.path()).await;
    assert_eq!(refused(&api).await, Some(0.0));
    let series = format!(
        r#"thuban_certificate_expires_timestamp_seconds{{file="{}",listener="compat"}}"#,
        pair.file("cert.pem").display()
    );
    let year = |value: f64| (value / 86_400.0 / 365.0).round();
    let ends = api.metric(&series).await.expect("a series");
    assert_eq!(year(ends), year(OffsetDateTime::now_utc().unix_timestamp() as f64) + 1.0);

    pair.put(-30, -8);
    expect_log(directory.path(), "cannot be used: the previous ones stay in use error=the certificate in").await;
    assert_eq!((refused(&api).await, api.metric(&series).await), (Some(1.0), Some(ends)));
    pair.put(5, 50);
    expect_log(directory.path(), "is not valid before").await;
    std::fs::copy(Pair::new(-1, 50).file("key.pem"), pair.file("key.pem")).expect("copied");
    expect_log(directory.path(), "do not work together").await;

    pair.put(-1, 20);
    expect_log(directory.path(), "new certificates are in use").await;
    expect_log(directory.path(), "a certificate has to be renewed").await;
    assert_eq!(refused(&api).await, Some(0.0));
}

/// All nodes of a cluster have certificates that end on one day, and a node without clients still has its vote.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_starts_with_a_certificate_that_has_ended_and_says_so() {
    let (pair, directory) = (Pair::new(-30, -8), tempfile::TempDir::new().expect("a directory"));
    let (process, api) = start(&pair, directory.path()).await;
    expect_log(directory.path(), "a certificate has expired").await;
    assert_eq!(refused(&api).await, Some(0.0), "they are in use");
    pair.put(-1, 365);
    expect_log(directory.path(), "new certificates are in use").await;
    let trusting = thuban_outbound::trust::trusting(Some(&pair.file("cert.pem"))).expect("an authority");
    let client = https(trusting).build().expect("a client");
    let answer = client.get(format!("https://{}/livez", process.announced.api)).send().await;
    assert_eq!(answer.expect("it is served by the new one, without a restart").status(), 200);
}

/// A renewal that was half done at a start is done a moment later: a supervisor tries again.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_may_become_right_end_a_start_by_a_code_of_their_own() {
    let (pair, directory) = (Pair::new(-1, 365), tempfile::TempDir::new().expect("a directory"));
    let data = directory.path().join("data");
    let run = async |more: &[&str]| {
        let mut command = thuban();
        command.args(["serve", "--node-id", "1", "--cluster-secret", CLUSTER_SECRET, "--data-dir"]).arg(&data);
        command.args(pair.flags()).args(more);
        let output = command.output().await.expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    std::fs::copy(Pair::new(-1, 50).file("key.pem"), pair.file("key.pem")).expect("copied");
    let (code, words) = run(&[]).await;
    assert!(code == Some(5) && words.contains("do not work together"), "{code:?} {words}");
    std::fs::remove_file(pair.file("key.pem")).expect("it is there");
    let (code, words) = run(&[]).await;
    assert!(code == Some(5) && words.contains("key.pem"), "{code:?} {words}");
    let (code, words) = run(&["--long-poll-timeout-ms", "1"]).await;
    assert!(code == Some(2) && words.contains("key.pem"), "what is wrong besides stays wrong: {code:?} {words}");
    assert!(!data.exists(), "nothing was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_of_a_certificate_is_on_every_page_that_has_alarms() {
    let pki = Pki::new().await;
    let cluster: Cluster = pki.cluster(3, &["--certificate-warn-days", "1000"]).await;
    let api = cluster.api(1);
    eventually(LIMIT, "one node lists the certificates of all members", || async {
        let view = api.cluster().await?.body;
        let alarms: Vec<&str> =
            view["alarms"].as_array().into_iter().flatten().filter_map(|alarm| alarm.as_str()).collect();
        let is_listed = |node: &str| alarms.iter().any(|text| text.starts_with(node) && text.contains("node.pem"));
        match ["node 1: ", "node 2: ", "node 3: "].into_iter().all(is_listed) {
            true => Ok(()),
            false => Err(view.to_string()),
        }
    })
    .await;
    // Its list of alarms is a second old.
    let checks = eventually(LIMIT, "readiness has it, and does not fail", || async {
        match api.health("/readyz?verbose").await? {
            (200, checks) if checks.contains("[!]certificate: ") => Ok(checks),
            (status, checks) => Err(format!("{status}: {checks}")),
        }
    })
    .await;
    let line = checks.lines().find(|line| line.starts_with("[!]certificate: ")).unwrap_or_default();
    assert!(line.contains("ends in 82"), "{checks}");
}
