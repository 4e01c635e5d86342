//! Facts beside a request for approval: who can act next, and what clients have now.

use std::sync::Arc;

use super::releases::{ReleaseRow, called};
use crate::catalog::Catalog;
use crate::catalog::history::Thing;
use crate::catalog::page::Page as Rows;
use crate::model::access::User;
use crate::model::approval::{ApprovalRequest, RequestState};
use crate::model::grant::Verb;
use crate::model::time::Timestamp;

/// Maximum number of users named who can approve, or carry out.
const PEOPLE_NAMED: usize = 5;

/// Names of the users who can act next, as many as are named.
#[derive(Default)]
pub(super) struct People {
    pub(super) approvers: Vec<String>,
    /// Users who can carry it out; filled once it has its approvals.
    pub(super) releasers: Vec<String>,
}

/// Returns the users who can act next.
pub(super) fn people(
    view: &Catalog,
    now: Timestamp,
    request: &ApprovalRequest,
    set: &[Arc<ApprovalRequest>],
) -> People {
    let named = &Rows::new(0, PEOPLE_NAMED);
    let names = |wanted: &dyn Fn(&User) -> bool| {
        let listed = view.access.list_users(|user| !user.disabled && wanted(user), named);
        listed.rows.iter().map(|user| user.name.clone()).collect()
    };
    let is_decided = set.iter().all(|one| one.state == RequestState::Approved);
    let approves = |user: &User| {
        user.name != request.created.by
            && set.iter().any(|one| {
                one.state == RequestState::Open
                    && view.may_approve(now, &user.grants, one)
                    && !view.is_approved_by(now, &user.name, one)
            })
    };
    let releases = |user: &User| set.iter().all(|one| user.grants.may(Verb::Release, &one.namespace, one.scope_name()));
    People {
        approvers: if is_decided { Vec::new() } else { names(&approves) },
        releasers: if is_decided { names(&releases) } else { Vec::new() },
    }
}

/// Returns the active gray releases of a rule or file, each with its clients.
pub(super) fn canaries(catalog: &Catalog, thing: &Thing) -> Vec<(String, String)> {
    let rows: Vec<_> = match thing {
        Thing::Rule(family, id) => {
            catalog.rules.of(*family).active().releases_of(id).map(|release| ReleaseRow::of_rule(release)).collect()
        }
        Thing::File(key) => {
            catalog.configs.versions_of(key).iter().map(|release| ReleaseRow::of_file(release)).collect()
        }
    };
    let grays = rows.into_iter().filter(|row| row.is_gray && row.is_active());
    let clients = |row: &ReleaseRow| row.rollout.as_ref().map(|course| format!("{} %", course.percent));
    grays.map(|row| (called(&row.name, row.version), clients(&row).unwrap_or(row.audience))).collect()
}
