//! Alternatives in which a request meets the conditions of a limit.

use super::counted::admits_many;
use super::not_carried;
use crate::model::mesh::conditions::{AskedCondition, Condition, Ways, carried};
use crate::model::mesh::plan::{Abilities, CallerCondition, PartMatch, TextMatch};
use crate::model::mesh::warning::{ENVOY, Warning};
use crate::model::rule::matching::{ALL, MatchString, MatchType, ValueType};
use crate::model::rule::rate_limit::LimitTrigger;
use crate::model::rule::traffic::{Api, ArgumentType, LimitArgumentType};

/// Alternatives of one limit, each of which must exclude those before it.
const WAYS_MAX: usize = 32;

/// Conditions on headers, all of which must hold; always met if empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    pub headers: Vec<PartMatch>,
    /// True if each path has a separate counter.
    pub is_path_counted: bool,
}

/// Addresses of callers that a limit covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    Every,
    /// Every address, with a separate counter.
    EachApart,
    /// Listed addresses, each with a separate counter.
    Listed(Vec<String>),
}

/// Conditions of a limit.
#[derive(Debug, PartialEq)]
pub(super) struct AskedWays {
    pub ways: Vec<Way>,
    pub queries: Vec<Vec<PartMatch>>,
    pub addresses: Addresses,
}

/// Translates the conditions of a limit; `None` if no request meets them.
pub(super) fn of(
    trigger: &LimitTrigger,
    place: &str,
    to: Abilities,
    warnings: &mut Vec<Warning>,
) -> Result<Option<AskedWays>, Warning> {
    let ways = of_apis(trigger, place, to, warnings)?;
    let mut asked = AskedWays { ways, queries: vec![Vec::new()], addresses: Addresses::Every };
    for (index, argument) in trigger.arguments.iter().enumerate() {
        let place = format!("{place}.arguments[{index}]");
        if argument.kind == LimitArgumentType::CallerIp {
            asked.restrict(addresses(argument.value.as_ref(), trigger.regex_combine, &place)?, &place)?;
            continue;
        }
        let ways = carried(argument.into(), &place, true, to).map_err(for_proxies)?;
        asked.add(ways, &place, warnings)?;
    }
    if asked.ways.len() > WAYS_MAX || asked.queries.len() > WAYS_MAX {
        return Err(too_many(place));
    }
    let can_hold = !asked.ways.is_empty() && !asked.queries.is_empty();
    asked.end_at_first_open();
    Ok(can_hold.then_some(asked))
}

/// Reports whether every request matches an interface.
pub(super) fn is_every(api: &Api) -> bool {
    is_all(&api.protocol) && is_all(&api.method) && api.path.as_ref().is_none_or(MatchString::is_open)
}

fn is_all(name: &str) -> bool {
    name.is_empty() || name == ALL
}

