//! Client-dependent inputs of resource building.
//!
//! A builder reads a property of the client only through an [`InputRecorder`], which records it. Clients whose recorded
//! inputs are equal share the built bytes. The variants of a resource form a tree
//! ([`VariantTree`](super::variants::VariantTree)), which is dropped when any dependency of the resource changes.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use super::cache::CatalogSnapshot;
use super::client::Client;
use super::locality::Locality;
use super::names::ServiceName;
use crate::model::mesh::Dialect;
use crate::model::mesh::caller::CallerFacts;
use crate::model::mesh::library::Library;
use crate::model::mesh::plan::{Abilities, CallerCondition};
use crate::model::rule::matching::MatchString;
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{End, Family};

/// Property of a client that a builder reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientInput {
    /// Release of a rule that is in force for the client.
    Release(u8, Arc<str>),
    /// Visibility of a service.
    Sees(ServiceName),
    /// Result of a condition on the caller.
    Meets(OwnedCallerCondition),
    /// Role of a gateway.
    IsGateway,
    /// Header in which requests name their caller.
    CallerHeader,
    TakesLargeExpressions,
    /// Client library; only meaningful without a proxy.
    Library,
    Address,
    CallingService,
    Label(Arc<str>),
    /// Locality from a level on; 0 is the narrowest.
    Locality(u32),
}

/// Owned form of a condition on the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedCallerCondition {
    Is(End, bool),
    Service(String, Option<MatchString>),
    Ip(Option<MatchString>),
    Metadata(String, Option<MatchString>),
}

impl OwnedCallerCondition {
    fn of(condition: &CallerCondition<'_>) -> OwnedCallerCondition {
        match condition {
            CallerCondition::Is { end, is_met_by_unknown } => OwnedCallerCondition::Is(end.clone(), *is_met_by_unknown),
            CallerCondition::Service { namespace, condition } => {
                OwnedCallerCondition::Service((*namespace).to_owned(), condition.cloned())
            }
            CallerCondition::Ip(condition) => OwnedCallerCondition::Ip(condition.cloned()),
            CallerCondition::Metadata { key, condition } => {
                OwnedCallerCondition::Metadata((*key).to_owned(), condition.cloned())
            }
        }
    }

    fn condition(&self) -> CallerCondition<'_> {
        match self {
            OwnedCallerCondition::Is(end, is_met_by_unknown) => {
                CallerCondition::Is { end: end.clone(), is_met_by_unknown: *is_met_by_unknown }
            }
            OwnedCallerCondition::Service(namespace, condition) => {
                CallerCondition::Service { namespace, condition: condition.as_ref() }
            }
            OwnedCallerCondition::Ip(condition) => CallerCondition::Ip(condition.as_ref()),
            OwnedCallerCondition::Metadata(key, condition) => {
                CallerCondition::Metadata { key, condition: condition.as_ref() }
            }
        }
    }
}

/// Hashes the texts only; conditions that differ elsewhere are rare.
impl Hash for OwnedCallerCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (key, condition) = match self {
            OwnedCallerCondition::Is(end, _) => return (&end.namespace, &end.service).hash(state),
            OwnedCallerCondition::Service(key, condition) | OwnedCallerCondition::Metadata(key, condition) => {
                (key.as_str(), condition)
            }
            OwnedCallerCondition::Ip(condition) => ("", condition),
        };
        (key, condition.as_ref().map(|condition| &condition.value)).hash(state);
    }
}

/// Value of an input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum InputValue {
    Is(bool),
    /// A text, or the id of a release.
    Text(Option<Arc<str>>),
    Locality(Locality),
    Library(Library),
}

impl InputValue {
    fn is(&self) -> bool {
        matches!(self, InputValue::Is(true))
    }

    fn text(self) -> Option<Arc<str>> {
        match self {
            InputValue::Text(text) => text,
            InputValue::Is(_) | InputValue::Locality(_) | InputValue::Library(_) => None,
        }
    }

    /// Returns the bytes of the texts.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            InputValue::Is(_) | InputValue::Library(_) => 0,
            InputValue::Text(text) => text.as_ref().map_or(0, |text| text.len()),
            InputValue::Locality(Locality { region, zone, campus }) => region.len() + zone.len() + campus.len(),
        }
    }
}

/// A client together with a snapshot of the catalog. Each input is computed once.
pub(crate) struct ClientContext<'a> {
    client: &'a Client,
    snapshot: Arc<CatalogSnapshot>,
    known: RefCell<HashMap<ClientInput, InputValue>>, // bound: request
}

impl<'a> ClientContext<'a> {
    pub(crate) fn new(snapshot: Arc<CatalogSnapshot>, client: &'a Client) -> Self {
        ClientContext { client, snapshot, known: RefCell::default() }
    }

    pub(crate) fn value(&self, input: &ClientInput) -> InputValue {
        // These are as numerous as the services and cheap to compute, so they are not stored.
        if let ClientInput::Sees(_) = input {
            return self.compute(input);
        }
        if let Some(value) = self.known.borrow().get(input) {
            return value.clone();
        }
        let value = self.compute(input);
        self.known.borrow_mut().insert(input.clone(), value.clone());
        value
    }

