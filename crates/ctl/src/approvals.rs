//! `thuban requests`, `approve` and `refuse`: approvals by several people. Includes `policy` and `contract`.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};
use thuban_model::approval::RequestOp;
use thuban_model::limits;

use super::errors::Usage;
use super::plan::{Step, Task};
use super::policies::{self, PolicyCommand};
use super::remote::{CallArgs, Refused, Remote};
use super::requests::{REQUESTS, listed};
use super::tables::{Column, OutputFormat, short, table, text};
use super::telling::{confirm, say};
use super::xds::fleet::printable;
use super::{contracts, releases};

/// Field that the acts of one request share.
const SET: &str = "request_set";

/// Marks the tasks so that all gated acts among them become one request for approval.
pub(super) fn ask_for(tasks: &mut [Task], request: Option<&str>) {
    let Some(request) = request else { return };
    let set = format!("{:032x}", rand::random::<u128>());
    let is_gated = |task: &&mut Task| matches!(task.step, Step::Release | Step::Delete) && task.kind.is_released();
    for (index, task) in tasks.iter_mut().filter(is_gated).enumerate() {
        task.body.insert("request".to_owned(), json!(request));
        task.body.insert(SET.to_owned(), json!(format!("{set}-{}", index / limits::REQUEST_SET_ACTS_MAX)));
    }
}

/// Number of acts that wait for approval, by the id of their request.
#[derive(Default)]
pub(super) struct AskedActs(BTreeMap<String, usize>);

impl AskedActs {
    pub(super) fn note(&mut self, answer: &Value, what: &str) {
        let request = &answer["request"];
        let Some(id) = request["id"].as_str() else { return };
        let head = request["part_of"].as_str().filter(|head| !head.is_empty()).unwrap_or(id);
        *self.0.entry(head.to_owned()).or_default() += 1;
        say(&format!("asked     {what}"));
    }

    pub(super) fn count(&self) -> usize {
        self.0.values().sum()
    }
}

/// Prints how to approve the requests, however the command ends.
impl Drop for AskedActs {
    fn drop(&mut self) {
        for (id, count) in &self.0 {
            let acts = if *count == 1 { "1 act waits".to_owned() } else { format!("{count} acts wait") };
            say(&format!("request   {id}: {acts} for approval, {}", to_approve(id, *count as u64 - 1)));
        }
    }
}

/// Returns the command that approves a request with `parts` further acts.
fn to_approve(id: &str, parts: u64) -> String {
    if parts == 0 { format!("thuban approve {id}") } else { format!("thuban approve {id} --parts {parts}") }
}

#[derive(Subcommand)]
pub(super) enum ApprovalCommand {
    /// List requests for approval, show, run or withdraw one
    #[command(alias = "request")]
    Requests(Box<RequestsArgs>),
    /// Approve another user's request; the last approval carries it out
    Approve(ApproveArgs),
    /// Refuse another user's request
    Refuse(DecideArgs),
    /// Manage policies: acts that need approval, and freezes
    #[command(subcommand, alias = "policies")]
    Policy(PolicyCommand),
    /// Manage contracts: schemas and expressions for config files and rules
    #[command(subcommand, alias = "contracts")]
    Contract(contracts::ContractCommand),
}

pub(super) async fn run(command: ApprovalCommand) -> anyhow::Result<()> {
    match command {
        ApprovalCommand::Requests(args) => requests(*args).await,
        ApprovalCommand::Approve(args) => approve(args).await,
        ApprovalCommand::Refuse(args) => decide(&args, RequestOp::Refuse, None).await,
        ApprovalCommand::Policy(command) => policies::run(command).await,
        ApprovalCommand::Contract(command) => contracts::run(command).await,
    }
}

