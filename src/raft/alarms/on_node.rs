//! Alarms of a node: collects them from its parts and logs how they begin and end.

use std::time::Duration;

use tokio::time::sleep;

use super::{Alarm, AlarmKind, KnownAlarms, reported_by, to_report};
use crate::catalog::Catalog;
use crate::model::limits::WEBHOOK_EVENTS_MAX;
use crate::peer::MemberAlarm;
use crate::raft::capacity;
use crate::raft::node::Node;
use crate::tasks::in_place;

/// Pause between two collections of alarms.
const PAUSE: Duration = Duration::from_secs(1);

impl Node {
    /// Registers a source of alarms of a room above.
    pub fn add_alarms(&self, source: impl Fn() -> Vec<Alarm> + Send + Sync + 'static) {
        self.inner().upkeep.alarms.sources.lock().push(Box::new(source));
    }

    /// Returns all alarms as this node sees them now. Checks every access key; unauthenticated callers get
    /// [`Node::noted_alarms`] instead.
    pub fn alarms(&self) -> Vec<Alarm> {
        let view = self.state().view();
        let mut alarms = self.divergence_alarms();
        alarms.extend(self.store_alarm());
        alarms.extend(capacity::alarms(self));
        alarms.extend(self.snapshot_alarm());
        alarms.extend(self.stuck_peers());
        alarms.extend(self.inner().upkeep.alarms.sources.lock().iter().flat_map(|source| source()));
        alarms.extend(webhook_alarms(&view));
        alarms.extend(self.certificate_alarms());
        alarms.extend(self.clock_alarm(&view.time));
        alarms.extend(self.removed().map(|why| Alarm::of_node(AlarmKind::Removed, self.id(), why.to_string())));
        alarms.extend(self.reported_alarms());
        alarms
    }

    /// Returns this node's alarms of the last collection that other members cannot find.
    pub(in crate::raft) fn alarms_to_report(&self) -> Vec<MemberAlarm> {
        to_report(self.id(), &self.noted_alarms())
    }

    /// Returns the alarms that other members reported last.
    fn reported_alarms(&self) -> Vec<Alarm> {
        let reports = self.inner().poll.said().into_iter().filter(|(id, _)| *id != self.id());
        reports.flat_map(|(id, progress)| reported_by(id, progress.alarms)).collect()
    }

    /// Returns the alarms of the last collection, at most a second old.
    pub fn noted_alarms(&self) -> Vec<Alarm> {
        self.inner().upkeep.alarms.noted.lock().clone()
    }

    fn certificate_alarms(&self) -> Vec<Alarm> {
        let of_node = |(subject, text): (String, String)| {
            Alarm::of_node(AlarmKind::Certificate, self.id(), format!("node {}: {text}", self.id())).about(subject)
        };
        self.inner().upkeep.certificates.alarms().into_iter().map(of_node).collect()
    }

    fn store_alarm(&self) -> Option<Alarm> {
        let (id, why) = (self.id(), self.store().failure()?);
        let text = format!("node {id} writes nothing any more, its disk failed: {why}; mend the disk and restart it");
        Some(Alarm::of_node(AlarmKind::Store, id, text))
    }

    fn snapshot_alarm(&self) -> Option<Alarm> {
        let (id, why) = (self.id(), self.inner().upkeep.alarms.snapshot_failure.lock().clone()?);
        let text = format!("node {id} could not write a snapshot, and its log grows until it can: {why}");
        Some(Alarm::of_node(AlarmKind::Snapshot, id, text))
    }
}

/// Logs when an alarm is raised and when it ends, for as long as the node runs.
pub(in crate::raft) async fn watch(node: Node) {
    let mut known = KnownAlarms::default();
    loop {
        let found = in_place(|| node.alarms());
        for kind in AlarmKind::ALL {
            let is_raised = found.iter().any(|alarm| alarm.kind == kind);
            node.metrics().alarm.with_label_values(&[kind.name()]).set(i64::from(is_raised));
        }
        node.metrics().clock_difference.set(node.clock_difference());
        let (raised, ended) = known.take(&found);
        *node.inner().upkeep.alarms.noted.lock() = found;
        for alarm in raised {
            tracing::warn!(alarm = alarm.kind.name(), "{}", alarm.text);
        }
        for alarm in ended {
            tracing::info!(alarm = alarm.kind.name(), "this alarm has ended: {}", alarm.text);
        }
        sleep(PAUSE).await;
    }
}

/// Returns alarms of webhooks whose queue is full, so that the next event drops the oldest pending one.
fn webhook_alarms(catalog: &Catalog) -> Vec<Alarm> {
    let full = catalog.webhooks.all().filter(|hook| catalog.webhooks.pending(&hook.name) >= WEBHOOK_EVENTS_MAX);
    let tell = |name: &str| {
        let text = format!(
            "webhook {name}: {WEBHOOK_EVENTS_MAX} events wait for its receiver, and each further one drops the oldest; \
             `GET /admin/v1/webhooks` says why"
        );
        Alarm::of_cluster(AlarmKind::Webhook, text).about(name)
    };
    full.map(|hook| tell(&hook.name)).collect()
}
