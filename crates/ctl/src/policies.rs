//! `thuban policy`: acts that need approval by others, and freezes.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::accounts;
use super::errors::Usage;
use super::freezes::frozen;
use super::kinds::Kind;
use super::remote::{CallArgs, Refused};
use super::tables::{Column, short, text, words, words_or_all};

const POLICIES: &str = "/admin/v1/policies";

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

/// Scope of a policy or a contract.
#[derive(Args)]
pub(super) struct SubjectArgs {
    /// Namespaces in its scope; a trailing * matches any rest [default for a new one: *]
    #[arg(long = "for-namespace", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Names of rules, or GROUP/FILE of config files, in its scope; may be repeated [default for a new one: *]
    #[arg(long = "for-name", value_name = "NAME")]
    names: Vec<String>,
    /// Kinds in its scope: configfile, routing, ratelimit, faultdetector, circuitbreaker [default for a new one: all]
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
}

impl SubjectArgs {
    /// Adds the given members to the item to write.
    pub(super) fn put_into(&self, item: &mut Value) {
        let kinds: Vec<String> = self.kinds.iter().map(|word| Kind::api_word(word)).collect();
        for (member, given) in [("names", &self.names), ("kinds", &kinds)] {
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
    /// Number of other users who have to approve, 0 to 5 [default for a new one: 1]
    #[arg(long)]
    approvals: Option<u8>,
    /// Acts that it gates: publish, gray, promote, rollback, withdraw, stop, delete [default for a new one: publish,
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
    ("kinds", |row| words_or_all(&row["kinds"])),
    ("approvals", |row| text(&row["approvals"])),
    ("gates", |row| words(&row["gates"])),
    ("frozen (UTC)", frozen),
    ("comment", |row| short(&text(&row["comment"]))),
];

pub(super) async fn run(command: PolicyCommand) -> anyhow::Result<()> {
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
                    let done = if is_there { "changed" } else { "created" };
                    accounts::tell(&answer[0], &format!("policy {}", args.name), done)
                }
            }
        }
        PolicyCommand::Delete { call, name } => {
            let path = format!("{POLICIES}/delete");
            let answer = super::remote::call(&call, Method::POST, &path, Some(&json!([{ "name": name }]))).await?;
            accounts::tell(&answer, &format!("policy {name}"), "deleted")
        }
    }
}

/// Code for an object that exists already.
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
            let read = |error| Usage(format!("--freezes is no JSON: {error}"));
            item["freezes"] = serde_json::from_str(freezes).map_err(read)?;
        }
        Ok(item)
    }
}