#[derive(Args)]
pub(super) struct RequestsArgs {
    #[command(flatten)]
    call: CallArgs,
    /// Only requests in this state: open, approved, refused, withdrawn, done, failed, stale or expired [default: open
    /// and approved]
    #[arg(long)]
    state: Option<String>,
    /// Namespace; * matches any part
    #[arg(short, long)]
    namespace: Option<String>,
    /// User who made the request
    #[arg(long)]
    user: Option<String>,
    /// Show one request, and what it would change
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Carry out an approved request that is on hold
    #[arg(long, value_name = "ID", conflicts_with_all = ["id", "state", "namespace", "user"])]
    run: Option<String>,
    /// Withdraw your own request
    #[arg(long, value_name = "ID", conflicts_with_all = ["run", "id", "state", "namespace", "user"])]
    withdraw: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

const REQUEST_COLUMNS: &[Column] = &[
    ("id", |row| text(&row["id"])),
    ("state", |row| text(&row["state"])),
    ("act", |row| text(&row["act"])),
    ("acts", |row| (row["parts"].as_u64().unwrap_or_default() + 1).to_string()),
    ("kind", |row| text(&row["kind"])),
    ("namespace", |row| text(&row["namespace"])),
    ("name", |row| short(&text(&row["name"]))),
    ("user", |row| text(&row["user"])),
    ("approvals", |row| {
        let given = row["approvals"].as_array().map_or(0, Vec::len);
        row["approvals_needed"].as_u64().map_or_else(|| given.to_string(), |needed| format!("{given} of {needed}"))
    }),
    ("asked (UTC)", |row| text(&row["ctime"])),
    ("comment", |row| short(&text(&row["comment"]))),
];

/// Fields of a request that identify the release and its clients.
const MEANT: &[&str] = &[
    "release_name",
    "release_version",
    "previous_release",
    "client_labels",
    "client_percent",
    "plan",
    "step",
    "acts_on",
];

async fn requests(args: RequestsArgs) -> anyhow::Result<()> {
    let decision = [(&args.run, RequestOp::Run), (&args.withdraw, RequestOp::Withdraw)];
    if let Some((id, op)) = decision.into_iter().find_map(|(id, op)| Some((id.clone()?, op))) {
        return decide(&DecideArgs { call: args.call, id, comment: None }, op, None).await;
    }
    let remote = args.call.remote()?;
    let states: Vec<Option<&str>> = match (&args.state, &args.id) {
        (Some(state), _) => vec![Some(state)],
        (None, Some(_)) => vec![None],
        (None, None) => vec![Some("open"), Some("approved")],
    };
    let heads = args.id.is_none().then_some("true");
    let mut all = Vec::new();
    for state in states {
        let (namespace, user) = (args.namespace.as_deref(), args.user.as_deref());
        let of_place = [("state", state), ("namespace", namespace), ("user", user)];
        let filters = [&of_place[..], &[("id", args.id.as_deref()), ("heads", heads)]].concat();
        all.extend(listed(&remote, &filters).await?);
    }
    if let Some(id) = &args.id {
        all = with_parts(&remote, id, all).await?;
    }
    match args.output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(&all)?),
        OutputFormat::Table if args.id.is_some() => show(&remote, &all).await?,
        OutputFormat::Table => table(&all, REQUEST_COLUMNS).iter().for_each(|line| say(line)),
    }
    Ok(())
}

/// Adds the further acts that are decided with the request.
async fn with_parts(remote: &Remote, id: &str, mut found: Vec<Value>) -> anyhow::Result<Vec<Value>> {
    let Some(first) = found.first() else { return Err(Refused::missing(&format!("request {id}")).into()) };
    if parts_of(first) > 0 {
        found.extend(listed(remote, &[("part_of", Some(id))]).await?);
    }
    Ok(found)
}

fn parts_of(request: &Value) -> u64 {
    request["parts"].as_u64().unwrap_or_default()
}

/// Prints a request, its further acts, what each would change, and the command that approves it.
async fn show(remote: &Remote, all: &[Value]) -> anyhow::Result<()> {
    table(all, REQUEST_COLUMNS).iter().for_each(|line| say(line));
    let Some(first) = all.first() else { return Ok(()) };
    if let Some(head) = first["part_of"].as_str().filter(|head| !head.is_empty()) {
        say(&format!("part of the request {head}"));
    }
    say(&printable(&text(&first["standing"])));
    let waits = |request: &&Value| ["open", "approved"].iter().any(|state| request["state"] == *state);
    for request in all.iter().filter(waits) {
        if all.len() > 1 {
            let thing = format!("{}/{}", text(&request["namespace"]), text(&request["name"]));
            say(&printable(&format!("{} of {thing}", text(&request["act"]))));
        }
        for field in MEANT.iter().filter(|field| !request[**field].is_null()) {
            say(&format!("{field}: {}", text(&request[*field])));
        }
        let answer = remote.get(&format!("{REQUESTS}/diff?id={}", text(&request["id"]))).await?;
        releases::lines(&answer["diff"]).iter().for_each(|line| say(line));
    }
    if waits(&first) && parts_of(first) > 0 {
        say(&format!("these {} acts are approved by: {}", all.len(), to_approve(&text(&first["id"]), parts_of(first))));
    }
    Ok(())
}

#[derive(Args)]
pub(super) struct DecideArgs {
    #[command(flatten)]
    call: CallArgs,
    /// Id of the request, as `thuban requests` lists it
    id: String,
    /// Comment
    #[arg(short = 'm', long = "comment", value_name = "WHY")]
    comment: Option<String>,
}

