//! `thuban backup`: fetches the state of a running cluster into a file and reads it back from end to end.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use reqwest::Method;
use serde_json::Value;
use thuban_ctl::remote::CallArgs;
use thuban_ctl::telling::say;

use crate::offline::atomic_file::PartialFile;
use crate::offline::inspect::{Inspection, inspect};
use crate::tasks;

const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// Longest time without a byte before the backup is given up; the node gives up at the same point.
const SILENT_MAX: Duration = Duration::from_secs(75);

#[derive(Args)]
pub(super) struct BackupArgs {
    #[command(flatten)]
    call: CallArgs,
    /// File to write; an existing file is not overwritten
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(super) async fn run(args: BackupArgs) -> anyhow::Result<()> {
    if args.out.exists() {
        bail!("{} exists; a backup does not overwrite", args.out.display());
    }
    let part = PartialFile::create(&args.out)?;
    fetch(&args.call, &part).await?;
    let kept = tasks::blocking(move || keep(part, &args.out)).await?;
    let bytes = kept.file.as_ref().map_or(0, |file| file.bytes);
    let cluster = kept.cluster_id.as_deref().unwrap_or("-");
    say(&format!("{}: {bytes} bytes, cluster {cluster} at index {}", kept.path.display(), kept.index));
    Ok(())
}

async fn fetch(call: &CallArgs, part: &PartialFile) -> anyhow::Result<()> {
    let remote = call.remote()?;
    let client = remote.builder()?.connect_timeout(CONNECT_WITHIN).read_timeout(SILENT_MAX).build()?;
    let mut answer = remote.ask(&client, (Method::GET, "/admin/v1/backup"), |request| request).await?;
    let status = answer.status();
    if !status.is_success() {
        let body: Value = answer.json().await.context("the answer is not of a thuban node")?;
        remote.judged(body)?;
        bail!("the answer has the status {status} and no backup");
    }
    let mut file = part.file();
    while let Some(chunk) = answer.chunk().await.context("the backup broke off")? {
        file.write_all(&chunk).with_context(|| format!("{} cannot be written", part.path().display()))?;
    }
    Ok(())
}

/// Verifies the file and moves it to its final name.
fn keep(part: PartialFile, out: &Path) -> anyhow::Result<Inspection> {
    let mut inspection = inspect(part.path()).context("what came is no backup")?;
    part.keep()?;
    inspection.path = out.to_owned();
    Ok(inspection)
}
