//! Bootstrap of a gRPC client: one form that all libraries accept, and what single libraries need.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use thuban_model::mesh::{SERVER_LISTENERS, TOKEN_KEY};

use super::{Bootstrap, Host, NodeArgs, ServerAddress, Usage, file_name, node};

/// Library that a bootstrap is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum For {
    /// C++, Python, Ruby, PHP: accepts the addresses of several nodes
    Core,
    Go,
    Java,
    Node,
}

/// Options that depend on the client's library and targets.
#[derive(Args)]
pub(crate) struct Form {
    /// Library of the client, for settings that only one accepts [default: a file that all of them accept]
    #[arg(long = "for", value_name = "LIBRARY")]
    library: Option<For>,
    /// Namespace of targets without one: xds:///pay resolves to NAMESPACE/pay, and its certificate must be for pay
    #[arg(long, value_name = "NAMESPACE")]
    default_namespace: Option<String>,
}

const FEDERATION: &str = "--default-namespace: @grpc/grpc-js-xds before 1.14 needs \
                          GRPC_EXPERIMENTAL_XDS_FEDERATION=true in its environment";

pub(super) fn bootstrap(args: &NodeArgs, form: &Form, token: Option<&str>) -> anyhow::Result<Bootstrap> {
    let mut node = node(args)?;
    // Node refuses a file without a locality.
    if node["locality"].is_null() {
        node["locality"] = json!({});
    }
    if let Some(token) = token {
        node["metadata"][TOKEN_KEY] = json!(token);
    }
    let server = json!({
        "server_uri": server_uri(&args.server, form.library)?,
        "channel_creds": [channel(args)?],
        "server_features": ["xds_v3"],
    });
    let mut content = json!({
        "xds_servers": [server],
        "node": node,
        "server_listener_resource_name_template": format!("{SERVER_LISTENERS}%s"),
    });
    let mut notes: Vec<String> = args.ca_file.iter().flat_map(|_| notes_on_tls(form.library)).collect();
    if let Some(namespace) = &form.default_namespace {
        if namespace.is_empty() {
            return Err(Usage("an empty name is none: --default-namespace".to_owned()).into());
        }
        let template = format!("{}/%s", namespace.replace('/', "%2F"));
        content["client_default_listener_resource_name_template"] = json!(template);
        if matches!(form.library, None | Some(For::Node)) {
            notes.push(FEDERATION.to_owned());
        }
    }
    Ok(Bootstrap { content, notes })
}

fn channel(args: &NodeArgs) -> Result<Value, Usage> {
    let Some(ca_file) = &args.ca_file else { return Ok(json!({ "type": "insecure" })) };
    let mut config = json!({ "ca_certificate_file": file_name(ca_file)? });
    if let (Some(cert), Some(key)) = (&args.cert_file, &args.key_file) {
        config["certificate_file"] = file_name(cert)?.into();
        config["private_key_file"] = file_name(key)?.into();
    }
    Ok(json!({ "type": "tls", "config": config }))
}

/// Returns notes on libraries that reject or misread a file with TLS.
fn notes_on_tls(library: Option<For>) -> Vec<String> {
    let of = |one: For, text: &str| library.is_none_or(|library| library == one).then(|| text.to_owned());
    let java =
        "Java does not read --ca-file, --cert-file and --key-file: its own trust store has to know the authority";
    let go = "old Go (seen with 1.60) refuses a file with TLS whole";
    let node = "Node refuses a file with TLS whole: give it one without --ca-file, and a way to the nodes that is safe";
    [of(For::Java, java), of(For::Go, go), of(For::Node, node)].into_iter().flatten().collect()
}

/// Returns one address, which all libraries accept without a scheme; several for the only library that falls back to
/// the next. With several servers in the file, a client contacts the next one only while it has nothing from the first.
fn server_uri(servers: &[ServerAddress], library: Option<For>) -> Result<String, Usage> {
    if let [server] = servers {
        return Ok(server.to_string());
    }
    if library != Some(For::Core) {
        let what = "only gRPC in C++, Python, Ruby and PHP takes several nodes (--for core)";
        return Err(Usage(format!("{what}: name a balancer that leads to all of them, --server NAME:PORT")));
    }
    let is_v6 = |server: &ServerAddress| matches!(server.host, Host::Ip(IpAddr::V6(_)));
    let is_v4 = |server: &ServerAddress| matches!(server.host, Host::Ip(IpAddr::V4(_)));
    let scheme = match () {
        () if servers.iter().all(is_v4) => "ipv4",
        () if servers.iter().all(is_v6) => "ipv6",
        () => {
            let why =
                "gRPC takes several servers by address, all of IPv4 or all of IPv6, or one name that leads to all";
            return Err(Usage(why.to_owned()));
        }
    };
    let all: Vec<_> = servers.iter().map(ServerAddress::to_string).collect();
    Ok(format!("{scheme}:{}", all.join(",")))
}
