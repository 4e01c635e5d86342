//! Requests for approval that concern a visitor.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::catalog::approvals::RequestFilter;
use crate::catalog::page::Page as Rows;
use crate::model::approval::{ApprovalRequest, RequestState};
use crate::model::grant::Verb;
use crate::operations::Caller;

/// Returns the requests that the caller may decide or carry out, newest first.
pub(super) fn waiting_for(catalog: &Catalog, caller: &Caller) -> Vec<Arc<ApprovalRequest>> {
    let mut found = pending(catalog, caller);
    found.retain(|request| is_for(catalog, caller, request));
    found
}

/// Returns the pending requests of the caller, newest first.
pub(super) fn pending_of(catalog: &Catalog, caller: &Caller) -> Vec<Arc<ApprovalRequest>> {
    let mut found = pending(catalog, caller);
    found.retain(|request| request.created.by == caller.name);
    found
}

fn pending(catalog: &Catalog, caller: &Caller) -> Vec<Arc<ApprovalRequest>> {
    if catalog.approvals.pending_count() == 0 {
        return Vec::new();
    }
    let of = |state| {
        let filter = RequestFilter {
            state: Some(state),
            heads: true,
            read_scope: caller.read_scope(),
            ..RequestFilter::default()
        };
        catalog.approvals.list(&filter, &Rows::ALL).rows
    };
    let mut found = [of(RequestState::Open), of(RequestState::Approved)].concat();
    found.sort_by(|one, other| (other.created.time, &one.id).cmp(&(one.created.time, &other.id)));
    found
}

/// Reports whether the caller may carry out a request that is approved, or decide one of others without having done so.
fn is_for(catalog: &Catalog, caller: &Caller, request: &ApprovalRequest) -> bool {
    if request.state == RequestState::Approved {
        let may = |one: &Arc<ApprovalRequest>| caller.grants.may(Verb::Release, &one.namespace, one.scope_name());
        return catalog.approvals.all_of_set(request).iter().all(may);
    }
    let is_given = request.approvals.iter().any(|given| given.user == caller.name);
    request.created.by != caller.name && !is_given && catalog.may_approve(catalog.clock(), &caller.grants, request)
}
