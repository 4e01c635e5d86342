//! Requests for approval: the book and its queries. The judgement of acts, and the course of a request, is in
//! `changes`.

mod changes;
mod news;
mod pending;
mod subjects;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::change::ChangeSet;
use super::page::{Listed, Page, Place, Placed, cut_sorted, place_of};
use super::row::{Row, RowKey, Table};
use super::{Catalog, Corrupt};
use crate::model::approval::{ApprovalRequest, RequestState, Snapshot};
use crate::model::grant::ReadScope;
use crate::model::limits;
use crate::model::policy::PolicyKind;
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;
pub use pending::{Pending, ReleasedFile, ReleasedRule};

impl Row for ApprovalRequest {
    const TABLE: Table = Table::ApprovalRequest;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.id);
    }
}

impl Placed for ApprovalRequest {
    fn place(&self) -> Place<'_> {
        place_of([&self.id])
    }
}

/// Filter of a list of requests; an absent part matches all.
#[derive(Clone, Debug, Default)]
pub struct RequestFilter {
    pub id: Option<String>,
    pub state: Option<RequestState>,
    pub kind: Option<PolicyKind>,
    pub namespace: Option<NameFilter>,
    pub name: Option<NameFilter>,
    pub user: Option<String>,
    pub read_scope: ReadScope,
}

impl RequestFilter {
    fn wants(&self, request: &ApprovalRequest) -> bool {
        self.id.as_ref().is_none_or(|id| *id == request.id)
            && self.state.is_none_or(|state| state == request.state)
            && self.kind.is_none_or(|kind| kind == request.kind)
            && NameFilter::passes(&self.namespace, &request.namespace)
            && NameFilter::passes(&self.name, &request.name)
            && self.user.as_ref().is_none_or(|user| *user == request.created.by)
            && self.read_scope.sees(&request.namespace, request.scope_name())
    }
}

/// Requests by id, those that wait by the time at which they were made, and the others by the time at which they ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Approvals {
    by_id: OrdMap<Arc<str>, Arc<ApprovalRequest>>,
    pending: OrdSet<(Timestamp, Arc<str>)>,
    closed: OrdSet<(Timestamp, Arc<str>)>,
}

impl Approvals {
    pub fn get(&self, id: &str) -> Option<&Arc<ApprovalRequest>> {
        self.by_id.get(id)
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Number of those that wait.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Newest first.
    pub fn list(&self, filter: &RequestFilter, page: &Page) -> Listed<Arc<ApprovalRequest>> {
        let wanted = self.by_id.values().filter(|request| filter.wants(request));
        cut_sorted(wanted.collect(), newest_first, page)
    }

    /// True if a request was made before `time` and still waits.
    pub fn has_pending_before(&self, time: Timestamp) -> bool {
        self.pending.get_min().is_some_and(|(made, _)| *made < time)
    }

    /// Those that were made before `time` and wait, oldest first.
    fn pending_before(&self, time: Timestamp, most: usize) -> Vec<Arc<ApprovalRequest>> {
        let old = self.pending.iter().take_while(|(made, _)| *made < time).take(most);
        old.filter_map(|(_, id)| self.by_id.get(id).cloned()).collect()
    }

    /// Keeps a request. Of those that nothing comes of any more the newest stay.
    fn put(&mut self, request: ApprovalRequest, changes: &mut ChangeSet) -> Arc<ApprovalRequest> {
        changes.put(&request);
        let request = self.load(request);
        while self.closed.len() > limits::REQUESTS_CLOSED_MAX {
            let Some((_, oldest)) = self.closed.remove_min() else { break };
            if let Some(gone) = self.by_id.remove(&oldest) {
                changes.delete(&*gone);
            }
        }
        request
    }

    pub(super) fn load(&mut self, request: ApprovalRequest) -> Arc<ApprovalRequest> {
        let request = Arc::new(request);
        let id: Arc<str> = request.id.as_str().into();
        if let Some(old) = self.by_id.insert(id.clone(), request.clone()) {
            self.pending.remove(&(old.created.time, id.clone()));
            self.closed.remove(&(old.modified.time, id.clone()));
        }
        if request.state.is_pending() {
            self.pending.insert((request.created.time, id));
        } else {
            self.closed.insert((request.modified.time, id));
        }
        request
    }
}

impl Catalog {
    /// Takes in a stored row; the contents that it names come before.
    pub(super) fn load_request(&mut self, mut request: ApprovalRequest) -> Result<(), Corrupt> {
        if let Some(payload) = &mut request.payload
            && let Some(Snapshot::File(file)) = &mut payload.snapshot
        {
            let missing = || Corrupt(format!("the content of the request {} is missing", request.id));
            file.content = self.configs.load_kept_content(&file.content).ok_or_else(missing)?;
        }
        self.approvals.load(request);
        Ok(())
    }
}

/// The order of a list.
fn newest_first(one: &Arc<ApprovalRequest>, other: &Arc<ApprovalRequest>) -> Ordering {
    other.created.time.cmp(&one.created.time).then_with(|| one.id.cmp(&other.id))
}
