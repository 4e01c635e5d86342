//! Translation of custom routes: rules and their sub-rules in order, each as routes that are tried one after another.
//!
//! | in a rule | in the plan |
//! |---|---|
//! | disabled, or for calls of another service | nothing |
//! | AND | one route; more if a list of values is split |
//! | OR | a route for each condition, in order |
//! | condition that cannot be carried | the whole sub-rule is omitted |
//! | second condition on the path | the same, for gRPC libraries that compare only one |
//! | condition that never holds | the sub-rule is omitted; under OR only that condition |
//! | no group that receives traffic | nothing: the search continues, as in [`crate::model::explain`] |
//! | priorities of groups | ranks without gaps |
//! | OR with a percentage, groups that differ by condition | omitted for gRPC, which draws a number per route |
//! | label PARAMETER | as [`Parameter`](super::plan::Parameter); a group whose value is never present is omitted |
//!
//! Shares are adjusted after the conditions on the caller are evaluated: [`super::shares`].

mod groups;

use super::Dialect;
use super::conditions::{self, AskedCondition, Condition, Ways};
use super::plan::{
    Abilities, CallerCondition, Denominator, Fraction, PlannedGroup, PlannedRoute, RequestPart, RoutePlan,
};
use super::warning::{ENVOY, EVERY_CLIENT, GRPC, Warning};
use crate::model::rule::matching::ALL;
use crate::model::rule::routing::{CustomRouteRule, RoutePolicy, Routing, TrafficMatchMode};
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Body, End, Rule};
use groups::Groups;

pub use super::shares::settle_shares;

/// Routes of a sub-rule under AND, where split lists multiply.
const COMBINATIONS_MAX: usize = 128;
/// Routes of a sub-rule under OR.
const ALTERNATIVES_MAX: usize = 1000;
const PERCENT_ALL: u32 = 100;

/// Translates the custom routes among the rules, which are in order of priority, for calls of a service.
pub fn plan<'a>(rules: &[&'a Rule], called: &ServiceKey, to: Abilities) -> RoutePlan<'a> {
    let mut plan = RoutePlan::default();
    for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.enable) {
        add(&mut plan, index, rule, called, to);
    }
    plan
}

/// Adds the routes of a rule as if it were enabled.
pub(super) fn add<'a>(plan: &mut RoutePlan<'a>, index: usize, rule: &'a Rule, called: &ServiceKey, to: Abilities) {
    let Body::Routing(body) = &rule.body else { return };
    if body.route_policy != RoutePolicy::Rule {
        return;
    }
    let callee = body.routing_config.callee.as_ref();
    let callee = callee.and_then(|key| End::of(&key.namespace, &key.service, &rule.namespace));
    if callee.as_ref().is_some_and(|callee| !callee.covers(&called.namespace, &called.service)) {
        return;
    }
    let planner = RoutePlanner { rule, index, called, has_callee: callee.is_some(), to };
    planner.add(body, plan);
}

struct RoutePlanner<'a, 'c> {
    rule: &'a Rule,
    index: usize,
    called: &'c ServiceKey,
    has_callee: bool,
    to: Abilities,
}

/// Alternatives of a sub-rule, each with the index of its condition; `None` under AND.
type SubRuleWays<'a> = Vec<(Option<usize>, Vec<Condition<'a>>)>;

