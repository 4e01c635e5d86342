//! Names of resources.
//!
//! | name | resource |
//! |---|---|
//! | `NAMESPACE/SERVICE` | listener and routes of a service for gRPC, its cluster and endpoints |
//! | `NAMESPACE/SERVICE\|HEX12` | cluster and endpoints of a subset |
//! | `…@REGION/ZONE/CAMPUS` | endpoints as callers of that locality prefer them |
//! | `outbound`, `outbound/NAMESPACE` | routes to all services, or to those of a namespace, for proxies |
//! | `server/IP:PORT` | listener of a gRPC server |
//! | `inbound/NAMESPACE/SERVICE` | routes and cluster of the service next to a proxy |
//!
//! A namespace ends at the first `/`; a slash inside of it is written `%2F`. `xdstp://AUTHORITY/TYPE/` is followed by a
//! name in which every character that a URI does not permit is escaped.

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use super::locality::Locality;
use crate::model::mesh::SERVER_LISTENERS;
use crate::model::mesh::resource::ResourceType;
use crate::model::percent::{escaped, is_in_namespace, is_in_uri, unescaped, write_escaped};
use crate::model::rule::matching::ALL;
use crate::model::rule::traffic::ServiceKey;

pub(crate) const OUTBOUND: &str = "outbound";
pub(crate) const INBOUND: &str = "inbound";

/// Namespace and name of a service, or of an alias; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServiceName {
    pub(crate) namespace: Arc<str>,
    pub(crate) service: Arc<str>,
}

impl ServiceName {
    pub(crate) fn new(namespace: &str, service: &str) -> ServiceName {
        ServiceName { namespace: namespace.into(), service: service.into() }
    }

    /// Returns the key that rules use.
    pub(crate) fn key(&self) -> ServiceKey {
        ServiceKey { namespace: self.namespace.to_string(), service: self.service.to_string() }
    }

    /// Reports whether this pattern matches a service. `*` matches every namespace or name.
    pub(crate) fn covers(&self, name: &ServiceName) -> bool {
        let is = |pattern: &str, text: &str| pattern == ALL || pattern == text;
        is(&self.namespace, &name.namespace) && is(&self.service, &name.service)
    }

    pub(crate) fn parse(text: &str) -> Option<ServiceName> {
        let (namespace, service) = text.split_once('/')?;
        let is_whole = !namespace.is_empty() && !service.is_empty();
        is_whole.then(|| ServiceName::new(&unescaped(namespace), service))
    }
}

impl From<&ServiceKey> for ServiceName {
    fn from(key: &ServiceKey) -> Self {
        ServiceName::new(&key.namespace, &key.service)
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, &self.namespace, is_in_namespace)?;
        write!(f, "/{}", self.service)
    }
}

/// Hash that distinguishes the subsets of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SubsetHash(pub [u8; 6]);

impl SubsetHash {
    fn parse(text: &str) -> Option<SubsetHash> {
        let mut hash = [0; 6];
        let is_lower = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
        (is_lower && hex::decode_to_slice(text, &mut hash).is_ok()).then_some(SubsetHash(hash))
    }
}

impl fmt::Display for SubsetHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Name of a cluster or of its endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClusterName {
    pub(crate) service: ServiceName,
    /// Subset; none for all instances of the service.
    pub(crate) subset: Option<SubsetHash>,
    /// Locality of the callers; only in names of endpoints.
    pub(crate) locality: Option<Locality>,
}

impl ClusterName {
    pub(crate) fn parse(text: &str) -> Option<ClusterName> {
        let (cluster, locality) = match text.split_once('@') {
            Some((cluster, locality)) => (cluster, Some(parse_locality(locality)?)),
            None => (text, None),
        };
        let (service, subset) = match cluster.split_once('|') {
            Some((service, subset)) => (service, Some(SubsetHash::parse(subset)?)),
            None => (cluster, None),
        };
        Some(ClusterName { service: ServiceName::parse(service)?, subset, locality })
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.service)?;
        if let Some(subset) = &self.subset {
            write!(f, "|{subset}")?;
        }
        let Some(Locality { region, zone, campus }) = &self.locality else { return Ok(()) };
        for (between, part) in [('@', region), ('/', zone), ('/', campus)] {
            f.write_char(between)?;
            write_escaped(f, part, is_in_locality)?;
        }
        Ok(())
    }
}

