//! Shell completions and manual pages, generated from the commands.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory, ValueEnum};
use clap_mangen::Man;

use super::{Cli, say};

const NAME: &str = "thuban";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// `source <(thuban completion bash)`, `thuban completion zsh > "${fpath[1]}/_thuban"`,
/// `thuban completion fish | source`
#[derive(Args)]
pub(super) struct CompletionArgs {
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn completion(args: &CompletionArgs) -> anyhow::Result<()> {
    say(completion_of(args.shell)?.trim_end());
    Ok(())
}

fn completion_of(shell: Shell) -> anyhow::Result<String> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
    Ok(String::from_utf8(script)?)
}

#[derive(Args)]
pub(super) struct ManArgs {
    /// Folder for a page per command, e.g. /usr/local/share/man/man1 [default: the page of thuban, on
    /// standard output]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub(super) fn man(args: &ManArgs) -> anyhow::Result<()> {
    let Some(folder) = &args.dir else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page)?;
        say(String::from_utf8(page)?.trim_end());
        return Ok(());
    };
    let write = || {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(Cli::command(), folder)
    };
    write().with_context(|| folder.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_is_told_every_command() {
        for shell in Shell::value_variants() {
            let script = completion_of(*shell).expect("a script");
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell:?} does not know {}", command.get_name());
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().expect("a directory");
        man(&ManArgs { dir: Some(folder.path().to_owned()) }).expect("written");
        for name in ["thuban", "thuban-apply", "thuban-release", "thuban-context-set"] {
            let page = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).expect(name);
            assert!(page.contains(".TH") && page.contains("SYNOPSIS"), "{page:.200}");
        }
    }
}
