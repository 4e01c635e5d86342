//! Descriptors of rate limits: the entries that a request produces, and the buckets for them.
//!
//! Each period of a limit has a key that distinguishes its descriptors. It is followed by one entry for each way in
//! which a request can meet the conditions: first that one way matches, then that each earlier way does not match. A
//! request that matches several ways is therefore counted once, and all ways share a bucket.

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

/// Value of entries whose presence alone counts.
const HOLDS: &str = "1";
const WAY: &str = "way";
const QUERY: &str = "query";
/// Key that proxies use for the address of the caller.
const REMOTE_ADDRESS: &str = "remote_address";
const PATH: &str = "path";
const EXPRESSION: &str = "envoy.rate_limit_descriptors.expr";
/// Expression for the path without the query.
const PATH_EXPRESSION: &str = "request.url_path";
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Adds the buckets for one period of a limit, and the actions that fill them.
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
            // Empty buckets do not exist. Each request takes two tokens from a bucket that holds one.
            let hits_addend = (total == 0).then_some(HitsAddend { number: Some(2) });
            message.rate_limits.push(RateLimit { actions, hits_addend });
        }
    }
    // A proxy refuses a configuration with duplicate buckets.
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
        // An entry without a value matches all values.
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

/// Returns the parts whose values are counted separately, with the path at most once.
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

/// Returns an action for the value of a part. It suppresses the descriptor if the part is missing.
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

/// Returns the entries for: this way matches, and no earlier one does. Their number is the same for every way.
fn of_ways(ways: &[Way], position: usize) -> Vec<Action> {
    let before = ways[..position].iter().map(|way| headers(&way.headers, false));
    let after = ways[position + 1..].iter().map(|_| generic(WAY));
    let holds = ways.get(position).map(|way| headers(&way.headers, true));
    holds.into_iter().chain(before).chain(after).collect()
}

/// Returns the same for conditions on query parameters.
fn of_queries(queries: &[Vec<PartMatch>], position: usize) -> Vec<Action> {
    if words(queries).next().is_none() {
        return Vec::new();
    }
    let before = queries[..position].iter().map(|query| parameters(query, false));
    let after = queries[position + 1..].iter().map(|_| generic(QUERY));
    let holds = queries.get(position).map(|query| parameters(query, true));
    holds.into_iter().chain(before).chain(after).collect()
}

/// Returns one item per alternative of the conditions on query parameters, or none if there are no conditions.
fn words(queries: &[Vec<PartMatch>]) -> impl Iterator<Item = ()> {
    let has_conditions = queries.iter().any(|query| !query.is_empty());
    queries.iter().filter(move |_| has_conditions).map(|_| ())
}

fn headers(conditions: &[PartMatch], is_expected: bool) -> Action {
    // Only the last way has no conditions, so it is never excluded.
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

/// Returns an action that adds the same entry to every request.
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
