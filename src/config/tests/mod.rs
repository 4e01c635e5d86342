use clap::Parser;

use super::*;

const SECRET: &str = "a secret of the test, 32 characters";

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    serve: ServeArgs,
}

fn check(flags: &[&str]) -> Result<Config, Vec<String>> {
    Line::try_parse_from([&["thuban"], flags].concat())
        .expect("flags that exist")
        .serve
        .check()
        .map_err(|faults| faults.lines)
}

#[test]
fn all_faults_are_listed_at_once() {
    let faults = check(&[
        "--node-id=0",
        "--api-addr=nonsense",
        "--initial-cluster=1=a:1,1=b:2,x",
        "--cluster-secret=short",
        "--long-poll-timeout-ms=90000",
        "--advertise-compat=no-port",
        &format!("--advertise-api={}:8090", "a".repeat(64)),
        "--advertise-grpc=http://n1:8091",
    ])
    .expect_err("nothing is right");
    for part in [
        "--node-id",
        "--api-addr",
        "twice",
        "\"x\"",
        "does not name",
        "--cluster-secret",
        "--long-poll",
        "--advertise-api",
        "--advertise-compat",
        "--advertise-grpc",
    ] {
        assert!(faults.iter().any(|fault| fault.contains(part)), "{part} in {faults:?}");
    }
}

#[test]
fn several_nodes_need_a_secret() {
    let cluster = "--initial-cluster=1=a:8190,2=b:8190,3=c:8190";
    assert!(check(&["--node-id=1", cluster]).is_err());
    let config =
        check(&["--node-id=2", cluster, &format!("--cluster-secret={SECRET}"), "--insecure-http"]).expect("right");
    assert_eq!(config.initial_cluster.len(), 3);
    assert!(config.peer_addr.is_some());
    assert!(!format!("{config:?}").contains(SECRET), "a secret is never shown");
}

fn faults(flags: &[&str]) -> String {
    check(flags).map(drop).expect_err("a fault").join("\n")
}

#[test]
fn a_secret_that_can_be_guessed_is_refused() {
    let lone = ["--node-id=1", "--initial-cluster=1=a:8190", "--insecure-http"];
    for weak in ["s".repeat(32), "ab".repeat(40), "12345".repeat(9)] {
        let told = faults(&[&lone[..], &[&format!("--cluster-secret={weak}")]].concat());
        assert!(told.contains("can be guessed") && !told.contains(&weak), "{told}");
    }
}

#[test]
fn a_file_may_hold_two_secrets() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let file = dir.path().join("secret");
    let path = format!("--cluster-secret-file={}", file.display());
    let flags = ["--node-id=1", "--initial-cluster=1=a:8190", "--insecure-http", &path];
    let next = SECRET.replace('a', "b");
    let held = |text: String| {
        std::fs::write(&file, text).expect("writable");
        check(&flags).map(|config| config.cluster_secret.expect("given"))
    };
    let one = held(format!("{SECRET}\n")).expect("right");
    assert_eq!((one.shown.0.as_str(), one.other.is_none()), (SECRET, true));
    let two = held(format!("{next}\r\n{SECRET}\n\n")).expect("right");
    assert_eq!((two.shown.0, two.other.expect("two").0), (next.clone(), SECRET.to_owned()));
    let rows = [
        (format!("{SECRET}\nshort\n"), "at least 32"),
        (format!("{SECRET}\n\n{next}"), "3 lines"),
        (format!("{SECRET}\n{}", "s".repeat(40)), "can be guessed"),
    ];
    for (text, words) in rows {
        let told = held(text.clone()).expect_err("a fault").join("\n");
        assert!(told.contains(words), "{text:?}: {told}");
    }
    let given = format!("--cluster-secret={SECRET}\n{next}");
    assert!(faults(&[&flags[..3], &[&given]].concat()).contains("control characters"), "one by the flag");
}

