//! Drafts of instances as tables.

use serde_json::{Value, json};

use super::*;

fn draft(json: Value) -> InstanceDraft {
    serde_json::from_value(json).expect("a draft")
}

fn with(more: Value) -> InstanceDraft {
    let mut whole = json!({"namespace": "n", "service": "s", "host": "10.0.0.1", "port": 80});
    whole.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    draft(whole)
}

#[test]
fn a_registration_is_checked_field_by_field() {
    let long = |chars: usize| "é".repeat(chars);
    let rows = [
        (json!({}), None),
        (json!({"port": "65535", "weight": "0", "priority": 9, "id": "my-id"}), None),
        (json!({"protocol": long(32), "version": long(32), "logic_set": long(128), "host": long(128)}), None),
        (json!({"namespace": ""}), Some(400110)),
        (json!({"service": "a b"}), Some(400120)),
        (json!({"id": "a b"}), Some(400130)),
        (json!({"host": ""}), Some(400131)),
        (json!({"host": long(129)}), Some(400131)),
        (json!({"host": "a b"}), Some(400131)),
        (json!({"port": null}), Some(400132)),
        (json!({"port": 65536}), Some(400132)),
        (json!({"protocol": long(33)}), Some(400136)),
        (json!({"version": long(33)}), Some(400137)),
        (json!({"logicSet": long(129)}), Some(400138)),
        (json!({"vpcId": long(129)}), Some(400103)),
        (json!({"location": {"zone": long(129)}}), Some(400103)),
        (json!({"metadata": {"": "v"}}), Some(400150)),
    ];
    for (more, code) in rows {
        let refusal = with(more.clone()).check_new().err();
        assert_eq!(refusal.map(|refusal| refusal.code.number()), code, "{more}");
    }
}

#[test]
fn an_instance_is_named_by_id_or_address() {
    assert_eq!(draft(json!({"id": "x"})).check_named(), Ok(()));
    assert_eq!(draft(json!({"id": "x"})).check_new().map_err(|refusal| refusal.code), Err(Code::InvalidNamespaceName));
    assert_eq!(draft(json!({"id": ""})).check_named().map_err(|refusal| refusal.code), Err(Code::InvalidNamespaceName));
    let isolate = draft(json!({"namespace": "n", "service": "s", "host": "h"}));
    assert_eq!(isolate.check_host(), Ok(()));
    assert_eq!(isolate.check_isolate_host().map_err(|refusal| refusal.code), Err(Code::InvalidInstanceIsolate));
    let instance = with(json!({})).registered();
    for (named, expected) in [
        (json!({"id": instance.id}), true),
        (json!({"id": instance.id, "port": 80, "vpc_id": ""}), true),
        (json!({"id": instance.id, "service": "t"}), false),
        (json!({"id": instance.id, "port": 81}), false),
    ] {
        assert_eq!(draft(named.clone()).names(&instance), expected, "{named}");
    }
}

/// Expected ids are computed by `printf 'n##s##10.0.0.1##80' | sha1sum`.
#[test]
fn ids_are_those_of_the_family() {
    let rows = [
        (json!({}), "16db9d232ebfcce9a118c6f3457cc6eee61b7464"),
        (json!({"vpc_id": "v"}), "a6bead110d8cf3f52357128339115cbb153a4aa7"),
        (json!({"id": "given"}), "given"),
    ];
    for (more, id) in rows {
        assert_eq!(with(more.clone()).instance_id(), id, "{more}");
    }
}

/// An id cannot be registered for another address than its own.
#[test]
fn an_id_of_40_hex_digits_is_that_of_the_address() {
    let of = |more: Value| with(more).check_new().map_err(|refusal| refusal.code);
    let (own, elsewhere) = (with(json!({})).instance_id(), with(json!({"service": "t"})).instance_id());
    assert_eq!(of(json!({ "id": own })), Ok(()));
    assert_eq!(of(json!({"id": own, "vpc_id": "v"})), Err(Code::InvalidInstanceId), "made with the vpc too");
    for taken in [elsewhere.clone(), elsewhere.to_uppercase(), own.to_uppercase(), "0".repeat(40)] {
        assert_eq!(of(json!({ "id": taken })), Err(Code::InvalidInstanceId), "{taken}");
    }
    for free in ["0".repeat(39), "0".repeat(41), "g".repeat(40)] {
        assert_eq!(of(json!({ "id": free })), Ok(()), "{free}");
    }
    // An existing instance with such an id can still be named by it.
    let named = draft(json!({ "id": elsewhere }));
    assert_eq!((named.check_named(), named.check_update()), (Ok(()), Ok(())));
}