/// Name of routes for proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProxyRoutes {
    /// Routes to the services of one namespace, or of all.
    Outbound(Option<Arc<str>>),
    Inbound(ServiceName),
}

impl ProxyRoutes {
    pub(crate) fn parse(text: &str) -> Option<ProxyRoutes> {
        match text.split_once('/') {
            None => (text == OUTBOUND).then_some(ProxyRoutes::Outbound(None)),
            Some((OUTBOUND, "")) => None,
            Some((OUTBOUND, namespace)) if !namespace.contains('/') => {
                Some(ProxyRoutes::Outbound(Some(unescaped(namespace).into())))
            }
            Some((INBOUND, service)) => ServiceName::parse(service).map(ProxyRoutes::Inbound),
            Some(_) => None,
        }
    }
}

/// Returns the name of the routes for proxies to the services of a namespace, or of all.
pub(crate) fn outbound(namespace: Option<&str>) -> String {
    let mut name = OUTBOUND.to_owned();
    if let Some(namespace) = namespace {
        name.push('/');
        name.push_str(&escaped(namespace, is_in_namespace));
    }
    name
}

/// Returns the name of the routes and the cluster of the service next to a proxy.
pub(crate) fn inbound(service: &ServiceName) -> String {
    format!("{INBOUND}/{service}")
}

/// Returns the address in the name of a gRPC server's listener: `server/IP:PORT`.
pub(crate) fn listening_server(name: &str) -> Option<SocketAddr> {
    name.strip_prefix(SERVER_LISTENERS)?.parse().ok()
}

/// Name under an authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Federated<'a> {
    pub(crate) authority: &'a str,
    pub(crate) kind: ResourceType,
    /// Escaped name after the type, without context parameters.
    pub(crate) escaped: &'a str,
}

impl<'a> Federated<'a> {
    /// Parses a name. Returns `None` if it has no authority or is malformed.
    pub(crate) fn parse(text: &'a str) -> Option<Federated<'a>> {
        let (authority, rest) = text.strip_prefix("xdstp://")?.split_once('/')?;
        let (kind, rest) = rest.split_once('/')?;
        let kind = ResourceType::ALL.into_iter().find(|known| short_type(*known) == kind)?;
        let escaped = rest.split(['?', '#']).next().filter(|name| !name.is_empty())?;
        Some(Federated { authority, kind, escaped })
    }

    pub(crate) fn name(&self) -> String {
        unescaped(self.escaped)
    }
}

/// Returns a name under an authority in the form used in resources.
pub(crate) fn federated(authority: &str, kind: ResourceType, name: &str) -> String {
    let mut text = format!("xdstp://{authority}/{}/", short_type(kind));
    text.push_str(&escaped(name, is_in_uri));
    text
}

fn short_type(kind: ResourceType) -> &'static str {
    kind.type_url().rsplit('/').next().unwrap_or_default()
}

fn parse_locality(text: &str) -> Option<Locality> {
    let mut parts = text.split('/').map(unescaped);
    let (region, zone, campus) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(Locality { region, zone, campus })
}

fn is_in_locality(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'/' | b'%' | b'@' | b'|')
}

