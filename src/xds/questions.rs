//! Questions about a client while resources are made, and their answers: who gives the same answers shares the bytes.
//!
//! All that depends on the client is asked here. What was asked depends on the answers before alone, so the resources
//! of all clients are the leaves of one tree of questions, which goes as soon as something changes that they were made
//! from.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use super::client::{Client, Place};
use super::names::ServiceName;
use super::world::Scene;
use crate::model::mesh::Dialect;
use crate::model::mesh::caller::CallerFacts;
use crate::model::mesh::plan::{Abilities, CallerCondition};
use crate::model::rule::matching::MatchString;
use crate::model::rule::traffic::ServiceKey;
use crate::model::rule::{End, Family};

/// A question about a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// The release of a rule that is in force for it.
    Release(u8, Arc<str>),
    /// It sees a service.
    Sees(ServiceName),
    /// It meets a condition on the caller.
    Meets(CallerQuestion),
    /// Its own namespace.
    Namespace,
    /// It is a gateway; it takes expressions of any size.
    IsGateway,
    /// Header in which its requests name their caller.
    CallerHeader,
    TakesLargeExpressions,
    Address,
    CallingService,
    Label(Arc<str>),
    Place,
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
pub(crate) enum ClientAnswer {
    Is(bool),
    /// A text, or the id of a release.
    Text(Option<Arc<str>>),
    Place(Place),
}

impl ClientAnswer {
    fn is(&self) -> bool {
        matches!(self, ClientAnswer::Is(true))
    }

    fn text(self) -> Option<Arc<str>> {
        match self {
            ClientAnswer::Text(text) => text,
            ClientAnswer::Is(_) | ClientAnswer::Place(_) => None,
        }
    }
}

/// A client that is asked about one scene; no question is answered twice.
pub(crate) struct Witness<'a> {
    pub(crate) client: &'a Client,
    scene: &'a Scene,
    known: RefCell<HashMap<Question, ClientAnswer>>,
}

impl<'a> Witness<'a> {
    pub(crate) fn new(scene: &'a Scene, client: &'a Client) -> Self {
        Witness { client, scene, known: RefCell::default() }
    }

    pub(crate) fn answer(&self, question: &Question) -> ClientAnswer {
        if let Some(answer) = self.known.borrow().get(question) {
            return answer.clone();
        }
        let answer = self.judge(question);
        self.known.borrow_mut().insert(question.clone(), answer.clone());
        answer
    }

    fn judge(&self, question: &Question) -> ClientAnswer {
        let client = self.client;
        let text = |text: Option<&str>| ClientAnswer::Text(text.map(Arc::from));
        match question {
            Question::Release(family, rule) => {
                let family = Family::ALL.iter().copied().find(|known| *known as u8 == *family);
                let release = family.and_then(|family| {
                    self.scene
                        .rules
                        .of(family)
                        .active()
                        .release_for(rule, |key| client.labels.get(key).map(String::as_str))
                });
                text(release.map(|release| release.id.as_str()))
            }
            Question::Sees(name) => ClientAnswer::Is(client.read_scope.sees(&name.namespace, &name.service)),
            Question::Meets(caller) => ClientAnswer::Is(caller.condition().holds(client, &self.scene.matchers)),
            Question::Namespace => text(self.own_namespace()),
            Question::IsGateway => ClientAnswer::Is(client.is_gateway()),
            Question::CallerHeader => text(client.caller_header().as_deref()),
            Question::TakesLargeExpressions => ClientAnswer::Is(client.abilities().takes_large_expressions),
            Question::Address => ClientAnswer::Text(self.address().map(Arc::from)),
            Question::CallingService => text(client.caller.as_ref().map(|caller| caller.service.as_str())),
            Question::Label(key) => text(client.labels.get(&**key).map(String::as_str)),
            Question::Place => ClientAnswer::Place(client.place.clone()),
        }
    }

    fn own_namespace(&self) -> Option<&str> {
        let of_caller = self.client.caller.as_ref().map(|caller| caller.namespace.as_str());
        of_caller.or_else(|| self.client.labels.get("namespace").map(String::as_str))
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
pub(crate) struct Questions<'a> {
    witness: &'a Witness<'a>,
    asked: Vec<(Question, ClientAnswer)>,
    seen: HashSet<Question>,
}

impl<'a> Questions<'a> {
    pub(crate) fn new(witness: &'a Witness<'a>) -> Self {
        Questions { witness, asked: Vec::new(), seen: HashSet::new() }
    }

