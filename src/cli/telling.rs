//! Lines that commands tell people, on the two streams, harmless to their terminals whoever wrote them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use super::Usage;

/// A line for the person or program that started this one. A closed pipe is their choice.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{}", harmless(line));
    let _ = std::io::stdout().flush();
}

/// A document that is read again as it was written; a terminal gets it as any line.
pub(super) fn say_document(text: &str) {
    let told = if std::io::stdout().is_terminal() { harmless(text) } else { Cow::Borrowed(text) };
    let _ = writeln!(std::io::stdout(), "{told}");
    let _ = std::io::stdout().flush();
}

/// A text as a terminal may have it: what strangers wrote moves no cursor, hides no line and turns none around. What
/// would do so is shown as JSON escapes it.
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

/// Asks on the terminal; where there is none, nobody can have meant it.
pub(super) fn confirm(question: &str) -> anyhow::Result<bool> {
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

pub(super) fn say_error(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", harmless(line));
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
