//! `thuban requests`, `approve`, `refuse` and `policy`: decisions that more than one person makes. `contract` stands
//! beside them.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::plan::{Step, Task};
use super::remote::{CallArgs, Refused, Remote};
use super::tables::{Column, short, table, text, words};
use super::{accounts, contracts, releases, say};
use crate::config::OutputFormat;
use crate::model::approval::RequestOp;
use crate::model::limits;

const REQUESTS: &str = "/admin/v1/requests";
const POLICIES: &str = "/admin/v1/policies";
/// Field that the acts of one request share.
const SET: &str = "request_set";
const LEVEL_NOT_REACHED: u64 = 503_003;

/// Words for the policies that may gate an act.
#[derive(Args, Clone)]
pub(super) struct PleaArgs {
    /// Ask others for their approval where a policy wants it, with this comment
    #[arg(long, value_name = "WHY", conflicts_with = "emergency")]
    request: Option<String>,
    /// With --request: once approved it waits for `thuban requests --run ID`
    #[arg(long, requires = "request")]
    hold: bool,
    /// Do it without approval and in a freeze, for this reason of 8 characters or more: takes releaser and approver
    #[arg(long, value_name = "WHY")]
    emergency: Option<String>,
}

impl PleaArgs {
    /// Members of the body of an act.
    pub(super) fn put_into(&self, item: &mut Map<String, Value>) {
        if let Some(request) = &self.request {
            item.insert("request".to_owned(), json!(request));
        }
        if self.hold {
            item.insert("hold".to_owned(), json!(true));
        }
        if let Some(reason) = &self.emergency {
            item.insert("emergency".to_owned(), json!(reason));
        }
    }
}

/// Asks by one request for the approval of what is gated among these tasks.
pub(super) fn ask_for(tasks: &mut [Task], request: Option<&str>) {
    let Some(request) = request else { return };
    let set = format!("{:032x}", rand::random::<u128>());
    let is_gated = |task: &&mut Task| matches!(task.step, Step::Release | Step::Delete) && task.kind.is_released();
    for (index, task) in tasks.iter_mut().filter(is_gated).enumerate() {
        task.body.insert("request".to_owned(), json!(request));
        task.body.insert(SET.to_owned(), json!(format!("{set}-{}", index / limits::REQUEST_SET_ACTS_MAX)));
    }
}

/// True if a cluster took nothing, as it knows no request of several acts yet.
pub(super) fn knows_no_sets(sent: &anyhow::Result<Vec<Value>>) -> bool {
    let is_so = |refused: &Refused| refused.code == LEVEL_NOT_REACHED || refused.info().contains(SET);
    match sent {
        Ok(answers) => {
            !answers.is_empty() && answers.iter().all(|answer| Refused::of(answer).as_ref().is_some_and(is_so))
        }
        Err(error) => error.downcast_ref().is_some_and(is_so),
    }
}

/// Asks for each of these tasks by a request of its own; false if it was so before.
pub(super) fn ask_for_each(part: &mut [Task], rest: &mut [Task]) -> bool {
    let count = part.iter_mut().chain(rest).filter_map(|task| task.body.remove(SET)).count();
    if count > 0 {
        say("note      this cluster knows no request of several acts yet: there is one for each");
    }
    count > 0
}

/// Acts that were asked for, by the id of the request that they are decided by.
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
}

/// However the tree ends, it is told how what was asked for is approved.
impl Drop for AskedActs {
    fn drop(&mut self) {
        for (id, count) in &self.0 {
            let acts = if *count == 1 { "1 act waits".to_owned() } else { format!("{count} acts wait") };
            say(&format!("request   {id}: {acts} for approval, thuban approve {id}"));
        }
    }
}

#[derive(Subcommand)]
pub(super) enum ApprovalCommand {
    /// List requests for approval, show, run or withdraw one
    Requests(Box<RequestsArgs>),
    /// Approve a request of somebody else; with the last approval it is carried out
    Approve(DecideArgs),
    /// Refuse a request of somebody else
    Refuse(DecideArgs),
    /// Manage policies: which acts need approval, and when none may be done
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Manage contracts: what config files and rules have to be like
    #[command(subcommand)]
    Contract(contracts::ContractCommand),
}

pub(super) async fn run(command: ApprovalCommand) -> anyhow::Result<()> {
    match command {
        ApprovalCommand::Requests(args) => requests(*args).await,
        ApprovalCommand::Approve(args) => approve(args).await,
        ApprovalCommand::Refuse(args) => refuse(args).await,
        ApprovalCommand::Policy(command) => policy(command).await,
        ApprovalCommand::Contract(command) => contracts::run(command).await,
    }
}

