//! Requests for approval: the book and its queries. Actions are evaluated in `changes`, requests are decided in
//! `decisions`.

mod carried;
mod changes;
mod decisions;
mod events;
mod pending;
mod shares;
mod standing;
mod subjects;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::access::Holder;
use super::change::ChangeSet;
use super::page::{ListKey, Listed, Page, Placed, cut_sorted, place_of};
use super::row::{Row, RowKey, Table};
use super::{Catalog, Corrupt};
use crate::model::approval::{ApprovalRequest, RequestState, Snapshot};
use crate::model::grant::ReadScope;
use crate::model::policy::PolicyKind;
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;
pub use decisions::FailedAction;
pub use pending::{Pending, ReleasedFile, ReleasedRule};
use shares::Shares;

impl Row for ApprovalRequest {
    const TABLE: Table = Table::ApprovalRequest;
    fn name(&self, key: &mut RowKey) {
        key.part(&self.id);
    }
}

impl Placed for ApprovalRequest {
    fn place(&self) -> ListKey<'_> {
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
    /// Id of the head of a set, to list its other members.
    pub part_of: Option<String>,
    /// True to omit members of a set whose head is in the list.
    pub heads: bool,
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
            && self.part_of.as_ref().is_none_or(|head| *head == request.part_of)
            && request.is_seen_by(&self.read_scope)
    }
}

/// Requests by id, pending ones by creation time, and the share of each person.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Approvals {
    by_id: OrdMap<Arc<str>, Arc<ApprovalRequest>>,
    pending: OrdSet<(Timestamp, Arc<str>)>,
    shares: Shares,
    /// Members of each set, by the id of its head.
    parts: OrdMap<Arc<str>, OrdSet<Arc<str>>>,
    /// Heads of pending sets.
    heads: OrdMap<SetKey, Arc<str>>,
}

/// Key of a set: the requesting person, the name that was used, and the caller's label of the set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SetKey {
    person: String,
    requester: String,
    set: String,
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

    /// Returns the number of pending requests.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Lists requests, newest first.
    pub fn list(&self, filter: &RequestFilter, page: &Page) -> Listed<Arc<ApprovalRequest>> {
        let has_head = |request: &ApprovalRequest| self.get(&request.part_of).is_some_and(|head| filter.wants(head));
        let shows = |request: &ApprovalRequest| filter.wants(request) && !(filter.heads && has_head(request));
        let wanted = self.by_id.values().filter(|request| shows(request));
        let order = |one: &Arc<ApprovalRequest>, other: &Arc<ApprovalRequest>| {
            other.created.time.cmp(&one.created.time).then_with(|| one.id.cmp(&other.id))
        };
        cut_sorted(wanted.collect(), order, page)
    }

    /// Returns the head of a pending set of the requester.
    fn waiting_head(&self, holder: &Holder, set: &str) -> Option<&Arc<ApprovalRequest>> {
        let (person, requester) = (holder.person.clone(), holder.name.clone());
        self.get(self.heads.get(&SetKey { person, requester, set: set.to_owned() })?)
    }

    /// Returns the requests of a set, its head first; a request outside of any set is returned alone.
    pub fn all_of_set(&self, request: &ApprovalRequest) -> Vec<Arc<ApprovalRequest>> {
        let head = request.head_id();
        let parts = self.parts.get(head).into_iter().flatten();
        [self.get(head)].into_iter().chain(parts.map(|id| self.get(id))).flatten().cloned().collect()
    }

    /// Returns the pending requests of a set.
    fn set_of(&self, request: &ApprovalRequest) -> Vec<Arc<ApprovalRequest>> {
        let mut set = self.all_of_set(request);
        set.retain(|one| one.state.is_pending());
        set
    }

    /// Reports whether all requests of a set are among these.
    fn is_whole(&self, set: &[ApprovalRequest]) -> bool {
        let head = set.iter().find(|one| one.part_of.is_empty());
        head.is_some_and(|head| head.parts as usize + 1 == set.len())
    }

    /// Reports whether a request from before `time` is pending.
    pub fn has_pending_before(&self, time: Timestamp) -> bool {
        self.pending.get_min().is_some_and(|(made, _)| *made < time)
    }

    /// Counts the pending requests from before `time`.
    pub(super) fn made_before(&self, time: Timestamp) -> usize {
        self.pending.iter().take_while(|(made, _)| *made < time).count()
    }

    /// Returns the pending requests from before `time`, oldest first.
    fn pending_before(&self, time: Timestamp, most: usize) -> Vec<Arc<ApprovalRequest>> {
        let old = self.pending.iter().take_while(|(made, _)| *made < time).take(most);
        old.filter_map(|(_, id)| self.by_id.get(id).cloned()).collect()
    }

    /// Stores a request. Closed requests beyond the limits are deleted, the oldest first.
    fn put(&mut self, request: ApprovalRequest, changes: &mut ChangeSet) -> Arc<ApprovalRequest> {
        changes.put(&request);
        let request = self.load(request);
        while let Some(oldest) = self.shares.surplus().cloned() {
            let Some(gone) = self.by_id.remove(&oldest) else { break };
            changes.delete(&*gone);
            self.shares.leave(&gone);
            self.leave_set(&gone);
        }
        request
    }

    pub(super) fn load(&mut self, request: ApprovalRequest) -> Arc<ApprovalRequest> {
        let request = Arc::new(request);
        let id: Arc<str> = request.id.as_str().into();
        if let Some(old) = self.by_id.insert(id.clone(), request.clone()) {
            self.pending.remove(&(old.created.time, id.clone()));
            self.shares.leave(&old);
        }
        self.join_set(&request);
        self.shares.join(&request);
        if request.state.is_pending() {
            self.pending.insert((request.created.time, id));
        }
        request
    }

    fn join_set(&mut self, request: &ApprovalRequest) {
        let id: Arc<str> = request.id.as_str().into();
        if !request.part_of.is_empty() {
            self.parts.entry(request.part_of.as_str().into()).or_default().insert(id);
        } else if !request.set.is_empty() {
            let (person, requester) = (request.person.clone(), request.created.by.clone());
            let key = SetKey { person, requester, set: request.set.clone() };
            if request.state.is_pending() {
                self.heads.insert(key, id);
            } else if self.heads.get(&key) == Some(&id) {
                self.heads.remove(&key);
            }
        }
    }

    fn leave_set(&mut self, gone: &ApprovalRequest) {
        let head: &str = &gone.part_of;
        let Some(parts) = self.parts.get_mut(head) else { return };
        parts.remove(gone.id.as_str());
        if parts.is_empty() {
            self.parts.remove(head);
        }
    }
}

impl Catalog {
    /// Loads a stored row. The contents that it names are loaded before.
    pub(super) fn load_request(&mut self, mut request: ApprovalRequest) -> Result<(), Corrupt> {
        if let Some(payload) = &mut request.payload
            && let Some(file) = payload.snapshot.as_mut().and_then(Snapshot::file_mut)
        {
            let missing = || Corrupt(format!("the content of the request {} is missing", request.id));
            file.content = self.configs.load_kept_content(&file.content).ok_or_else(missing)?;
        }
        self.approvals.load(request);
        Ok(())
    }
}
