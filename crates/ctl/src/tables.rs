//! Output of commands: rows as a table, as names, as JSON or as YAML.

use std::time::Duration;

use clap::ValueEnum;
use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Maximum width of a table cell on a terminal, where East Asian characters take two columns; the other formats have
/// the whole text.
const CELL_WIDTH_MAX: usize = 60;

/// Output formats of commands on objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// Columns
    Table,
    /// More columns
    Wide,
    /// For tools
    Json,
    /// Documents that can be applied again
    Yaml,
    /// KIND/NAME, one per line
    Name,
}

/// Output formats of commands with one form for people and one for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    Table,
    Json,
}

/// Heading, and the function that formats a cell.
pub(super) type Column = (&'static str, fn(&Value) -> String);

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) => words(value),
        Value::Object(pairs) => {
            let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={}", text(value))).collect();
            if pairs.is_empty() { "-".to_owned() } else { pairs.join(",") }
        }
    }
}

pub(super) fn words(value: &Value) -> String {
    let words: Vec<_> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

/// Returns the words of a list, `*` for an empty list: no kind means all.
pub(super) fn words_or_all(value: &Value) -> String {
    Some(words(value)).filter(|words| words != "-").unwrap_or_else(|| "*".to_owned())
}

/// Lays out the rows; columns are as wide as their widest cell.
pub(super) fn table(rows: &[Value], columns: &[Column]) -> Vec<String> {
    let heads: Vec<String> = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    let cells = rows.iter().map(|row| columns.iter().map(|(_, cell)| cell(row)).collect());
    lay_out(std::iter::once(heads).chain(cells).collect())
}

/// Lays out lines that have equally many cells.
pub(super) fn lay_out(lines: Vec<Vec<String>>) -> Vec<String> {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].width()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let padded = |line: &Vec<String>| {
        let cells: Vec<_> = line.iter().zip(&widths).map(|(cell, width)| padded(cell, *width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    lines.iter().map(padded).collect()
}

/// Adds blanks until the text has this width on a terminal.
fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// Returns the first line of a text, shortened for a table and without control characters.
pub(super) fn short(text: &str) -> String {
    let line: String = text.lines().next().unwrap_or_default().chars().filter(|char| !char.is_control()).collect();
    let mut width = 0;
    let is_beyond = |(_, char): &(usize, char)| {
        width += char.width().unwrap_or_default();
        width > CELL_WIDTH_MAX
    };
    match line.char_indices().find(is_beyond) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Formats a duration for people.
pub(super) fn took(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let columns: &[Column] = &[("name", |row| text(&row["name"])), ("more", |row| words(&row["more"]))];
        let rows = [json!({ "name": "longer", "more": ["a", "b"] }), json!({ "name": "", "more": [] })];
        assert_eq!(table(&rows, columns), ["name    more", "longer  a b", "-       -"]);
        assert_eq!(table(&[], columns), ["name  more"]);
    }

    #[test]
    fn cells_are_one_line_for_people() {
        assert_eq!(text(&json!({ "a": "1", "b": true })), "a=1,b=true");
        assert_eq!((text(&json!(null)), text(&json!({})), text(&json!(3))), ("-".into(), "-".into(), "3".into()));
        assert_eq!(short("one\ntwo"), "one");
        assert_eq!(short("\u{1b}[31mred"), "[31mred");
        assert_eq!(short(&"x".repeat(100)).chars().count(), CELL_WIDTH_MAX + 1);
        assert_eq!(short(&"支付".repeat(100)), format!("{}…", "支付".repeat(CELL_WIDTH_MAX / 4)));
    }

    #[test]
    fn columns_align_by_the_width_of_characters() {
        let lines = [["支付", "a"], ["pay", "b"], ["e\u{301}", "c"]].map(|line| line.map(str::to_owned).to_vec());
        assert_eq!(lay_out(lines.to_vec()), ["支付  a", "pay   b", "e\u{301}     c"]);
    }
}
