//! `/naming/v1/services`.

use axum::extract::State;
use axum::response::Response;

use super::App;
use super::auth::Caller;
use super::envelope;
use super::error::ApiError;
use super::extract::{Batch, Write};
use super::query::{Fresh, Query};
use super::view::ServiceView;
use crate::catalog::page::{Listed, Page};
use crate::catalog::services::ServiceFilter;
use crate::catalog::{Command, Op};
use crate::model::service::{Service, ServiceDraft};
use crate::model::text::NameFilter;

fn filter(query: &Query) -> Result<ServiceFilter, ApiError> {
    let by_instance = ["host", "port", "instance_keys", "instance_values"];
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
        by_instance: by_instance.iter().any(|key| query.get(key).is_some()),
    })
}

/// A page of services, newest change first; 400103 for a bad page or unpaired `keys` and `values`.
pub(super) async fn list(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let (filter, page) = (filter(&query)?, query.page()?);
    let listed = app.node.state().catalog().services.list(&filter, page);
    Ok(envelope::list("services", &listed, |service| ServiceView::new(service)))
}

/// All services of a namespace, never cut; 400103 without `namespace`.
pub(super) async fn all(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let namespace = NameFilter::Exact(query.required("namespace")?.to_owned());
    let filter = ServiceFilter { namespace: Some(namespace), ..ServiceFilter::default() };
    let listed = app.node.state().catalog().services.list(&filter, Page::ALL);
    Ok(envelope::list("services", &listed, |service| ServiceView::new(service)))
}

/// The number of services in `amount`.
pub(super) async fn count(State(app): State<App>, _: Fresh) -> Result<Response, ApiError> {
    let amount = app.node.state().catalog().services.len();
    let none: Listed<std::sync::Arc<Service>> = Listed { amount, rows: Vec::new() };
    Ok(envelope::list("services", &none, |service| ServiceView::new(service)))
}

/// Per item 200000 with the token; 400110, 400120 … bad field; 400201 name or id is taken.
pub(super) async fn create(app: State<App>, caller: Caller, batch: Batch<ServiceDraft>) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Create, batch.checked(ServiceDraft::check_new)).await
}

/// Per item 200000; 200002 nothing changed; 400202 missing; 409000 stale revision.
pub(super) async fn update(app: State<App>, caller: Caller, batch: Batch<ServiceDraft>) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Update, batch.checked(ServiceDraft::check)).await
}

/// Per item 200000, also if it was not there.
pub(super) async fn delete(app: State<App>, caller: Caller, batch: Batch<ServiceDraft>) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Delete, batch.checked(ServiceDraft::check_name)).await
}

async fn write(app: &App, caller: &Caller, op: Op, batch: Batch<ServiceDraft>) -> Result<Response, ApiError> {
    Write::new(app, caller).batch(batch, |items| Command::Services(op, items)).await
}
