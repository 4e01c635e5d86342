use std::collections::BTreeMap;

use super::*;
use crate::model::time::Timestamp;

#[test]
fn an_instance_is_read_as_it_is_said() {
    let bare = v1::Instance {
        id: Some(String::new()),
        service: Some("pay".into()),
        host: Some("10.0.0.1".into()),
        port: Some(80),
        service_token: Some(String::new()),
        ..v1::Instance::default()
    };
    let registered = draft(&bare).registered();
    assert_eq!(registered.namespace, DEFAULT_NAMESPACE);
    let facts = (registered.healthy, registered.weight, registered.isolate, registered.heartbeat_ttl);
    assert_eq!(facts, (true, 100, false, None));
    assert_eq!(draft(&bare).isolate, None, "that of an operator stays");
    let heartbeat = Some(v1::HeartbeatHealthCheck { ttl: Some(7) });
    let said = v1::Instance {
        namespace: Some("shop".into()),
        healthy: Some(false),
        weight: Some(0),
        isolate: Some(true),
        health_check: Some(v1::HealthCheck { r#type: 1, heartbeat }),
        metadata: [("a".to_owned(), "b".to_owned())].into(),
        location: Some(v1::Location { region: Some("r".into()), zone: Some("z".into()), campus: None }),
        protocol: Some("grpc".into()),
        version: Some("1".into()),
        priority: Some(2),
        logic_set: Some("l".into()),
        vpc_id: Some(String::new()),
        ..bare.clone()
    };
    let read = draft(&said).registered();
    assert_eq!((read.healthy, read.weight, read.isolate, read.heartbeat_ttl), (false, 0, true, Some(7)));
    assert_eq!((read.protocol.as_str(), read.version.as_str(), read.priority), ("grpc", "1", 2));
    assert_eq!((read.location.region.as_str(), read.location.zone.as_str(), read.logic_set.as_str()), ("r", "z", "l"));
    assert_eq!(read.metadata["a"], "b");
    for ttl in [0, 61] {
        let heartbeat = Some(v1::HeartbeatHealthCheck { ttl: Some(ttl) });
        let check = Some(v1::HealthCheck { r#type: 1, heartbeat });
        let unusual = v1::Instance { health_check: check, ..bare.clone() };
        assert_eq!(draft(&unusual).registered().heartbeat_ttl, Some(5), "{ttl}");
    }
    let off = v1::Instance { enable_health_check: Some(false), ..said };
    assert_eq!(draft(&off).registered().heartbeat_ttl, None);
    assert_eq!(named(&bare, "i".into()).id.as_deref(), Some("i"));
}

#[test]
fn an_instance_comes_back_whole() {
    let stored = Instance {
        id: "i".into(),
        namespace: "shop".into(),
        service: "pay".into(),
        host: "h".into(),
        port: 9,
        weight: 0,
        heartbeat_ttl: Some(3),
        healthy: false,
        isolate: true,
        metadata: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        ctime: Timestamp(1000),
        revision: "v".into(),
        ..Instance::default()
    };
    let sent = instance(&stored);
    assert_eq!((sent.weight, sent.healthy, sent.isolate), (Some(0), Some(false), Some(true)), "present, not absent");
    assert_eq!(sent.location, Some(location(&Location::default())));
    assert_eq!((sent.enable_health_check, sent.ctime.as_deref()), (Some(true), Some("1970-01-01 00:00:01")));
    assert_eq!(sent.health_check.and_then(|check| check.heartbeat).and_then(|heartbeat| heartbeat.ttl), Some(3));
    let back = draft(&instance(&stored)).registered();
    assert_eq!(Instance { ctime: Timestamp(1000), revision: "v".into(), ..back }, stored);
    let unchecked = instance(&Instance::default());
    assert_eq!((unchecked.enable_health_check, unchecked.health_check), (Some(false), None));
}

#[test]
fn a_service_is_sent_without_its_token() {
    let stored = Service {
        name: "pay".into(),
        namespace: "shop".into(),
        business: "b".into(),
        token: "secret".into(),
        revision: "v".into(),
        metadata: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        ..Service::default()
    };
    let sent = service(&stored);
    assert_eq!((sent.token, sent.business.as_deref(), sent.revision.as_deref()), (None, Some("b"), Some("v")));
    assert_eq!((sent.name.as_deref(), sent.namespace.as_deref(), sent.metadata.len()), (Some("pay"), Some("shop"), 1));
}
