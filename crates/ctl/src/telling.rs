//! Lines that commands print on the two streams; text from other sources cannot harm the terminal.
//!
//! A command that runs a node prints through the queues of its log ([`print_through`]) and waits for no reader. Any
//! other command waits for the readers of its pipes, and ends silently when the reader of stdout has ended, unless it
//! changes something ([`end_with_reader`]).

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::errors::Usage;

/// Exit code of a command whose reader has ended, as shells report it for SIGPIPE.
const EXIT_NO_READER: i32 = 128 + 13;

static QUEUES: OnceLock<Box<dyn Queues>> = OnceLock::new();
static ENDS_WITH_READER: AtomicBool = AtomicBool::new(false);

/// Queues for the two streams of a process that runs a node. Adding a line never blocks.
pub trait Queues: Send + Sync {
    /// Adds a line for stdout, which ends with a line feed.
    fn push_stdout(&self, line: &[u8]);

    /// Adds a line for stderr, which ends with a line feed.
    fn push_stderr(&self, line: &[u8]);

    /// Waits for a short time until all lines are written.
    fn flush(&self);
}

/// Sends all further lines to the queues of a node.
pub fn print_through(queues: impl Queues + 'static) {
    // A process runs one node, so this is set once.
    let _ = QUEUES.set(Box::new(queues));
}

/// Waits for a short time until the output of a node is written.
pub fn flush() {
    if let Some(queues) = QUEUES.get() {
        queues.flush();
    }
}

/// Makes the process end once its stdout has no reader: for a command that changes nothing.
pub fn end_with_reader() {
    ENDS_WITH_READER.store(true, Ordering::Relaxed);
}

/// Prints a line on stdout.
pub fn say(line: &str) {
    put(&harmless(line));
}

/// Prints a document unchanged, but escaped like any line on a terminal.
pub(super) fn say_document(text: &str) {
    put(&if std::io::stdout().is_terminal() { harmless(text) } else { Cow::Borrowed(text) });
}

fn put(text: &str) {
    if let Some(queues) = QUEUES.get() {
        queues.push_stdout(format!("{text}\n").as_bytes());
        return;
    }
    let mut stdout = std::io::stdout();
    // One write: a reader that takes the first line and ends has read all of a short text.
    let written = stdout.write_all(format!("{text}\n").as_bytes()).and_then(|()| stdout.flush());
    let has_no_reader = written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
    if has_no_reader && ENDS_WITH_READER.load(Ordering::Relaxed) {
        std::process::exit(EXIT_NO_READER);
    }
}

/// Makes a text safe for a terminal: characters that move the cursor, hide text or turn its direction are escaped as in
/// JSON.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_order = |char: char| {
        let turns = matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || char.is_control() && char != '\n' && char != '\t'
    };
    if !text.contains(is_order) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if is_order(char) {
            let _ = write!(shown, "\\u{:04x}", u32::from(char));
        } else {
            shown.push(char);
        }
    }
    Cow::Owned(shown)
}

/// Prompts for a confirmation; an error without a terminal.
pub fn confirm(question: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Usage("this needs a confirmation: run it on a terminal, or with --yes".to_owned()).into());
    }
    let mut out = std::io::stdout();
    write!(out, "{question} Type yes to go on: ")?;
    out.flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line.trim() == "yes")
}

pub fn say_error(line: &str) {
    let line = harmless(line);
    match QUEUES.get() {
        Some(queues) => queues.push_stderr(format!("{line}\n").as_bytes()),
        // A failed write to stderr cannot be reported anywhere.
        None => drop(writeln!(std::io::stderr(), "{line}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_that_is_said_is_an_order_to_a_terminal() {
        let content = "admin evil\u{1b}[2K\u{1b}[1A\r\n\ttimeout 3 \u{9b}1m\u{202e}x\u{7f}";
        let shown = harmless(content);
        assert_eq!(shown, "admin evil\\u001b[2K\\u001b[1A\\u000d\n\ttimeout 3 \\u009b1m\\u202ex\\u007f");
        let told = serde_json::to_string_pretty(&json!({ "content": content })).expect("JSON");
        let read: serde_json::Value = serde_json::from_str(&harmless(&told)).expect("JSON still");
        assert_eq!(read["content"], content);
        assert!(matches!(harmless("plain é 中"), Cow::Borrowed(_)));
    }
}
