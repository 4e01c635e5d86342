//! Services as boxes in columns, callers left of what they call, and calls as lines between them.

use std::collections::BTreeMap;

use crate::catalog::calls::CallGraph;
use crate::console::services::link;

/// More services than that are shown as a table alone.
pub(in crate::console) const BOXES_MAX: usize = 300;
/// Boxes that stand one below the other, before the column goes on beside it.
const ROWS: usize = 30;
const BOX_WIDTH: usize = 190;
const BOX_HEIGHT: usize = 26;
const COLUMN: usize = BOX_WIDTH + 90;
const ROW: usize = BOX_HEIGHT + 12;
/// Characters of a name that fit into a box.
const NAME_CHARS: usize = 24;
/// Rounds in which boxes are moved towards those that they are joined with.
const ROUNDS: usize = 4;

/// Positions in pixels.
#[derive(Default)]
pub(in crate::console) struct CallMap {
    pub(in crate::console) boxes: Vec<ServiceBox>,
    /// Names of services that nobody calls and that call nobody, with their links.
    pub(in crate::console) alone: Vec<(String, String)>,
    pub(in crate::console) width: usize,
    pub(in crate::console) height: usize,
}

pub(in crate::console) struct ServiceBox {
    pub(in crate::console) x: usize,
    pub(in crate::console) y: usize,
    pub(in crate::console) name: String,
    /// Namespace, name and counts.
    pub(in crate::console) title: String,
    pub(in crate::console) link: String,
    /// Class by the health of its instances.
    pub(in crate::console) class: &'static str,
    /// Number of rules for its calls; empty for none.
    pub(in crate::console) rules: String,
    /// Calls of others by it.
    pub(in crate::console) lines: Vec<CallLine>,
}

pub(in crate::console) struct CallLine {
    pub(in crate::console) path: String,
    pub(in crate::console) title: String,
    /// Clients show it; otherwise only rules name it.
    pub(in crate::console) is_seen: bool,
    /// Place and number of the rules of this call; empty for none.
    pub(in crate::console) rules: String,
    pub(in crate::console) x: usize,
    pub(in crate::console) y: usize,
}

impl CallMap {
    /// Nothing of a graph that is too large.
    pub(in crate::console) fn of(graph: &CallGraph) -> CallMap {
        if graph.services.len() > BOXES_MAX {
            return CallMap::default();
        }
        let places = places(graph);
        let mut map = CallMap::default();
        for (at, service) in graph.services.iter().enumerate() {
            let Some((x, y)) = places.get(&at).copied() else {
                let named = format!("{} / {}", service.namespace, service.name);
                map.alone.push((named, link(&service.namespace, &service.name)));
                continue;
            };
            let lines = graph.calls.iter().filter(|call| call.caller == at).map(|call| {
                let (to_x, to_y) = places[&call.callee];
                let callee = &graph.services[call.callee];
                line((x, y), (to_x, to_y), &service.name, &callee.name, (call.clients, call.rules.len()))
            });
            let counts = service.instances;
            map.boxes.push(ServiceBox {
                x,
                y,
                name: cut(&service.name),
                title: format!("{} / {}: {} / {}", service.namespace, service.name, counts.healthy, counts.total),
                link: link(&service.namespace, &service.name),
                class: if counts.total > 0 && counts.healthy == 0 { "fault" } else { "" },
                rules: number(service.rules.len()),
                lines: lines.collect(),
            });
            map.width = map.width.max(x + BOX_WIDTH + 40);
            map.height = map.height.max(y + BOX_HEIGHT + 8);
        }
        map
    }
}

fn number(of: usize) -> String {
    if of == 0 { String::new() } else { of.to_string() }
}

fn cut(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS {
        return name.to_owned();
    }
    name.chars().take(NAME_CHARS - 1).chain(['…']).collect()
}

fn line(
    from: (usize, usize),
    to: (usize, usize),
    caller: &str,
    callee: &str,
    (clients, rules): (usize, usize),
) -> CallLine {
    let (x, y) = (from.0 + BOX_WIDTH, from.1 + BOX_HEIGHT / 2);
    let (to_x, to_y) = (to.0, to.1 + BOX_HEIGHT / 2);
    // Back to the left, or within a column, a line goes around.
    let bend = if to_x > x { (to_x - x) / 2 } else { 60 };
    CallLine {
        path: format!("M{x} {y}C{} {y} {} {to_y} {to_x} {to_y}", x + bend, to_x.saturating_sub(bend)),
        title: format!("{caller} → {callee}: {clients}"),
        is_seen: clients > 0,
        rules: number(rules),
        x: usize::midpoint(x, to_x),
        y: usize::midpoint(y, to_y),
    }
}

/// Places of the services that have calls.
fn places(graph: &CallGraph) -> BTreeMap<usize, (usize, usize)> {
    let columns = columns(graph);
    let mut joined: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for call in &graph.calls {
        joined.entry(call.caller).or_default().push(call.callee);
        joined.entry(call.callee).or_default().push(call.caller);
    }
    let mut ordered = columns.clone();
    for _ in 0..ROUNDS {
        let rows: BTreeMap<usize, usize> =
            ordered.iter().flat_map(|column| column.iter().enumerate().map(|(row, service)| (*service, row))).collect();
        let middle = |service: &usize| {
            let near = &joined[service];
            let sum: usize = near.iter().map(|other| rows[other]).sum();
            sum * 1000 / near.len().max(1)
        };
        ordered.iter_mut().for_each(|column| column.sort_by_key(|service| (middle(service), *service)));
    }
    let mut places = BTreeMap::new();
    let mut x = 20;
    for column in ordered.iter().filter(|column| !column.is_empty()) {
        for part in column.chunks(ROWS) {
            places.extend(part.iter().enumerate().map(|(row, service)| (*service, (x, 8 + row * ROW))));
            x += COLUMN;
        }
    }
    places
}

/// Services by the length of the longest way to them, those that nobody calls first. A call that closes a circle counts
/// for none.
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
        // Of a circle the one begins that fewest others call.
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
    use super::*;
    use crate::catalog::calls::{Call, CalledService};
    use crate::catalog::instances::InstanceCounts;

    fn graph(services: usize, calls: &[(usize, usize)]) -> CallGraph {
        let service = |at| CalledService {
            namespace: "shop".to_owned(),
            name: format!("s{at}"),
            instances: InstanceCounts::default(),
            rules: Vec::new(),
            other_clients: 0,
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
        assert_eq!(map.boxes[0].lines.len(), 2);
    }

    #[test]
    fn circles_have_a_place_and_no_two_boxes_the_same() {
        let mut calls: Vec<_> = (0..299).map(|at| (at, at + 1)).collect();
        calls.extend([(299, 0), (10, 5), (7, 7 * 7), (200, 3)]);
        calls.extend((0..100).map(|at| (0, 150 + at)));
        let map = CallMap::of(&graph(300, &calls));
        let mut places: Vec<_> = map.boxes.iter().map(|one| (one.x, one.y)).collect();
        assert_eq!(places.len(), 300);
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 300);
        assert!(CallMap::of(&graph(301, &calls)).boxes.is_empty());
    }
}
