//! `/admin/v1/contracts`: schemas and expressions that config files and rules must satisfy before they are published.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::http::{ApiResult, App, Batch, Caller, Doc, Fresh, PAGING, Query, Shape, Strict, answer, envelope};
use crate::api::view::ContractView;
use crate::catalog::Op;
use crate::model::code::Code;
use crate::model::contract::{ContractDraft, ContractMode, Violation};
use crate::openapi::Param;
use crate::operations::TrialDraft;

const DOC: Doc = Doc::new("Contracts");
const WRITE: Doc = DOC.gives(Shape::batch::<ContractView>("contract"));
/// Codes that refuse the fields of an item.
const FIELDS: &[Code] = &[Code::InvalidParameter, Code::LevelNotReached];
const FILTERS: &[Param] = &[Param::text("name", "Exact, or with `*` a glob that ignores case.")];

pub(crate) const LIST: Doc = DOC
    .says("A page of the contracts that cover something which the caller may read, newest change first.")
    .query(&[FILTERS, PAGING])
    .gives(Shape::list::<ContractView>("data"));

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (name, page) = (query.name("name"), query.page()?);
    let contracts = app.node().state().catalog().contracts.clone();
    let listed = contracts.list(&name, &caller.read_scope(), &page);
    Ok(envelope::list("data", &listed, |contract| ContractView::new(contract)))
}

pub(crate) const CREATE: Doc = WRITE
    .says(
        "Creates contracts, which takes edit on everything that they cover. From then on what breaks one is told of \
         where it is saved, and refused where it would be published (400107) if the `mode` is `refuse`.",
    )
    .codes(&[FIELDS, &[Code::ExistedResource, Code::TooMany]]);

pub(crate) const UPDATE: Doc = WRITE
    .says(
        "Updates contracts: an absent field stays. A schema takes the place of rules, and rules that of a schema. What \
         is in force stays in force.",
    )
    .codes(&[FIELDS, &[Code::NoNeedUpdate, Code::NotFoundResource, Code::DataConflict]]);

/// A violation of a contract.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BrokenContract")]
struct BrokenView<'a> {
    contract: &'a str,
    mode: ContractMode,
    /// JSON Pointer; `/` for the whole document.
    path: &'a str,
    /// Line in a config file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    message: &'a str,
}

impl<'a> BrokenView<'a> {
    fn new(broken: &'a Violation) -> Self {
        let Violation { contract, mode, path, line, message } = broken;
        BrokenView { contract, mode: *mode, path, line: *line, message }
    }
}

pub(crate) const TEST: Doc = DOC
    .says(
        "Tells what contracts would say of files and rules as they are given, under `broken`: none where all are kept. \
         Nothing is stored. It takes read on each thing.",
    )
    .gives(Shape::batch::<Vec<BrokenView>>("broken"))
    .codes(&[&[Code::InvalidParameter, Code::InvalidConfigFileFormat]]);

pub(crate) async fn test(app: State<App>, _: Fresh, caller: Caller, batch: Batch<TrialDraft>) -> ApiResult {
    let told = app.operations.try_contracts(&caller, batch.items).await?;
    let views = told.iter().map(|item| match item {
        Ok(broken) => Ok(broken.iter().map(BrokenView::new).collect::<Vec<_>>()),
        Err(refusal) => Err(refusal.clone()),
    });
    Ok(envelope::batch_of("broken", &views.collect::<Vec<_>>(), &batch.warnings))
}

pub(crate) const DELETE: Doc =
    WRITE.says("Deletes contracts by name; one that is not there is success.").codes(&[FIELDS, &[Code::DataConflict]]);

pub(crate) async fn write(op: Op, app: State<App>, caller: Caller, Strict(batch): Strict<ContractDraft>) -> ApiResult {
    let outcomes = app.operations.contracts(&caller, op, batch.items).await?;
    Ok(answer::batch(&app, outcomes, Vec::new()))
}
