//! Call graph: services as boxes in columns, callers left of callees, calls as lines.

use std::collections::BTreeMap;

use crate::catalog::calls::CallGraph;
use crate::console::links::service as link;
use crate::sentences::cut;

/// Maximum number of services that are drawn; more are shown as a table only.
pub(in crate::console) const BOXES_MAX: usize = 300;
/// Maximum boxes in a column before the next column begins.
const ROWS: usize = 30;
const BOX_WIDTH: usize = 190;
const BOX_HEIGHT: usize = 26;
const COLUMN: usize = BOX_WIDTH + 90;
const ROW: usize = BOX_HEIGHT + 12;
/// Maximum characters of a name in a box.
const NAME_CHARS: usize = 24;
/// Rounds in which boxes are moved towards their neighbours in the graph.
const ROUNDS: usize = 4;

/// Maximum number of calls that are routed around boxes.
const PASSING_CALLS_MAX: usize = 1000;

/// Positions in pixels.
#[derive(Default)]
pub(in crate::console) struct CallMap {
    pub(in crate::console) boxes: Vec<ServiceBox>,
    pub(in crate::console) lines: Vec<CallLine>,
    /// Services without callers and callees, with their links.
    pub(in crate::console) alone: Vec<(String, String)>,
    pub(in crate::console) width: usize,
    pub(in crate::console) height: usize,
}

pub(in crate::console) struct ServiceBox {
    pub(in crate::console) x: usize,
    pub(in crate::console) y: usize,
    pub(in crate::console) name: String,
    /// Tooltip: namespace, name and counts.
    pub(in crate::console) title: String,
    pub(in crate::console) link: String,
    /// CSS class, by the health of its instances.
    pub(in crate::console) class: &'static str,
    /// Number of rules for its calls; empty for none.
    pub(in crate::console) rules: String,
}

/// Calls of one service by another.
pub(in crate::console) struct CallLine {
    pub(in crate::console) path: String,
    pub(in crate::console) title: String,
    /// True if clients make this call; false if only rules name it.
    pub(in crate::console) is_seen: bool,
    /// Number of rules for this call, and its position; empty for none.
    pub(in crate::console) rules: String,
    pub(in crate::console) x: usize,
    pub(in crate::console) y: usize,
}

/// Row of a column: a service, or room for a call that passes the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Service(usize),
    Pass { call: usize, column: usize },
}

impl CallMap {
    /// Draws the graph; an empty picture if it is too large.
    pub(in crate::console) fn of(graph: &CallGraph) -> CallMap {
        if graph.services.len() > BOXES_MAX {
            return CallMap::default();
        }
        let layout = Layout::of(graph);
        let mut map = CallMap::default();
        for (at, service) in graph.services.iter().enumerate() {
            let Some((x, y)) = layout.places.get(&Slot::Service(at)).copied() else {
                let named = format!("{} / {}", service.namespace, service.name);
                map.alone.push((named, link(&service.namespace, &service.name)));
                continue;
            };
            let counts = service.instances;
            map.boxes.push(ServiceBox {
                x,
                y,
                name: cut(&service.name, NAME_CHARS),
                title: format!("{} / {}: {} / {}", service.namespace, service.name, counts.healthy, counts.total),
                link: link(&service.namespace, &service.name),
                class: if counts.total > 0 && counts.healthy == 0 { "fault" } else { "" },
                rules: number(service.rules.len()),
            });
        }
        map.lines = (0..graph.calls.len()).map(|call| line(graph, &layout, call)).collect();
        map.width = layout.places.values().map(|(x, _)| x + BOX_WIDTH + 40).max().unwrap_or_default();
        map.height = layout.places.values().map(|(_, y)| y + BOX_HEIGHT + 8).max().unwrap_or_default();
        map
    }
}

fn number(of: usize) -> String {
    if of == 0 { String::new() } else { of.to_string() }
}