#[derive(Args)]
pub(super) struct ApproveArgs {
    #[command(flatten)]
    decision: DecideArgs,
    /// Number of its further acts, as shown by `thuban requests --id`: the approval fails if there are others [default:
    /// on a terminal they are shown and confirmed]
    #[arg(long, value_name = "COUNT")]
    parts: Option<u64>,
}

/// Approves a request with exactly as many further acts as the approver was shown.
async fn approve(args: ApproveArgs) -> anyhow::Result<()> {
    let ApproveArgs { decision, parts } = args;
    let parts = match parts {
        Some(parts) => parts,
        None => {
            let (remote, id) = (decision.call.remote()?, &decision.id);
            let all = with_parts(&remote, id, listed(&remote, &[("id", Some(id.as_str()))]).await?).await?;
            let parts = all.first().map_or(0, parts_of);
            if parts > 0 {
                ask_whether(&remote, &all, parts).await?;
            }
            parts
        }
    };
    // A request that was read without further acts is approved as such.
    decide(&decision, RequestOp::Approve, Some(parts)).await
}

async fn ask_whether(remote: &Remote, all: &[Value], parts: u64) -> anyhow::Result<()> {
    let id = all.first().map_or_else(String::new, |first| text(&first["id"]));
    if !std::io::stdin().is_terminal() {
        let why = format!(
            "the request has {parts} further acts: look at them (thuban requests --id {id}), then {}",
            to_approve(&id, parts)
        );
        return Err(Usage(why).into());
    }
    show(remote, all).await?;
    if confirm(&format!("Approve all {}?", all.len()))? {
        return Ok(());
    }
    Err(Usage("not confirmed, nothing was approved".to_owned()).into())
}

/// Adds the step that is possible for a request: it has been made, so `--request` is not.
fn with_next_step(error: anyhow::Error, op: RequestOp, id: &str) -> anyhow::Error {
    let Some(code) = error.downcast_ref::<Refused>().map(|refused| refused.code) else { return error };
    let hint = match (code, op) {
        (409_002, RequestOp::Run) => format!("once that time has come, `thuban requests --run {id}` carries it out"),
        (409_000..=409_002, _) => format!("`thuban requests --id {id}` shows what it waits for"),
        _ => return error,
    };
    error.downcast::<Refused>().map_or_else(|error| error, |refused| refused.with_hint(hint).into())
}

async fn decide(args: &DecideArgs, op: RequestOp, parts: Option<u64>) -> anyhow::Result<()> {
    let mut item = json!({ "id": args.id });
    if let Some(comment) = &args.comment {
        item["comment"] = json!(comment);
    }
    if let Some(parts) = parts.filter(|parts| *parts > 0) {
        item["parts"] = json!(parts);
    }
    let remote = args.call.remote()?;
    let path = format!("{REQUESTS}/{}", op.word());
    let answer = remote.call(Method::POST, &path, Some(&json!([item]))).await;
    let answer = answer.map_err(|error| with_next_step(error, op, &args.id))?;
    let request = &answer["responses"][0]["request"];
    let more = match request["parts"].as_u64().unwrap_or_default() {
        0 if request["part_of"].as_str().is_some_and(|head| !head.is_empty()) => {
            format!(", part of {}", text(&request["part_of"]))
        }
        0 => String::new(),
        parts => format!(" and {parts} more"),
    };
    let what = format!(
        "{} of {} {}/{}{more}",
        text(&request["act"]),
        text(&request["kind"]),
        text(&request["namespace"]),
        text(&request["name"])
    );
    say(&printable(&format!("{what}: {}", text(&request["standing"]))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_decision_names_a_step_that_is_possible() {
        let told = |code: u64, info: &str, op: RequestOp| {
            let told = with_next_step(Refused::new(code, info).into(), op, "0123").to_string();
            assert!(!told.contains("--request "), "{told}");
            told
        };
        let frozen = "frozen, nothing was changed: by p until 2099-01-01T00:00:00Z";
        assert_eq!(
            told(409_002, frozen, RequestOp::Run),
            "frozen by p until 2099-01-01T00:00:00Z: once that time has come, `thuban requests --run 0123` carries it \
             out (409002)"
        );
        let unapproved = "data is conflict: the request is not approved yet";
        assert_eq!(
            told(409_000, unapproved, RequestOp::Run),
            "the request is not approved yet: `thuban requests --id 0123` shows what it waits for (409000)"
        );
        let missing = told(400_202, "not found resource: there is no request/0123", RequestOp::Approve);
        assert!(missing.starts_with("there is no request/0123: `thuban"), "{missing}");
    }
}
