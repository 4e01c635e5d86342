//! Both variants against a model of a correct client, which refuses some contents, warms clusters as Envoy does, changes
//! what it asks for, and comes back: whatever happens in which order, in the end it has what the view shows.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::super::View;
use super::super::delta::Delta;
use super::super::machine::Machine;
use super::super::sotw::Sotw;
use super::*;
use crate::model::mesh::Dialect;
use crate::proto::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};

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
    /// The stream makes what is due, as many responses as there is room for.
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
    /// The client comes back to a node that reached the same state another way.
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

/// What a client has under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Had {
    content: String,
    version: String,
}

/// One type of a client.
#[derive(Clone, Debug, Default)]
struct Side {
    is_begun: bool,
    is_wildcard: bool,
    names: BTreeSet<String>,
    has: BTreeMap<String, Had>,
    version_info: String,
    nonce: String,
    /// Highest number seen under each name, on this stream.
    seen: HashMap<String, u64>,
}

impl Side {
    fn covers(&self, name: &str) -> bool {
        self.is_wildcard || self.names.contains(name)
    }

    /// Takes a resource; false if it is refused.
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

/// A client, and the wires between it and its stream.
struct Model<P: Protocol> {
    world: World,
    machine: P::Machine,
    now: Instant,
    sides: [Side; 4],
    to_node: VecDeque<<P::Machine as Machine>::Request>,
    to_client: VecDeque<<P::Machine as Machine>::Response>,
    /// Clusters that changed and wait for their endpoints; their response is acknowledged when there are none.
    warming: BTreeSet<String>,
    unanswered: Option<Refused>,
}

type Refused = Option<String>;

/// A variant as its client writes and reads it.
trait Protocol: Sized {
    type Machine: Machine;

    fn ask(model: &mut Model<Self>, kind: ResourceType, is_wildcard: bool, names: BTreeSet<String>);
    fn answer(model: &mut Model<Self>, kind: ResourceType, refused: Refused);
    fn receive(model: &mut Model<Self>, response: <Self::Machine as Machine>::Response);
    fn come_back(model: &mut Model<Self>, kind: ResourceType);
}

impl<P: Protocol> Model<P> {
    fn new() -> Model<P> {
        Model {
            world: two_services_numbered(),
            machine: P::Machine::new(Dialect::Envoy, "thuban test".into()),
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
                let content = format!("{}{}", self.world.index, if is_bad { BAD } else { "" });
                let clusters: &[&str] = if kind >= LDS.index() { &NAMES[name..=name] } else { &[] };
                self.world.put_naming(ResourceType::ALL[kind], NAMES[name], &content, clusters);
            }
            Step::Remove { kind, name } => self.world.remove(ResourceType::ALL[kind], NAMES[name]),
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
        self.world = self.world.rebuilt();
        self.machine = P::Machine::new(Dialect::Envoy, "thuban test".into());
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
        let index = self.machine.named_index(&request);
        assert!(index.is_none_or(|index| index <= self.world.index));
        self.machine.take(request, &self.world, moment(self.now)).expect("a request that makes sense");
        true
    }

    fn deliver_response(&mut self) -> bool {
        let Some(response) = self.to_client.pop_front() else { return false };
        P::receive(self, response);
        true
    }

    fn pump(&mut self, room: usize) -> bool {
        let next = || self.machine.next(&self.world, moment(self.now));
        let sent: Vec<_> = std::iter::from_fn(next).take(room).collect();
        let is_something = !sent.is_empty();
        self.to_client.extend(sent);
        assert!(self.to_client.len() <= 4, "one of a type under way");
        is_something
    }

    /// A client took a response of clusters: those that changed wait for their endpoints, and so does its answer.
    fn warm(&mut self, changed: Vec<String>, refused: Refused) {
        let endpoints = &self.sides[EDS.index()];
        let waits = |name: &String| endpoints.names.contains(name);
        self.warming.extend(changed.into_iter().filter(waits));
        self.unanswered = Some(refused);
        self.finish_warming();
    }

    /// Endpoints came for some clusters.
    fn finish_warming(&mut self) {
        if self.warming.is_empty()
            && let Some(refused) = self.unanswered.take()
        {
            P::answer(self, CDS, refused);
        }
    }