    pub(crate) fn witness(&self) -> &'a Witness<'a> {
        self.witness
    }

    pub(crate) fn ask(&mut self, question: Question) -> ClientAnswer {
        let answer = self.witness.answer(&question);
        self.note(&question, &answer);
        answer
    }

    /// Remembers a question that another thing was made by, which this one is made of.
    pub(crate) fn note(&mut self, question: &Question, answer: &ClientAnswer) {
        if self.seen.insert(question.clone()) {
            self.asked.push((question.clone(), answer.clone()));
        }
    }

    pub(crate) fn asked(self) -> Vec<(Question, ClientAnswer)> {
        self.asked
    }

    pub(crate) fn release(&mut self, family: Family, rule: &Arc<str>) -> Option<Arc<str>> {
        self.ask(Question::Release(family as u8, rule.clone())).text()
    }

    pub(crate) fn sees(&mut self, name: &ServiceName) -> bool {
        self.ask(Question::Sees(name.clone())).is()
    }

    pub(crate) fn meets(&mut self, condition: &CallerCondition<'_>) -> bool {
        self.ask(Question::Meets(CallerQuestion::of(condition))).is()
    }

    pub(crate) fn abilities(&mut self, dialect: Dialect) -> Abilities {
        let is_gateway = self.ask(Question::IsGateway).is();
        Abilities {
            dialect,
            is_gateway,
            has_caller_header: is_gateway && self.caller_header().is_some(),
            takes_large_expressions: dialect == Dialect::Envoy && self.ask(Question::TakesLargeExpressions).is(),
            is_callee_grpc: false,
        }
    }

    pub(crate) fn caller_header(&mut self) -> Option<Arc<str>> {
        self.ask(Question::CallerHeader).text()
    }

    pub(crate) fn own_namespace(&mut self) -> Option<Arc<str>> {
        self.ask(Question::Namespace).text()
    }

    pub(crate) fn address(&mut self) -> Option<Arc<str>> {
        self.ask(Question::Address).text()
    }

    /// Name of the calling service.
    pub(crate) fn caller(&mut self) -> Option<Arc<str>> {
        self.ask(Question::CallingService).text()
    }

    pub(crate) fn label(&mut self, key: &str) -> Option<Arc<str>> {
        self.ask(Question::Label(key.into())).text()
    }

    pub(crate) fn place(&mut self) -> Place {
        match self.ask(Question::Place) {
            ClientAnswer::Place(place) => place,
            ClientAnswer::Is(_) | ClientAnswer::Text(_) => Place::default(),
        }
    }
}

/// Leaves of one tree at most: it begins anew then, so that clients that all differ do not fill the memory.
const LEAVES_MAX: usize = 256;

/// Things of one kind by the answers that they were made with.
pub(crate) struct Answered<T> {
    nodes: Vec<Node<T>>,
    leaves: usize,
}

enum Node<T> {
    Open,
    /// Leads on by the answer.
    Ask(Question, HashMap<ClientAnswer, usize>),
    Leaf(T),
}

impl<T> Default for Answered<T> {
    fn default() -> Self {
        Answered { nodes: vec![Node::Open], leaves: 0 }
    }
}

impl<T> Answered<T> {
    /// The thing for who is asked here; the questions on the way are noted.
    pub(crate) fn find(&self, questions: &mut Questions<'_>) -> Option<&T> {
        let mut at = 0;
        loop {
            match &self.nodes[at] {
                Node::Open => return None,
                Node::Leaf(thing) => return Some(thing),
                Node::Ask(question, answers) => {
                    let answer = questions.witness.answer(question);
                    questions.note(question, &answer);
                    at = *answers.get(&answer)?;
                }
            }
        }
    }

    pub(crate) fn insert(&mut self, asked: &[(Question, ClientAnswer)], thing: T) {
        if self.leaves >= LEAVES_MAX {
            *self = Answered::default();
        }
        let mut at = 0;
        for (question, answer) in asked {
            let next = self.nodes.len();
            if let Node::Open = self.nodes[at] {
                self.nodes[at] = Node::Ask(question.clone(), HashMap::new());
            }
            let Node::Ask(known, answers) = &mut self.nodes[at] else { return };
            if known != question {
                return;
            }
            at = *answers.entry(answer.clone()).or_insert(next);
            if at == next {
                self.nodes.push(Node::Open);
            }
        }
        if let Node::Open = self.nodes[at] {
            self.nodes[at] = Node::Leaf(thing);
            self.leaves += 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Answered::default();
    }
}
