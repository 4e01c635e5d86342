//! Listeners: of a service for gRPC clients, of a gRPC server, and the two of a proxy.

use super::{Draft, UnitKey, inbound};
use crate::model::mesh::resource::ResourceType;
use crate::proto::Any;
use crate::proto::envoy::config::core::v3 as core;
use crate::proto::envoy::config::listener::v3 as listener;
use crate::proto::envoy::config::route::v3 as route;
use crate::proto::envoy::extensions::filters::http::router::v3::Router;
use crate::proto::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use crate::xds::names::{INBOUND, OUTBOUND};
use crate::xds::resources::BuildContext;

const ROUTER: &str = "envoy.filters.http.router";
const CONNECTION_MANAGER: &str = "envoy.filters.network.http_connection_manager";
const LOOPBACK: &str = "127.0.0.1";
const EVERY_ADDRESS: &str = "0.0.0.0";

/// Builds the listener of a service or alias for gRPC clients. It refers to the routes of the service.
pub(super) fn of_service(ctx: &mut BuildContext<'_>, key: &UnitKey) -> Vec<Draft> {
    let Some(service) = ctx.resolve(&key.name) else { return Vec::new() };
    let routes = ctx.name(ResourceType::Route, &service.to_string());
    let manager = hcm::HttpConnectionManager {
        route_specifier: Some(routes_named(routes)),
        http_filters: vec![router()],
        ..Default::default()
    };
    let name = ctx.name(ResourceType::Listener, &key.name.to_string());
    let api_listener = Some(listener::ApiListener { api_listener: Some(Any::pack(&manager)) });
    let message = listener::Listener { name: name.clone(), api_listener, ..Default::default() };
    vec![Draft::of(ResourceType::Listener, &name, &message)]
}

/// Returns the listener through which a proxy's service calls others.
pub(crate) fn outbound_listener(port: u16, is_gateway: bool) -> Draft {
    let address = if is_gateway { EVERY_ADDRESS } else { LOOPBACK };
    proxy_listener(OUTBOUND, address, port, OUTBOUND.to_owned(), vec![router()])
}

/// Returns the listener through which others call a proxy's service.
pub(crate) fn inbound_listener(port: u16, routes: String) -> Draft {
    proxy_listener(INBOUND, EVERY_ADDRESS, port, routes, vec![inbound::inbound_filter(), router()])
}

/// Returns the listener of a gRPC server, requested by its address. The server serves at once, without limits.
pub(crate) fn server_listener(name: &str, address: &str, port: u16) -> Draft {
    let action = Some(route::route::Action::NonForwardingAction(route::NonForwardingAction {}));
    let path_specifier = Some(route::route_match::PathSpecifier::Prefix(String::new()));
    let r#match = Some(route::RouteMatch { path_specifier, ..Default::default() });
    let host = route::VirtualHost {
        name: name.to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![route::Route { r#match, action, ..Default::default() }],
        ..Default::default()
    };
    let routes = route::RouteConfiguration { name: name.to_owned(), virtual_hosts: vec![host] };
    let specifier = hcm::http_connection_manager::RouteSpecifier::RouteConfig(routes);
    listening(name, (address, port), "", specifier, vec![router()])
}

fn proxy_listener(name: &str, address: &str, port: u16, routes: String, filters: Vec<hcm::HttpFilter>) -> Draft {
    listening(name, (address, port), name, routes_named(routes), filters)
}

fn listening(
    name: &str,
    (address, port): (&str, u16),
    stat_prefix: &str,
    routes: hcm::http_connection_manager::RouteSpecifier,
    http_filters: Vec<hcm::HttpFilter>,
) -> Draft {
    let manager = hcm::HttpConnectionManager {
        stat_prefix: stat_prefix.to_owned(),
        route_specifier: Some(routes),
        http_filters,
        ..Default::default()
    };
    let filter = listener::Filter {
        name: CONNECTION_MANAGER.to_owned(),
        config_type: Some(listener::filter::ConfigType::TypedConfig(Any::pack(&manager))),
    };
    let message = listener::Listener {
        name: name.to_owned(),
        address: Some(address_of(address, port)),
        filter_chains: vec![listener::FilterChain { filters: vec![filter] }],
        ..Default::default()
    };
    Draft::of(ResourceType::Listener, name, &message)
}

fn router() -> hcm::HttpFilter {
    let config_type = Some(hcm::http_filter::ConfigType::TypedConfig(Any::pack(&Router {})));
    hcm::HttpFilter { name: ROUTER.to_owned(), config_type, is_optional: false }
}

fn routes_named(name: String) -> hcm::http_connection_manager::RouteSpecifier {
    let rds = hcm::Rds { config_source: Some(over_the_stream()), route_config_name: name };
    hcm::http_connection_manager::RouteSpecifier::Rds(rds)
}

/// Returns the source of resources that another resource names: the same stream.
pub(super) fn over_the_stream() -> core::ConfigSource {
    core::ConfigSource {
        resource_api_version: core::ApiVersion::V3.into(),
        config_source_specifier: Some(core::config_source::ConfigSourceSpecifier::Ads(core::AggregatedConfigSource {})),
    }
}

pub(super) fn address_of(address: &str, port: u16) -> core::Address {
    let port_specifier = Some(core::socket_address::PortSpecifier::PortValue(port.into()));
    let socket = core::SocketAddress { address: address.to_owned(), port_specifier };
    core::Address { address: Some(core::address::Address::SocketAddress(socket)) }
}
