//! Clients of xDS as they are published, and the servers that they call, each in a process that is driven by lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

use crate::harness::{Api, Cluster, asked_client, client_file, eventually, program, python, tail, thuban};

/// A program of tests/clients; it ends when this is dropped.
pub(super) struct Driven {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    directory: TempDir,
}

impl Driven {
    /// Starts the driver; returns its first line.
    pub(super) async fn start(mut command: Command, directory: TempDir) -> (Driven, Value) {
        let log = File::create(directory.path().join("driver.log")).expect("the log can be made");
        command.kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("the driver can be started");
        let stdin = child.stdin.take().expect("stdin is piped");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let mut driven = Driven { _child: child, stdin, lines, directory };
        let first = driven.line("the start").await;
        (driven, first)
    }

    pub(super) async fn ask<T: DeserializeOwned>(&mut self, question: Value) -> T {
        let line = format!("{question}\n");
        self.stdin.write_all(line.as_bytes()).await.expect("the driver reads");
        let answer = self.line(&line).await;
        serde_json::from_value(answer.clone()).unwrap_or_else(|error| panic!("{line}: {error} in {answer}"))
    }

    pub(super) async fn line(&mut self, asked: &str) -> Value {
        let line = self.lines.next_line().await.expect("the driver writes text");
        let answer: Option<Value> = line.and_then(|line| serde_json::from_str(&line).ok());
        let failed = answer.as_ref().is_none_or(|answer| answer.get("failed").is_some());
        assert!(!failed, "{asked}: {answer:?}; logs:\n{}", self.logs());
        answer.unwrap_or_default()
    }

    fn logs(&self) -> String {
        ["driver.log", "envoy.log"].map(|name| tail(&self.directory.path().join(name))).join("\n")
    }
}

/// Results of calls: how many each server answered, and how many failed how.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Calls {
    pub(super) answers: BTreeMap<String, u64>,
    pub(super) errors: BTreeMap<String, u64>,
    #[expect(dead_code, reason = "it is told when a test fails")]
    texts: BTreeMap<String, String>,
}

impl Calls {
    pub(super) fn answered(&self) -> u64 {
        self.answers.values().sum()
    }

    pub(super) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    pub(super) fn answered_by(&self) -> BTreeSet<&str> {
        self.answers.keys().map(String::as_str).collect()
    }

    /// Share of the calls that these servers answered, of all.
    pub(super) fn share_of(&self, servers: &[String]) -> f64 {
        let of_them: u64 = servers.iter().filter_map(|server| self.answers.get(server)).sum();
        of_them as f64 / (self.answered() + self.failed()).max(1) as f64
    }
}

/// Servers that are called, each at an address of its own.
pub(super) struct Backends {
    driven: Driven,
    pub(super) addresses: Vec<String>,
}

impl Backends {
    pub(super) async fn start(count: usize) -> Backends {
        Backends::start_with(count, &[]).await
    }

    /// The same, which show this certificate by its files.
    pub(super) async fn start_secure(count: usize, certificate: &str, key: &str) -> Backends {
        Backends::start_with(count, &["--certificate", certificate, "--key", key]).await
    }

    async fn start_with(count: usize, flags: &[&str]) -> Backends {
        let directory = TempDir::new().expect("a temporary directory can be made");
        let mut command = of_python("backends.py").await;
        command.arg(count.to_string()).args(flags);
        let (driven, first) = Driven::start(command, directory).await;
        let addresses = serde_json::from_value(first["addresses"].clone()).expect("addresses");
        Backends { driven, addresses }
    }

    /// Returns the calls of each server since the last call.
    pub(super) async fn counts(&mut self) -> BTreeMap<String, u64> {
        self.driven.ask(json!({"op": "counts"})).await
    }

    /// Returns the probes of each server since the last call.
    pub(super) async fn probes(&mut self) -> BTreeMap<String, u64> {
        self.driven.ask(json!({"op": "probes"})).await
    }

