//! `/naming/v1/instances`, and self-registration: `/v1/RegisterInstance` and `/v1/DeregisterInstance`. Heartbeats are
//! in [`super::heartbeats`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::http::{ApiError, ApiResult, App, Batch, Caller, Doc, Fresh, PAGING, Query, Shape, answer, envelope};
use crate::api::view::InstanceView;
use crate::catalog::instances::InstanceFilter;
use crate::catalog::page::{Listed, Page};
use crate::catalog::{Catalog, Command, Op};
use crate::model::code::{Code, Refusal, placed};
use crate::model::instance::{Instance, InstanceDraft};
use crate::model::service::Service;
use crate::openapi::Param;
use crate::operations::{FAR, XdsWarnings};

pub(crate) const DOC: Doc = Doc::new("Instances");
const WRITE: Doc = DOC.gives(Shape::batch::<InstanceView>("instance"));
const WRITE_ONE: Doc = DOC.gives(Shape::one_or_batch::<InstanceView>("instance"));
/// Codes that refuse the fields of an item.
pub(crate) const FIELDS: &[Code] = &[
    Code::InvalidNamespaceName,
    Code::InvalidServiceName,
    Code::InvalidInstanceId,
    Code::InvalidInstanceHost,
    Code::InvalidInstancePort,
    Code::InvalidInstanceProtocol,
    Code::InvalidInstanceVersion,
    Code::InvalidInstanceLogicSet,
    Code::InvalidMetadata,
    Code::InvalidParameter,
];
/// Further codes that refuse a registration.
const REGISTERED: &[Code] = &[Code::ExistedResource, Code::NotAllowAliasCreateInstance];
/// Query keys that filter instances.
const FILTERS: &[Param] = &[
    Param::text("id", "Exact."),
    Param::text("service", "Exact, or with `*` a glob that ignores case."),
    Param::text("namespace", "Exact, or with `*` a glob that ignores case."),
    Param::list("host", "Any of these."),
    Param::list("port", "Any of these."),
    Param::list("keys", "Keys of metadata, paired with `values`."),
    Param::list("values", "Values of metadata, paired with `keys`."),
    Param::text("protocol", "Exact."),
    Param::text("version", "Exact."),
    Param::flag("healthy", "Whether it is well.").also(&["health_status"]),
    Param::flag("isolate", "Whether an operator keeps traffic away from it."),
    Param::number("weight", "Exact."),
    Param::text("logic_set", "Exact."),
    Param::text("cmdb_region", "Region of its location."),
    Param::text("cmdb_zone", "Zone of its location."),
    Param::text("cmdb_idc", "Campus of its location."),
    Param::number("priority", "Exact."),
    Param::text("vpc_id", "Exact."),
];

fn filter(query: &Query, caller: &Caller) -> Result<InstanceFilter, ApiError> {
    if FILTERS.iter().flat_map(Param::names).all(|key| query.get(key).is_none()) {
        return Err(Code::EmptyQueryParameter.into());
    }
    let unpaired = |_| ApiError::new(Code::InvalidQueryInstanceParameter, "keys and values have to come in pairs");
    Ok(InstanceFilter {
        id: query.text("id"),
        namespace: query.name("namespace"),
        service: query.name("service"),
        vpc_id: query.text("vpc_id"),
        hosts: query.texts("host").into_iter().collect(),
        ports: query.ports("port")?.into_iter().collect(),
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
        read_scope: caller.read_scope(),
    })
}

pub(crate) const LIST: Doc = DOC
    .says("A page of instances, newest change first; at least one filter is needed.")
    .query(&[FILTERS, PAGING])
    .gives(Shape::list::<InstanceView>("instances"))
    .codes(&[&[Code::EmptyQueryParameter, Code::InvalidQueryInstanceParameter]]);

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (filter, page) = (filter(&query, &caller)?, query.page()?);
    let reach = app.node().state().catalog().instances.reach(&filter, &page);
    let find = move |catalog: &Catalog| catalog.instances.list(&filter, &page);
    app.scan(reach, find, |listed| answer(&listed)).await
}

pub(crate) const COUNT: Doc =
    DOC.says("The number of instances, in `amount`.").gives(Shape::list::<InstanceView>("instances"));

pub(crate) async fn count(State(app): State<App>, _: Fresh, caller: Caller) -> ApiResult {
    let read_scope = caller.read_scope();
    if read_scope.is_whole() {
        let amount = app.node().state().catalog().instances.counts().total;
        return Ok(answer(&Listed::amount(amount)));
    }
    let filter = InstanceFilter { read_scope, ..InstanceFilter::default() };
    let find = move |catalog: &Catalog| catalog.instances.list(&filter, &Page::new(0, 0));
    app.scan(FAR, find, |listed| answer(&listed)).await
}

fn answer(listed: &Listed<Arc<Instance>>) -> Response {
    envelope::list("instances", listed, |instance| InstanceView::new(instance))
}

/// Metadata of the instances of a service.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InstanceLabels")]
struct LabelsView<'a> {
    namespace: &'a str,
    service: &'a str,
    service_id: &'a str,
    labels: BTreeMap<String, LabelValues>, // bound: request
}

#[derive(Default, Serialize, JsonSchema)]
struct LabelValues {
    values: BTreeSet<String>, // bound: request
}

pub(crate) const LABELS: Doc = DOC
    .says("The metadata of all instances of a service, every value once.")
    .query(&[&[
        Param::text("namespace", "Namespace of the service.").required(),
        Param::text("service", "Name of the service.").required(),
    ]])
    .gives(Shape::single::<LabelsView>("instanceLabels"))
    .codes(&[&[Code::NotFoundService]]);

