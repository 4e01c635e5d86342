//! Audit buffer: notes about events that are no commands, to be written to the audit trail: refused requests, failed
//! logins, membership changes, backups.
//!
//! Notes wait on the node and are proposed together, at most once a second, so a flood costs the log and consensus no
//! more than that. Notes that differ in nothing but time, request and count are merged, and each [`RateClass`] has a
//! limited rate; the notes beyond it are only counted, in a separate note. So an attacker can neither fill the trail
//! nor displace the actions of others from it. A node that ends loses the notes of its last second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::Controllers;
use crate::catalog::audit::{AuditNote, AuditRow};
use crate::catalog::{Command, RequestId};
use crate::model::access::CLUSTER;
use crate::model::limits;
use crate::raft::log_row;
use crate::raft::node::{Node, NodeError};

/// Pause between two proposals.
const ROUND: Duration = Duration::from_secs(1);
/// Maximum number of waiting notes, which accumulate while there is no leader.
const WAITING_MAX: usize = 512;
/// Notes of one class that are accepted at once, before its rate applies.
const BURST: f64 = 100.0;
/// Maximum number of callers with a separate budget for refusals; further ones share one budget.
const REFUSED_CALLERS_MAX: usize = 1000;
/// Action of a note that counts dropped notes.
const UNTOLD: &str = "untold";

/// Class of a note by its cause, which determines its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateClass {
    /// An action by an authorized caller.
    Done,
    /// A refusal of a known caller.
    Refused,
    /// A refusal of an unknown caller.
    Stranger,
    /// A refusal of a config client.
    Client,
}

impl RateClass {
    const ALL: [RateClass; 4] = [RateClass::Done, RateClass::Refused, RateClass::Stranger, RateClass::Client];

    /// Returns the notes per second beyond the burst: for strangers 14,400 a day, and as many for config clients.
    fn pace(self) -> f64 {
        match self {
            RateClass::Done => 1.0,
            RateClass::Refused | RateClass::Stranger | RateClass::Client => 1.0 / 6.0,
        }
    }

    fn word(self) -> &'static str {
        match self {
            RateClass::Done => "done",
            RateClass::Refused => "refused",
            RateClass::Stranger => "stranger",
            RateClass::Client => "client",
        }
    }
}

/// Budget of a class: the notes that it still accepts, and the number of dropped ones.
#[derive(Debug)]
struct RateBudget {
    left: f64,
    filled: Instant,
    untold: u32,
}

impl RateBudget {
    fn full() -> RateBudget {
        RateBudget { left: BURST, filled: Instant::now(), untold: 0 }
    }

    fn fill(&mut self, class: RateClass, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.left = (self.left + passed * class.pace()).min(BURST);
        self.filled = now;
    }

    fn pays(&mut self, class: RateClass, now: Instant) -> bool {
        self.fill(class, now);
        let pays = self.left >= 1.0;
        if pays {
            self.left -= 1.0;
        }
        pays
    }
}

#[derive(Debug)]
struct PendingNotes {
    waiting: Vec<AuditNote>,
    budgets: [RateBudget; RateClass::ALL.len()],
    /// Budgets of refused callers by name, so that one of them cannot use up that of the others.
    refused: HashMap<String, RateBudget>, // bound: refused-callers
}

impl PendingNotes {
    /// Returns the budget of a refused caller.
    fn budget_of(&mut self, user: &str, now: Instant) -> &mut RateBudget {
        if !self.refused.contains_key(user) && self.refused.len() >= REFUSED_CALLERS_MAX {
            self.refused.values_mut().for_each(|budget| budget.fill(RateClass::Refused, now));
            self.refused.retain(|_, budget| budget.left < BURST);
        }
        let has_room = self.refused.len() < REFUSED_CALLERS_MAX;
        let user = if has_room || self.refused.contains_key(user) { user } else { "" };
        self.refused.entry(user.to_owned()).or_insert_with(RateBudget::full)
    }

    /// Reports whether a refusal of this caller would be noted, without using its budget.
    fn may_record_refusal_of(&mut self, user: &str, now: Instant) -> bool {
        let Some(budget) = self.refused.get_mut(user) else { return true };
        budget.fill(RateClass::Refused, now);
        budget.left >= 1.0
    }

    /// Adds a note; returns false if it was merged with another one or dropped.
    fn take(&mut self, class: RateClass, note: AuditNote, now: Instant) -> bool {
        if let Some(known) = self.waiting.iter_mut().find(|known| is_alike(known, &note)) {
            known.count = known.count.saturating_add(note.count);
            return false;
        }
        let is_full = self.waiting.len() >= WAITING_MAX;
        let budget = match class {
            RateClass::Refused => self.budget_of(&note.user, now),
            RateClass::Done | RateClass::Stranger | RateClass::Client => &mut self.budgets[class as usize],
        };
        if is_full || !budget.pays(class, now) {
            let untold = &mut self.budgets[class as usize].untold;
            *untold = untold.saturating_add(note.count);
            return false;
        }
        self.waiting.push(note);
        true
    }

