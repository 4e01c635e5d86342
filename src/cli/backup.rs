//! `thuban backup`: fetches the state of a running cluster into a file, and believes it when it has
//! read it from end to end.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use reqwest::Method;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;

use super::remote::CallArgs;
use super::say;
use crate::offline::inspect::{Inspection, inspect};

const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// A node that sends nothing for this long has ended the backup too.
const SILENT_MAX: Duration = Duration::from_secs(75);
/// The state holds hashes of passwords, and configuration.
const FILE_MODE: u32 = 0o600;

#[derive(Args)]
pub(super) struct BackupArgs {
    #[command(flatten)]
    call: CallArgs,
    /// File to make; one that exists is not overwritten
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(super) async fn run(args: BackupArgs) -> anyhow::Result<()> {
    if args.out.exists() {
        bail!("{} exists; a backup does not overwrite", args.out.display());
    }
    let part = Part::create(&args.out)?;
    fetch(&args.call, &part.file).await?;
    let kept = tokio::task::spawn_blocking(move || part.keep(&args.out)).await??;
    let bytes = kept.file.as_ref().map_or(0, |file| file.bytes);
    let cluster = kept.cluster_id.as_deref().unwrap_or("-");
    say(&format!("{}: {bytes} bytes, cluster {cluster} at index {}", kept.path.display(), kept.index));
    Ok(())
}

async fn fetch(call: &CallArgs, mut file: &File) -> anyhow::Result<()> {
    let remote = call.remote()?;
    let client = remote.builder()?.connect_timeout(CONNECT_WITHIN).read_timeout(SILENT_MAX).build()?;
    let mut answer = remote.ask(&client, (Method::GET, "/admin/v1/backup"), |request| request).await?;
    if !answer.status().is_success() {
        let body: Value = answer.json().await.context("the answer is not of a thuban node")?;
        bail!("{} ({})", body["info"].as_str().unwrap_or("refused"), body["code"]);
    }
    while let Some(chunk) = answer.chunk().await.context("the backup broke off")? {
        file.write_all(&chunk)?;
    }
    Ok(())
}

/// What is being received; removed again unless it is kept.
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    fn create(out: &Path) -> anyhow::Result<Part> {
        let mut name = out.file_name().context("--out has to name a file")?.to_owned();
        name.push(".part");
        let path = out.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(&path).with_context(|| path.display().to_string())?;
        // What a run before left behind is taken over, what another run writes now is not.
        if file.try_lock().is_err() {
            bail!("{} is being written by another backup", path.display());
        }
        file.set_len(0)?;
        Ok(Part { path, file })
    }

    /// Verifies what came and gives it its name, durably.
    fn keep(self, out: &Path) -> anyhow::Result<Inspection> {
        let mut inspection = inspect(&self.path).context("what came is no backup")?;
        self.file.sync_all()?;
        rename_to_free(&self.path, out)?;
        let folder = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
        inspection.path = out.to_owned();
        Ok(inspection)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Gone under this name already where it was kept.
        let _ = fs::remove_file(&self.path);
    }
}

/// Refuses where `to` exists, be it since a moment ago.
fn rename_to_free(from: &Path, to: &Path) -> anyhow::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists; a backup does not overwrite", to.display())
        }
        // Not every file system knows how to; it was looked for at the beginning.
        Err(_) if !to.exists() => Ok(fs::rename(from, to)?),
        Err(error) => Err(error).with_context(|| to.display().to_string()),
    }
}
