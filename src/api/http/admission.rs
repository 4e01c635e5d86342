//! Authentication by `Authorization` or client certificate, which yields a [`Caller`]; audit of refused requests.

use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::app::App;
use super::carried::Carried;
use super::error::ApiError;
use super::route::{Access, IMPORT, TARGETS, Terms, is_posted_read, is_read};
use crate::address::{SITE, client_address, sender};
use crate::catalog::Credential;
use crate::catalog::audit::AuditNote;
use crate::connections::PeerCertificate;
use crate::controllers::RateClass;
use crate::model::code::{Code, Refusal};
use crate::operations::Caller;

/// The Polaris family's own header for the same token.
const POLARIS_TOKEN: &str = "x-polaris-token";
const BEARER: &str = "Bearer";
const BASIC: &str = "Basic";
const JSON: &str = "application/json";
/// Additional content types of the import route: an archive itself, or in a form.
const ARCHIVES: [&str; 4] =
    ["application/zip", "application/x-zip-compressed", "application/octet-stream", "multipart/form-data"];

impl FromRequestParts<App> for Caller {
    type Rejection = Response;

    /// Returns the caller that [`admit`] stored; refuses the request on a route without [`admit`].
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Response> {
        let refuse = || ApiError::from(Code::EmptyAuthToken).into_response();
        parts.extensions.get::<Caller>().cloned().ok_or_else(refuse)
    }
}

/// Admits the request if the row of the route allows its caller, and stores the caller for the handler.
pub(crate) async fn admit(app: &App, terms: Terms, request: &mut Request) -> Result<(), ApiError> {
    let access = terms.access;
    if access == Access::Anyone {
        return Ok(());
    }
    if request.uri().path() == TARGETS
        && let Some(token) = password_of_basic(request.headers())
    {
        request.headers_mut().insert(AUTHORIZATION, token);
    }
    let identified = identify(app, request.headers(), request.extensions()).await;
    let caller = match identified {
        // Operators need these routes most on a node without a leader.
        Err(ApiError(Refusal { code: Code::NoLeader, .. })) if terms.is_always => {
            let credential = presented(app, request.headers(), request.extensions()).await?;
            let sender = sender(request.headers(), request.extensions(), &app.settings.trusted_proxies);
            let id = crate::request_id::of(request.extensions());
            app.operations.identify_by_last_known(credential, sender, id)?
        }
        identified => identified?,
    };
    let is_certificate = matches!(caller.credential, Credential::Certificate(_));
    let may = match access {
        Access::Everywhere(verb) => caller.check_everywhere(verb),
        Access::Anyone | Access::TokenHolder => Ok(()),
    };
    if let Some(carried) = Carried::of(request) {
        carried.count_for(&caller);
    }
    request.extensions_mut().insert(caller);
    may?;
    if is_certificate && !is_read(request) {
        check_certificate_alone(request.uri().path(), request.headers())?;
    }
    Ok(())
}