    fn compute(&self, input: &ClientInput) -> InputValue {
        let client = self.client;
        let text = |text: Option<&str>| InputValue::Text(text.map(Arc::from));
        match input {
            ClientInput::Release(family, rule) => {
                let family = Family::ALL.iter().copied().find(|known| *known as u8 == *family);
                let release = family.and_then(|family| {
                    self.snapshot
                        .rules
                        .of(family)
                        .active()
                        .release_for(rule, |key| client.labels.get(key).map(String::as_str))
                });
                text(release.map(|release| release.id.as_str()))
            }
            ClientInput::Sees(name) => InputValue::Is(client.read_scope.sees(&name.namespace, &name.service)),
            ClientInput::Meets(caller) => InputValue::Is(caller.condition().holds(client, &self.snapshot.matchers)),
            ClientInput::IsGateway => InputValue::Is(client.is_gateway()),
            ClientInput::CallerHeader => text(client.caller_header().as_deref()),
            ClientInput::TakesLargeExpressions => InputValue::Is(client.abilities().takes_large_expressions),
            ClientInput::Library => InputValue::Library(client.library),
            ClientInput::Address => InputValue::Text(self.address().map(Arc::from)),
            ClientInput::CallingService => text(client.caller.as_ref().map(|caller| caller.service.as_str())),
            ClientInput::Label(key) => text(client.labels.get(&**key).map(String::as_str)),
            ClientInput::Locality(first) => InputValue::Locality(client.locality.cut_below(*first)),
        }
    }

    fn address(&self) -> Option<String> {
        self.client.address.map(|address| address.to_canonical().to_string())
    }
}

impl CallerFacts for Client {
    fn service(&self) -> Option<&ServiceKey> {
        self.caller.as_ref()
    }

    fn address(&self) -> Option<IpAddr> {
        self.address
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
}

/// Recorder of the inputs read while one item is built, in order.
pub(crate) struct InputRecorder<'a> {
    context: &'a ClientContext<'a>,
    recorded: Vec<(ClientInput, InputValue)>,
    seen: HashSet<ClientInput>, // bound: request
    is_of_scope: bool,
}

impl<'a> InputRecorder<'a> {
    pub(crate) fn new(context: &'a ClientContext<'a>) -> Self {
        InputRecorder { context, recorded: Vec::new(), seen: HashSet::new(), is_of_scope: false }
    }

    /// Creates a recorder for items of one scope. Its clients see the same services, so visibility is not recorded.
    pub(crate) fn of_scope(context: &'a ClientContext<'a>) -> Self {
        InputRecorder { is_of_scope: true, ..InputRecorder::new(context) }
    }

    pub(crate) fn context(&self) -> &'a ClientContext<'a> {
        self.context
    }

    pub(crate) fn read(&mut self, input: ClientInput) -> InputValue {
        let value = self.context.value(&input);
        self.record(&input, &value);
        value
    }

    /// Records an input of another item that this item is built from.
    pub(crate) fn record(&mut self, input: &ClientInput, value: &InputValue) {
        let is_known = self.is_of_scope && matches!(input, ClientInput::Sees(_));
        if !is_known && self.seen.insert(input.clone()) {
            self.recorded.push((input.clone(), value.clone()));
        }
    }

    pub(crate) fn recorded(&self) -> &[(ClientInput, InputValue)] {
        &self.recorded
    }

    pub(crate) fn release(&mut self, family: Family, rule: &Arc<str>) -> Option<Arc<str>> {
        self.read(ClientInput::Release(family as u8, rule.clone())).text()
    }

    pub(crate) fn sees(&mut self, name: &ServiceName) -> bool {
        self.read(ClientInput::Sees(name.clone())).is()
    }

    pub(crate) fn meets(&mut self, condition: &CallerCondition<'_>) -> bool {
        self.read(ClientInput::Meets(OwnedCallerCondition::of(condition))).is()
    }

    pub(crate) fn abilities(&mut self, dialect: Dialect) -> Abilities {
        let is_gateway = self.read(ClientInput::IsGateway).is();
        Abilities {
            dialect,
            is_gateway,
            has_caller_header: is_gateway && self.caller_header().is_some(),
            takes_large_expressions: dialect == Dialect::Envoy && self.read(ClientInput::TakesLargeExpressions).is(),
            is_callee_grpc: false,
            library: Library::Core,
        }
    }

    pub(crate) fn library(&mut self) -> Library {
        match self.read(ClientInput::Library) {
            InputValue::Library(library) => library,
            InputValue::Is(_) | InputValue::Text(_) | InputValue::Locality(_) => Library::Core,
        }
    }

    pub(crate) fn caller_header(&mut self) -> Option<Arc<str>> {
        self.read(ClientInput::CallerHeader).text()
    }

    pub(crate) fn address(&mut self) -> Option<Arc<str>> {
        self.read(ClientInput::Address).text()
    }

    /// Returns the name of the calling service.
    pub(crate) fn caller(&mut self) -> Option<Arc<str>> {
        self.read(ClientInput::CallingService).text()
    }

    pub(crate) fn label(&mut self, key: &str) -> Option<Arc<str>> {
        self.read(ClientInput::Label(key.into())).text()
    }

    /// Returns the locality from a level on.
    pub(crate) fn locality(&mut self, first: u32) -> Locality {
        match self.read(ClientInput::Locality(first)) {
            InputValue::Locality(locality) => locality,
            InputValue::Is(_) | InputValue::Text(_) | InputValue::Library(_) => Locality::default(),
        }
    }
}
