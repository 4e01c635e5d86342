//! Rows of single sign-on: providers, identities, and routes without a token.

use serde_json::json;

use super::law::{Law, Row, body, nothing};
use super::things::Thing;
use crate::model::grant::Verb::Manage;

pub(super) fn rows() -> Vec<Row> {
    let (providers, identities) = ("/auth/v1/providers", "/auth/v1/identities");
    let sso = |path: &str| format!("/auth/v1/sso{path}");
    // No provider has the name in braces.
    vec![
        Row::new("GET", sso(""), Law::Open(200_000), nothing),
        Row::new("GET", sso("/{name}"), Law::Open(400_202), nothing),
        Row::new("POST", sso("/{name}/login"), Law::Open(400_202), |_| body(json!({ "id_token": "a.b.c" }))),
        Row::new("POST", sso("/{name}/logout"), Law::Open(400_001), |_| body(json!({}))),
        Row::new("POST", sso("/{name}/test"), Law::Whole(Manage, 400_202), |_| body(json!({}))),
        Row::new("GET", providers, Law::Whole(Manage, 200_000), nothing),
        Row::new("POST", providers, Law::Whole(Manage, 200_000), |thing: &Thing| {
            let name = format!("made-{}", thing.turn);
            let issuer = format!("https://{name}.example.com");
            body(json!([{ "name": name, "issuer": issuer, "client_id": "thuban" }]))
        }),
        Row::new("PUT", providers, Law::Whole(Manage, 400_202), |_| body(json!([{ "name": "none" }]))),
        Row::new("POST", "/auth/v1/providers/delete", Law::Whole(Manage, 200_000), |_| {
            body(json!([{ "name": "none" }]))
        }),
        Row::new("GET", identities, Law::Whole(Manage, 200_000), nothing),
        Row::new("POST", "/auth/v1/identities/delete", Law::Whole(Manage, 200_000), |_| {
            body(json!([{ "provider": "none", "sub": "1" }]))
        }),
    ]
}
