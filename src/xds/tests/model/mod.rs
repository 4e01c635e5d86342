//! Both variants against a model of a correct client. It refuses some contents, warms clusters like Envoy, changes its
//! subscription and reconnects. After any sequence of events it has what the view contains.

mod clients;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::super::View;
use super::super::protocol::ProtocolVariant;
use super::*;
use crate::model::mesh::Dialect;
use clients::{OfDelta, OfSotw};

const NAMES: [&str; 5] = ["s/a", "s/b", "s/c", "s/d", "hidden/e"];
/// Content that clients refuse.
const BAD: &str = "bad";

#[derive(Clone, Debug)]
enum Step {
    Put {
        kind: usize,
        name: usize,
        is_bad: bool,
    },
    Remove {
        kind: usize,
        name: usize,
    },
    /// The oldest request arrives.
    Request,
    /// The oldest response arrives.
    Response,
    /// The stream builds due responses, at most `room` of them.
    Pump {
        room: usize,
    },
    Ask {
        kind: usize,
        names: Vec<usize>,
    },
    Wait {
        ms: u64,
    },
    /// The client reconnects to a node that reached the same state by other changes.
    ComeBack,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = 0..4_usize;
    let name = 0..NAMES.len();
    let step = prop_oneof![
        4 => (kind.clone(), name.clone(), prop::bool::weighted(0.1))
            .prop_map(|(kind, name, is_bad)| Step::Put { kind, name, is_bad }),
        2 => (kind.clone(), name.clone()).prop_map(|(kind, name)| Step::Remove { kind, name }),
        8 => Just(Step::Request),
        8 => Just(Step::Response),
        8 => (0..5_usize).prop_map(|room| Step::Pump { room }),
        3 => (kind, prop::collection::vec(name, 0..4)).prop_map(|(kind, names)| Step::Ask { kind, names }),
        1 => (0..6_000_u64).prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::ComeBack),
    ];
    prop::collection::vec(step, 1..150)
}

/// A resource that a client has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Had {
    content: String,
    version: String,
}

/// State of one type at a client.
#[derive(Clone, Debug, Default)]
struct Side {
    is_begun: bool,
    is_wildcard: bool,
    names: BTreeSet<String>,
    has: BTreeMap<String, Had>,
    version_info: String,
    nonce: String,
    /// Highest number seen per name on this stream.
    seen: HashMap<String, u64>,
}

impl Side {
    fn covers(&self, name: &str) -> bool {
        self.is_wildcard || self.names.contains(name)
    }

    /// Accepts a resource. Returns false if the client refuses it.
    fn take(&mut self, name: &str, had: Had) -> bool {
        let number = number_of(&had.content);
        let seen = self.seen.entry(name.to_owned()).or_default();
        assert!(number >= *seen, "{name}: a step back from {seen} to {number}");
        *seen = number;
        let is_good = !had.content.ends_with(BAD);
        if is_good {
            self.has.insert(name.to_owned(), had);
        }
        is_good
    }
}

fn number_of(content: &str) -> u64 {
    let number = content.split_once('=').expect("a content").1;
    number.trim_end_matches(BAD).parse().expect("a number")
}

/// A client, and the messages between it and its stream.
struct Model<P: Protocol> {
    view: FakeView,
    protocol: P::ProtocolVariant,
    now: Instant,
    sides: [Side; 4],
    to_node: VecDeque<<P::ProtocolVariant as ProtocolVariant>::Request>,
    to_client: VecDeque<<P::ProtocolVariant as ProtocolVariant>::Response>,
    /// Changed clusters that wait for their endpoints. The clusters are acknowledged once none is left.
    warming: BTreeSet<String>,
    unanswered: Option<Refused>,
}

type Refused = Option<String>;

/// Client side of a protocol variant.
trait Protocol: Sized {
    type ProtocolVariant: ProtocolVariant;

