//! `/naming/v1/service/alias` and `/naming/v1/service/aliases`.

use axum::extract::State;
use axum::response::Response;

use super::App;
use super::auth::Caller;
use super::envelope;
use super::error::ApiError;
use super::extract::{Batch, Write};
use super::query::{Fresh, Query};
use super::view::AliasView;
use crate::catalog::aliases::AliasFilter;
use crate::catalog::{Command, Op};
use crate::model::alias::AliasDraft;

/// A page of aliases, newest change first; `namespace` and `service` are those of the target.
pub(super) async fn list(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let filter = AliasFilter {
        service: query.name("service"),
        namespace: query.name("namespace"),
        alias: query.name("alias"),
        alias_namespace: query.name("alias_namespace"),
        owner: query.text("owner"),
    };
    let page = query.page()?;
    let listed = app.node.state().catalog().aliases.list(&filter, page);
    Ok(envelope::list("aliases", &listed, |alias| AliasView::new(alias)))
}

/// Per item 200000; 400133 bad alias; 400301 no such service; 400504 the service is an alias;
/// 400201 the name is taken; 400134 no CL5SID in this namespace.
pub(super) async fn create(app: State<App>, caller: Caller, batch: Batch<AliasDraft>) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Create, batch.checked(AliasDraft::check_new)).await
}

/// Per item 200000; 200002 nothing changed; 400304 no such alias; 400301 no such service.
pub(super) async fn update(app: State<App>, caller: Caller, batch: Batch<AliasDraft>) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Update, batch.checked(AliasDraft::check_update)).await
}

/// Per item 200000, also if it was not there.
pub(super) async fn delete(app: State<App>, caller: Caller, batch: Batch<AliasDraft>) -> Result<Response, ApiError> {
    write(&app, &caller, Op::Delete, batch.checked(AliasDraft::check_named)).await
}

async fn write(app: &App, caller: &Caller, op: Op, batch: Batch<AliasDraft>) -> Result<Response, ApiError> {
    Write::new(app, caller).batch(batch, |items| Command::Aliases(op, items)).await
}
