//! Results of discovery, read from a catalog.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::question::{DiscoveryKind, Question};
use crate::catalog::Catalog;
use crate::catalog::instances::InstanceCounts;
use crate::catalog::set_digest::SetDigest;
use crate::model::code::{Refusal, placed};
use crate::model::grant::ReadScope;
use crate::model::instance::Instance;
use crate::model::namespace::Namespace;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::routing::{RoutePolicy, Routing};
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{Body, Rule};
use crate::model::service::Service;

/// State of the requested resources at one moment.
pub struct Found {
    pub revision: String,
    /// The service, after its alias is resolved.
    pub service: ServiceKey,
    /// Index that the node had applied.
    pub applied_index: u64,
    pub findings: Findings,
    /// Releases that the revision is computed from, if rules are requested.
    pub releases: Vec<Arc<RuleRelease>>,
}

/// Resources found, with their counts.
pub enum Findings {
    /// The client has this revision.
    Unchanged,
    Services(Vec<(InstanceCounts, Arc<Service>)>),
    Namespaces(Vec<(usize, InstanceCounts, Arc<Namespace>)>),
    Instances(Vec<Arc<Instance>>),
    /// The rules of [`Found::releases`].
    Rules,
}

impl Found {
    pub(super) fn read(catalog: &Catalog, question: &Question, applied_index: u64) -> Result<Found, Refusal> {
        let service = question.resolve(catalog);
        let releases = releases(catalog, question, &service);
        let revision = match fold(catalog, question, &service)? {
            Some(fold) => fold.text(),
            None => revision_of(&releases),
        };
        let findings = match question.kind {
            // A client that has this revision needs no findings.
            _ if revision == question.revision => Findings::Unchanged,
            DiscoveryKind::Services => services(catalog, question),
            DiscoveryKind::Instances => instances(catalog, question, &service),
            DiscoveryKind::Namespaces => namespaces(catalog, &question.read_scope),
            DiscoveryKind::Rules(..) => Findings::Rules,
        };
        Ok(Found { revision, service, applied_index, findings, releases })
    }

    /// Returns the number of things that [`Found::read`] walks at most; 0 for a client that has the revision.
    pub(super) fn reach(catalog: &Catalog, question: &Question) -> usize {
        let service = question.resolve(catalog);
        // For a caller with a partial view, the digest has to be computed from what it sees.
        let is_known = || match fold(catalog, question, &service) {
            Ok(fold) => fold.is_some_and(|fold| fold.text() == question.revision),
            Err(_) => true,
        };
        let is_at_hand = question.read_scope.is_whole() || matches!(question.kind, DiscoveryKind::Instances);
        match question.kind {
            DiscoveryKind::Rules(family, _) => {
                catalog.rules.of(family).active().reach(&service.namespace, &service.service)
            }
            _ if is_at_hand && is_known() => 0,
            DiscoveryKind::Services => match question.namespace_if_any() {
                Some(namespace) => catalog.services.count_in(namespace),
                None => catalog.services.len(),
            },
            DiscoveryKind::Instances => catalog.instances.of_service(&service.namespace, &service.service).total,
            DiscoveryKind::Namespaces => catalog.namespaces.len(),
        }
    }

    /// Renders the answer unless the client has this revision, and drops the findings on the same thread: dropping many
    /// may be as slow as gathering them.
    pub(super) fn answered<A>(
        self,
        question: &Question,
        render: impl Fn(&Question, &Found) -> A,
    ) -> (Found, Option<A>) {
        let answer = (self.revision != question.revision).then(|| render(question, &self));
        (Found { findings: Findings::Unchanged, ..self }, answer)
    }

    /// Returns the service that the requested name is an alias of, if the client sees it.
    pub fn alias_target(&self, question: &Question) -> Option<&ServiceKey> {
        let ServiceKey { namespace, service } = &self.service;
        let is_other = *service != question.name || *namespace != question.namespace;
        (is_other && question.read_scope.sees(namespace, service)).then_some(&self.service)
    }
}

