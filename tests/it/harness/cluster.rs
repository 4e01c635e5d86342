//! A cluster of real processes in a temporary directory, all on the loopback interface.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;
use tokio_rustls::rustls::ClientConfig;

use super::process::tail;
use super::{Api, Apollo, Exited, Ports, Process, eventually};

pub(crate) const ADMIN_PASSWORD: &str = "a password for tests only";
pub(crate) const CLUSTER_SECRET: &str = "a cluster secret for tests, long enough";
const READY_LIMIT: Duration = Duration::from_secs(30);
const LEADER_LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct Cluster {
    nodes: Vec<Node>,
    directory: TempDir,
    options: Vec<String>,
    /// File descriptors of each node, where they are limited.
    descriptors: Option<u32>,
    /// Trust for surfaces that speak TLS.
    tls: Option<ClientConfig>,
    token: String,
}

struct Node {
    id: u64,
    ports: Ports,
    initial_cluster: Option<String>,
    /// In the place of the secret of all others.
    secret_file: Option<PathBuf>,
    environment: Vec<(String, String)>,
    /// Log of a node, where it is not a file next to its data.
    log: Option<PathBuf>,
    process: Option<Process>,
}

/// The flags that make a node a member: its id, its places, and the secret.
pub(crate) fn member_flags(id: u64, data: &str, ports: Ports) -> Vec<String> {
    let (id, api, compat, peer) =
        (id.to_string(), ports.api.to_string(), ports.compat.to_string(), ports.peer.to_string());
    let flags = [
        ("--node-id", id.as_str()),
        ("--data-dir", data),
        ("--api-addr", &api),
        ("--compat-addr", &compat),
        ("--peer-addr", &peer),
        ("--cluster-secret", CLUSTER_SECRET),
        ("--admin-password", ADMIN_PASSWORD),
    ];
    let flags = flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]);
    std::iter::once("serve".to_owned()).chain(flags).collect()
}

impl Cluster {
    pub(crate) async fn start(size: u64) -> Cluster {
        Cluster::start_with(size, &[]).await
    }

    /// Starts all nodes at once, waits until every one is ready, and logs the administrator in.
    pub(crate) async fn start_with(size: u64, options: &[&str]) -> Cluster {
        Cluster::start_limited(size, None, options).await
    }

    /// The same with nodes that have one data key.
    pub(crate) async fn start_with_data_key(size: u64, options: &[&str]) -> Cluster {
        let mut cluster = Cluster::prepare(size, options);
        let flags = cluster.data_key_flags("a");
        cluster.options.extend(flags);
        cluster.restart_all().await;
        cluster.log_in_again().await;
        cluster
    }

    /// Starts a cluster whose nodes have a limited number of file descriptors.
    pub(crate) async fn start_under(size: u64, descriptors: u32, options: &[&str]) -> Cluster {
        Cluster::start_limited(size, Some(descriptors), options).await
    }

    async fn start_limited(size: u64, descriptors: Option<u32>, options: &[&str]) -> Cluster {
        let mut cluster = Cluster::prepare(size, options);
        cluster.descriptors = descriptors;
        cluster.restart_all().await;
        cluster.log_in_again().await;
        cluster
    }

    /// A cluster of which no node has been started yet.
    pub(crate) fn prepare(size: u64, options: &[&str]) -> Cluster {
        let ports: Vec<(u64, Ports)> = (1..=size).map(|id| (id, Ports::reserve())).collect();
        let list: Vec<String> = ports.iter().map(|(id, ports)| format!("{id}={}", ports.peer)).collect();
        let nodes = ports
            .into_iter()
            .map(|(id, ports)| Node {
                id,
                ports,
                initial_cluster: Some(list.join(",")),
                secret_file: None,
                environment: Vec::new(),
                log: None,
                process: None,
            })
            .collect();
        Cluster {
            nodes,
            directory: TempDir::with_prefix("thuban-it-").expect("a temporary directory can be made"),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            descriptors: None,
            tls: None,
            token: String::new(),
        }
    }

