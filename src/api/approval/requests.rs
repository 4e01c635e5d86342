//! `/admin/v1/requests`: requests for approval, and decisions on them.

use axum::extract::State;

use crate::api::config::diff::FileText;
use crate::api::http::{ApiError, ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape, Strict, answer, envelope};
use crate::api::releases::Difference;
use crate::api::rules::releases::of_rules;
use crate::api::view::RequestView;
use crate::catalog::Catalog;
use crate::catalog::approvals::{Pending, RequestFilter};
use crate::model::approval::{RequestDraft, RequestOp, RequestState};
use crate::model::code::{Code, Refusal, placed};
use crate::model::policy::PolicyKind;
use crate::model::wire::Words;
use crate::openapi::Param;
use crate::operations::FAR;

const DOC: Doc = Doc::new("Approval");
const WRITE: Doc = DOC.gives(Shape::batch::<RequestView>("request"));
const CODES: &[Code] = &[Code::InvalidParameter, Code::NotFoundResource, Code::DataConflict, Code::LevelNotReached];
const FILTERS: &[Param] = &[
    Param::text("state", "`open`, `approved`, `refused`, `withdrawn`, `done`, `failed`, `stale` or `expired`."),
    Param::text("kind", "`configfile` or the word of a family of rules."),
    Param::text("namespace", "Exact, or with `*` a glob that ignores case."),
    Param::text("name", "The same of the thing; of a config file `group/file`."),
    Param::text("user", "Who asked."),
    Param::text("id", "Of one request."),
    Param::text("part_of", "Id of a request, for the other acts that are decided with it."),
    Param::flag("heads", "Leaves out what is part of another request in the list."),
];

pub(crate) const LIST: Doc = DOC
    .says("A page of the requests that the caller may see, newest first.")
    .query(&[FILTERS, PAGING])
    .gives(Shape::list::<RequestView>("data"))
    .codes(&[&[Code::InvalidParameter]]);

pub(crate) async fn list(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let word = |key: &str| query.get(key).filter(|word| !word.is_empty());
    let unknown = |key: &str| ApiError::new(Code::InvalidParameter, format!("{key} is no word that it may be"));
    let state = word("state").map(|word| RequestState::of_word(word).ok_or_else(|| unknown("state"))).transpose()?;
    let kind = word("kind").map(|word| PolicyKind::of_word(word).ok_or_else(|| unknown("kind"))).transpose()?;
    let filter = RequestFilter {
        id: query.text("id"),
        state,
        kind,
        namespace: query.name("namespace"),
        name: query.name("name"),
        user: query.text("user"),
        part_of: query.text("part_of"),
        heads: query.flag("heads")?.unwrap_or_default(),
        read_scope: caller.read_scope(),
    };
    let page = query.page()?;
    let reach = app.node().state().catalog().approvals.len();
    let now = app.node().now();
    let find = move |catalog: &Catalog| {
        let listed = catalog.approvals.list(&filter, &page);
        listed.map(|request| (catalog.standing(now, &request), request))
    };
    app.scan(reach, find, |listed| {
        envelope::list("data", &listed, |(standing, request)| RequestView::new(request, Some(standing)))
    })
    .await
}

pub(crate) const APPROVE: Doc = WRITE
    .says(
        "Approves requests of others. With the last approval what was asked for is done in the same entry, as it was \
         when it was asked for, by the rights that the requester has then; 409000 where it is stale or fails by then.",
    )
    .codes(&[CODES, &[Code::NoNeedUpdate]]);

pub(crate) const REFUSE: Doc = WRITE.says("Refuses requests of others; one refusal is enough.").codes(&[CODES]);

pub(crate) const WITHDRAW: Doc =
    WRITE.says("Withdraws requests: one's own, or with manage those of others.").codes(&[CODES]);

pub(crate) const RUN: Doc = WRITE
    .says("Carries out requests that are approved and wait. Who may do the act itself may run it.")
    .codes(&[CODES, &[Code::Frozen, Code::ApprovalRequired]]);

pub(crate) async fn decide(
    op: RequestOp,
    app: State<App>,
    caller: Caller,
    Strict(batch): Strict<RequestDraft>,
) -> ApiResult {
    let outcomes = app.operations.requests(&caller, op, batch.items).await?;
    Ok(answer::batch(&app, outcomes, Vec::new()))
}

pub(crate) const DIFF: Doc = DOC
    .says("What a request that waits would change, beside what is in force now.")
    .query(&[&[Param::text("id", "Of the request.")]])
    .gives(Shape::single::<Difference>("diff"))
    .codes(&[&[Code::EmptyQueryParameter, Code::NotFoundResource, Code::NotAllowedAccess]]);

pub(crate) async fn diff(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (id, read_scope, reader) = (query.required("id")?.to_owned(), caller.read_scope(), app.clone());
    let find = move |catalog: &Catalog| {
        let found = catalog.approvals.get(&id);
        let seen = found.filter(|request| request.is_seen_by(&read_scope));
        let request = seen.ok_or_else(|| Refusal::missing(&placed("request", "", &id)))?;
        let pending = catalog.pending(request);
        pending.ok_or_else(|| Refusal::new(Code::NotFoundResource, "nothing waits there any more"))
    };
    app.scan(FAR, find, move |found: Result<Pending, Refusal>| {
        let difference = match found? {
            Pending::Rule { now, then } => of_rules(now.as_deref(), then.as_deref()),
            Pending::File { key, now, then } => {
                let [now, then] = [now, then].map(|side| FileText::of(&key, side.as_deref()));
                let mut sides = (now, then);
                for side in [&mut sides.0, &mut sides.1] {
                    side.read(&reader, &caller, &key)?;
                }
                sides.0.against(sides.1)
            }
        };
        Ok(envelope::single("diff", &difference))
    })
    .await?
}
