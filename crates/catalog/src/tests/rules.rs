//! Rules of all families and their releases, as tables.

use super::*;
use crate::catalog::rules::{ReleaseFilter, RuleFilter};
use crate::model::audience::ClientLabel;
use crate::model::release::ReleaseOp;
use crate::model::rule::circuit_breaker::{BreakerDestination, CircuitBreakerPatch, RuleMatcher};
use crate::model::rule::fault_detect::{DestinationService, FaultDetectPatch};
use crate::model::rule::matching::{MatchString, MatchType};
use crate::model::rule::rate_limit::RateLimitPatch;
use crate::model::rule::release::{RuleRelease, RuleReleaseDraft};
use crate::model::rule::routing::{RoutePolicy, RoutingConfig, RoutingPatch};
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{BodyPatch, Family, RuleDraft, RuleHead};
use crate::model::wire::Uint32;

/// Returns a rule of the family for the service `target`.
pub(super) fn rule(family: Family, name: &str) -> RuleDraft {
    rule_for(family, name, "target")
}

pub(super) fn rule_for(family: Family, name: &str, service: &str) -> RuleDraft {
    let key = ServiceKey { service: service.into(), namespace: "a".into() };
    let body = match family {
        Family::FaultDetect => {
            let target = DestinationService { service: service.into(), ..DestinationService::default() };
            BodyPatch::FaultDetect(FaultDetectPatch { target_service: Some(target), ..FaultDetectPatch::default() })
        }
        Family::RateLimit => BodyPatch::RateLimit(RateLimitPatch { callee: Some(key), ..RateLimitPatch::default() }),
        Family::Routing => BodyPatch::Routing(RoutingPatch {
            routing_config: Some(RoutingConfig { callee: Some(key), ..RoutingConfig::default() }),
            ..RoutingPatch::default()
        }),
        Family::CircuitBreaker => {
            let destination = BreakerDestination { service: key.service, namespace: key.namespace, method: None };
            let matcher = RuleMatcher { source: ServiceKey::default(), destination };
            let patch = CircuitBreakerPatch { rule_matcher: Some(matcher), ..CircuitBreakerPatch::default() };
            BodyPatch::CircuitBreaker(patch)
        }
    };
    let head = RuleHead { name: Some(name.into()), namespace: Some("a".into()), ..RuleHead::default() };
    RuleDraft { head, body }
}

pub(super) fn of_rule(rule_name: &str, release_name: &str) -> RuleReleaseDraft {
    RuleReleaseDraft {
        rule_name: Some(rule_name.into()),
        release_name: Some(release_name.into()),
        ..RuleReleaseDraft::default()
    }
}

pub(super) fn gray(rule_name: &str, release_name: &str, value: &str) -> RuleReleaseDraft {
    let value = MatchString { kind: MatchType::In, value: value.into(), ..MatchString::default() };
    let labels = vec![ClientLabel { key: "zone".into(), value }];
    RuleReleaseDraft {
        release_type: Some("gray".into()),
        client_labels: Some(labels),
        ..of_rule(rule_name, release_name)
    }
}

pub(super) fn by_id(family: Family, id: &str) -> RuleDraft {
    RuleDraft { head: RuleHead { id: Some(id.into()), ..RuleHead::default() }, body: family.patch() }
}