    /// The surfaces speak TLS, and are spoken to by it.
    pub(crate) fn secure(&mut self, tls: ClientConfig) {
        self.tls = Some(tls);
    }

    /// Sets the list of initial members on all nodes.
    pub(crate) fn set_initial_cluster(&mut self, list: &str) {
        for node in &mut self.nodes {
            node.initial_cluster = Some(list.to_owned());
        }
    }

    /// Sets the list of initial members of one node, from its next start.
    pub(crate) fn set_initial_cluster_of(&mut self, id: u64, list: &str) {
        let node = self.index(id);
        self.nodes[node].initial_cluster = Some(list.to_owned());
    }

    /// From its next start on a node reads its cluster secret from a file that holds these lines.
    pub(crate) fn set_secrets(&mut self, id: u64, secrets: &[&str]) {
        let file = self.file(&format!("node-{id}.secret"));
        std::fs::write(&file, secrets.join("\n")).expect("a file can be written");
        let node = self.index(id);
        self.nodes[node].secret_file = Some(file);
    }

    /// Sets additional flags of nodes that are started from now on.
    pub(crate) fn set_options(&mut self, options: &[&str]) {
        self.options = options.iter().map(|option| (*option).to_owned()).collect();
    }

    /// For a cluster that was prepared, or that does not know the sessions of the one before it.
    pub(crate) async fn log_in_again(&mut self) {
        self.log_in_again_at(self.nodes[0].id).await;
    }

    pub(crate) async fn log_in_again_at(&mut self, id: u64) {
        self.token = self.log_in(id).await;
    }

    /// The list that the nodes were founded with.
    pub(crate) fn initial_cluster(&self) -> String {
        self.nodes.iter().find_map(|node| node.initial_cluster.clone()).expect("a node that founded the cluster")
    }

    /// Returns the path of a file next to the data of the nodes.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Flags that give a node the data key of this digit.
    pub(crate) fn data_key_flags(&self, digit: &str) -> [String; 2] {
        let file = self.file(&format!("data-key-{digit}"));
        std::fs::write(&file, format!("{}\n", digit.repeat(64))).expect("a file can be written");
        ["--data-key-file".to_owned(), file.to_str().expect("a path is text").to_owned()]
    }

    async fn log_in(&self, id: u64) -> String {
        let api = self.anonymous(id);
        eventually(LEADER_LIMIT, "the administrator logs in", || api.login(ADMIN_PASSWORD)).await
    }