    /// It answers so from now on; 200 and 0 is well.
    pub(super) async fn behave(&mut self, at: &str, http: u16, grpc: u8) {
        let _: Value = self.driven.ask(json!({"op": "behave", "at": at, "http": http, "grpc": grpc})).await;
    }

    /// It refuses connections, those that are open included.
    pub(super) async fn down(&mut self, at: &str) {
        let _: Value = self.driven.ask(json!({"op": "down", "at": at})).await;
    }

    pub(super) async fn up(&mut self, at: &str) {
        let _: Value = self.driven.ask(json!({"op": "up", "at": at})).await;
    }
}

/// A program of tests/clients/xds.
async fn of_python(name: &str) -> Command {
    let mut command = Command::new(python("xds").await);
    command.arg(client_file("xds").join(name));
    command
}

/// Clients as they are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// grpcio, which is C-core.
    Grpc,
    Go,
    /// grpc-go of 2024.
    Go2024,
    Java,
    Node,
    EnvoyDelta,
    EnvoySotw,
}

impl Kind {
    /// The kinds that every rule is tried with.
    pub(super) const ALL: [Kind; 3] = [Kind::Grpc, Kind::EnvoyDelta, Kind::EnvoySotw];

    /// Returns the gRPC languages without a C core, each in its newest version; an earlier one only on request.
    pub(super) fn languages() -> Vec<Kind> {
        let earlier = asked_client().map(|_| Kind::Go2024);
        [Kind::Go, Kind::Java, Kind::Node].into_iter().chain(earlier).collect()
    }

    pub(super) fn is_envoy(self) -> bool {
        matches!(self, Kind::EnvoyDelta | Kind::EnvoySotw)
    }

    /// Its program under tests/clients, if it is made by a build script there.
    fn built(self) -> Option<(&'static str, &'static str)> {
        match self {
            Kind::Go => Some(("go", "newest")),
            Kind::Go2024 => Some(("go", "2024")),
            Kind::Java => Some(("java", "newest")),
            Kind::Node => Some(("node", "newest")),
            Kind::Grpc | Kind::EnvoyDelta | Kind::EnvoySotw => None,
        }
    }

    pub(super) fn is_built(self) -> bool {
        self.built().is_some()
    }

    /// The command of its program; nothing where its language is left out.
    pub(super) async fn command(self, bootstrap: &Path) -> Option<Command> {
        let mut command = match self.built() {
            Some((language, variant)) => Command::new(program(language, "grpc", variant).await?),
            None => of_python(if self.is_envoy() { "proxy.py" } else { "grpc_client.py" }).await,
        };
        if self.built().is_none() {
            command.arg(bootstrap);
        }
        command.env("GRPC_XDS_BOOTSTRAP", bootstrap);
        Some(command)
    }
}

/// A call, as both gRPC and HTTP have it.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Service in the namespace `shop`.
    service: &'static str,
    /// Path with a query, for HTTP only.
    path: String,
    headers: BTreeMap<&'static str, &'static str>,
    /// In place of the listener for the client's own calls.
    port: Option<u16>,
    /// Authority of the server's certificate, and whether xDS credentials are used.
    secure: Option<(String, bool)>,
    /// Its target names no namespace.
    is_short: bool,
}

impl Request {
    pub(super) fn to(service: &'static str) -> Request {
        Request {
            service,
            path: "/shop.Pay/Charge".to_owned(),
            headers: BTreeMap::new(),
            port: None,
            secure: None,
            is_short: false,
        }
    }

    pub(super) fn header(mut self, name: &'static str, value: &'static str) -> Request {
        self.headers.insert(name, value);
        self
    }

    /// Uses TLS with this authority. `by_xds`: the fallback of xDS credentials.
    pub(super) fn secure(mut self, authority: &str, by_xds: bool) -> Request {
        self.secure = Some((authority.to_owned(), by_xds));
        self
    }

    /// Uses only the name of the service.
    pub(super) fn short(mut self) -> Request {
        self.is_short = true;
        self
    }

    /// To another listener of the Envoy.
    pub(super) fn by_port(mut self, port: u16) -> Request {
        self.port = Some(port);
        self
    }

