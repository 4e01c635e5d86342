//! Questions about a client while resources are made, and their answers: who gives the same answers shares the bytes.
//!
//! All that depends on the client is asked here. The resources of all clients are the leaves of a tree of questions
//! ([`VariantTree`](super::variants::Answered)), which goes as soon as something changes that they were made from.

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

/// A question about a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientInput {
    /// The release of a rule that is in force for it.
    Release(u8, Arc<str>),
    /// It sees a service.
    Sees(ServiceName),
    /// It meets a condition on the caller.
    Meets(CallerQuestion),
    /// It is a gateway; it takes expressions of any size.
    IsGateway,
    /// Header in which its requests name their caller.
    CallerHeader,
    TakesLargeExpressions,
    /// Library of a client without a proxy.
    Library,
    Address,
    CallingService,
    Label(Arc<str>),
    /// Its place from a level on, the narrowest of which is 0.
    Place(u32),
}

/// A condition on the caller, kept.
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

/// By the texts: two that differ in more are rare.
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

/// An answer to a question.
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

    /// Bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            InputValue::Is(_) | InputValue::Library(_) => 0,
            InputValue::Text(text) => text.as_ref().map_or(0, |text| text.len()),
            InputValue::Place(Place { region, zone, campus }) => region.len() + zone.len() + campus.len(),
        }
    }
}

/// A client that is asked about one scene; no question is answered twice.
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
        // There are as many of these as services, and they are quick to answer.
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

/// Questions that were asked while one thing was made, with the answers, in order.
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

    /// Questions about what is in one scope: all of its clients see the same services, which is not noted.
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

    /// Remembers a question that another thing was made by, which this one is made of.
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

    /// Name of the calling service.
    pub(crate) fn caller(&mut self) -> Option<Arc<str>> {
        self.ask(ClientInput::CallingService).text()
    }

    pub(crate) fn label(&mut self, key: &str) -> Option<Arc<str>> {
        self.ask(ClientInput::Label(key.into())).text()
    }

    /// The place from a level on.
    pub(crate) fn place(&mut self, first: u32) -> Place {
        match self.ask(ClientInput::Place(first)) {
            InputValue::Place(place) => place,
            InputValue::Is(_) | InputValue::Text(_) | InputValue::Library(_) => Place::default(),
        }
    }
}