    /// Returns the notes to be proposed now, including notes that count dropped ones.
    fn hand_over(&mut self, now: Instant, blank: &AuditNote) -> Vec<AuditNote> {
        for (class, budget) in RateClass::ALL.into_iter().zip(&mut self.budgets) {
            if budget.untold > 0 && self.waiting.len() < WAITING_MAX && budget.pays(class, now) {
                let count = std::mem::take(&mut budget.untold);
                let (action, kind, name) = (UNTOLD.to_owned(), "audit".to_owned(), class.word().to_owned());
                self.waiting.push(AuditNote { action, kind, name, count, ..blank.clone() });
            }
        }
        let count = self.waiting.len().min(limits::AUDIT_NOTES_MAX);
        self.waiting.drain(..count).collect()
    }

    /// Puts back notes that could not be written, before those that arrived since.
    fn take_back(&mut self, notes: Vec<AuditNote>) {
        let newer = std::mem::replace(&mut self.waiting, notes);
        self.waiting.extend(newer);
    }
}

/// Reports whether two notes differ in nothing but time, request and count.
fn is_alike(one: &AuditNote, other: &AuditNote) -> bool {
    let AuditNote { time: _, user, token, address, action, kind, namespace, name, code, request: _, count: _ } = one;
    (user, token, address, action, kind) == (&other.user, &other.token, &other.address, &other.action, &other.kind)
        && (namespace, name, code) == (&other.namespace, &other.name, &other.code)
}

impl Default for PendingNotes {
    fn default() -> Self {
        let budgets = RateClass::ALL.map(|_| RateBudget::full());
        PendingNotes { waiting: Vec::new(), budgets, refused: HashMap::new() }
    }
}

/// Notes of a node that are not written yet.
#[derive(Default)]
pub struct AuditBuffer(Mutex<PendingNotes>);

impl AuditBuffer {
    /// Queues a note, with the current time.
    pub fn note(&self, node: &Node, class: RateClass, note: AuditNote) {
        let note = AuditNote { time: node.now(), count: note.count.max(1), ..note };
        let shown = note.clone();
        if self.0.lock().take(class, note, Instant::now()) {
            log_row(&AuditRow::of_note(shown.time, shown));
            return;
        }
        node.metrics().audit_merged.with_label_values(&[class.word()]).inc();
        if class == RateClass::Refused {
            node.metrics().audit_refusals_dropped.inc_by(shown.count.into());
        }
    }

    /// Reports whether a refusal of this caller would be noted now; after very many refusals it is not.
    pub fn may_record_refusals_of(&self, user: &str) -> bool {
        self.0.lock().may_record_refusal_of(user, Instant::now())
    }

    /// Counts items that were refused on apply; `is_told` if one row of the trail has them.
    pub fn count_refusals(&self, node: &Node, user: &str, count: u64, is_told: bool) {
        let now = Instant::now();
        if is_told {
            self.0.lock().budget_of(user, now).pays(RateClass::Refused, now);
        } else {
            node.metrics().audit_refusals_dropped.inc_by(count);
        }
    }
}

/// Proposes the waiting notes, for as long as the node runs.
pub(super) async fn write_down(node: Node, controllers: Arc<Controllers>) {
    let pending = &controllers.audit_buffer.0;
    loop {
        sleep(ROUND).await;
        let blank = AuditNote { time: node.now(), user: CLUSTER.to_owned(), ..AuditNote::default() };
        let notes = pending.lock().hand_over(Instant::now(), &blank);
        if notes.is_empty() {
            continue;
        }
        let request = RequestId(rand::random());
        if let Err(error) = propose_once(&node, request, &Command::Note(notes.clone())).await {
            tracing::debug!(%error, "notes for the audit trail could not be written yet");
            pending.lock().take_back(notes);
        }
    }
}

