//! Sign-in by a browser on this machine (RFC 8252): the provider sends the browser back to a listener on 127.0.0.1 with
//! a code, which is exchanged for the tokens.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use thuban_oidc::{AuthorizationRequest, CodeVerifier, authorization_address, code_form, read_callback, read_tokens};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;

use super::fault::SignInFault;
use super::provider::{IdentityProvider, ProviderTokens};

const PATH: &str = "/callback";
/// Time in which the person has to sign in.
pub(super) const SIGN_IN_WITHIN: Duration = Duration::from_secs(300);
/// Limits for one connection. Browsers open some in advance that they may never use.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
const REQUEST_BYTES_MAX: usize = 32 * 1024;
const CONNECTIONS_MAX: usize = 16;

/// Tokens of a sign-in, and the nonce that its ID token has.
pub(super) struct LoopbackSignIn {
    pub(super) tokens: ProviderTokens,
    pub(super) nonce: String,
}

/// Returns the tokens once the browser has come back. `print` shows a line, `open` opens an address in a browser.
pub(super) async fn sign_in(
    provider: &IdentityProvider,
    within: Duration,
    print: impl Fn(&str),
    open: impl FnOnce(&str),
) -> anyhow::Result<LoopbackSignIn> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port of 127.0.0.1 is free")?;
    let redirect_uri = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
    let (verifier, state, nonce) = (CodeVerifier::new(&rand::random()), random_text(), random_text());
    let (metadata, account) = (&provider.metadata, provider.account());
    let unusable = |fault| provider.unusable(&fault);
    let request = AuthorizationRequest {
        client_id: account.client_id,
        redirect_uri: &redirect_uri,
        scope: &provider.scope,
        state: &state,
        nonce: &nonce,
        challenge: &verifier.challenge(),
    };
    let address = authorization_address(metadata, &request).map_err(unusable)?;
    print(&format!("To sign in at {}, open this address in a browser on this machine:", provider.name));
    print(&format!("  {address}"));
    print(&format!("Waiting for at most {} minutes; Ctrl-C gives up", within.as_secs().div_ceil(60)));
    open(address.as_str());
    let returned = timeout(within, callback(&listener, provider, &state)).await;
    let code = returned.map_err(|_| provider.too_late())??;
    let form = code_form(metadata, account, &code, &verifier, &redirect_uri).map_err(unusable)?;
    let (status, body) = provider.send(form).await.map_err(|why| provider.silent(why))?;
    let tokens = read_tokens(status, &body).map_err(unusable)?.map_err(|refusal| provider.refusal(&refusal))?;
    Ok(LoopbackSignIn { tokens: provider.issued(tokens)?, nonce })
}

/// Returns 128 random bits as text.
fn random_text() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Waits until the provider has sent the browser back; returns the code. Other requests are answered with an error and
/// end nothing: pages of others may send some, and browsers ask for icons.
async fn callback(listener: &TcpListener, provider: &IdentityProvider, state: &str) -> anyhow::Result<String> {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                let stream = accepted.context("the listener for the browser has failed")?.0;
                connections.push(timeout(REQUEST_WITHIN, serve(stream, provider, state)));
            }
            ended = connections.next(), if !connections.is_empty() => {
                if let Some(Ok(Some(returned))) = ended {
                    return Ok(returned?);
                }
            }
        }
    }
}

/// Answers the request of one connection. Returns the code or the refusal if the provider has sent it.
async fn serve(mut stream: TcpStream, provider: &IdentityProvider, state: &str) -> Option<Result<String, SignInFault>> {
    let target = read_target(&mut stream).await?;
    let returned = returned_code(provider, state, &target);
    let (status, text) = match &returned {
        Some(Ok(_)) => ("200 OK", "You can close this window: the sign-in goes on in the terminal."),
        Some(Err(_)) => ("400 Bad Request", "The sign-in failed, the terminal says why. You can close this window."),
        None => ("404 Not Found", "There is nothing here."),
    };
    let page = format!("<!DOCTYPE html><html><head><title>Thuban</title></head><body><p>{text}</p></body></html>\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: \
         no-store\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\nConnection: \
         close\r\n\r\n{page}",
        page.len()
    );
    // The code is here, whatever the browser shows.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    returned
}

/// Reads the head of a request; returns the target of a GET.
async fn read_target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut part = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut part).await.ok()?;
        if read == 0 || head.len() + read > REQUEST_BYTES_MAX {
            return None;
        }
        head.extend_from_slice(&part[..read]);
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    (words.next()? == "GET").then(|| words.next().map(str::to_owned))?
}

/// Returns the code or the refusal in the target of a request; `None` if the request is not of this sign-in.
fn returned_code(provider: &IdentityProvider, state: &str, target: &str) -> Option<Result<String, SignInFault>> {
    let url = Url::parse("http://127.0.0.1").ok()?.join(target).ok()?;
    let is_own = url.query_pairs().any(|(name, value)| name == "state" && value == state);
    if url.path() != PATH || !is_own {
        return None;
    }
    let metadata = &provider.metadata;
    let callback = read_callback(url.query().unwrap_or_default(), &metadata.issuer, metadata.sends_issuer);
    Some(match callback {
        Ok(callback) => callback.code.map_err(|refusal| provider.refusal(&refusal)),
        Err(fault) => Err(provider.unusable(&fault)),
    })
}

/// Opens an address in the browser of this desktop, if there is one. The address is on the terminal as well.
pub(super) fn open_browser(address: &str) {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if program == "xdg-open" && !["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"].into_iter().any(is_set) {
        return;
    }
    let mut command = Command::new(program);
    let _ = command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
