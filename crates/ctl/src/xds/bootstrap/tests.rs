//! Bootstraps of both kinds.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    node: NodeArgs,
}

fn args(words: &str) -> NodeArgs {
    let words = ["x"].into_iter().chain(words.split_whitespace());
    Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).node
}

#[derive(Parser)]
struct FormLine {
    #[command(flatten)]
    form: grpc::Form,
}

fn form(words: &str) -> grpc::Form {
    let words = ["x"].into_iter().chain(words.split_whitespace());
    FormLine::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).form
}

/// Returns the bootstrap of a gRPC client without a token.
fn made(line: &str, words: &str) -> anyhow::Result<Bootstrap> {
    grpc::bootstrap(&args(line), &form(words), None)
}

fn refusal<T>(result: Result<T, impl Into<anyhow::Error>>) -> String {
    match result {
        Ok(_) => panic!("it is taken"),
        Err(error) => error.into().to_string(),
    }
}

#[test]
fn addresses_are_hosts_with_ports() {
    for (text, written) in [
        ("10.0.0.1:8091", "10.0.0.1:8091"),
        (" n-1.shop:8091", "n-1.shop:8091"),
        ("[::1]:8091", "[::1]:8091"),
        ("[2001:DB8::1]:1", "[2001:db8::1]:1"),
    ] {
        assert_eq!(text.parse::<ServerAddress>().map(|server| server.to_string()), Ok(written.to_owned()), "{text}");
    }
    for text in ["", "n1", ":8091", "n1:", "n1:0", "n1:65536", "::1:8091", "[::1:8091", "[n1]:8091", "http://n1:8091"] {
        assert!(text.parse::<ServerAddress>().is_err(), "{text}");
    }
}

#[test]
fn all_libraries_take_one_address_and_core_takes_several() {
    let uri = |servers: &str, form: &str| {
        let made = made(&format!("--server {servers} -n shop"), form);
        made.map(|made| made.content["xds_servers"][0]["server_uri"].as_str().unwrap_or_default().to_owned())
    };
    for form in ["", "--for core", "--for go", "--for java", "--for node"] {
        for one in ["10.0.0.1:8091", "[::1]:8091", "thuban.shop:8091"] {
            assert_eq!(uri(one, form).ok().as_deref(), Some(one), "{form}");
        }
        let several = uri("10.0.0.1:8091,10.0.0.2:8092", form);
        match form {
            "--for core" => assert_eq!(several.ok().as_deref(), Some("ipv4:10.0.0.1:8091,10.0.0.2:8092")),
            _ => {
                let refused = several.expect_err("it takes one");
                assert!(refused.to_string().contains("balancer"), "{form}: {refused}");
                assert!(refused.is::<Usage>(), "exit code 2");
            }
        }
    }
    assert_eq!(uri("[::1]:8091,[::2]:8091", "--for core").ok().as_deref(), Some("ipv6:[::1]:8091,[::2]:8091"));
    for mixed in ["n1:8091,n2:8091", "10.0.0.1:8091,n2:8091", "10.0.0.1:8091,[::1]:8091"] {
        assert!(refusal(uri(mixed, "--for core")).contains("by address"), "{mixed}");
    }
}

#[test]
fn the_bootstrap_of_grpc_says_who_the_client_is() {
    let line = "--server 127.0.0.1:8091 -n a/b --service cart --label version=1.4=x --node-id n7 --locality eu/eu-1";
    let made = made(line, "").expect("made");
    let node = json!({
        "id": "n7",
        "cluster": "a%2Fb/cart",
        "metadata": { "namespace": "a/b", "service": "cart", "version": "1.4=x" },
        "locality": { "region": "eu", "zone": "eu-1" },
    });
    let server = json!({
        "server_uri": "127.0.0.1:8091",
        "channel_creds": [{ "type": "insecure" }],
        "server_features": ["xds_v3"],
    });
    let servers = "server/%s";
    let expected = json!({ "xds_servers": [server], "node": node, "server_listener_resource_name_template": servers });
    assert_eq!(made.content, expected);
    assert!(made.notes.is_empty());
}

#[test]
fn every_bootstrap_of_grpc_has_a_locality() {
    let made = made("--server 127.0.0.1:8091 -n shop", "").expect("made");
    assert_eq!(made.content["node"]["locality"], json!({}));
}

#[test]
fn a_token_is_metadata_of_the_node() {
    let made = grpc::bootstrap(&args("--server n1:8091 -n shop"), &form(""), Some("t0k")).expect("made");
    assert_eq!(made.content["node"]["metadata"], json!({ "namespace": "shop", "thuban_token": "t0k" }));
}

#[test]
fn targets_may_have_a_default_namespace() {
    for (namespace, template) in [("shop", "shop/%s"), ("a/b", "a%2Fb/%s")] {
        let made = made("--server n1:8091 -n x", &format!("--default-namespace {namespace}")).expect("made");
        assert_eq!(made.content["client_default_listener_resource_name_template"], json!(template));
        assert!(made.notes.iter().any(|note| note.contains("FEDERATION")), "{:?}", made.notes);
    }
    let of_java = made("--server n1:8091 -n x", "--default-namespace shop --for java").expect("made");
    assert!(of_java.notes.is_empty(), "{:?}", of_java.notes);
}

