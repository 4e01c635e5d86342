//! `thuban apply`, `thuban diff` and `thuban delete`: changes that make the cluster equal to a tree of documents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};
use thuban_model::limits;

use super::approvals::AskedActs;
use super::documents::{Document, read_all};
use super::errors::{Differences, NothingDone, Usage};
use super::find::{InArgs, in_force, read_names, row, rows, rows_of};
use super::kinds::{Key, Kind, KindFilter, Nature, placed};
use super::plan::{Plan, Step, Task, There, deletion};
use super::progress::{Carried, ProgressBar};
use super::remote::{Refused, Remote};
use super::tables::{OutputFormat, text, took};
use super::telling::{confirm, say, say_error};
use super::{approvals, releases, sealed};

/// Maximum bytes of bodies in one call; a larger body is sent alone.
const SENT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Args)]
pub(super) struct TreeArgs {
    /// File or folder of documents, YAML or JSON, or - for standard input; may be repeated
    #[arg(short, long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Delete objects without a document, only of the given kinds in the given namespaces
    #[arg(long, requires_all = ["prune_namespaces", "prune_kinds"])]
    prune: bool,
    /// Namespaces to prune, separated by commas
    #[arg(long = "prune-namespaces", value_name = "NAMESPACES", value_delimiter = ',', requires = "prune")]
    prune_namespaces: Vec<String>,
    /// Kinds to prune, separated by commas
    #[arg(long = "prune-kinds", value_name = "KINDS", value_delimiter = ',', requires = "prune")]
    prune_kinds: Vec<String>,
    /// Also release rules and config files whose active release differs
    #[arg(long)]
    release: bool,
    /// List the differing objects without the differences
    #[arg(long)]
    brief: bool,
}

#[derive(Args)]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    at: InArgs,
    #[command(flatten)]
    tree: TreeArgs,
    /// Change nothing; exit code 1 if there are changes
    #[arg(long)]
    dry_run: bool,
    /// Output format of --dry-run
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table, requires = "dry_run")]
    output: OutputFormat,
    /// Do not ask before deleting
    #[arg(short, long)]
    yes: bool,
    /// Request approval for all acts of the tree that a policy gates, as one request with this comment
    #[arg(long, value_name = "WHY")]
    request: Option<String>,
}

#[derive(Args)]
pub(super) struct DiffArgs {
    /// Rule or config file whose draft is compared with the active release
    #[arg(value_name = "KIND/NAME", conflicts_with = "files")]
    what: Vec<String>,
    #[command(flatten)]
    at: InArgs,
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    sides: releases::SideArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Args)]
pub(super) struct DeleteArgs {
    /// KIND/NAME, several of these, or KIND and names
    #[arg(value_name = "KIND/NAME", required_unless_present = "files", conflicts_with = "files")]
    what: Vec<String>,
    #[command(flatten)]
    at: InArgs,
    /// Group of the config files
    #[arg(long)]
    group: Option<String>,
    /// Objects named by these documents
    #[arg(short, long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Request approval for the deletions that a policy gates, as one request with this comment
    #[arg(long, value_name = "WHY")]
    request: Option<String>,
}

pub(super) async fn apply(args: ApplyArgs) -> anyhow::Result<()> {
    let begun = Instant::now();
    let (remote, namespace) = args.at.remote()?;
    let mut plan = made(&remote, &args.tree, &namespace).await?;
    plan.tell(args.tree.brief, args.output)?;
    if !plan.faults.is_empty() {
        return Err(NothingDone(plan.faults.len()).into());
    }
    if plan.tasks.is_empty() {
        return Ok(());
    }
    if args.dry_run {
        told_of_contracts(&remote, &args.tree, &namespace, args.output).await?;
        return Err(Differences::to_do(plan.tasks.len()).into());
    }
    let deleted = plan.count(Step::Delete);
    if deleted > 0 && !args.yes && !confirm(&format!("Take away {deleted}?"))? {
        return Err(Usage("not confirmed, nothing was changed".to_owned()).into());
    }
    approvals::ask_for(&mut plan.tasks, args.request.as_deref());
    let count = plan.tasks.len();
    let carried = carry_out(&remote, plan.tasks).await?;
    say(&format!("{}, in {}", carried.summary(count), took(begun.elapsed())));
    let refused = carried.refused;
    if refused > 0 { Err(Refused::some(refused, count - carried.asked).into()) } else { Ok(()) }
}

