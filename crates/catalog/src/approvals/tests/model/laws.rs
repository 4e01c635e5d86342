//! Policies of the model, and their requirements at one moment.

use super::*;

const GATES: [&str; 7] = ["publish", "gray", "promote", "rollback", "withdraw", "stop", "delete"];
const PATTERNS: [&str; 8] = ["*", "*", "pay", "pay/*", "pay/eu//*", "pay//eu/*", "x", "y"];

/// Namespace and name at which grants are checked.
pub(super) type Scope = (String, String);

/// Place at which a thing is evaluated.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Spot {
    /// File, by its number.
    File(usize),
    Name(String, String),
    /// Service on whose calls a rule acts, by its namespace.
    End(String),
}

impl Spot {
    pub(super) fn scope(&self) -> Scope {
        match self {
            Spot::File(at) => (FILES[*at].0.into(), FILES[*at].1.into()),
            Spot::Name(namespace, name) => (namespace.clone(), name.clone()),
            Spot::End(namespace) => (namespace.clone(), SERVICE.into()),
        }
    }
}

/// A policy as the model understands it.
#[derive(Clone, Debug)]
pub(super) struct Law {
    namespace: &'static str,
    names: Vec<&'static str>,
    /// Restriction to files (true) or to rules (false).
    of_files: Option<bool>,
    gates: Vec<&'static str>,
    approvals: usize,
    /// Start and end, in milliseconds.
    freeze: Option<(u64, u64)>,
}

impl Law {
    fn is_about(&self, spot: &Spot) -> bool {
        let names = |pattern: &&str| match (spot, *pattern) {
            (_, "*") => true,
            (Spot::File(at), "pay" | "pay/*") => FILES[*at].1 == "pay",
            (Spot::File(at), "pay/eu//*") => FILES[*at].1 == "pay/eu",
            (Spot::File(at), "pay//eu/*") => FILES[*at].1 == "pay" && FILES[*at].2.starts_with("eu/"),
            (Spot::File(_), _) => false,
            (Spot::Name(_, name), pattern) => name == pattern,
            (Spot::End(_), pattern) => pattern == SERVICE,
        };
        is_covered(self.namespace, &spot.scope().0) && self.names.iter().any(names)
    }
}

/// Approvals required by one policy, and the scopes at which its approvers need the right.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) approvals: usize,
    pub(super) scopes: Vec<Scope>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    pub(super) is_frozen: bool,
    pub(super) claims: Vec<Claim>,
}

impl Demand {
    pub(super) fn approvals(&self) -> usize {
        self.claims.iter().map(|claim| claim.approvals).max().unwrap_or_default()
    }

    pub(super) fn is_none(&self) -> bool {
        !self.is_frozen && self.claims.is_empty()
    }
}

impl World {
    /// Returns the present requirements of the policies. A later gate requires only approvals.
    pub(super) fn demand(&self, (gate, later): (&str, Option<&str>), is_file: bool, spots: &[Spot]) -> Demand {
        let mut demand = Demand::default();
        for law in self.laws.values() {
            let is_now = law.gates.contains(&gate);
            let is_later = later.is_some_and(|gate| law.gates.contains(&gate));
            let spots: Vec<_> = spots.iter().filter(|spot| law.is_about(spot)).collect();
            if !(is_now || is_later) || law.of_files.is_some_and(|files| files != is_file) || spots.is_empty() {
                continue;
            }
            let freezes = is_now && law.freeze.is_some_and(|(from, until)| (from..until).contains(&self.now));
            demand.is_frozen |= freezes;
            if law.approvals > 0 || freezes {
                let scopes = spots.into_iter().map(Spot::scope).collect();
                demand.claims.push(Claim { approvals: law.approvals, scopes });
            }
        }
        demand
    }

    pub(super) fn change_laws(&mut self) {
        let name = format!("p{}", self.random.random_range(0..3));
        let is_there = self.laws.contains_key(&name);
        if is_there && self.chance(3) {
            let gone = PolicyDraft { name: name.clone(), ..PolicyDraft::default() };
            assert_eq!(self.by_cluster(Command::Policies(Op::Delete, vec![gone])), [200_000]);
            self.laws.remove(&name);
            return self.saw("policy deleted");
        }
        let namespace = *["*", "prod", "te*"].choose(&mut self.random).expect("some");
        let count = self.random.random_range(1..=2);
        let names: Vec<_> = PATTERNS.choose_multiple(&mut self.random, count).copied().collect();
        let of_files = *[None, None, Some(true), Some(false)].choose(&mut self.random).expect("some");
        let count = self.random.random_range(2..=6);
        let gates: Vec<_> = GATES.choose_multiple(&mut self.random, count).copied().collect();
        let approvals = *[0, 1, 1, 1, 2, 2].choose(&mut self.random).expect("some");
        let until = self.now + self.random.random_range(2..20) * 1000;
        let freeze = self.chance(5).then_some((self.now, until));
        let freezes =
            freeze.map(|(from, until)| json!({"from": Timestamp(from).rfc3339(), "until": Timestamp(until).rfc3339()}));
        let kinds = match of_files {
            None => json!([]),
            Some(true) => json!(["configfile"]),
            Some(false) => json!(["ratelimit"]),
        };
        let draft = json!({"name": name, "namespace": namespace, "names": names, "gates": gates, "kinds": kinds,
            "approvals": approvals, "freezes": freezes.into_iter().collect::<Vec<_>>()});
        let draft: PolicyDraft = serde_json::from_value(draft).expect("a policy");
        let op = if is_there { Op::Update } else { Op::Create };
        let codes = self.by_cluster(Command::Policies(op, vec![draft]));
        assert!(codes == [200_000] || codes == [200_002], "{codes:?}");
        let law = Law { namespace, names, of_files, gates, approvals, freeze };
        let before = self.laws.insert(name, law).map(|law| law.approvals);
        match before {
            None => self.saw("policy made"),
            Some(before) if before < approvals => self.saw("policy raised"),
            Some(before) if before > approvals => self.saw("policy lowered"),
            Some(_) => self.saw("policy changed"),
        }
    }
}
