//! Every setting of a node: its flag, environment variable, default and unit, and the one check that lists all faults
//! at once. No other module reads the environment.

mod bounds;
mod dev;
mod faults;
mod grpc;
mod offline;
mod otlp;
mod secure;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};
use ipnet::IpNet;
use url::Url;

use crate::data_key::DataKey;
use crate::format::level::{Level, LevelRange};
use crate::model::host::{self, is_host_and_port};
use crate::model::limits;
use crate::tls::Listening;
use crate::traces::TraceSettings;
use faults::Faults;

pub use crate::logging::LogFormat;
pub use bounds::Bounds;
pub use dev::DevArgs;
pub use faults::SettingFaults;
pub use grpc::{GrpcArgs, XdsArgs};
pub use offline::{InspectArgs, RecoverArgs, ResetPasswordArgs, RestoreArgs};
pub use otlp::{OtlpArgs, OtlpCompression};
pub use secure::TlsArgs;

const API_PORT: u16 = 8090;
const COMPAT_PORT: u16 = 8890;
/// Minimum length of a cluster secret, in characters.
const SECRET_CHARS_MIN: usize = 32;
/// Minimum number of different characters in a secret: a random secret has more, a repeated key has one.
const SECRET_CHARS_DIFFERENT_MIN: usize = 6;
const PASSWORD_CHARS_MIN: usize = 8;
/// Limits of Apollo clients and proxies: the Java client gives up after 90 s.
const HOLD_MS_RANGE: std::ops::RangeInclusive<u64> = 100..=89_000;

/// Settings of `thuban serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Id of this node in the cluster, above 0; never reused after a removal
    #[arg(long, env = "THUBAN_NODE_ID")]
    pub node_id: u64,

    /// Data directory of the node
    #[arg(long, env = "THUBAN_DATA_DIR", default_value = "./thuban-data")]
    pub data_dir: PathBuf,

    /// Address of the management API, with /metrics, /livez, /readyz and /docs
    #[arg(long, env = "THUBAN_API_ADDR", default_value = "0.0.0.0:8090")]
    pub api_addr: String,

    /// Address for config clients
    #[arg(long, env = "THUBAN_COMPAT_ADDR", default_value = "0.0.0.0:8890")]
    pub compat_addr: String,

    /// Address for the other nodes, always with TLS; keep it on a private network nevertheless
    #[arg(long, env = "THUBAN_PEER_ADDR", default_value = "0.0.0.0:8190")]
    pub peer_addr: String,

    #[command(flatten)]
    pub grpc: GrpcArgs,

    /// Separate address for /metrics, /livez and /readyz, which answers while the state is loaded too [default: on the
    /// management API]
    #[arg(long, env = "THUBAN_METRICS_ADDR")]
    pub metrics_addr: Option<String>,

    /// Milliseconds for which a node that is shutting down goes on serving while `/readyz` fails, so that balancers
    /// stop sending to it before it closes its ports
    #[arg(long, env = "THUBAN_DRAIN_MS", default_value_t = 3000)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=60_000))]
    pub drain_ms: u64,

    /// HOST:PORT of the management API as others reach it [default: the bound address]
    #[arg(long, env = "THUBAN_ADVERTISE_API")]
    pub advertise_api: Option<String>,

    /// HOST:PORT for config clients as clients reach it [default: the bound address]
    #[arg(long, env = "THUBAN_ADVERTISE_COMPAT")]
    pub advertise_compat: Option<String>,

    /// HOST:PORT of the peer listener as other nodes reach it [default: its entry in --initial-cluster]
    #[arg(long, env = "THUBAN_ADVERTISE_PEER")]
    pub advertise_peer: Option<String>,

    /// Members that form the cluster, the same list on every node: 1=host:8190,2=host:8190,3=host:8190.
    /// Ignored by a node that already has data; absent on a node that waits to be added
    #[arg(long, env = "THUBAN_INITIAL_CLUSTER", default_value = "")]
    pub initial_cluster: String,

    /// Let a majority of --initial-cluster form the cluster at the very first start, if a peer cannot be started at
    /// all. Only for nodes that never had data: a majority of wiped nodes would found a new cluster
    #[arg(long, env = "THUBAN_FORM_WITH_MAJORITY")]
    #[arg(value_parser = BoolishValueParser::new(), action = ArgAction::SetTrue)]
    pub form_with_majority: bool,

    /// Secret that all nodes share, at least 32 characters, 6 of them different
    #[arg(long, env = "THUBAN_CLUSTER_SECRET", hide_env_values = true)]
    pub cluster_secret: Option<Hidden>,

    /// File with the secret; with two lines the first is presented to other nodes and both are accepted, for a rotation
    /// node by node
    #[arg(long, env = "THUBAN_CLUSTER_SECRET_FILE")]
    pub cluster_secret_file: Option<PathBuf>,

    /// Password of the user `admin`, used at the very first start only [default: generated and printed once]
    #[arg(long, env = "THUBAN_ADMIN_PASSWORD", hide_env_values = true)]
    pub admin_password: Option<Hidden>,

    /// File with the password
    #[arg(long, env = "THUBAN_ADMIN_PASSWORD_FILE")]
    pub admin_password_file: Option<PathBuf>,

    #[command(flatten)]
    pub tls: TlsArgs,

    #[command(flatten)]
    pub tuning: Tuning,
}

