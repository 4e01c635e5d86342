//! Alarms: conditions of the cluster or of a node that need an operator.
//!
//! `thuban cluster status`, `GET /admin/v1/cluster`, `/readyz?verbose`, the first page of the console, the log and
//! `thuban_alarm` show what `Node::alarms` returns. A new alarm is an [`AlarmKind`] and a line in `Node::alarms`;
//! if only a room above can find it, a source registered by `Node::add_alarms`.

mod on_node;

use std::collections::BTreeMap;
use std::mem;

use parking_lot::Mutex;

use crate::format::types::NodeId;
use crate::model::text::first_bytes;
use crate::peer::MemberAlarm;

pub(super) use self::on_node::watch;

/// Maximum number of alarms that a member reports to the others, and of bytes of each text.
const REPORTED_MAX: usize = 16;
const REPORTED_BYTES_MAX: usize = 512;

/// Kind of an alarm; its name is a label of `thuban_alarm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// Members hold different states.
    State,
    /// The store of a node accepts no writes.
    Store,
    /// The disk of a member is running out of space.
    Disk,
    /// The memory of a member is running out.
    Memory,
    /// The state is larger than its quota.
    Quota,
    /// No snapshot can be written.
    Snapshot,
    /// A peer answers but accepts no entries.
    Peer,
    /// Access keys cannot be read by this node.
    AccessKeys,
    /// Encrypted config files cannot be read by this node.
    EncryptedFiles,
    /// Events for a webhook are dropped.
    Webhook,
    /// A certificate file of this node expires soon, has expired or cannot be used.
    Certificate,
    /// This node was removed from its cluster.
    Removed,
    /// The time of the cluster is in doubt, or most members' clocks differ from it.
    Clock,
}

impl AlarmKind {
    pub const ALL: [AlarmKind; 13] = [
        AlarmKind::State,
        AlarmKind::Store,
        AlarmKind::Disk,
        AlarmKind::Memory,
        AlarmKind::Quota,
        AlarmKind::Snapshot,
        AlarmKind::Peer,
        AlarmKind::AccessKeys,
        AlarmKind::EncryptedFiles,
        AlarmKind::Webhook,
        AlarmKind::Certificate,
        AlarmKind::Removed,
        AlarmKind::Clock,
    ];

    pub fn name(self) -> &'static str {
        match self {
            AlarmKind::State => "state",
            AlarmKind::Store => "store",
            AlarmKind::Disk => "disk",
            AlarmKind::Memory => "memory",
            AlarmKind::Quota => "quota",
            AlarmKind::Snapshot => "snapshot",
            AlarmKind::Peer => "peer",
            AlarmKind::AccessKeys => "access_keys",
            AlarmKind::EncryptedFiles => "encrypted_files",
            AlarmKind::Webhook => "webhook",
            AlarmKind::Certificate => "certificate",
            AlarmKind::Removed => "removed",
            AlarmKind::Clock => "clock",
        }
    }

    /// Reports whether only the node itself can find the alarm. Alarms of disk and memory are found by each member from
    /// the figures of the others, those of states from their hashes.
    fn is_reported(self) -> bool {
        matches!(
            self,
            AlarmKind::Store
                | AlarmKind::Snapshot
                | AlarmKind::AccessKeys
                | AlarmKind::EncryptedFiles
                | AlarmKind::Certificate
        )
    }

    fn of_name(name: &str) -> Option<AlarmKind> {
        AlarmKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One alarm. Kind, node and subject identify it; the text may change while it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    pub kind: AlarmKind,
    /// The affected member; `None` if it affects the cluster.
    pub node: Option<NodeId>,
    /// Name of the affected object, where one node can have several alarms of a kind.
    pub subject: String,
    /// The message: condition, consequence and remedy.
    pub text: String,
}

impl Alarm {
    pub fn of_cluster(kind: AlarmKind, text: impl Into<String>) -> Alarm {
        Alarm { kind, node: None, subject: String::new(), text: text.into() }
    }

    pub fn of_node(kind: AlarmKind, node: NodeId, text: impl Into<String>) -> Alarm {
        Alarm { node: Some(node), ..Alarm::of_cluster(kind, text) }
    }

    pub fn about(self, subject: impl Into<String>) -> Alarm {
        Alarm { subject: subject.into(), ..self }
    }

    fn key(&self) -> AlarmId {
        (self.kind, self.node, self.subject.clone())
    }
}

type AlarmId = (AlarmKind, Option<NodeId>, String);
/// Source of alarms of a room above. It is called every second and by each request for alarms, so it must not block.
type AlarmSource = Box<dyn Fn() -> Vec<Alarm> + Send + Sync>;

/// Alarms of this node since the last collection.
#[derive(Default)]
pub(super) struct Alarms {
    sources: Mutex<Vec<AlarmSource>>,
    /// Result of the last collection.
    noted: Mutex<Vec<Alarm>>,
    /// Reason why the last snapshot could not be written.
    snapshot_failure: Mutex<Option<String>>,
}

