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
use super::client::{Client, Place};
use super::names::ServiceName;
use super::resources::place_from;
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
    Meets(CallerQuestion),
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
    Place(u32),
}

/// Owned form of a condition on the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallerQuestion {
    Is(End, bool),
    Service(String, Option<MatchString>),
    Ip(Option<MatchString>),
    Metadata(String, Option<MatchString>),
}

impl CallerQuestion {
    fn of(condition: &CallerCondition<'_>) -> CallerQuestion {
        match condition {
            CallerCondition::Is { end, is_met_by_unknown } => CallerQuestion::Is(end.clone(), *is_met_by_unknown),
            CallerCondition::Service { namespace, condition } => {
                CallerQuestion::Service((*namespace).to_owned(), condition.cloned())
            }
            CallerCondition::Ip(condition) => CallerQuestion::Ip(condition.cloned()),
            CallerCondition::Metadata { key, condition } => {
                CallerQuestion::Metadata((*key).to_owned(), condition.cloned())
            }
        }
    }

    fn condition(&self) -> CallerCondition<'_> {
        match self {
            CallerQuestion::Is(end, is_met_by_unknown) => {
                CallerCondition::Is { end: end.clone(), is_met_by_unknown: *is_met_by_unknown }
            }
            CallerQuestion::Service(namespace, condition) => {
                CallerCondition::Service { namespace, condition: condition.as_ref() }
            }
            CallerQuestion::Ip(condition) => CallerCondition::Ip(condition.as_ref()),
            CallerQuestion::Metadata(key, condition) => {
                CallerCondition::Metadata { key, condition: condition.as_ref() }
            }
        }
    }
}

/// Hashes the texts only; conditions that differ elsewhere are rare.
impl Hash for CallerQuestion {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (key, condition) = match self {
            CallerQuestion::Is(end, _) => return (&end.namespace, &end.service).hash(state),
            CallerQuestion::Service(key, condition) | CallerQuestion::Metadata(key, condition) => {
                (key.as_str(), condition)
            }
            CallerQuestion::Ip(condition) => ("", condition),
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
    Place(Place),
    Library(Library),
}

impl InputValue {
    fn is(&self) -> bool {
        matches!(self, InputValue::Is(true))
    }

    fn text(self) -> Option<Arc<str>> {
        match self {
            InputValue::Text(text) => text,
            InputValue::Is(_) | InputValue::Place(_) | InputValue::Library(_) => None,
        }
    }

    /// Returns the bytes of the texts.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            InputValue::Is(_) | InputValue::Library(_) => 0,
            InputValue::Text(text) => text.as_ref().map_or(0, |text| text.len()),
            InputValue::Place(Place { region, zone, campus }) => region.len() + zone.len() + campus.len(),
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

    pub(crate) fn answer(&self, question: &ClientInput) -> InputValue {
        // These are as numerous as the services and cheap to compute, so they are not stored.
        if let ClientInput::Sees(_) = question {
            return self.judge(question);
        }
        if let Some(answer) = self.known.borrow().get(question) {
            return answer.clone();
        }
        let answer = self.judge(question);
        self.known.borrow_mut().insert(question.clone(), answer.clone());
        answer
    }

    fn judge(&self, question: &ClientInput) -> InputValue {
        let client = self.client;
        let text = |text: Option<&str>| InputValue::Text(text.map(Arc::from));
        match question {
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
            ClientInput::Place(first) => InputValue::Place(place_from(*first, &client.place)),
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
    asked: Vec<(ClientInput, InputValue)>,
    seen: HashSet<ClientInput>, // bound: request
    is_of_scope: bool,
}

impl<'a> InputRecorder<'a> {
    pub(crate) fn new(context: &'a ClientContext<'a>) -> Self {
        InputRecorder { context, asked: Vec::new(), seen: HashSet::new(), is_of_scope: false }
    }

    /// Creates a recorder for items of one scope. Its clients see the same services, so visibility is not recorded.
    pub(crate) fn of_scope(context: &'a ClientContext<'a>) -> Self {
        InputRecorder { is_of_scope: true, ..InputRecorder::new(context) }
    }

    pub(crate) fn context(&self) -> &'a ClientContext<'a> {
        self.context
    }

    pub(crate) fn ask(&mut self, question: ClientInput) -> InputValue {
        let answer = self.context.answer(&question);
        self.note(&question, &answer);
        answer
    }

    /// Records an input of another item that this item is built from.
    pub(crate) fn note(&mut self, question: &ClientInput, answer: &InputValue) {
        let is_known = self.is_of_scope && matches!(question, ClientInput::Sees(_));
        if !is_known && self.seen.insert(question.clone()) {
            self.asked.push((question.clone(), answer.clone()));
        }
    }

    pub(crate) fn asked(&self) -> &[(ClientInput, InputValue)] {
        &self.asked
    }

    pub(crate) fn release(&mut self, family: Family, rule: &Arc<str>) -> Option<Arc<str>> {
        self.ask(ClientInput::Release(family as u8, rule.clone())).text()
    }

    pub(crate) fn sees(&mut self, name: &ServiceName) -> bool {
        self.ask(ClientInput::Sees(name.clone())).is()
    }

    pub(crate) fn meets(&mut self, condition: &CallerCondition<'_>) -> bool {
        self.ask(ClientInput::Meets(CallerQuestion::of(condition))).is()
    }

    pub(crate) fn abilities(&mut self, dialect: Dialect) -> Abilities {
        let is_gateway = self.ask(ClientInput::IsGateway).is();
        Abilities {
            dialect,
            is_gateway,
            has_caller_header: is_gateway && self.caller_header().is_some(),
            takes_large_expressions: dialect == Dialect::Envoy && self.ask(ClientInput::TakesLargeExpressions).is(),
            is_callee_grpc: false,
            library: Library::Core,
        }
    }

    pub(crate) fn library(&mut self) -> Library {
        match self.ask(ClientInput::Library) {
            InputValue::Library(library) => library,
            InputValue::Is(_) | InputValue::Text(_) | InputValue::Place(_) => Library::Core,
        }
    }

    pub(crate) fn caller_header(&mut self) -> Option<Arc<str>> {
        self.ask(ClientInput::CallerHeader).text()
    }

    pub(crate) fn address(&mut self) -> Option<Arc<str>> {
        self.ask(ClientInput::Address).text()
    }

    /// Returns the name of the calling service.
    pub(crate) fn caller(&mut self) -> Option<Arc<str>> {
        self.ask(ClientInput::CallingService).text()
    }

    pub(crate) fn label(&mut self, key: &str) -> Option<Arc<str>> {
        self.ask(ClientInput::Label(key.into())).text()
    }

    /// Returns the locality from a level on.
    pub(crate) fn place(&mut self, first: u32) -> Place {
        match self.ask(ClientInput::Place(first)) {
            InputValue::Place(place) => place,
            InputValue::Is(_) | InputValue::Text(_) | InputValue::Library(_) => Place::default(),
        }
    }
}