#[derive(Args)]
pub(super) struct RequestsArgs {
    #[command(flatten)]
    call: CallArgs,
    /// Those in this state alone: open, approved, refused, withdrawn, done, failed, stale or expired [default: open and
    /// approved ones]
    #[arg(long)]
    state: Option<String>,
    /// Namespace; * for any part
    #[arg(short, long)]
    namespace: Option<String>,
    /// User who asked
    #[arg(long)]
    user: Option<String>,
    /// Show one request, and what it would change
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Carry out a request that is approved and waits
    #[arg(long, value_name = "ID", conflicts_with_all = ["id", "state", "namespace", "user"])]
    run: Option<String>,
    /// Withdraw a request of one's own
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
    ("approvals", |row| row["approvals"].as_array().map_or(0, Vec::len).to_string()),
    ("asked (UTC)", |row| text(&row["ctime"])),
    ("comment", |row| short(&text(&row["comment"]))),
];

async fn requests(args: RequestsArgs) -> anyhow::Result<()> {
    if let Some(id) = &args.run {
        return decide(&args.call, RequestOp::Run, id, None).await;
    }
    if let Some(id) = &args.withdraw {
        return decide(&args.call, RequestOp::Withdraw, id, None).await;
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
    if all.first().is_some_and(|request| request["parts"].as_u64() > Some(0)) && args.id.is_some() {
        all.extend(listed(&remote, &[("part_of", args.id.as_deref())]).await?);
    }
    match args.output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(&all)?),
        OutputFormat::Table => table(&all, REQUEST_COLUMNS).iter().for_each(|line| say(line)),
    }
    let Some(id) = &args.id else { return Ok(()) };
    let Some(first) = all.first() else { return Err(Refused::missing(&format!("request {id}")).into()) };
    let is_table = args.output == OutputFormat::Table;
    if let Some(head) = first["part_of"].as_str().filter(|head| is_table && !head.is_empty()) {
        say(&format!("part of the request {head}"));
    }
    let waits = |request: &&Value| ["open", "approved"].iter().any(|state| request["state"] == *state);
    for request in all.iter().filter(waits).filter(|_| is_table) {
        if all.len() > 1 {
            say(&format!("{} of {}/{}", text(&request["act"]), text(&request["namespace"]), text(&request["name"])));
        }
        let answer = remote.get(&format!("{REQUESTS}/diff?id={}", text(&request["id"]))).await?;
        releases::lines(&answer["diff"]).iter().for_each(|line| say(line));
    }
    Ok(())
}

/// All requests that pass these filters.
async fn listed(remote: &Remote, filters: &[(&str, Option<&str>)]) -> anyhow::Result<Vec<Value>> {
    let path = |paging: &super::remote::Paging| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        paging.ask(&mut query);
        query.extend_pairs(filters.iter().filter_map(|(key, value)| Some((key, (*value)?))));
        format!("{REQUESTS}?{}", query.finish())
    };
    Ok(remote.pages("data", (limits::PAGE_ROWS_MAX, usize::MAX), path).await?.0)
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

async fn approve(args: DecideArgs) -> anyhow::Result<()> {
    decide(&args.call, RequestOp::Approve, &args.id, args.comment.as_deref()).await
}

async fn refuse(args: DecideArgs) -> anyhow::Result<()> {
    decide(&args.call, RequestOp::Refuse, &args.id, args.comment.as_deref()).await
}

async fn decide(call: &CallArgs, op: RequestOp, id: &str, comment: Option<&str>) -> anyhow::Result<()> {
    let mut item = json!({ "id": id });
    if let Some(comment) = comment {
        item["comment"] = json!(comment);
    }
    let remote = call.remote()?;
    if op == RequestOp::Approve {
        let read = listed(&remote, &[("id", Some(id))]).await?;
        if let Some(parts) = read.first().and_then(|one| one["parts"].as_u64()).filter(|parts| *parts > 0) {
            item["parts"] = json!(parts);
        }
    }
    let path = format!("{REQUESTS}/{}", op.word());
    let answer = remote.call(Method::POST, &path, Some(&json!([item]))).await?;
    let request = &answer["responses"][0]["request"];
    let why = text(&request["reason"]);
    let why = if why == "-" { String::new() } else { format!(": {why}") };
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
    say(&format!("{what}: the request is {}{why}", text(&request["state"])));
    Ok(())
}

