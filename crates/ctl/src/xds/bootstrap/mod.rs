//! `thuban xds bootstrap`: the configuration with which a gRPC client or an Envoy finds this cluster.

mod envoy;
mod grpc;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use thuban_model::mesh::TOKEN_KEY;

use super::super::errors::Usage;
use super::super::remote::{AsideArgs, CallArgs};
use super::super::secret;
use super::super::telling::{say, say_error};

const ADMIN_PORT: u16 = 9901;
#[derive(Subcommand)]
pub(crate) enum BootstrapCommand {
    /// Write a file for GRPC_XDS_BOOTSTRAP of gRPC clients
    Grpc {
        #[command(flatten)]
        asked: BootstrapArgs,
        #[command(flatten)]
        form: grpc::Form,
    },
    /// Write a file for --config-path of Envoy
    Envoy {
        #[command(flatten)]
        asked: BootstrapArgs,
        /// Port of Envoy's admin pages, on 127.0.0.1
        #[arg(long, value_name = "PORT", default_value_t = ADMIN_PORT)]
        admin_port: u16,
    },
}

#[derive(Args)]
pub(crate) struct NodeArgs {
    /// HOST:PORT of the gRPC listener of each node (--grpc-addr), separated by commas [default: the addresses that
    /// members announce by --advertise-grpc; requires a login]
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    server: Vec<ServerAddress>,
    /// Namespace of the client
    #[arg(short, long)]
    namespace: String,
    /// Service of the client: the caller in conditions of rules
    #[arg(long)]
    service: Option<String>,
    /// Label of the client, for gray releases and conditions of rules; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Identity of the client, preferably unique [default: service or namespace, with the name of this machine]
    #[arg(long, value_name = "ID")]
    node_id: Option<String>,
    /// Location of the client, for nearby routing
    #[arg(long, value_name = "REGION/ZONE/CAMPUS")]
    locality: Option<String>,
    /// File with a token of the role client: it is written into the bootstrap, which is then a secret
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the authorities that the client trusts (PEM), a path on the client's machine: turns on TLS
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// File with the client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "ca_file", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// File with the key of the client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct BootstrapArgs {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    cluster: AsideArgs,
}

/// Address of a gRPC listener.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServerAddress {
    host: Host,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    Name(String),
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not HOST:PORT");
        let (host, port) = text.trim().rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(inner) => Host::Ip(inner.parse::<Ipv6Addr>().map_err(|_| wrong())?.into()),
            None => match host.parse::<IpAddr>() {
                Ok(IpAddr::V6(_)) => return Err(format!("{text:?}: an IPv6 address stands in brackets")),
                Ok(address) => Host::Ip(address),
                Err(_) if is_name(host) => Host::Name(host.to_owned()),
                Err(_) => return Err(wrong()),
            },
        };
        Ok(ServerAddress { host, port })
    }
}

