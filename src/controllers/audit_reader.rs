//! Audit reader: serves the audit trail from the rows of the store, since it is not in memory.

use std::io;

use crate::catalog::Table;
use crate::catalog::audit::{AuditEvent, Filter, TrailPage, Walk, key};
use crate::catalog::page::{Listed, Page};
use crate::raft::node::Node;

/// Returns a page of the trail, newest first, over the rows of one moment. `None` if it would have to read more rows
/// than one request may. Blocks.
pub fn page_of(node: &Node, filter: &Filter, page: Page) -> io::Result<Option<Listed<AuditEvent>>> {
    let rows = node.state().catalog().trail.rows();
    let mut gathered = TrailPage::new(filter, page, rows);
    let mut end = Walk::On;
    let first = gathered.first().map(key);
    node.store().view()?.for_each_back(Table::Audit as u8, first.as_ref().map(|key| &key[..]), |value| {
        end = gathered.take(value).map_err(io::Error::other)?;
        Ok(end == Walk::On)
    })?;
    Ok((end != Walk::TooFar).then(|| gathered.listed()))
}