/// Settings that a development node has too.
#[derive(Args, Clone, Debug)]
pub struct Tuning {
    /// Maximum hold of a config client's poll in milliseconds, below the 60 s at which proxies time out
    #[arg(long, env = "THUBAN_LONG_POLL_TIMEOUT_MS", default_value_t = 55_000)]
    pub long_poll_timeout_ms: u64,

    /// Authentication of config clients: `required` refuses those without a token or signature
    #[arg(long, env = "THUBAN_COMPAT_AUTH", value_enum, default_value_t = CompatAuth::Optional)]
    pub compat_auth: CompatAuth,

    /// Maximum length of one config file, in characters
    #[arg(long, env = "THUBAN_CONFIG_CONTENT_MAX", default_value_t = limits::CONFIG_CONTENT_CHARS_MAX)]
    pub config_content_max: usize,

    /// Networks of trusted proxies, separated by commas: their X-Forwarded-For is read from the right. A host in such a
    /// network can pretend to be any client
    #[arg(long, env = "THUBAN_TRUSTED_PROXIES", value_delimiter = ',', default_value = "127.0.0.0/8,::1/128")]
    pub trusted_proxies: Vec<IpNet>,

    /// Milliseconds for which a node that is not up to date with the leader still accepts tokens; after that it accepts
    /// none, because it may have missed a revocation
    #[arg(long, env = "THUBAN_TOKEN_TRUST_MS", default_value_t = 30_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1000..))]
    pub token_trust_ms: u64,

    /// Host names, separated by commas, that a loopback listener accepts in addition to addresses, names without a dot
    /// and the advertised ones, for a proxy on this machine; `*` for all
    #[arg(long, env = "THUBAN_ALLOWED_HOSTS", value_delimiter = ',')]
    pub allowed_hosts: Vec<String>,

    /// Milliseconds by which the applied state of a ready node may lag behind the leader; 0 for no limit
    #[arg(long, env = "THUBAN_READY_BEHIND_MS", default_value_t = 30_000)]
    pub ready_behind_ms: u64,

    /// Milliseconds without contact from the leader before a new election [default: four round trips to the majority
    /// and 100 more, 400 to 8000]
    #[arg(long, env = "THUBAN_ELECTION_TIMEOUT_MS", value_parser = clap::value_parser!(u64).range(200..=60_000))]
    pub election_timeout_ms: Option<u64>,

    #[command(flatten)]
    pub bounds: Bounds,

    /// Log entries between two comparisons of the nodes' states; the same on all nodes
    #[arg(long, env = "THUBAN_HASH_CHECK_ENTRIES", default_value_t = 1024)]
    pub hash_check_entries: u64,

    /// Highest level of stored and sent formats that this node uses: while it equals the cluster's present level, a
    /// downgrade to the previous version is possible [default: the newest of a release]
    #[arg(long, env = "THUBAN_LEVEL_MAX", value_parser = clap::value_parser!(u8).range(1..=i64::from(Level::NEWEST.0)))]
    pub level_max: Option<u8>,

    /// File with the data key of 64 hex digits that encrypts secrets of access keys and webhooks, and encrypted config
    /// files; the same on every node, stored apart from the data. Without it none can be created. A second line is an
    /// earlier or a future key: the first seals, both open
    #[arg(long, env = "THUBAN_DATA_KEY_FILE")]
    pub data_key_file: Option<PathBuf>,