fn line(graph: &CallGraph, layout: &Layout, at: usize) -> CallLine {
    let call = &graph.calls[at];
    let place = |service: usize| layout.places[&Slot::Service(service)];
    let (from, to) = (place(call.caller), place(call.callee));
    let (mut x, mut y) = (from.0 + BOX_WIDTH, from.1 + BOX_HEIGHT / 2);
    let mut path = format!("M{x} {y}");
    let mut curve = |to_x: usize, to_y: usize| {
        // A line back to the left, or within a column, goes around the boxes.
        let bend = if to_x > x { (to_x - x) / 2 } else { 60 };
        path.push_str(&format!("C{} {y} {} {to_y} {to_x} {to_y}", x + bend, to_x.saturating_sub(bend)));
        (x, y) = (to_x, to_y);
    };
    for (pass_x, pass_y) in layout.passes_of(at) {
        curve(pass_x, pass_y + BOX_HEIGHT / 2);
        curve(pass_x + BOX_WIDTH, pass_y + BOX_HEIGHT / 2);
    }
    curve(to.0, to.1 + BOX_HEIGHT / 2);
    let (caller, callee) = (&graph.services[call.caller].name, &graph.services[call.callee].name);
    CallLine {
        path,
        title: format!("{caller} → {callee}: {}", call.clients),
        is_seen: call.clients > 0,
        rules: number(call.rules.len()),
        // Close to the caller, where lines are apart.
        x: from.0 + BOX_WIDTH + 24,
        y: from.1 + BOX_HEIGHT / 2,
    }
}

/// Positions of services with calls, and of calls that pass columns.
struct Layout {
    places: BTreeMap<Slot, (usize, usize)>, // bound: request
}

impl Layout {
    fn of(graph: &CallGraph) -> Layout {
        let columns = columns(graph);
        let column_of: BTreeMap<usize, usize> =
            columns.iter().enumerate().flat_map(|(at, column)| column.iter().map(move |one| (*one, at))).collect();
        let mut slots: Vec<Vec<Slot>> =
            columns.iter().map(|column| column.iter().copied().map(Slot::Service).collect()).collect();
        let mut joined: BTreeMap<Slot, Vec<Slot>> = BTreeMap::new();
        for (at, call) in graph.calls.iter().enumerate() {
            let (from, to) = (column_of[&call.caller], column_of[&call.callee]);
            let between = if at < PASSING_CALLS_MAX { from + 1..to } else { 0..0 };
            let passes = between.map(|column| Slot::Pass { call: at, column });
            passes.clone().for_each(|pass| slots[column_of_pass(pass)].push(pass));
            let way = [Slot::Service(call.caller)].into_iter().chain(passes).chain([Slot::Service(call.callee)]);
            let way: Vec<_> = way.collect();
            for pair in way.windows(2) {
                joined.entry(pair[0]).or_default().push(pair[1]);
                joined.entry(pair[1]).or_default().push(pair[0]);
            }
        }
        for _ in 0..ROUNDS {
            let rows: BTreeMap<Slot, usize> =
                slots.iter().flat_map(|column| column.iter().enumerate().map(|(row, slot)| (*slot, row))).collect();
            let middle = |slot: &Slot| {
                let near = &joined[slot];
                near.iter().map(|other| rows[other]).sum::<usize>() * 1000 / near.len().max(1)
            };
            slots.iter_mut().for_each(|column| column.sort_by_key(|slot| (middle(slot), *slot)));
        }
        let mut places = BTreeMap::new();
        let mut x = 20;
        for column in slots.iter().filter(|column| !column.is_empty()) {
            for part in column.chunks(ROWS) {
                places.extend(part.iter().enumerate().map(|(row, slot)| (*slot, (x, 8 + row * ROW))));
                x += COLUMN;
            }
        }
        Layout { places }
    }

    /// Returns the positions at which a call passes columns, from left to right.
    fn passes_of(&self, call: usize) -> impl Iterator<Item = (usize, usize)> {
        let (first, last) = (Slot::Pass { call, column: 0 }, Slot::Pass { call, column: usize::MAX });
        self.places.range(first..=last).map(|(_, place)| *place)
    }
}

