//! Labels of groups whose value is taken from the request.

use serde_json::Value;

use super::*;

fn lane() -> (Value, Value) {
    let argument = json!({"type": "HEADER", "key": "X-Lane", "value": {"value_type": "PARAMETER", "value": "lane"}});
    (argument, json!({"lane": {"value_type": "PARAMETER", "value": "lane"}}))
}

#[test]
fn a_label_takes_over_the_values_that_occur() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let with = |host: &str, lane: &str| json!({"host": host, "metadata": {"lane": lane}});
    stage.instances(Op::Create, "shop", "pay", json!([with("10.0.0.1", "a"), with("10.0.0.2", "b")]));
    let (argument, labels) = lane();
    let rule = json!([{"name": "r", "arguments": {"arguments": [argument]}, "destinations": [
        {"namespace": "shop", "service": "pay", "labels": labels}]}]);
    stage.route("pay", rule);
    for client in [grpc(), envoy()] {
        let bytes = match client.dialect {
            Dialect::Grpc => stage.get(&client, ResourceType::Route, "shop/pay"),
            Dialect::Envoy => stage.get(&client, ResourceType::Route, "outbound/shop"),
        };
        let routes = RouteConfiguration::decode(bytes.expect("there").bytes()).expect("a message");
        let shown: Vec<String> = routes.virtual_hosts[0].routes.iter().map(|route| format!("{route:?}")).collect();
        assert_eq!(shown.len(), 4, "{shown:#?}");
        assert!(shown[0].contains("x-lane") && shown[0].contains("Exact(\"a\")"), "{}", shown[0]);
        assert!(shown[1].contains("Exact(\"b\")") && shown[2].contains("shop/pay|"), "{}", shown[2]);
    }
    // The cluster for all other values has no instances, so calls to it fail with any client.
    let clusters = stage.all(&envoy(), ResourceType::Cluster);
    let clusters = names(&clusters);
    assert_eq!(clusters.len(), 4, "{clusters:?}");
    let endpoints = |name: &str| stage.decoded::<ClusterLoadAssignment>(&grpc(), ResourceType::Endpoints, name);
    let empty = clusters.iter().filter(|name| endpoints(name).endpoints.is_empty());
    assert_eq!(empty.count(), 1);
    // The value disappears, and its cluster remains for a while.
    stage.instances(Op::Delete, "shop", "pay", json!([{"host": "10.0.0.2"}]));
    assert_eq!(route_names(&stage, &grpc()).len(), 3);
    assert_eq!(names(&stage.all(&envoy(), ResourceType::Cluster)).len(), 4);
}

/// For a value that no instance has, groups with such a label are empty and the others of the sub-rule are unaffected.
#[test]
fn other_groups_take_what_no_label_takes_over() {
    let mut stage = Stage::new();
    stage.services(Op::Create, &[("shop", "pay")]);
    let instances =
        json!([{"host": "10.0.0.1", "metadata": {"lane": "a"}}, {"host": "10.0.0.2", "metadata": {"tier": "x"}}]);
    stage.instances(Op::Create, "shop", "pay", instances);
    let (argument, labels) = lane();
    let group = |labels: Value, more: Value| {
        let mut group = json!({"namespace": "shop", "service": "pay", "labels": labels});
        group.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        group
    };
    let of_tier = json!({"tier": {"type": "EXACT", "value": "x"}});
    let groups = json!([
        group(of_tier, json!({"priority": 0, "weight": 1})),
        group(labels, json!({"priority": 0, "weight": 2}))
    ]);
    stage.route("pay", json!([{"name": "r", "arguments": {"arguments": [argument]}, "destinations": groups}]));
    let routes: RouteConfiguration = stage.decoded(&grpc(), ResourceType::Route, "shop/pay");
    let texts: Vec<String> = routes.virtual_hosts[0].routes.iter().map(|route| format!("{route:?}")).collect();
    assert_eq!(texts.len(), 3, "{texts:#?}");
    assert!(texts[0].contains("Exact(\"a\")") && texts[0].contains("WeightedClusters"), "{}", texts[0]);
    // The remaining group gets both shares.
    let name = texts[1].split('"').find(|text| text.starts_with("shop/pay|")).expect("a cluster of labels");
    assert!(texts[1].contains(&format!("Cluster(\"{name}\")")), "{}", texts[1]);
    let endpoints: ClusterLoadAssignment = stage.decoded(&grpc(), ResourceType::Endpoints, name);
    assert!(
        endpoint_texts(&endpoints)[0].contains("10.0.0.2:") && endpoint_texts(&endpoints).len() == 1,
        "{:?}",
        endpoint_texts(&endpoints)
    );
}

/// gRPC clients refuse an assignment with a sum of weights above 32 bits, and Java ignores localities above 31 bits.
#[test]
fn sums_of_weights_fit_into_31_bits() {
    let rows = [
        json!([{"host": "10.0.0.1", "weight": u32::MAX}, {"host": "10.0.0.2", "weight": 100, "healthy": false}]),
        json!([{"host": "10.0.0.1", "weight": u32::MAX}, {"host": "10.0.0.2", "weight": u32::MAX},
            {"host": "10.0.0.3", "weight": 1}]),
        json!([{"host": "10.0.0.1", "weight": u32::MAX - 1}, {"host": "10.0.0.2", "weight": 1, "healthy": false},
            {"host": "10.0.0.3", "weight": 2, "healthy": false}, {"host": "10.0.0.4", "weight": 3}]),
    ];
    for instances in rows {
        let mut stage = Stage::new();
        stage.services(Op::Create, &[("shop", "pay")]);
        stage.instances(Op::Create, "shop", "pay", instances.clone());
        let assigned: ClusterLoadAssignment = stage.decoded(&grpc(), ResourceType::Endpoints, "shop/pay");
        let weight = |weight: &Option<u32>| u64::from(weight.expect("a weight"));
        let localities: u64 = assigned.endpoints.iter().map(|of| weight(&of.load_balancing_weight)).sum();
        assert!(localities <= 0x7fff_ffff, "{localities} of {instances}");
        for of in &assigned.endpoints {
            let weights = of.lb_endpoints.iter().map(|one| weight(&one.load_balancing_weight));
            assert!(weights.sum::<u64>() <= 0x7fff_ffff, "{instances}");
        }
        assert!(assigned.endpoints.iter().all(|of| of.load_balancing_weight > Some(0)));
    }
}
