//! `thuban xds clients` and `thuban xds dump`: connected xDS clients, and the resources sent to each.

use clap::Args;
use serde_json::Value;
use thuban_model::limits;
use url::form_urlencoded;

use super::super::remote::{CallArgs, Paging};
use super::super::tables::{Column, OutputFormat, short, table, text, words};
use super::super::telling::say;

/// Default of the maximum number of clients shown.
const SHOWN_DEFAULT: usize = 100;

#[derive(Args)]
pub(crate) struct ClientsArgs {
    #[command(flatten)]
    call: CallArgs,
    /// Maximum number of clients
    #[arg(long, default_value_t = SHOWN_DEFAULT)]
    limit: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Args)]
pub(crate) struct DumpArgs {
    /// Identity of the client, as `thuban xds clients` shows it
    node_id: String,
    #[command(flatten)]
    call: CallArgs,
    /// Output format: json includes the messages themselves
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Json)]
    output: OutputFormat,
}

const CLIENTS: &[Column] = &[
    ("node id", |row| short(&text(&row["node_id"]))),
    ("address", |row| text(&row["address"])),
    ("agent", |row| short(&text(&row["agent"]))),
    ("since (UTC)", |row| text(&row["since"])),
    ("node", |row| text(&row["node"])),
    ("subscribes to", |row| words(&row["subscriptions"])),
    ("has", |row| counts(&row["has"])),
    ("applied", |row| applied(row)),
];

const RESOURCES: &[Column] = &[
    ("type", |row| text(&row["type"])),
    ("name", |row| short(&text(&row["name"]))),
    ("version", |row| text(&row["version"])),
    ("made from", |row| short(&releases(&row["releases"]))),
    ("applied", |row| applied(row)),
];

/// Returns the client's own report on its release.
pub(crate) fn applied(row: &Value) -> String {
    row["applied"].as_str().unwrap_or("-").to_owned()
}

/// Formats counts: `cds 3/4` if one of four is not acknowledged.
fn counts(has: &Value) -> String {
    let count = |one: &Value| match one["acknowledged"] == one["sent"] {
        true => format!("{} {}", text(&one["type"]), text(&one["sent"])),
        false => format!("{} {}/{}", text(&one["type"]), text(&one["acknowledged"]), text(&one["sent"])),
    };
    let counts: Vec<_> = has.as_array().into_iter().flatten().map(count).collect();
    if counts.is_empty() { "-".to_owned() } else { counts.join(", ") }
}

fn releases(releases: &Value) -> String {
    let name = |one: &Value| {
        let part = |key: &str| text(&one[key]);
        format!("{}/{} {} v{}", part("kind"), part("rule_name"), part("release_name"), part("version"))
    };
    let names: Vec<_> = releases.as_array().into_iter().flatten().map(name).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

/// Formats the reasons of NACKs, one line each.
fn reasons(row: &Value) -> Vec<String> {
    let refused = row["has"].as_array().into_iter().flatten().filter(|one| one["message"].is_string());
    let line = |one: &Value| {
        let (kind, names) = (text(&one["type"]), words(&one["refused"]));
        format!("{} refused {kind} {names}: {}", text(&row["node_id"]), printable(&text(&one["message"])))
    };
    refused.map(line).collect()
}

/// Returns a client's text on one line, without control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

fn silent(answer: &Value) {
    for node in answer["silent_nodes"].as_array().into_iter().flatten() {
        say(&format!("node {node} could not be asked: its clients are missing"));
    }
}

pub(super) async fn clients(args: ClientsArgs) -> anyhow::Result<()> {
    let path = |paging: &Paging| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        paging.ask(&mut query);
        format!("/admin/v1/xds/clients?{}", query.finish())
    };
    let bounds = (limits::PAGE_ROWS_MAX, args.limit);
    let (all, last) = args.call.remote()?.pages("data", bounds, path).await?;
    if args.output == OutputFormat::Json {
        let mut answer = last;
        answer["data"] = all.into();
        say(&serde_json::to_string_pretty(&answer)?);
        return Ok(());
    }
    table(&all, CLIENTS).iter().for_each(|line| say(line));
    all.iter().flat_map(reasons).for_each(|line| say(&line));
    say(&format!("{} streams of xDS clients", text(&last["amount"])));
    silent(&last);
    Ok(())
}

pub(super) async fn dump(args: DumpArgs) -> anyhow::Result<()> {
    let path = |paging: &Paging| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("node_id", &args.node_id);
        paging.ask(&mut query);
        format!("/admin/v1/xds/dump?{}", query.finish())
    };
    let bounds = (limits::PAGE_ROWS_MAX, usize::MAX);
    let (all, last) = args.call.remote()?.pages("data", bounds, path).await?;
    if args.output == OutputFormat::Json {
        say(&serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    table(&all, RESOURCES).iter().for_each(|line| say(line));
    if let Some(left_out) = last["left_out"].as_u64() {
        say(&format!("{left_out} more do not fit into an answer"));
    }
    silent(&last);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_say_what_is_missing() {
        let has = json!([
            { "type": "cds", "sent": 4, "acknowledged": 4 },
            { "type": "rds", "sent": 2, "acknowledged": 1 },
        ]);
        assert_eq!(counts(&has), "cds 4, rds 1/2");
        assert_eq!(counts(&json!([])), "-");
    }

    #[test]
    fn reasons_name_what_was_refused() {
        let has = json!([
            { "type": "cds", "sent": 1 },
            { "type": "rds", "refused": ["a", "b"], "message": "bad\n\u{1b}[31mregex" },
        ]);
        let row = json!({ "node_id": "n1", "has": has });
        assert_eq!(reasons(&row), ["n1 refused rds a b: bad  [31mregex"]);
    }

    #[test]
    fn resources_say_what_they_were_made_from() {
        let release = json!({ "kind": "routing", "rule_name": "r", "release_name": "first", "version": 3 });
        let row = json!({ "type": "rds", "name": "a/s", "version": "1-0", "releases": [release], "applied": "yes" });
        let lines = table(&[row], RESOURCES);
        assert!(lines[1].contains("routing/r first v3") && lines[1].ends_with("yes"), "{lines:?}");
    }
}
