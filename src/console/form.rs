//! Form data, accepted only from a page that was made for the same visitor.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use subtle::ConstantTimeEq;
use tokio::time::timeout;

use super::Console;
use super::bars;
use super::fields::Fields;
use super::frame::failed;
use super::own_address::FORWARDED_HOST;
use super::session::{SessionUser, Stranger};
use crate::address::{SITE, peer_is_trusted};
use crate::model::code::{Code, Refusal};
use crate::model::limits;

/// Field of every form with the token of its page.
const TOKEN: &str = "form_token";
/// Time limit for the body of a form.
const BODY_WITHIN: Duration = Duration::from_secs(5);

/// A form that a visitor sent from a page of the console.
pub(super) struct Form {
    pub(super) visitor: SessionUser,
    pub(super) fields: Fields,
}

impl FromRequest<Console> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, console: &Console) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let visitor = SessionUser::from_request_parts(&mut parts, console).await?;
        let refuse = |refusal: &Refusal| visitor.undone(refusal);
        let barred = bars::check(&visitor, parts.uri.path());
        let is_ours = comes_from_here(console, &parts);
        // The body is read even for a refusal: otherwise the connection would be reset before the answer arrives.
        let fields = read(body, limits::BODY_BYTES_MAX).await;
        // A missing right takes precedence over other faults.
        barred.map_err(|refusal| visitor.barred(console, &refusal))?;
        let fields = fields.map_err(|refusal| refuse(&refusal))?;
        if !is_ours || !is_equal(fields.raw(TOKEN), &visitor.form_token) {
            let why = "this form is not of a page of yours: load the page again";
            return Err(refuse(&Refusal::new(Code::NotAllowedAccess, why)));
        }
        Ok(Form { visitor, fields })
    }
}

/// A form of a visitor who has not signed in: there is no cookie that another site could use.
pub(super) struct OpenForm {
    pub(super) stranger: Stranger,
    pub(super) fields: Fields,
}

impl FromRequest<Console> for OpenForm {
    type Rejection = Response;

    async fn from_request(request: Request, console: &Console) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let Ok(stranger) = Stranger::from_request_parts(&mut parts, console).await;
        if !comes_from_here(console, &parts) {
            return Err(StatusCode::FORBIDDEN.into_response());
        }
        let fields = read(body, limits::LOGIN_BODY_BYTES_MAX).await;
        let fields = fields.map_err(|refusal| failed(stranger.texts, &refusal))?;
        Ok(OpenForm { stranger, fields })
    }
}

fn comes_from_here(console: &Console, parts: &Parts) -> bool {
    let is_behind_proxy = peer_is_trusted(&parts.extensions, &console.settings.trusted_proxies);
    parts.method.is_safe() || is_of_ours(&parts.headers, is_behind_proxy)
}

/// Reports whether the form comes from this origin. Browsers send the site with every request, or over plain HTTP the
/// origin of a form. A client that sends neither is not a browser.
fn is_of_ours(headers: &HeaderMap, is_behind_proxy: bool) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    match (text(SITE), text(ORIGIN.as_str())) {
        (Some(site), _) => site == "same-origin",
        (None, None) => true,
        (None, Some(origin)) => {
            let origin = origin.split_once("://").map_or("", |(_, host)| host);
            let asked = [text(HOST.as_str()), text(FORWARDED_HOST).filter(|_| is_behind_proxy)];
            !origin.is_empty() && asked.into_iter().flatten().any(|host| host.eq_ignore_ascii_case(origin))
        }
    }
}

/// Reads all pairs of a form: too many are refused, because missing fields would count as empty.
async fn read(body: axum::body::Body, bytes_max: usize) -> Result<Fields, Refusal> {
    let too_large = |why: String| Refusal::new(Code::RequestTooLarge, why);
    let collected = match timeout(BODY_WITHIN, Limited::new(body, bytes_max).collect()).await {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(_)) => return Err(too_large(format!("at most {bytes_max} bytes"))),
        Err(_) => return Err(Refusal::new(Code::BadRequest, "the body did not come in time")),
    };
    if collected.iter().filter(|byte| **byte == b'&').count() >= limits::FORM_PAIRS_MAX {
        return Err(too_large(format!("at most {} fields of a form", limits::FORM_PAIRS_MAX)));
    }
    Ok(Fields::parse(&collected))
}

/// Compares in a time that depends only on the lengths.
fn is_equal(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[tokio::test]
    async fn a_form_has_so_many_fields_and_so_many_bytes() {
        let code =
            async |body: String, bytes_max: usize| read(body.into(), bytes_max).await.err().map(|refusal| refusal.code);
        assert_eq!(code("=&".repeat(limits::FORM_PAIRS_MAX - 1), 4096).await, None);
        assert_eq!(code("=&".repeat(limits::FORM_PAIRS_MAX), 4096).await, Some(Code::RequestTooLarge));
        assert_eq!(code("a=b".into(), 2).await, Some(Code::RequestTooLarge));
        assert_eq!(Fields::parse("=&".repeat(100_000).as_bytes()).0.len(), limits::FORM_PAIRS_MAX);
    }

    #[test]
    fn a_form_of_another_site_is_told_by_the_browser() {
        let of = |headers: &[(&'static str, &'static str)], is_behind_proxy: bool| {
            let headers =
                headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            is_of_ours(&HeaderMap::from_iter(headers), is_behind_proxy)
        };
        assert!(of(&[], false) && of(&[(SITE, "same-origin")], false));
        for foreign in ["cross-site", "same-site", "none"] {
            assert!(!of(&[(SITE, foreign), ("origin", "http://node:8090"), ("host", "node:8090")], false), "{foreign}");
        }
        // Without that header, the origin must be the host that this node or its proxy was reached by.
        let ours = ("host", "node:8090");
        assert!(
            of(&[ours, ("origin", "http://node:8090")], false) && of(&[ours, ("origin", "http://Node:8090")], false)
        );
        for foreign in ["http://node", "http://node:8091", "http://evil", "null", "", "http://"] {
            assert!(!of(&[ours, ("origin", foreign)], false), "{foreign}");
        }
        let proxied = [ours, (FORWARDED_HOST, "console"), ("origin", "https://console")];
        assert!(of(&proxied, true) && !of(&proxied, false));
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(is_equal("ab", "ab") && !is_equal("ab", "ac") && !is_equal("ab", "abc") && !is_equal("", "a"));
    }
}
