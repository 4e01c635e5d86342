//! `thuban who`: the release of a rule or config file that each client has, or everything that one client has.

use clap::Args;
use serde_json::Value;
use thuban_model::limits;
use url::form_urlencoded;

use super::find::{InArgs, or_absent, read_name};
use super::kinds::{Nature, placed};
use super::releases;
use super::remote::{Paging, Remote};
use super::tables::{Column, OutputFormat, short, table, text};
use super::telling::say;
use super::xds::fleet::{applied, printable};

/// Default of the maximum number of clients shown.
const SHOWN_DEFAULT: usize = 100;

#[derive(Args)]
pub(super) struct WhoArgs {
    /// KIND/NAME: ratelimits/NAME, configfile/GROUP/FILE
    #[arg(value_name = "KIND/NAME", required_unless_present = "client", conflicts_with = "client")]
    what: Vec<String>,
    #[command(flatten)]
    at: InArgs,
    /// Group of the config file
    #[arg(long, conflicts_with = "client")]
    group: Option<String>,
    /// Show everything that the clients at this address have, in all namespaces or that of -n
    #[arg(long, value_name = "ADDRESS")]
    client: Option<String>,
    /// Maximum number of rows
    #[arg(long, default_value_t = SHOWN_DEFAULT)]
    limit: usize,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

const COLUMNS: &[Column] = &[
    ("address", |row| text(&row["address"])),
    ("labels", |row| short(&labels(&row["labels"]))),
    ("node id", |row| short(&text(&row["node_id"]))),
    ("agent", |row| short(&text(&row["agent"]))),
    ("release", |row| short(&text(&row["release_name"]))),
    ("version", |row| text(&row["version"])),
    ("since (UTC)", |row| text(&row["since"])),
    ("node", |row| text(&row["node"])),
    ("applied", applied),
    ("said at (UTC)", |row| text(&row["applied_at"])),
    ("current", |row| if row["current"] == true { "yes" } else { "no" }.to_owned()),
];

/// Columns for everything that one client has.
const OF_CLIENT: &[Column] = &[
    ("kind", |row| text(&row["kind"])),
    ("namespace", |row| text(&row["namespace"])),
    ("name", |row| match row["group"].as_str() {
        Some(group) => short(&format!("{group}/{}", text(&row["name"]))),
        None => short(&text(&row["name"])),
    }),
    ("release", |row| short(&text(&row["release_name"]))),
    ("version", |row| text(&row["version"])),
    ("node id", |row| short(&text(&row["node_id"]))),
    ("agent", |row| short(&text(&row["agent"]))),
    ("applied", applied),
    ("current", |row| if row["current"] == true { "yes" } else { "no" }.to_owned()),
];

fn labels(labels: &Value) -> String {
    let pair = |label: &Value| format!("{}={}", text(&label["key"]), text(&label["value"]));
    let all: Vec<_> = labels.as_array().into_iter().flatten().map(pair).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(",") }
}

/// Formats the reason of a client that refused its release.
fn reason(row: &Value) -> Option<String> {
    let message = row["message"].as_str()?;
    let who = [&row["node_id"], &row["address"]].into_iter().map(text).find(|word| word != "-");
    let (who, version) = (who.unwrap_or_default(), text(&row["version"]));
    Some(format!("{who} refused version {version}: {}", printable(message)))
}

/// Formats the parts of its release that a client's library does not implement.
fn misread(row: &Value) -> Option<String> {
    let parts: Vec<_> =
        row["misread"].as_array()?.iter().map(|part| printable(part.as_str().unwrap_or_default())).collect();
    let who = [&row["node_id"], &row["address"]].into_iter().map(text).find(|word| word != "-");
    let (who, agent) = (who.unwrap_or_default(), text(&row["agent"]));
    Some(format!("{who} ({agent}) does not carry out all of it: {}", parts.join("; ")))
}

/// Formats how many of its clients have the release that they should have.
fn up_to_date(answer: &Value, what: &str) -> String {
    match answer["amount"].as_u64() {
        Some(0) => format!("no client of {what} is connected"),
        _ => format!("{} of {} clients are up to date with {what}", text(&answer["current"]), text(&answer["amount"])),
    }
}

/// Formats the counts of clients that reported to have applied or refused the release, if there are any.
fn words_of(answer: &Value) -> Option<String> {
    let count = |field: &str| answer[field].as_u64().unwrap_or_default();
    let (applied, refused) = (count("applied"), count("refused"));
    (applied + refused > 0).then(|| format!("{applied} said that they applied it, {refused} that they could not"))
}

