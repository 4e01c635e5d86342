//! `thuban release --plan` and `thuban rollout`: gray releases whose share grows by steps.

use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::errors::Differences;
use super::find::{OneArgs, release_name, releases_path};
use super::kinds::placed;
use super::releases::{GrayArgs, One, read};
use super::tables::OutputFormat;
use super::telling::say;
use super::under_way::{self, UnderWayArgs, progress};

/// Interval at which `rollout status --watch` polls.
const LOOK: Duration = Duration::from_secs(1);
/// Width of the progress bar, in characters.
const BAR_WIDTH: u64 = 20;

#[derive(Subcommand)]
pub(super) enum RolloutCommand {
    /// List what is half-way out: canaries, rollouts, and releases that wait for approval or for the end of a freeze
    List(UnderWayArgs),
    /// Show the newest rollout of a rule or a config file
    Status(StatusArgs),
    /// Hold the share as it is
    Pause(SteerArgs),
    /// Continue; the timer of the step starts over
    Resume(SteerArgs),
    /// Take the next step now; the last one promotes
    Advance(SteerArgs),
    /// Stop the rollout: its clients get the normal release again
    Stop(SteerArgs),
    /// Report success or failure to a rollout with the guard `signal`
    Signal(SignalArgs),
}

#[derive(Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Follow the rollout to its end; exit code 1 if it is stopped
    #[arg(short, long)]
    watch: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Args)]
pub(super) struct SteerArgs {
    #[command(flatten)]
    gray: GrayArgs,
    /// Comment for the history
    #[arg(long)]
    comment: Option<String>,
}

#[derive(Args)]
pub(super) struct SignalArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Name of the gray release [default: the only active one]
    #[arg(long, value_name = "RELEASE")]
    gray: Option<String>,
    /// Report failure, which stops the rollout [default: report success]
    #[arg(long)]
    failed: bool,
    /// Reason for the history
    #[arg(long)]
    reason: Option<String>,
}

pub(super) async fn run(command: RolloutCommand) -> anyhow::Result<()> {
    let (SteerArgs { gray: args, comment }, action) = match command {
        RolloutCommand::List(args) => return under_way::list(&args).await,
        RolloutCommand::Status(args) => return status(&args).await,
        RolloutCommand::Signal(args) => return signal(args).await,
        RolloutCommand::Pause(args) => (args, "pause"),
        RolloutCommand::Resume(args) => (args, "resume"),
        RolloutCommand::Advance(args) => (args, "advance"),
        RolloutCommand::Stop(args) => (args, "stop"),
    };
    let mut more = json!({ "action": action });
    if let Some(comment) = comment {
        more["comment"] = comment.into();
    }
    let one = read(&args.one)?;
    let gray = one.gray(args.gray).await?;
    let answer = one.send("rollout", &gray, &args.approval_options, more).await?;
    tell(&one, action, &answer)
}

fn tell(one: &One, action: &str, answer: &Value) -> anyhow::Result<()> {
    match after(action, answer) {
        Some(line) => say(&format!("{}: {line}", placed(one.kind, &one.key))),
        None => drop(one.tell(answer)?),
    }
    Ok(())
}

/// Formats what an action on a rollout did, and the state after it. `None` for an answer without a release, such as one
/// that the action awaits approval.
fn after(action: &str, answer: &Value) -> Option<String> {
    let item = &answer["responses"][0];
    let release = [&item["ruleRelease"], &item["configFileRelease"]].into_iter().find(|one| one.is_object())?;
    if item["request"].is_object() {
        return None;
    }
    let named = format!("{}, version {}", release_name(release), release["version"]);
    let rollout = &release["rollout"];
    if !rollout.is_object() {
        return (action == "advance").then(|| format!("promoted, all clients get {named}"));
    }
    let done = match action {
        "pause" => "the rollout is paused",
        "resume" => "the rollout goes on",
        "advance" => "the next step is taken",
        "signal" => "the signal is recorded",
        _ => return Some(format!("the rollout is stopped, clients of {named} get the normal release again")),
    };
    let clients = under_way::clients_of(release).map(|clients| format!("; for {clients}")).unwrap_or_default();
    Some(format!("{done}: {named}, {}{clients}", progress(rollout)))
}

async fn signal(args: SignalArgs) -> anyhow::Result<()> {
    let one = read(&args.one)?;
    let gray = one.gray(args.gray).await?;
    let mut item: Map<String, Value> = one.named();
    item.insert("release_name".to_owned(), json!(gray));
    item.insert("ok".to_owned(), json!(!args.failed));
    item.extend(args.reason.map(|reason| ("reason".to_owned(), Value::from(reason))));
    let path = format!("{}/signal?unknown=refuse", releases_path(one.kind));
    let answer = one.call(Method::POST, &path, &json!([item])).await?;
    tell(&one, "signal", &answer)
}

