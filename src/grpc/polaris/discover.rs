//! Discovery: exactly one answer for each question, in order. The next question is read once the answer was taken.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::{self, StreamExt};
use tonic::{Status, Streaming};

use super::{Failure, Sdk};
use crate::catalog::Catalog;
use crate::grpc::HealthWatch;
use crate::grpc::admission::refusal;
use crate::grpc::ads::check;
use crate::model::code::Code;
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::rule::routing::RoutePolicy;
use crate::model::rule::{Family, Rule};
use crate::operations::{Caller, Operations};
use crate::polaris::kind::{DiscoveredKind, Wanted, is_refused_to_probes};
use crate::polaris::naming::{instance, namespace_or_default, service};
use crate::polaris::{AskedService, revision, rules, v1};
use crate::reads::{Discoverer, Discovery, DiscoveryKind, Findings, Found, Question};

/// Code from which Java drops the stream without ending it.
const SERVER_FAULT: u32 = 500_000;

/// Parts of a node that answer questions.
pub(super) struct Answering {
    pub(super) operations: Arc<Operations>,
    pub(super) health: HealthWatch,
}

type Answers = Pin<Box<dyn Stream<Item = Result<v1::DiscoverResponse, Status>> + Send>>;

/// A stream of one client.
struct Talk {
    answering: Arc<Answering>,
    sdk: Sdk,
    questions: Streaming<v1::DiscoverRequest>,
    has_answered: bool,
}

impl Answering {
    /// Returns the answers of a stream.
    pub(super) fn answers(self: Arc<Self>, sdk: Sdk, questions: Streaming<v1::DiscoverRequest>) -> Answers {
        let talk = Talk { answering: self, sdk, questions, has_answered: false };
        Box::pin(stream::unfold(Some(talk), |talk| async { talk?.next().await }))
    }

    async fn answer(&self, sdk: &mut Sdk, asked: v1::DiscoverRequest) -> Result<v1::DiscoverResponse, Status> {
        check(&self.health)?;
        if sdk.visitor.certificate.as_ref().is_some_and(|certificate| !certificate.is_good()) {
            return Err(Status::unauthenticated("the certificate of this client counts no more"));
        }
        // Grants may have changed since the stream began.
        if let Some(caller) = &mut sdk.visitor.caller {
            *caller = caller.again(&self.operations).map_err(refusal)?;
        }
        let empty = |code: Code, service: v1::Service| v1::DiscoverResponse {
            code: Some(code.number()),
            info: Some(code.info().to_owned()),
            r#type: asked.r#type,
            service: Some(service),
            direction: asked.direction,
            ..v1::DiscoverResponse::default()
        };
        let name = |service: &v1::Service, revision: &str| v1::Service {
            name: Some(service.name.clone().unwrap_or_default()),
            namespace: Some(service.namespace.clone().unwrap_or_default()),
            business: service.business.clone(),
            revision: Some(revision.to_owned()),
            ..v1::Service::default()
        };
        let Some(service) = &asked.service else {
            let is_refused = is_refused_to_probes(asked.r#type);
            let code = if is_refused { Code::InvalidDiscoverResource } else { Code::ExecuteSuccess };
            return Ok(empty(code, name(&v1::Service::default(), "")));
        };
        let kind = match Wanted::of(asked.r#type) {
            Wanted::Known(kind) => kind,
            Wanted::Unknown if asked.r#type == 0 => {
                return Ok(empty(Code::InvalidDiscoverResource, name(service, "")));
            }
            Wanted::Empty | Wanted::Unknown => return Ok(empty(Code::ExecuteSuccess, name(service, ""))),
        };
        let found = self.find(sdk, kind, service).await;
        let found = match found.map_err(Failure::coded) {
            Ok(found) => found,
            Err(coded) => {
                let (code, info) = coded?;
                let code = if code == Code::NotFoundService.number() { Code::NotFoundResource.number() } else { code };
                let answer = empty(Code::ExecuteException, name(service, ""));
                return Ok(v1::DiscoverResponse { code: Some(code), info: Some(info), ..answer });
            }
        };
        let FoundContent { code, revision, mut answer } = found;
        let full = answer.service.take().unwrap_or_default();
        let named = v1::Service { metadata: full.metadata, department: full.department, ..name(service, &revision) };
        let business = full.business.filter(|_| kind == DiscoveredKind::Instances).or(named.business.clone());
        let base = empty(code, v1::Service { business, ..named });
        Ok(v1::DiscoverResponse {
            code: base.code,
            info: base.info,
            r#type: base.r#type,
            service: base.service,
            direction: base.direction,
            ..answer
        })
    }

