//! Log lines of audit rows, written by the node that got the request, under a log target of their own.

use crate::catalog::audit::{AuditEvent, AuditRow};

/// Logs each item if the log target is enabled.
pub(crate) fn log_row(row: &AuditRow) {
    if tracing::enabled!(target: "thuban::audit", tracing::Level::INFO) {
        row.events().for_each(|event| log_event(&event));
    }
}

fn log_event(event: &AuditEvent) {
    let AuditEvent { user, token, address, action, kind, namespace, name, code, request, before, after, .. } = event;
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    let (time, count) = (event.time.text(), event.count);
    tracing::info!(
        target: "thuban::audit",
        time, user, token, address, %action, %kind, namespace, name, code, request_id = request, before, after, count,
    );
}
