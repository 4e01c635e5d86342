//! Sign-ins at a strict provider, by each flow and by whole commands.

mod strict;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::super::ClientCommand;
use super::super::errors::Usage;
use super::device;
use super::fault::SignInFault;
use super::loopback;
use super::provider::{IdentityProvider, ProviderTokens, PublicHalf};
use super::sign_in::{Flow, choose, exchange, sign_in, unless_interrupted};
use crate::remote::Remote;
use strict::{Manner, StrictProvider};

fn fault(error: anyhow::Error) -> String {
    match error.downcast::<SignInFault>() {
        Ok(SignInFault::Silent { why, .. }) => format!("silent: {why}"),
        Ok(SignInFault::Refused { why, .. }) => format!("refused: {why}"),
        Ok(SignInFault::TooLate { .. }) => "too late".to_owned(),
        Ok(SignInFault::Interrupted) => "interrupted".to_owned(),
        Err(error) => format!("{error:#}"),
    }
}

/// Cases: manner of the provider, the moments of all requests for the tokens, the end.
#[tokio::test]
async fn a_device_is_as_patient_as_the_provider_asks() {
    let manner = |change: fn(&mut Manner)| {
        let mut manner = Manner::default();
        change(&mut manner);
        manner
    };
    type Case = (&'static str, Manner, &'static [u64], Result<(), &'static str>);
    let cases: [Case; 10] = [
        ("at once", Manner::default(), &[5], Ok(())),
        ("later", manner(|m| m.signed_in_at = 12), &[5, 10, 15], Ok(())),
        ("no interval", manner(|m| (m.interval, m.signed_in_at) = (None, 7)), &[5, 10], Ok(())),
        ("an interval of nothing", manner(|m| (m.interval, m.interval_held) = (Some(0), 1)), &[1], Ok(())),
        ("slow_down for good", manner(|m| (m.busy, m.signed_in_at) = (2, 35)), &[5, 15, 30, 45], Ok(())),
        ("away for a moment", manner(|m| (m.away, m.signed_in_at) = (1, 16)), &[5, 15, 25], Ok(())),
        ("nobody", manner(|m| (m.life, m.signed_in_at) = (Some(17), 100)), &[5, 10, 15], Err("too late")),
        ("expired there", manner(|m| (m.life_held, m.signed_in_at) = (12, 100)), &[5, 10, 15], Err("too late")),
        ("denied", manner(|m| m.is_denied = true), &[5], Err("refused: access_denied: of the provider")),
        ("away for good", manner(|m| (m.life, m.away) = (Some(40), 9)), &[5, 15, 30], Err("silent: ")),
    ];
    for (case, manner, polls, expected) in cases {
        let strict = StrictProvider::start(manner).await;
        let provider = strict.discovered().await.expect(case);
        let ended = device::sign_in(&provider, &strict, |_| ()).await;
        let seen = strict.seen();
        assert_eq!(seen.polls, polls, "{case}");
        match (ended, expected) {
            (Ok(tokens), Ok(())) => assert_eq!(tokens.id_token, "header.1.signature", "{case}"),
            (Err(error), Err(expected)) => {
                let why = fault(error.into());
                assert!(why.starts_with(expected), "{case}: {why}");
            }
            (ended, _) => panic!("{case}: {:?}", ended.map(|_| ())),
        }
    }
}

#[tokio::test]
async fn the_address_and_the_code_are_printed() {
    for has_complete in [true, false] {
        let strict = StrictProvider::start(Manner { has_complete, ..Manner::default() }).await;
        let provider = strict.discovered().await.expect("known");
        let lines = Mutex::new(Vec::new());
        let print = |line: &str| lines.lock().expect("no panic").push(line.to_owned());
        let (flow, no_browser) = (Flow::Any, |_: &str| panic!("no browser is opened"));
        sign_in(&provider, flow, &strict, print, no_browser).await.expect("signed in");
        let lines = lines.into_inner().expect("no panic").join("\n");
        let page = format!("{}/enter", strict.address());
        let complete = format!("  {page}?code=WDJB-MJHT\nIt shows the code WDJB-MJHT\n");
        let expected = if has_complete { complete } else { format!("  {page}\nand enter the code WDJB-MJHT\n") };
        assert!(lines.contains(&expected) && lines.contains("at most 10 minutes"), "{lines}");
    }
}

/// Follows the address of a sign-in as a browser does: at the end it is at the listener of the command.
fn browse(address: &str, before: &'static [&'static str]) -> JoinHandle<Option<reqwest::StatusCode>> {
    let address = address.to_owned();
    thuban_tasks::errand(async move {
        let client = thuban_outbound::client(false, None).expect("a client").build().expect("a client");
        let sent_back = client.get(&address).send().await.ok()?;
        let location = sent_back.headers().get("location")?.to_str().ok()?.to_owned();
        let (own_address, _) = location.split_once('?')?;
        for strange in before {
            let answer = client.get(format!("{own_address}{strange}")).send().await.ok()?;
            assert_eq!(answer.status(), 404, "{strange}");
        }
        Some(client.get(&location).send().await.ok()?.status())
    })
}

