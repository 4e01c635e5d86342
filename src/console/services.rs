//! Services: list, form, and the page of a service with its instances, aliases and rules.

use std::cmp::Ordering;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::flash::{Flash, on_to};
use super::form::Form;
use super::frame::{Frame, Section, page, page_refused};
use super::links;
use super::listing::{Chip, Heading, STATE, Sorting, chips, cut, headings};
use super::pager::Pager;
use super::rule_rows::{RuleRow, columns};
use super::session::SessionUser;
use super::texts::Texts;
use super::time_ago::TimeAgo;
use crate::catalog::aliases::AliasFilter;
use crate::catalog::instances::{InstanceCounts, InstanceFilter};
use crate::catalog::page::Page as Rows;
use crate::catalog::rules::RuleFilter;
use crate::catalog::services::ServiceFilter;
use crate::catalog::{Catalog, Op};
use crate::model::code::{Code, Refusal, placed};
use crate::model::grant::{ReadScope, Verb};
use crate::model::instance::{InstanceDraft, Location};
use crate::model::limits;
use crate::model::rule::Family;
use crate::model::service::{Service, ServiceDraft};
use crate::model::text::NameFilter;
use crate::operations::{FAR, one};

const PATH: &str = "/ui/services";

struct ServiceRow {
    namespace: String,
    name: String,
    comment: String,
    owners: String,
    counts: InstanceCounts,
    time: TimeAgo,
    link: String,
}

/// A service with the numbers of its instances.
type ServiceCounts = (InstanceCounts, Arc<Service>);

impl ServiceRow {
    fn of(catalog: &Catalog, t: &Texts, service: &Service) -> ServiceRow {
        ServiceRow {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            comment: service.comment.clone(),
            owners: service.owners.clone(),
            counts: catalog.instances.of_service(&service.namespace, &service.name),
            time: TimeAgo::of(t, catalog.clock(), service.mtime),
            link: links::service(&service.namespace, &service.name),
        }
    }
}

impl ServiceRow {
    /// Returns the class of the badge for its health.
    fn health(&self) -> &'static str {
        health(self.counts)
    }
}

/// Returns the class of the badge for the health of instances.
pub(super) fn health(counts: InstanceCounts) -> &'static str {
    match (counts.total, counts.healthy) {
        (0, _) => "",
        (_, 0) => "fault",
        (total, healthy) if healthy + counts.isolated < total => "warn",
        _ => "good",
    }
}

#[derive(Template)]
#[template(path = "services.html")]
struct ServicesPage {
    frame: Frame,
    query: Fields,
    headings: Vec<Heading>,
    chips: Vec<Chip>,
    rows: Vec<ServiceRow>,
    pager: Pager,
    edits: bool,
}

pub(super) async fn list(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    match listed(&console, &visitor, query).await {
        Ok(list) => page(&list),
        Err(refusal) => visitor.failed(&refusal),
    }
}

async fn listed(console: &Console, visitor: &SessionUser, query: Fields) -> Result<ServicesPage, Refusal> {
    let filter = ServiceFilter {
        name: query.name_filter("name"),
        namespace: query.given("namespace").map(|text| NameFilter::parse(&text)),
        read_scope: visitor.caller.read_scope(),
        ..ServiceFilter::default()
    };
    let (state, sorting, rows) = (query.get(STATE).to_owned(), Sorting::of(&query), Pager::page_of(&query));
    let t = visitor.texts;
    let find = move |catalog: &Catalog| {
        let found = catalog.services.list(&filter, &catalog.instances, &Rows::ALL).rows.into_iter();
        let counted = found.map(|one| (catalog.instances.of_service(&one.namespace, &one.name), one));
        let mut found: Vec<_> = counted.filter(|(counts, _)| is_in(*counts, &state)).collect();
        let by_key = |key: &str, (counts, one): &ServiceCounts, (counts_of_other, other): &ServiceCounts| match key {
            "name" => one.name.cmp(&other.name),
            "namespace" => one.namespace.cmp(&other.namespace),
            "health" => health_of(*counts).total_cmp(&health_of(*counts_of_other)),
            "changed" => one.mtime.cmp(&other.mtime),
            _ => Ordering::Equal,
        };
        sorting.sort(&mut found, by_key, |(_, one), (_, other)| {
            (&one.name, &one.namespace).cmp(&(&other.name, &other.namespace))
        });
        cut(found, &rows).map(|(_, service)| ServiceRow::of(catalog, t, &service))
    };
    let listed = console.operations.scan(FAR, find, |listed| listed).await?;
    let frame = visitor.frame(Section::Services);
    let columns = [
        ("name", t.name),
        ("namespace", t.namespace),
        ("health", t.healthy_of_all),
        ("", t.comment),
        ("", t.owners),
        ("changed", t.home.changed),
    ];
    let states = [("", t.all), ("unhealthy", t.unhealthy), ("healthy", t.healthy), ("empty", t.help.no_instances)];
    Ok(ServicesPage {
        headings: headings(PATH, &query, &columns),
        chips: chips(PATH, &query, &states),
        pager: Pager::new(PATH, &query, &listed),
        rows: listed.rows,
        edits: visitor.may_somewhere(Verb::Edit),
        frame,
        query,
    })
}

