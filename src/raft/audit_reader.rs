//! Audit reader: serves the audit trail from the rows of the store, where alone it lies, and logs each row on the node
//! that took the request, under a log target of its own.

use std::io;

use super::node::Node;
use crate::catalog::Table;
use crate::catalog::audit::{AuditEvent, AuditRow, Filter, TrailPage, Walk, key};
use crate::catalog::page::{Listed, Page};

impl Node {
    /// A page of the trail, newest first, over the rows of one moment. `None` where more would have to be
    /// looked at than one request may. Blocks.
    pub fn audit(&self, filter: &Filter, page: Page) -> io::Result<Option<Listed<AuditEvent>>> {
        let rows = self.state().catalog().trail.rows();
        let mut gathered = TrailPage::new(filter, page, rows);
        let mut end = Walk::On;
        let first = gathered.first().map(key);
        self.store().view()?.for_each_back(Table::Audit as u8, first.as_ref().map(|key| &key[..]), |value| {
            end = gathered.take(value).map_err(io::Error::other)?;
            Ok(end == Walk::On)
        })?;
        Ok((end != Walk::TooFar).then(|| gathered.listed()))
    }
}

/// Tells of each item, where the log wants to know.
pub(super) fn tell_of(row: &AuditRow) {
    if tracing::enabled!(target: "thuban::audit", tracing::Level::INFO) {
        row.events().for_each(|event| tell(&event));
    }
}

fn tell(event: &AuditEvent) {
    let AuditEvent { user, token, address, action, kind, namespace, name, code, request, before, after, .. } = event;
    let address = address.map(|address| address.to_string()).unwrap_or_default();
    let (time, count) = (event.time.text(), event.count);
    tracing::info!(
        target: "thuban::audit",
        time, user, token, address, %action, %kind, namespace, name, code, request_id = request, before, after, count,
    );
}
