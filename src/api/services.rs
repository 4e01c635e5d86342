//! `/naming/v1/services`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::App;
use super::auth::Caller;
use super::envelope;
use super::error::ApiError;
use super::extract::{Batch, Write};
use super::query::{Fresh, Query};
use super::view::ServiceView;
use crate::catalog::instances::InstanceNeeds;
use crate::catalog::page::Page;
use crate::catalog::services::ServiceFilter;
use crate::catalog::{Command, Op};
use crate::model::service::{Service, ServiceDraft};
use crate::model::text::NameFilter;

fn filter(query: &Query) -> Result<ServiceFilter, ApiError> {
    let pairs = query.pairs("instance_keys", "instance_values")?.into_iter();
    let instances = InstanceNeeds {
        hosts: query.texts("host"),
        ports: query.ports("port")?,
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
    })
}

/// A page of services, newest change first; 400103 for a bad page, port or flag, or unpaired keys and
/// values. What is asked of instances may be found in several instances of the service.
pub(super) async fn list(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    Ok(answer(&app, &filter(&query)?, query.page()?))
}

/// All services of a namespace, never cut; 400103 without `namespace`.
pub(super) async fn all(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let namespace = NameFilter::Exact(query.required("namespace")?.to_owned());
    Ok(answer(&app, &ServiceFilter { namespace: Some(namespace), ..ServiceFilter::default() }, Page::ALL))
}

/// The number of services in `amount`.
pub(super) async fn count(State(app): State<App>, _: Fresh) -> Response {
    answer(&app, &ServiceFilter::default(), Page::new(0, 0))
}

fn answer(app: &App, filter: &ServiceFilter, page: Page) -> Response {
    let counted = {
        let catalog = app.node.state().catalog();
        let count = |service: Arc<Service>| (catalog.instances.of_service(&service.namespace, &service.name), service);
        catalog.services.list(filter, &catalog.instances, page).map(count)
    };
    envelope::list("services", &counted, |(instances, service)| ServiceView::new(service, *instances))
}

/// Per item 200000 with the token; 400110, 400120 … bad field; 400201 name or id is taken.
pub(super) async fn create(app: State<App>, caller: Caller, batch: Batch<ServiceDraft>) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Create, batch.checked(ServiceDraft::check_new)).await
}

/// Per item 200000; 200002 nothing changed; 400202 missing; 409000 stale revision.
pub(super) async fn update(app: State<App>, caller: Caller, batch: Batch<ServiceDraft>) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Update, batch.checked(ServiceDraft::check)).await
}

/// Per item 200000, also if it was not there; 400204 has instances; 400210 has aliases.
pub(super) async fn delete(app: State<App>, caller: Caller, batch: Batch<ServiceDraft>) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Delete, batch.checked(ServiceDraft::check_name)).await
}

async fn write(app: &App, caller: &Caller, op: Op, batch: Batch<ServiceDraft>) -> Result<Response, ApiError> {
    Write::new(app, caller).batch(batch, |items| Command::Services(op, items)).await
}
