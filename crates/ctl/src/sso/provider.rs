//! Calls to an identity provider: its discovery document, and requests for tokens.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use thuban_oidc::{
    ClientAccount, DOCUMENT_BYTES_MAX, EndpointRefusal, FormRequest, IssuedTokens, Metadata, OidcFault,
    discovery_address,
};
use thuban_outbound::{get_json, in_words, read_limited};

use super::super::errors::Usage;
use super::super::remote::http_client;
use super::fault::SignInFault;

const WITHIN: Duration = Duration::from_secs(5);
const JSON: &str = "application/json";
const OPENID: &str = "openid";
/// Error codes of OAuth for failures that pass.
const PASSING: [&str; 2] = ["temporarily_unavailable", "server_error"];

/// Public half of a provider, as a node gives it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PublicHalf {
    pub(super) name: String,
    pub(super) issuer: String,
    /// Client of the command line; absent if the provider has only a client with a secret.
    #[serde(default)]
    pub(super) client_id: Option<String>,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

/// An identity provider whose addresses are known.
pub(super) struct IdentityProvider {
    pub(super) name: String,
    client_id: String,
    /// Scopes, separated by blanks.
    pub(super) scope: String,
    pub(super) metadata: Metadata,
    client: Client,
}

/// Tokens that come of a sign-in.
pub(super) struct ProviderTokens {
    pub(super) id_token: String,
    pub(super) access_token: Option<String>,
}

/// Response of an endpoint: its status and its body.
pub(super) type EndpointResponse = (u16, Vec<u8>);

impl IdentityProvider {
    /// Fetches the provider's discovery document. Blocks on the file of authorities.
    pub(super) async fn discover(half: &PublicHalf, ca_file: Option<&Path>) -> anyhow::Result<IdentityProvider> {
        let PublicHalf { name, issuer, client_id, scopes } = half;
        let Some(client_id) = client_id.clone().filter(|id| !id.is_empty()) else {
            let why = format!(
                "identity provider {name} has no client for the command line: an administrator sets its \
                 cli_client_id, as by `thuban edit provider/{name}`"
            );
            return Err(Usage(why).into());
        };
        let silent = |why: String| SignInFault::Silent { provider: name.clone(), why };
        let address = discovery_address(issuer).map_err(|fault| silent(fault.to_string()))?;
        let builder = http_client(std::slice::from_ref(issuer), ca_file)?.timeout(WITHIN);
        // A plain issuer is on this machine.
        let builder = if issuer.starts_with("https://") { builder } else { builder.no_proxy() };
        let client = builder.build()?;
        let response = get_json(&client, address.clone()).await.map_err(silent)?;
        let (status, body) = read(response).await.map_err(silent)?;
        if status != StatusCode::OK.as_u16() {
            return Err(silent(format!("{address} has the status {status}")).into());
        }
        let metadata = Metadata::parse(issuer, &body).map_err(|fault| silent(fault.to_string()))?;
        let mut words = scopes.iter().map(String::as_str).collect::<Vec<_>>();
        if !words.contains(&OPENID) {
            words.insert(0, OPENID);
        }
        Ok(IdentityProvider { name: name.clone(), client_id, scope: words.join(" "), metadata, client })
    }

    /// Returns the client of the command line, which has no secret.
    pub(super) fn account(&self) -> ClientAccount<'_> {
        ClientAccount { client_id: &self.client_id, secret: None }
    }

    /// Sends a form. Returns what may pass as an error: no connection, a time-out, a fault of the server.
    pub(super) async fn send(&self, form: FormRequest) -> Result<EndpointResponse, String> {
        let FormRequest { address, body, .. } = form;
        let request = self.client.post(address.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let sent = request.header(ACCEPT, JSON).body(body).send().await;
        let (status, body) = read(sent.map_err(|error| in_words(&error))?).await?;
        let is_passing = status >= 500 || status == StatusCode::TOO_MANY_REQUESTS.as_u16();
        if is_passing { Err(format!("{address} has the status {status}")) } else { Ok((status, body)) }
    }

    /// Returns the tokens of a sign-in, which have to include an ID token.
    pub(super) fn issued(&self, tokens: IssuedTokens) -> Result<ProviderTokens, SignInFault> {
        let IssuedTokens { id_token, access_token, .. } = tokens;
        match id_token.filter(|token| !token.is_empty()) {
            Some(id_token) => Ok(ProviderTokens { id_token, access_token }),
            None => Err(self.refused(format!("it gave no ID token for the scopes {:?}", self.scope))),
        }
    }

    pub(super) fn refused(&self, why: impl Into<String>) -> SignInFault {
        SignInFault::Refused { provider: self.name.clone(), why: why.into() }
    }

    pub(super) fn silent(&self, why: String) -> SignInFault {
        SignInFault::Silent { provider: self.name.clone(), why }
    }

    pub(super) fn too_late(&self) -> SignInFault {
        SignInFault::TooLate { provider: self.name.clone() }
    }

    /// Returns the fault for a response of no use.
    pub(super) fn unusable(&self, fault: &OidcFault) -> SignInFault {
        self.refused(format!("its answer is of no use: {fault}"))
    }

    /// Returns the fault for a refusal by an endpoint.
    pub(super) fn refusal(&self, refusal: &EndpointRefusal) -> SignInFault {
        if is_passing(refusal) { self.silent(refusal.to_string()) } else { self.refused(refusal.to_string()) }
    }
}

/// Reports whether a later request may succeed.
pub(super) fn is_passing(refusal: &EndpointRefusal) -> bool {
    PASSING.contains(&refusal.error.as_str())
}

async fn read(response: Response) -> Result<EndpointResponse, String> {
    let status = response.status().as_u16();
    match read_limited(response, DOCUMENT_BYTES_MAX).await {
        Ok(Some(body)) => Ok((status, body)),
        Ok(None) => Err(format!("its answer is longer than {DOCUMENT_BYTES_MAX} bytes")),
        Err(error) => Err(in_words(&error)),
    }
}