fn column_of_pass(pass: Slot) -> usize {
    match pass {
        Slot::Pass { column, .. } => column,
        Slot::Service(_) => 0,
    }
}

/// Sorts services into columns by the longest path to them; services without callers are first. A call that closes a
/// cycle is ignored.
fn columns(graph: &CallGraph) -> Vec<Vec<usize>> {
    let mut callees: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut waits_for: BTreeMap<usize, usize> = BTreeMap::new();
    for call in &graph.calls {
        callees.entry(call.caller).or_default().push(call.callee);
        waits_for.entry(call.caller).or_default();
        *waits_for.entry(call.callee).or_default() += 1;
    }
    let mut depths: BTreeMap<usize, usize> = BTreeMap::new();
    while !waits_for.is_empty() {
        // In a cycle, the service with the fewest callers is first.
        let Some((next, _)) = waits_for.iter().min_by_key(|(_, number)| **number).map(|(at, number)| (*at, *number))
        else {
            break;
        };
        waits_for.remove(&next);
        let depth = *depths.entry(next).or_default();
        for callee in callees.get(&next).into_iter().flatten() {
            if let Some(number) = waits_for.get_mut(callee) {
                *number -= 1;
                let known = depths.entry(*callee).or_default();
                *known = (*known).max(depth + 1);
            }
        }
    }
    let deepest = depths.values().max().map_or(0, |deepest| deepest + 1);
    let mut columns = vec![Vec::new(); deepest];
    depths.into_iter().for_each(|(service, depth)| columns[depth].push(service));
    columns
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalog::calls::{Call, CalledService};
    use crate::catalog::instances::InstanceCounts;

    fn graph(services: usize, calls: &[(usize, usize)]) -> CallGraph {
        let service = |at| CalledService {
            namespace: "shop".to_owned(),
            name: format!("s{at}"),
            instances: InstanceCounts::default(),
            rules: Vec::new(),
        };
        let call = |(caller, callee): &(usize, usize)| Call {
            caller: *caller,
            callee: *callee,
            clients: 1,
            rules: Vec::new(),
        };
        CallGraph {
            services: (0..services).map(service).collect(),
            calls: calls.iter().map(call).collect(),
            ..CallGraph::default()
        }
    }

    #[test]
    fn callers_stand_left_of_what_they_call() {
        assert_eq!(columns(&graph(4, &[(0, 1), (1, 2), (0, 2)])), [vec![0], vec![1], vec![2]]);
        let map = CallMap::of(&graph(4, &[(0, 1), (1, 2), (0, 2)]));
        assert_eq!((map.boxes.len(), map.alone.len()), (3, 1));
        assert!(map.boxes[0].x < map.boxes[1].x && map.boxes[1].x < map.boxes[2].x);
        assert_eq!(map.lines.len(), 3);
        // The call that passes a column has a row of its own there.
        let middle_row = |at: usize| map.boxes[at].y + BOX_HEIGHT / 2;
        let passing = map.lines.iter().find(|line| line.title.starts_with("s0 → s2")).expect("a line");
        let passed = format!(" {} {}C", map.boxes[1].x, middle_row(1));
        assert!(passing.path.matches('C').count() == 3 && !passing.path.contains(&passed), "{}", passing.path);
        assert_eq!(map.height, 8 + ROW + BOX_HEIGHT + 8);
    }

    #[test]
    fn circles_have_a_place_and_no_two_boxes_the_same() {
        let mut calls: Vec<_> = (0..299).map(|at| (at, at + 1)).collect();
        calls.extend([(299, 0), (10, 5), (7, 7 * 7), (200, 3)]);
        calls.extend((0..100).map(|at| (0, 150 + at)));
        let map = CallMap::of(&graph(300, &calls));
        let places: BTreeSet<_> = map.boxes.iter().map(|one| (one.x, one.y)).collect();
        assert_eq!((places.len(), map.boxes.len(), map.lines.len()), (300, 300, calls.len()));
        assert!(CallMap::of(&graph(301, &calls)).boxes.is_empty());
    }
}
