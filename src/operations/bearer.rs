//! Credentials of presented tokens. A token in the form of a JWT is one of a provider, which its issuer names; any
//! other is one of this cluster. Every listener converts tokens here.

use std::sync::Arc;

use thuban_oidc::has_jwt_form;

use super::{Operations, token_hash};
use crate::catalog::Credential;
use crate::model::code::{Code, Refusal};
use crate::model::sso::{Bearer, Provider};
use crate::raft::state::State;
use crate::sso::{IdentityProviders, VerifiedToken};

/// Result of looking up the provider of a token.
enum Issued {
    /// The token is one of this cluster.
    Here,
    By(Arc<Provider>),
    /// No provider that this node knows has this issuer and issues tokens for programs.
    Unknown(String),
}

/// Returns the credential of a token, by the providers that this node knows. The refusal of a JWT names the field that
/// is wrong, and never quotes the token.
pub async fn credential_here(providers: &IdentityProviders, state: &State, token: &str) -> Result<Credential, Refusal> {
    credential_of(providers, issued(providers, state, token)?, token).await
}

async fn credential_of(providers: &IdentityProviders, issued: Issued, token: &str) -> Result<Credential, Refusal> {
    match issued {
        Issued::Here => Ok(Credential::Token(token_hash(token))),
        Issued::By(provider) => verified(providers, &provider, token).await,
        Issued::Unknown(issuer) => Err(unknown(&issuer)),
    }
}

fn issued(providers: &IdentityProviders, state: &State, token: &str) -> Result<Issued, Refusal> {
    if !has_jwt_form(token) {
        return Ok(Issued::Here);
    }
    let issuer = providers.issuer_of(token)?;
    let access = state.access();
    let provider = access.sso().provider_of_issuer(&issuer).filter(|provider| provider.bearer && !provider.disabled);
    Ok(provider.map_or(Issued::Unknown(issuer), |provider| Issued::By(provider.clone())))
}

async fn verified(providers: &IdentityProviders, provider: &Provider, token: &str) -> Result<Credential, Refusal> {
    let VerifiedToken { sub, claims, expires, digest, .. } = providers.bearer(provider, token).await?;
    let bearer = Bearer {
        provider: provider.id.clone(),
        issuer: provider.issuer.clone(),
        username: provider.username(&claims)?,
        sub,
        claims,
        expires,
        id: digest.get(..16).unwrap_or_default().to_owned(),
    };
    Ok(Credential::Bearer(Box::new(bearer)))
}

fn unknown(issuer: &str) -> Refusal {
    let issuer: String = issuer.chars().filter(|letter| !letter.is_control()).take(100).collect();
    let why = format!("bearer token: iss is {issuer:?}, and no provider with this issuer takes bearer tokens");
    Refusal::new(Code::TokenNotExisted, why)
}

impl Operations {
    /// Returns the credential of a token. A provider that this node does not know may have been created a moment ago on
    /// another one.
    pub async fn credential(&self, token: &str) -> Result<Credential, Refusal> {
        let state = self.node.state();
        let mut found = issued(&self.sso, state, token)?;
        if let Issued::Unknown(_) = found {
            self.node.await_news().await?;
            found = issued(&self.sso, state, token)?;
        }
        credential_of(&self.sso, found, token).await
    }
}
