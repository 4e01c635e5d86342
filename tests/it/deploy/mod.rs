//! Files around the binary, compared with it: a real node has every series, flag, port and path that a file under
//! `deploy/` or `cluster/` names.

mod board;
mod kubernetes;
mod prometheus;
mod queries;
mod scrape;
mod systemd;
mod targets;
mod watched;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::harness::run;

/// A file of the project.
fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the environment variables of `thuban serve` with their defaults, from its help.
async fn defaults_of_serve() -> BTreeMap<String, String> {
    let help = run("http://127.0.0.1:1", "", &["serve", "--help"], "").await.expect(0);
    let described = help.split("[env: ").skip(1);
    let defaults: BTreeMap<String, String> = described
        .map(|rest| {
            let name = rest.split(['=', ']']).next().unwrap_or_default();
            let own = rest.split("\n      --").next().unwrap_or_default();
            let default = own.split("[default: ").nth(1).and_then(|rest| rest.split(']').next());
            (name.to_owned(), default.unwrap_or_default().to_owned())
        })
        .collect();
    assert_eq!(defaults["THUBAN_API_ADDR"], "0.0.0.0:8090", "{help}");
    defaults
}

/// Longest time of a node from SIGTERM to its end: the sum of the limits of its steps.
fn stop_limit() -> Duration {
    let seconds = |path: &str, name: &str| {
        let source = text(path);
        let value = source.split(&format!("const {name}: Duration = Duration::from_secs(")).nth(1);
        let value = value.and_then(|rest| rest.split(')').next()).unwrap_or_else(|| panic!("{path} has no {name}"));
        Duration::from_secs(value.parse().expect("seconds"))
    };
    let drain = text("src/config/mod.rs");
    let drain = drain.split("env = \"THUBAN_DRAIN_MS\", default_value_t = ").nth(1);
    let drain = drain.and_then(|rest| rest.split([',', ')']).next()?.parse().ok()).expect("a default");
    let (handed_over, drained) =
        (seconds("src/raft/members/mod.rs", "TRANSFER_WITHIN"), seconds("src/server/mod.rs", "DRAIN_WITHIN"));
    let steps = text("src/server/mod.rs").matches("(STOP_WITHIN").count() as u32;
    Duration::from_millis(drain) + handed_over + drained + seconds("src/server/mod.rs", "STOP_WITHIN") * steps
}

#[test]
fn containers_wait_for_a_graceful_stop() {
    let compose = text("docker-compose.yml");
    let grace =
        compose.split("stop_grace_period: ").nth(1).and_then(|rest| rest.split("s\n").next()).expect("it is set");
    let grace = Duration::from_secs(grace.parse().expect("seconds"));
    assert!(grace > stop_limit() && grace < stop_limit() * 2, "{grace:?} for a stop that takes {:?}", stop_limit());
}

/// The layer of the dependencies is built of all manifests: cargo refuses a workspace that lacks one.
#[test]
fn the_image_has_the_manifest_of_every_crate() {
    let image = text("Dockerfile");
    let crates = std::fs::read_dir(file("crates")).expect("crates").map(|entry| entry.expect("an entry").file_name());
    let lines = crates.map(|name| {
        let name = name.into_string().expect("a name");
        format!("COPY crates/{name}/Cargo.toml crates/{name}/")
    });
    let missing: Vec<_> = lines.filter(|line| !image.lines().any(|one| one == line)).collect();
    assert!(missing.is_empty(), "Dockerfile lacks {missing:?}");
}

/// Ports of the image, but that between nodes, are open in every way to run it.
#[test]
fn ports_of_clients_are_open_everywhere() {
    let image = text("Dockerfile");
    let exposed = image.lines().find_map(|line| line.strip_prefix("EXPOSE ")).expect("ports");
    let ports: Vec<&str> = exposed.split(' ').filter(|port| *port != "8190").collect();
    assert_eq!(ports, ["8090", "8890", "8091", "8093", "15010"]);
    let (compose, balancer) = (text("docker-compose.yml"), text("cluster/haproxy.cfg"));
    let (set, policy) = (text("deploy/kubernetes/statefulset.yaml"), text("deploy/kubernetes/networkpolicy.yaml"));
    for port in ports {
        assert!(compose.contains(&format!("_PORT:-{port}}}:{port}\"")), "docker-compose.yml: {port}");
        assert!(balancer.contains(&format!("    bind :{port} ssl ")), "haproxy.cfg: {port}");
        let named = set.lines().find_map(|line| line.trim().strip_suffix(&format!(", containerPort: {port} }}")));
        let name = named.and_then(|line| line.strip_prefix("- { name: ")).unwrap_or_else(|| panic!("no port {port}"));
        assert!(policy.contains(&format!("- {{ port: {name} }}")), "networkpolicy.yaml: {name}");
    }
}