    /// Lets everything arrive, until nothing more happens.
    fn come_to_rest(&mut self) {
        for _ in 0..10_000 {
            let is_moving = self.deliver_request() | self.pump(5) | self.deliver_response();
            if is_moving {
                continue;
            }
            if let Some(deadline) = self.machine.books().deadline() {
                assert!(deadline <= self.now + Duration::from_secs(5), "nothing waits for longer");
                self.now = deadline;
                continue;
            }
            // A proxy waits no longer than 15 s for endpoints that are not there.
            let is_there = |name: &String| self.world.get(EDS, name).is_some();
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
            let (side, ledger) = (&self.sides[kind.index()], self.machine.books().ledger(kind));
            assert!(!ledger.is_under_way());
            let mut shown = BTreeMap::new();
            for name in NAMES.into_iter().filter(|name| side.covers(name)) {
                let all = self.world.all(kind);
                let by_name = || self.world.get(kind, name).filter(|_| side.names.contains(name));
                if let Some(found) = all.get(name).cloned().or_else(by_name) {
                    shown.insert(name, String::from_utf8_lossy(&found.bytes).into_owned());
                }
            }
            for (name, content) in &shown {
                let had = side.has.get(*name).map(|had| had.content.as_str());
                if !content.ends_with(BAD) {
                    assert_eq!(had, Some(content.as_str()), "{kind:?} {name}");
                    let told = ledger.delivered().has.get(*name).map(|found| found.bytes.clone());
                    assert_eq!(told.as_deref(), Some(content.as_bytes()), "{kind:?} {name}: the register");
                }
            }
            let is_exact = kind.is_whole() || P::Machine::IS_DELTA;
            let surplus = side.has.keys().find(|name| is_exact && !shown.contains_key(name.as_str()));
            assert_eq!(surplus, None, "{kind:?} is gone");
            assert!(ledger.delivered().has.keys().all(|name| side.covers(name)), "{kind:?}");
        }
    }
}

fn two_services_numbered() -> World {
    let mut world = World::default();
    for name in ["s/a", "s/b"] {
        for kind in [CDS, EDS] {
            world.put(kind, name, "0");
        }
        for kind in [LDS, RDS] {
            world.put_naming(kind, name, "0", &[name]);
        }
    }
    world
}

struct OfSotw;

impl OfSotw {
    fn send(model: &mut Model<OfSotw>, kind: ResourceType, refused: Refused) {
        let side = &mut model.sides[kind.index()];
        side.is_begun = true;
        let mut names: Vec<String> = side.names.iter().cloned().collect();
        if side.is_wildcard {
            names.push("*".to_owned());
        }
        model.to_node.push_back(DiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names: names,
            version_info: side.version_info.clone(),
            response_nonce: side.nonce.clone(),
            error_detail: refused.as_deref().map(refusal),
            ..Default::default()
        });
    }
}

impl Protocol for OfSotw {
    type Machine = Sotw;

    fn ask(model: &mut Model<OfSotw>, kind: ResourceType, is_wildcard: bool, names: BTreeSet<String>) {
        let side = &mut model.sides[kind.index()];
        // A real client never says the same again, but for endpoints.
        if side.is_begun && (side.is_wildcard, &side.names) == (is_wildcard, &names) {
            return;
        }
        (side.is_wildcard, side.names) = (is_wildcard, names);
        let kept = side.clone();
        side.has.retain(|name, _| kept.covers(name));
        side.seen.retain(|name, _| kept.covers(name));
        OfSotw::send(model, kind, None);
        if kind == EDS {
            let names = &model.sides[EDS.index()].names;
            model.warming.retain(|name| names.contains(name));
            model.finish_warming();
        }
    }

    fn answer(model: &mut Model<OfSotw>, kind: ResourceType, refused: Refused) {
        OfSotw::send(model, kind, refused);
    }

    fn receive(model: &mut Model<OfSotw>, response: DiscoveryResponse) {
        let kind = ResourceType::of_url(&response.type_url).expect("a type");
        let side = &mut model.sides[kind.index()];
        side.nonce = response.nonce;
        let contents = response.resources.iter().map(|found| String::from_utf8_lossy(&found.value).into_owned());
        let mut refused: Vec<String> = Vec::new();
        let (mut changed, mut present) = (Vec::new(), BTreeSet::new());
        for content in contents {
            let name = content.split_once('=').expect("a name").0.to_owned();
            present.insert(name.clone());
            if !side.covers(&name) {
                continue;
            }
            let is_new = side.has.get(&name).is_none_or(|had| had.content != content);
            match side.take(&name, Had { content, version: String::new() }) {
                true if is_new => changed.push(name),
                true => {}
                false => refused.push(name),
            }
        }
        if kind.is_whole() {
            side.has.retain(|name, _| present.contains(name));
        }
        let refused = told_refusal(&refused);
        if refused.is_none() {
            side.version_info = response.version_info;
        }
        if kind == CDS {
            let is_question = changed.iter().any(|name| model.sides[EDS.index()].names.contains(name));
            model.warm(changed, refused);
            if is_question {
                OfSotw::send(model, EDS, None);
            }
        } else {
            OfSotw::send(model, kind, refused);
            if kind == EDS {
                model.warming.retain(|name| !present.contains(name));
                model.finish_warming();
            }
        }
    }

    fn come_back(model: &mut Model<OfSotw>, kind: ResourceType) {
        OfSotw::send(model, kind, None);
    }
}

fn told_refusal(names: &[String]) -> Refused {
    let told = |name: &String| format!("{name}: refused");
    (!names.is_empty()).then(|| format!("Error adding {}", names.iter().map(told).collect::<Vec<_>>().join(", ")))
}

struct OfDelta;