#[tokio::test]
async fn a_browser_comes_back_with_a_code_that_is_exchanged_once() {
    let strict = StrictProvider::start(Manner { has_device: false, ..Manner::default() }).await;
    let provider = strict.discovered().await.expect("known");
    let browser = Mutex::new(None);
    let open = |address: &str| {
        // Requests of others, and of the browser itself, end nothing.
        let strange = &["", "?code=x", "?code=x&state=guess", "?error=access_denied", "/../favicon.ico"];
        *browser.lock().expect("no panic") = Some(browse(address, strange));
    };
    let signed_in = sign_in(&provider, Flow::Any, &strict, |_| (), open).await.expect("signed in");
    let browser = browser.into_inner().expect("no panic").expect("opened").await.expect("no panic");
    assert_eq!(browser.map(|status| status.as_u16()), Some(200));
    assert_eq!(signed_in.0.id_token, "header.1.signature");
    let remote = Remote::at(&strict.address(), None, http_client());
    assert!(signed_in.1.is_some(), "a nonce goes with the ID token");
    let (token, name) = exchange(&remote, "corp", signed_in).await.expect("exchanged");
    assert_eq!((token.as_str(), name.as_str()), (strict::TOKEN_OF_NODE, "corp:ann"));
    assert_eq!(strict.seen().logins.len(), 1);
    let of_another = ProviderTokens { id_token: "of another".to_owned(), access_token: None };
    let refused = exchange(&remote, "corp", (of_another, None)).await.expect_err("refused").to_string();
    assert!(refused.contains("`thuban sso test corp`") && refused.ends_with("(401004)"), "{refused}");
}

fn http_client() -> reqwest::Client {
    thuban_outbound::client(false, None).expect("a client").build().expect("a client")
}

#[tokio::test]
async fn a_browser_that_comes_back_with_something_else_is_refused() {
    for (redirect, names_itself, expected) in [
        (
            json!({ "code": null, "error": "access_denied", "error_description": "no" }),
            false,
            "refused: access_denied: no",
        ),
        (json!({ "iss": "http://127.0.0.1:1" }), false, "refused: its answer is of no use: `iss` of the callback is"),
        (json!({ "iss": null }), true, "refused: its answer is of no use: `iss` is missing in the callback"),
        (json!({ "code": null }), false, "refused: its answer is of no use: `code` is missing in the callback"),
        (json!({ "code": "of another" }), false, "refused: invalid_request: of the provider"),
        (json!({ "state": "of another" }), false, "too late"),
    ] {
        let discovery = json!({ "authorization_response_iss_parameter_supported": names_itself });
        let strict = StrictProvider::start(Manner { redirect: redirect.clone(), discovery, ..Manner::default() }).await;
        let provider = strict.discovered().await.expect("known");
        let open = |address: &str| drop(browse(address, &[]));
        let within = Duration::from_millis(if expected == "too late" { 300 } else { 60_000 });
        let ended = loopback::sign_in(&provider, within, |_| (), open).await;
        let why = fault(ended.err().expect("refused"));
        assert!(why.starts_with(expected), "{redirect}: {why}");
    }
    // Without the parameter, a provider that never promised it is believed by the state.
    let strict = StrictProvider::start(Manner { redirect: json!({ "iss": null }), ..Manner::default() }).await;
    let provider = strict.discovered().await.expect("known");
    let open = |address: &str| drop(browse(address, &[]));
    loopback::sign_in(&provider, Duration::from_secs(60), |_| (), open).await.expect("signed in");
}

