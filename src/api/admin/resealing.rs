//! `POST /admin/v1/datakey/reseal`: reseals a part of the data of an earlier data key under the first key.

use axum::extract::State;

use crate::api::http::{ApiResult, App, Caller, Doc, Shape, envelope};
use crate::model::code::Code;
use crate::operations::Resealing;

const ELEMENT: &str = "reseal";

pub(crate) const RESEAL: Doc = Doc::new("Cluster")
    .says(
        "Where `--data-key-file` holds two keys: seals up to 100 access keys, webhooks, client secrets of identity \
         providers and drafts of config files, each, again under the first of them, by updates as anybody makes them, \
         and tells what is left: call it until nothing is. Releases of encrypted files stay as they are. Of two \
         updates of a key, a webhook or a provider the later one counts, so exchange no secret meanwhile.",
    )
    .gives(Shape::single::<Resealing>(ELEMENT))
    .codes(&[&[Code::NoDataKey, Code::LevelNotReached]]);

pub(crate) async fn reseal(State(app): State<App>, caller: Caller) -> ApiResult {
    Ok(envelope::single(ELEMENT, &app.operations.reseal(&caller).await?))
}
