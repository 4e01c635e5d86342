//! `thuban draft reset`: makes the draft of a rule or config file equal to a release of it.

use clap::{Args, Subcommand};
use serde_json::Value;
use thuban_model::limits;
use url::form_urlencoded;

use super::apply::carry_out;
use super::documents::Document;
use super::errors::{Differences, NothingDone, Usage};
use super::find::{OneArgs, absent, in_force, release_name, releases_path, row};
use super::kinds::{KindFilter, Nature, placed};
use super::plan::{Plan, There};
use super::refusals::Refused;
use super::releases::{One, read};
use super::remote::Paging;
use super::sealed;
use super::telling::{say, say_error};

/// Fields of a config file that a release has a copy of.
const OF_RELEASE: [&str; 5] = ["content", "format", "comment", "tags", "encrypted"];

#[derive(Subcommand)]
pub(super) enum DraftCommand {
    /// Make the draft of a rule or config file equal to the release that is live
    Reset(ResetArgs),
}

#[derive(Args)]
pub(super) struct ResetArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Name of another release [default: the one that is live for all clients]
    #[arg(long, value_name = "RELEASE")]
    to: Option<String>,
    /// Change nothing; exit code 1 if there are changes
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(command: DraftCommand) -> anyhow::Result<()> {
    let DraftCommand::Reset(args) = command;
    let one = read(&args.one)?;
    let what = placed(one.kind, &one.key);
    let Some(mut draft) = row(&one.remote, one.kind, &one.key).await? else {
        return Err(absent(&one.remote, one.kind, &one.key).await);
    };
    let release = match &args.to {
        Some(name) => named_release(&one, name).await?,
        None => live_release(&one).await?,
    };
    let name = release_name(&release);
    let wanted = match one.kind.nature {
        Nature::File => {
            if sealed::is_sealed(&release) && release.get("content").is_none() {
                let why = format!("the content of {what} is encrypted, and shown only to those who may edit it");
                return Err(Usage(why).into());
            }
            sealed::open(&one.remote, &mut draft).await?;
            let mut wanted = draft.clone();
            for field in OF_RELEASE {
                wanted[field] = release[field].clone();
            }
            wanted
        }
        _ => {
            // The rule may have been renamed since.
            let mut wanted = release["rule"].clone();
            for field in ["namespace", "name"] {
                wanted[field] = draft[field].clone();
            }
            wanted
        }
    };
    let documents = [Document::of_row(one.kind, &wanted)];
    // Compared with the draft as it was read: a concurrent change is refused by its revision.
    let there: There = [((one.kind.order(), one.key.clone()), draft)].into();
    let plan = Plan::of(&documents, &there);
    if !plan.faults.is_empty() {
        plan.faults.iter().for_each(|fault| say_error(fault));
        return Err(NothingDone(plan.faults.len()).into());
    }
    let count = plan.tasks.len();
    if count == 0 {
        say(&format!("{what}: the draft equals release {name} already"));
        return Ok(());
    }
    plan.tasks.iter().flat_map(|task| &task.lines).for_each(|line| say(&format!("    {line}")));
    if args.dry_run {
        return Err(Differences(format!("the draft of {what} differs from release {name}, nothing was changed")).into());
    }
    let carried = carry_out(&one.remote, plan.tasks).await?;
    if carried.refused > 0 {
        return Err(Refused::some(carried.refused, count).into());
    }
    say(&format!("{what}: the draft equals release {name} again"));
    Ok(())
}

/// Returns the active normal release with its content.
async fn live_release(one: &One) -> anyhow::Result<Value> {
    let mut all = in_force(&one.remote, one.kind, &KindFilter::of(&one.key)).await?;
    let found = all.remove(&one.key).and_then(|found| found.normal);
    let mut release =
        found.ok_or_else(|| Refused::missing(&format!("live release of {}", placed(one.kind, &one.key))))?;
    if one.kind.nature == Nature::File {
        sealed::open_release(&one.remote, &mut release).await?;
    }
    Ok(release)
}

/// Returns the release of this name with its content.
async fn named_release(one: &One, name: &str) -> anyhow::Result<Value> {
    let missing = || Refused::missing(&format!("release {name} of {}", placed(one.kind, &one.key)));
    if one.kind.nature == Nature::File {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let group = one.key.group.as_deref().unwrap_or_default();
        query.append_pair("namespace", &one.key.namespace).append_pair("group", group);
        query.append_pair("file_name", &one.key.name).append_pair("release_name", name);
        let mut answer = one.remote.get(&format!("/config/v1/configfiles/release?{}", query.finish())).await?;
        return Ok(answer["configFileRelease"].take());
    }
    let path = |paging: &Paging| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("rule_name", &one.key.name).append_pair("brief", "false");
        paging.ask(&mut query);
        format!("{}?{}", releases_path(one.kind), query.finish())
    };
    let (all, _) = one.remote.pages("data", (limits::PAGE_ROWS_MAX, usize::MAX), path).await?;
    let is_meant = |row: &Value| release_name(row) == name && row["namespace"] == one.key.namespace.as_str();
    all.into_iter().find(is_meant).ok_or_else(|| missing().into())
}