/// Returns a name without the authority and type of an `xdstp:` name.
pub(super) fn bare(name: &str) -> &str {
    let path = name.strip_prefix("xdstp://").and_then(|rest| rest.splitn(3, '/').nth(2));
    path.map_or(name, |path| path.split('?').next().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscribers::lists::EndpointsName;

    fn cluster(service: (&str, &str), subset: Option<[u8; 6]>, locality: Option<[&str; 3]>) -> ClusterName {
        let locality = locality.map(|[region, zone, campus]| Locality {
            region: region.into(),
            zone: zone.into(),
            campus: campus.into(),
        });
        ClusterName { service: ServiceName::new(service.0, service.1), subset: subset.map(SubsetHash), locality }
    }

    #[test]
    fn clusters_are_written_and_read() {
        let hash = Some([0, 1, 2, 0xab, 0xcd, 0xef]);
        let rows = [
            ("shop/pay", cluster(("shop", "pay"), None, None)),
            ("shop/pay|000102abcdef", cluster(("shop", "pay"), hash, None)),
            ("shop/pay@eu/eu-1/c1", cluster(("shop", "pay"), None, Some(["eu", "eu-1", "c1"]))),
            ("shop/pay|000102abcdef@eu//", cluster(("shop", "pay"), hash, Some(["eu", "", ""]))),
            ("a%2Fb/c/d", cluster(("a/b", "c/d"), None, None)),
            ("a/b/c", cluster(("a", "b/c"), None, None)),
            ("s/p@a%2Fb/%40%7C/%C3%A9%20", cluster(("s", "p"), None, Some(["a/b", "@|", "é "]))),
        ];
        for (text, name) in rows {
            assert_eq!(name.to_string(), text);
            assert_eq!(ClusterName::parse(text).as_ref(), Some(&name), "{text}");
            // The register of clients must recognize the same names.
            let known = EndpointsName::of(&name.service.namespace, &name.service.service);
            let federated = federated("thuban.example", ResourceType::Endpoints, text);
            assert!(known.is(text) && known.is(&federated), "{text} {federated}");
            assert!(!known.is(&format!("{text}x")) || name.subset.is_some() || name.locality.is_some(), "{text}");
        }
        for text in
            ["", "shop", "/pay", "shop/", "s/p|", "s/p|00", "s/p|000102ABCDEF", "s/p@", "s/p@a/b", "s/p@a/b/c/d"]
        {
            assert_eq!(ClusterName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_of_proxies_are_read() {
        let service = ServiceName::new("a/b", "c");
        let rows = [
            ("outbound", Some(ProxyRoutes::Outbound(None))),
            ("outbound/a%2Fb", Some(ProxyRoutes::Outbound(Some("a/b".into())))),
            ("inbound/a%2Fb/c", Some(ProxyRoutes::Inbound(service.clone()))),
            ("outbound/", None),
            ("outbound/a/b", None),
            ("inbound", None),
            ("inbound/a", None),
            ("shop/pay", None),
        ];
        for (text, name) in rows {
            assert_eq!(ProxyRoutes::parse(text), name, "{text}");
        }
        assert_eq!((outbound(None).as_str(), outbound(Some("a/b")).as_str()), ("outbound", "outbound/a%2Fb"));
        assert_eq!(inbound(&service), "inbound/a%2Fb/c");
    }

    #[test]
    fn names_under_an_authority_are_escaped() {
        let text = "xdstp://thuban.example/envoy.config.cluster.v3.Cluster/a%252Fb/c%7C000102abcdef?zone=a";
        let read = Federated::parse(text).expect("well made");
        assert_eq!((read.authority, read.kind), ("thuban.example", ResourceType::Cluster));
        assert_eq!(read.name(), "a%2Fb/c|000102abcdef");
        assert_eq!(federated(read.authority, read.kind, &read.name()), text.trim_end_matches("?zone=a"));
        for text in ["shop/pay", "xdstp://a", "xdstp://a/b/c", "xdstp://a/envoy.config.cluster.v3.Cluster/"] {
            assert_eq!(Federated::parse(text), None, "{text}");
        }
    }

    #[test]
    fn escapes_that_are_none_stay() {
        for text in ["a%", "a%2", "a%zz", "%ff", "%+1", "a%é"] {
            assert_eq!(unescaped(text), text);
        }
    }
}
