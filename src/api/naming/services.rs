//! `/naming/v1/services`.

use std::sync::Arc;

use axum::extract::State;

use crate::api::http::{
    ApiError, ApiResult, App, Batch, Caller, Doc, Fresh, PAGING, PAGING_OF_ALL, Query, Shape, answer, envelope,
};
use crate::api::view::ServiceView;
use crate::catalog::instances::InstanceNeeds;
use crate::catalog::page::Page;
use crate::catalog::services::ServiceFilter;
use crate::catalog::{Catalog, Op};
use crate::model::code::Code;
use crate::model::service::{Service, ServiceDraft};
use crate::model::text::NameFilter;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Services");
const WRITE: Doc = DOC.gives(Shape::batch::<ServiceView>("service"));
/// Codes that refuse the name of a service.
const NAMES: &[Code] = &[Code::InvalidNamespaceName, Code::InvalidServiceName, Code::InvalidParameter];
/// Codes that refuse the fields of an item.
const FIELDS: &[Code] = &[
    Code::InvalidNamespaceName,
    Code::InvalidServiceName,
    Code::InvalidServicePorts,
    Code::InvalidServiceBusiness,
    Code::InvalidServiceDepartment,
    Code::InvalidServiceCmdb,
    Code::InvalidServiceComment,
    Code::InvalidServiceOwners,
    Code::InvalidServiceToken,
    Code::InvalidMetadata,
    Code::InvalidParameter,
];
const FILTERS: &[Param] = &[
    Param::text("name", "Exact, or with `*` a glob that ignores case."),
    Param::text("namespace", "Exact, or with `*` a glob that ignores case."),
    Param::text("business", "A part of it, ignoring case."),
    Param::text("department", "Exact."),
    Param::text("cmdb_mod1", "Exact."),
    Param::text("cmdb_mod2", "Exact."),
    Param::text("cmdb_mod3", "Exact."),
    Param::text("owner", "One of the owners, which stand between commas, semicolons or blanks."),
    Param::list("keys", "Keys of metadata, paired with `values`."),
    Param::list("values", "Values of metadata, paired with `keys`."),
    Param::list("host", "Hosts of instances."),
    Param::list("port", "Ports of instances."),
    Param::list("instance_keys", "Keys of the metadata of instances, paired with `instance_values`."),
    Param::list("instance_values", "Values of the metadata of instances, exact or with `*`."),
    Param::flag("only_exist_health_instance", "Only services with a healthy instance that is not isolated."),
];

fn filter(query: &Query, caller: &Caller) -> Result<ServiceFilter, ApiError> {
    let pairs = query.pairs("instance_keys", "instance_values")?.into_iter();
    let instances = InstanceNeeds {
        hosts: query.texts("host").into_iter().collect(),
        ports: query.ports("port")?.into_iter().collect(),
        metadata: pairs.map(|(key, value)| (key, NameFilter::parse(&value))).collect(),
        callable: query.flag("only_exist_health_instance")?.unwrap_or_default(),
    };
    Ok(ServiceFilter {
        name: query.name("name"),
        namespace: query.name("namespace"),
        business: query.text("business"),
        department: query.text("department"),
        cmdb_mod1: query.text("cmdb_mod1"),
        cmdb_mod2: query.text("cmdb_mod2"),
        cmdb_mod3: query.text("cmdb_mod3"),
        owner: query.text("owner"),
        metadata: query.pairs("keys", "values")?,
        instances,
        read_scope: caller.read_scope(),
    })
}

pub(crate) const LIST: Doc = DOC
    .says("A page of services, newest change first.")
    .query(&[FILTERS, PAGING])
    .gives(Shape::list::<ServiceView>("services"));

/// Lists services. Conditions on instances may be met by different instances of a service.
pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    answer(&app, filter(&query, &caller)?, query.page()?).await
}

pub(crate) const ALL: Doc = DOC
    .says("All services of a namespace, or as many as `limit` says.")
    .query(&[&[Param::text("namespace", "Exact.").required()], PAGING_OF_ALL])
    .gives(Shape::list::<ServiceView>("services"));

pub(crate) async fn all(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let namespace = NameFilter::Exact(query.required("namespace")?.to_owned());
    let filter =
        ServiceFilter { namespace: Some(namespace), read_scope: caller.read_scope(), ..ServiceFilter::default() };
    answer(&app, filter, query.page_of_all()?).await
}

pub(crate) const COUNT: Doc =
    DOC.says("The number of services, in `amount`.").gives(Shape::list::<ServiceView>("services"));

pub(crate) async fn count(State(app): State<App>, _: Fresh, caller: Caller) -> ApiResult {
    answer(&app, ServiceFilter { read_scope: caller.read_scope(), ..ServiceFilter::default() }, Page::new(0, 0)).await
}

async fn answer(app: &App, filter: ServiceFilter, page: Page) -> ApiResult {
    let reach = {
        let catalog = app.node().state().catalog();
        catalog.services.reach(&filter, &catalog.instances, &page)
    };
    let find = move |catalog: &Catalog| {
        let count = |service: Arc<Service>| (catalog.instances.of_service(&service.namespace, &service.name), service);
        catalog.services.list(&filter, &catalog.instances, &page).map(count)
    };
    app.scan(reach, find, |counted| {
        envelope::list("services", &counted, |(instances, service)| ServiceView::new(service, *instances))
    })
    .await
}

pub(crate) const CREATE: Doc = WRITE
    .says("Creates services; a missing namespace is made. The answer carries the token.")
    .codes(&[FIELDS, &[Code::ExistedResource]]);

pub(crate) const UPDATE: Doc = WRITE
    .says("Updates services: an absent field stays; with `revision`, only if that is the current one.")
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict]]);

pub(crate) const DELETE: Doc = WRITE
    .says("Deletes services, by name and namespace or by id; one that is not there is success.")
    .codes(&[NAMES, &[Code::ServiceExistedInstances, Code::ServiceExistedAlias, Code::DataConflict]]);

pub(crate) async fn write(op: Op, app: State<App>, caller: Caller, batch: Batch<ServiceDraft>) -> ApiResult {
    let outcomes = app.operations.services(&caller, op, batch.items).await?;
    let advice = if op == Op::Create { app.operations.advice_on_names(&caller, &outcomes) } else { Vec::new() };
    Ok(answer::batch(&app, outcomes, answer::joined(batch.warnings, advice)))
}