#[tokio::test]
async fn a_provider_is_believed_about_itself_alone() {
    for (discovery, expected) in [
        (
            json!({ "issuer": "https://id.example.com" }),
            "`issuer` of the discovery document is \"https://id.example.com\"",
        ),
        (
            json!({ "token_endpoint": "http://10.0.0.1/token" }),
            "`token_endpoint` is \"http://10.0.0.1/token\": https is required",
        ),
        (json!({ "device_authorization_endpoint": "nowhere" }), "`device_authorization_endpoint` is \"nowhere\""),
        (json!({ "token_endpoint": 5 }), "the discovery document cannot be read"),
        (json!({ "more": "x".repeat(1024 * 1024) }), "longer than 1048576 bytes"),
    ] {
        let strict = StrictProvider::start(Manner { discovery, ..Manner::default() }).await;
        let why = fault(strict.discovered().await.err().expect("refused"));
        assert!(why.starts_with("silent: ") && why.contains(expected), "{why}");
    }
    for (moved, expected) in [
        ("/moved", None),
        ("http://localhost:1/moved", Some("redirects to another host, http://localhost:1")),
        ("/.well-known/openid-configuration", Some("redirects again and again")),
    ] {
        let strict = StrictProvider::start(Manner { moved: Some(moved), ..Manner::default() }).await;
        let why = strict.discovered().await.err().map(fault);
        let is_expected = expected.map_or(why.is_none(), |expected| {
            why.as_ref().is_some_and(|why| why.starts_with("silent: ") && why.contains(expected))
        });
        assert!(is_expected, "{moved}: {why:?}");
    }
    let strict = StrictProvider::start(Manner::default()).await;
    for client_id in [None, Some(String::new())] {
        let half = PublicHalf { client_id, ..strict.half() };
        let error = IdentityProvider::discover(&half, None).await.err().expect("refused");
        assert!(error.is::<Usage>() && error.to_string().contains("cli_client_id"), "{error}");
    }
    let nowhere = PublicHalf { issuer: "http://127.0.0.1:1".to_owned(), ..strict.half() };
    let why = fault(IdentityProvider::discover(&nowhere, None).await.err().expect("nobody there"));
    assert!(why.starts_with("silent: cannot connect"), "{why}");
    let scopes = PublicHalf { scopes: vec!["groups".to_owned()], ..strict.half() };
    assert_eq!(IdentityProvider::discover(&scopes, None).await.expect("known").scope, "openid groups");
}