#[test]
fn rules_by_the_rules() {
    for family in Family::ALL {
        let family = *family;
        let mut bench = Bench::default();
        let with_id = |id: &str, name: &str| {
            let draft = rule(family, name);
            RuleDraft { head: RuleHead { id: Some(id.into()), ..draft.head }, body: draft.body }
        };
        let with = |name: &str, change: fn(&mut RuleHead)| {
            let mut draft = rule(family, name);
            change(&mut draft.head);
            draft
        };
        let rows = [
            (Op::Create, vec![rule(family, "x"), rule(family, "x")], vec![200000, 400201]),
            (Op::Create, vec![with_id("given", "y"), with_id("given", "z")], vec![200000, 400201]),
            (Op::Update, vec![rule(family, "x"), rule(family, "none")], vec![200002, 400202]),
            (Op::Update, vec![with("x", |head| head.priority = Some(Uint32(3)))], vec![200000]),
            (Op::Update, vec![with("x", |head| head.revision = Some("stale".into()))], vec![409000]),
            (Op::Update, vec![with("x", |head| head.revision = Some(String::new()))], vec![200002]),
            (
                Op::Update,
                vec![with("x", |head| head.disable = Some(true)), with("x", |head| head.enable = Some(true))],
                vec![200000; 2],
            ),
            (
                Op::Update,
                vec![with_id("given", "x"), with_id("given", "renamed"), rule(family, "y")],
                vec![400201, 200000, 400202],
            ),
            (
                Op::Delete,
                vec![by_id(family, "none"), by_id(family, "given"), rule(family, "x"), rule(family, "x")],
                vec![200000; 4],
            ),
        ];
        for (op, items, expected) in rows {
            let shown = format!("{op:?} {items:?}");
            assert_eq!(bench.codes(Command::Rules(op, items)), expected, "{shown}");
            assert_eq!(bench.reloaded(), bench.catalog, "{shown}");
        }
        assert!(bench.catalog.rules.is_empty());
    }
}

#[test]
fn the_time_of_the_last_switch_on_is_kept() {
    let mut bench = Bench::default();
    let switched = |enable: bool| {
        let mut draft = rule(Family::RateLimit, "x");
        draft.head.enable = Some(enable);
        draft
    };
    let switched_on_at =
        |bench: &Bench| bench.catalog.rules.of(Family::RateLimit).named("a", "x").expect("there").enabled_at;
    bench.codes(Command::Rules(Op::Create, vec![switched(false)]));
    assert_eq!(switched_on_at(&bench), None);
    bench.codes(Command::Rules(Op::Update, vec![switched(true)]));
    let first = switched_on_at(&bench);
    assert!(first.is_some());
    bench.codes(Command::Rules(Op::Update, vec![switched(false)]));
    assert_eq!(switched_on_at(&bench), first);
}

/// An update without a policy is checked against the policy of the rule.
#[test]
fn a_config_of_another_policy_is_refused() {
    let mut bench = Bench::default();
    let nearby = |policy: Option<RoutePolicy>| RuleDraft {
        head: rule(Family::Routing, "x").head,
        body: BodyPatch::Routing(RoutingPatch {
            route_policy: policy,
            routing_config: Some(RoutingConfig { strict_nearby: Some(true), ..RoutingConfig::default() }),
        }),
    };
    assert_eq!(bench.codes(Command::Rules(Op::Create, vec![rule(Family::Routing, "x")])), [200000]);
    assert_eq!(bench.codes(Command::Rules(Op::Update, vec![nearby(None)])), [400103]);
    assert_eq!(
        bench.codes(Command::Rules(Op::Update, vec![nearby(Some(RoutePolicy::Nearby)), nearby(None)])),
        [200000, 200002]
    );
}

#[test]
fn lists_filter_by_service_on_either_end() {
    let mut bench = Bench::default();
    for family in Family::ALL {
        let rules =
            vec![rule_for(*family, "one", "pay"), rule_for(*family, "all", "*"), rule_for(*family, "two", "shop")];
        bench.codes(Command::Rules(Op::Create, rules));
        let names = |filter: RuleFilter| -> Vec<String> {
            let listed = bench.catalog.rules.of(*family).list(&filter, &Page::ALL);
            let mut names: Vec<_> = listed.rows.iter().map(|rule| rule.name.clone()).collect();
            names.sort();
            names
        };
        let of_service =
            |service: &str| RuleFilter { service: Some(NameFilter::parse(service)), ..RuleFilter::default() };
        assert_eq!(names(of_service("pay")), ["all", "one"]);
        assert_eq!(names(of_service("none")), ["all"]);
        assert_eq!(names(of_service("*O*")), ["all", "two"]);
        assert_eq!(names(RuleFilter { enable: Some(false), ..RuleFilter::default() }), [""; 0]);
    }
}

