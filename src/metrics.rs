//! Table of all series on `/metrics`.
//!
//! A row has a field, its Prometheus name, its labels and its help text; series names occur nowhere else in the
//! program. The set belongs to the node and is not global, so several nodes can run in one test process. Label values
//! are route templates, methods, codes, member ids and paths of settings. They are never texts chosen by callers,
//! except for ids of apps with access keys, and names of webhooks and identity providers, which are few.

use std::sync::Arc;

use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder, core::Collector,
};
use tokio::time::Instant;

use crate::model::mesh::Dialect;
use crate::model::mesh::resource::ResourceType;

/// Seconds, from 100 µs, the fastest request, to the request timeout.
const LATENCY_BUCKETS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Seconds for held long polls, up to the longest hold that clients accept.
const HOLD_BUCKETS: &[f64] = &[0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0];
/// Entries per fsync or per apply.
const BATCH_BUCKETS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Reasons for refusing a connection to the peer listener: invalid data, or an unknown peer.
const PEER_REFUSALS: &[&str] = &[
    "gone", "slow", "crowded", "magic", "version", "purpose", "tls", "plain", "frame", "hello", "secret", "cluster",
    "target", "instance", "removed", "level", "other",
];
/// Reasons for the end of xDS streams.
const XDS_ENDS: &[&str] =
    &["closed", "aged", "shutdown", "behind", "not_ready", "too_many", "invalid", "request", "credential"];
/// Reasons for refusing a client's connection.
const CONNECTION_REFUSALS: &[&str] =
    &["total", "address", "descriptors", "tls", "tls_slow", "plain", "http1", "slow", "proxy"];