    /// Certificate that [`Cluster::api`] presents from now on.
    pub(crate) fn set_token(&mut self, token: &str) {
        token.clone_into(&mut self.token);
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.id).collect()
    }

    /// The nodes whose process runs, paused ones included.
    pub(crate) fn running(&self) -> Vec<u64> {
        self.nodes.iter().filter(|node| node.process.is_some()).map(|node| node.id).collect()
    }

    pub(crate) fn ports(&self, id: u64) -> Ports {
        self.node(id).ports
    }

    pub(crate) fn process(&self, id: u64) -> &Process {
        self.node(id).process.as_ref().unwrap_or_else(|| panic!("node {id} does not run"))
    }

    /// The management surface of a node, as the administrator.
    pub(crate) fn api(&self, id: u64) -> Api {
        self.anonymous(id).with_token(&self.token)
    }

    fn anonymous(&self, id: u64) -> Api {
        let address = self.ports(id).api;
        self.tls.as_ref().map_or_else(|| Api::new(address), |tls| Api::secure(address, tls))
    }

    /// Address of a node's gRPC.
    pub(crate) fn grpc(&self, id: u64) -> SocketAddr {
        *self.process(id).announced.grpc.first().expect("it listens for gRPC")
    }

    /// The Apollo surface of a node, anonymous.
    pub(crate) fn apollo(&self, id: u64) -> Apollo {
        Apollo::new(self.ports(id).compat)
    }

    pub(crate) fn data(&self, id: u64) -> PathBuf {
        self.directory.path().join(format!("node-{id}"))
    }

    pub(crate) fn log(&self, id: u64) -> PathBuf {
        let log = self.node(id).log.clone();
        log.unwrap_or_else(|| self.directory.path().join(format!("node-{id}.log")))
    }

    /// Sets where a node logs from its next start on, which may be a pipe or a device; `None` for its file.
    pub(crate) fn set_log(&mut self, id: u64, log: Option<PathBuf>) {
        let node = self.index(id);
        self.nodes[node].log = log;
    }

    /// Returns the running node that reports to be the leader.
    pub(crate) async fn leader(&self) -> u64 {
        let apis: Vec<Api> = self.running().into_iter().map(|id| self.api(id)).collect();
        let apis = &apis;
        eventually(LEADER_LIMIT, "a node leads", || async move {
            let views = join_all(apis.iter().map(Api::cluster)).await;
            let leads = |body: &serde_json::Value| body["leader"].as_u64().filter(|id| body["self"] == *id);
            let leader = views.iter().flatten().find_map(|view| leads(&view.body));
            leader.ok_or_else(|| format!("{views:?}"))
        })
        .await
    }

    /// Leader in the view of a node.
    pub(crate) async fn leader_seen_by(&self, id: u64) -> Option<u64> {
        self.api(id).cluster().await.ok()?.body["leader"].as_u64()
    }

    pub(crate) async fn followers(&self) -> Vec<u64> {
        let leader = self.leader().await;
        self.running().into_iter().filter(|id| *id != leader).collect()
    }

    /// kill -9.
    pub(crate) async fn kill(&mut self, id: u64) {
        self.take(id).kill().await;
    }

    /// kill -9 for all, with no pause between.
    pub(crate) async fn kill_all(&mut self) {
        join_all(self.nodes.iter_mut().filter_map(|node| node.process.take()).map(Process::kill)).await;
    }

    /// SIGTERM, and the status with which the node ended.
    pub(crate) async fn terminate(&mut self, id: u64) -> ExitStatus {
        self.take(id).terminate().await
    }

    pub(crate) async fn pause(&self, id: u64) {
        self.process(id).signal("STOP").await;
    }

    pub(crate) async fn resume(&self, id: u64) {
        self.process(id).signal("CONT").await;
    }

    /// Starts a stopped node on its old ports and directory, and waits until it is ready.
    pub(crate) async fn restart(&mut self, id: u64) {
        self.relaunch(id).await;
        self.wait_ready(id).await;
    }

    /// Starts a stopped node on its old ports and directory; returns when it listens, ready or not.
    pub(crate) async fn relaunch(&mut self, id: u64) {
        let node = self.index(id);
        self.nodes[node].process = Some(self.launch(id).await.unwrap_or_else(|exited| panic!("node {id}: {exited:?}")));
    }

    /// From its next start on, the node finds these variables in its environment.
    pub(crate) fn set_environment(&mut self, id: u64, environment: Vec<(String, String)>) {
        let node = self.index(id);
        self.nodes[node].environment = environment;
    }

    /// Gives a stopped node another peer address, without informing the others.
    pub(crate) fn move_peer(&mut self, id: u64) {
        let index = self.index(id);
        self.nodes[index].ports.peer = Ports::reserve().peer;
    }

    /// Swaps the peer addresses of two stopped nodes, without informing the others.
    pub(crate) fn swap_peers(&mut self, one: u64, other: u64) {
        let (one, other) = (self.index(one), self.index(other));
        let peer = self.nodes[one].ports.peer;
        self.nodes[one].ports.peer = self.nodes[other].ports.peer;
        self.nodes[other].ports.peer = peer;
    }

    /// Waits until a running node has ended by itself.
    pub(crate) async fn expect_end(&mut self, id: u64, limit: Duration) -> Exited {
        let log = self.log(id);
        self.take(id).expect_end(limit, &log).await
    }

    /// Starts every node that does not run, together, and waits until all are ready.
    pub(crate) async fn restart_all(&mut self) {
        let started = self.launch_all().await;
        join_all(started.iter().map(|id| self.wait_ready(*id))).await;
    }

    /// Starts every node that does not run, together; returns which when they listen, ready or not.
    pub(crate) async fn launch_all(&mut self) -> Vec<u64> {
        let down: Vec<u64> = self.nodes.iter().filter(|node| node.process.is_none()).map(|node| node.id).collect();
        let started = join_all(down.iter().map(|id| self.launch(*id))).await;
        for (id, process) in down.iter().zip(started) {
            let node = self.index(*id);
            self.nodes[node].process = Some(process.unwrap_or_else(|exited| panic!("node {id}: {exited:?}")));
        }
        down
    }

    /// Starts a stopped node and returns what became of it, for starts that must be refused.
    pub(crate) async fn launch(&self, id: u64) -> Result<Process, Exited> {
        let node = self.node(id);
        let mut flags = member_flags(id, self.data(id).to_str().expect("the path is text"), node.ports);
        if let Some(list) = &node.initial_cluster {
            flags.extend(["--initial-cluster".to_owned(), list.clone()]);
        }
        if let Some(file) = &node.secret_file {
            let at = flags.iter().position(|flag| flag == "--cluster-secret").expect("a flag of every member");
            flags.splice(at..at + 2, ["--cluster-secret-file".to_owned(), file.display().to_string()]);
        }
        flags.extend(self.options.iter().cloned());
        // Not a flag, as nodes of versions before it know none.
        let mut environment = vec![("THUBAN_GRPC_ADDR".to_owned(), node.ports.grpc.to_string())];
        environment.extend(node.environment.iter().cloned());
        Process::start_in(self.descriptors, &flags, &environment, &self.log(id)).await
    }

    /// Starts one more node that belongs to no cluster yet; the caller adds it.
    pub(crate) async fn start_outsider(&mut self, id: u64) {
        let ports = Ports::reserve();
        let (environment, secret_file) = (Vec::new(), None);
        self.nodes.push(Node { id, ports, initial_cluster: None, secret_file, environment, log: None, process: None });
        let index = self.index(id);
        self.nodes[index].process =
            Some(self.launch(id).await.unwrap_or_else(|exited| panic!("node {id}: {exited:?}")));
    }

    pub(crate) async fn wait_ready(&self, id: u64) {
        let api = self.anonymous(id);
        let api = &api;
        eventually(READY_LIMIT, &format!("node {id} is ready"), || async move {
            match api.health("/readyz?verbose").await? {
                (200, _) => Ok(()),
                (status, text) => Err(format!("{status} {text}")),
            }
        })
        .await;
    }

    /// Waits until these nodes have applied the same index, and fails unless their states are equal there.
    pub(crate) async fn expect_equal_state(&self) {
        let apis: Vec<Api> = self.running().into_iter().map(|id| self.api(id)).collect();
        let apis = &apis;
        let hashes = eventually(READY_LIMIT, "all nodes show their state at one index", || async move {
            let views: Vec<_> = join_all(apis.iter().map(Api::cluster)).await.into_iter().collect::<Result<_, _>>()?;
            let states: Vec<_> = views.iter().map(|view| view.body["state_hash"].clone()).collect();
            let aligned = states.iter().all(|state| state["index"].is_u64() && state["index"] == states[0]["index"]);
            if aligned { Ok(states) } else { Err(format!("{states:?}")) }
        })
        .await;
        let known = |hash: &serde_json::Value| hash["hash"] != serde_json::Value::Null;
        assert!(hashes.iter().all(|hash| known(hash) && hash == &hashes[0]), "states differ at one index: {hashes:?}");
    }

    fn index(&self, id: u64) -> usize {
        self.nodes.iter().position(|node| node.id == id).unwrap_or_else(|| panic!("no node {id}"))
    }

    fn node(&self, id: u64) -> &Node {
        &self.nodes[self.index(id)]
    }

    fn take(&mut self, id: u64) -> Process {
        let index = self.index(id);
        self.nodes[index].process.take().unwrap_or_else(|| panic!("node {id} does not run"))
    }
}

impl Drop for Cluster {
    /// Prints the last log lines of the nodes if the test fails.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in &self.nodes {
                eprintln!("--- log of node {}\n{}", node.id, tail(&self.log(node.id)));
            }
        }
    }
}