/// Computes the digest of what the caller sees; `None` for rules, whose revision is computed from their releases.
fn fold(catalog: &Catalog, question: &Question, service: &ServiceKey) -> Result<Option<SetDigest>, Refusal> {
    let scope = &question.read_scope;
    Ok(Some(match question.kind {
        DiscoveryKind::Services if !scope.is_whole() => {
            let all = catalog.services.all_in(question.namespace_if_any());
            let seen = all.filter(|service| scope.sees(&service.namespace, &service.name));
            seen.map(|service| SetDigest::of(&service.id, &service.revision)).sum()
        }
        DiscoveryKind::Namespaces if !scope.is_whole() => {
            let seen = catalog.namespaces.all().filter(|namespace| scope.sees_namespace(&namespace.name));
            seen.map(|namespace| SetDigest::of(&namespace.name, &namespace.revision)).sum()
        }
        DiscoveryKind::Services => catalog.services.fold_of(question.namespace_if_any()),
        DiscoveryKind::Instances => fold_of_instances(catalog, question, service)?,
        DiscoveryKind::Namespaces => catalog.namespaces.fold(),
        DiscoveryKind::Rules(..) => return Ok(None),
    }))
}

/// Returns the releases in force for the client; none if the question is not about rules.
fn releases(
    catalog: &Catalog,
    question: &Question,
    ServiceKey { namespace, service }: &ServiceKey,
) -> Vec<Arc<RuleRelease>> {
    let DiscoveryKind::Rules(family, policy) = question.kind else { return Vec::new() };
    if !question.read_scope.sees(namespace, service) {
        return Vec::new();
    }
    let mut releases = catalog.rules.of(family).active().of_service(namespace, service, |key| question.label(key));
    releases.retain(|release| release.rule.enable && has_policy(&release.rule, policy));
    releases
}

fn services(catalog: &Catalog, question: &Question) -> Findings {
    let wanted = |service: &&Arc<Service>| {
        question.read_scope.sees(&service.namespace, &service.name)
            && question.metadata.iter().all(|(key, value)| service.metadata.get(key) == Some(value))
    };
    let counted =
        |service: &Arc<Service>| (catalog.instances.of_service(&service.namespace, &service.name), service.clone());
    Findings::Services(catalog.services.all_in(question.namespace_if_any()).filter(wanted).map(counted).collect())
}

/// Returns the digest of the service and of all its instances.
fn fold_of_instances(
    catalog: &Catalog,
    question: &Question,
    ServiceKey { namespace, service: name }: &ServiceKey,
) -> Result<SetDigest, Refusal> {
    let fold = catalog.fold_of_list(namespace, name).filter(|_| question.read_scope.sees(namespace, name));
    fold.ok_or_else(|| Refusal::missing(&placed("service", namespace, name)))
}

fn instances(catalog: &Catalog, question: &Question, ServiceKey { namespace, service: name }: &ServiceKey) -> Findings {
    let wanted = |instance: &&Arc<Instance>| !question.only_healthy || (instance.healthy && !instance.isolate);
    Findings::Instances(catalog.instances.all_of(namespace, name).filter(wanted).cloned().collect())
}

fn namespaces(catalog: &Catalog, read_scope: &ReadScope) -> Findings {
    let counted = |namespace: &Arc<Namespace>| {
        let (services, instances) = catalog.counts_in(&namespace.name, read_scope);
        (services, instances, namespace.clone())
    };
    let seen = catalog.namespaces.all().filter(|namespace| read_scope.sees_namespace(&namespace.name));
    Findings::Namespaces(seen.map(counted).collect())
}

fn has_policy(rule: &Rule, wanted: Option<RoutePolicy>) -> bool {
    match (wanted, &rule.body) {
        (Some(wanted), Body::Routing(Routing { route_policy, .. })) => *route_policy == wanted,
        _ => true,
    }
}

/// Computes a revision that changes with every activation: release ids name one snapshot, versions are never reused.
fn revision_of(releases: &[Arc<RuleRelease>]) -> String {
    let mut hash = Sha256::new();
    for release in releases {
        hash.update(&release.id);
        hash.update([0]);
        hash.update(release.version.to_be_bytes());
    }
    hex::encode(&hash.finalize()[..16])
}
