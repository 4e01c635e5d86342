//! `thuban edit`: opens one object as a document in an editor and applies the result.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;

use super::apply::carry_out;
use super::documents::{Document, read_all};
use super::errors::{NothingDone, Usage};
use super::find::{OneArgs, absent, row};
use super::kinds::{Nature, placed};
use super::plan::{Plan, There};
use super::progress::Carried;
use super::remote::Refused;
use super::telling::{say, say_error};
use super::{sealed, yaml};

#[derive(Args)]
pub(super) struct EditArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Editor program
    #[arg(long, env = "EDITOR", default_value = "vi")]
    editor: String,
}

const HEAD: &str = "# Save and leave to change it; leave it as it is, or empty it, to change nothing.\n";

pub(super) async fn run(args: EditArgs) -> anyhow::Result<()> {
    let (remote, kind, key) = args.one.read()?;
    if !kind.is_documented() {
        let (origin, command) = kind.origin();
        return Err(Usage(format!("{} {origin} and are not edited: see {command}", kind.many)).into());
    }
    let what = placed(kind, &key);
    let Some(mut found) = row(&remote, kind, &key).await? else { return Err(absent(&remote, kind, &key).await) };
    if kind.nature == Nature::File {
        sealed::open(&remote, &mut found).await?;
    }
    let before = format!("{HEAD}{}", yaml::write(&Document::of_row(kind, &found).value())?);
    let file = DraftFile::create(&before)?;
    edit(&args.editor, &file.0)?;
    let after = std::fs::read_to_string(&file.0).with_context(|| file.0.display().to_string())?;
    if after == before || after.lines().all(|line| line.trim().is_empty() || line.starts_with('#')) {
        say(&format!("{what}: nothing was changed"));
        return Ok(());
    }
    // From here on the text is the user's work: it is deleted only once the change was applied.
    let kept = |file: DraftFile| {
        let path = file.keep();
        say_error(&format!("thuban: the text is kept in {0}; mend it and `thuban apply -f {0}`", path.display()));
    };
    let documents = match read_all(std::slice::from_ref(&file.0), &key.namespace) {
        Ok(documents) => documents,
        Err(error) => {
            kept(file);
            return Err(error);
        }
    };
    if documents.len() != 1 || documents[0].kind.nature != kind.nature || documents[0].key != key {
        kept(file);
        return Err(Usage(format!("it was {what} that is edited: another name is another thing")).into());
    }
    // Compared with the version that was shown: a concurrent change is refused by its revision.
    let there: There = [((kind.order(), key.clone()), found)].into();
    let plan = Plan::of_edited(&documents, &there);
    if !plan.faults.is_empty() {
        plan.faults.iter().for_each(|fault| say_error(fault));
        kept(file);
        return Err(NothingDone(plan.faults.len()).into());
    }
    for task in &plan.tasks {
        task.lines.iter().for_each(|line| say(&format!("    {line}")));
    }
    let count = plan.tasks.len();
    match carry_out(&remote, plan.tasks).await {
        Ok(Carried { refused: 0, .. }) => {
            let hint = if kind.is_released() { "; `thuban release` puts it in force" } else { "" };
            say(&format!("{what}: changed{hint}"));
            Ok(())
        }
        Ok(Carried { refused, .. }) => {
            kept(file);
            Err(Refused::some(refused, count).into())
        }
        Err(error) => {
            kept(file);
            Err(error)
        }
    }
}

/// Runs the editor through the shell, because the setting may contain arguments.
fn edit(editor: &str, file: &Path) -> anyhow::Result<()> {
    let line = format!("{editor} \"$1\"");
    let ended = std::process::Command::new("sh").args(["-c", &line, "sh"]).arg(file).status();
    let ended = ended.with_context(|| format!("{editor} cannot be started: set EDITOR, or give --editor"))?;
    if !ended.success() {
        bail!("{editor} ended with {ended}: nothing was changed");
    }
    Ok(())
}

/// A file readable by its owner alone; deleted on drop unless it is kept.
struct DraftFile(PathBuf);

impl DraftFile {
    fn create(text: &str) -> anyhow::Result<DraftFile> {
        let folder = std::env::temp_dir();
        let name = format!("thuban-edit-{}-{:016x}.yaml", std::process::id(), rand::random::<u64>());
        let path = folder.join(name);
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(0o600).open(&path).with_context(|| path.display().to_string())?;
        let draft = DraftFile(path);
        file.write_all(text.as_bytes())?;
        Ok(draft)
    }

    fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}