#[tokio::test]
async fn a_flow_that_a_provider_lacks_is_wrong_usage() {
    for (discovery, has_device, flow, words) in [
        (json!({}), false, Flow::Device, "leave out --device"),
        (json!({ "authorization_endpoint": null }), true, Flow::Browser, "no sign-in by a browser"),
        (json!({ "authorization_endpoint": "" }), false, Flow::Any, "no sign-in by a browser"),
    ] {
        let strict = StrictProvider::start(Manner { discovery, has_device, ..Manner::default() }).await;
        let provider = strict.discovered().await.expect("known");
        let error = sign_in(&provider, flow, &strict, |_| (), |_| ()).await.map(|_| ()).expect_err("refused");
        assert!(error.is::<Usage>() && error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn ctrl_c_ends_a_sign_in() {
    let ended = unless_interrupted(std::future::pending::<anyhow::Result<()>>(), async {}).await;
    assert_eq!(fault(ended.expect_err("interrupted")), "interrupted");
}

#[tokio::test]
async fn a_provider_is_named_or_the_only_one() {
    let strict = StrictProvider::start(Manner::default()).await;
    let remote = Remote::at(&strict.address(), None, http_client());
    for name in ["", "corp"] {
        assert_eq!(choose(&remote, name).await.expect("there").name, "corp");
    }
    let unknown = choose(&remote, "lab").await.expect_err("unknown").to_string();
    assert!(unknown.contains("`thuban sso list`") && unknown.ends_with("(400202)"), "{unknown}");
    for name in ["../../admin", "Corp", "a b", "corp?x"] {
        assert!(choose(&remote, name).await.expect_err("no name").is::<Usage>(), "{name}");
    }
}

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: ClientCommand,
}

/// Runs a command as its process does.
async fn run(words: &[&str]) -> ExitCode {
    let line = Line::try_parse_from(std::iter::once(&"thuban").chain(words)).unwrap_or_else(|error| panic!("{error}"));
    thuban_tasks::blocking(move || crate::run(line.command)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_kept_in_the_context_until_the_logout() {
    let strict = StrictProvider::start(Manner { interval: Some(1), interval_held: 0, ..Manner::default() }).await;
    let folder = tempfile::tempdir().expect("a directory");
    let contexts = folder.path().join("contexts.json");
    let file = contexts.to_str().expect("a path").to_owned();
    let (endpoint, code) = (strict.address(), |code: u8| ExitCode::from(code));
    let saved = |path: &Path| -> Value {
        let text = std::fs::read_to_string(path).expect("written");
        serde_json::from_str::<Value>(&text).expect("JSON")["contexts"]["default"].clone()
    };
    let login = ["login", "--sso", "--endpoint", &endpoint, "--contexts-file", &file];
    assert_eq!(run(&login).await, code(0));
    let expected = json!({ "servers": [endpoint], "token": strict::TOKEN_OF_NODE, "sso": "corp" });
    assert_eq!(saved(&contexts), expected);
    assert_eq!(strict.seen().logins.len(), 1);

    let whoami = ["whoami", "--contexts-file", &file];
    assert_eq!(run(&whoami).await, code(0));
    assert_eq!(run(&["sso", "test", "corp", "--contexts-file", &file]).await, code(1));
    let token = folder.path().join("token");
    std::fs::write(&token, "a token of a pipeline\n").expect("written");
    let token = token.to_str().expect("a path");
    assert_eq!(run(&["sso", "test", "corp", "--token", token, "--contexts-file", &file]).await, code(0));
    assert_eq!(run(&["sso", "list", "--contexts-file", &file]).await, code(0));

    let logout = ["logout", "--contexts-file", &file];
    let elsewhere = ["logout", "--contexts-file", &file, "--endpoint", "http://127.0.0.1:1"];
    assert_eq!(run(&elsewhere).await, code(2), "the login goes to its own servers");
    assert_eq!(run(&logout).await, code(0));
    assert_eq!((strict.seen().logouts, saved(&contexts)), (1, json!({ "servers": [endpoint] })));
    assert_eq!(run(&whoami).await, code(2));
    assert_eq!(run(&logout).await, code(0), "there is nothing to end");
    assert_eq!(strict.seen().logouts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_has_ended_is_removed_and_one_that_may_live_stays() {
    let strict = StrictProvider::start(Manner::default()).await;
    let folder = tempfile::tempdir().expect("a directory");
    let contexts = folder.path().join("contexts.json");
    let file = contexts.to_str().expect("a path").to_owned();
    let token = folder.path().join("token");
    std::fs::write(&token, strict::TOKEN_OF_NODE).expect("written");
    let token = token.to_str().expect("a path");
    for (server, alive, ended) in [(strict.address(), true, 0), ("http://127.0.0.1:1".to_owned(), false, 4)] {
        let set = ["context", "set", "a", "--server", &server, "--token-file", token, "--contexts-file", &file];
        assert_eq!(run(&set).await, ExitCode::SUCCESS);
        if alive {
            strict.end_token_of_node();
        }
        let logout = ["logout", "--contexts-file", &file];
        assert_eq!(run(&logout).await, ExitCode::from(ended), "{server}");
        let text = std::fs::read_to_string(&contexts).expect("written");
        assert_eq!(text.contains(strict::TOKEN_OF_NODE), ended != 0, "{text}");
    }
}
