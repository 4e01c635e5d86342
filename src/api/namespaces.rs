//! `/naming/v1/namespaces` and `/core/v1/namespaces`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use super::App;
use super::auth::Caller;
use super::envelope;
use super::error::ApiError;
use super::extract::{Batch, Write};
use super::query::{Fresh, Query};
use super::view::NamespaceView;
use crate::catalog::namespaces::NamespaceFilter;
use crate::catalog::{Command, Op};
use crate::model::name;
use crate::model::namespace::{Namespace, NamespaceDraft};

/// 200000; 400103 for a bad page.
pub(super) async fn list(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let filter = NamespaceFilter { name: query.name("name"), owner: query.text("owner") };
    let page = query.page()?;
    let counted = {
        let catalog = app.node.state().catalog();
        let count = |namespace: Arc<Namespace>| {
            let services = catalog.services.count_in(&namespace.name);
            (services, catalog.instances.of_namespace(&namespace.name), namespace)
        };
        catalog.namespaces.list(&filter, page).map(count)
    };
    Ok(envelope::list("namespaces", &counted, |(services, instances, namespace)| {
        NamespaceView::new(namespace, *services, *instances)
    }))
}

/// Per item 200000; 400110 bad name; 400201 exists.
pub(super) async fn create(
    app: State<App>,
    caller: Caller,
    batch: Batch<NamespaceDraft>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Create, batch.checked(NamespaceDraft::check)).await
}

/// Per item 200000; 200002 nothing changed; 400202 missing; 409000 stale revision.
pub(super) async fn update(
    app: State<App>,
    caller: Caller,
    batch: Batch<NamespaceDraft>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Update, batch.checked(NamespaceDraft::check)).await
}

/// Per item 200000, also if it was not there; 400203 has services; 400219 has config groups.
pub(super) async fn delete(
    app: State<App>,
    caller: Caller,
    batch: Batch<NamespaceDraft>,
) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Delete, batch.checked(|draft| name::check_namespace(&draft.name))).await
}

async fn write(app: &App, caller: &Caller, op: Op, batch: Batch<NamespaceDraft>) -> Result<Response, ApiError> {
    Write::new(app, caller).batch(batch, |items| Command::Namespaces(op, items)).await
}