/// A rule with one release in each state.
struct Released {
    bench: Bench,
    family: Family,
}

impl Released {
    fn new(family: Family) -> Self {
        let mut bench = Bench::default();
        bench.codes(Command::Rules(Op::Create, vec![rule(family, "x")]));
        let publish =
            [of_rule("x", "first"), of_rule("x", "second"), gray("x", "gray", "one,two"), gray("x", "stopped", "one")];
        assert_eq!(bench.codes(Command::PublishRules(family, publish.to_vec())), [200000; 4]);
        assert_eq!(
            bench.codes(Command::RuleReleases(family, ReleaseOp::StopGray, vec![of_rule("x", "stopped")])),
            [200000]
        );
        Released { bench, family }
    }

    fn find(&self, name: &str) -> Option<&RuleRelease> {
        let book = self.bench.catalog.rules.of(self.family);
        book.release(&book.named("a", "x")?.id, name).map(|release| &**release)
    }
}

#[test]
fn every_cell_of_the_table_of_publishing() {
    for (is_gray_active, normal, labelled, bare) in [(false, 200000, 200000, 400904), (true, 409000, 200000, 400904)] {
        let family = Family::Routing;
        let mut bench = Bench::default();
        bench.codes(Command::Rules(Op::Create, vec![rule(family, "x")]));
        if is_gray_active {
            bench.codes(Command::PublishRules(family, vec![gray("x", "before", "one")]));
        }
        let without_labels = RuleReleaseDraft { client_labels: None, ..gray("x", "g1", "one") };
        let publish = vec![of_rule("x", "n"), without_labels, gray("x", "g2", "one"), gray("x", "g2", "one")];
        assert_eq!(bench.codes(Command::PublishRules(family, publish)), [normal, bare, labelled, 400201]);
    }
}

/// Returns the gray releases, and the normal one, of each rule of a service that has any gray ones.
fn rollouts(bench: &Bench, family: Family, service: &str) -> Vec<String> {
    let rollouts = bench.catalog.rules.of(family).active().rollouts("a", service).into_iter();
    let shown = rollouts.map(|rollout| {
        let grays: Vec<_> = rollout.grays.iter().map(|release| release.name.as_str()).collect();
        let normal = rollout.normal.as_ref().map_or("none", |release| &release.name);
        format!("{} beside {normal}", grays.join(", "))
    });
    shown.collect()
}

#[test]
fn clients_see_the_newest_gray_that_matches_else_the_normal() {
    for family in Family::ALL {
        let mut released = Released::new(*family);
        let newer = gray("x", "newer", "two");
        assert_eq!(released.bench.codes(Command::PublishRules(*family, vec![newer])), [200000]);
        let seen = |bench: &Bench, zone: Option<&'static str>| -> Vec<String> {
            let label = |key: &str| zone.filter(|_| key == "zone");
            let active = bench.catalog.rules.of(*family).active().of_service("a", "target", label);
            active.iter().map(|release| release.name.clone()).collect()
        };
        let bench = &mut released.bench;
        assert_eq!(rollouts(bench, *family, "target"), ["newer, gray beside second"]);
        assert_eq!(rollouts(bench, *family, "elsewhere"), [""; 0]);
        assert_eq!(seen(bench, None), ["second"]);
        assert_eq!(seen(bench, Some("three")), ["second"]);
        assert_eq!(seen(bench, Some("one")), ["gray"]);
        assert_eq!(seen(bench, Some("two")), ["newer"]);
        bench.codes(Command::RuleReleases(*family, ReleaseOp::StopGray, vec![of_rule("x", "newer")]));
        assert_eq!(seen(bench, Some("two")), ["gray"]);
        assert_eq!(rollouts(bench, *family, "target"), ["gray beside second"]);
        // Saving changes nothing that clients see; deleting removes the releases.
        let mut moved = rule_for(*family, "x", "elsewhere");
        moved.head.priority = Some(Uint32(9));
        assert_eq!(bench.codes(Command::Rules(Op::Update, vec![moved])), [200000]);
        assert_eq!(seen(bench, None), ["second"]);
        assert_eq!(seen(&Bench { catalog: bench.reloaded(), ..Bench::default() }, Some("two")), ["gray"]);
        bench.codes(Command::Rules(Op::Delete, vec![rule(*family, "x")]));
        assert_eq!((seen(bench, None), bench.catalog.rules.release_count()), (vec![], 0));
    }
}