    fn ask(model: &mut Model<Self>, kind: ResourceType, is_wildcard: bool, names: BTreeSet<String>);
    fn answer(model: &mut Model<Self>, kind: ResourceType, refused: Refused);
    fn receive(model: &mut Model<Self>, response: <Self::ProtocolVariant as ProtocolVariant>::Response);
    fn come_back(model: &mut Model<Self>, kind: ResourceType);
}

impl<P: Protocol> Model<P> {
    fn new() -> Model<P> {
        Model {
            view: two_services_numbered(),
            protocol: P::ProtocolVariant::new(Dialect::Envoy, "thuban test".into()),
            now: Instant::now(),
            sides: Default::default(),
            to_node: VecDeque::new(),
            to_client: VecDeque::new(),
            warming: BTreeSet::new(),
            unanswered: None,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Put { kind, name, is_bad } => {
                let content = format!("{}{}", self.view.index, if is_bad { BAD } else { "" });
                let clusters: &[&str] = if kind >= LDS.index() { &NAMES[name..=name] } else { &[] };
                self.view.put_naming(ResourceType::ALL[kind], NAMES[name], &content, clusters);
            }
            Step::Remove { kind, name } => self.view.remove(ResourceType::ALL[kind], NAMES[name]),
            Step::Request => drop(self.deliver_request()),
            Step::Response => drop(self.deliver_response()),
            Step::Pump { room } => drop(self.pump(room)),
            Step::Ask { kind, names } => {
                let kind = ResourceType::ALL[kind];
                let names = names.into_iter().map(|name| NAMES[name].to_owned()).collect::<BTreeSet<_>>();
                P::ask(self, kind, kind.is_whole() && names.len() % 2 == 0, names);
            }
            Step::Wait { ms } => self.now += Duration::from_millis(ms),
            Step::ComeBack => self.come_back(),
        }
    }

    fn come_back(&mut self) {
        self.view = self.view.rebuilt();
        self.protocol = P::ProtocolVariant::new(Dialect::Envoy, "thuban test".into());
        self.to_node.clear();
        self.to_client.clear();
        self.warming.clear();
        self.unanswered = None;
        for kind in ResourceType::ALL {
            self.sides[kind.index()].nonce.clear();
            self.sides[kind.index()].seen.clear();
            if self.sides[kind.index()].is_begun {
                P::come_back(self, kind);
            }
        }
    }

    fn deliver_request(&mut self) -> bool {
        let Some(request) = self.to_node.pop_front() else { return false };
        let index = self.protocol.named_index(&request);
        assert!(index.is_none_or(|index| index <= self.view.index));
        self.protocol.take(request, &self.view, now_at(self.now)).expect("a request that makes sense");
        true
    }

    fn deliver_response(&mut self) -> bool {
        let Some(response) = self.to_client.pop_front() else { return false };
        P::receive(self, response);
        true
    }

    fn pump(&mut self, room: usize) -> bool {
        let next = || self.protocol.next(&self.view, now_at(self.now));
        let sent: Vec<_> = std::iter::from_fn(next).take(room).collect();
        let is_something = !sent.is_empty();
        self.to_client.extend(sent);
        assert!(self.to_client.len() <= 4, "one of a type under way");
        is_something
    }

    /// Processes a response with clusters. The changed ones wait for their endpoints, and so does the acknowledgement.
    fn warm(&mut self, changed: Vec<String>, refused: Refused) {
        let endpoints = &self.sides[EDS.index()];
        let waits = |name: &String| endpoints.names.contains(name);
        self.warming.extend(changed.into_iter().filter(waits));
        self.unanswered = Some(refused);
        self.finish_warming();
    }

    /// Acknowledges the clusters if none waits for endpoints any more.
    fn finish_warming(&mut self) {
        if self.warming.is_empty()
            && let Some(refused) = self.unanswered.take()
        {
            P::answer(self, CDS, refused);
        }
    }

