//! Sign-in by a browser on this machine (RFC 8252): the provider sends the browser back to a listener on 127.0.0.1 with
//! a code, which is exchanged for the tokens.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;

use super::fault::SignInFault;
use super::pkce::{CHALLENGE_METHOD, CodeVerifier, random_text};
use super::provider::{IdentityProvider, SignInTokens, printable};

const PATH: &str = "/callback";
/// Time in which the person has to sign in.
pub(super) const SIGN_IN_WITHIN: Duration = Duration::from_secs(300);
/// Limits for one connection. Browsers open some in advance that they may never use.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
const REQUEST_BYTES_MAX: usize = 32 * 1024;
const CONNECTIONS_MAX: usize = 16;

/// Tokens of a sign-in, and the nonce that its ID token has.
pub(super) struct LoopbackSignIn {
    pub(super) tokens: SignInTokens,
    pub(super) nonce: String,
}

/// Returns the tokens once the browser has come back. `print` shows a line, `open` opens an address in a browser.
pub(super) async fn sign_in(
    provider: &IdentityProvider,
    endpoint: &Url,
    within: Duration,
    print: impl Fn(&str),
    open: impl FnOnce(&str),
) -> anyhow::Result<LoopbackSignIn> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port of 127.0.0.1 is free")?;
    let own_address = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
    let (verifier, state, nonce) = (CodeVerifier::new(), random_text(), random_text());
    let mut address = endpoint.clone();
    address.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", &provider.client_id),
        ("redirect_uri", &own_address),
        ("scope", &provider.scope),
        ("state", &state),
        ("nonce", &nonce),
        ("code_challenge", &verifier.challenge()),
        ("code_challenge_method", CHALLENGE_METHOD),
    ]);
    print(&format!("To sign in at {}, open this address in a browser on this machine:", provider.name));
    print(&format!("  {address}"));
    print(&format!("Waiting for at most {} minutes; Ctrl-C gives up", within.as_secs().div_ceil(60)));
    open(address.as_str());
    let returned = timeout(within, callback(&listener, provider, &state)).await;
    let code = returned.map_err(|_| provider.too_late())??;
    let form = [
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", &own_address),
        ("code_verifier", verifier.secret()),
    ];
    let tokens = provider.tokens(&form).await.map_err(|unserved| provider.unserved(unserved))?;
    Ok(LoopbackSignIn { tokens, nonce })
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
    let value = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    if url.path() != PATH || value("state")? != state {
        return None;
    }
    let is_other = match value("iss") {
        Some(issuer) => issuer != provider.issuer,
        None => provider.names_itself,
    };
    if is_other {
        return Some(Err(
            provider.refused(format!("the browser came back from another issuer than {}", provider.issuer))
        ));
    }
    if let Some(error) = value("error") {
        let more = value("error_description").map(|more| format!(": {}", printable(&more))).unwrap_or_default();
        return Some(Err(provider.refused(format!("{}{more}", printable(&error)))));
    }
    let code = value("code").filter(|code| !code.is_empty());
    Some(code.ok_or_else(|| provider.refused("the browser came back without a code")))
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