#[test]
fn releases_are_found_by_id_and_never_under_another_rule() {
    let family = Family::FaultDetect;
    let mut released = Released::new(family);
    released.bench.codes(Command::Rules(Op::Create, vec![rule(family, "other")]));
    let (id, rule_id) =
        released.find("first").map(|release| (release.id.clone(), release.rule.id.clone())).expect("there");
    let draft = |id: &str| RuleReleaseDraft { id: Some(id.into()), ..RuleReleaseDraft::default() };
    let of = |rule_id: &str| RuleReleaseDraft { rule_id: Some(rule_id.into()), ..draft(&id) };
    let other = released.bench.catalog.rules.of(family).named("a", "other").expect("there").id.clone();
    let mut change = |op, item| released.bench.codes(Command::RuleReleases(family, op, vec![item]))[0];
    assert_eq!(change(ReleaseOp::Rollback, of(&other)), 400202);
    assert_eq!(change(ReleaseOp::Rollback, of("none")), 400202);
    assert_eq!(change(ReleaseOp::Delete, of(&other)), 200000, "not there, so it is gone");
    assert_eq!(change(ReleaseOp::Rollback, of(&rule_id)), 200000, "so it was still there");
    assert_eq!(change(ReleaseOp::Rollback, draft(&id)), 200002);
    let other_family = Command::RuleReleases(Family::Routing, ReleaseOp::Rollback, vec![draft(&id)]);
    assert_eq!(released.bench.codes(other_family), [400202]);
    let filter = ReleaseFilter { rule_name: Some("x".into()), ..ReleaseFilter::default() };
    let listed = released.bench.catalog.rules.of(family).list_releases(&filter, &Page::ALL);
    let versions: Vec<_> = listed.rows.iter().map(|release| (release.name.as_str(), release.version)).collect();
    assert_eq!(versions, [("first", 5), ("stopped", 4), ("gray", 3), ("second", 2)]);
}

#[test]
fn versions_are_never_used_twice() {
    let family = Family::RateLimit;
    let mut released = Released::new(family);
    let delete = Command::RuleReleases(family, ReleaseOp::Delete, vec![of_rule("x", "stopped")]);
    assert_eq!(released.bench.codes(delete), [200000]);
    released.bench.codes(Command::PublishRules(family, vec![gray("x", "again", "one")]));
    assert_eq!(released.find("again").map(|release| release.version), Some(5));
}

#[test]
fn a_rule_name_of_several_namespaces_needs_more_to_be_published() {
    let family = Family::RateLimit;
    let mut bench = Bench::default();
    let mut elsewhere = rule(family, "x");
    elsewhere.head.namespace = Some("b".into());
    bench.codes(Command::Rules(Op::Create, vec![rule(family, "x"), elsewhere]));
    let in_namespace = |namespace: &str| RuleReleaseDraft { namespace: Some(namespace.into()), ..of_rule("x", "r") };
    let publish = vec![of_rule("x", "r"), in_namespace("b"), in_namespace("c")];
    assert_eq!(bench.codes(Command::PublishRules(family, publish)), [400103, 200000, 400202]);
    let namespace = NamespaceDraft { name: "b".into(), ..NamespaceDraft::default() };
    assert_eq!(bench.codes(Command::Namespaces(Op::Delete, vec![namespace])), [400220]);
}
