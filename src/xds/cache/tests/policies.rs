//! Limits, circuit breakers and health checks in the resources of clients.

use super::*;
use crate::xds::names::ServiceName;
use crate::xds::names::inbound;

fn beside() -> Client {
    let own = Some(ServiceKey { namespace: "shop".into(), service: "pay".into() });
    let ports = [("inbound_port", "15006"), ("application_port", "8080")];
    Client { caller: own, ..client(Dialect::Envoy, &ports) }
}

#[test]
fn limits_are_of_the_proxy_beside_the_service() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("shop", "cart")]);
    let limit = json!({"callee": {"namespace": "shop", "service": "pay"}, "type": "LOCAL",
        "rules": [{"resource": "QPS", "amounts": [{"maxAmount": 5, "validDuration": "1s"}]}]});
    let name = inbound(&ServiceName::new("shop", "pay"));
    let before = stage.get(&beside(), ResourceType::Route, &name).expect("there");
    stage.save(Family::RateLimit, "limit", limit);
    stage.publish(Family::RateLimit, "limit", "r1", None);
    let routes: RouteConfiguration = stage.decoded(&beside(), ResourceType::Route, &name);
    assert_eq!(routes.virtual_hosts[0].typed_per_filter_config.len(), 1);
    let after = stage.get(&beside(), ResourceType::Route, &name).expect("there");
    assert!(after.differs(&before) && after.releases.len() == 1);
    // Frequent changes do not refill the buckets.
    stage.instances(Op::Create, "shop", "cart", json!([{"host": "10.0.0.1"}]));
    assert!(Arc::ptr_eq(&stage.get(&beside(), ResourceType::Route, &name).expect("there"), &after));
    let cluster: Cluster = stage.decoded(&beside(), ResourceType::Cluster, &name);
    assert_eq!(cluster.circuit_breakers.expect("as it is").thresholds.len(), 1);
}

#[test]
fn breakers_and_probes_are_of_clusters() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay"), ("shop", "web")]);
    stage.instances(Op::Create, "shop", "pay", json!([{"host": "10.0.0.1"}]));
    let breaker = json!({"level": "INSTANCE", "rule_matcher": {
            "source": {"namespace": "shop", "service": "web"}, "destination": {"namespace": "shop", "service": "pay"}},
        "error_conditions": [{"input_type": "RET_CODE", "condition": {"type": "EXACT", "value": "500"}}],
        "trigger_condition": [{"trigger_type": "ERROR_RATE", "error_percent": 50, "interval": 10,
            "minimum_request": 5}]});
    stage.save(Family::CircuitBreaker, "breaker", breaker);
    stage.publish(Family::CircuitBreaker, "breaker", "r1", None);
    let probe = json!({"target_service": {"namespace": "shop", "service": "pay"}, "interval": 5, "timeout": 1,
        "protocol": "TCP", "port": 9000, "tcp_config": {"send": "ping", "receive": ["pong"]}});
    stage.save(Family::FaultDetect, "probe", probe);
    stage.publish(Family::FaultDetect, "probe", "r1", None);
    let web = Client { caller: Some(ServiceKey { namespace: "shop".into(), service: "web".into() }), ..envoy() };
    let cluster = |client: &Client, name: &str| stage.decoded::<Cluster>(client, ResourceType::Cluster, name);
    let of_web = cluster(&web, "shop/pay");
    let of_others = cluster(&envoy(), "shop/pay");
    assert!(of_others.outlier_detection.is_none() && cluster(&web, "shop/web").outlier_detection.is_none());
    assert_eq!((of_web.health_checks.len(), of_others.health_checks.len()), (1, 1));
    assert!(cluster(&grpc(), "shop/pay").health_checks.is_empty());
    let releases = stage.get(&web, ResourceType::Cluster, "shop/pay").expect("there").releases.len();
    assert_eq!(releases, 2);
    let endpoints: ClusterLoadAssignment = stage.decoded(&envoy(), ResourceType::Endpoints, "shop/pay");
    let Some(HostIdentifier::Endpoint(endpoint)) = endpoints.endpoints[0].lb_endpoints[0].host_identifier.clone()
    else {
        panic!("an endpoint")
    };
    assert_eq!(endpoint.health_check_config.map(|config| config.port_value), Some(9000));
}