impl OfDelta {
    fn request(kind: ResourceType) -> DeltaDiscoveryRequest {
        DeltaDiscoveryRequest { type_url: kind.type_url().to_owned(), ..Default::default() }
    }
}

impl Protocol for OfDelta {
    type Machine = Delta;

    fn ask(model: &mut Model<OfDelta>, kind: ResourceType, is_wildcard: bool, names: BTreeSet<String>) {
        let side = &mut model.sides[kind.index()];
        let star = |is: bool| is.then(|| "*".to_owned());
        let subscribe = names.difference(&side.names).cloned().chain(star(is_wildcard && !side.is_wildcard)).collect();
        let unsubscribe =
            side.names.difference(&names).cloned().chain(star(side.is_wildcard && !is_wildcard)).collect();
        let request = DeltaDiscoveryRequest {
            resource_names_subscribe: subscribe,
            resource_names_unsubscribe: unsubscribe,
            ..OfDelta::request(kind)
        };
        // Without a name the first request would mean all.
        if request.resource_names_subscribe.is_empty() && !side.is_begun && kind.is_whole() {
            return;
        }
        side.is_begun = true;
        (side.is_wildcard, side.names) = (is_wildcard, names);
        let kept = side.clone();
        side.has.retain(|name, _| kept.covers(name));
        side.seen.retain(|name, _| kept.covers(name));
        model.to_node.push_back(request);
        if kind == EDS {
            let names = &model.sides[EDS.index()].names;
            model.warming.retain(|name| names.contains(name));
            model.finish_warming();
        }
    }

    fn answer(model: &mut Model<OfDelta>, kind: ResourceType, refused: Refused) {
        let nonce = model.sides[kind.index()].nonce.clone();
        let error_detail = refused.as_deref().map(refusal);
        model.to_node.push_back(DeltaDiscoveryRequest {
            response_nonce: nonce,
            error_detail,
            ..OfDelta::request(kind)
        });
    }

    fn receive(model: &mut Model<OfDelta>, response: DeltaDiscoveryResponse) {
        let kind = ResourceType::of_url(&response.type_url).expect("a type");
        let side = &mut model.sides[kind.index()];
        side.nonce = response.nonce;
        let (mut refused, mut changed, mut present) = (Vec::new(), Vec::new(), BTreeSet::new());
        for Resource { name, version, resource } in response.resources {
            let content = String::from_utf8_lossy(&resource.expect("a resource").value).into_owned();
            present.insert(name.clone());
            if !side.covers(&name) {
                continue;
            }
            match side.take(&name, Had { content, version }) {
                true => changed.push(name),
                false => refused.push(name),
            }
        }
        for name in &response.removed_resources {
            side.has.remove(name);
            // It may be made again, from the beginning.
            present.insert(name.clone());
        }
        let refused = told_refusal(&refused);
        if kind == CDS {
            model.warm(changed, refused);
        } else {
            OfDelta::answer(model, kind, refused);
            if kind == EDS {
                model.warming.retain(|name| !present.contains(name));
                model.finish_warming();
            }
        }
    }

    fn come_back(model: &mut Model<OfDelta>, kind: ResourceType) {
        let side = &model.sides[kind.index()];
        let star = side.is_wildcard.then(|| "*".to_owned());
        let subscribe: Vec<_> = side.names.iter().cloned().chain(star).collect();
        let initial = side.has.iter().map(|(name, had)| (name.clone(), had.version.clone())).collect();
        // Without a name it would mean all.
        if subscribe.is_empty() {
            model.sides[kind.index()] = Side::default();
            return;
        }
        model.to_node.push_back(DeltaDiscoveryRequest {
            resource_names_subscribe: subscribe,
            initial_resource_versions: initial,
            ..OfDelta::request(kind)
        });
    }
}

fn run<P: Protocol>(steps: Vec<Step>) -> Model<P> {
    let mut model = Model::<P>::new();
    steps.into_iter().for_each(|step| model.step(step));
    model.come_to_rest();
    model.check();
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_client_of_sotw_comes_to_have_what_there_is(steps in steps()) {
        run::<OfSotw>(steps);
    }

    #[test]
    fn a_client_of_delta_comes_to_have_what_there_is(steps in steps()) {
        run::<OfDelta>(steps);
    }

    /// Whoever has everything and comes back to a node with the same state is sent nothing but empty answers.
    #[test]
    fn coming_back_costs_nothing_in_delta(steps in steps()) {
        let good = steps.into_iter().filter(|step| !matches!(step, Step::Put { is_bad: true, .. }));
        let mut model = run::<OfDelta>(good.collect());
        model.come_back();
        while model.deliver_request() {}
        while let Some(response) = model.machine.next(&model.world, moment(model.now)) {
            let side = &model.sides[ResourceType::of_url(&response.type_url).expect("a type").index()];
            prop_assert!(response.resources.is_empty());
            let is_asked = |name: &String| side.names.contains(name);
            prop_assert!(response.removed_resources.iter().all(is_asked), "names that are not there");
        }
    }
}