macro_rules! metrics {
    ($(
        #[doc = $help:literal]
        $field:ident: $kind:ident $name:literal $([$($label:literal),+])? $(in $buckets:ident)?;
    )+) => {
        /// Every series of one node.
        pub struct Metrics {
            registry: Registry,
            $( #[doc = $help] pub $field: $kind, )+
        }

        impl Metrics {
            /// Builds and registers the table. Fails only if two rows share a name.
            pub fn new() -> Result<Self, prometheus::Error> {
                let registry = Registry::new();
                $(
                    let $field = metrics!(@build $kind $name, $help.trim() $(, [$($label),+])? $(, $buckets)?);
                    registry.register(Box::new($field.clone()))?;
                )+
                #[cfg(target_os = "linux")]
                registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
                let metrics = Metrics { registry, $( $field, )+ };
                metrics.begin_at_zero();
                Ok(metrics)
            }
        }
    };
    (@build IntCounter $name:literal, $help:expr) => { IntCounter::new($name, $help)? };
    (@build IntGauge $name:literal, $help:expr) => { IntGauge::new($name, $help)? };
    (@build Gauge $name:literal, $help:expr) => { Gauge::new($name, $help)? };
    (@build IntCounterVec $name:literal, $help:expr, [$($label:literal),+]) => {
        IntCounterVec::new(Opts::new($name, $help), &[$($label),+])?
    };
    (@build IntGaugeVec $name:literal, $help:expr, [$($label:literal),+]) => {
        IntGaugeVec::new(Opts::new($name, $help), &[$($label),+])?
    };
    (@build GaugeVec $name:literal, $help:expr, [$($label:literal),+]) => {
        GaugeVec::new(Opts::new($name, $help), &[$($label),+])?
    };
    (@build Histogram $name:literal, $help:expr, $buckets:ident) => {
        Histogram::with_opts(HistogramOpts::new($name, $help).buckets($buckets.to_vec()))?
    };
    (@build HistogramVec $name:literal, $help:expr, [$($label:literal),+], $buckets:ident) => {
        HistogramVec::new(HistogramOpts::new($name, $help).buckets($buckets.to_vec()), &[$($label),+])?
    };
}

metrics! {
    /// Duration of HTTP requests that are not long polls, by listener, route template, method and status.
    request_duration: HistogramVec "thuban_request_duration_seconds" ["surface", "route", "method", "code"]
        in LATENCY_BUCKETS;
    /// HTTP requests being served, held polls excluded.
    requests_in_flight: IntGauge "thuban_requests_in_flight";
    /// Results of writes by business code, one per batch item.
    outcomes: IntCounterVec "thuban_write_outcomes_total" ["code"];

    /// Long polls held.
    polls_held: IntGauge "thuban_long_polls_held";
    /// Clients in this node's register of which release each client has.
    subscribers: IntGauge "thuban_subscribers";
    /// Memory of the register of clients in bytes.
    subscribers_bytes: IntGauge "thuban_subscribers_bytes";
    /// Connected clients with a release, or entitled to one, by kind: configfile or that of a rule.
    subscribers_present: IntGaugeVec "thuban_subscribers_present" ["kind"];
    /// Connected clients on the current release, by kind; a subset of thuban_subscribers_present.
    subscribers_current: IntGaugeVec "thuban_subscribers_current" ["kind"];
    /// Connected clients that refused something they were sent and still lack it.
    subscribers_refused: IntGauge "thuban_subscribers_refused";
    /// Clients left out of the register because it is full, in total or for one address.
    subscribers_turned_away: IntGauge "thuban_subscribers_turned_away";
    /// Long polls ended, by outcome: changed, unchanged, dropped (client gone), refused, shutdown.
    polls_ended: IntCounterVec "thuban_long_polls_total" ["outcome"];
    /// Time a long poll was held before its answer, by outcome.
    poll_hold: HistogramVec "thuban_long_poll_hold_seconds" ["outcome"] in HOLD_BUCKETS;
    /// Config pulls refused with 503 because this node had not applied the version the client named.
    pulls_behind: IntCounter "thuban_config_pulls_behind_total";
    /// Bytes of config file contents in memory: drafts and releases in force.
    content_bytes: IntGauge "thuban_config_content_bytes";
    /// Bytes of the cache of rendered releases.
    render_cache_bytes: IntGauge "thuban_render_cache_bytes";
    /// Renderings served from the cache.
    render_cache_hits: IntCounter "thuban_render_cache_hits_total";
    /// Renderings made because the cache did not have them.
    render_cache_misses: IntCounter "thuban_render_cache_misses_total";

    /// Log lines dropped because their reader or disk did not accept them.
    log_lines_dropped: IntCounter "thuban_log_lines_dropped_total";
    /// Panics of tasks and threads, each of which is a defect.
    panics: IntCounter "thuban_panics_total";

    /// 1 while a leader is known, else 0.
    has_leader: IntGauge "thuban_raft_has_leader";
    /// 1 on the leader, else 0.
    is_leader: IntGauge "thuban_raft_is_leader";
    /// Role of this node: 1 on the series of its present role.
    role: IntGaugeVec "thuban_raft_role" ["role"];
    /// Current term.
    term: IntGauge "thuban_raft_term";
    /// Leader changes seen by this node.
    leader_changes: IntCounter "thuban_raft_leader_changes_total";
    /// Index of the last entry in this node's log.
    last_log_index: IntGauge "thuban_raft_last_log_index";
    /// Index of the last entry known to be committed.
    committed_index: IntGauge "thuban_raft_committed_index";
    /// Index of the last applied entry.
    applied_index: IntGauge "thuban_raft_applied_index";
    /// Index of the last entry in the newest snapshot.
    snapshot_index: IntGauge "thuban_raft_snapshot_index";
    /// Index of the last purged log entry.
    purged_index: IntGauge "thuban_raft_purged_index";
    /// On the leader: log entries that a peer does not have yet.
    peer_lag: IntGaugeVec "thuban_raft_peer_lag_entries" ["peer"];
    /// 1 while a peer answers pings, else 0.
    peer_reachable: IntGaugeVec "thuban_peer_reachable" ["peer"];
    /// Round trip time of the last ping to a peer.
    peer_round_trip: GaugeVec "thuban_peer_round_trip_seconds" ["peer"];
    /// On the leader: 1 while a peer answers pings but has accepted no pending entry for 10 s, else 0.
    peer_stuck: IntGaugeVec "thuban_peer_stuck" ["peer"];
    /// Age of this node's state: time up to which commits may be missing; 0 on a leader, +Inf at first.
    freshness: Gauge "thuban_freshness_seconds";
    /// Seconds by which this node's clock is ahead of the cluster's time; negative behind it.
    clock_difference: Gauge "thuban_clock_difference_seconds";
    /// Election timeout: silence of the leader after which this node starts an election.
    election_timeout: Gauge "thuban_election_timeout_seconds";
    /// On the leader: failed replication sessions to a peer; each is retried with backoff.
    peer_append_failures: IntCounterVec "thuban_peer_append_failures_total" ["peer"];
    /// 1 while this node sees members with different states at the same index, else 0.
    state_diverged: IntGauge "thuban_state_diverged";
    /// Connections refused on the peer listener, by reason.
    peer_refused: IntCounterVec "thuban_peer_connections_refused_total" ["reason"];
    /// Commands proposed through this node that wait for their result.
    proposals_pending: IntGauge "thuban_proposals_pending";
    /// Commands without a result, by reason: no_leader, outcome_unknown, refused.
    proposals_failed: IntCounterVec "thuban_proposals_failed_total" ["reason"];
    /// Time from proposal to result, on the node that took the request.
    proposal_duration: Histogram "thuban_proposal_duration_seconds" in LATENCY_BUCKETS;
    /// Commands forwarded to the leader.
    forwards: IntCounter "thuban_forwards_total";
    /// Repeated commands that apply recognised by their request id and skipped.
    duplicates: IntCounter "thuban_duplicate_commands_total";

    /// Duration of one fsync of the log.
    fsync_duration: Histogram "thuban_log_fsync_duration_seconds" in LATENCY_BUCKETS;
    /// Appends per fsync of the log.
    fsync_batch: Histogram "thuban_log_fsync_appends" in BATCH_BUCKETS;
    /// Duration of applying one group of entries, the batch of rows included.
    apply_duration: Histogram "thuban_apply_duration_seconds" in LATENCY_BUCKETS;
    /// Entries per applied group.
    apply_batch: Histogram "thuban_apply_entries" in BATCH_BUCKETS;
    /// Time apply held the lock of the catalog at a stretch; readers wait for that long.
    catalog_held: Histogram "thuban_catalog_held_seconds" in LATENCY_BUCKETS;
    /// Snapshots by event: built, sent, installed, failed.
    snapshots: IntCounterVec "thuban_snapshots_total" ["event"];
    /// Size of the newest snapshot file.
    snapshot_bytes: IntGauge "thuban_snapshot_size_bytes";
    /// Duration of building a snapshot.
    snapshot_build: Histogram "thuban_snapshot_build_duration_seconds" in LATENCY_BUCKETS;

    /// 1 while the last attempt to write a snapshot failed; it is retried, and the log grows meanwhile.
    snapshot_failing: IntGauge "thuban_snapshot_failing";
    /// Bytes of the entries in this node's log.
    log_bytes: IntGauge "thuban_log_size_bytes";
    /// Bytes of all rows of the replicated state, as --quota-bytes counts them.
    state_bytes: IntGauge "thuban_state_bytes";
    /// Free bytes on the filesystem of the data directory.
    disk_free: IntGauge "thuban_disk_free_bytes";
    /// Free bytes below which writes that add data are refused, see --disk-reserve-bytes.
    disk_reserve: IntGauge "thuban_disk_reserve_bytes";
    /// Bytes of state above which writes that add data are refused, see --quota-bytes; 0 for no quota.
    quota_bytes: IntGauge "thuban_quota_bytes";
    /// Memory limit of this node in bytes, see --memory-limit-bytes; 0 if no limit is known.
    memory_limit: IntGauge "thuban_memory_limit_bytes";
    /// Memory use of this node in bytes, page cache excluded.
    memory_used: IntGauge "thuban_memory_used_bytes";
    /// 1 on shortage of disk, memory (own; on the leader any member's) or quota; a learner's stops no write.
    storage_alarm: IntGaugeVec "thuban_storage_alarm" ["reason"];

    /// 1 while there is an alarm of this kind in `thuban cluster status`, as this node sees it.
    alarm: IntGaugeVec "thuban_alarm" ["kind"];

    /// Bytes of request bodies and large answers in memory, until answered or sent.
    under_way: IntGauge "thuban_under_way_bytes";
    /// Limit of thuban_under_way_bytes; one address may use a quarter of it, a user half, and at least 16 MiB.
    under_way_max: IntGauge "thuban_under_way_max_bytes";

    /// Memory of open xDS streams: 20 KiB each, and names and labels above 4 KiB; one address may use a third.
    stream_bytes: IntGauge "thuban_xds_stream_bytes";
    /// Limit of thuban_xds_stream_bytes.
    stream_bytes_max: IntGauge "thuban_xds_stream_max_bytes";

    /// Open client connections, by listener: api, compat, grpc.
    connections: IntGaugeVec "thuban_connections" ["listener"];
    /// Connections closed before a request, by listener and reason (address, total, tls, plain, http1, slow, …).
    connections_refused: IntCounterVec "thuban_connections_refused_total" ["listener", "reason"];

    /// Open xDS streams that subscribe to a type (cds, eds, lds, rds), by client: envoy, grpc.
    xds_streams: IntGaugeVec "thuban_xds_streams" ["type", "client"];
    /// xDS responses that clients refused, by type and client.
    xds_nacks: IntCounterVec "thuban_xds_nacks_total" ["type", "client"];
    /// xDS responses sent, by type and client.
    xds_responses: IntCounterVec "thuban_xds_responses_total" ["type", "client"];
    /// Bytes of the xDS responses sent, by type and client.
    xds_response_bytes: IntCounterVec "thuban_xds_response_bytes_total" ["type", "client"];
    /// xDS responses and resources not sent because gRPC clients accept at most 4 MiB, by type and client.
    xds_too_large: IntCounterVec "thuban_xds_responses_too_large_total" ["type", "client"];
    /// Ended xDS streams, by reason: closed, aged, shutdown, behind, not_ready, too_many, invalid, request, credential.
    xds_ends: IntCounterVec "thuban_xds_streams_ended_total" ["reason"];
    /// gRPC streams reset because no part of a response was read for a minute.
    unread_streams: IntCounter "thuban_grpc_streams_unread_total";
    /// Labels and namespaces of xDS clients above the limits: 64 labels, 128 and 4,096 characters, 64 KiB in all.
    xds_labels_cut: IntCounter "thuban_xds_labels_cut_total";

    /// RocksDB: live data on disk, by column family.
    rocksdb_live_bytes: IntGaugeVec "thuban_rocksdb_live_data_size_bytes" ["cf"];
    /// RocksDB: size of the memtables, by column family.
    rocksdb_memtable_bytes: IntGaugeVec "thuban_rocksdb_memtable_size_bytes" ["cf"];
    /// RocksDB: size of the files, by column family.
    rocksdb_files_bytes: IntGaugeVec "thuban_rocksdb_files_size_bytes" ["cf"];
    /// RocksDB: estimated number of keys, by column family.
    rocksdb_keys: IntGaugeVec "thuban_rocksdb_estimated_keys" ["cf"];

    /// Backups by event: done, failed.
    backups: IntCounterVec "thuban_backups_total" ["event"];
    /// Client requests that named an id, version or index unknown to every node of this cluster.
    foreign_ids: IntCounter "thuban_foreign_ids_total";

    /// Instance heartbeats received by this node, by outcome: taken (by the leader), no_leader.
    heartbeats: IntCounterVec "thuban_heartbeats_total" ["outcome"];
    /// On the leader: health changes by heartbeats, by new state: healthy, unhealthy, removed.
    health_changes: IntCounterVec "thuban_instance_health_changes_total" ["to"];
    /// Objects in the catalog, by kind.
    objects: IntGaugeVec "thuban_catalog_objects" ["kind"];
    /// Newest notification id of config releases.
    notification_id: IntGauge "thuban_config_notification_id";
    /// Enabled access keys that this node cannot decrypt, see --data-key-file.
    access_keys_unreadable: IntGauge "thuban_access_keys_unreadable";
    /// Drafts and releases of encrypted config files that this node cannot decrypt, see --data-key-file.
    config_unreadable: IntGauge "thuban_config_unreadable";
    /// Requests of config clients that were accepted and that enforced access keys would refuse, by app.
    access_key_would_refuse: IntCounterVec "thuban_access_key_would_refuse_total" ["app"];
    /// On the leader: attempts to deliver an event to a webhook, by outcome: delivered, failed.
    webhook_deliveries: IntCounterVec "thuban_webhook_deliveries_total" ["outcome"];
    /// On the leader: duration of an attempt to deliver an event.
    webhook_duration: Histogram "thuban_webhook_delivery_duration_seconds" in LATENCY_BUCKETS;
    /// Unfinished rollouts, by state.
    rollouts: IntGaugeVec "thuban_rollouts" ["state"];
    /// Rollouts that a guard stopped while this node led, by kind of guard.
    rollouts_stopped: IntCounterVec "thuban_rollouts_stopped_total" ["guard"];
    /// Events waiting for delivery, by webhook.
    webhook_pending: IntGaugeVec "thuban_webhook_pending" ["webhook"];
    /// Events given up without delivery since the webhook was created.
    webhook_dropped: IntGaugeVec "thuban_webhook_dropped" ["webhook"];
    /// 1 while deliveries to a webhook fail, else 0.
    webhook_failing: IntGaugeVec "thuban_webhook_failing" ["webhook"];
    /// Failed logins, by reason: credentials, throttled, busy (too many waiting).
    login_failures: IntCounterVec "thuban_login_failures_total" ["reason"];
    /// Requests to identity providers, by kind: discovery, keys, tokens, userinfo; by outcome: done, failed.
    sso_fetches: IntCounterVec "thuban_sso_fetches_total" ["provider", "kind", "outcome"];
    /// Verified bearer tokens of identity providers that are remembered.
    sso_remembered_tokens: IntGauge "thuban_sso_remembered_tokens";
    /// Audit notes merged into one row or only counted, by cause: done, refused, stranger, client.
    audit_merged: IntCounterVec "thuban_audit_notes_merged_total" ["caused_by"];
    /// Refused items without an audit row; each caller has 100 rows of refusals, then ten per minute.
    audit_refusals_dropped: IntCounter "thuban_audit_refusals_dropped_total";
    /// Bytes of the audit trail in the replicated state; not counted by --quota-bytes.
    audit_bytes: IntGauge "thuban_audit_bytes";
    /// Ended spans, by outcome: exported, dropped (queue full), failed (no collector), rejected (by it).
    otlp_spans: IntCounterVec "thuban_otlp_spans_total" ["outcome"];
    /// Expiry of a certificate file in use as Unix time, by its user: a listener, webhooks or traces.
    certificate_expires: IntGaugeVec "thuban_certificate_expires_timestamp_seconds" ["listener", "file"];
    /// 1 while certificate files on the disk differ from those in use or are unreadable, by their user, else 0.
    certificate_files_refused: IntGaugeVec "thuban_certificate_files_refused" ["listener"];
    /// Version of the running binary, always 1.
    build_info: IntGaugeVec "thuban_build_info" ["version"];
}

impl Metrics {
    /// Creates the counters of failures with 0, because an alert on an increase misses the first event of a new series.
    fn begin_at_zero(&self) {
        let known: [(&IntCounterVec, &[&str]); 12] = [
            (&self.polls_ended, &["changed", "unchanged", "dropped", "refused", "shutdown"]),
            (&self.proposals_failed, &["no_leader", "outcome_unknown", "refused"]),
            (&self.snapshots, &["built", "sent", "installed", "failed"]),
            (&self.backups, &["done", "failed"]),
            (&self.heartbeats, &["taken", "no_leader"]),
            (&self.health_changes, &["healthy", "unhealthy", "removed"]),
            (&self.webhook_deliveries, &["delivered", "failed"]),
            (&self.login_failures, &["credentials", "throttled", "busy"]),
            (&self.audit_merged, &["done", "refused", "stranger", "client"]),
            (&self.otlp_spans, &["exported", "dropped", "failed", "rejected"]),
            (&self.peer_refused, PEER_REFUSALS),
            (&self.xds_ends, XDS_ENDS),
        ];
        for (counter, values) in known {
            values.iter().for_each(|value| drop(counter.with_label_values(&[value])));
        }
        let of_xds = [&self.xds_nacks, &self.xds_responses, &self.xds_response_bytes, &self.xds_too_large];
        for labels in ResourceType::ALL.into_iter().flat_map(|kind| Dialect::ALL.map(|to| [kind.label(), to.label()])) {
            of_xds.iter().for_each(|counter| drop(counter.with_label_values(&labels)));
            self.xds_streams.with_label_values(&labels);
        }
        for listener in ["api", "compat", "grpc"] {
            self.connections.with_label_values(&[listener]);
            for reason in CONNECTION_REFUSALS {
                self.connections_refused.with_label_values(&[listener, reason]);
            }
        }
    }

    /// Removes the series of apps for which `is_kept` returns false.
    pub fn keep_apps(&self, is_kept: impl Fn(&str) -> bool) {
        for family in self.access_key_would_refuse.collect() {
            let apps = family.get_metric().iter().flat_map(|metric| metric.get_label());
            for app in apps.map(|label| label.value()).filter(|app| !is_kept(app)) {
                // Another thread may have removed it.
                let _ = self.access_key_would_refuse.remove_label_values(&[app]);
            }
        }
    }

    /// Renders the table in Prometheus' text format 0.0.4.
    pub fn render(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 * 1024);
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut out) {
            tracing::error!(%error, "failed to encode metrics");
        }
        out
    }
}

