//! `thuban cluster time` and `confirm-time`: the time of the cluster with the members' clocks.

use anyhow::Context;
use clap::{Args, ValueEnum};
use reqwest::Method;
use serde_json::{Value, json};

use super::remote::{CallArgs, call};
use super::telling::say;

const PATH: &str = "/admin/v1/cluster/time";

#[derive(Args)]
pub(super) struct ConfirmTimeArgs {
    #[command(flatten)]
    call: CallArgs,
    /// The correct time
    #[arg(long)]
    to: RightTime,
}

#[derive(Clone, Copy, ValueEnum)]
enum RightTime {
    /// The cluster's present time
    Present,
    /// The time of most members' clocks: sets the cluster's time to it, also back
    Clocks,
}

pub(super) async fn show(to: &CallArgs) -> anyhow::Result<()> {
    tell(&call(to, Method::GET, PATH, None).await?)
}

pub(super) async fn confirm(args: &ConfirmTimeArgs) -> anyhow::Result<()> {
    let time = match args.to {
        RightTime::Present => "present",
        RightTime::Clocks => "clocks",
    };
    let body = json!({ "time": time });
    tell(&call(&args.call, Method::POST, &format!("{PATH}/confirm"), Some(&body)).await?)
}

fn tell(answer: &Value) -> anyhow::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    say(&format!("{:<16} {}", "time", text(&answer["time"])));
    say(&format!("{:<16} {}", "sure time", text(&answer["sure_time"])));
    let most = match (&answer["most_clocks"], &answer["clocks_agree"]) {
        (Value::String(shown), _) => shown.clone(),
        (_, Value::Bool(true)) => "agree with the time".to_owned(),
        _ => "differ, or are not known".to_owned(),
    };
    say(&format!("{:<16} {most}", "most clocks"));
    let doubt = &answer["doubt"];
    if doubt.is_null() {
        say(&format!("{:<16} none", "doubt"));
    } else {
        let end = match doubt["ends_by_itself"].as_bool() {
            Some(true) => "ends once most clocks have agreed with the time for ten minutes",
            _ => "waits for `thuban cluster confirm-time`",
        };
        say(&format!("{:<16} since {}: {}; {end}", "doubt", text(&doubt["since"]), text(&doubt["reason"])));
        let waits = answer["waits"].as_object().context("the answer does not say what waits")?;
        let waits: Vec<_> = waits.iter().map(|(what, count)| format!("{} {count}", what.replace('_', " "))).collect();
        say(&format!("{:<16} {}", "waits", waits.join(", ")));
    }
    for member in answer["members"].as_array().into_iter().flatten() {
        let off =
            member["difference_ms"].as_i64().map_or_else(String::new, |ms| format!("{:+.1} s", ms as f64 / 1000.0));
        say(&format!("{:<16} {:<20} {off}", format!("node {}", member["id"]), text(&member["clock"])));
    }
    Ok(())
}