#[test]
fn management_that_others_reach_needs_tls_or_a_word() {
    let flags = |address: &str| {
        let address = format!("--api-addr={address}");
        let rest = ["--node-id=1", "--initial-cluster=1=a:8190"].map(str::to_owned);
        [&rest[..], &[address]].concat()
    };
    for (address, is_open) in [
        ("127.0.0.1:1", false),
        ("127.9.9.9:1", false),
        ("[::1]:1", false),
        ("0.0.0.0:1", true),
        ("[::]:1", true),
        ("192.0.2.1:1", true),
    ] {
        let flags = flags(address);
        let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let met = check(&flags).map(drop);
        assert_eq!(met.is_err(), is_open, "{address}: {met:?}");
        if let Err(told) = met {
            assert!(told.iter().any(|fault| fault.contains("--tls-cert") && fault.contains("--insecure-http")));
        }
        flags.push("--insecure-http");
        check(&flags).expect("as it was said");
    }
    let missing = flags("0.0.0.0:1");
    let mut missing: Vec<&str> = missing.iter().map(String::as_str).collect();
    missing.extend(["--tls-cert=/nowhere/cert.pem", "--tls-key=/nowhere/key.pem"]);
    assert!(faults(&missing).contains("/nowhere/cert.pem"));
}

#[test]
fn hosts_and_ports() {
    for good in ["a:1", "n1.example.com:8190", "127.0.0.1:65535", "[::1]:8190"] {
        assert!(is_host_and_port(good), "{good}");
    }
    let long = |chars: usize| format!("{}.example:1", "a".repeat(chars));
    assert!(is_host_and_port(&long(63)));
    for bad in ["a", "a:", ":1", "a:0", "a:65536", "a b:1", "http://a:1", "a..b:1", &long(64), &long(250)] {
        assert!(!is_host_and_port(bad), "{bad}");
    }
}

/// The first key seals.
#[test]
fn a_file_may_hold_two_data_keys() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let file = dir.path().join("data-key");
    let path = format!("--data-key-file={}", file.display());
    let flags = ["--node-id=1", "--initial-cluster=1=a:8190", "--insecure-http", &path];
    let [one, other] = ["a", "b"].map(|digit| digit.repeat(64));
    let held = |text: &str| {
        std::fs::write(&file, text).expect("writable");
        let keys = check(&flags).map(|config| config.data_keys);
        keys.map(|keys| keys.iter().map(|key| key.id().to_owned()).collect::<Vec<_>>())
            .map_err(|faults| faults.concat())
    };
    let (first, second) = (held(&one).expect("right"), held(&format!("{other}\n")).expect("right"));
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!(held(&format!("{other}\r\n{one}\n\n")), Ok([second, first].concat()));
    for (text, told) in [
        ("", "64 hex digits"),
        ("\n\n", "64 hex digits"),
        (&one[1..], "64 hex digits"),
        (&format!("{one}\n{}", &other[1..]), "64 hex digits"),
        (&format!("{one}\n\n{other}"), "64 hex digits"),
        (&format!("{one}\n{other}\n{}", "c".repeat(64)), "two lines"),
        (&format!("{one}\n{}", one.to_uppercase()), "the same key twice"),
    ] {
        let faults = held(text).expect_err("refused");
        assert!(faults.contains(told) && !faults.contains(&one), "{text}: {faults}");
    }
}

#[test]
fn the_public_address_of_the_console_is_an_origin() {
    for right in ["https://thuban.example.com", "https://thuban.example.com:8443/", "http://127.0.0.1:8090"] {
        assert!(public_url(right).is_ok(), "{right}");
    }
    for wrong in [
        "",
        "thuban.example.com",
        "ftp://thuban.example.com",
        "https://thuban.example.com/ui",
        "https://thuban.example.com/?a=b",
        "https://thuban.example.com/#a",
        "https://user@thuban.example.com",
    ] {
        assert!(public_url(wrong).is_err(), "{wrong}");
    }
}
