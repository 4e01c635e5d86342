//! Requests to a provider: authorization addresses, and forms for its endpoints.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::fault::OidcFault;
use crate::metadata::{ClientAuthentication, Metadata};
use crate::pkce::CodeVerifier;

/// Values of a redirect to the authorization endpoint.
#[derive(Clone, Copy, Debug)]
pub struct AuthorizationRequest<'a> {
    pub client_id: &'a str,
    pub redirect_uri: &'a str,
    /// Scopes separated by blanks.
    pub scope: &'a str,
    pub state: &'a str,
    pub nonce: &'a str,
    /// See [`CodeVerifier::challenge`].
    pub challenge: &'a str,
}

/// A client that the provider knows. Public clients have no secret.
#[derive(Clone, Copy)]
pub struct ClientAccount<'a> {
    pub client_id: &'a str,
    pub secret: Option<&'a str>,
}

/// A POST of a form.
#[derive(Clone, PartialEq, Eq)]
pub struct FormRequest {
    pub address: Url,
    /// Value of the header `Authorization`.
    pub authorization: Option<String>,
    /// Body of the type `application/x-www-form-urlencoded`.
    pub body: String,
}

/// Values of a redirect to the end-session endpoint.
#[derive(Clone, Copy, Debug)]
pub struct EndSession<'a> {
    pub client_id: &'a str,
    pub id_token_hint: Option<&'a str>,
    pub return_to: Option<&'a str>,
}

/// Returns the address that a browser is sent to.
pub fn authorization_address(metadata: &Metadata, request: &AuthorizationRequest<'_>) -> Result<Url, OidcFault> {
    let mut address = endpoint("authorization_endpoint", metadata.authorization.as_ref())?;
    let pairs = [
        ("response_type", "code"),
        ("client_id", request.client_id),
        ("redirect_uri", request.redirect_uri),
        ("scope", request.scope),
        ("state", request.state),
        ("nonce", request.nonce),
        ("code_challenge", request.challenge),
        ("code_challenge_method", "S256"),
    ];
    address.query_pairs_mut().extend_pairs(pairs);
    Ok(address)
}

/// Returns the request that exchanges a code for tokens.
pub fn code_form(
    metadata: &Metadata,
    client: ClientAccount<'_>,
    code: &str,
    verifier: &CodeVerifier,
    redirect_uri: &str,
) -> Result<FormRequest, OidcFault> {
    let pairs = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", redirect_uri),
        ("code_verifier", verifier.text()),
    ];
    form("token_endpoint", metadata.token.as_ref(), metadata, client, &pairs)
}

/// Returns the request for new tokens by a refresh token.
pub fn refresh_form(
    metadata: &Metadata,
    client: ClientAccount<'_>,
    refresh_token: &str,
) -> Result<FormRequest, OidcFault> {
    let pairs = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
    form("token_endpoint", metadata.token.as_ref(), metadata, client, &pairs)
}

/// Returns the request that starts a device flow. The challenge is always sent: some providers require it, and the
/// others ignore it.
pub fn device_form(
    metadata: &Metadata,
    client: ClientAccount<'_>,
    scope: &str,
    challenge: &str,
) -> Result<FormRequest, OidcFault> {
    let pairs = [("scope", scope), ("code_challenge", challenge), ("code_challenge_method", "S256")];
    form("device_authorization_endpoint", metadata.device_authorization.as_ref(), metadata, client, &pairs)
}

/// Returns the request that polls for the tokens of a device flow.
pub fn device_token_form(
    metadata: &Metadata,
    client: ClientAccount<'_>,
    device_code: &str,
    verifier: &CodeVerifier,
) -> Result<FormRequest, OidcFault> {
    let pairs = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        ("device_code", device_code),
        ("code_verifier", verifier.text()),
    ];
    form("token_endpoint", metadata.token.as_ref(), metadata, client, &pairs)
}

/// Returns the address at which a browser ends the session at the provider; `None` if it has none.
pub fn end_session_address(metadata: &Metadata, request: &EndSession<'_>) -> Option<Url> {
    let mut address = metadata.end_session.clone()?;
    address
        .query_pairs_mut()
        .append_pair("client_id", request.client_id)
        .extend_pairs(request.id_token_hint.map(|hint| ("id_token_hint", hint)))
        .extend_pairs(request.return_to.map(|address| ("post_logout_redirect_uri", address)));
    Some(address)
}

fn endpoint(field: &'static str, address: Option<&Url>) -> Result<Url, OidcFault> {
    address.cloned().ok_or_else(|| OidcFault::new(field, "is missing in the discovery document"))
}

/// Creates a form with the identification of the client.
fn form(
    field: &'static str,
    address: Option<&Url>,
    metadata: &Metadata,
    client: ClientAccount<'_>,
    pairs: &[(&str, &str)],
) -> Result<FormRequest, OidcFault> {
    let address = endpoint(field, address)?;
    let mut body = Serializer::new(String::new());
    body.extend_pairs(pairs);
    let mut authorization = None;
    match client.secret {
        None => {
            body.append_pair("client_id", client.client_id);
        }
        Some(secret) => match metadata.client_authentication()? {
            ClientAuthentication::Basic => authorization = Some(basic(client.client_id, secret)),
            ClientAuthentication::Post => {
                body.append_pair("client_id", client.client_id).append_pair("client_secret", secret);
            }
        },
    }
    Ok(FormRequest { address, authorization, body: body.finish() })
}

/// Returns the header of a client with a secret. Both are encoded as in forms first, by RFC 6749.
fn basic(client_id: &str, secret: &str) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", STANDARD.encode(format!("{}:{}", encoded(client_id), encoded(secret))))
}
