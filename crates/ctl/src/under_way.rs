//! `thuban rollout list`: what is half-way out. Canaries with and without a rollout, and acts on releases that wait for
//! approval, for the end of a freeze, or to be run.

use clap::Args;
use serde_json::{Value, json};
use thuban_model::limits;
use url::form_urlencoded;

use super::find::{release_name, releases_path};
use super::kinds::{KINDS, Kind, Nature};
use super::remote::{CallArgs, Paging, Remote};
use super::requests::listed;
use super::tables::{Column, OutputFormat, short, table, text};
use super::telling::say;

#[derive(Args)]
pub(super) struct UnderWayArgs {
    #[command(flatten)]
    call: CallArgs,
    /// Only this namespace [default: all]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

const COLUMNS: &[Column] = &[
    ("kind", |row| text(&row["kind"])),
    ("namespace", |row| text(&row["namespace"])),
    ("name", |row| short(&text(&row["name"]))),
    ("release", |row| short(&text(&row["release_name"]))),
    ("version", |row| text(&row["version"])),
    ("state", |row| text(&row["state"])),
    ("clients", |row| short(&text(&row["clients"]))),
    ("since (UTC)", |row| text(&row["since"])),
    ("by", |row| short(&text(&row["user"]))),
    // The last column, because it is a sentence.
    ("detail", |row| text(&row["progress"])),
];

pub(super) async fn list(args: &UnderWayArgs) -> anyhow::Result<()> {
    let remote = args.call.remote()?;
    let mut rows = Vec::new();
    for kind in KINDS.iter().filter(|kind| kind.is_released()) {
        rows.extend(canaries(&remote, kind).await?);
    }
    for state in ["open", "approved"] {
        let requests = listed(&remote, &[("state", Some(state))]).await?;
        rows.extend(requests.iter().map(row_of_request));
    }
    rows.retain(|row| args.namespace.as_ref().is_none_or(|namespace| row["namespace"] == namespace.as_str()));
    match args.output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(&rows)?),
        OutputFormat::Table if rows.is_empty() => say("nothing is half-way out"),
        OutputFormat::Table => table(&rows, COLUMNS).iter().for_each(|line| say(line)),
    }
    Ok(())
}

/// Returns a row for each active canary of a kind.
async fn canaries(remote: &Remote, kind: &Kind) -> anyhow::Result<Vec<Value>> {
    let element = if kind.nature == Nature::File { "configFileReleases" } else { "data" };
    let path = |paging: &Paging| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("only_active", "true");
        paging.ask(&mut query);
        format!("{}?{}", releases_path(kind), query.finish())
    };
    let (all, _) = remote.pages(element, (limits::PAGE_ROWS_MAX, usize::MAX), path).await?;
    let is_canary = |row: &&Value| [&row["release_type"], &row["releaseType"]].contains(&&json!("gray"));
    Ok(all.iter().filter(is_canary).map(|row| row_of_release(kind, row)).collect())
}

fn row_of_release(kind: &Kind, release: &Value) -> Value {
    let first = |members: [&str; 2]| members.into_iter().map(|member| text(&release[member])).find(|text| text != "-");
    let name = match kind.nature {
        Nature::File => format!("{}/{}", text(&release["group"]), text(&release["fileName"])),
        _ => text(&release["rule_name"]),
    };
    let rollout = &release["rollout"];
    json!({
        "kind": kind.one,
        "namespace": release["namespace"],
        "name": name,
        "release_name": release_name(release),
        "version": release["version"],
        "state": rollout["state"].as_str().unwrap_or("canary"),
        "progress": rollout.is_object().then(|| progress(rollout)),
        "clients": clients_of(release),
        "since": first(["mtime", "modifyTime"]),
        "user": first(["create_by", "createBy"]),
        "rollout": rollout,
    })
}

