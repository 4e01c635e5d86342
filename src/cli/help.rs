//! Help texts: the groups of commands on the first page, and examples below the options of each command.

use std::fmt::Write as _;

use clap::{Command, CommandFactory, FromArgMatches};

use super::Cli;
use super::examples::EXAMPLES;

/// Number of examples that a command with subcommands shows, each of another subcommand.
const EXAMPLES_OF_PARENT: usize = 2;

/// Groups of commands in the order of the first page.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["dev", "login", "logout", "whoami", "context"]),
    ("Change", &["get", "apply", "diff", "edit", "draft", "delete", "export", "import"]),
    ("Release", &["release", "promote", "stop", "rollback", "withdraw", "rollout", "wait", "history"]),
    ("Look", &["who", "explain", "watch", "audit"]),
    ("Services", &["instance", "drain", "xds"]),
    ("Approve", &["requests", "approve", "refuse", "policy", "contract"]),
    ("Access", &["user", "token", "role", "key", "sso", "identity"]),
    ("Cluster", &["serve", "cluster", "health", "backup", "restore", "recover", "reset-password", "inspect", "certs"]),
    ("Shell", &["completion", "man", "help"]),
];

/// Parses the command line; prints help or a fault and exits if it is not a command.
pub fn parse() -> Cli {
    let matches = command().get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Returns the command with groups on its first page and examples in all help texts.
fn command() -> Command {
    let command = with_examples(Cli::command(), "");
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{{options}}{{after-help}}",
        overview(&command)
    );
    command.help_template(template)
}

/// Formats the groups with the descriptions of their commands.
fn overview(command: &Command) -> String {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "{header}{heading}:{header:#}");
        for name in *names {
            let about = match command.find_subcommand(name).and_then(Command::get_about) {
                Some(about) => about.to_string(),
                None => "Print this page, or the help of a command".to_owned(),
            };
            let _ = writeln!(text, "  {literal}{name:<width$}{literal:#}  {about}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{header}Options:{header:#}");
    text
}

/// Adds examples to a command and its subcommands; `path` has the names of its parents.
fn with_examples(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
    let command = names.iter().fold(command, |command, name| {
        let path = below(name);
        command.mut_subcommand(name, |one| with_examples(one, &path))
    });
    let lines = examples_of(path);
    if path.is_empty() || lines.is_empty() {
        return command;
    }
    let header = *command.get_styles().get_header();
    let lines: Vec<_> = lines.iter().map(|line| format!("  {line}")).collect();
    command.after_help(format!("{header}Examples:{header:#}\n{}", lines.join("\n")))
}

/// Returns the examples of a command; those of a command with subcommands are the first of its subcommands.
pub(super) fn examples_of(path: &str) -> Vec<&'static str> {
    if let Some((_, lines)) = EXAMPLES.iter().find(|(known, _)| *known == path) {
        return lines.to_vec();
    }
    let is_below = |known: &str| known.strip_prefix(path).is_some_and(|rest| rest.starts_with(' '));
    let below = EXAMPLES.iter().filter(|(known, _)| is_below(known)).map(|(_, lines)| lines[0]);
    below.take(EXAMPLES_OF_PARENT).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use thuban_ctl::CONNECTION;

    use super::*;

    /// Returns the commands without subcommands, by their path.
    fn leaves(command: &Command, path: &str, all: &mut Vec<String>) {
        for one in command.get_subcommands() {
            let path = format!("{path} {}", one.get_name()).trim().to_owned();
            match one.has_subcommands() {
                true => leaves(one, &path, all),
                false => all.push(path),
            }
        }
    }

    /// Splits a line as a shell does that knows blanks and single quotes alone.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut is_quoted, mut is_open) = (Vec::new(), String::new(), false, false);
        for char in line.chars() {
            match char {
                '\'' => (is_quoted, is_open) = (!is_quoted, true),
                ' ' if !is_quoted => {
                    if is_open {
                        words.push(std::mem::take(&mut word));
                    }
                    is_open = false;
                }
                _ => {
                    word.push(char);
                    is_open = true;
                }
            }
        }
        if is_open {
            words.push(word);
        }
        words
    }

    #[test]
    fn every_command_has_two_examples_that_parse() {
        let mut all = Vec::new();
        leaves(&Cli::command(), "", &mut all);
        let known: Vec<&str> = EXAMPLES.iter().map(|(path, _)| *path).collect();
        let distinct: BTreeSet<&str> = known.iter().copied().collect();
        assert_eq!(distinct.len(), known.len(), "a command is in the table twice");
        assert_eq!(distinct, all.iter().map(String::as_str).collect(), "commands of the table and of the program");
        for (path, lines) in EXAMPLES {
            assert_ne!(lines[0], lines[1], "{path}");
            for line in lines {
                assert!(line.starts_with(&format!("thuban {path}")), "an example of {path}: {line}");
                if let Err(error) = Cli::command().try_get_matches_from(words(line)) {
                    panic!("{line}: {error}");
                }
            }
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| *names).copied().filter(|name| *name != "help").collect();
        let distinct: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(grouped.len(), distinct.len(), "a command is in two groups");
        let cli = Cli::command();
        assert_eq!(distinct, cli.get_subcommands().map(Command::get_name).collect());
        let page = command().render_help().to_string();
        for (heading, names) in GROUPS {
            let (_, below) = page.split_once(&format!("{heading}:\n")).expect(heading);
            let group = below.split("\n\n").next().expect("a group");
            assert_eq!(group.lines().count(), names.len(), "{page}");
        }
        assert!(page.contains("-V, --version"), "{page}");
    }

    #[test]
    fn connection_options_are_last_under_their_heading() {
        let mut all = Vec::new();
        leaves(&Cli::command(), "", &mut all);
        let mut seen = 0;
        for path in &all {
            let mut one = command();
            one.build();
            let found = path.split(' ').fold(&one, |one, name| one.find_subcommand(name).expect("a command"));
            let help = found.clone().render_long_help().to_string();
            let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{path}: {help}"));
            assert_eq!(examples.trim_end().lines().count(), 2, "{path}: {help}");
            let Some((options, connection)) = help.split_once(&format!("\n{CONNECTION}:\n")) else {
                assert!(!help.contains("THUBAN_ENDPOINT"), "{path}: {help}");
                continue;
            };
            seen += 1;
            let has = |option: &str| options.lines().any(|line| line.trim_start().starts_with(option));
            assert!(!has("--endpoint") && !has("--token <TOKEN>"), "{path}: {help}");
            assert!(connection.contains("--context"), "{path}: {help}");
            assert!(!connection.contains("--output"), "{path}: {help}");
        }
        assert!(seen > 50, "{seen} commands speak to a cluster");
    }
}