#[derive(Subcommand)]
pub(super) enum PolicyCommand {
    /// List the policies
    List(accounts::ListArgs),
    /// Create a policy, or change the given fields of one
    Set(Box<PolicyArgs>),
    /// Delete a policy; success also if it does not exist
    Delete {
        #[command(flatten)]
        call: CallArgs,
        /// Name of the policy
        name: String,
    },
}

/// Things that a policy or a contract is about.
#[derive(Args)]
pub(super) struct SubjectArgs {
    /// Namespaces that it is about, a beginning with * behind it for several [default of a new one: *]
    #[arg(long = "for-namespace", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Names of rules, or GROUP/FILE of config files, that it is about; may be repeated [default of a new one: *]
    #[arg(long = "for-name", value_name = "NAME")]
    names: Vec<String>,
    /// Kinds that it is about: configfile, routing, ratelimit, faultdetector, circuitbreaker [default of a new one:
    /// all]
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
}

impl SubjectArgs {
    /// Members of the item that is written; what is not given is left out.
    pub(super) fn put_into(&self, item: &mut Value) {
        for (member, given) in [("names", &self.names), ("kinds", &self.kinds)] {
            put_list(item, member, given);
        }
        if let Some(namespace) = &self.namespace {
            item["namespace"] = json!(namespace);
        }
    }
}

fn put_list(item: &mut Value, member: &str, given: &[String]) {
    if !given.is_empty() {
        item[member] = json!(given);
    }
}

#[derive(Args)]
pub(super) struct PolicyArgs {
    #[command(flatten)]
    call: CallArgs,
    /// Name of the policy
    name: String,
    #[command(flatten)]
    subject: SubjectArgs,
    /// Number of others who have to approve, 0 to 5 [default of a new one: 1]
    #[arg(long)]
    approvals: Option<u8>,
    /// Acts that it gates: publish, gray, promote, rollback, withdraw, stop, delete [default of a new one: publish,
    /// gray, promote, withdraw, delete]
    #[arg(long = "gate", value_name = "ACT")]
    gates: Vec<String>,
    /// Freezes as a JSON array, such as [{"days":["FRI"],"from":"16:00","until":"08:00","offset":"+01:00"}]
    #[arg(long, value_name = "JSON")]
    freezes: Option<String>,
    #[arg(long)]
    comment: Option<String>,
}

const POLICY_COLUMNS: &[Column] = &[
    ("name", |row| text(&row["name"])),
    ("namespace", |row| text(&row["namespace"])),
    ("names", |row| words(&row["names"])),
    ("kinds", |row| Some(words(&row["kinds"])).filter(|words| words != "-").unwrap_or_else(|| "*".to_owned())),
    ("approvals", |row| text(&row["approvals"])),
    ("gates", |row| words(&row["gates"])),
    ("freezes", |row| row["freezes"].as_array().map_or(0, Vec::len).to_string()),
    ("comment", |row| short(&text(&row["comment"]))),
];

async fn policy(command: PolicyCommand) -> anyhow::Result<()> {
    match command {
        PolicyCommand::List(args) => accounts::list(&args, POLICIES, POLICY_COLUMNS).await,
        PolicyCommand::Set(args) => {
            let item = args.item()?;
            let remote = args.call.remote()?;
            let made = remote.batch(Method::POST, POLICIES, &json!([item])).await?;
            let is_there = made.first().is_some_and(|answer| answer["code"] == EXISTS);
            let method = if is_there { Method::PUT } else { Method::POST };
            let answer = if is_there { remote.batch(method, POLICIES, &json!([item])).await? } else { made };
            match answer.first().and_then(Refused::of) {
                Some(refused) => Err(refused.into()),
                None => {
                    say(&format!("policy {}: {}", args.name, text(&answer[0]["info"])));
                    Ok(())
                }
            }
        }
        PolicyCommand::Delete { call, name } => {
            let path = format!("{POLICIES}/delete");
            accounts::tell(super::remote::call(&call, Method::POST, &path, Some(&json!([{ "name": name }]))).await?)
        }
    }
}

/// A thing of this name is there.
const EXISTS: u64 = 400_201;

impl PolicyArgs {
    fn item(&self) -> anyhow::Result<Value> {
        let mut item = json!({ "name": self.name });
        self.subject.put_into(&mut item);
        put_list(&mut item, "gates", &self.gates);
        if let Some(comment) = &self.comment {
            item["comment"] = json!(comment);
        }
        if let Some(approvals) = self.approvals {
            item["approvals"] = json!(approvals);
        }
        if let Some(freezes) = &self.freezes {
            let read = |error| super::Usage(format!("--freezes is no JSON: {error}"));
            item["freezes"] = serde_json::from_str(freezes).map_err(read)?;
        }
        Ok(item)
    }
}
