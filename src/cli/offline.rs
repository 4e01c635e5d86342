//! Commands that work while no node runs: `restore`, `recover`, `reset-password`, `inspect`. They prompt and print;
//! [`crate::offline`] does the work.

use std::path::Path;

use anyhow::bail;
use thuban_ctl::OutputFormat;
use thuban_ctl::errors::Usage;
use thuban_ctl::secret;
use thuban_ctl::telling::{confirm, say};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::config::{InspectArgs, ResetPasswordArgs};
use crate::model::access::PasswordHash;
use crate::offline::Founded;
use crate::offline::inspect::{InspectedKind, Inspection, inspect};
use crate::offline::recover::{Findings, Recover, Survivor};
use crate::offline::reset::reset_password;
use crate::offline::restore::{Restore, Restored};
use crate::operations::hash_password;

pub(super) fn run_restore(order: &Restore) -> anyhow::Result<()> {
    if order.initial_cluster.is_none() && !order.is_from_reborn()? {
        return Err(Usage("--initial-cluster has to name the members of the new cluster".to_owned()).into());
    }
    let Restored { origin_cluster_id, origin_index, founded, reborn } = order.run()?;
    let origin = origin_cluster_id.unwrap_or_default();
    say(&format!("restored      cluster {origin} as it was at index {origin_index}"));
    tell_founded(&founded);
    tell_others(&founded, order.node_id, &reborn);
    let (id, dir) = (order.node_id, order.data_dir.display());
    say(&format!("next          thuban serve --node-id {id} --data-dir {dir} ..."));
    Ok(())
}

fn tell_founded(founded: &Founded) {
    let Founded { cluster_id, index, state_hash, .. } = founded;
    say(&format!("new cluster   {cluster_id}, begins at index {index}"));
    say(&format!("state hash    {state_hash}, equal on all of its nodes"));
}

/// Prints how the other members of the list are created from the file, if there are any. The file of a cluster of one
/// node remains only at a path that the caller chose.
fn tell_others(founded: &Founded, own_id: u64, reborn: &Path) {
    let others: Vec<String> = founded.members.keys().filter(|id| **id != own_id).map(u64::to_string).collect();
    if others.is_empty() {
        if reborn.exists() {
            say(&format!("left          {}: the cluster has no other node, so you can delete it", reborn.display()));
        }
        return;
    }
    let reborn = reborn.display();
    say(&format!(
        "other nodes   {}, on each of them: thuban restore --from {reborn} --data-dir DIR",
        others.join(", ")
    ));
    say("              --node-id N. It is for their first start: remove it once they run");
}

pub(super) fn run_recover(order: &Recover, is_sure: bool) -> anyhow::Result<()> {
    let survivor = Survivor::open(order)?;
    let (findings, reborn) = (survivor.findings(), survivor.reborn_out().to_owned());
    if findings.is_alone() {
        say(&format!("node {} is the only member of its cluster: start it, nothing is to be done", order.node_id));
        return Ok(());
    }
    if survivor.is_done() {
        say(&format!("node {} is a member of the cluster in {}: start it", order.node_id, reborn.display()));
        say("              if others are lost since then, name another file with --reborn-out");
        return Ok(());
    }
    tell_findings(findings);
    let question = match order.initial_cluster.len() {
        0 | 1 => "Make a cluster of one out of it?",
        _ => "Make a new cluster out of it?",
    };
    if !is_sure && !confirm(question)? {
        bail!("not confirmed, nothing was changed");
    }
    let founded = survivor.go_on()?;
    tell_founded(&founded);
    tell_others(&founded, order.node_id, &reborn);
    say("next          thuban serve on this directory; then cluster add and promote of NEW nodes (new ids, empty");
    say("              directories). Never start the lost nodes on what they have.");
    Ok(())
}

