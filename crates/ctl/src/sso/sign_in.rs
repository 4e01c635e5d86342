//! `thuban login --sso`: a sign-in at an identity provider, whose ID token is exchanged for a token of the cluster.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};

use super::super::errors::Usage;
use super::super::remote::{EndpointArgs, Refused, Remote, TOKEN_ENDED};
use super::super::telling::say;
use super::device::{self, Clock, SystemClock};
use super::fault::SignInFault;
use super::loopback::{self, SIGN_IN_WITHIN, open_browser};
use super::provider::{IdentityProvider, ProviderTokens, PublicHalf};

pub(super) const PROVIDERS: &str = "/auth/v1/sso";
/// Code for an object that does not exist.
const NOT_FOUND: u64 = 400_202;

#[derive(Args)]
pub(crate) struct SsoArgs {
    /// Sign in at this identity provider instead of with a password, and save the token in the context; without a name
    /// at the only provider of the cluster
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    #[arg(conflicts_with_all = ["name", "password_file"])]
    pub(crate) sso: Option<String>,
    /// Sign in with a code, in a browser on any machine [default: if the provider offers it]
    #[arg(long, requires = "sso", conflicts_with = "browser")]
    device: bool,
    /// Sign in by a browser on this machine
    #[arg(long, requires = "sso")]
    browser: bool,
    /// File with the trusted authorities of the provider (PEM) [default: those of the system]
    #[arg(long, requires = "sso", value_name = "FILE")]
    provider_ca_file: Option<PathBuf>,
}

/// Way to sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// A code if the provider offers it, else a browser.
    Any,
    Device,
    Browser,
}

/// Signs in and saves the token in the context.
pub(crate) async fn log_in(endpoint: &EndpointArgs, args: &SsoArgs) -> anyhow::Result<()> {
    let remote = endpoint.remote()?.without_token();
    let flow = match (args.device, args.browser) {
        (true, _) => Flow::Device,
        (_, true) => Flow::Browser,
        _ => Flow::Any,
    };
    let half = choose(&remote, args.sso.as_deref().unwrap_or_default()).await?;
    let work = async {
        let provider = IdentityProvider::discover(&half, args.provider_ca_file.as_deref()).await?;
        let clock = SystemClock::new();
        let signed_in = sign_in(&provider, flow, &clock, say, open_browser).await?;
        exchange(&remote, &half.name, signed_in).await
    };
    let (token, name) = unless_interrupted(work, tokio::signal::ctrl_c()).await?;
    let context = endpoint.context.keep_token(&remote.endpoints, &token, Some(&half.name))?;
    say(&format!("logged in as {name}{}; kept in the context {context}", until(&remote.with_token(&token)).await));
    Ok(())
}

/// Runs the sign-in until Ctrl-C.
pub(super) async fn unless_interrupted<T>(
    work: impl Future<Output = anyhow::Result<T>>,
    interrupt: impl Future,
) -> anyhow::Result<T> {
    tokio::select! {
        done = work => done,
        _ = interrupt => Err(SignInFault::Interrupted.into()),
    }
}

/// Returns the public half of the named provider, or of the only one if `name` is empty.
pub(super) async fn choose(remote: &Remote, name: &str) -> anyhow::Result<PublicHalf> {
    let name = if name.is_empty() { only(&providers(remote).await?)? } else { checked_name(name)?.to_owned() };
    let answer = remote.get(&format!("{PROVIDERS}/{name}")).await;
    let answer = answer.map_err(|error| hinted(error, NOT_FOUND, "`thuban sso list` lists the providers"))?;
    serde_json::from_value(answer["provider"].clone()).context("the answer of the node has no provider")
}

/// Replaces the next step of a refusal with this code.
fn hinted(error: anyhow::Error, code: u64, hint: &str) -> anyhow::Error {
    match error.downcast::<Refused>() {
        Ok(refused) if refused.code == code => refused.with_hint(hint).into(),
        Ok(refused) => refused.into(),
        Err(error) => error,
    }
}

/// Returns the rows of the providers at which people can sign in.
pub(super) async fn providers(remote: &Remote) -> anyhow::Result<Vec<Value>> {
    let answer = remote.get(PROVIDERS).await?;
    Ok(answer["data"].as_array().cloned().unwrap_or_default())
}

fn only(providers: &[Value]) -> Result<String, Usage> {
    let names: Vec<_> = providers.iter().filter_map(|row| row["name"].as_str()).collect();
    match names.as_slice() {
        [] => Err(Usage("the cluster has no identity provider: log in with a password".to_owned())),
        [name] => Ok((*name).to_owned()),
        names => Err(Usage(format!("which identity provider? there are {}: --sso NAME names one", names.join(", ")))),
    }
}

/// Checks a name that goes into a path.
pub(super) fn checked_name(name: &str) -> Result<&str, Usage> {
    let is_part = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    if !name.is_empty() && name.chars().all(is_part) {
        return Ok(name);
    }
    Err(Usage(format!("{name:?} is no name of an identity provider: `thuban sso list` lists them")))
}

/// Signs in at the provider. Returns the tokens, and the nonce that the ID token has if there is one.
pub(super) async fn sign_in(
    provider: &IdentityProvider,
    flow: Flow,
    clock: &impl Clock,
    print: impl Fn(&str),
    open: impl FnOnce(&str),
) -> anyhow::Result<(ProviderTokens, Option<String>)> {
    let name = &provider.name;
    match (flow, &provider.metadata.device_authorization, &provider.metadata.authorization) {
        (Flow::Any | Flow::Device, Some(_), _) => Ok((device::sign_in(provider, clock, print).await?, None)),
        (Flow::Any | Flow::Browser, _, Some(_)) => {
            let done = loopback::sign_in(provider, SIGN_IN_WITHIN, print, open).await?;
            Ok((done.tokens, Some(done.nonce)))
        }
        (Flow::Device, None, _) => {
            Err(Usage(format!("identity provider {name} offers no sign-in with a code: leave out --device")).into())
        }
        (Flow::Any | Flow::Browser, ..) => {
            Err(Usage(format!("identity provider {name} offers no sign-in by a browser")).into())
        }
    }
}

/// Exchanges the ID token for a token of the cluster. Returns it with the name of the person.
pub(super) async fn exchange(
    remote: &Remote,
    provider: &str,
    (tokens, nonce): (ProviderTokens, Option<String>),
) -> anyhow::Result<(String, String)> {
    let mut body = json!({ "id_token": tokens.id_token });
    for (member, value) in [("nonce", nonce), ("access_token", tokens.access_token)] {
        if let Some(value) = value {
            body[member] = json!(value);
        }
    }
    let answer = remote.call(Method::POST, &format!("{PROVIDERS}/{provider}/login"), Some(&body)).await;
    // The token that is refused is the provider's.
    let hint = format!("an administrator finds the reason with `thuban sso test {provider}`");
    let answer = answer.map_err(|error| hinted(error, TOKEN_ENDED, &hint))?;
    let login = &answer["loginResponse"];
    let token = login["token"].as_str().context("no token in the answer")?;
    Ok((token.to_owned(), login["name"].as_str().unwrap_or(provider).to_owned()))
}

/// Returns the words for the end of a login; none if the node does not say it.
async fn until(remote: &Remote) -> String {
    let answer = remote.get("/auth/v1/user").await.unwrap_or_default();
    let until = answer["user"]["until"].as_str().filter(|until| !until.is_empty());
    until.map(|until| format!(", until {until} (UTC)")).unwrap_or_default()
}
