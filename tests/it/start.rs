//! Starting: what is announced, which configurations are refused, and whose data directory it is.

use std::net::TcpListener;
use std::process::Output;

use tempfile::TempDir;

use crate::harness::{Api, Cluster, Ports, Process, member_flags, thuban};

async fn run(arguments: &[&str]) -> Output {
    thuban().args(arguments).output().await.expect("the binary can be run")
}

fn words(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_configuration_is_listed_and_nothing_is_created() {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let data = directory.path().join("data");
    let output = run(&[
        "serve",
        "--node-id",
        "1",
        "--data-dir",
        data.to_str().expect("the path is text"),
        "--initial-cluster",
        "2=127.0.0.1:1,3=127.0.0.1:2",
        "--cluster-secret",
        "short",
        "--long-poll-timeout-ms",
        "0",
    ])
    .await;
    let words = words(&output);
    assert_eq!(output.status.code(), Some(2), "{words}");
    for fault in ["initial-cluster", "cluster-secret", "long-poll-timeout"] {
        assert!(words.contains(fault), "{fault} is not named in:\n{words}");
    }
    assert!(!words.contains("short"), "the secret is shown:\n{words}");
    assert!(!data.exists(), "a refused start created {}", data.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn single_faults_are_refused_by_name() {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let data = directory.path().join("data");
    let data = data.to_str().expect("the path is text");
    let cases: [(&[&str], &str); 6] = [
        (&["serve", "--data-dir", data], "node-id"),
        (&["serve", "--data-dir", data, "--node-id", "one"], "node-id"),
        (&["serve", "--data-dir", data, "--node-id", "1", "--api-addr", "nowhere"], "api-addr"),
        (&["serve", "--data-dir", data, "--node-id", "1", "--compat-auth", "sometimes"], "compat-auth"),
        (
            &["serve", "--data-dir", data, "--node-id", "1", "--initial-cluster", "1=127.0.0.1:1,2=127.0.0.1:2"],
            "cluster-secret",
        ),
        (&["serve", "--data-dir", data, "--node-id", "1", "--colour", "red"], "colour"),
    ];
    for (arguments, fault) in cases {
        let output = run(arguments).await;
        let words = words(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {words}");
        assert!(words.contains(fault), "{fault} is not named in:\n{words}");
        assert!(!directory.path().join("data").exists(), "{arguments:?} created the data directory");
    }
}

/// A node has no default secret, and refuses one that is easily guessed.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_does_not_start_without_a_good_secret() {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let data = directory.path().join("data");
    let [empty, blank, short] =
        [("empty", ""), ("blank", "\n\n"), ("short", "thirty-one characters, no more!")].map(|(name, content)| {
            let file = directory.path().join(name);
            std::fs::write(&file, content).expect("written");
            file.to_str().expect("the path is text").to_owned()
        });
    let good = "a cluster secret for tests, long enough";
    let missing = directory.path().join("missing");
    let cases: [(&[&str], &str); 10] = [
        (&[], "cluster-secret"),
        (&["--cluster-secret", ""], "cluster-secret"),
        (&["--cluster-secret", "secret"], "cluster-secret"),
        (&["--cluster-secret-file", &empty], "cluster-secret"),
        (&["--cluster-secret-file", &blank], "cluster-secret"),
        (&["--cluster-secret-file", &short], "cluster-secret"),
        (&["--cluster-secret-file", missing.to_str().expect("text")], "cluster-secret"),
        (&["--cluster-secret", good, "--cluster-secret-file", &short], "cluster-secret"),
        (&["--cluster-secret", good, "--admin-password", "admin"], "admin-password"),
        (&["--cluster-secret", good, "--admin-password-file", &empty], "admin-password"),
    ];
    for (flags, fault) in cases {
        let members = "1=127.0.0.1:1,2=127.0.0.1:2,3=127.0.0.1:3";
        let first =
            ["serve", "--node-id", "1", "--data-dir", data.to_str().expect("text"), "--initial-cluster", members];
        let output = run(&[&first, flags].concat()).await;
        let words = words(&output);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {words}");
        assert!(words.contains(fault), "{fault} is not named for {flags:?} in:\n{words}");
        assert!(!words.contains("thirty-one"), "the secret is shown:\n{words}");
        assert!(!data.exists(), "{flags:?} created the data directory");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_chosen_by_the_kernel_are_announced() {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let flags = member_flags(7, directory.path().join("data").to_str().expect("the path is text"), Ports::any());
    let process = Process::start(&flags, &directory.path().join("log")).await.expect("the node starts");
    let announced = process.announced.clone();
    assert_eq!(announced.node_id, 7);
    let ports = [announced.api.port(), announced.compat.port(), announced.peer.port()];
    assert!(ports.iter().all(|port| *port != 0) && ports[0] != ports[1] && ports[1] != ports[2], "{announced:?}");
    assert!(matches!(announced.grpc.as_slice(), [one] if one.port() != 0), "{announced:?}");
    for surface in [announced.compat, announced.api] {
        assert_eq!(Api::new(surface).health("/livez").await.expect("it listens").0, 200, "{surface}");
    }
    assert!(process.terminate().await.success());
    let log = std::fs::read_to_string(directory.path().join("log")).expect("a log");
    let first = log.lines().next().expect("a line");
    for word in [
        "thuban starts".to_owned(),
        format!("version={}", env!("CARGO_PKG_VERSION")),
        "node=7".to_owned(),
        format!("data_dir={}", directory.path().join("data").display()),
        format!("api={}", announced.api),
        format!("compat={}", announced.compat),
        format!("grpc={}", announced.grpc[0]),
        format!("peer={}", announced.peer),
        "metrics=none".to_owned(),
    ] {
        assert!(first.contains(&word), "no {word} in {first}");
    }
}

/// A directory belongs to one node of one cluster, and to one process at a time.
#[tokio::test(flavor = "multi_thread")]
async fn data_directories_are_not_shared() {
    let mut cluster = Cluster::start(1).await;
    let data = cluster.data(1);
    let data = data.to_str().expect("the path is text");
    let log = cluster.data(1).with_extension("second.log");
    let in_use = Process::start(&member_flags(1, data, Ports::reserve()), &log).await;
    let in_use = in_use.err().expect("a directory in use is refused");
    assert!(!in_use.status.success() && in_use.log.contains(data), "{in_use:?}");

    assert!(cluster.terminate(1).await.success());
    let other = Process::start(&member_flags(2, data, Ports::reserve()), &log).await;
    let other = other.err().expect("a directory of another node is refused");
    assert!(!other.status.success(), "{other:?}");
    assert!(
        other.log.contains("node 1") && other.log.contains("node 2"),
        "the log does not say whose it is: {other:?}"
    );

    cluster.restart(1).await;
}

/// A second `thuban dev` fails with a hint that names the flags of `thuban dev`.
#[tokio::test(flavor = "multi_thread")]
async fn a_desk_whose_port_is_taken_is_told_how_to_take_another() {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let data = directory.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("a bound listener has an address").port().to_string();
    let flags = ["--api-port", "--compat-port", "--grpc-port"];
    for flag in flags {
        let data = data.to_str().expect("the path is text");
        let ports = flags.iter().flat_map(|other| [*other, if *other == flag { port.as_str() } else { "0" }]);
        let output = run(&["dev", "--data-dir", data].into_iter().chain(ports).collect::<Vec<_>>()).await;
        let words = words(&output);
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(words.contains(&format!("127.0.0.1:{port}")) && words.contains(flag), "{words}");
    }
    assert!(!data.exists(), "a refused start created {}", data.display());
}

/// Checks RocksDB as scripts/native.sh compiles it. A build by cargo alone has no such instruction on x86-64, and does
/// not get THUBAN_NATIVE.
#[tokio::test(flavor = "multi_thread")]
async fn rocksdb_computes_checksums_by_the_processor() {
    let cluster = Cluster::start(1).await;
    let log = std::fs::read_to_string(cluster.data(1).join("db/LOG")).expect("the log of RocksDB");
    let line = log.lines().find(|line| line.contains("Fast CRC32 supported")).expect("it says how it computes them");
    let is_fast = !line.contains("Not supported");
    assert_eq!(is_fast, cfg!(not(target_arch = "x86_64")) || std::env::var_os("THUBAN_NATIVE").is_some(), "{line}");
}