    async fn find(&self, sdk: &Sdk, kind: DiscoveredKind, asked: &v1::Service) -> Result<FoundContent, Failure> {
        let given = asked.revision.as_deref().unwrap_or_default();
        let namespace = namespace_or_default(asked.namespace.as_deref()).to_owned();
        let (discovery_kind, known) = match kind {
            DiscoveredKind::Instances => (DiscoveryKind::Instances, given),
            DiscoveredKind::Services => (DiscoveryKind::Services, given),
            DiscoveredKind::Nearby => {
                (DiscoveryKind::Rules(Family::Routing, Some(RoutePolicy::Nearby)), revision::rules_of(given))
            }
            DiscoveredKind::Rules(family) => (DiscoveryKind::Rules(family, None), revision::rules_of(given)),
        };
        let address = sdk.visitor.address;
        let question = Question {
            kind: discovery_kind,
            namespace,
            name: asked.name.clone().unwrap_or_default(),
            revision: known.to_owned(),
            metadata: BTreeMap::new(),
            only_healthy: false,
            read_scope: sdk.visitor.caller.as_ref().map_or(ReadScope::Everything, Caller::client_sight),
            labels: self.labels(&sdk.visitor),
            agent: sdk.agent.clone(),
            address,
            is_polaris: true,
            hold: Duration::ZERO,
        };
        let question = question.checked()?;
        let asker = match &sdk.visitor.caller {
            Some(caller) => Discoverer::Identified(caller.clone()),
            None => Discoverer::Anonymous(sdk.visitor.origin),
        };
        let (key, has_service) =
            ((question.namespace.clone(), question.name.clone()), kind == DiscoveredKind::Instances);
        let render = Arc::new(move |question: &Question, found: &Found| content(kind, question, found));
        let content = Discovery::of(self.operations.clone(), asker, question, render).answer().await?;
        let catalog = self.operations.node().state().catalog();
        Ok(if has_service { content.with_service(&catalog, &key) } else { content })
    }

    /// Returns the labels that select gray releases for a client: the metadata of the instances registered on its host.
    /// A key with different values on them is none.
    fn labels(&self, visitor: &crate::grpc::Visitor) -> BTreeMap<String, String> {
        let Some(address) = visitor.address.map(|address| address.to_string()) else { return BTreeMap::new() };
        let scope = visitor.caller.as_ref().map_or(ReadScope::Everything, Caller::client_sight);
        let catalog = self.operations.node().state().catalog();
        let mut labels: BTreeMap<&String, Option<&String>> = BTreeMap::new();
        let instances = catalog.instances.on_host(&address).take(limits::METADATA_ENTRIES_MAX);
        for instance in instances.filter(|one| scope.sees(&one.namespace, &one.service)) {
            for (key, value) in &instance.metadata {
                let known = labels.entry(key).or_insert(Some(value));
                *known = known.filter(|known| *known == value);
            }
        }
        let agreed = labels.into_iter().filter_map(|(key, value)| Some((key.clone(), value?.clone())));
        agreed.take(limits::METADATA_ENTRIES_MAX - 1).collect()
    }
}

impl Talk {
    /// Answers the next question. Returns the answer, and the stream if it goes on.
    async fn next(mut self) -> Option<(Result<v1::DiscoverResponse, Status>, Option<Talk>)> {
        let asked = match self.questions.next().await? {
            Ok(asked) => asked,
            Err(status) => return Some((Err(status), None)),
        };
        let is_probe = asked.service.is_none();
        let answer = match self.answering.answer(&mut self.sdk, asked).await {
            Ok(answer) => answer,
            Err(status) => return Some((Err(status), None)),
        };
        // Java opens a stream for a probe and never ends it, and drops one with a fault of the server.
        let is_last = (is_probe && !self.has_answered) || answer.code.is_some_and(|code| code >= SERVER_FAULT);
        self.has_answered = true;
        Some((Ok(answer), (!is_last).then_some(self)))
    }
}

/// Content of an answer.
struct FoundContent {
    code: Code,
    revision: String,
    answer: v1::DiscoverResponse,
}

impl FoundContent {
    /// Adds what SDKs read of the service itself.
    fn with_service(mut self, catalog: &Catalog, (namespace, name): &(String, String)) -> FoundContent {
        let alias = catalog.aliases.get(namespace, name);
        let (namespace, name) = alias.map_or((namespace, name), |alias| (&alias.namespace, &alias.service));
        if self.code == Code::ExecuteSuccess {
            self.answer.service = catalog.services.get(namespace, name).map(|found| service(found));
        }
        self
    }
}

/// Returns the content of an answer. A client that has the revision gets none.
fn content(kind: DiscoveredKind, question: &Question, found: &Found) -> FoundContent {
    let is_of_rules = matches!(kind, DiscoveredKind::Rules(_) | DiscoveredKind::Nearby);
    let revision_text = || match is_of_rules {
        true => revision::of_rules(&found.revision),
        false => found.revision.clone(),
    };
    let mut answer = v1::DiscoverResponse::default();
    let unchanged = matches!(found.findings, Findings::Unchanged);
    if unchanged && !question.revision.is_empty() {
        return FoundContent { code: Code::DataNoChange, revision: revision_text(), answer };
    }
    answer.alias_for = found.alias_target(question).map(|target| v1::Service {
        name: Some(target.service.clone()),
        namespace: Some(target.namespace.clone()),
        ..v1::Service::default()
    });
    let mut revision = revision_text();
    match &found.findings {
        Findings::Instances(instances) => answer.instances = instances.iter().map(|one| instance(one)).collect(),
        Findings::Services(services) => {
            let counted = |(counts, found): &(crate::catalog::instances::InstanceCounts, Arc<_>)| v1::Service {
                total_instance_count: u32::try_from(counts.total).ok(),
                healthy_instance_count: u32::try_from(counts.healthy).ok(),
                ..service(found)
            };
            answer.services = services.iter().map(counted).collect();
        }
        Findings::Rules => {
            if found.releases.is_empty() {
                revision = String::new();
            }
            let enabled: Vec<&Rule> = found.releases.iter().map(|release| &*release.rule).collect();
            let asked =
                AskedService { namespace: &question.namespace, service: &question.name, target: &found.service };
            rules::add(&mut answer, kind, &enabled, asked, &revision);
        }
        Findings::Unchanged | Findings::Namespaces(_) => {}
    }
    FoundContent { code: Code::ExecuteSuccess, revision, answer }
}