    pub(super) fn path(mut self, path: &str) -> Request {
        path.clone_into(&mut self.path);
        self
    }
}

/// A client, with the form of its calls.
pub(super) struct Client {
    pub(super) kind: Kind,
    driven: Driven,
    outbound: u16,
    node_id: String,
    /// A node, which has heard what the client refused.
    api: Api,
}

/// Settings by which a client finds its rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    /// Flags of `thuban xds bootstrap`.
    pub(super) flags: Vec<String>,
    /// Port of the listener for calls from outside, and that of the application.
    pub(super) inbound: Option<(u16, u16)>,
    /// In place of the addresses of all nodes.
    pub(super) servers: Option<String>,
    /// Variables of its process.
    pub(super) environment: Vec<(&'static str, String)>,
}

impl Client {
    /// Starts a client of `shop/NAME` that may ask all nodes.
    pub(super) async fn start(kind: Kind, cluster: &Cluster, name: &str, options: &Options) -> Client {
        Client::start_if_there(kind, cluster, name, options).await.expect("its language is there")
    }

    /// The same; nothing where its language is left out.
    pub(super) async fn start_if_there(kind: Kind, cluster: &Cluster, name: &str, options: &Options) -> Option<Client> {
        let directory = TempDir::new().expect("a temporary directory can be made");
        let outbound = crate::harness::Ports::reserve().grpc.port();
        let bootstrap = directory.path().join("bootstrap.json");
        write_bootstrap(kind, cluster, name, options, outbound, &bootstrap).await;
        let mut command = kind.command(&bootstrap).await?;
        command.envs(options.environment.iter().map(|(name, value)| (name, value)));
        if kind.is_envoy() {
            command.arg(directory.path()).args((kind == Kind::EnvoySotw).then_some("--sotw"));
        }
        let (driven, _) = Driven::start(command, directory).await;
        let api = cluster.api(*cluster.ids().first().expect("there is a node"));
        Some(Client { kind, driven, outbound, node_id: node_id(kind, name), api })
    }

    pub(super) async fn call(&mut self, request: &Request, times: u32) -> Calls {
        let mut question = self.question("call", request);
        question["times"] = json!(times);
        self.driven.ask(question).await
    }

    /// Calls on and on until [`Client::stop`].
    pub(super) async fn flow(&mut self, name: &str, request: &Request) {
        self.flow_wide(name, request, 1).await;
    }

    /// Starts a flow with this many concurrent callers, each of which pauses for 5 ms between its calls.
    pub(super) async fn flow_wide(&mut self, name: &str, request: &Request, callers: usize) {
        let mut question = self.question("flow", request);
        if callers > 1 {
            question["parallel"] = json!(callers);
        }
        question["name"] = json!(name);
        let _: Value = self.driven.ask(question).await;
    }

    pub(super) async fn stop(&mut self, name: &str) -> Calls {
        self.driven.ask(json!({"op": "stop", "name": name})).await
    }

    /// Returns the results so far of a running flow.
    pub(super) async fn seen(&mut self, name: &str) -> Calls {
        self.driven.ask(json!({"op": "seen", "name": name})).await
    }

    /// Returns the resources that the client itself reports.
    pub(super) async fn state(&mut self) -> Value {
        self.driven.ask(json!({"op": "state"})).await
    }

    /// Counters and gauges of an Envoy.
    pub(super) async fn stats(&mut self, filter: &str) -> BTreeMap<String, u64> {
        self.driven.ask(json!({"op": "stats", "filter": filter})).await
    }

    /// Waits until calls are answered by exactly these servers and none fails.
    pub(super) async fn settles(&mut self, limit: Duration, what: &str, request: &Request, expected: &[String]) {
        let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
        let what = format!("{what}: {expected:?}");
        let times = 4 * expected.len() as u32 + 4;
        let is_right = |calls: &Calls| calls.failed() == 0 && calls.answered_by() == expected;
        self.comes_to(limit, &what, request, times, is_right).await;
    }