pub(super) async fn run(args: WhoArgs) -> anyhow::Result<()> {
    let (remote, namespace) = args.at.remote()?;
    if let Some(client) = &args.client {
        return all_of(&remote, client, &args).await;
    }
    let (kind, key) = read_name(&args.what, &namespace, args.group.as_deref())?;
    releases::check_released(kind)?;
    let path = match kind.nature {
        Nature::File => "/config/v1/configfiles/subscribers".to_owned(),
        _ => format!("{}/subscribers", kind.list),
    };
    let bounds = (limits::PAGE_ROWS_MAX, args.limit);
    let page = |paging: &Paging| releases::page(&path, kind, &key, paging);
    let (all, last) = match remote.pages("data", bounds, page).await {
        Ok(found) => found,
        Err(error) => return Err(or_absent(&remote, kind, &key, error).await),
    };
    if args.output == OutputFormat::Json {
        let mut answer = last;
        answer["data"] = all.into();
        say(&serde_json::to_string_pretty(&answer)?);
        return Ok(());
    }
    table(&all, COLUMNS).iter().for_each(|line| say(line));
    all.iter().filter_map(reason).for_each(|line| say(&line));
    all.iter().filter_map(misread).for_each(|line| say(&line));
    say(&up_to_date(&last, &placed(kind, &key)));
    words_of(&last).iter().for_each(|line| say(line));
    for warning in last["warnings"].as_array().into_iter().flatten() {
        say(&format!("warning   {}", text(warning)));
    }
    tell_silent(&last);
    Ok(())
}

fn tell_silent(answer: &Value) {
    for node in answer["silent_nodes"].as_array().into_iter().flatten() {
        say(&format!("node {node} could not be asked: its clients are missing"));
    }
}

/// Prints everything that the clients at an address have.
async fn all_of(remote: &Remote, client: &str, args: &WhoArgs) -> anyhow::Result<()> {
    let path = |paging: &Paging| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("address", client);
        paging.ask(&mut query);
        format!("/admin/v1/clients?{}", query.finish())
    };
    let (mut all, last) = remote.pages("data", (limits::PAGE_ROWS_MAX, usize::MAX), path).await?;
    all.retain(|row| args.at.namespace.as_ref().is_none_or(|namespace| row["namespace"] == namespace.as_str()));
    let (amount, current) = (all.len(), all.iter().filter(|row| row["current"] == true).count());
    all.truncate(args.limit);
    if args.output == OutputFormat::Json {
        let mut answer = last;
        answer["data"] = all.into();
        say(&serde_json::to_string_pretty(&answer)?);
        return Ok(());
    }
    match amount {
        0 => say(&format!("no client at {client} is known")),
        _ => {
            table(&all, OF_CLIENT).iter().for_each(|line| say(line));
            all.iter().filter_map(reason).for_each(|line| say(&line));
            say(&format!("{current} of {amount} are up to date"));
        }
    }
    tell_silent(&last);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reasons_of_refusals_stand_below_the_table() {
        let row = json!({ "node_id": "n1", "address": "10.0.0.1", "version": 2, "message": "no such\nthing" });
        assert_eq!(reason(&row).as_deref(), Some("n1 refused version 2: no such thing"));
        let row = json!({ "address": "10.0.0.1", "version": 2, "message": "no" });
        assert_eq!(reason(&row).as_deref(), Some("10.0.0.1 refused version 2: no"));
        assert_eq!(reason(&json!({ "address": "10.0.0.1", "version": 2 })), None);
    }

    #[test]
    fn clients_that_misread_a_rule_stand_below_the_table() {
        let row = json!({ "node_id": "n1", "agent": "gRPC Go 1.85.0", "misread": ["W27: a", "W4: b"] });
        let expected = "n1 (gRPC Go 1.85.0) does not carry out all of it: W27: a; W4: b";
        assert_eq!(misread(&row).as_deref(), Some(expected));
        assert_eq!(misread(&json!({ "node_id": "n1" })), None);
    }

    #[test]
    fn clients_that_are_up_to_date_are_counted() {
        let of =
            |current: u64, amount: u64| up_to_date(&json!({ "current": current, "amount": amount }), "routing/a in n");
        assert_eq!(of(2, 3), "2 of 3 clients are up to date with routing/a in n");
        assert_eq!(of(0, 0), "no client of routing/a in n is connected");
    }

    #[test]
    fn words_are_counted_where_there_are_any() {
        assert_eq!(words_of(&json!({ "amount": 3, "applied": 0, "refused": 0 })), None);
        let said = words_of(&json!({ "amount": 3, "applied": 1, "refused": 2 }));
        assert_eq!(said.as_deref(), Some("1 said that they applied it, 2 that they could not"));
    }

    #[test]
    fn labels_are_shown_as_they_are_typed() {
        assert_eq!(labels(&json!([{ "key": "zone", "value": "a" }, { "key": "v", "value": "2" }])), "zone=a,v=2");
        assert_eq!(labels(&json!([])), "-");
    }
}
