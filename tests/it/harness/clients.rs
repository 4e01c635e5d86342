//! Published Apollo clients as testers: each is run unmodified and reports every state that it has.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use apollo_client::conf::ApolloConfClientBuilder;
use apollo_client::conf::requests::WatchRequest;
use futures_util::StreamExt;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::patient;
use super::process::tail;

pub(crate) type Values = BTreeMap<String, String>;

/// A state of the client, with its time.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) values: Values,
    /// Keys in the client's order, if it reports one.
    pub(crate) keys: Vec<String>,
    pub(crate) at: Instant,
}

/// A running client that watches one namespace; ends when this is dropped.
pub(crate) struct RealClient {
    held: UnboundedReceiver<Held>,
    /// Log of a client process: it looks like a failure in parts, so it is shown only after one.
    log: Option<PathBuf>,
    running: JoinHandle<()>,
}

/// The packages, as they are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `apollo-config-client` of PyPI.
    Python,
    /// The crate `apollo-client`, by its watch stream.
    Rust,
    /// `apollo-client-python` of PyPI.
    ApolloClientPython,
    /// `apollo-python` of PyPI; reports only the key `number`, and changes.
    ApolloPython,
    /// `papollo` of PyPI.
    Papollo,
    /// The crate `apollo-rust-client`, which only pulls; reports only the key `number`.
    ApolloRustClient,
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] =
        [Kind::Python, Kind::Rust, Kind::ApolloClientPython, Kind::ApolloPython, Kind::Papollo, Kind::ApolloRustClient];

    /// The name of a package of PyPI.
    fn of_pypi(self) -> Option<&'static str> {
        match self {
            Kind::Python => Some("apollo-config-client"),
            Kind::ApolloClientPython => Some("apollo-client-python"),
            Kind::ApolloPython => Some("apollo-python"),
            Kind::Papollo => Some("papollo"),
            Kind::Rust | Kind::ApolloRustClient => None,
        }
    }
}

impl RealClient {
    pub(crate) async fn start(kind: Kind, address: SocketAddr, app: &str, namespace: &str) -> RealClient {
        RealClient::start_with(kind, address, app, namespace, None).await
    }

    /// A client that signs its requests with the secret of an access key, if it is given one.
    pub(crate) async fn start_with(
        kind: Kind,
        address: SocketAddr,
        app: &str,
        namespace: &str,
        secret: Option<&str>,
    ) -> RealClient {
        let url = format!("http://{address}");
        match kind.of_pypi() {
            Some(package) => watching_python(package, &url, None, app, namespace, secret).await,
            None if kind == Kind::Rust => rust(address, app, namespace, secret),
            None => other_rust(&url, app, namespace, Pace::Fast).await,
        }
    }

    /// Starts a client that only does what it does by itself.
    pub(crate) async fn start_idle(kind: Kind, address: SocketAddr, app: &str, namespace: &str) -> RealClient {
        match kind {
            Kind::ApolloRustClient => other_rust(&format!("http://{address}"), app, namespace, Pace::Own).await,
            _ => RealClient::start(kind, address, app, namespace).await,
        }
    }

    /// The Python client, by TLS; it trusts the authority in `ca`, and signs if it is given a secret.
    pub(crate) async fn start_secure(
        address: SocketAddr,
        ca: &Path,
        app: &str,
        namespace: &str,
        secret: Option<&str>,
    ) -> RealClient {
        watching_python("apollo-config-client", &format!("https://{address}"), Some(ca), app, namespace, secret).await
    }

    /// Returns the reports of the client since the last call.
    pub(crate) fn reports(&mut self) -> Vec<Held> {
        std::iter::from_fn(|| self.held.try_recv().ok()).collect()
    }

    /// Returns the end of what the client logged.
    pub(crate) fn log(&self) -> String {
        self.log.as_deref().map(tail).unwrap_or_default()
    }

    /// Waits until the client has `value` under `key`; returns the time of its report.
    pub(crate) async fn holds(&mut self, limit: Duration, key: &str, value: &str) -> Instant {
        self.held(limit, key, value).await.at
    }

    /// The same with all that it holds then.
    pub(crate) async fn held(&mut self, limit: Duration, key: &str, value: &str) -> Held {
        let mut seen = None;
        let wanted = async {
            loop {
                let held = self.held.recv().await?;
                if held.values.get(key).is_some_and(|held| held == value) {
                    return Some(held);
                }
                seen = Some(held);
            }
        };
        let limit = patient(limit);
        let why = match tokio::time::timeout(limit, wanted).await {
            Ok(Some(held)) => return held,
            Ok(None) => "before it ended".to_owned(),
            Err(_) => format!("within {limit:?}"),
        };
        panic!("the client does not hold {key}={value} {why}; it told last {seen:?}; log:\n{}", self.log());
    }
}