pub(crate) async fn labels(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (namespace, name) = (query.required("namespace")?.to_owned(), query.required("service")?.to_owned());
    if !caller.read_scope().sees(&namespace, &name) {
        return Err(no_service(&namespace, &name).into());
    }
    let missing = no_service(&namespace, &name);
    let reach = app.node().state().catalog().instances.of_service(&namespace, &name).total;
    let find = move |catalog: &Catalog| {
        let mut labels: BTreeMap<String, LabelValues> = BTreeMap::new();
        for (key, value) in catalog.instances.all_of(&namespace, &name).flat_map(|instance| &instance.metadata) {
            labels.entry(key.clone()).or_default().values.insert(value.clone());
        }
        Some((catalog.services.get(&namespace, &name)?.clone(), labels))
    };
    let answer = move |found: Option<(Arc<Service>, BTreeMap<String, LabelValues>)>| {
        let (service, labels) = found.ok_or(missing)?;
        let Service { namespace, name, id, .. } = &*service;
        Ok(envelope::single("instanceLabels", &LabelsView { namespace, service: name, service_id: id, labels }))
    };
    app.scan(reach, find, answer).await?
}

fn no_service(namespace: &str, name: &str) -> Refusal {
    Refusal::new(Code::NotFoundService, format!("there is no {}", placed("service", namespace, name)))
}

pub(crate) const REGISTER: Doc = WRITE
    .says("Registers instances, or replaces them; a missing namespace and service are made.")
    .codes(&[FIELDS, REGISTERED]);

pub(crate) const UPDATE: Doc = WRITE
    .says("Updates instances: an absent field stays; with `revision`, only if that is the current one.")
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundInstance, Code::DataConflict]]);

pub(crate) async fn save(
    op: Op,
    app: State<App>,
    caller: Caller,
    (due, batch): (XdsWarnings, Batch<InstanceDraft>),
) -> ApiResult {
    let batch = batch.warned(InstanceDraft::warnings);
    let outcomes = app.operations.instances(&caller, op, batch.items).await?;
    let advice = app.operations.advice_on_instances(&outcomes, due);
    Ok(answer::batch(&app, outcomes, answer::joined(batch.warnings, advice)))
}

pub(crate) const DELETE: Doc =
    WRITE.says("Deletes instances; one that is not there is success.").codes(&[FIELDS, &[Code::DataConflict]]);

pub(crate) async fn delete(app: State<App>, caller: Caller, batch: Batch<InstanceDraft>) -> ApiResult {
    let outcomes = app.operations.instances(&caller, Op::Delete, batch.items).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}

pub(crate) const DELETE_HOST: Doc =
    WRITE.says("Deletes all instances of a service on a host; if there are none, that is success.").codes(&[FIELDS]);

pub(crate) async fn delete_host(app: State<App>, caller: Caller, batch: Batch<InstanceDraft>) -> ApiResult {
    let batch = batch.checked(InstanceDraft::check_host);
    let outcomes = app.operations.write(&caller, batch.items, Command::InstancesDeleteHost).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}

pub(crate) const ISOLATE_HOST: Doc = WRITE
    .says("Isolates all instances of a service on a host, or takes them back.")
    .codes(&[FIELDS, &[Code::InvalidInstanceIsolate, Code::NoNeedUpdate, Code::NotFoundInstance]]);

pub(crate) async fn isolate_host(app: State<App>, caller: Caller, batch: Batch<InstanceDraft>) -> ApiResult {
    let batch = batch.checked(InstanceDraft::check_isolate_host);
    let outcomes = app.operations.write(&caller, batch.items, Command::InstancesIsolateHost).await?;
    Ok(answer::batch(&app, outcomes, batch.warnings))
}

pub(crate) const REGISTER_ONE: Doc = WRITE_ONE.says("An instance registers itself.").codes(&[FIELDS, REGISTERED]);

/// Registers one instance.
pub(crate) async fn register_one(
    app: State<App>,
    caller: Caller,
    due: XdsWarnings,
    batch: Batch<InstanceDraft>,
) -> ApiResult {
    let batch = batch.warned(InstanceDraft::warnings).checked(InstanceDraft::check_new);
    write_of_itself(&app, &caller, Op::Create, (batch, due)).await
}

pub(crate) const DEREGISTER_ONE: Doc =
    WRITE_ONE.says("An instance deregisters itself.").codes(&[FIELDS, &[Code::DataConflict]]);

/// Deletes one instance.
pub(crate) async fn deregister_one(app: State<App>, caller: Caller, batch: Batch<InstanceDraft>) -> ApiResult {
    let batch = batch.checked(InstanceDraft::check_named);
    write_of_itself(&app, &caller, Op::Delete, (batch, XdsWarnings::WhereSeen)).await
}

async fn write_of_itself(
    app: &App,
    caller: &Caller,
    op: Op,
    (batch, due): (Batch<InstanceDraft>, XdsWarnings),
) -> ApiResult {
    let command = |items| Command::Instances(op, items);
    let outcomes = app.operations.write_of_itself(caller, batch.items, command).await?;
    let advice = if op == Op::Delete { Vec::new() } else { app.operations.advice_on_instances(&outcomes, due) };
    Ok(answer::one_or_batch(app, outcomes, answer::joined(batch.warnings, advice), batch.is_single))
}