/// Guard that counts one in a gauge until it is dropped, including when a client hangs up and its future is dropped.
pub struct OneMore<'a>(&'a IntGauge);

impl<'a> OneMore<'a> {
    pub fn of(gauge: &'a IntGauge) -> Self {
        gauge.inc();
        OneMore(gauge)
    }
}

impl Drop for OneMore<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Guard that counts a held poll. A poll dropped without an outcome counts as hung up by its client.
pub struct Held {
    metrics: Arc<Metrics>,
    began: Instant,
    pub outcome: &'static str,
}

impl Held {
    pub fn begin(metrics: &Arc<Metrics>) -> Self {
        metrics.polls_held.inc();
        Held { metrics: metrics.clone(), began: Instant::now(), outcome: "dropped" }
    }

    pub fn began(&self) -> Instant {
        self.began
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.metrics.polls_held.dec();
        self.metrics.polls_ended.with_label_values(&[self.outcome]).inc();
        self.metrics.poll_hold.with_label_values(&[self.outcome]).observe(self.began.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_registers_under_its_own_name() {
        let metrics = Metrics::new().expect("no two rows share a name");
        metrics.polls_held.set(3);
        let text = String::from_utf8(metrics.render()).expect("text format is UTF-8");
        assert!(text.contains("# TYPE thuban_long_polls_held gauge\nthuban_long_polls_held 3\n"), "{text}");
        assert!(text.contains("process_resident_memory_bytes"), "{text}");
        assert!(text.contains("\nthuban_backups_total{event=\"failed\"} 0\n"), "an event that never was: {text}");
    }
}
