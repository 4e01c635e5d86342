//! Discovery documents.

use serde::Deserialize;
use url::Url;

use crate::DOCUMENT_BYTES_MAX;
use crate::address::read_address;
use crate::fault::{OidcFault, quoted, shortened};

/// Path below the issuer.
const DISCOVERY_PATH: &str = ".well-known/openid-configuration";

/// Endpoints and abilities of a provider. Providers that only issue tokens for programs have no endpoint but the keys.
#[derive(Clone, Debug)]
pub struct Metadata {
    pub issuer: String,
    pub jwks: Url,
    pub authorization: Option<Url>,
    pub token: Option<Url>,
    pub userinfo: Option<Url>,
    pub device_authorization: Option<Url>,
    pub end_session: Option<Url>,
    /// Names of algorithms for ID tokens; empty if the document has none.
    pub id_token_algorithms: Vec<String>,
    /// True if a callback always has `iss`.
    pub sends_issuer: bool,
    authentication_methods: Option<Vec<String>>,
}

/// Manner in which a client with a secret identifies itself at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuthentication {
    /// `client_secret_basic`.
    Basic,
    /// `client_secret_post`.
    Post,
}

impl ClientAuthentication {
    /// Returns the name of the standard.
    pub fn name(self) -> &'static str {
        match self {
            ClientAuthentication::Basic => "client_secret_basic",
            ClientAuthentication::Post => "client_secret_post",
        }
    }
}

#[derive(Deserialize)]
struct DiscoveryDocument {
    issuer: String,
    jwks_uri: Option<String>,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    userinfo_endpoint: Option<String>,
    device_authorization_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    id_token_signing_alg_values_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// Returns the address of the discovery document of an issuer.
pub fn discovery_address(issuer: &str) -> Result<Url, OidcFault> {
    let url = read_address("issuer", issuer)?;
    if url.query().is_some() {
        return Err(OidcFault::new("issuer", format!("is {}: with a query", quoted(issuer))));
    }
    read_address("issuer", &format!("{}/{DISCOVERY_PATH}", issuer.trim_end_matches('/')))
}

impl Metadata {
    /// Reads the document of an issuer. Another issuer's document is refused.
    pub fn parse(issuer: &str, document: &[u8]) -> Result<Metadata, OidcFault> {
        if document.len() > DOCUMENT_BYTES_MAX {
            return Err(OidcFault::whole("document", "the discovery document is larger than 1 MiB"));
        }
        let read: DiscoveryDocument = serde_json::from_slice(document).map_err(|error| {
            OidcFault::whole("document", format!("the discovery document cannot be read: {}", shortened(&error)))
        })?;
        if read.issuer != issuer {
            let (found, wanted) = (quoted(&read.issuer), quoted(issuer));
            return Err(OidcFault::new("issuer", format!("of the discovery document is {found}, not {wanted}")));
        }
        let jwks = read.jwks_uri.ok_or_else(|| OidcFault::new("jwks_uri", "is missing in the discovery document"))?;
        let optional = |field: &'static str, text: Option<String>| {
            text.filter(|text| !text.is_empty()).map(|text| read_address(field, &text)).transpose()
        };
        Ok(Metadata {
            jwks: read_address("jwks_uri", &jwks)?,
            authorization: optional("authorization_endpoint", read.authorization_endpoint)?,
            token: optional("token_endpoint", read.token_endpoint)?,
            userinfo: optional("userinfo_endpoint", read.userinfo_endpoint)?,
            device_authorization: optional("device_authorization_endpoint", read.device_authorization_endpoint)?,
            end_session: optional("end_session_endpoint", read.end_session_endpoint)?,
            id_token_algorithms: read.id_token_signing_alg_values_supported.unwrap_or_default(),
            sends_issuer: read.authorization_response_iss_parameter_supported == Some(true),
            authentication_methods: read.token_endpoint_auth_methods_supported,
            issuer: read.issuer,
        })
    }

    /// Returns the manner of a client with a secret: the first that the provider supports of basic and post. A document
    /// without a list means basic.
    pub fn client_authentication(&self) -> Result<ClientAuthentication, OidcFault> {
        let Some(methods) = &self.authentication_methods else { return Ok(ClientAuthentication::Basic) };
        let has = |name: &str| methods.iter().any(|method| method == name);
        match (has("client_secret_basic"), has("client_secret_post")) {
            (true, _) => Ok(ClientAuthentication::Basic),
            (false, true) => Ok(ClientAuthentication::Post),
            (false, false) => {
                let rest = format!("is {}: neither client_secret_basic nor _post", quoted(&methods.join(", ")));
                Err(OidcFault::new("token_endpoint_auth_methods_supported", rest))
            }
        }
    }
}