    /// Delivers all messages until nothing more happens.
    fn come_to_rest(&mut self) {
        for _ in 0..10_000 {
            let is_moving = self.deliver_request() | self.pump(5) | self.deliver_response();
            if is_moving {
                continue;
            }
            if let Some(deadline) = self.protocol.state().deadline() {
                assert!(deadline <= self.now + Duration::from_secs(5), "nothing waits for longer");
                self.now = deadline;
                continue;
            }
            // A proxy waits at most 15 s for endpoints that do not exist.
            let is_there = |name: &String| self.view.get(EDS, name).is_some();
            assert!(!self.warming.iter().any(is_there), "warming for ever: {:?}", self.warming);
            if self.unanswered.is_none() {
                return;
            }
            self.warming.clear();
            self.finish_warming();
        }
        panic!("it never comes to rest");
    }

    fn check(&self) {
        for kind in ResourceType::ALL {
            let (side, type_state) = (&self.sides[kind.index()], self.protocol.state().type_state(kind));
            assert!(!type_state.is_in_flight());
            let mut shown = BTreeMap::new();
            for name in NAMES.into_iter().filter(|name| side.covers(name)) {
                let all = self.view.all(kind);
                let by_name = || self.view.get(kind, name).filter(|_| side.names.contains(name));
                if let Some(found) = all.get(name).cloned().or_else(by_name) {
                    shown.insert(name, String::from_utf8_lossy(&found.bytes()).into_owned());
                }
            }
            for (name, content) in &shown {
                let had = side.has.get(*name).map(|had| had.content.as_str());
                if !content.ends_with(BAD) {
                    assert_eq!(had, Some(content.as_str()), "{kind:?} {name}");
                    let told = type_state.delivered().acked.get(*name).map(|found| found.bytes());
                    assert_eq!(told.as_deref(), Some(content.as_bytes()), "{kind:?} {name}: the register");
                }
            }
            let is_exact = kind.is_whole() || P::ProtocolVariant::IS_DELTA;
            let surplus = side.has.keys().find(|name| is_exact && !shown.contains_key(name.as_str()));
            assert_eq!(surplus, None, "{kind:?} is gone");
            assert!(type_state.delivered().acked.keys().all(|name| side.covers(name)), "{kind:?}");
        }
    }
}

fn two_services_numbered() -> FakeView {
    let mut view = FakeView::default();
    for name in ["s/a", "s/b"] {
        for kind in [CDS, EDS] {
            view.put(kind, name, "0");
        }
        for kind in [LDS, RDS] {
            view.put_naming(kind, name, "0", &[name]);
        }
    }
    view
}

fn run<P: Protocol>(steps: Vec<Step>) -> Model<P> {
    let mut model = Model::<P>::new();
    steps.into_iter().for_each(|step| model.step(step));
    model.come_to_rest();
    model.check();
    model
}

proptest! {
    #![proptest_config(crate::test_seed::cases(256))]

    #[test]
    fn a_client_of_sotw_comes_to_have_what_there_is(steps in steps()) {
        run::<OfSotw>(steps);
    }

    #[test]
    fn a_client_of_delta_comes_to_have_what_there_is(steps in steps()) {
        run::<OfDelta>(steps);
    }

    /// A client with current resources that reconnects to a node in the same state gets empty responses only.
    #[test]
    fn coming_back_costs_nothing_in_delta(steps in steps()) {
        let good = steps.into_iter().filter(|step| !matches!(step, Step::Put { is_bad: true, .. }));
        let mut model = run::<OfDelta>(good.collect());
        model.come_back();
        while model.deliver_request() {}
        while let Some(response) = model.protocol.next(&model.view, now_at(model.now)) {
            let side = &model.sides[ResourceType::of_url(&response.type_url).expect("a type").index()];
            prop_assert!(response.resources.is_empty());
            let is_asked = |name: &String| side.names.contains(name);
            prop_assert!(response.removed_resources.iter().all(is_asked), "names that are not there");
        }
    }
}