/// Returns the share of healthy instances; below all others for none.
fn health_of(counts: InstanceCounts) -> f64 {
    if counts.total == 0 { -1.0 } else { counts.healthy as f64 / counts.total as f64 }
}

/// Reports whether a service is in the state of an address.
fn is_in(counts: InstanceCounts, state: &str) -> bool {
    let is_unhealthy = counts.healthy + counts.isolated < counts.total;
    match state {
        "unhealthy" => is_unhealthy,
        "healthy" => !is_unhealthy && counts.total > 0,
        "empty" => counts.total == 0,
        _ => true,
    }
}

pub(super) async fn create(State(console): State<Console>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    if let Err(refusal) = visitor.check(Verb::Edit, fields.get("namespace"), fields.get("name")) {
        return visitor.barred(&console, &refusal);
    }
    let draft = ServiceDraft {
        namespace: fields.given("namespace"),
        name: fields.given("name"),
        comment: fields.given("comment"),
        owners: fields.given("owners"),
        ..ServiceDraft::default()
    };
    let named = links::service(fields.get("namespace"), fields.get("name"));
    match one(console.operations.services(&visitor.caller, Op::Create, vec![Ok(draft)]).await) {
        Ok(outcome) => on_to(&named, Flash::of(&outcome, Flash::Created)),
        Err(refusal) => match listed(&console, &visitor, fields).await {
            Ok(list) => page_refused(refusal.code, &ServicesPage { frame: list.frame.refused(&refusal), ..list }),
            Err(_) => visitor.undone(&refusal),
        },
    }
}

struct InstanceRow {
    id: String,
    address: String,
    protocol: String,
    version: String,
    weight: u32,
    healthy: bool,
    isolate: bool,
    /// Region, zone and campus; empty if unknown.
    place: Vec<String>,
    metadata: Vec<String>,
    time: TimeAgo,
}

#[derive(Template)]
#[template(path = "service.html")]
struct ServicePage {
    frame: Frame,
    row: ServiceRow,
    metadata: Vec<(String, String)>,
    instances: Vec<InstanceRow>,
    pager: Pager,
    /// Namespace and alias.
    aliases: Vec<(String, String)>,
    /// Headings of the rules.
    headings: Vec<Heading>,
    rules: Vec<RuleRow>,
    edits: bool,
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    match service_page(&console, &visitor, &query).await {
        Ok(service) => page(&service),
        Err(refusal) => visitor.failed(&refusal),
    }
}

async fn service_page(console: &Console, visitor: &SessionUser, query: &Fields) -> Result<ServicePage, Refusal> {
    let frame = visitor.frame(Section::Services);
    let read_scope = visitor.caller.read_scope();
    let edits = visitor.may(Verb::Edit, query.get("namespace"), query.get("name"));
    let query = query.clone();
    let find = move |catalog: &Catalog| whole(catalog, frame, &read_scope, &query, edits);
    console.operations.scan(FAR, find, |page| page).await?
}

