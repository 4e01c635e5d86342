//! Shell completions and manual pages, generated from the commands.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use thuban_ctl::telling::say;

use super::Cli;
use super::help::examples_of;

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
        say(page(Cli::command(), "")?.1.trim_end());
        return Ok(());
    };
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, "", folder)
}

/// Writes the pages of a command and of its subcommands; `path` has the names of its parents without the program's.
fn write_pages(command: &Command, path: &str, folder: &Path) -> anyhow::Result<()> {
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        write_pages(one, format!("{path} {}", one.get_name()).trim_start(), folder)?;
    }
    let (name, text) = page(command.clone(), path)?;
    let file = folder.join(name);
    std::fs::write(&file, text).with_context(|| file.display().to_string())
}

/// Returns the file name and the text of a manual page: the generated one, with examples before the version.
fn page(command: Command, path: &str) -> anyhow::Result<(String, String)> {
    const VERSION: &str = ".SH VERSION";
    let page = Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    let mut text = String::from_utf8(text)?;
    let mut examples = Roff::default();
    let lines = examples_of(path);
    if !lines.is_empty() {
        examples.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in lines {
            examples.text([roman(line)]);
        }
        examples.control("fi", []);
    }
    text.insert_str(text.find(VERSION).unwrap_or(text.len()), &examples.to_roff());
    Ok((page.get_filename(), text))
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
            assert_eq!(page.contains("\n.SH EXAMPLES\n.nf\nthuban "), name != "thuban", "{page}");
        }
        let release = std::fs::read_to_string(folder.path().join("thuban-release.1")).expect("a page");
        let (options, connection) = release.split_once(".SH CONNECTION").expect("options of the connection");
        assert!(options.contains("percent") && connection.contains("endpoint"), "{release}");
    }
}