/// Proposes a command, and repeats it under the same id while the outcome is unknown: under another id it could be
/// applied twice. An error means that it was not applied.
pub(super) async fn propose_once(node: &Node, request: RequestId, command: &Command) -> Result<(), NodeError> {
    let mut may_be_done = false;
    loop {
        match node.propose_draft(request, CLUSTER, command.clone()).await {
            Ok(_) => return Ok(()),
            Err(NodeError::OutcomeUnknown) => may_be_done = true,
            Err(error) if !may_be_done => return Err(error),
            Err(_) => {}
        }
        // Its reply may have come too late, or its entry in a snapshot.
        if node.state().catalog().remembers(request) {
            return Ok(());
        }
        sleep(ROUND).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::TestNode;

    fn note(name: &str) -> AuditNote {
        AuditNote { name: name.into(), count: 1, ..AuditNote::default() }
    }

    #[tokio::test]
    async fn what_is_alike_is_told_once() {
        let (mut pending, now) = (PendingNotes::default(), Instant::now());
        assert!(pending.take(RateClass::Stranger, note("a"), now));
        assert!(!pending.take(RateClass::Stranger, AuditNote { request: "other".into(), ..note("a") }, now));
        assert!(pending.take(RateClass::Stranger, note("b"), now));
        let told = pending.hand_over(now, &AuditNote::default());
        let counts: Vec<_> = told.iter().map(|note| (note.name.as_str(), note.count)).collect();
        assert_eq!(counts, [("a", 2), ("b", 1)]);
        assert_eq!(pending.hand_over(now, &AuditNote::default()), []);
    }

    /// Ten minutes of a flood of different notes: burst and rate limit its notes, other classes are not affected, and
    /// every dropped note is counted.
    #[tokio::test]
    async fn a_flood_is_a_bounded_number_of_notes() {
        let (mut pending, began) = (PendingNotes::default(), Instant::now());
        let (mut told, mut counted, mut known) = (0, 0, 0);
        for second in 0..600_u64 {
            let now = began + Duration::from_secs(second);
            for number in 0..500 {
                pending.take(RateClass::Stranger, note(&format!("{second} {number}")), now);
            }
            known += u32::from(pending.take(RateClass::Done, note(&format!("{second}")), now));
            for note in pending.hand_over(now, &AuditNote::default()) {
                told += 1;
                counted += note.count;
            }
        }
        assert_eq!(known, 600, "what is done is told all the same");
        assert!((100..=100 + 100 + 600).contains(&told), "{told}");
        let left: u32 = pending.budgets.iter().map(|budget| budget.untold).sum();
        let waiting: u32 = pending.waiting.iter().map(|note| note.count).sum();
        assert_eq!(counted + left + waiting, 600 * 500 + 600);
        assert!(pending.waiting.len() <= WAITING_MAX);
    }

    /// A thousand refusals of one caller leave room for the first one of another, and ten more a minute for itself.
    #[tokio::test]
    async fn each_caller_has_a_budget_of_refusals() {
        let (mut pending, began) = (PendingNotes::default(), Instant::now());
        let of = |user: &str, name: &str| AuditNote { user: user.into(), ..note(name) };
        let told =
            (0..1000).filter(|number| pending.take(RateClass::Refused, of("eve", &number.to_string()), began)).count();
        assert_eq!(told, 100);
        assert!(!pending.may_record_refusal_of("eve", began) && pending.may_record_refusal_of("ann", began));
        assert!(pending.take(RateClass::Refused, of("ann", "x"), began));
        let later = began + Duration::from_secs(60);
        pending.hand_over(later, &AuditNote::default());
        let told = (0..1000)
            .filter(|number| pending.take(RateClass::Refused, of("eve", &format!("b{number}")), later))
            .count();
        assert_eq!(told, 10);
        for number in 0..3 * REFUSED_CALLERS_MAX {
            pending.budget_of(&number.to_string(), later).pays(RateClass::Refused, later);
        }
        assert!(pending.refused.len() <= REFUSED_CALLERS_MAX + 1, "{}", pending.refused.len());
    }

    #[tokio::test]
    async fn what_could_not_be_written_is_told_first() {
        let (mut pending, now) = (PendingNotes::default(), Instant::now());
        pending.take(RateClass::Done, note("a"), now);
        let notes = pending.hand_over(now, &AuditNote::default());
        pending.take(RateClass::Done, note("b"), now);
        pending.take_back(notes);
        let names: Vec<_> = pending.hand_over(now, &AuditNote::default()).into_iter().map(|note| note.name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    /// After a lost answer the node proposes the notes again, and they are written once.
    #[tokio::test(flavor = "multi_thread")]
    async fn notes_whose_outcome_was_unknown_are_written_down_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let started = TestNode::founded(dir.path()).await;
        let (node, request) = (&started.node, RequestId(7));
        let command = Command::Note(vec![note("a"), note("b")]);
        let rows = || node.state().catalog().trail.rows();
        let before = rows();
        node.propose_draft(request, CLUSTER, command.clone()).await.expect("written down");
        let written = rows();
        assert!(written > before, "{written} rows");
        propose_once(node, request, &command).await.expect("they are there");
        assert_eq!(rows(), written);
        propose_once(node, RequestId(8), &command).await.expect("written down");
        assert!(rows() > written, "of another time");
        started.stop().await;
    }
}
