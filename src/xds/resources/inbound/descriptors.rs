//! Descriptors: what is said of a request that a limit counts, and the buckets for what is said.
//!
//! A limit and a period have a key, by which their descriptors differ from all others. Behind it stands a word for each
//! way in which a request can meet the conditions: the way itself, then that each way before it does not hold. So a
//! request that meets several ways is counted once, and all ways fill the same bucket.

use std::collections::BTreeSet;

use prost_types::Duration;

use super::bucket;
use crate::model::mesh::limits::{Addresses, Counted, Limit, Period, Way};
use crate::model::mesh::plan::PartMatch;
use crate::model::wire::Span;
use crate::proto::Any;
use crate::proto::envoy::config::core::v3::TypedExtensionConfig;
use crate::proto::envoy::config::route::v3::RateLimit;
use crate::proto::envoy::config::route::v3::rate_limit::{Action, HitsAddend, action};
use crate::proto::envoy::extensions::common::ratelimit::v3::LocalRateLimitDescriptor;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use crate::proto::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit;
use crate::proto::envoy::extensions::rate_limit_descriptors::expr::v3::{Descriptor, descriptor};
use crate::xds::resources::matchers;
use action::ActionSpecifier;

/// Value of entries that only have to be there.
const HOLDS: &str = "1";
const WAY: &str = "way";
const QUERY: &str = "query";
/// Key that proxies give to the address of a caller.
const REMOTE_ADDRESS: &str = "remote_address";
const PATH: &str = "path";
const EXPRESSION: &str = "envoy.rate_limit_descriptors.expr";
/// The path without a query.
const PATH_EXPRESSION: &str = "request.url_path";
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Adds the buckets of one period of a limit, and what fills them.
pub(super) fn add(message: &mut LocalRateLimit, limit: &Limit, index: usize, period: Period, sharers: u32) {
    let key = format!("{}/{index}", limit.key);
    let total = period.amount.share(sharers);
    for (position, way) in limit.ways.iter().enumerate() {
        for query in 0..limit.queries.len() {
            let mut actions = vec![generic(&key)];
            actions.extend(of_ways(&limit.ways, position));
            actions.extend(of_queries(&limit.queries, query));
            if limit.addresses != Addresses::Every {
                actions.push(act(ActionSpecifier::RemoteAddress(action::RemoteAddress {})));
            }
            actions.extend(values(limit, way.is_path_counted).map(value));
            // There are no buckets of nothing: of one that has a single token, each request asks two.
            let hits_addend = (total == 0).then_some(HitsAddend { number: Some(2) });
            message.rate_limits.push(RateLimit { actions, hits_addend });
        }
    }
    // A proxy refuses a configuration that has a bucket twice.
    let is_path_counted = |way: &Way| way.is_path_counted || limit.counted.contains(&Counted::Path);
    for is_path_counted in limit.ways.iter().map(is_path_counted).collect::<BTreeSet<bool>>() {
        message.descriptors.extend(buckets(&key, limit, is_path_counted, total.max(1), period.length));
    }
}

fn buckets(
    key: &str,
    limit: &Limit,
    is_path_counted: bool,
    tokens: u32,
    length: Span,
) -> impl Iterator<Item = LocalRateLimitDescriptor> {
    let mut entries = vec![entry(key, HOLDS)];
    entries.extend(limit.ways.iter().map(|_| entry(WAY, HOLDS)));
    entries.extend(words(&limit.queries).map(|()| entry(QUERY, HOLDS)));
    let addresses: Vec<Option<&str>> = match &limit.addresses {
        Addresses::Every => vec![None],
        // An entry without a value stands for all values.
        Addresses::EachApart => vec![Some("")],
        Addresses::Listed(listed) => listed.iter().map(|address| Some(address.as_str())).collect(),
    };
    let counted: Vec<Entry> = values(limit, is_path_counted).map(|part| entry(&key_of(part), "")).collect();
    let bucket = bucket(tokens, duration(length));
    addresses.into_iter().map(move |address| {
        let mut entries = entries.clone();
        entries.extend(address.map(|address| entry(REMOTE_ADDRESS, address)));
        entries.extend(counted.iter().cloned());
        LocalRateLimitDescriptor { entries, token_bucket: Some(bucket) }
    })
}