    /// Console at /ui on the management port
    #[arg(long, env = "THUBAN_UI", value_enum, default_value_t = Switch::On)]
    pub ui: Switch,

    /// Address of the console for browsers: https://thuban.example.com. Identity providers send browsers back to it
    /// after a sign-in [default: the address that a browser asks, if it is of this machine or of a member]
    #[arg(long, env = "THUBAN_PUBLIC_URL", value_name = "URL", value_parser = public_url)]
    pub public_url: Option<Url>,

    /// File with the trusted authorities of https:// webhook receivers (PEM), read again for each new
    /// connection [default: those of the system]
    #[arg(long, env = "THUBAN_WEBHOOK_CA_FILE", value_name = "FILE")]
    pub webhook_ca_file: Option<PathBuf>,

    /// File with the trusted authorities of https:// identity providers (PEM) [default: those of the system]
    #[arg(long, env = "THUBAN_SSO_CA_FILE", value_name = "FILE")]
    pub sso_ca_file: Option<PathBuf>,

    /// Private networks, separated by commas, that webhooks with `allow_private` may reach, loopback (127.0.0.0/8)
    /// included; the same on every node [default: none]
    #[arg(long, env = "THUBAN_WEBHOOK_PRIVATE_NETWORKS", value_delimiter = ',', value_name = "NETWORKS")]
    pub webhook_private_networks: Vec<IpNet>,

    /// Prometheus that answers the queries of rollout guards: http://prometheus:9090. The leader queries it, so set it
    /// on every node [default: none, such rollouts pause]
    #[arg(long, env = "THUBAN_PROMETHEUS_URL", value_name = "URL", value_parser = prometheus_url)]
    pub prometheus_url: Option<Url>,

    #[command(flatten)]
    pub xds: XdsArgs,

    #[command(flatten)]
    pub otlp: OtlpArgs,

    /// Format of the log on stderr
    #[arg(long, env = "THUBAN_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

impl Tuning {
    /// Returns the levels that this node reads and writes.
    pub fn levels(&self) -> LevelRange {
        self.level_max.map_or(LevelRange::RELEASED, |max| LevelRange::OWN.up_to(Level(max)))
    }
}

/// Parses the address of an HTTP server.
fn prometheus_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    if let Some(why) = url.host_str().and_then(host::fault) {
        return Err(why);
    }
    if is_http { Ok(url) } else { Err("has to be http://HOST:PORT or https://HOST:PORT".to_owned()) }
}

