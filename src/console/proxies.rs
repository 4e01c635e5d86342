//! Connected xDS clients, their resources and NACKs, for operators.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use url::form_urlencoded;

use super::Console;
use super::fields::Fields;
use super::frame::{Frame, Section, page};
use super::pager::Pager;
use super::session::SessionUser;
use super::texts::Texts;
use crate::api::dump_of;
use crate::catalog::page::{Listed, Page};
use crate::controllers::fleet::FleetMember;
use crate::format::types::NodeId;
use crate::model::grant::Verb;
use crate::model::mesh::resource::ResourceType;
use crate::model::time::Timestamp;
use crate::subscribers::Applied;
use crate::subscribers::fleet::FleetType;

const PATH: &str = "/ui/proxies";

#[derive(Template)]
#[template(path = "proxies.html")]
struct ProxiesPage {
    frame: Frame,
    /// Headings of the columns of types.
    kinds: Vec<&'static str>,
    rows: Vec<ProxyRow>,
    silent: Vec<NodeId>,
    pager: Pager,
}

/// A stream of a client.
struct ProxyRow {
    node_id: String,
    agent: String,
    address: String,
    node: NodeId,
    since: Timestamp,
    /// Number of resources by type, in the order of the columns.
    counts: Vec<Count>,
    badge: (&'static str, &'static str),
    /// Reasons of NACKs.
    reasons: Vec<String>,
    dump: String,
}

/// Number of resources of a type.
#[derive(Debug, PartialEq)]
struct Count {
    text: String,
    is_whole: bool,
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    if let Err(refusal) = visitor.caller.check_everywhere(Verb::Operate) {
        return visitor.failed(&refusal);
    }
    let found = console.node().member().xds_clients().await;
    let clients: Vec<_> = found.clients.into_iter().map(Arc::new).collect();
    let listed = Listed::cut(clients.iter(), &Pager::page_of(&query));
    let frame = visitor.frame(Section::Clients).at(console.node().now());
    page(&ProxiesPage {
        kinds: ResourceType::ALL.map(ResourceType::label).into(),
        rows: listed.rows.iter().map(|one| row(one, frame.t)).collect(),
        pager: Pager::new(PATH, &query, &listed),
        silent: found.silent,
        frame,
    })
}

/// Shows the resources of one client as JSON.
pub(super) async fn dump(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    if let Err(refusal) = visitor.caller.check_everywhere(Verb::Operate) {
        return visitor.failed(&refusal);
    }
    let answered = dump_of(console.node().member(), query.get("node_id"), &Page::ALL).await;
    answered.unwrap_or_else(IntoResponse::into_response)
}

fn row(FleetMember { node, client, .. }: &FleetMember, t: &Texts) -> ProxyRow {
    let of_kind = |kind: ResourceType| client.types.iter().find(|one| one.kind == kind.label());
    let badge = match client.applied() {
        Some(Applied::Yes) => ("good", t.applied),
        Some(Applied::Refused) => ("fault", t.refused),
        None => ("warn", t.under_way),
    };
    let reason = |one: &FleetType| format!("{} {}: {}", one.kind, one.refused.join(", "), one.message);
    let node_id: String = form_urlencoded::byte_serialize(client.node_id.as_bytes()).collect();
    ProxyRow {
        node_id: client.node_id.clone(),
        agent: client.agent.clone(),
        address: client.address.clone(),
        node: *node,
        since: client.since,
        counts: ResourceType::ALL.into_iter().map(|kind| count(of_kind(kind))).collect(),
        badge,
        reasons: client.types.iter().filter(|one| !one.refused.is_empty()).map(reason).collect(),
        dump: format!("{PATH}/dump?node_id={node_id}"),
    }
}

fn count(one: Option<&FleetType>) -> Count {
    match one {
        None => Count { text: String::new(), is_whole: true },
        Some(one) if one.acknowledged == one.sent => Count { text: one.sent.to_string(), is_whole: true },
        Some(one) => Count { text: format!("{} / {}", one.acknowledged, one.sent), is_whole: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::texts::Language;
    use crate::subscribers::fleet::FleetClient;

    fn english() -> &'static Texts {
        Language::English.texts()
    }

    fn of_type(kind: &str, sent: u64, acknowledged: u64, refused: &[&str]) -> FleetType {
        FleetType {
            kind: kind.to_owned(),
            sent,
            acknowledged,
            names: Vec::new(),
            refused: refused.iter().map(|name| (*name).to_owned()).collect(),
            message: if refused.is_empty() { String::new() } else { "<b>no".to_owned() },
            refused_at: None,
            under_way_ms: None,
        }
    }

    fn member(types: Vec<FleetType>) -> FleetMember {
        let client = FleetClient {
            number: 4,
            node_id: "a b&c".to_owned(),
            agent: "envoy 1.40".to_owned(),
            address: "10.0.0.1".to_owned(),
            dialect: "envoy".to_owned(),
            is_delta: true,
            labels: Vec::new(),
            since: Timestamp(1),
            types,
        };
        FleetMember::new(2, client)
    }

    #[test]
    fn a_row_says_what_a_client_has_and_what_it_refused() {
        let whole = row(&member(vec![of_type("cds", 3, 3, &[])]), english());
        assert_eq!((whole.badge, whole.reasons.len()), (("good", english().applied), 0));
        assert_eq!(whole.counts[0], Count { text: "3".to_owned(), is_whole: true });
        assert_eq!(whole.counts[3], Count { text: String::new(), is_whole: true });
        assert_eq!(whole.dump, "/ui/proxies/dump?node_id=a+b%26c");
        let refused = row(&member(vec![of_type("rds", 2, 1, &["a/s"])]), english());
        assert_eq!((refused.badge, refused.reasons), (("fault", english().refused), vec!["rds a/s: <b>no".to_owned()]));
        assert_eq!(refused.counts[3], Count { text: "1 / 2".to_owned(), is_whole: false });
        let waiting = row(&member(vec![of_type("eds", 2, 0, &[])]), english());
        assert_eq!(waiting.badge, ("warn", english().under_way));
    }

    #[test]
    fn words_of_clients_are_shown_as_text() {
        let rows = vec![row(&member(vec![of_type("rds", 2, 1, &["a/s"])]), english())];
        let listed = Listed { rows: vec![()], ..Listed::amount(1) };
        let pager = Pager::new(PATH, &Fields::parse(b""), &listed);
        let kinds = ResourceType::ALL.map(ResourceType::label).into();
        let frame = Frame::bare(english(), Section::Clients);
        let shown = ProxiesPage { frame, kinds, rows, silent: vec![3], pager }.render().expect("a page");
        assert!(shown.contains("a/s: &#60;b&#62;no") || shown.contains("a/s: &lt;b&gt;no"), "{shown}");
        assert!(!shown.contains("<b>"), "{shown}");
    }
}