pub(super) async fn diff(args: DiffArgs) -> anyhow::Result<()> {
    let (remote, namespace) = args.at.remote()?;
    if !args.what.is_empty() {
        return releases::diff(&remote, &args.what, &namespace, &args.sides, args.output).await;
    }
    let plan = made(&remote, &args.tree, &namespace).await?;
    plan.tell(args.tree.brief, args.output)?;
    match (plan.faults.len(), plan.tasks.len()) {
        (0, 0) => Ok(()),
        (0, count) => Err(Differences::to_do(count).into()),
        (faults, _) => Err(NothingDone(faults).into()),
    }
}

async fn made(remote: &Remote, tree: &TreeArgs, namespace: &str) -> anyhow::Result<Plan> {
    if tree.files.is_empty() {
        return Err(Usage("there is nothing to apply: give a file or a folder with -f".to_owned()).into());
    }
    let documents = read_all(&tree.files, namespace)?;
    if documents.is_empty() {
        return Err(Usage("there is no document in it".to_owned()).into());
    }
    let there = rows_of(remote, &documents).await?;
    let mut plan = Plan::of(&documents, &there);
    if tree.release {
        let released = all_in_force(remote, &documents).await?;
        plan.release(&documents, &there, &released);
    }
    if tree.prune {
        let owned = owned(remote, tree, &documents).await?;
        plan.prune(&documents, &owned);
    }
    Ok(plan)
}

/// Reports the documents that violate contracts. A node of another version, or one that refuses the caller, is only
/// noted.
async fn told_of_contracts(
    remote: &Remote,
    tree: &TreeArgs,
    namespace: &str,
    output: OutputFormat,
) -> anyhow::Result<()> {
    let documents = read_all(&tree.files, namespace)?;
    // With JSON output, stdout carries the plan alone, for tools.
    let tell = if output == OutputFormat::Json { say_error } else { say };
    if let Err(error) = super::contracts::try_documents(remote, &documents, tell).await {
        tell(&format!("note      contracts were not looked at: {error}"));
    }
    Ok(())
}

/// Returns the objects in the namespaces and of the kinds that the tree owns.
async fn owned(
    remote: &Remote,
    tree: &TreeArgs,
    documents: &[Document],
) -> anyhow::Result<Vec<(&'static Kind, Value)>> {
    let kinds: Vec<_> = tree.prune_kinds.iter().map(|word| Kind::of_word(word)).collect::<Result<_, _>>()?;
    if let Some(kind) = kinds.iter().find(|kind| !kind.is_documented() || !kind.is_placed()) {
        return Err(Usage(format!("{} are not pruned; `thuban delete` takes one away", kind.many)).into());
    }
    let mut all = Vec::new();
    for namespace in &tree.prune_namespaces {
        let is_ours = |document: &Document| {
            document.key.namespace == *namespace && kinds.iter().any(|kind| kind.nature == document.kind.nature)
        };
        // A wrong folder or a wrong name would empty the namespace.
        if !documents.iter().any(is_ours) {
            let why = format!(
                "no document speaks of these kinds in {namespace:?}: pruning would take all of them, `thuban delete` \
                 does that"
            );
            return Err(Usage(why).into());
        }
        for kind in &kinds {
            let wanted = KindFilter { namespace: Some(namespace.clone()), ..KindFilter::default() };
            let found = rows(remote, kind, &wanted).await?;
            // A `*` in a namespace is a pattern in a list, so other namespaces may match.
            all.extend(
                found.into_iter().filter(|row| kind.key_of(row).namespace == *namespace).map(|row| (*kind, row)),
            );
        }
    }
    Ok(all)
}

async fn all_in_force(
    remote: &Remote,
    documents: &[Document],
) -> anyhow::Result<BTreeMap<(usize, Key), super::find::InForce>> {
    let released = documents.iter().filter(|document| document.kind.is_released());
    // Rules are listed over all namespaces, files by group.
    let places: BTreeSet<_> = released
        .map(|document| match document.kind.nature {
            Nature::File => (document.kind.order(), Some(&document.key.namespace), document.key.group.as_ref()),
            _ => (document.kind.order(), None, None),
        })
        .collect();
    let mut all = BTreeMap::new();
    for (order, namespace, group) in places {
        let kind = &super::kinds::KINDS[order];
        let wanted = KindFilter { namespace: namespace.cloned(), group: group.cloned(), ..KindFilter::default() };
        let mut found = in_force(remote, kind, &wanted).await?;
        for document in documents.iter().filter(|document| document.kind.nature == Nature::File) {
            if let Some(normal) = found.get_mut(&document.key).and_then(|found| found.normal.as_mut()) {
                sealed::open_release(remote, normal).await?;
            }
        }
        all.extend(found.into_iter().map(|(key, found)| ((order, key), found)));
    }
    Ok(all)
}

