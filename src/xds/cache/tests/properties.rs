//! Cached resources that follow changes equal newly built ones.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::catalog::Command;
use crate::xds::cache::testing::drafts;

const SERVICES: [(&str, &str); 4] = [("shop", "pay"), ("shop", "cart"), ("infra", "pay"), ("a/b", "c")];

/// A change, encoded in small numbers that select from a few subjects.
#[derive(Clone, Debug)]
enum Step {
    Service(Op, usize),
    Alias(Op, usize),
    Register { service: usize, host: u8, version: u8, is_healthy: bool },
    Deregister { service: usize, host: u8 },
    Route { rule: u8, version: u8, is_by_value: bool, zone: Option<u8> },
    Near(u8),
    StopGray(u8),
    Withdraw(u8),
    Look(u8),
}

fn some_step() -> impl Strategy<Value = Step> {
    let (service, host, version) = (0..SERVICES.len(), 0..4_u8, 0..3_u8);
    let op = prop_oneof![3 => Just(Op::Create), 1 => Just(Op::Delete)];
    prop_oneof![
        2 => (op.clone(), service.clone()).prop_map(|(op, service)| Step::Service(op, service)),
        1 => (op, service.clone()).prop_map(|(op, service)| Step::Alias(op, service)),
        4 => (service.clone(), host.clone(), version.clone(), any::<bool>()).prop_map(
            |(service, host, version, is_healthy)| Step::Register { service, host, version, is_healthy }),
        2 => (service, host).prop_map(|(service, host)| Step::Deregister { service, host }),
        3 => (0..2_u8, version, any::<bool>(), prop::option::of(0..2_u8)).prop_map(
            |(rule, version, is_by_value, zone)| Step::Route { rule, version, is_by_value, zone }),
        1 => (0..2_u8).prop_map(Step::Near),
        1 => (0..2_u8).prop_map(Step::StopGray),
        1 => (0..2_u8).prop_map(Step::Withdraw),
        3 => (0..4_u8).prop_map(Step::Look),
    ]
}

/// Applies a step. Refused commands change nothing.
fn apply(stage: &mut Stage, step: &Step) {
    let service = |at: usize| json!({"namespace": SERVICES[at].0, "name": SERVICES[at].1});
    let instance = |at: usize, host: u8| {
        json!({"namespace": SERVICES[at].0, "service": SERVICES[at].1,
        "host": format!("10.0.0.{host}"), "port": 80})
    };
    match step {
        Step::Service(op, at) => {
            stage.try_apply(Command::Services(*op, drafts(json!([service(*at)]))));
        }
        Step::Alias(op, at) => {
            let alias = json!({"namespace": SERVICES[*at].0, "service": SERVICES[*at].1, "alias_namespace": "web",
                "alias": format!("alias{at}")});
            stage.try_apply(Command::Aliases(*op, drafts(json!([alias]))));
        }
        Step::Register { service, host, version, is_healthy } => {
            let mut one = instance(*service, *host);
            one["metadata"] = json!({"version": version.to_string()});
            one["healthy"] = (*is_healthy).into();
            stage.try_apply(Command::Instances(Op::Create, drafts(json!([one]))));
        }
        Step::Deregister { service, host } => {
            stage.try_apply(Command::Instances(Op::Delete, drafts(json!([instance(*service, *host)]))));
        }
        Step::Route { rule, version, is_by_value, zone } => publish(stage, *rule, *version, *is_by_value, *zone),
        Step::Near(at) => {
            let nearby = json!({"route_policy": "NearbyPolicy", "routing_config": {
                "namespace": "shop", "service": if *at == 0 { "*" } else { "cart" }}});
            stage.try_save("near", nearby);
            stage.try_publish("near", None);
        }
        Step::StopGray(rule) => stage.try_release(ReleaseOp::StopGray, &format!("rule{rule}")),
        Step::Withdraw(rule) => stage.try_release(ReleaseOp::Withdraw, &format!("rule{rule}")),
        Step::Look(client) => drop(everything(stage, &clients()[usize::from(*client)])),
    }
}

fn publish(stage: &mut Stage, rule: u8, version: u8, is_by_value: bool, zone: Option<u8>) {
    let condition = match is_by_value {
        true => json!({"value_type": "PARAMETER", "value": "v"}),
        false => json!({"type": "EXACT", "value": version.to_string()}),
    };
    let argument = json!({"type": "HEADER", "key": "v", "value": {"value_type": "PARAMETER", "value": "v"}});
    let (namespace, service) = SERVICES[usize::from(rule) * 2];
    let group = json!({"namespace": namespace, "service": service, "labels": {"version": condition}});
    let callee = json!({"namespace": namespace, "service": service});
    let sub_rule = json!({"name": "r", "arguments": {"arguments": [argument]}, "destinations": [group]});
    let name = format!("rule{rule}");
    stage.try_save(&name, json!({"routing_config": {"callee": callee, "rules": [sub_rule]}}));
    stage.try_publish(&name, zone.map(|zone| format!("z{zone}")).as_deref());
}

fn clients() -> [Client; 4] {
    let of_shop = Client { namespaces: Some(["shop".to_owned(), "web".to_owned()].into()), ..envoy() };
    let at = Locality { region: "eu".into(), zone: "eu-1".into(), campus: String::new() };
    let in_zone = Client { locality: at, ..client(Dialect::Envoy, &[("zone", "z0")]) };
    [envoy(), of_shop, in_zone, client(Dialect::Grpc, &[("zone", "z1")])]
}

/// Returns all resources of a client.
fn everything(stage: &Stage, client: &Client) -> Vec<Resources> {
    ResourceType::ALL.into_iter().map(|kind| stage.all(client, kind)).collect()
}

/// Returns names and bytes, which do not depend on the requests before.
fn content(all: &[Resources]) -> Vec<(String, Vec<u8>)> {
    let pairs = all.iter().flat_map(|resources| resources.iter());
    pairs.map(|(name, resource)| (name.to_string(), resource.bytes().to_vec())).collect()
}

proptest! {
    #![proptest_config(crate::test_seed::cases(48))]

    #[test]
    fn what_is_kept_is_what_is_made_anew(steps in prop::collection::vec(some_step(), 1..40)) {
        let mut stage = Stage::new();
        for step in &steps {
            apply(&mut stage, step);
        }
        // Retired subsets are not a part of the state.
        stage.forget_retired();
        let anew = Stage::over(stage.bench.clone());
        for client in clients() {
            let (kept, made) = (everything(&stage, &client), everything(&anew, &client));
            prop_assert_eq!(content(&kept), content(&made), "{:?}", client);
        }
    }

    #[test]
    fn two_worlds_make_equal_bytes_of_equal_states(steps in prop::collection::vec(some_step(), 1..30)) {
        let (mut one, mut other) = (Stage::new(), Stage::new());
        for step in &steps {
            apply(&mut one, step);
            if !matches!(step, Step::Look(_)) {
                apply(&mut other, step);
            }
        }
        for client in clients() {
            let (left, right) = (everything(&one, &client), everything(&other, &client));
            prop_assert_eq!(content(&left), content(&right));
            for (left, right) in left.iter().zip(&right) {
                let versions = |all: &Resources| all.values().map(|one| one.version).collect::<Vec<_>>();
                prop_assert_eq!(versions(left), versions(right));
            }
        }
    }
}
