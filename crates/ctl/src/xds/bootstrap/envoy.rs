//! Envoy's bootstrap.

use std::path::Path;

use serde_json::{Value, json};

use super::{Bootstrap, Host, NodeArgs, ServerAddress, Usage, file_name, node};

/// Name of the Thuban cluster in Envoy's bootstrap.
const CLUSTER: &str = "thuban";
/// Maximum size of a compiled expression in Envoy; its default, 100, refuses a list of two dozen words.
const EXPRESSION_SIZE_MAX: u32 = 10_000;
/// Node metadata that reports this limit to the server.
const LARGE_EXPRESSIONS: (&str, &str) = ("re2", "large");
const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const TLS_CONTEXT: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";

pub(super) fn bootstrap(args: &NodeArgs, token: Option<&str>, admin_port: u16) -> anyhow::Result<Bootstrap> {
    let mut node = node(args)?;
    if node["metadata"][LARGE_EXPRESSIONS.0].is_null() {
        node["metadata"][LARGE_EXPRESSIONS.0] = json!(LARGE_EXPRESSIONS.1);
    }
    let mut service = json!({ "envoy_grpc": { "cluster_name": CLUSTER } });
    if let Some(token) = token {
        service["initial_metadata"] = json!([{ "key": "authorization", "value": format!("Bearer {token}") }]);
    }
    let by_ads = json!({ "ads": {}, "resource_api_version": "V3" });
    let content = json!({
        "node": node,
        "admin": { "address": { "socket_address": { "address": "127.0.0.1", "port_value": admin_port } } },
        "layered_runtime": { "layers": [{
            "name": CLUSTER,
            "static_layer": { "re2.max_program_size.error_level": EXPRESSION_SIZE_MAX },
        }] },
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [service],
            },
            "cds_config": by_ads,
            "lds_config": by_ads,
        },
        "static_resources": { "clusters": [own_cluster(args)?] },
    });
    Ok(Bootstrap { content, notes: Vec::new() })
}

/// Returns the cluster of all nodes: when one fails, Envoy switches to the next at once.
fn own_cluster(args: &NodeArgs) -> Result<Value, Usage> {
    let is_named = args.server.iter().any(|server| matches!(server.host, Host::Name(_)));
    let endpoint = |server: &ServerAddress| {
        let address = match &server.host {
            Host::Ip(address) => address.to_string(),
            Host::Name(name) => name.clone(),
        };
        let address = json!({ "socket_address": { "address": address, "port_value": server.port } });
        json!({ "endpoint": { "address": address } })
    };
    let endpoints: Vec<_> = args.server.iter().map(endpoint).collect();
    let keepalive = json!({ "connection_keepalive": { "interval": "30s", "timeout": "5s" } });
    let mut cluster = json!({
        "name": CLUSTER,
        "type": if is_named { "STRICT_DNS" } else { "STATIC" },
        "connect_timeout": "1s",
        "typed_extension_protocol_options": { HTTP_OPTIONS: {
            "@type": format!("type.googleapis.com/{HTTP_OPTIONS}"),
            "explicit_http_config": { "http2_protocol_options": keepalive },
        } },
        "load_assignment": { "cluster_name": CLUSTER, "endpoints": [{ "lb_endpoints": endpoints }] },
    });
    if let Some(ca_file) = &args.ca_file {
        cluster["transport_socket"] = tls(args, ca_file)?;
    }
    Ok(cluster)
}

/// Returns the TLS settings for nodes: the certificate must have one of their names.
fn tls(args: &NodeArgs, ca_file: &Path) -> Result<Value, Usage> {
    let subject = |server: &ServerAddress| match &server.host {
        Host::Ip(address) => json!({ "san_type": "IP_ADDRESS", "matcher": { "exact": address.to_string() } }),
        Host::Name(name) => json!({ "san_type": "DNS", "matcher": { "exact": name } }),
    };
    let mut subjects: Vec<Value> = Vec::new();
    for subject in args.server.iter().map(subject) {
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    let mut context = json!({
        "alpn_protocols": ["h2"],
        "validation_context": {
            "trusted_ca": { "filename": file_name(ca_file)? },
            "match_typed_subject_alt_names": subjects,
        },
    });
    if let (Some(cert), Some(key)) = (&args.cert_file, &args.key_file) {
        let (chain, key) = (json!({ "filename": file_name(cert)? }), json!({ "filename": file_name(key)? }));
        context["tls_certificates"] = json!([{ "certificate_chain": chain, "private_key": key }]);
    }
    let mut typed = json!({ "@type": TLS_CONTEXT, "common_tls_context": context });
    let first_name = args.server.iter().find_map(|server| match &server.host {
        Host::Name(name) => Some(name),
        Host::Ip(_) => None,
    });
    if let Some(name) = first_name {
        typed["sni"] = json!(name);
    }
    Ok(json!({ "name": "envoy.transport_sockets.tls", "typed_config": typed }))
}