pub(crate) async fn identify(app: &App, headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, ApiError> {
    let credential = presented(app, headers, extensions).await?;
    let sender = sender(headers, extensions, &app.settings.trusted_proxies);
    Ok(app.operations.identify(credential, sender, crate::request_id::of(extensions)).await?)
}

/// Looks up the caller's token again, in a state as fresh as the request demanded: a node that was behind may have
/// admitted a token that was revoked or whose grants had changed.
pub(crate) fn admit_again(app: &App, extensions: &mut Extensions) -> Result<(), ApiError> {
    let Some(caller) = extensions.get_mut::<Caller>() else { return Ok(()) };
    *caller = caller.again(&app.operations)?;
    Ok(())
}

/// Records requests that were refused before their body was read: writes without a valid token, and requests of known
/// callers without the verb. Repeated requests of instances and other clients are not recorded, unless the settings
/// require it.
pub(crate) fn note_refused(app: &App, request: &Request, code: Code) {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let caller = request.extensions().get::<Caller>();
    let is_read = request.method() == Method::GET || is_posted_read(route);
    let is_of_clients = route.starts_with("/v1/") && app.node().state().catalog().settings.audit_instances == 0;
    if !matches!(code.status(), 401 | 403) || is_of_clients || (is_read && caller.is_none()) {
        return;
    }
    let name = format!("{} {route}", request.method());
    let note = AuditNote::refused("route", &name, code);
    if let Some(caller) = caller {
        return app.node().note(RateClass::Refused, caller.signs(note));
    }
    let note = AuditNote {
        address: client_address(request.headers(), request.extensions(), &app.settings.trusted_proxies),
        request: crate::request_id::of(request.extensions()),
        ..note
    };
    app.node().note(RateClass::Stranger, note);
}

/// Returns the credential of the token, or without one the client certificate of the connection.
async fn presented(app: &App, headers: &HeaderMap, extensions: &Extensions) -> Result<Credential, ApiError> {
    match (presented_token(headers), extensions.get::<PeerCertificate>()) {
        (Ok(token), _) => Ok(app.operations.credential(token).await?),
        (Err(ApiError(Refusal { code: Code::EmptyAuthToken, .. })), Some(PeerCertificate { common_name })) => {
            Ok(Credential::Certificate(common_name.clone()))
        }
        (Err(error), _) => Err(error),
    }
}

/// Refuses cross-site requests that are authenticated by the certificate alone, which a browser presents for pages of
/// other sites too. Such a page cannot send the content type JSON without a preflight request, nor claim to be
/// same-origin.
fn check_certificate_alone(path: &str, headers: &HeaderMap) -> Result<(), ApiError> {
    let refuse = |why: &str| Err(ApiError::new(Code::OperationRoleForbidden, why));
    if headers.get_all(SITE).iter().any(|site| site != "none" && site != "same-origin") {
        return refuse("a page of another site may not write by a certificate");
    }
    let kinds: Vec<_> = headers.get_all(CONTENT_TYPE).iter().map(|kind| kind.to_str().unwrap_or_default()).collect();
    let essence = |kind: &str| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_taken = |kind: &str| kind == JSON || (path == IMPORT && ARCHIVES.contains(&kind));
    match kinds.as_slice() {
        [kind] if is_taken(&essence(kind)) => Ok(()),
        _ => refuse("a write by a certificate without a token needs Content-Type: application/json"),
    }
}

/// Returns the password of basic authentication, with any name, as the value of the header; `None` without one.
fn password_of_basic(headers: &HeaderMap) -> Option<HeaderValue> {
    let (scheme, encoded) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let pair = STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case(BASIC))?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    HeaderValue::from_bytes(&pair[colon + 1..]).ok()
}

/// Returns the token: raw, as a bearer token, or in Polaris' header.
fn presented_token(headers: &HeaderMap) -> Result<&str, ApiError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let header = match (values.next(), values.next()) {
        (Some(_), Some(_)) => return Err(ApiError::new(Code::TokenNotExisted, "more than one Authorization header")),
        (Some(value), None) => Some(value),
        (None, _) => headers.get(POLARIS_TOKEN),
    };
    let text = header.map(|value| value.to_str().unwrap_or("?")).unwrap_or("").trim();
    let token = match text.split_at_checked(BEARER.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(BEARER) => rest.trim(),
        _ => text,
    };
    if token.is_empty() { Err(Code::EmptyAuthToken.into()) } else { Ok(token) }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn a_certificate_alone_writes_what_no_foreign_page_can_send() {
        let of = |path: &str, pairs: &[(HeaderName, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(name.clone(), HeaderValue::from_static(value));
            }
            check_certificate_alone(path, &headers).map_err(|error| error.0.code)
        };
        let (site, forbidden) = (HeaderName::from_static(SITE), Err(Code::OperationRoleForbidden));
        let users = "/auth/v1/users";
        for json in [JSON, "application/json; charset=utf-8", "Application/JSON"] {
            assert_eq!(of(users, &[(CONTENT_TYPE, json)]), Ok(()), "{json}");
        }
        for other in
            ["text/plain", "application/x-www-form-urlencoded", "text/plain; application/json", "", ARCHIVES[0]]
        {
            assert_eq!(of(users, &[(CONTENT_TYPE, other)]), forbidden, "{other}");
        }
        assert_eq!(of(users, &[]), forbidden);
        assert_eq!(of(users, &[(CONTENT_TYPE, JSON), (CONTENT_TYPE, "text/plain")]), forbidden);
        for (from, expected) in [
            ("none", Ok(())),
            ("same-origin", Ok(())),
            ("same-site", forbidden),
            ("cross-site", forbidden),
            ("", forbidden),
        ] {
            assert_eq!(of(users, &[(CONTENT_TYPE, JSON), (site.clone(), from)]), expected, "{from}");
        }
        assert_eq!(of(users, &[(CONTENT_TYPE, JSON), (site.clone(), "none"), (site.clone(), "cross-site")]), forbidden);
        for archive in [ARCHIVES[0], "multipart/form-data; boundary=x"] {
            assert_eq!(of(IMPORT, &[(CONTENT_TYPE, archive)]), Ok(()), "{archive}");
        }
        assert_eq!(of(IMPORT, &[(CONTENT_TYPE, ARCHIVES[0]), (site, "cross-site")]), forbidden);
        assert_eq!(of(IMPORT, &[(CONTENT_TYPE, "text/plain")]), forbidden);
    }
}