/// Formats the clients of a canary as `thuban release` takes them.
pub(super) fn clients_of(release: &Value) -> Option<String> {
    let labels = [&release["client_labels"], &release["betaLabels"]];
    let labels = labels.into_iter().filter_map(Value::as_array).flatten().map(label);
    let share = release["client_percent"].as_object().map(|share| {
        let part = |member: &str| share.get(member).map(text).unwrap_or_default();
        let (percent, by) = (part("percent"), part("by"));
        format!("{percent} % by {by}")
    });
    let all: Vec<_> = labels.chain(share).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn label(label: &Value) -> String {
    let (key, value) = (text(&label["key"]), text(&label["value"]["value"]));
    match label["value"]["type"].as_str() {
        Some("NOT_EQUALS") => format!("{key}!={value}"),
        Some("REGEX") => format!("{key}~{value}"),
        _ => format!("{key}={value}"),
    }
}

/// Formats the share, step and state of a rollout.
pub(super) fn progress(rollout: &Value) -> String {
    let percent = rollout["percent"].as_u64().unwrap_or_default().min(100);
    let steps = rollout["steps"].as_array().map_or(0, Vec::len);
    let next = rollout["next_at"].as_str().map(|at| format!(", next step at {at} UTC")).unwrap_or_default();
    let reason = match text(&rollout["reason"]) {
        // A pause without a comment has its state as the reason.
        reason if reason.is_empty() || reason == "-" || rollout["state"] == reason.as_str() => String::new(),
        reason => format!(": {reason}"),
    };
    format!("{percent} %, step {} of {steps}, {}{next}{reason}", rollout["step"], text(&rollout["state"]))
}

fn row_of_request(request: &Value) -> Value {
    let version = request["release_version"].as_u64().filter(|version| *version > 0);
    json!({
        "kind": request["kind"],
        "namespace": request["namespace"],
        "name": request["name"],
        "release_name": request["release_name"],
        "version": version,
        "state": request["state"],
        "progress": format!("{}: {}", text(&request["act"]), text(&request["standing"])),
        "clients": clients_of(request),
        "since": request["ctime"],
        "user": request["user"],
        "request": request["id"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_named_as_they_are_typed() {
        let label =
            |key: &str, kind: &str, value: &str| json!({ "key": key, "value": { "type": kind, "value": value } });
        let labels = [label("zone", "IN", "a,b"), label("os", "NOT_EQUALS", "x"), label("v", "REGEX", "^2")];
        let share = json!({ "by": "CLIENT_IP", "percent": 5 });
        let rule = json!({ "client_labels": labels, "client_percent": share });
        assert_eq!(clients_of(&rule).as_deref(), Some("zone=a,b, os!=x, v~^2, 5 % by CLIENT_IP"));
        assert_eq!(clients_of(&json!({ "betaLabels": [labels[0]] })).as_deref(), Some("zone=a,b"));
        assert_eq!(clients_of(&json!({ "client_labels": [] })), None);
    }

    #[test]
    fn rules_and_files_have_the_same_row() {
        let rule = json!({ "namespace": "n", "rule_name": "a", "release_name": "v2", "version": 2, "mtime": "t",
            "create_by": "u", "rollout": { "step": 1, "percent": 5, "state": "running", "steps": [{}, {}] } });
        let row = row_of_release(Kind::of_word("ratelimit").expect("a kind"), &rule);
        let detail = "5 %, step 1 of 2, running";
        let expected = ["ratelimit", "n", "a", "v2", "2", "running", "-", "t", "u", detail];
        assert_eq!(COLUMNS.iter().map(|(_, cell)| cell(&row)).collect::<Vec<_>>(), expected);
        let file = json!({ "namespace": "n", "group": "g", "fileName": "f", "name": "v2", "version": 2,
            "modifyTime": "t", "createBy": "u" });
        let row = row_of_release(Kind::of_word("configfile").expect("a kind"), &file);
        let expected = ["configfile", "n", "g/f", "v2", "2", "canary", "-", "t", "u", "-"];
        assert_eq!(COLUMNS.iter().map(|(_, cell)| cell(&row)).collect::<Vec<_>>(), expected);
    }
}