/// Parses the public address of the console: an origin.
fn public_url(text: &str) -> Result<Url, String> {
    let url = prometheus_url(text).map_err(|_| "has to be https://HOST or https://HOST:PORT".to_owned())?;
    let is_origin = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if is_origin && url.username().is_empty() && url.password().is_none() {
        return Ok(url);
    }
    Err("has to be an address without a path: the console is at /ui of it".to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompatAuth {
    Optional,
    Required,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// A secret from the command line or the environment; never displayed.
#[derive(Clone)]
pub struct Hidden(pub String);

impl From<&str> for Hidden {
    fn from(text: &str) -> Self {
        Hidden(text.to_owned())
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Cluster secret that a node presents to peers, and those that it accepts.
#[derive(Clone, Debug)]
pub struct ClusterSecret {
    pub shown: Hidden,
    /// Second accepted secret, during a rotation.
    pub other: Option<Hidden>,
}

/// Settings after the check.
#[derive(Clone, Debug)]
pub struct Config {
    pub node_id: u64,
    pub data_dir: PathBuf,
    pub api_addr: SocketAddr,
    pub compat_addr: SocketAddr,
    /// `None` for metrics on the management API.
    pub metrics_addr: Option<SocketAddr>,
    /// `None` for a node that has no peers and accepts none.
    pub peer_addr: Option<SocketAddr>,
    /// Addresses of gRPC; empty for none.
    pub grpc_addrs: Vec<SocketAddr>,
    pub advertise_api: Option<String>,
    pub advertise_compat: Option<String>,
    pub advertise_grpc: Option<String>,
    pub initial_cluster: BTreeMap<u64, String>,
    pub form_with_majority: bool,
    pub cluster_secret: Option<ClusterSecret>,
    pub admin_password: Option<Hidden>,
    /// TLS of both surfaces; `None` for plain HTTP.
    pub tls: Option<Arc<Listening>>,
    /// Days before the expiry of a certificate from which an alarm is raised.
    pub certificate_warn_days: u16,
    pub data_keys: Vec<DataKey>,
    /// `None` if tracing is off.
    pub traces: Option<TraceSettings>,
    pub hold: Duration,
    pub drain: Duration,
    pub tuning: Tuning,
}

impl ServeArgs {
    /// Checks all settings and returns every fault, not only the first.
    pub fn check(self) -> Result<Config, SettingFaults> {
        let mut faults = Faults::default();
        if self.node_id == 0 {
            faults.add("--node-id has to be above 0");
        }
        let api_addr = faults.address("--api-addr", &self.api_addr);
        let compat_addr = faults.address("--compat-addr", &self.compat_addr);
        let peer_addr = faults.address("--peer-addr", &self.peer_addr);
        let metrics_addr = self.metrics_addr.as_deref().and_then(|text| faults.address("--metrics-addr", text));
        if metrics_addr.is_some_and(|one| one.port() != 0 && [api_addr, compat_addr, peer_addr].contains(&Some(one))) {
            faults.add("--metrics-addr has to differ from the other addresses");
        }
        let clashes = [(api_addr, compat_addr), (api_addr, peer_addr), (compat_addr, peer_addr)];
        if clashes.into_iter().any(|(a, b)| a == b && a.is_some_and(|address| address.port() != 0)) {
            faults.add("--api-addr, --compat-addr and --peer-addr have to differ");
        }
        let grpc_addrs = self.grpc.check(&[api_addr, compat_addr, peer_addr, metrics_addr], &mut faults);
        for (flag, advertised) in [
            ("--advertise-api", &self.advertise_api),
            ("--advertise-compat", &self.advertise_compat),
            ("--advertise-peer", &self.advertise_peer),
            ("--advertise-grpc", &self.grpc.advertise_grpc),
        ] {
            if advertised.as_deref().is_some_and(|text| !is_host_and_port(text)) {
                faults
                    .add(format!("{flag} has to be HOST:PORT, with a host name of at most 253 characters, 63 a part"));
            }
        }
        let mut initial_cluster = faults.initial_cluster(&self.initial_cluster, self.node_id);
        if let (Some(own), Some(advertised)) = (initial_cluster.get_mut(&self.node_id), &self.advertise_peer) {
            own.clone_from(advertised);
        }
        let cluster_secret = faults.cluster_secret(self.cluster_secret, self.cluster_secret_file);
        if initial_cluster.len() > 1 && cluster_secret.is_none() {
            faults.add("--cluster-secret or --cluster-secret-file is required with more than one node");
        }
        if initial_cluster.is_empty() && cluster_secret.is_none() {
            faults.add(
                "a node without --initial-cluster waits to be added and needs the --cluster-secret of its cluster",
            );
        }
        let admin_password =
            faults.secret("--admin-password", self.admin_password, self.admin_password_file, PASSWORD_CHARS_MIN);
        faults.tuning(&self.tuning);
        let certificate_warn_days = self.tls.certificate_warn_days;
        let tls = self.tls.check(api_addr, &mut faults);
        let data_keys = faults.data_keys(self.tuning.data_key_file.as_deref());
        let traces = self.tuning.otlp.check(&mut faults);
        let (Some(api_addr), Some(compat_addr), Some(peer_addr)) = (api_addr, compat_addr, peer_addr) else {
            return Err(faults.into());
        };
        if !faults.0.is_empty() {
            return Err(faults.into());
        }
        Ok(Config {
            node_id: self.node_id,
            data_dir: self.data_dir,
            api_addr,
            compat_addr,
            metrics_addr,
            peer_addr: cluster_secret.is_some().then_some(peer_addr),
            grpc_addrs,
            advertise_api: self.advertise_api,
            advertise_compat: self.advertise_compat,
            advertise_grpc: self.grpc.advertise_grpc,
            initial_cluster,
            form_with_majority: self.form_with_majority,
            cluster_secret,
            admin_password,
            tls,
            certificate_warn_days,
            data_keys,
            traces,
            hold: Duration::from_millis(self.tuning.long_poll_timeout_ms),
            drain: Duration::from_millis(self.drain_ms),
            tuning: self.tuning,
        })
    }
}

#[cfg(test)]
mod tests;
