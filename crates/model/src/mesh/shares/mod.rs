//! Shares of requests, adjusted to how a dialect draws them.
//!
//! Envoy draws one number per request: a fraction looks at its remainder by the denominator, a weighted split at its
//! remainder by the sum of the weights. Successive fractions therefore get denominators with disjoint digits, and sums
//! of weights after a fraction are coprime to them. gRPC draws a new number each time.

use super::Dialect;
use super::plan::{Denominator, Fraction, PlannedGroup, PlannedRoute, TextMatch};
use super::warning::{ENVOY, GRPC, Warning};

/// Sum of weights at which a change by one is negligible.
const FINE_SUM: u64 = 10_000;
/// Pairs of routes of two sub-rules that are compared; beyond it they are assumed to match a common request.
const COMPARED_PAIRS_MAX: usize = 4096;
/// Fractions with which a sub-rule is compared; beyond it shares are approximate.
const COMPARED_FRACTIONS_MAX: usize = 256;

/// Makes the shares of one client's routes independent of each other as far as its dialect allows. Must be called after
/// the conditions on the caller are evaluated.
pub fn settle_shares(routes: &mut [PlannedRoute<'_>], dialect: Dialect) -> Vec<Warning> {
    match dialect {
        Dialect::Grpc => drawn_anew(routes),
        Dialect::Envoy => drawn_once(routes),
    }
}

/// Returns warnings for a gRPC client, which draws per route: a request that matches several routes of OR draws several
/// times.
fn drawn_anew(routes: &[PlannedRoute<'_>]) -> Vec<Warning> {
    let of_sub_rule = routes.chunk_by(is_of_one_sub_rule);
    let drawn_twice = of_sub_rule.filter(|routes| routes[0].fraction.is_some() && has_two_that_meet(routes));
    let approximate = |routes: &[PlannedRoute<'_>]| {
        let text = format!("rules[{}]: OR with a percentage: shares are approximate", routes[0].sub_rule);
        Warning::approximate(8, GRPC, text)
    };
    drawn_twice.map(approximate).collect()
}

/// Reports whether a client that draws per route may send a request that matches two routes of a sub-rule to groups
/// other than those of the first one.
pub(super) fn draws_for_other_groups(routes: &[PlannedRoute<'_>]) -> bool {
    let Some((first, others)) = routes.split_first() else { return false };
    first.fraction.is_some() && others.iter().any(|route| route.groups != first.groups) && {
        let is_compared = routes.len() * routes.len() <= COMPARED_PAIRS_MAX;
        let meets = |(at, one): (usize, &PlannedRoute<'_>)| {
            routes[at + 1..].iter().any(|two| one.groups != two.groups && can_meet(one, two))
        };
        !is_compared || routes.iter().enumerate().any(meets)
    }
}

fn has_two_that_meet(routes: &[PlannedRoute<'_>]) -> bool {
    routes.len() > 1
        && (routes.len() * routes.len() > COMPARED_PAIRS_MAX
            || routes.iter().enumerate().any(|(at, one)| routes[at + 1..].iter().any(|two| can_meet(one, two))))
}

fn is_of_one_sub_rule(one: &PlannedRoute<'_>, two: &PlannedRoute<'_>) -> bool {
    (one.rule, one.sub_rule) == (two.rule, two.sub_rule)
}

/// Routes of a sub-rule that use a fraction, and the resulting threshold.
struct Drawn {
    first: usize,
    end: usize,
    fraction: Fraction,
}

fn drawn_once(routes: &mut [PlannedRoute<'_>]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut drawn: Vec<Drawn> = Vec::new();
    let mut first = 0;
    while first < routes.len() {
        let end = first + routes[first..].iter().take_while(|route| is_of_one_sub_rule(&routes[first], route)).count();
        if let Some(fraction) = routes[first].fraction {
            let settled = independent(routes, first..end, fraction.numerator, &drawn).unwrap_or_else(|| {
                let what = "more than three percentages for one request: shares in Envoy are approximate";
                warnings.push(Warning::approximate(10, ENVOY, format!("rules[{}]: {what}", routes[first].sub_rule)));
                of_percent(fraction.numerator, Denominator::Million)
            });
            routes[first..end].iter_mut().for_each(|route| route.fraction = Some(settled));
            drawn.push(Drawn { first, end, fraction: settled });
        }
        if !drawn.is_empty() {
            routes[first..end].iter_mut().for_each(|route| settle_weights(&mut route.groups));
        }
        first = end;
    }
    warnings
}

/// Returns a fraction that is independent of the earlier ones which can match the same requests.
fn independent(
    routes: &[PlannedRoute<'_>],
    own: std::ops::Range<usize>,
    percent: u32,
    drawn: &[Drawn],
) -> Option<Fraction> {
    if drawn.len() > COMPARED_FRACTIONS_MAX {
        return None;
    }
    let own = &routes[own];
    let of = |before: &Drawn| &routes[before.first..before.end];
    let meets = |before: &&Drawn| has_one_that_meets(of(before), own);
    let before: Vec<&Drawn> = drawn.iter().filter(meets).collect();
    let users = |denominator| before.iter().filter(move |before| before.fraction.denominator == denominator);
    let denominators = [Denominator::Hundred, Denominator::TenThousand, Denominator::Million];
    if let Some(free) = denominators.into_iter().find(|denominator| users(*denominator).next().is_none()) {
        return Some(of_percent(percent, free));
    }
    let mut finest_first = denominators.into_iter().rev();
    let alike =
        finest_first.find(|denominator| users(*denominator).all(|before| has_equal_conditions(of(before), own)))?;
    let taken = users(alike).map(|before| before.fraction.numerator).max().unwrap_or_default();
    let left = alike.count() - taken;
    let wanted = (u64::from(left) * u64::from(percent) + 50) / 100;
    let numerator = taken + u32::try_from(wanted).unwrap_or(left);
    Some(Fraction { numerator, denominator: alike })
}

fn of_percent(percent: u32, denominator: Denominator) -> Fraction {
    Fraction { numerator: percent * (denominator.count() / 100), denominator }
}

impl Denominator {
    /// Returns the number of the denominator.
    pub fn count(self) -> u32 {
        match self {
            Denominator::Hundred => 100,
            Denominator::TenThousand => 10_000,
            Denominator::Million => 1_000_000,
        }
    }
}

fn has_one_that_meets(some: &[PlannedRoute<'_>], others: &[PlannedRoute<'_>]) -> bool {
    some.len().saturating_mul(others.len()) > COMPARED_PAIRS_MAX
        || some.iter().any(|one| others.iter().any(|two| can_meet(one, two)))
}

/// Reports whether a request can meet the conditions of both.
fn can_meet(one: &PlannedRoute<'_>, two: &PlannedRoute<'_>) -> bool {
    let is_apart = |left: &TextMatch, right: &TextMatch| match (left, right) {
        (TextMatch::Exact(left), TextMatch::Exact(right)) => left != right,
        _ => false,
    };
    let is_path_apart = one.path.iter().zip(&two.path).any(|(left, right)| is_apart(left, right));
    let parts = [(&one.headers, &two.headers), (&one.query, &two.query)];
    let is_part_apart = parts.into_iter().any(|(left, right)| {
        left.iter().any(|l| right.iter().any(|r| l.name == r.name && is_apart(&l.value, &r.value)))
    });
    !is_path_apart && !is_part_apart
}

fn has_equal_conditions(one: &[PlannedRoute<'_>], two: &[PlannedRoute<'_>]) -> bool {
    let is_equal = |left: &PlannedRoute<'_>, right: &PlannedRoute<'_>| {
        left.path == right.path && left.headers == right.headers && left.query == right.query
    };
    one.len() == two.len() && one.iter().zip(two).all(|(left, right)| is_equal(left, right))
}

/// Adjusts the weights of the groups in use to a sum without the factors of denominators.
fn settle_weights(groups: &mut [PlannedGroup<'_>]) {
    let mut in_use: Vec<&mut u32> =
        groups.iter_mut().filter(|group| group.rank == 0).map(|group| &mut group.weight).collect();
    let is_coprime = |sum: u64| !sum.is_multiple_of(2) && !sum.is_multiple_of(5);
    let sum_of = |weights: &[&mut u32]| weights.iter().map(|weight| u64::from(**weight)).sum::<u64>();
    if in_use.len() < 2 || is_coprime(sum_of(&in_use)) {
        return;
    }
    let factor = u32::try_from(FINE_SUM.div_ceil(sum_of(&in_use)).max(1)).unwrap_or(1);
    in_use.iter_mut().for_each(|weight| **weight *= factor);
    let sum = sum_of(&in_use);
    let more = (0..10).find(|more| is_coprime(sum + u64::from(*more))).unwrap_or_default();
    if let Some(largest) = in_use.into_iter().max_by_key(|weight| **weight) {
        *largest += more;
    }
}

#[cfg(test)]
mod tests;
