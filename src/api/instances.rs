//! `/naming/v1/instances`, and what an instance says of itself: `/v1/RegisterInstance`,
//! `/v1/DeregisterInstance` and `/v1/Heartbeat`.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::App;
use super::auth::Caller;
use super::envelope;
use super::error::ApiError;
use super::extract::{Batch, Object, Write};
use super::query::{Fresh, Query};
use super::view::InstanceView;
use crate::catalog::instances::InstanceFilter;
use crate::catalog::page::Page;
use crate::catalog::{Command, Op};
use crate::model::code::Code;
use crate::model::instance::InstanceDraft;

/// Everything by which instances are found.
const FILTERS: [&str; 19] = [
    "id",
    "service",
    "namespace",
    "host",
    "port",
    "keys",
    "values",
    "protocol",
    "version",
    "health_status",
    "healthy",
    "isolate",
    "weight",
    "logic_set",
    "cmdb_region",
    "cmdb_zone",
    "cmdb_idc",
    "priority",
    "vpc_id",
];

fn filter(query: &Query) -> Result<InstanceFilter, ApiError> {
    if FILTERS.iter().all(|key| query.get(key).is_none()) {
        return Err(Code::EmptyQueryParameter.into());
    }
    let unpaired = |_| ApiError::new(Code::InvalidQueryInstanceParameter, "keys and values have to come in pairs");
    Ok(InstanceFilter {
        id: query.text("id"),
        namespace: query.name("namespace"),
        service: query.name("service"),
        vpc_id: query.text("vpc_id"),
        hosts: query.texts("host"),
        ports: query.ports("port")?,
        protocol: query.text("protocol"),
        version: query.text("version"),
        logic_set: query.text("logic_set"),
        region: query.text("cmdb_region"),
        zone: query.text("cmdb_zone"),
        campus: query.text("cmdb_idc"),
        healthy: query.flag("healthy")?.or(query.flag("health_status")?),
        isolate: query.flag("isolate")?,
        priority: query.number("priority")?,
        weight: query.number("weight")?,
        metadata: query.pairs("keys", "values").map_err(unpaired)?,
    })
}

/// A page of instances, newest change first; 400104 without any filter, 400105 for unpaired keys and
/// values, 400103 for a bad number or flag.
pub(super) async fn list(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let (filter, page) = (filter(&query)?, query.page()?);
    Ok(answer(&app, &filter, page))
}

/// The number of instances in `amount`.
pub(super) async fn count(State(app): State<App>, _: Fresh) -> Response {
    answer(&app, &InstanceFilter::default(), Page::new(0, 0))
}

fn answer(app: &App, filter: &InstanceFilter, page: Page) -> Response {
    let listed = app.node.state().catalog().instances.list(filter, page);
    envelope::list("instances", &listed, |instance| InstanceView::new(instance))
}

#[derive(Serialize)]
struct Labels<'a> {
    namespace: &'a str,
    service: &'a str,
    service_id: &'a str,
    labels: BTreeMap<String, LabelValues>,
}

#[derive(Default, Serialize)]
struct LabelValues {
    values: BTreeSet<String>,
}

/// The metadata of all instances of a service, every value once; 400103 without `namespace` and
/// `service`, 400301 if there is no such service.
pub(super) async fn labels(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let (namespace, name) = (query.required("namespace")?, query.required("service")?);
    let mut labels: BTreeMap<String, LabelValues> = BTreeMap::new();
    let service = {
        let catalog = app.node.state().catalog();
        let pairs = catalog.instances.all_of(namespace, name).flat_map(|instance| &instance.metadata);
        for (key, value) in pairs {
            labels.entry(key.clone()).or_default().values.insert(value.clone());
        }
        catalog.services.get(namespace, name).cloned().ok_or(Code::NotFoundService)?
    };
    let element = Labels { namespace, service: name, service_id: &service.id, labels };
    Ok(envelope::single("instanceLabels", &element))
}

/// Per item 200000, also if it was there: a registration replaces. 400131, 400132 … bad field; 400201
/// the id is another service's; 400502 the service is an alias.
pub(super) async fn register(
    app: State<App>,
    caller: Caller,
    batch: Batch<InstanceDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(InstanceDraft::check_new);
    Write::new(&app, &caller).batch(batch, |items| Command::Instances(Op::Create, items)).await
}

/// Per item 200000; 200002 nothing changed; 400303 missing; 409000 stale revision.
pub(super) async fn update(app: State<App>, caller: Caller, batch: Batch<InstanceDraft>) -> Result<Response, ApiError> {
    let batch = batch.checked(InstanceDraft::check_update);
    Write::new(&app, &caller).batch(batch, |items| Command::Instances(Op::Update, items)).await
}

/// Per item 200000, also if it was not there.
pub(super) async fn delete(app: State<App>, caller: Caller, batch: Batch<InstanceDraft>) -> Result<Response, ApiError> {
    let batch = batch.checked(InstanceDraft::check_named);
    Write::new(&app, &caller).batch(batch, |items| Command::Instances(Op::Delete, items)).await
}

/// All instances of a service on a host. Per item 200000, also if there were none.
pub(super) async fn delete_host(
    app: State<App>,
    caller: Caller,
    batch: Batch<InstanceDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(InstanceDraft::check_host);
    Write::new(&app, &caller).batch(batch, Command::InstancesDeleteHost).await
}

/// All instances of a service on a host. Per item 200000; 200002 nothing changed; 400303 there are
/// none; 400139 without `isolate`.
pub(super) async fn isolate_host(
    app: State<App>,
    caller: Caller,
    batch: Batch<InstanceDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(InstanceDraft::check_isolate_host);
    Write::new(&app, &caller).batch(batch, Command::InstancesIsolateHost).await
}

/// [`register`] for one instance.
pub(super) async fn register_one(
    app: State<App>,
    caller: Caller,
    batch: Batch<InstanceDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(InstanceDraft::check_new);
    Write::new(&app, &caller).one_or_batch(batch, |items| Command::Instances(Op::Create, items)).await
}

/// [`delete`] for one instance.
pub(super) async fn deregister_one(
    app: State<App>,
    caller: Caller,
    batch: Batch<InstanceDraft>,
) -> Result<Response, ApiError> {
    let batch = batch.checked(InstanceDraft::check_named);
    Write::new(&app, &caller).one_or_batch(batch, |items| Command::Instances(Op::Delete, items)).await
}

/// 200000 when the leader knows that the instance is alive; 400202 no such instance, 400140 its health
/// is not checked, 503001 no leader.
pub(super) async fn heartbeat(
    State(app): State<App>,
    Object(draft): Object<InstanceDraft>,
) -> Result<Response, ApiError> {
    #[derive(Serialize)]
    struct Alive<'a> {
        id: &'a str,
    }
    draft.check_named()?;
    let id = draft.instance_id();
    if expects_beats(&app, &id) != Some(true) {
        // Registered a moment ago through another node? Then this node is behind, and a linearizable
        // look tells.
        app.node.await_linearizable().await?;
    }
    match expects_beats(&app, &id) {
        None => return Err(Code::NotFoundResource.into()),
        Some(false) => return Err(Code::HealthCheckNotOpen.into()),
        Some(true) => app.node.beat(id.clone()).await?,
    }
    Ok(envelope::single("instance", &Alive { id: &id }))
}

/// Whether the health of an instance is checked; nothing of one that is not known here.
fn expects_beats(app: &App, id: &str) -> Option<bool> {
    app.node.state().catalog().instances.get(id).map(|instance| instance.heartbeat_ttl.is_some())
}