impl Drop for RealClient {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// A package of PyPI, in the driver tests/clients/watch.py.
async fn watching_python(
    package: &str,
    url: &str,
    ca: Option<&Path>,
    app: &str,
    namespace: &str,
    secret: Option<&str>,
) -> RealClient {
    let cache = TempDir::new().expect("a temporary directory can be made");
    let mut command = Command::new(python("apollo").await);
    command.arg(client_file("watch.py")).args([package, url, app, "default", namespace]);
    if let Some(ca) = ca {
        // The variable of its HTTP library.
        command.env("REQUESTS_CA_BUNDLE", ca);
    }
    command.arg(cache.path()).args(secret);
    driven(command, cache)
}

/// Interval at which the crate `apollo-rust-client` is made to ask.
#[derive(Clone, Copy)]
enum Pace {
    Fast,
    Own,
}

/// The crate `apollo-rust-client`, in the driver under tests/clients/rust.
async fn other_rust(url: &str, app: &str, namespace: &str, pace: Pace) -> RealClient {
    let cache = TempDir::new().expect("a temporary directory can be made");
    let program = made(client_file("rust/build"), &[], "cargo and a reachable registry of crates").await;
    let mut command = Command::new(program);
    command.args([url, app, "default", namespace]).arg(cache.path());
    command.args(matches!(pace, Pace::Own).then_some("patient"));
    driven(command, cache)
}

/// Runs a driver, which prints what its client holds.
pub(super) fn driven(mut command: Command, cache: TempDir) -> RealClient {
    let log = cache.path().join("client.log");
    command.stdout(Stdio::piped()).stderr(File::create(&log).expect("the log can be made")).kill_on_drop(true);
    let mut child = command.spawn().expect("the driver can be started");
    let stdout = child.stdout.take().expect("stdout is piped");
    let (tell, held) = unbounded_channel();
    let running = tokio::spawn(async move {
        // Both are dropped with the task.
        let _owned = (child, cache);
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            #[derive(Deserialize)]
            struct Line {
                values: Values,
                #[serde(default)]
                keys: Vec<String>,
            }
            let line: Line = serde_json::from_str(&line).expect("the driver prints JSON");
            send(&tell, line.values, line.keys);
        }
    });
    RealClient { held, log: Some(log), running }
}

/// A Python that has `packages`, one of the sets that tests/clients/python knows; without one this
/// fails: a test that is skipped proves nothing.
pub(crate) async fn python(packages: &str) -> String {
    made(client_file("python"), &[packages], "python3 with venv and a reachable package index").await
}

/// The path of axe-core.
pub(crate) async fn axe() -> String {
    made(client_file("axe"), &[], "python3 with pip and a reachable package index").await
}

/// The folder of `haproxy` and `nginx`.
pub(crate) async fn balancers() -> String {
    made(client_file("balancers"), &[], "haproxy and nginx, or Debian's package index").await
}

/// Path that a script prints which makes something, if it is not there yet.
async fn made(script: PathBuf, arguments: &[&str], needs: &str) -> String {
    let output = Command::new(&script).args(arguments).output().await;
    let output = output.unwrap_or_else(|error| panic!("{script:?} cannot be run: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{script:?} {arguments:?} needs {needs}:\n{errors}");
    String::from_utf8(output.stdout).expect("a path is text").trim().to_owned()
}

/// A file under tests/clients.
pub(crate) fn client_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// The crate `apollo-client`, by its watch stream.
fn rust(address: SocketAddr, app: &str, namespace: &str, secret: Option<&str>) -> RealClient {
    let url = format!("http://{address}").parse().expect("an address makes a URL");
    let builder = ApolloConfClientBuilder::new_via_config_service(url).expect("the address is accepted");
    let client = builder.build().expect("the client can be built");
    let request = WatchRequest {
        app_id: app.to_owned(),
        namespace_names: vec![namespace.to_owned()],
        access_key: secret.map(str::to_owned),
        ..Default::default()
    };
    let (tell, held) = unbounded_channel();
    let running = tokio::spawn(async move {
        let stream = client.watch(request);
        tokio::pin!(stream);
        // An error is one failed attempt; the client itself continues, and so must its user.
        while let Some(round) = stream.next().await {
            let fetched = round.unwrap_or_default();
            for response in fetched.into_values().flatten() {
                let values = response.configurations.into_iter().collect();
                send(&tell, values, Vec::new());
            }
        }
    });
    RealClient { held, log: None, running }
}

fn send(tell: &UnboundedSender<Held>, values: Values, keys: Vec<String>) {
    // The receiver is dropped first when a test ends.
    let _ = tell.send(Held { values, keys, at: Instant::now() });
}