impl Alarms {
    pub(super) fn set_snapshot_failure(&self, why: Option<String>) {
        *self.snapshot_failure.lock() = why;
    }
}

fn to_report(node_id: NodeId, alarms: &[Alarm]) -> Vec<MemberAlarm> {
    let own = alarms.iter().filter(|alarm| alarm.node == Some(node_id) && alarm.kind.is_reported());
    let report = |alarm: &Alarm| MemberAlarm {
        kind: alarm.kind.name().to_owned(),
        subject: first_bytes(&alarm.subject, REPORTED_BYTES_MAX).to_owned(),
        text: first_bytes(&alarm.text, REPORTED_BYTES_MAX).to_owned(),
    };
    own.take(REPORTED_MAX).map(report).collect()
}

/// Decodes a report. Leaves out kinds that this version does not know.
fn reported_by(node_id: NodeId, report: Vec<MemberAlarm>) -> impl Iterator<Item = Alarm> {
    report.into_iter().filter_map(move |MemberAlarm { kind, subject, text }| {
        let kind = AlarmKind::of_name(&kind).filter(|kind| kind.is_reported())?;
        Some(Alarm::of_node(kind, node_id, text).about(subject))
    })
}

/// Alarms of the last collection, with their first text.
#[derive(Default)]
struct KnownAlarms(BTreeMap<AlarmId, Alarm>);

impl KnownAlarms {
    /// Replaces the known alarms by `found`. Returns the alarms that are new and those that ended.
    fn take(&mut self, found: &[Alarm]) -> (Vec<Alarm>, Vec<Alarm>) {
        let mut before = mem::take(&mut self.0);
        let mut raised = Vec::new();
        for alarm in found {
            let known = before.remove(&alarm.key());
            if known.is_none() && !self.0.contains_key(&alarm.key()) {
                raised.push(alarm.clone());
            }
            self.0.entry(alarm.key()).or_insert_with(|| known.unwrap_or_else(|| alarm.clone()));
        }
        (raised, before.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_new_once_and_ends_once_whatever_its_text_says_meanwhile() {
        let disk = |node, text: &str| Alarm::of_node(AlarmKind::Disk, node, text);
        let hook = |name: &str| Alarm::of_cluster(AlarmKind::Webhook, "full").about(name);
        let mut known = KnownAlarms::default();
        for (found, raised, ended) in [
            (vec![], vec![], vec![]),
            (vec![disk(1, "9 left")], vec![disk(1, "9 left")], vec![]),
            (vec![disk(1, "8 left"), disk(2, "7 left")], vec![disk(2, "7 left")], vec![]),
            (vec![disk(2, "6 left"), hook("a")], vec![hook("a")], vec![disk(1, "9 left")]),
            (vec![hook("a"), hook("b"), hook("b")], vec![hook("b")], vec![disk(2, "7 left")]),
            (vec![], vec![], vec![hook("a"), hook("b")]),
            (vec![disk(1, "5 left")], vec![disk(1, "5 left")], vec![]),
        ] {
            assert_eq!(known.take(&found), (raised, ended), "{found:?}");
        }
    }

    #[test]
    fn a_member_reports_what_only_it_can_find_about_itself() {
        let certificate =
            Alarm::of_node(AlarmKind::Certificate, 2, "node 2: ends in 3 days").about("/tls/cert.pem Ending");
        let long = Alarm::of_node(AlarmKind::Snapshot, 2, "é".repeat(REPORTED_BYTES_MAX));
        let found = [
            certificate.clone(),
            Alarm::of_node(AlarmKind::Certificate, 3, "reported by node 3"),
            Alarm::of_node(AlarmKind::Disk, 2, "each member judges it"),
            Alarm::of_cluster(AlarmKind::Webhook, "full"),
            long.clone(),
        ];
        let report = to_report(2, &found);
        let heard: Vec<Alarm> = reported_by(2, report).collect();
        assert_eq!(heard[0], certificate);
        assert_eq!((heard.len(), heard[1].text.len()), (2, REPORTED_BYTES_MAX));
        assert!(long.text.starts_with(&heard[1].text));
        let many: Vec<Alarm> = (0..40).map(|n| certificate.clone().about(n.to_string())).collect();
        assert_eq!(to_report(2, &many).len(), REPORTED_MAX);
        let unknown = |kind: &str| MemberAlarm { kind: kind.into(), subject: "".into(), text: "".into() };
        assert_eq!(reported_by(2, vec![unknown("of_a_later_version"), unknown("quota")]).count(), 0);
    }

    #[test]
    fn every_kind_is_listed_once_in_order() {
        assert!(AlarmKind::ALL.is_sorted_by(|one, next| one < next && one.name() != next.name()));
    }
}
