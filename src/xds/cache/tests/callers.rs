//! Conditions on the caller in the routes of a gateway.

use super::*;

/// Returns the headers that the routes of `shop/pay` match, one list per route.
fn compared(stage: &Stage, client: &Client) -> Vec<Vec<String>> {
    let routes: RouteConfiguration = stage.decoded(client, ResourceType::Route, "outbound/shop");
    let routes = routes.virtual_hosts.into_iter().flat_map(|host| host.routes);
    let matches = routes.filter_map(|route| route.r#match);
    matches.map(|one| one.headers.into_iter().map(|header| header.name).collect()).collect()
}

#[test]
fn a_gateway_compares_the_header_that_it_names() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let of = |kind: &str, key: &str| json!([{"type": kind, "key": key, "value": {"value": "web"}}]);
    let to = json!([{"service": "pay", "namespace": "shop"}]);
    let rule = |arguments| json!({"arguments": {"arguments": arguments}, "destinations": to.clone()});
    stage.route("by-caller", json!([rule(of("CALLER_SERVICE", "shop")), rule(of("CALLER_METADATA", "env"))]));
    let gateway = |labels: &[(&str, &str)]| client(Dialect::Envoy, &[&[("role", "gateway")], labels].concat());
    let nothing: Vec<Vec<String>> = vec![Vec::new()];
    assert_eq!(compared(&stage, &gateway(&[])), nothing, "the route to all instances alone");
    for not_a_name in ["", "a b", ":path"] {
        assert_eq!(compared(&stage, &gateway(&[("caller_service_header", not_a_name)])), nothing, "{not_a_name:?}");
    }
    let named = compared(&stage, &gateway(&[("caller_service_header", "X-Caller")]));
    assert_eq!(named, [vec!["x-caller".to_owned()], Vec::new()]);
    let other = compared(&stage, &gateway(&[("caller_service_header", "from")]));
    assert_eq!(other, [vec!["from".to_owned()], Vec::new()], "each by its own");
    let sidecar = client(Dialect::Envoy, &[("caller_service_header", "from")]);
    assert_eq!(compared(&stage, &sidecar), nothing, "a sidecar is its caller, and that is not web");
}