fn tell_findings(findings: &Findings) {
    let Findings { node_id, cluster_id, applied, last, last_term, term, members } = findings;
    let others: Vec<String> =
        members.iter().filter(|(id, _)| *id != node_id).map(|(id, peer)| format!("{id} ({peer})")).collect();
    say(&format!("node          {node_id} of cluster {}", cluster_id.as_deref().unwrap_or("-")));
    say(&format!("applied       index {applied}"));
    say(&format!("last log      index {last} of term {last_term}; newest term heard of: {term}"));
    say(&format!("given up      {}", others.join(", ")));
    say(&format!("may be lost   every write that the others acknowledged after index {last}"));
    if last > applied {
        say(&format!("taken as done {} entries of the log that may never have been acknowledged", last - applied));
    }
    say("sessions      all end; users and passwords stay");
}

pub(super) fn run_reset_password(args: &ResetPasswordArgs) -> anyhow::Result<()> {
    let password = secret::read_new(args.password_file.as_deref())?;
    let hash = hash_password(&password).map_err(|error| anyhow::anyhow!("it could not be hashed: {error}"))?;
    reset_password(&args.data_dir, &args.name, PasswordHash(hash))?;
    say(&format!("left for      the cluster to do: a new password for {}", args.name));
    say("next          start the node again; it is done once there is a leader, and its log says so. All logins of");
    say("              the user end then, and the user is enabled");
    Ok(())
}

pub(super) fn run_inspect(args: &InspectArgs) -> anyhow::Result<()> {
    let inspection = inspect(&args.path)?;
    match args.output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(&inspection)?),
        OutputFormat::Table => lines(&inspection).iter().for_each(|line| say(line)),
    }
    Ok(())
}

fn lines(found: &Inspection) -> Vec<String> {
    let kind = match found.kind {
        InspectedKind::Directory => "directory",
        InspectedKind::File => "file",
        InspectedKind::Reborn => "reborn",
    };
    let numbers = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let mut pairs = vec![
        (kind, found.path.display().to_string()),
        ("cluster", found.cluster_id.clone().unwrap_or_else(|| "-".to_owned())),
    ];
    pairs.extend(found.node_id.map(|id| ("node", id.to_string())));
    pairs.extend([
        ("level", format!("{}; read by versions that know level {}", found.level, found.level_needed)),
        ("index", found.index.to_string()),
        ("term", found.term.to_string()),
        ("state hash", found.state_hash.clone()),
        ("voters", numbers(&found.voters)),
    ]);
    pairs.extend(found.members.iter().map(|(id, peer)| ("member", format!("{id}={peer}"))));
    if let Some(log) = &found.log {
        let range = match (log.first, log.last) {
            (Some(first), Some(last)) => format!("{first} to {last}, {} bytes", log.bytes),
            _ => format!("empty behind index {}", log.purged.unwrap_or_default()),
        };
        pairs.push(("log", range));
        if log.is_mixture {
            let why = "a snapshot was being installed when the node ended: the next start does it again";
            pairs.push(("incomplete", why.to_owned()));
        }
    }
    if let Some(file) = &found.file {
        pairs.push(("bytes", file.bytes.to_string()));
        pairs.push(("checksum", file.checksum.clone()));
        pairs.extend(file.version.clone().map(|version| ("written by", version)));
        pairs.extend(file.created_ms.and_then(written_at).map(|time| ("written at", time)));
    }
    let mut lines: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name:<12} {value}")).collect();
    lines.push(String::new());
    lines.push(format!("{:<16} {:>12} {:>14}", "table", "rows", "bytes"));
    let tables = found.tables.iter();
    lines.extend(tables.map(|(table, size)| format!("{table:<16} {:>12} {:>14}", size.rows, size.bytes)));
    lines
}

fn written_at(created_ms: u64) -> Option<String> {
    let time = OffsetDateTime::from_unix_timestamp((created_ms / 1000).try_into().ok()?).ok()?;
    time.format(&Rfc3339).ok()
}