fn whole(
    catalog: &Catalog,
    frame: Frame,
    read_scope: &ReadScope,
    query: &Fields,
    edits: bool,
) -> Result<ServicePage, Refusal> {
    let (namespace, name) = (query.get("namespace"), query.get("name"));
    let service = catalog.services.get(namespace, name).filter(|_| read_scope.sees(namespace, name));
    let service = service.ok_or_else(|| Refusal::missing(&placed("service", namespace, name)))?;
    let exactly = |text: &str| Some(NameFilter::Exact(text.to_owned()));
    let instances = InstanceFilter {
        namespace: exactly(namespace),
        service: exactly(name),
        read_scope: read_scope.clone(),
        ..InstanceFilter::default()
    };
    let instances = catalog.instances.list(&instances, &Pager::page_of(query)).map(|instance| InstanceRow {
        id: instance.id.clone(),
        address: format!("{}:{}", instance.host, instance.port),
        protocol: instance.protocol.clone(),
        version: instance.version.clone(),
        weight: instance.weight,
        healthy: instance.healthy,
        isolate: instance.isolate,
        place: place(&instance.location),
        metadata: instance.metadata.iter().map(|(key, value)| format!("{key}={value}")).collect(),
        time: TimeAgo::of(frame.t, catalog.clock(), instance.mtime),
    });
    let aliases = AliasFilter {
        service: exactly(name),
        namespace: exactly(namespace),
        read_scope: read_scope.clone(),
        ..AliasFilter::default()
    };
    let aliases = catalog.aliases.list(&aliases, &Rows::new(0, limits::PAGE_ROWS_MAX));
    let about = |family: &Family| {
        let filter = RuleFilter { service: exactly(name), read_scope: read_scope.clone(), ..RuleFilter::default() };
        let book = catalog.rules.of(*family);
        let listed = book.list(&filter, &Rows::new(0, limits::PAGE_ROWS_MAX)).rows;
        let of_it = listed.into_iter().filter(|rule| rule.ends().iter().any(|end| end.covers(namespace, name)));
        of_it.map(|rule| RuleRow::of(catalog, frame.t, &rule)).collect::<Vec<_>>()
    };
    Ok(ServicePage {
        row: ServiceRow::of(catalog, frame.t, service),
        metadata: service.metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        pager: Pager::new("/ui/service", query, &instances),
        instances: instances.rows,
        aliases: aliases.rows.iter().map(|alias| (alias.alias_namespace.clone(), alias.alias.clone())).collect(),
        headings: {
            let mut columns = columns(frame.t).map(|(_, title)| ("", title)).to_vec();
            columns.insert(2, ("", frame.t.kind));
            headings(PATH, query, &columns)
        },
        rules: Family::ALL.iter().flat_map(about).collect(),
        edits,
        frame,
    })
}

/// Formats a location; a missing part before another one is shown as a dash.
fn place(location: &Location) -> Vec<String> {
    let parts = [&location.region, &location.zone, &location.campus];
    let said = |part: &String| if part.is_empty() { "–".to_owned() } else { part.clone() };
    if parts.iter().all(|part| part.is_empty()) { Vec::new() } else { parts.map(said).into() }
}

/// Isolates an instance, ends its isolation, changes its weight, or deregisters it.
pub(super) async fn change_instance(State(console): State<Console>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    // The form names the service of the instance; the operation finds the instance and checks its own service.
    if let Err(refusal) = visitor.check(Verb::Edit, fields.get("namespace"), fields.get("name")) {
        return visitor.barred(&console, &refusal);
    }
    let draft = InstanceDraft { id: fields.given("id"), ..InstanceDraft::default() };
    let caller = &visitor.caller;
    let done = match fields.get("change") {
        "isolate" => {
            console
                .operations
                .instances(caller, Op::Update, vec![Ok(InstanceDraft { isolate: Some(true), ..draft })])
                .await
        }
        "join" => {
            console
                .operations
                .instances(caller, Op::Update, vec![Ok(InstanceDraft { isolate: Some(false), ..draft })])
                .await
        }
        "delete" => console.operations.instances(caller, Op::Delete, vec![Ok(draft)]).await,
        _ => Err(Refusal::new(Code::InvalidParameter, "change")),
    };
    match one(done) {
        Ok(outcome) => {
            let flash = Flash::of(&outcome, Flash::Changed);
            on_to(&links::service(fields.get("namespace"), fields.get("name")), flash)
        }
        Err(refusal) => match service_page(&console, &visitor, &fields).await {
            Ok(service) => {
                page_refused(refusal.code, &ServicePage { frame: service.frame.refused(&refusal), ..service })
            }
            Err(_) => visitor.undone(&refusal),
        },
    }
}
