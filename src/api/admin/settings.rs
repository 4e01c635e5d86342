//! `/admin/v1/settings`: replicated settings, which change while the cluster runs.

use axum::extract::State;
use axum::response::Response;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, Object, Shape, envelope};
use crate::model::code::Code;
use crate::model::settings::{REVISION, Settings, SettingsChange};

const DOC: Doc = Doc::new("Settings").gives(Shape::single::<Settings>(ELEMENT));
const ELEMENT: &str = "settings";

/// Settings from the body; the table of settings parses them and reports faults.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct GivenSettings(Map<String, Value>);

impl JsonSchema for GivenSettings {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        SettingsChange::schema_name()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        schemas.subschema_for::<SettingsChange>()
    }
}

pub(crate) const SHOW: Doc =
    DOC.says("The settings of the whole cluster; in force once every member runs a version that knows them.");

pub(crate) async fn show(State(app): State<App>, _: Fresh) -> Response {
    answer(&app, Code::ExecuteSuccess)
}

pub(crate) const CHANGE: Doc = DOC
    .says(
        "Changes settings: a key that is absent stays; the answer shows all as they stand then. What is kept of the \
         audit trail (`audit_*`) needs `manage` on everything.",
    )
    .codes(&[&[Code::InvalidParameter, Code::NoNeedUpdate, Code::DataConflict, Code::LevelNotReached]]);

pub(crate) async fn change(
    State(app): State<App>,
    caller: Caller,
    Object(GivenSettings(given)): Object<GivenSettings>,
) -> ApiResult {
    let code = app.operations.change_settings(&caller, SettingsChange::read(&given)?).await?;
    Ok(answer(&app, code))
}

fn answer(app: &App, code: Code) -> Response {
    let settings = app.node().state().catalog().settings.clone();
    let mut shown = settings.to_json();
    // Empty for settings that were last changed before revisions existed.
    shown.insert(REVISION.to_owned(), Value::from(settings.revision));
    envelope::single_as(code, ELEMENT, &shown)
}
