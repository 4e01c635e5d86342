//! Identity providers: their list, and a test of each from this node.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;

use super::Console;
use super::form::Form;
use super::frame::{Frame, Section, page};
use super::own_address::{own_origin, redirect_uri};
use super::session::{Arrival, SessionUser};
use crate::model::code::Refusal;
use crate::model::grant::Verb;
use crate::sso::DiagnosisStep;

pub(super) const PATH: &str = "/ui/providers";

struct ProviderRow {
    name: String,
    issuer: String,
    bearer: bool,
    bindings: usize,
    comment: String,
    is_off: bool,
}

#[derive(Template)]
#[template(path = "providers.html")]
struct ProvidersPage {
    frame: Frame,
    rows: Vec<ProviderRow>,
}

pub(super) async fn list(State(console): State<Console>, visitor: SessionUser) -> Response {
    if let Err(refusal) = visitor.caller.check_everywhere(Verb::Manage) {
        return visitor.failed(&refusal);
    }
    let access = console.node().state().access();
    let rows = access.sso().providers().map(|provider| ProviderRow {
        name: provider.name.clone(),
        issuer: provider.issuer.clone(),
        bearer: provider.bearer,
        bindings: provider.bindings.len(),
        comment: provider.comment.clone(),
        is_off: provider.disabled,
    });
    page(&ProvidersPage { rows: rows.collect(), frame: visitor.frame(Section::Setup) })
}

#[derive(Template)]
#[template(path = "provider_test.html")]
struct ProviderTestPage {
    frame: Frame,
    name: String,
    steps: Vec<DiagnosisStep>,
    /// Addresses to enter at the provider.
    redirect_uri: String,
    logout_uri: String,
}

/// Tests a provider without a token.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: SessionUser,
    Path(name): Path<String>,
    headers: axum::http::HeaderMap,
    extensions: axum::http::Extensions,
) -> Response {
    tested(&console, &visitor, &name, None, Arrival { headers: &headers, extensions: &extensions }).await
}

/// Tests a provider with the token of the form.
pub(super) async fn test(
    State(console): State<Console>,
    Path(name): Path<String>,
    headers: axum::http::HeaderMap,
    extensions: axum::http::Extensions,
    form: Form,
) -> Response {
    let Form { visitor, fields } = form;
    let arrival = Arrival { headers: &headers, extensions: &extensions };
    tested(&console, &visitor, &name, fields.given("token").as_deref(), arrival).await
}

async fn tested(
    console: &Console,
    visitor: &SessionUser,
    name: &str,
    token: Option<&str>,
    arrival: Arrival<'_>,
) -> Response {
    match test_page(console, visitor, name, token, arrival).await {
        Ok(test) => page(&test),
        Err(refusal) => visitor.failed(&refusal),
    }
}

async fn test_page(
    console: &Console,
    visitor: &SessionUser,
    name: &str,
    token: Option<&str>,
    arrival: Arrival<'_>,
) -> Result<ProviderTestPage, Refusal> {
    visitor.caller.check_everywhere(Verb::Manage)?;
    let steps = console.operations.test_provider(name, token).await?;
    // A browser that came under another name still sees the paths.
    let origin = own_origin(console, arrival).unwrap_or_else(|_| "https://…".to_owned());
    Ok(ProviderTestPage {
        frame: visitor.frame(Section::Setup),
        steps,
        redirect_uri: redirect_uri(&origin, name),
        logout_uri: format!("{origin}/auth/v1/sso/{name}/logout"),
        name: name.to_owned(),
    })
}
