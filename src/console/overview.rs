//! The first page: members and alarms, for operators; numbers of objects, recent changes.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::audit::{Change, newest};
use super::frame::{Frame, Section, page};
use super::pictures::sparkline::{self, Sparkline};
use super::session::SessionUser;
use super::texts::{Texts, role};
use crate::catalog::Catalog;
use crate::catalog::configs::FileFilter;
use crate::catalog::namespaces::NamespaceFilter;
use crate::catalog::page::Page as Rows;
use crate::catalog::rules::RuleFilter;
use crate::catalog::services::ServiceFilter;
use crate::format::types::NodeId;
use crate::model::grant::ReadScope;
use crate::model::rule::Family;
use crate::operations::FAR;
use crate::raft::status::ClusterStatus;

const CHANGES_SHOWN: usize = 10;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    /// Status of the cluster, for operators.
    status: Option<ClusterStatus>,
    counts: Vec<Count>,
    /// Metrics of the node that made the page, for operators.
    sparklines: Vec<Sparkline>,
    node: NodeId,
    /// Recent changes, for visitors who may see the audit trail.
    changes: Option<Vec<Change>>,
}

/// Number of objects of a kind, and the link to their list.
struct Count {
    what: &'static str,
    link: String,
    amount: usize,
}

impl OverviewPage {
    /// Returns the number of log entries by which a member is behind the most advanced one; `?` if unknown.
    fn lag(&self, applied: &Option<u64>) -> String {
        let members = self.status.iter().flat_map(|status| &status.members);
        let furthest = members.filter_map(|member| member.applied).max().unwrap_or(0);
        applied.map_or_else(|| "?".to_owned(), |applied| (furthest - applied.min(furthest)).to_string())
    }

    fn is_leader(&self, id: &u64) -> bool {
        self.status.as_ref().is_some_and(|status| status.leader == Some(*id))
    }
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser) -> Response {
    let frame = visitor.frame(Section::Overview);
    // Members are queried only for operators.
    let status = if frame.operates { Some(console.node().member().cluster_survey().await) } else { None };
    let read_scope = visitor.caller.read_scope();
    let texts = frame.t;
    let find = move |catalog: &Catalog| counts(texts, catalog, &read_scope);
    let counts = console.operations.scan(FAR, find, |counts| counts).await.unwrap_or_default();
    let changes = if frame.manages { newest(&console, CHANGES_SHOWN).await.ok() } else { None };
    let recent = &console.node().controllers().recent;
    let sparklines = if frame.operates { sparkline::of(frame.t, recent) } else { Vec::new() };
    let node = console.node().member().id();
    page(&OverviewPage { frame, status, counts, sparklines, node, changes })
}

/// Returns the numbers of objects of each kind that the visitor sees.
fn counts(t: &'static Texts, catalog: &Catalog, read_scope: &ReadScope) -> Vec<Count> {
    let none = &Rows::new(0, 0);
    let read_scope = || read_scope.clone();
    let namespaces = catalog.namespaces.list(&NamespaceFilter { read_scope: read_scope(), ..Default::default() }, none);
    let services = ServiceFilter { read_scope: read_scope(), ..Default::default() };
    let services = catalog.services.list(&services, &catalog.instances, none);
    let files = catalog.configs.list_files(&FileFilter { read_scope: read_scope(), ..Default::default() }, none);
    let counted = |what, link: &str, amount| Count { what, link: link.to_owned(), amount };
    let mut counts = vec![
        counted(t.namespaces, "/ui/namespaces", namespaces.amount),
        counted(t.services, "/ui/services", services.amount),
        counted(t.config_files, "/ui/config", files.amount),
    ];
    counts.extend(Family::ALL.iter().map(|family| {
        let listed =
            catalog.rules.of(*family).list(&RuleFilter { read_scope: read_scope(), ..Default::default() }, none);
        counted(super::texts::family(t, *family), &format!("/ui/rules/{}", family.kind()), listed.amount)
    }));
    counts
}
