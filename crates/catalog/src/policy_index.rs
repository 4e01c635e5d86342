//! Policies by gate, with their patterns stored contiguously. Each action on a release is matched against all policies,
//! most of which do not apply; reading their strings from scattered memory would be slow.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::model::policy::{Calendar, Gate, Place, Policy, PolicyKind, is_about};
use crate::model::wire::Words;

/// Index that is built on first use. It is derived from the policies, so any two compare as equal.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicyIndex(OnceLock<Arc<Gates>>);

impl PartialEq for PolicyIndex {
    fn eq(&self, _: &PolicyIndex) -> bool {
        true
    }
}

/// Policies of each gate, in the given order.
#[derive(Debug, Default)]
struct Gates {
    by_gate: Vec<Vec<Entry>>,
    /// All patterns, concatenated.
    text: String,
    names: Vec<Range<usize>>,
}

#[derive(Debug)]
struct Entry {
    /// Bit set of kinds; 0 for all kinds.
    kinds: u32,
    namespace: Range<usize>,
    names: Range<usize>,
    judge: Arc<Judge>,
}

/// A policy, and its freezes as a calendar.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) policy: Arc<Policy>,
    pub(super) calendar: Calendar,
}

impl PolicyIndex {
    /// Returns the policies that apply to an action on a thing, at any of its places.
    pub(super) fn judging<'a>(
        &'a self,
        all: impl FnOnce() -> Vec<Arc<Policy>>,
        gate: Gate,
        kind: PolicyKind,
        places: &[Place],
    ) -> Vec<&'a Judge> {
        let gates = self.0.get_or_init(|| Arc::new(Gates::of(all())));
        let judges = |entry: &&Entry| places.iter().any(|place| gates.is_for(entry, kind, place));
        gates.by_gate[gate as usize].iter().filter(judges).map(|entry| &*entry.judge).collect()
    }
}

impl Gates {
    fn of(all: Vec<Arc<Policy>>) -> Gates {
        let mut gates = Gates { by_gate: Gate::ALL.iter().map(|_| Vec::new()).collect(), ..Gates::default() };
        for policy in all {
            let namespace = gates.keep(&policy.namespace);
            let first = gates.names.len();
            for name in &policy.names {
                let name = gates.keep(name);
                gates.names.push(name);
            }
            let names = first..gates.names.len();
            let kinds = policy.kinds.iter().fold(0, |bits, kind| bits | bit_of(*kind));
            let judge = Arc::new(Judge { calendar: Calendar::of(&policy.freezes), policy });
            // A policy may list a gate twice.
            let named = Gate::ALL.iter().map(|(gate, _)| *gate).filter(|gate| judge.policy.gates.contains(gate));
            for gate in named {
                let entry = Entry { kinds, namespace: namespace.clone(), names: names.clone(), judge: judge.clone() };
                gates.by_gate[gate as usize].push(entry);
            }
        }
        gates
    }

    fn keep(&mut self, pattern: &str) -> Range<usize> {
        let from = self.text.len();
        self.text.push_str(pattern);
        from..self.text.len()
    }

    fn is_for(&self, entry: &Entry, kind: PolicyKind, place: &Place) -> bool {
        let pattern = |at: &Range<usize>| &self.text[at.clone()];
        let names = self.names[entry.names.clone()].iter().map(pattern);
        (entry.kinds == 0 || entry.kinds & bit_of(kind) != 0)
            && is_about((&[], pattern(&entry.namespace), names), kind, place)
    }
}

fn bit_of(kind: PolicyKind) -> u32 {
    match kind {
        PolicyKind::ConfigFile => 1,
        PolicyKind::Rule(family) => 2 << (family as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config_file::ConfigKey;
    use crate::model::rule::Family;

    #[test]
    fn an_index_judges_as_each_policy_does() {
        let policy = |name: &str, gates: &[Gate], kinds: &[PolicyKind], namespace: &str, names: &[&str]| {
            Arc::new(Policy {
                gates: gates.to_vec(),
                kinds: kinds.to_vec(),
                namespace: namespace.to_owned(),
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                ..Policy::new(name)
            })
        };
        let rules = PolicyKind::Rule(Family::Routing);
        let all = vec![
            policy("a", Gate::USUAL, &[], "*", &["*"]),
            policy(
                "b",
                &[Gate::Stop, Gate::Publish, Gate::Stop],
                &[PolicyKind::ConfigFile],
                "shop",
                &["app", "other/*"],
            ),
            policy("c", &[Gate::Publish], &[rules], "sh*", &["pay-*", "split"]),
            policy("d", &[Gate::Rollback], &[rules, PolicyKind::ConfigFile], "shop", &["app/x", "split"]),
        ];
        let index = PolicyIndex::default();
        let files = PolicyKind::ConfigFile;
        let things = [(files, "app/x"), (files, "other/y"), (files, "apple/x")];
        let things = things.into_iter().chain(["pay-1", "split", "app"].map(|name| (rules, name)));
        let place = |namespace: &str, name: &str| match name.split_once('/') {
            Some((group, file)) => Place::File(ConfigKey::new(namespace, group, file)),
            None => Place::Rule { namespace: namespace.to_owned(), name: name.to_owned() },
        };
        for (gate, _) in Gate::ALL {
            for (kind, name) in things.clone() {
                for namespace in ["shop", "shed", "else"] {
                    let place = place(namespace, name);
                    let found = index.judging(|| all.clone(), *gate, kind, std::slice::from_ref(&place));
                    let found: Vec<_> = found.iter().map(|judge| &judge.policy).collect();
                    let expected: Vec<_> = all.iter().filter(|policy| policy.gates(*gate, kind, &place)).collect();
                    assert_eq!(found, expected, "{gate:?} {kind:?} {namespace} {name}");
                }
            }
        }
    }
}
