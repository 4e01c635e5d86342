//! The language of comments: how they begin, and words that a reader has to translate.

use std::path::Path;

use super::{files_below, is_test, program_sources, sources};

/// Words of a clause. No doc comment and no heading opens with one: a noun phrase or a verb says what it is about.
const CLAUSE_WORDS: [&str; 10] = ["What", "Who", "Whom", "Whose", "How", "Whether", "Where", "Why", "Which", "When"];

/// Words that read as a private language. Other code bases have 0.1 to 0.6 of them in 1,000 words of comment.
const MARKED_WORDS: [&str; 14] = [
    "told", "tell", "tells", "whoever", "somebody", "nobody", "beside", "stand", "stands", "kept", "asked", "judged",
    "behind", "lately",
];
/// Marked words in 10,000 words of comment of production code, at most. The number goes down only.
const MARKED_PER_10_000_MAX: usize = 5;

/// Prepositions and conjunctions that continue a name instead of saying what it is.
const FRAGMENT_WORDS: [&str; 4] = ["Of", "By", "That", "With"];

/// True if a text opens with a word of a clause.
fn opens_with_a_clause(text: &str) -> bool {
    let first = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    CLAUSE_WORDS.contains(&first)
}

/// The text of a line of a doc comment.
fn doc_comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
}

#[test]
fn comments_and_headings_open_with_their_subject() {
    let mut broken = Vec::new();
    for (path, text) in ["src", "crates", "tests", "benches"].into_iter().flat_map(sources) {
        let mut is_inside = false;
        for (number, line) in text.lines().enumerate() {
            let comment = doc_comment(line);
            if let Some(text) = comment.filter(|text| !is_inside && opens_with_a_clause(text)) {
                broken.push(format!("{}:{}: {text}", path.display(), number + 1));
            }
            is_inside = comment.is_some();
        }
    }
    for (path, text) in files_below("docs", "md") {
        let headings = text.lines().filter(|line| line.starts_with('#'));
        let open = headings.filter(|line| opens_with_a_clause(line.trim_start_matches(['#', ' '])));
        broken.extend(open.map(|line| format!("{}: {line}", path.display())));
    }
    assert!(broken.is_empty(), "opened with a clause:\n{}", broken.join("\n"));
}

/// Comments of production code of the program with the item below each doc comment.
fn production_comments() -> Vec<Comment> {
    let mut comments = Vec::new();
    for (path, text) in program_sources().into_iter().filter(|(path, _)| !is_test(path)) {
        let lines: Vec<&str> =
            text.lines().take_while(|line| !["mod tests {", "mod golden {"].contains(line)).collect();
        comments.extend(comments_of(&path, &lines));
    }
    comments
}

/// A comment, from its first line to its last.
struct Comment {
    place: String,
    text: String,
    /// The line of code that a doc comment is about.
    item: Option<String>,
}

fn comments_of(path: &Path, lines: &[&str]) -> Vec<Comment> {
    let mut comments: Vec<Comment> = Vec::new();
    let mut is_inside = false;
    for (number, line) in lines.iter().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("//") else {
            is_inside = false;
            continue;
        };
        let text = text.trim_start_matches(['/', '!']).trim();
        if is_inside {
            let comment = comments.last_mut().expect("a comment is open");
            comment.text = format!("{} {text}", comment.text);
        } else {
            let is_doc = line.trim_start().starts_with("///");
            let mut after = lines[number..].iter().map(|line| line.trim_start());
            let item = after.find(|line| !line.starts_with("//") && !line.starts_with("#["));
            comments.push(Comment {
                place: format!("{}:{}", path.display(), number + 1),
                text: text.to_owned(),
                item: item.filter(|_| is_doc).map(str::to_owned),
            });
        }
        is_inside = true;
    }
    comments
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default()
}

/// True for the line of code that declares a function.
fn is_function(item: &str) -> bool {
    item.split('(').next().unwrap_or_default().split_whitespace().any(|word| word == "fn")
}

#[test]
fn comments_have_few_marked_words() {
    let (mut words, mut marked) = (0, Vec::new());
    for comment in production_comments() {
        for word in comment.text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            words += 1;
            if MARKED_WORDS.contains(&word.to_lowercase().as_str()) {
                marked.push(format!("{}: {word}: {}", comment.place, comment.text));
            }
        }
    }
    let found = marked.len() * 10_000 / words;
    assert!(found <= MARKED_PER_10_000_MAX, "{found} in 10,000 words:\n{}", marked.join("\n"));
}

#[test]
fn comments_of_functions_begin_with_a_verb_and_others_with_a_noun() {
    let (mut fragments, mut verbless) = (Vec::new(), Vec::new());
    for Comment { place, text, item } in production_comments() {
        let Some(item) = item else { continue };
        let first = first_word(&text);
        if is_function(&item) && !first.ends_with('s') {
            verbless.push(format!("{place}: {text}"));
        } else if !is_function(&item) && FRAGMENT_WORDS.contains(&first) {
            fragments.push(format!("{place}: {text}"));
        }
    }
    assert!(fragments.is_empty(), "continue a name instead of beginning with a noun:\n{}", fragments.join("\n"));
    assert!(verbless.is_empty(), "begin with no verb in the third person:\n{}", verbless.join("\n"));
}

#[test]
fn no_function_is_called_told_or_shown() {
    let mut broken = Vec::new();
    for (path, text) in ["src", "crates", "tests", "benches", "fuzz"].into_iter().flat_map(sources) {
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let name = words.find(|word| *word == "fn").and_then(|_| words.next()).unwrap_or_default();
            if ["told", "shown"].contains(&name) {
                broken.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "say what the function returns or does:\n{}", broken.join("\n"));
}