    /// Calls until the results are right.
    pub(super) async fn comes_to(
        &mut self,
        limit: Duration,
        what: &str,
        request: &Request,
        times: u32,
        is_right: impl Fn(&Calls) -> bool,
    ) -> Calls {
        let what = format!("{:?}: {what}", self.kind);
        let client = Mutex::new(self);
        let probe = || async {
            let calls = client.lock().await.call(request, times).await;
            if is_right(&calls) { Ok(calls) } else { Err(format!("{calls:?}")) }
        };
        eventually(limit, &what, probe).await
    }

    /// Fails if the client refused anything that it was sent.
    pub(super) async fn expect_nothing_refused(&mut self) {
        if self.kind.is_built() {
            let path = format!("/admin/v1/xds/clients?node_id={}", self.node_id);
            let answer = self.api.get(&path).await.expect_code(200_000);
            let rows = answer.body["data"].as_array().expect("a list");
            let refused: Vec<_> = rows.iter().filter(|row| row["applied"] == "refused").collect();
            assert!(refused.is_empty() && !rows.is_empty(), "{:?}: {refused:?}", self.kind);
            return;
        }
        let state = self.state().await;
        if self.kind.is_envoy() {
            let rejected = self.stats("update_rejected|init_fetch_timeout").await;
            assert!(rejected.len() > 2, "no counters: {rejected:?}");
            assert!(rejected.values().all(|count| *count == 0), "{:?}: {rejected:?}, {}", self.kind, state["faults"]);
            return;
        }
        let rows = state["resources"].as_array().expect("a list");
        let refused: Vec<_> = rows.iter().filter(|row| row["fault"] != "").collect();
        assert!(refused.is_empty() && !rows.is_empty(), "{refused:?}");
    }

    fn question(&self, op: &str, request: &Request) -> Value {
        let Request { service, path, headers, port, secure, is_short } = request;
        match self.kind {
            Kind::EnvoyDelta | Kind::EnvoySotw => {
                let host = format!("{service}.shop");
                json!({"op": op, "port": port.unwrap_or(self.outbound), "host": host, "path": path, "headers": headers})
            }
            _ => {
                let target = if *is_short { format!("xds:///{service}") } else { format!("xds:///shop/{service}") };
                let mut question = json!({"op": op, "target": target, "method": path, "metadata": headers});
                if let Some((authority, by_xds)) = secure {
                    (question["ca"], question["by_xds"]) = (json!(authority), json!(by_xds));
                }
                if self.kind.is_built() {
                    // Some wait for the deadline where others fail at once.
                    question["timeout_s"] = json!(2);
                }
                question
            }
        }
    }
}

fn node_id(kind: Kind, name: &str) -> String {
    format!("{name}-{kind:?}")
}

/// Writes the bootstrap of a client of `shop/NAME`; `outbound` is the port of an Envoy.
pub(super) async fn write_bootstrap(
    kind: Kind,
    cluster: &Cluster,
    name: &str,
    options: &Options,
    outbound: u16,
    to: &Path,
) {
    let all: Vec<String> = cluster.ids().into_iter().map(|id| cluster.ports(id).grpc.to_string()).collect();
    let servers = options.servers.clone().unwrap_or_else(|| all.join(","));
    let mut command = thuban();
    command.args(["xds", "bootstrap", if kind.is_envoy() { "envoy" } else { "grpc" }]);
    command.args(["--server", &servers, "--namespace", "shop", "--service", name]).args(&options.flags);
    command.args(["--node-id", &node_id(kind, name)]);
    if kind == Kind::Grpc {
        command.args(["--for", "core"]);
    }
    if kind.is_envoy() {
        let admin = crate::harness::Ports::reserve().grpc.port();
        command.args(["--admin-port", &admin.to_string(), "--label", &format!("outbound_port={outbound}")]);
    }
    if let Some((inbound, application)) = options.inbound {
        command.args(["--label", &format!("inbound_port={inbound}")]);
        command.args(["--label", &format!("application_port={application}")]);
    }
    let output = command.output().await.expect("it runs");
    assert!(output.status.success(), "{output:?}");
    std::fs::write(to, output.stdout).expect("a file can be written");
}