/// Carries out the tasks and reports refusals. Deletes nothing once a task was refused.
pub(super) async fn carry_out(remote: &Remote, tasks: Vec<Task>) -> anyhow::Result<Carried> {
    let mut progress = ProgressBar::of(tasks.len());
    let mut refused = 0;
    // Written objects have new revisions.
    let mut written: BTreeMap<(usize, Key), String> = BTreeMap::new();
    let mut failed: BTreeSet<(usize, Key)> = BTreeSet::new();
    let (mut told, mut asked) = (BTreeSet::new(), AskedActs::default());
    let mut rest = tasks;
    while !rest.is_empty() {
        let mut part = next_part(&mut rest);
        let (step, kind) = (part[0].step, part[0].kind);
        if step == Step::Delete && refused > 0 {
            let kept = part.len() + rest.len();
            say(&format!("kept      {kept} that would be taken away: first mend what was refused"));
            return Ok(Carried { refused: refused + kept, asked: asked.count() });
        }
        if step == Step::Delete {
            refused += keep_changed(remote, &mut part).await?;
        }
        if step == Step::Release {
            // The draft differs from the document, so it is not released.
            let before = part.len();
            part.retain(|task| !failed.contains(&(kind.order(), task.key.clone())));
            refused += before - part.len();
        }
        for task in part.iter_mut().filter(|_| step == Step::Release) {
            if let Some(revision) = written.get(&(kind.order(), task.key.clone())) {
                task.body.insert("revision".to_owned(), json!(revision));
            }
        }
        let answers = if part.is_empty() { Vec::new() } else { send(remote, step, kind, &part).await? };
        for (task, answer) in part.iter().zip(&answers) {
            progress.step();
            // Saving and releasing return the same warnings.
            let warnings = answer["warnings"].as_array().into_iter().flatten();
            let warnings = warnings.map(|warning| format!("warning   {}: {}", placed(kind, &task.key), text(warning)));
            for warning in warnings {
                if told.insert(warning.clone()) {
                    progress.clear();
                    say(&warning);
                }
            }
            match Refused::of(answer) {
                Some(why) => {
                    refused += 1;
                    failed.insert((kind.order(), task.key.clone()));
                    let place = task.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
                    progress.clear();
                    say_error(&format!("refused   {place}{}: {why}", placed(kind, &task.key)));
                }
                None => {
                    asked.note(answer, &placed(kind, &task.key));
                    // A generated secret is returned only once, here.
                    if let (Some(drawn), false) =
                        (answer["webhook"]["secret"].as_str(), task.body.contains_key("secret"))
                    {
                        progress.clear();
                        say(&format!("secret    {}: {drawn}", placed(kind, &task.key)));
                    }
                    let revision = revision_in(answer).unwrap_or_default();
                    written.insert((kind.order(), task.key.clone()), revision.to_owned());
                }
            }
        }
        // A node that answers fewer items than were sent leaves the rest undecided: they count as refused.
        refused += part.len().saturating_sub(answers.len());
    }
    progress.clear();
    Ok(Carried { refused, asked: asked.count() })
}

/// Removes and returns the next tasks that fit into one call.
fn next_part(rest: &mut Vec<Task>) -> Vec<Task> {
    let Some(first) = rest.first().map(|task| (task.step, task.kind.nature)) else { return Vec::new() };
    let (mut count, mut bytes) = (0, 0);
    for task in rest.iter().take_while(|task| (task.step, task.kind.nature) == first) {
        bytes += task
            .body
            .values()
            .map(|value| value.as_str().map_or_else(|| value.to_string().len(), str::len))
            .sum::<usize>();
        if count == limits::BATCH_ITEMS_MAX || (count > 0 && bytes > SENT_BYTES_MAX) {
            break;
        }
        count += 1;
    }
    let after = rest.split_off(count);
    std::mem::replace(rest, after)
}

async fn send(remote: &Remote, step: Step, kind: &Kind, part: &[Task]) -> anyhow::Result<Vec<Value>> {
    let (method, path) = match (step, kind.nature) {
        (Step::Create, _) => (Method::POST, kind.write.to_owned()),
        (Step::Change, _) => (Method::PUT, kind.write.to_owned()),
        (Step::Delete, _) => (Method::POST, kind.delete()),
        (Step::Release, Nature::File) => (Method::POST, "/config/v1/configfiles/createandpub".to_owned()),
        (Step::Release, _) => (Method::POST, super::find::releases_path(kind)),
    };
    let items: Vec<&Map<String, Value>> = part.iter().map(|task| &task.body).collect();
    remote.batch(method, &format!("{path}?unknown=refuse"), &json!(items)).await
}