impl<'a> RoutePlanner<'a, '_> {
    fn add(&self, body: &'a Routing, plan: &mut RoutePlan<'a>) {
        let caller = match self.caller(body) {
            Ok(caller) => caller,
            Err(warning) => return plan.warnings.push(warning),
        };
        for (sub_rule, route) in body.routing_config.custom_rules().iter().enumerate() {
            match self.routes(sub_rule, route, &caller, &mut plan.warnings) {
                Ok(routes) => plan.routes.extend(routes),
                Err(warning) => plan.warnings.push(warning),
            }
        }
    }

    /// Returns the rule's condition on its caller. Requests through a gateway count as those of an unknown caller if
    /// the rule admits that.
    fn caller(&self, body: &Routing) -> Result<Option<Condition<'a>>, Warning> {
        let key = body.routing_config.caller.as_ref();
        let Some(end) = key.and_then(|key| End::of(&key.namespace, &key.service, &self.rule.namespace)) else {
            return Ok(None);
        };
        if end == End::every() {
            return Ok(None);
        }
        let is_met_by_unknown = end.service == ALL && end.covers(&self.called.namespace, "");
        match self.to.is_gateway {
            true if is_met_by_unknown => Ok(None),
            true if self.to.has_caller_header => conditions::named_caller(&end, "caller", self.to).map(Some),
            true => Err(conditions::no_caller("caller", true)),
            false => Ok(Some(Condition::Caller(CallerCondition::Is { end, is_met_by_unknown }))),
        }
    }

    fn routes(
        &self,
        sub_rule: usize,
        route: &'a CustomRouteRule,
        caller: &Option<Condition<'a>>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<PlannedRoute<'a>>, Warning> {
        let reaches = |end: Option<End>| {
            self.has_callee || end.is_some_and(|end| end.covers(&self.called.namespace, &self.called.service))
        };
        let groups = Groups::of(route, &self.rule.namespace, self.called, &reaches);
        let percent = route.arguments.random_percent.0.min(PERCENT_ALL);
        if groups.is_empty() || percent == 0 {
            return Ok(Vec::new());
        }
        let place = format!("rules[{sub_rule}]");
        let fraction =
            (percent < PERCENT_ALL).then_some(Fraction { numerator: percent, denominator: Denominator::Hundred });
        let (ways, dead) = self.ways(route, &place, warnings)?;
        let mut routes = Vec::new();
        for (argument, conditions) in ways {
            let able = groups.of_way(argument, &dead).map_err(|()| foreign_parameter(&place))?;
            if able.is_empty() {
                continue;
            }
            if self.to.is_gateway && able.iter().any(takes_over_caller) {
                return Err(conditions::no_caller(&place, true));
            }
            let mut planned = PlannedRoute {
                rule: self.index,
                sub_rule,
                path: None,
                headers: Vec::new(),
                query: Vec::new(),
                caller: Vec::new(),
                fraction,
                groups: able,
            };
            caller.iter().cloned().chain(conditions).for_each(|condition| put(condition, &mut planned));
            if self.to.has_one_path() && has_second_on_path(&planned) {
                return Err(conditions::second_on_path(&place));
            }
            routes.push(planned);
        }
        if self.to.dialect == Dialect::Grpc && super::shares::draws_for_other_groups(&routes) {
            return Err(other_groups(&place));
        }
        Ok(routes)
    }

    /// Returns the alternatives of a sub-rule's conditions, and the indexes of conditions that never hold.
    fn ways(
        &self,
        route: &'a CustomRouteRule,
        place: &str,
        warnings: &mut Vec<Warning>,
    ) -> Result<(SubRuleWays<'a>, Vec<usize>), Warning> {
        let mode = route.arguments.match_mode;
        let mut found: Vec<Ways<'a>> = Vec::new();
        let mut is_path_taken = false;
        for (index, argument) in route.arguments.arguments.iter().enumerate() {
            let place = format!("{place}.arguments[{index}]");
            let ways = conditions::carried(AskedCondition::from(argument), &place, is_path_taken, self.to)?;
            let is_on_path = ways.any_of.iter().flatten().any(|part| matches!(part, Condition::Path(_)));
            is_path_taken |= mode == TrafficMatchMode::And && is_on_path;
            found.push(ways);
        }
        let dead: Vec<usize> =
            found.iter().enumerate().filter(|(_, ways)| ways.any_of.is_empty()).map(|(index, _)| index).collect();
        let is_partly_left = mode == TrafficMatchMode::Or && dead.len() < found.len();
        for ways in &mut found {
            warnings.extend(
                ways.warnings
                    .drain(..)
                    .map(|warning| Warning { is_left_out: warning.is_left_out && !is_partly_left, ..warning }),
            );
        }
        let too_many = || too_many_routes(place, self.to);
        let ways = match mode {
            TrafficMatchMode::And => all_of(found).map(|ways| ways.into_iter().map(|way| (None, way)).collect()),
            TrafficMatchMode::Or if found.is_empty() => Some(vec![(None, Vec::new())]),
            TrafficMatchMode::Or => one_of(found),
        };
        ways.map(|ways| (ways, dead)).ok_or_else(too_many)
    }
}

/// Returns every combination; `None` if there are too many.
fn all_of(found: Vec<Ways<'_>>) -> Option<Vec<Vec<Condition<'_>>>> {
    let mut combined = vec![Vec::new()];
    for ways in found {
        if combined.len().saturating_mul(ways.any_of.len()) > COMBINATIONS_MAX {
            return None;
        }
        let before = std::mem::take(&mut combined);
        for left in &before {
            combined.extend(ways.any_of.iter().map(|right| [&left[..], &right[..]].concat()));
        }
    }
    Some(combined)
}

fn one_of(found: Vec<Ways<'_>>) -> Option<SubRuleWays<'_>> {
    let ways = found.into_iter().enumerate();
    let ways: SubRuleWays<'_> =
        ways.flat_map(|(index, ways)| ways.any_of.into_iter().map(move |way| (Some(index), way))).collect();
    (ways.len() <= ALTERNATIVES_MAX).then_some(ways)
}

/// Reports whether a label of the group takes the name of the calling service, which a header contains only together
/// with its namespace.
fn takes_over_caller(group: &PlannedGroup<'_>) -> bool {
    group.parameters.iter().any(|parameter| parameter.part == RequestPart::CallerService)
}

/// Reports whether labels take the path or a part of it while another condition is on the path too.
fn has_second_on_path(route: &PlannedRoute<'_>) -> bool {
    let parameters = route.groups.iter().flat_map(|group| &group.parameters);
    let mut taken: Vec<RequestPart<'_>> =
        parameters.map(|parameter| parameter.part).filter(|part| part.is_of_path()).collect();
    taken.dedup();
    taken.len() + usize::from(route.path.is_some()) > 1
}

fn put<'a>(condition: Condition<'a>, route: &mut PlannedRoute<'a>) {
    match condition {
        Condition::Path(path) => route.path = Some(path),
        Condition::Header(header) => route.headers.push(header),
        Condition::Query(query) => route.query.push(query),
        Condition::Caller(caller) => route.caller.push(caller),
    }
}

fn too_many_routes(place: &str, to: Abilities) -> Warning {
    let dialects = if to.takes_large_expressions { EVERY_CLIENT } else { ENVOY };
    let what = "lists of values too large for Envoy without re2.max_program_size";
    Warning::left_out(7, dialects, format!("{place}: {what}: not carried there"))
}

fn foreign_parameter(place: &str) -> Warning {
    let what = "a label that takes over a value of a later condition under OR";
    Warning::left_out(15, EVERY_CLIENT, format!("{place}: {what} is not carried by xDS"))
}

/// Returns the warning on groups that depend on the condition. A gRPC client that loses the draw of one condition draws
/// again for the next one, whose groups are meant for requests that do not meet the first.
fn other_groups(place: &str) -> Warning {
    let what = "OR with a percentage, and with groups that depend on the condition that is met";
    Warning::left_out(8, GRPC, format!("{place}: {what}: not carried there"))
}

#[cfg(test)]
mod tests;