fn is_name(host: &str) -> bool {
    !host.is_empty() && host.chars().all(|char| char.is_ascii_alphanumeric() || ".-_".contains(char))
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Ip(address) => write!(f, "{address}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// Kind of client that a bootstrap is for.
enum Audience {
    Grpc(grpc::Form),
    Envoy { admin_port: u16 },
}

/// A bootstrap, with notes for its user.
struct Bootstrap {
    content: Value,
    notes: Vec<String>,
}

pub(super) async fn run(command: BootstrapCommand) -> anyhow::Result<()> {
    let (asked, kind) = match command {
        BootstrapCommand::Grpc { asked, form } => (asked, Audience::Grpc(form)),
        BootstrapCommand::Envoy { asked, admin_port } => (asked, Audience::Envoy { admin_port }),
    };
    let BootstrapArgs { node: mut args, cluster } = asked;
    if args.server.is_empty() {
        let call = CallArgs::from(cluster);
        let ask = async { call.remote()?.get("/admin/v1/cluster").await };
        let view = ask.await.context("without --server the cluster is asked which addresses its members announce")?;
        args.server = announced(&view["members"], args.ca_file.is_some())?;
    }
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    let bootstrap = match kind {
        Audience::Grpc(form) => grpc::bootstrap(&args, &form, token.as_deref())?,
        Audience::Envoy { admin_port } => envoy::bootstrap(&args, token.as_deref(), admin_port)?,
    };
    bootstrap.notes.iter().for_each(|note| say_error(&format!("thuban: {note}")));
    say(&serde_json::to_string_pretty(&bootstrap.content)?);
    Ok(())
}

/// Returns the addresses that all members announce. Addresses that other machines cannot reach are left out.
fn announced(members: &Value, has_authorities: bool) -> Result<Vec<ServerAddress>, Usage> {
    let mut servers = Vec::new();
    for member in members.as_array().into_iter().flatten() {
        let Some(text) = member["grpc"].as_str().filter(|text| !text.is_empty()) else { continue };
        let id = &member["id"];
        let secure = text.strip_prefix("https://");
        if secure.is_some() && !has_authorities {
            return Err(Usage(format!("node {id} speaks TLS: --ca-file names the authorities that the client trusts")));
        }
        let server: ServerAddress = secure.unwrap_or(text).parse().map_err(Usage)?;
        if matches!(server.host, Host::Ip(address) if address.is_unspecified()) {
            let why = format!(
                "node {id} announces {server}, which nobody can reach: start it with --advertise-grpc, \
                               or give --server"
            );
            return Err(Usage(why));
        }
        // One DNS name may resolve to all of them.
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    match servers.is_empty() {
        true => Err(Usage("no member announces an address for gRPC: give --server".to_owned())),
        false => Ok(servers),
    }
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let token = secret::read_file(file)?;
    match token.is_empty() || token.contains(|char: char| !char.is_ascii_graphic()) {
        true => Err(Usage(format!("{}: not a token of one line", file.display())).into()),
        false => Ok(token),
    }
}

/// Returns a path as text for the bootstrap; an error unless it is UTF-8.
fn file_name(file: &Path) -> Result<&str, Usage> {
    file.to_str().ok_or_else(|| Usage(format!("{}: not a path in UTF-8", file.display())))
}

/// Returns the identity of the client, the same for both kinds.
fn node(args: &NodeArgs) -> anyhow::Result<Value> {
    let namespace = &args.namespace;
    if namespace.is_empty() || args.service.as_ref().is_some_and(String::is_empty) {
        return Err(Usage("an empty name is none: --namespace and --service".to_owned()).into());
    }
    let mut metadata = Map::new();
    metadata.insert("namespace".to_owned(), json!(namespace));
    if let Some(service) = &args.service {
        metadata.insert("service".to_owned(), json!(service));
    }
    for label in &args.labels {
        let pair = label.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, value) = pair.ok_or_else(|| Usage(format!("{label:?} is not KEY=VALUE")))?;
        if key == TOKEN_KEY {
            return Err(Usage(format!("{key} is no label: --token-file names a file with the token")).into());
        }
        if metadata.insert(key.to_owned(), json!(value)).is_some() {
            return Err(Usage(format!("{key} is given twice: namespace and service have flags of their own")).into());
        }
    }
    let cluster = match &args.service {
        Some(service) => format!("{}/{service}", namespace.replace('/', "%2F")),
        None => namespace.clone(),
    };
    let id = args.node_id.clone().unwrap_or_else(|| own_id(args.service.as_ref().unwrap_or(namespace)));
    let mut node = json!({ "id": id, "cluster": cluster, "metadata": metadata });
    if let Some(locality) = &args.locality {
        node["locality"] = place(locality)?;
    }
    Ok(node)
}

fn own_id(of: &str) -> String {
    let system = rustix::system::uname();
    format!("{of}-{}", system.nodename().to_string_lossy())
}

fn place(text: &str) -> Result<Value, Usage> {
    let parts: Vec<_> = text.split('/').collect();
    if parts.len() > 3 || parts.iter().any(|part| part.is_empty()) {
        return Err(Usage(format!("{text:?} is not REGION, REGION/ZONE or REGION/ZONE/CAMPUS")));
    }
    let named = ["region", "zone", "sub_zone"].into_iter().zip(parts);
    Ok(named.map(|(key, part)| (key.to_owned(), json!(part))).collect::<Map<_, _>>().into())
}

#[cfg(test)]
mod tests;
