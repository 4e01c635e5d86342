//! `GET /config/v1/configfiles/subscribers`: the clients of all nodes that have, or should have, a release of a file.

use axum::extract::State;

use super::releases::{KEY, key};
use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, PAGING, Query, Shape};
use crate::api::releases::{Subscribers, answer_subscribers};
use crate::catalog::history::Thing;
use crate::model::code::{Code, Refusal};

pub(crate) const SUBSCRIBERS: Doc = Doc::new("Config releases")
    .says("The clients of all nodes that pulled a file and poll for it, with the release of each.")
    .query(&[KEY, PAGING])
    .gives(Shape::whole::<Subscribers>())
    .codes(&[&[Code::InvalidConfigFileName, Code::NotFoundResource]]);

pub(crate) async fn subscribers(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (key, page) = (key(&query)?, query.page()?);
    let is_seen = caller.read_scope().sees(&key.namespace, &key.group);
    let is_there = app.node().state().catalog().configs.file(&key).is_some();
    if !(is_seen && is_there) {
        return Err(Refusal::missing(&key.placed()).into());
    }
    let warnings = app.operations.twins(&caller, &key);
    answer_subscribers(&app, Thing::File(key), page, warnings).await
}