/// Returns the most recently published release with a plan.
async fn newest(one: &One) -> anyhow::Result<Value> {
    let found = one
        .releases()
        .await?
        .into_iter()
        .filter(|row| row["rollout"].is_object())
        .max_by_key(|row| row["version"].as_u64());
    match found {
        Some(release) => Ok(release),
        None => Err(one.lacking("rollout").await),
    }
}

async fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let one = read(&args.one)?;
    let what = placed(one.kind, &one.key);
    let is_bar = args.watch && stdout().is_terminal();
    let mut told = String::new();
    loop {
        let release = newest(&one).await?;
        let rollout = &release["rollout"];
        let line = format!("{what}: {} {}", release_name(&release), course(rollout));
        if args.output == OutputFormat::Json {
            say(&serde_json::to_string_pretty(rollout)?);
        } else if is_bar {
            write!(stdout(), "\r\u{1b}[K{line}")?;
            stdout().flush()?;
        } else if line != told {
            say(&line);
        }
        told = line;
        let is_over = rollout["state"] == "done" || rollout["state"] == "stopped";
        if !args.watch || is_over {
            if is_bar {
                writeln!(stdout())?;
            }
            let is_stopped = args.watch && rollout["state"] == "stopped";
            return if is_stopped { Err(stopped(&what).into()) } else { Ok(()) };
        }
        sleep(LOOK).await;
    }
}

fn stopped(what: &str) -> Differences {
    Differences(format!("{what}: the rollout is stopped, its clients have the normal release"))
}

/// Formats the bar, step and state of a rollout.
fn course(rollout: &Value) -> String {
    let percent = rollout["percent"].as_u64().unwrap_or_default().min(100);
    let full = (percent * BAR_WIDTH / 100) as usize;
    let bar = format!("[{}{}]", "#".repeat(full), ".".repeat(BAR_WIDTH as usize - full));
    format!("{bar} {}", progress(rollout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_names_what_it_did_and_the_state_after_it() {
        let answer = |state: &str, next_at: Option<&str>| {
            let rollout =
                json!({ "step": 2, "percent": 25, "state": state, "next_at": next_at, "steps": [{}, {}, {}] });
            let share = json!({ "by": "CLIENT_IP", "percent": 25 });
            let label = json!({ "key": "zone", "value": { "type": "EXACT", "value": "a" } });
            json!({ "responses": [{ "ruleRelease": { "release_name": "steps", "version": 7, "release_type": "gray",
                "client_labels": [label], "client_percent": share, "rollout": rollout } }] })
        };
        let at = Some("2026-11-26 10:00:00");
        for (action, state, next_at, expected) in [
            (
                "advance",
                "running",
                at,
                "the next step is taken: steps, version 7, 25 %, step 2 of 3, running, next step at 2026-11-26 \
                 10:00:00 UTC; for zone=a, 25 % by CLIENT_IP",
            ),
            (
                "pause",
                "paused",
                None,
                "the rollout is paused: steps, version 7, 25 %, step 2 of 3, paused; for zone=a, 25 % by CLIENT_IP",
            ),
            (
                "resume",
                "running",
                at,
                "the rollout goes on: steps, version 7, 25 %, step 2 of 3, running, next step at 2026-11-26 10:00:00 \
                 UTC; for zone=a, 25 % by CLIENT_IP",
            ),
            (
                "stop",
                "stopped",
                None,
                "the rollout is stopped, clients of steps, version 7 get the normal release again",
            ),
        ] {
            assert_eq!(after(action, &answer(state, next_at)).as_deref(), Some(expected));
        }
        let promoted = json!({ "responses": [{ "configFileRelease": { "name": "v8", "version": 8 } }] });
        assert_eq!(after("advance", &promoted).as_deref(), Some("promoted, all clients get v8, version 8"));
        let asked = json!({ "responses": [{ "request": { "id": "0" }, "ruleRelease": {} }] });
        assert_eq!(after("advance", &asked), None);
    }

    #[test]
    fn a_course_is_one_line() {
        let running = json!({"step": 1, "percent": 5, "state": "running", "next_at": "2026-11-26 10:00:00",
            "steps": [{}, {}]});
        let line = "[#...................] 5 %, step 1 of 2, running, next step at 2026-11-26 10:00:00 UTC";
        assert_eq!(course(&running), line);
        let stopped = json!({"step": 1, "percent": 0, "state": "stopped", "reason": "refused: 20 %", "steps": [{}]});
        assert_eq!(course(&stopped), "[....................] 0 %, step 1 of 1, stopped: refused: 20 %");
    }
}