/// Parts whose values are counted apart, the path once.
fn values(limit: &Limit, is_path_counted: bool) -> impl Iterator<Item = &Counted> {
    let by_way = is_path_counted && !limit.counted.contains(&Counted::Path);
    limit.counted.iter().chain(by_way.then_some(&Counted::Path))
}

fn key_of(part: &Counted) -> String {
    match part {
        Counted::Header(name) => format!("header {name}"),
        Counted::Query(name) => format!("query {name}"),
        Counted::Path => PATH.to_owned(),
    }
}

/// An action that says the value of a part, and keeps the whole descriptor back where there is none.
fn value(part: &Counted) -> Action {
    let descriptor_key = key_of(part);
    act(match part {
        Counted::Header(name) => ActionSpecifier::RequestHeaders(action::RequestHeaders {
            header_name: name.clone(),
            descriptor_key,
            skip_if_absent: false,
        }),
        Counted::Query(name) => ActionSpecifier::QueryParameters(action::QueryParameters {
            query_parameter_name: name.clone(),
            descriptor_key,
            skip_if_absent: false,
        }),
        Counted::Path => {
            let text = descriptor::ExprSpecifier::Text(PATH_EXPRESSION.to_owned());
            let message = Descriptor { descriptor_key, expr_specifier: Some(text) };
            ActionSpecifier::Extension(TypedExtensionConfig {
                name: EXPRESSION.to_owned(),
                typed_config: Some(Any::pack(&message)),
            })
        }
    })
}

/// That a way holds and none before it, with as many words for each of the ways.
fn of_ways(ways: &[Way], position: usize) -> Vec<Action> {
    let before = ways[..position].iter().map(|way| headers(&way.headers, false));
    let after = ways[position + 1..].iter().map(|_| generic(WAY));
    let holds = ways.get(position).map(|way| headers(&way.headers, true));
    holds.into_iter().chain(before).chain(after).collect()
}

/// The same for conditions on query parameters.
fn of_queries(queries: &[Vec<PartMatch>], position: usize) -> Vec<Action> {
    if words(queries).next().is_none() {
        return Vec::new();
    }
    let before = queries[..position].iter().map(|query| parameters(query, false));
    let after = queries[position + 1..].iter().map(|_| generic(QUERY));
    let holds = queries.get(position).map(|query| parameters(query, true));
    holds.into_iter().chain(before).chain(after).collect()
}

/// A word for each choice among conditions on query parameters; none if there are no conditions.
fn words(queries: &[Vec<PartMatch>]) -> impl Iterator<Item = ()> {
    let has_conditions = queries.iter().any(|query| !query.is_empty());
    queries.iter().filter(move |_| has_conditions).map(|_| ())
}

fn headers(conditions: &[PartMatch], is_expected: bool) -> Action {
    // Only the last way has no conditions, so that none has to exclude it.
    if conditions.is_empty() {
        return generic(WAY);
    }
    act(ActionSpecifier::HeaderValueMatch(action::HeaderValueMatch {
        descriptor_key: WAY.to_owned(),
        descriptor_value: HOLDS.to_owned(),
        expect_match: Some(is_expected),
        headers: conditions.iter().map(|condition| matchers::header(condition, None)).collect(),
    }))
}

fn parameters(conditions: &[PartMatch], is_expected: bool) -> Action {
    if conditions.is_empty() {
        return generic(QUERY);
    }
    act(ActionSpecifier::QueryParameterValueMatch(action::QueryParameterValueMatch {
        descriptor_key: QUERY.to_owned(),
        descriptor_value: HOLDS.to_owned(),
        expect_match: Some(is_expected),
        query_parameters: conditions.iter().filter_map(matchers::query).collect(),
    }))
}

/// An action that says a word of every request.
fn generic(key: &str) -> Action {
    let generic = action::GenericKey { descriptor_key: key.to_owned(), descriptor_value: HOLDS.to_owned() };
    act(ActionSpecifier::GenericKey(generic))
}

fn act(specifier: ActionSpecifier) -> Action {
    Action { action_specifier: Some(specifier) }
}

fn entry(key: &str, value: &str) -> Entry {
    Entry { key: key.to_owned(), value: value.to_owned() }
}

fn duration(span: Span) -> Duration {
    let (seconds, nanos) = (span.as_nanos() / NANOS_PER_SECOND, span.as_nanos() % NANOS_PER_SECOND);
    Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: i32::try_from(nanos).unwrap_or_default() }
}