#[test]
fn libraries_that_refuse_tls_are_named() {
    let secure = "--server thuban.shop:8091 -n shop --ca-file ca.pem --cert-file c.pem --key-file k.pem";
    let config = json!({ "ca_certificate_file": "ca.pem", "certificate_file": "c.pem", "private_key_file": "k.pem" });
    for (form, named) in [
        ("", &["Java", "Go", "Node"][..]),
        ("--for core", &[]),
        ("--for go", &["Go"]),
        ("--for java", &["Java"]),
        ("--for node", &["Node"]),
    ] {
        let made = made(secure, form).expect("made");
        let creds = &made.content["xds_servers"][0]["channel_creds"];
        assert_eq!(*creds, json!([{ "type": "tls", "config": config }]));
        for name in ["Java", "Go", "Node"] {
            let is_named = made.notes.iter().any(|note| note.contains(name));
            assert_eq!(is_named, named.contains(&name), "{form} {name}: {:?}", made.notes);
        }
    }
}

#[test]
fn envoy_finds_all_nodes_in_one_cluster() {
    let made =
        envoy::bootstrap(&args("--server 10.0.0.1:8091,10.0.0.2:8091 -n shop"), None, 9901).expect("made").content;
    assert_eq!(made["node"]["cluster"], "shop");
    assert_eq!(made["node"]["metadata"], json!({ "namespace": "shop", "re2": "large" }));
    assert!(made["node"]["id"].as_str().is_some_and(|id| id.starts_with("shop-")));
    let cluster = &made["static_resources"]["clusters"][0];
    assert_eq!((&cluster["type"], &cluster["transport_socket"]), (&json!("STATIC"), &Value::Null));
    let endpoints = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"].as_array().expect("endpoints");
    let ports: Vec<_> = endpoints.iter().map(|one| one["endpoint"]["address"]["socket_address"].clone()).collect();
    let address = |host: &str| json!({ "address": host, "port_value": 8091 });
    assert_eq!(ports, [address("10.0.0.1"), address("10.0.0.2")]);
    let ads = &made["dynamic_resources"]["ads_config"];
    assert_eq!((&ads["api_type"], &ads["set_node_on_first_message_only"]), (&json!("DELTA_GRPC"), &json!(true)));
    assert_eq!(ads["grpc_services"], json!([{ "envoy_grpc": { "cluster_name": "thuban" } }]));
}

#[test]
fn envoy_shows_a_token_and_checks_names() {
    let line = "--server n1:8091,n1:8092,10.0.0.2:8091 -n shop --service cart --ca-file ca.pem";
    let made = envoy::bootstrap(&args(line), Some("t0k"), 9902).expect("made").content;
    let service = &made["dynamic_resources"]["ads_config"]["grpc_services"][0];
    assert_eq!(service["initial_metadata"], json!([{ "key": "authorization", "value": "Bearer t0k" }]));
    assert_eq!(made["admin"]["address"]["socket_address"]["port_value"], 9902);
    let cluster = &made["static_resources"]["clusters"][0];
    assert_eq!(cluster["type"], "STRICT_DNS");
    let typed = &cluster["transport_socket"]["typed_config"];
    assert_eq!(typed["sni"], "n1");
    let subjects = &typed["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"];
    let names: Vec<_> = subjects.as_array().into_iter().flatten().map(|one| one["matcher"]["exact"].clone()).collect();
    assert_eq!(names, ["n1", "10.0.0.2"], "each name once");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (more, word) in [
        ("--label version", "KEY=VALUE"),
        ("--label =x", "KEY=VALUE"),
        ("--label a=1 --label a=2", "twice"),
        ("--label namespace=x", "twice"),
        ("--label thuban_token=x", "--token-file"),
        ("--locality a/b/c/d", "REGION"),
        ("--locality a//c", "REGION"),
    ] {
        let refused = refusal(node(&args(&format!("--server n1:8091 -n shop {more}"))));
        assert!(refused.contains(word), "{more}: {refused}");
    }
    assert!(Line::try_parse_from(["x", "--server", "n1:8091"]).is_err(), "a namespace is needed");
    assert!(Line::try_parse_from(["x", "--server", "n1:8091", "-n", "a", "--cert-file", "c"]).is_err());
}

#[test]
fn members_announce_where_grpc_is_found() {
    let of = |rows: Value, has_authorities: bool| match announced(&rows, has_authorities) {
        Ok(servers) => Ok(servers.iter().map(ServerAddress::to_string).collect::<Vec<_>>()),
        Err(Usage(why)) => Err(why),
    };
    let rows = json!([{ "id": 1, "grpc": "n1:8091" }, { "id": 2, "grpc": "" }, { "id": 3, "grpc": "[::1]:8093" }]);
    assert_eq!(of(rows, false), Ok(vec!["n1:8091".to_owned(), "[::1]:8093".to_owned()]), "one of them has it off");
    let secure = json!([{ "id": 1, "grpc": "https://n1:8091" }]);
    assert_eq!(of(secure.clone(), true), Ok(vec!["n1:8091".to_owned()]));
    for (rows, word) in [
        (secure, "--ca-file"),
        (json!([{ "id": 7, "grpc": "0.0.0.0:8091" }]), "node 7 announces 0.0.0.0:8091"),
        (json!([{ "id": 1, "grpc": "[::]:8091" }]), "--advertise-grpc"),
        (json!([{ "id": 1 }]), "give --server"),
        (Value::Null, "give --server"),
    ] {
        let refused = of(rows.clone(), false).expect_err("it is no use");
        assert!(refused.contains(word), "{rows}: {refused}");
    }
}
