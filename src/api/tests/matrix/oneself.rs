//! Rows about the caller's own account and tokens.

use serde_json::json;

use super::law::{Law, Row, body, nothing};
use crate::model::grant::Verb::Manage;

pub(super) fn rows() -> Vec<Row> {
    let nobody = |_: &_| body(json!([{ "name": "nobody" }]));
    vec![
        Row::new("GET", "/auth/v1/user", Law::Holder(200_000), nothing),
        Row::new("GET", "/auth/v1/sessions", Law::Holder(200_000), nothing),
        Row::new("POST", "/auth/v1/sessions/delete", Law::Holder(200_000), |_| body(json!([{ "id": "0000" }]))),
        Row::new("PUT", "/auth/v1/tokens", Law::Whole(Manage, 400_202), nobody),
        Row::new("POST", "/auth/v1/tokens/rotate", Law::Whole(Manage, 400_202), nobody),
    ]
}
