//! Members, alarms, recent measurements and settings of the cluster, for operators.

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use super::Console;
use super::fields::Fields;
use super::flash::{Flash, on_to};
use super::form::Form;
use super::frame::{Frame, Section, page, page_refused};
use super::pictures::sparkline::{self, Sparkline};
use super::session::SessionUser;
use super::settings_text::{Sentence, sentences};
use super::texts::role;
use crate::format::types::NodeId;
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::raft::MembershipChange;
use crate::raft::status::ClusterStatus;

#[derive(Template)]
#[template(path = "cluster.html")]
struct ClusterPage {
    frame: Frame,
    status: ClusterStatus,
    settings: Vec<Sentence>,
    /// Measurements of the node that made the page.
    sparklines: Vec<Sparkline>,
    node: NodeId,
}

impl ClusterPage {
    /// Returns the number of log entries by which a member is behind the most advanced one; `?` if unknown.
    fn lag(&self, applied: &Option<u64>) -> String {
        let furthest = self.status.members.iter().filter_map(|member| member.applied).max().unwrap_or(0);
        applied.map_or_else(|| "?".to_owned(), |applied| (furthest - applied.min(furthest)).to_string())
    }

    fn is_leader(&self, id: &u64) -> bool {
        self.status.leader == Some(*id)
    }
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser) -> Response {
    match cluster_page(&console, &visitor).await {
        Ok(cluster) => page(&cluster),
        Err(refusal) => visitor.failed(&refusal),
    }
}

async fn cluster_page(console: &Console, visitor: &SessionUser) -> Result<ClusterPage, Refusal> {
    visitor.caller.check_everywhere(Verb::Operate)?;
    let status = console.node().member().cluster_survey().await;
    let frame = visitor.frame(Section::Setup);
    Ok(ClusterPage {
        status,
        settings: sentences(frame.t, &console.node().state().catalog().settings),
        sparklines: sparkline::of(frame.t, &console.node().controllers().recent),
        node: console.node().member().id(),
        frame,
    })
}

/// Sends the whole state as one file, for `thuban restore`. It takes a form, so that a link on a foreign page cannot
/// start it.
pub(super) async fn backup(State(console): State<Console>, Form { visitor, .. }: Form) -> Response {
    let taken = match visitor.caller.check_everywhere(Verb::Operate) {
        Ok(()) => console.operations.backup(&visitor.caller).await,
        Err(refusal) => Err(refusal),
    };
    match taken {
        Ok((name, chunks)) => {
            let disposition = format!("attachment; filename=\"{name}\"");
            let headers = [(CONTENT_TYPE, "application/octet-stream"), (CONTENT_DISPOSITION, &disposition)];
            (headers, Body::from_stream(chunks)).into_response()
        }
        Err(refusal) => visitor.failed(&refusal),
    }
}

pub(super) async fn change(State(console): State<Console>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let done = match visitor.caller.check_everywhere(Verb::Operate) {
        Ok(()) => changed(&console, &visitor, &fields).await,
        Err(refusal) => Err(refusal),
    };
    match done {
        Ok(flash) => on_to("/ui/cluster", flash),
        Err(refusal) => match cluster_page(&console, &visitor).await {
            Ok(cluster) => {
                page_refused(refusal.code, &ClusterPage { frame: cluster.frame.refused(&refusal), ..cluster })
            }
            Err(refusal) => visitor.undone(&refusal),
        },
    }
}

async fn changed(console: &Console, visitor: &SessionUser, fields: &Fields) -> Result<Flash, Refusal> {
    let node_id = fields.get("id").parse().map_err(|_| Refusal::new(Code::InvalidParameter, "id is a number"));
    let change = match fields.get("change") {
        "add" => MembershipChange::Add { node_id: node_id?, peer: fields.get("peer").to_owned() },
        "promote" => MembershipChange::Promote { node_id: node_id? },
        "remove" => MembershipChange::Remove { node_id: node_id? },
        "transfer" => MembershipChange::Transfer { node_id: node_id? },
        "snapshot" => {
            let is_written = console.node().member().snapshot().await?;
            return Ok(if is_written { Flash::Changed } else { Flash::Continues });
        }
        _ => return Err(Code::InvalidParameter.into()),
    };
    console.operations.change_membership(&visitor.caller, change).await.map(|()| Flash::Changed)
}
