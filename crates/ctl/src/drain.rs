//! `thuban drain`: isolates an instance and waits until its clients have a list without it.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::find::InArgs;
use super::remote::{Remote, WITHIN};
use super::tables::text;
use super::telling::{say, say_error};
use super::xds::fleet::printable;

/// Pause between two calls after the connection to a node broke.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Subcommand)]
pub(super) enum DrainCommand {
    /// Isolate an instance; exit code 0 once every client has a list without it, 1 if some have not in time
    #[command(alias = "instances")]
    Instance(InstanceArgs),
}

#[derive(Args)]
pub(super) struct InstanceArgs {
    /// Address of the instance
    #[arg(value_name = "HOST:PORT", value_parser = read_address)]
    address: (String, u16),
    /// Service of the instance
    #[arg(short, long)]
    service: String,
    #[command(flatten)]
    at: InArgs,
    /// Maximum wait for the clients, at most 60s
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = read_time)]
    wait: Duration,
}

pub(super) fn read_address(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or("HOST:PORT is needed")?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port > 0).ok_or("the port has to be a number from 1 to 65535")?;
    if host.is_empty() { Err("HOST:PORT is needed".to_owned()) } else { Ok((host.to_owned(), port)) }
}

/// Parses `500ms`, `30s` or `1m`; a number alone is in seconds.
pub(super) fn read_time(text: &str) -> Result<Duration, String> {
    let at = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let ms = match unit {
        "ms" => 1,
        "s" | "" => 1000,
        "m" => 60_000,
        _ => 0,
    };
    let time = number.parse::<u64>().ok().and_then(|number| number.checked_mul(ms)).filter(|_| ms > 0);
    time.map(Duration::from_millis).ok_or_else(|| "a time such as 30s or 500ms is needed".to_owned())
}

pub(super) async fn run(command: DrainCommand) -> anyhow::Result<()> {
    let DrainCommand::Instance(args) = command;
    let (remote, namespace) = args.at.remote()?;
    let (host, port) = &args.address;
    let ask = |left: Duration| {
        json!({ "namespace": namespace, "service": args.service, "host": host, "port": port,
                "wait_ms": u64::try_from(left.as_millis()).unwrap_or(u64::MAX) })
    };
    let answer = drained(&remote, args.wait, ask).await?;
    for client in rows(&answer, "unheard") {
        say(&waits(client));
    }
    for node in rows(&answer, "silent_nodes") {
        say_error(&format!("node {node} could not be asked: its clients are missing"));
    }
    let (host, port) = args.address;
    let known = ending(&answer).with_context(|| format!("{host}:{port}"))?;
    say(&format!("{host}:{port} is isolated, {known}"));
    Ok(())
}

fn rows<'a>(answer: &'a Value, field: &str) -> &'a [Value] {
    answer[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns a sentence on the clients that have the new list; an error unless all of them have it.
fn ending(answer: &Value) -> anyhow::Result<String> {
    let (heard, unheard) = (text(&answer["heard"]), rows(answer, "unheard").len());
    let silent = match rows(answer, "silent_nodes").len() {
        0 => String::new(),
        1 => ", and 1 node could not be asked".to_owned(),
        count => format!(", and {count} nodes could not be asked"),
    };
    match (unheard, silent.as_str()) {
        (0, "") => Ok(format!("and all of {heard} clients know")),
        (0, silent) => bail!("it is isolated, {heard} clients know{silent}"),
        (unheard, silent) => bail!("it is isolated, {heard} clients know, {unheard} do not yet{silent}"),
    }
}

/// Describes a client that has not received a list without the instance.
fn waits(client: &Value) -> String {
    let part = |field: &str| printable(&text(&client[field]));
    format!("{} {} has its list since {}", part("address"), part("agent"), part("since"))
}

/// Repeats the request until it is answered: a drain may be requested again from another node if one dies.
async fn drained(remote: &Remote, wait: Duration, ask: impl Fn(Duration) -> Value) -> anyhow::Result<Value> {
    let until = Instant::now() + wait;
    let client = remote.builder()?.connect_timeout(WITHIN).timeout(wait + WITHIN).build()?;
    loop {
        let body = ask(until.saturating_duration_since(Instant::now()));
        let fill = |request: RequestBuilder| request.json(&body);
        match remote.ask(&client, (Method::POST, "/naming/v1/instances/drain"), fill).await {
            Ok(answer) => {
                let answer: Value = answer.json().await.context("the answer is not of a thuban node")?;
                let is_leaderless = answer["code"].as_u64().is_some_and(|code| code / 1000 == 503);
                if !is_leaderless || Instant::now() + PAUSE >= until {
                    return remote.judged(answer);
                }
            }
            Err(error) if Instant::now() + PAUSE >= until => return Err(error),
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_times_are_read() {
        assert_eq!(read_address("10.0.0.1:80"), Ok(("10.0.0.1".to_owned(), 80)));
        assert_eq!(read_address("[::1]:80"), Ok(("::1".to_owned(), 80)));
        for bad in ["", "a", ":80", "a:", "a:0", "a:65536", "a:x"] {
            assert!(read_address(bad).is_err(), "{bad}");
        }
        for (text, ms) in [("30s", 30_000), ("500ms", 500), ("1m", 60_000), ("7", 7_000), ("0", 0)] {
            assert_eq!(read_time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "s", "1h", "-1s", "1.5s", "99999999999999999999s"] {
            assert!(read_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn all_is_said_of_all_alone() {
        let told = |unheard: usize, silent: usize| {
            let (unheard, silent) = (vec![json!({}); unheard], vec![2; silent]);
            ending(&json!({ "heard": 3, "unheard": unheard, "silent_nodes": silent }))
                .map_err(|error| error.to_string())
        };
        assert_eq!(told(0, 0), Ok("and all of 3 clients know".to_owned()));
        for (unheard, silent, words) in
            [(1, 0, "1 do not yet"), (0, 1, "1 node could not"), (2, 2, "2 nodes could not")]
        {
            assert!(told(unheard, silent).expect_err("not all").contains(words), "{unheard} {silent}");
        }
    }

    #[test]
    fn clients_that_do_not_know_are_named() {
        let client = json!({ "address": "10.0.0.1", "agent": "a\u{1b}b", "since": "2026-01-01 00:00:00" });
        assert_eq!(waits(&client), "10.0.0.1 a b has its list since 2026-01-01 00:00:00");
    }
}