#[test]
fn a_health_check_is_kept_where_it_is_on() {
    let beat = |ttl: Value| json!({"type": "HEARTBEAT", "heartbeat": {"ttl": ttl}});
    let rows = [
        (json!({}), None, None),
        (json!({"enableHealthCheck": true}), None, Some(5)),
        (json!({"enable_health_check": true, "health_check": {"type": 1}}), None, Some(5)),
        (json!({"healthCheck": beat(json!("7"))}), None, Some(7)),
        (json!({"enableHealthCheck": true, "healthCheck": beat(json!(60))}), None, Some(60)),
        (json!({"enableHealthCheck": true, "healthCheck": beat(json!(61))}), None, Some(5)),
        (json!({"enableHealthCheck": true, "healthCheck": beat(json!(0))}), Some(9), Some(5)),
        (json!({"enableHealthCheck": false, "healthCheck": beat(json!(7))}), Some(9), None),
        (json!({"enableHealthCheck": true}), Some(9), Some(9)),
        (json!({}), Some(9), Some(9)),
    ];
    for (more, old, expected) in rows {
        let mut instance = Instance { heartbeat_ttl: old, ..Instance::default() };
        with(more.clone()).lay_over(&mut instance);
        assert_eq!(instance.heartbeat_ttl, expected, "{more} over {old:?}");
    }
}

#[test]
fn the_seconds_to_a_removal_are_read_as_numbers_are() {
    let rows = [
        (json!(null), None),
        (json!(-1), Some(None)),
        (json!("-1"), Some(None)),
        (json!(0), Some(Some(0))),
        (json!("60"), Some(Some(60))),
    ];
    for (given, expected) in rows {
        let draft = with(json!({ "dead_removed_after_s": given }));
        assert_eq!(draft.dead_removed_after_s.map(RemovedAfter::said), expected, "{given}");
    }
    assert!(RemovedAfter::default().is_unsaid() && RemovedAfter::seconds(0).said() == Some(0));
}

#[test]
fn what_is_not_given_has_its_default() {
    let instance = with(json!({})).registered();
    assert_eq!((instance.weight, instance.priority, instance.healthy, instance.isolate), (100, 0, true, false));
    let instance = with(json!({"weight": 0, "healthy": false, "location": {"zone": "z"}})).registered();
    assert_eq!((instance.weight, instance.healthy, instance.location.zone.as_str()), (0, false, "z"));
}

#[test]
fn a_host_that_nobody_can_call_is_not_registered() {
    let check = |host: &str| {
        let draft = InstanceDraft {
            namespace: Some("n".into()),
            service: Some("s".into()),
            host: Some(host.into()),
            port: Some(Uint32(8080)),
            ..InstanceDraft::default()
        };
        assert!(draft.check_named().is_ok(), "{host} can be deleted");
        draft.check_new().map_err(|refusal| (refusal.code, refusal.detail))
    };
    for host in [
        "10.0.0.1:8080",
        "[2001:db8::1]:80",
        "[2001:db8::1]",
        "host_name:80",
        "http://10.0.0.1",
        "10.0.0.1/24",
        "10.0.0.1,10.0.0.2",
    ] {
        let (code, why) = check(host).expect_err(host);
        assert!(code == Code::InvalidInstanceHost && why.contains("host"), "{host}: {why}");
    }
    for host in ["2001:db8::7", "fe80::1%eth0", "10.0.0.1", "my-host", "my_host.example", "xn--bcher-kva.example"] {
        assert_eq!(check(host), Ok(()), "{host}");
    }
}