/// Returns the alternatives for the interfaces in order.
fn of_apis(
    trigger: &LimitTrigger,
    place: &str,
    to: Abilities,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Way>, Warning> {
    if trigger.apis.is_empty() {
        return Ok(vec![Way::default()]);
    }
    let mut all = Vec::new();
    for (index, api) in trigger.apis.iter().enumerate() {
        let place = format!("{place}.apis[{index}]");
        let path = api.path.as_ref().filter(|path| !path.is_open());
        let is_path_counted = !trigger.regex_combine && path.is_some_and(|path| admits_many(Some(path)));
        let ways = of_api(api, path, &place, to, warnings)?;
        all.extend(ways.into_iter().map(|headers| Way { headers, is_path_counted }));
        if all.len() > WAYS_MAX {
            return Err(too_many(&place));
        }
    }
    Ok(all)
}

fn of_api(
    api: &Api,
    path: Option<&MatchString>,
    place: &str,
    to: Abilities,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Vec<PartMatch>>, Warning> {
    let mut ways = match protocol(&api.protocol) {
        Some(headers) => vec![headers],
        None => {
            warnings.push(not_carried(place, &format!("protocol {}", api.protocol)));
            return Ok(Vec::new());
        }
    };
    let method = MatchString { kind: MatchType::Exact, value: api.method.clone(), value_type: ValueType::Text };
    let method = (!is_all(&api.method)).then_some(&method);
    for (kind, value) in [(ArgumentType::Method, method), (ArgumentType::Path, path)] {
        if value.is_some() {
            let found = carried(AskedCondition { kind, key: "", value }, place, true, to).map_err(for_proxies)?;
            ways = product(&ways, &headers_of(found, place, warnings)?);
        }
    }
    Ok(ways)
}

/// Returns the conditions on the protocol of a request; `None` if it does not run over HTTP.
fn protocol(name: &str) -> Option<Vec<PartMatch>> {
    match name.to_ascii_lowercase().as_str() {
        "" | ALL | "http" | "http/1.1" | "http2" | "https" => Some(Vec::new()),
        "grpc" => {
            let value = TextMatch::Expression("application/grpc.*".into());
            Some(vec![PartMatch { name: "content-type".into(), value }])
        }
        _ => None,
    }
}

fn headers_of(found: Ways<'_>, place: &str, warnings: &mut Vec<Warning>) -> Result<Vec<Vec<PartMatch>>, Warning> {
    warnings.extend(found.warnings.into_iter().map(for_proxies));
    let split = found.any_of.into_iter().map(|way| Split::of(way, place).map(|split| split.headers));
    split.collect()
}

/// Conditions of one alternative by part of the request.
#[derive(Default)]
struct Split {
    headers: Vec<PartMatch>,
    query: Vec<PartMatch>,
}

impl Split {
    fn of(way: Vec<Condition<'_>>, place: &str) -> Result<Split, Warning> {
        let mut split = Split::default();
        for condition in way {
            match condition {
                Condition::Header(header) => split.headers.push(header),
                Condition::Path(value) => split.headers.push(PartMatch { name: ":path".into(), value }),
                Condition::Query(query) if is_plain(&query.value) => split.query.push(query),
                Condition::Query(query) => return Err(not_carried(place, &format!("query {}", query.name))),
                Condition::Caller(caller) => return Err(no_caller(&caller, place)),
            }
        }
        Ok(split)
    }
}

/// Reports whether proxies can perform a comparison on query parameters.
fn is_plain(value: &TextMatch) -> bool {
    matches!(value, TextMatch::Present | TextMatch::Exact(_) | TextMatch::Expression(_))
}

impl AskedWays {
    fn add(&mut self, found: Ways<'_>, place: &str, warnings: &mut Vec<Warning>) -> Result<(), Warning> {
        warnings.extend(found.warnings.into_iter().map(for_proxies));
        let ways = found.any_of.into_iter().map(|way| Split::of(way, place)).collect::<Result<Vec<_>, _>>()?;
        let by_header = ways.iter().all(|way| way.query.is_empty());
        let by_query = ways.iter().all(|way| way.headers.is_empty());
        // Later alternatives could not exclude those on both parts.
        if !by_header && !by_query && ways.len() > 1 {
            return Err(not_carried(place, "a choice among headers and query parameters"));
        }
        let headers: Vec<_> = ways.iter().map(|way| way.headers.clone()).collect();
        let queries: Vec<_> = ways.into_iter().map(|way| way.query).collect();
        if !by_query || headers.is_empty() {
            let with = |way: &Way| {
                let both = product(std::slice::from_ref(&way.headers), &headers).into_iter();
                both.map(|headers| Way { headers, ..*way }).collect::<Vec<_>>()
            };
            self.ways = self.ways.iter().flat_map(with).collect();
        }
        if !by_header {
            self.queries = product(&self.queries, &queries);
        }
        if self.ways.len() > WAYS_MAX || self.queries.len() > WAYS_MAX { Err(too_many(place)) } else { Ok(()) }
    }

    fn restrict(&mut self, to: Addresses, place: &str) -> Result<(), Warning> {
        match (&self.addresses, to) {
            (_, Addresses::Every) => {}
            (Addresses::Every | Addresses::EachApart, to) => self.addresses = to,
            (Addresses::Listed(_), Addresses::EachApart) => {}
            (Addresses::Listed(_), Addresses::Listed(_)) => {
                return Err(not_carried(place, "a second condition on CALLER_IP"));
            }
        }
        Ok(())
    }

    /// Drops alternatives after one without conditions, which matches every request.
    fn end_at_first_open(&mut self) {
        if let Some(open) = self.ways.iter().position(|way| way.headers.is_empty()) {
            self.ways.truncate(open + 1);
        }
        if let Some(open) = self.queries.iter().position(Vec::is_empty) {
            self.queries.truncate(open + 1);
        }
    }
}

fn addresses(condition: Option<&MatchString>, is_combined: bool, place: &str) -> Result<Addresses, Warning> {
    let is_text = |condition: &&MatchString| condition.value_type == ValueType::Text && !condition.is_open();
    let Some(condition) = condition.filter(is_text) else {
        return Ok(if is_combined { Addresses::Every } else { Addresses::EachApart });
    };
    let mut listed: Vec<String> = match condition.kind {
        MatchType::Exact => vec![condition.value.clone()],
        MatchType::In => condition.value.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        MatchType::Regex | MatchType::NotEquals | MatchType::NotIn | MatchType::Range => Vec::new(),
    };
    listed.sort();
    listed.dedup();
    let is_carried = matches!(listed.len(), 1..=WAYS_MAX) && (listed.len() == 1 || !is_combined);
    if is_carried {
        return Ok(Addresses::Listed(listed));
    }
    let text = format!("{place}: Envoy compares caller addresses with single values only: not carried");
    Err(Warning::left_out(6, ENVOY, text))
}

fn no_caller(caller: &CallerCondition<'_>, place: &str) -> Warning {
    let part = match caller {
        CallerCondition::Metadata { .. } => "labels of the caller",
        CallerCondition::Ip(_) => "address of the caller",
        CallerCondition::Service { .. } | CallerCondition::Is { .. } => "caller",
    };
    let text = format!("{place}: an Envoy at the callee knows no {part}: not carried there");
    Warning::left_out(6, ENVOY, text)
}

fn too_many(place: &str) -> Warning {
    let text = format!("{place}: more than {WAYS_MAX} ways to meet the conditions: not carried");
    Warning::left_out(7, ENVOY, text)
}

/// Restricts a warning to proxies, the only clients that carry out limits.
fn for_proxies(warning: Warning) -> Warning {
    Warning { dialects: ENVOY, ..warning }
}

/// Combines each list of the one side with each of the other.
fn product(ones: &[Vec<PartMatch>], others: &[Vec<PartMatch>]) -> Vec<Vec<PartMatch>> {
    ones.iter().flat_map(|one| others.iter().map(move |other| [&one[..], &other[..]].concat())).collect()
}
