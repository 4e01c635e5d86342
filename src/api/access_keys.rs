//! `/auth/v1/accesskeys`: what config clients sign their requests with.
//!
//! A secret is in the answer of the create that made it and nowhere else.

use axum::extract::State;
use axum::response::Response;

use super::App;
use super::auth::Caller;
use super::doc::{Doc, PAGING};
use super::envelope::{self, Shape};
use super::error::ApiError;
use super::extract::{Batch, Write};
use super::query::{Fresh, Query};
use super::view::AccessKeyView;
use crate::catalog::access_keys::AccessKeyFilter;
use crate::catalog::{Catalog, Command, Op};
use crate::model::access_key::{AccessKeyDraft, AccessKeyRequest};
use crate::model::code::Code;
use crate::openapi::Param;

const DOC: Doc = Doc::new("Access keys");
const WRITE: Doc = DOC.gives(Shape::batch::<AccessKeyView>("accessKey"));
/// What the fields of an item may be refused with.
const FIELDS: &[Code] = &[Code::InvalidParameter, Code::LevelNotReached];
const FILTERS: &[Param] = &[
    Param::text("app_id", "Exact, or with `*` a glob that ignores case."),
    Param::text("name", "Exact, or with `*` a glob that ignores case."),
];

pub(super) const LIST: Doc = DOC
    .says("A page of the access keys of config clients, newest change first; never with a secret.")
    .query(&[FILTERS, PAGING])
    .gives(Shape::list::<AccessKeyView>("data"));

pub(super) async fn list(State(app): State<App>, query: Query, _: Fresh) -> Result<Response, ApiError> {
    let filter = AccessKeyFilter { app_id: query.name("app_id"), name: query.name("name") };
    let page = query.page()?;
    let reach = app.node.state().catalog().access_keys.len();
    let find = move |catalog: &Catalog| catalog.access_keys.list(&filter, page);
    app.scan(reach, find, |listed| envelope::list("data", &listed, |key| AccessKeyView::new(key, None))).await
}

pub(super) const CREATE: Doc = WRITE
    .says(
        "Creates access keys, at most 5 for an app. The answer alone carries the secret, whether it was given or \
         generated; it is kept encrypted under `--data-key-file`.",
    )
    .codes(&[FIELDS, &[Code::ExistedResource, Code::BadRequest, Code::NoDataKey]]);

pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    batch: Batch<AccessKeyRequest>,
) -> Result<Response, ApiError> {
    let sealed = batch.checked(AccessKeyRequest::check).made(|request| app.node.keyring().seal_new(request));
    let secrets: Vec<_> =
        sealed.items.iter().map(|item| item.as_ref().ok().map(|(_, secret)| secret.clone())).collect();
    let drafts = sealed.made(|(draft, _)| Ok(draft));
    let items = Write::new(&app, &caller).items(drafts, |items| Command::AccessKeys(Op::Create, items)).await?;
    let shown = items.into_iter().zip(secrets).map(|(item, secret)| match secret {
        Some(secret) => item.with_secret(secret.expose().to_owned()),
        None => item,
    });
    let items: Vec<_> = shown.collect();
    Ok(envelope::batch(&items))
}

pub(super) const UPDATE: Doc = WRITE
    .says("Updates access keys: an absent field stays. A new secret replaces the old one at once.")
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::NoDataKey]]);

pub(super) async fn update(
    State(app): State<App>,
    caller: Caller,
    batch: Batch<AccessKeyRequest>,
) -> Result<Response, ApiError> {
    let drafts = batch.checked(AccessKeyRequest::check).made(|request| app.node.keyring().seal(request));
    write(&app, &caller, Op::Update, drafts).await
}

pub(super) const DELETE: Doc =
    WRITE.says("Deletes access keys, by app id and name; one that is not there is success.").codes(&[FIELDS]);

pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    batch: Batch<AccessKeyRequest>,
) -> Result<Response, ApiError> {
    let named = batch.checked(AccessKeyRequest::check_named);
    let drafts = named
        .made(|AccessKeyRequest { app_id, name, .. }| Ok(AccessKeyDraft { app_id, name, ..AccessKeyDraft::default() }));
    write(&app, &caller, Op::Delete, drafts).await
}

async fn write(app: &App, caller: &Caller, op: Op, drafts: Batch<AccessKeyDraft>) -> Result<Response, ApiError> {
    Write::new(app, caller).batch(drafts, |items| Command::AccessKeys(op, items)).await
}