/// Reads the objects again and keeps those that changed since the plan was shown. Returns their number.
async fn keep_changed(remote: &Remote, part: &mut Vec<Task>) -> anyhow::Result<usize> {
    let before = part.len();
    let mut now: There = There::new();
    let namespaces: BTreeSet<_> = part.iter().map(|task| task.key.namespace.clone()).collect();
    let kind = part[0].kind;
    if part.len() <= limits::PAGE_ROWS_MAX / 10 {
        for task in part.iter() {
            now.extend(row(remote, kind, &task.key).await?.map(|row| ((kind.order(), task.key.clone()), row)));
        }
    } else {
        for namespace in namespaces {
            let wanted =
                KindFilter { namespace: Some(namespace).filter(|one| !one.is_empty()), ..KindFilter::default() };
            let found = rows(remote, kind, &wanted).await?;
            now.extend(found.into_iter().map(|row| ((kind.order(), kind.key_of(&row)), row)));
        }
    }
    part.retain(|task| {
        let row = now.get(&(kind.order(), task.key.clone()));
        let is_same = row.is_none_or(|row| row["revision"].as_str().unwrap_or_default() == task.revision);
        if !is_same {
            say(&format!("kept      {}: it has changed meanwhile, look at it first", placed(kind, &task.key)));
        }
        is_same
    });
    Ok(before - part.len())
}

/// Returns the object's revision in the answer to a write.
fn revision_in(answer: &Value) -> Option<&str> {
    answer.as_object()?.values().find_map(|member| member.get("revision")?.as_str())
}

pub(super) async fn delete(args: DeleteArgs) -> anyhow::Result<()> {
    let (remote, namespace) = args.at.remote()?;
    let mut tasks = Vec::new();
    let named: Vec<(&'static Kind, Key)> = if args.files.is_empty() {
        read_names(&args.what, &namespace, args.group.as_deref())?
    } else {
        let documents = read_all(&args.files, &namespace)?;
        documents.into_iter().map(|document| (document.kind, document.key)).collect()
    };
    for (kind, key) in named {
        match row(&remote, kind, &key).await? {
            Some(row) => tasks.push(deletion(kind, &row)),
            None => say(&format!("gone      {} is not there", placed(kind, &key))),
        }
    }
    tasks.sort_by_key(|task| std::cmp::Reverse(task.kind.order()));
    tasks.iter().for_each(|task| say(&task.summary()));
    let count = tasks.len();
    if count == 0 {
        return Ok(());
    }
    if !args.yes && !confirm(&format!("Take away {count}?"))? {
        return Err(Usage("not confirmed, nothing was changed".to_owned()).into());
    }
    approvals::ask_for(&mut tasks, args.request.as_deref());
    let carried = carry_out(&remote, tasks).await?;
    say(&carried.summary(count));
    let refused = carried.refused;
    if refused > 0 { Err(Refused::some(refused, count - carried.asked).into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_into_one_call_is_alike_and_bounded() {
        let task = |word: &str, step: Step, bytes: usize| {
            let kind = Kind::of_word(word).expect("a kind");
            let row = json!({ "namespace": "n", "name": "a" });
            let body = json!({ "content": "x".repeat(bytes) }).as_object().expect("an object").clone();
            Task { step, body, ..deletion(kind, &row) }
        };
        let mut rest: Vec<Task> = (0..150).map(|_| task("svc", Step::Create, 1)).collect();
        rest.extend((0..3).map(|_| task("svc", Step::Change, SENT_BYTES_MAX / 2 - 10)));
        rest.push(task("rl", Step::Change, 2 * SENT_BYTES_MAX));
        rest.push(task("rl", Step::Change, 1));
        let mut sizes = Vec::new();
        while !rest.is_empty() {
            sizes.push(next_part(&mut rest).len());
        }
        assert_eq!(sizes, [100, 50, 2, 1, 1, 1]);
    }

    #[test]
    fn the_revision_is_that_of_the_thing() {
        let answer = json!({ "code": 200_000, "info": "ok", "rateLimit": { "revision": "r" } });
        assert_eq!(revision_in(&answer), Some("r"));
        assert_eq!(revision_in(&json!({ "code": 200_000 })), None);
    }
}
