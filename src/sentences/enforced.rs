//! The clients that enforce a rule, in one line.

use super::conditions::{cut, joined};
use super::language::Language;
use super::warnings::warnings;
use crate::model::mesh::carried::{CarriedOutBy, Extent, ExtentOfClient};

/// Maximum characters of a reason; the extents themselves have the whole.
const REASON_CHARS_MAX: usize = 400;

/// Describes the extent to which each kind of client enforces a rule; kinds with the same extent and reasons are named
/// together.
pub(crate) fn enforced(language: Language, by: &CarriedOutBy) -> String {
    let mut groups: Vec<(Vec<String>, &ExtentOfClient)> = Vec::new();
    for (name, extent) in clients(language, by) {
        match groups.iter_mut().find(|(_, found)| *found == extent) {
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], extent)),
        }
    }
    let groups = groups.into_iter().map(|(names, extent)| {
        let names = joined(language, names, |first, second| language.comma(first, second));
        language.client_extent(names, of_extent(language, extent))
    });
    language.clauses(groups)
}

/// Returns the kinds of clients with their extents; those that do not differ under one name.
fn clients(language: Language, by: &CarriedOutBy) -> Vec<(String, &ExtentOfClient)> {
    let (proxies, libraries) = (&by.envoy_proxies, &by.grpc_libraries);
    let mut clients = match proxies.sidecar == proxies.gateway {
        true => vec![(language.sidecar_and_gateway(), &proxies.sidecar)],
        false => vec![(language.sidecar(), &proxies.sidecar), (language.gateway(), &proxies.gateway)],
    };
    let named = [
        ("gRPC C++/Python/Ruby/PHP", &libraries.core),
        ("gRPC Go", &libraries.go),
        ("gRPC Java", &libraries.java),
        ("gRPC Node", &libraries.node),
    ];
    match named.iter().all(|(_, extent)| *extent == &libraries.core) {
        true => clients.push(("gRPC".to_owned(), &libraries.core)),
        false => clients.extend(named.map(|(name, extent)| (name.to_owned(), extent))),
    }
    clients.push(("Polaris SDKs".to_owned(), &by.polaris_sdks));
    clients
}

fn of_extent(language: Language, extent: &ExtentOfClient) -> String {
    let word = match extent.word {
        Extent::Yes => language.yes(),
        Extent::Partly => language.partly(),
        Extent::No => language.no(),
    };
    match extent.reason.is_empty() {
        true => word,
        false => language.with_reason(word, cut(&warnings(language, &extent.reason), REASON_CHARS_MAX)),
    }
}
