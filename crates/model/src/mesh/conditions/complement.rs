//! Expressions for the texts that are none of some words. RE2 has no negation, so the expression follows the words
//! letter by letter, and matches a text that departs from all of them.

use std::collections::BTreeMap;

use crate::model::mesh::re2;

/// Letters of a word. Each one opens a group, and libraries limit the nesting to a thousand.
const LETTERS_MAX: usize = 200;

/// Returns the expression; `None` if a word is too long. The texts contain no `excluded` characters.
pub(super) fn none_of(words: &[&str], excluded: &[char]) -> Option<String> {
    if words.iter().any(|word| word.chars().count() > LETTERS_MAX) {
        return None;
    }
    let possible: Vec<&str> = words.iter().copied().filter(|word| !word.contains(excluded)).collect();
    let any = if excluded.is_empty() { "(?s:.)".to_owned() } else { other_than(excluded) };
    if possible.is_empty() { Some(format!("{any}*")) } else { Some(behind(&possible, excluded, &any)) }
}

/// Returns the expression for the texts that are none of these suffixes of words; `rests` is not empty.
fn behind(rests: &[&str], excluded: &[char], any: &str) -> String {
    let mut by_letter: BTreeMap<char, Vec<&str>> = BTreeMap::new();
    for rest in rests {
        let mut letters = rest.chars();
        if let Some(letter) = letters.next() {
            by_letter.entry(letter).or_default().push(letters.as_str());
        }
    }
    if by_letter.is_empty() {
        return format!("{any}+");
    }
    let known: Vec<char> = excluded.iter().copied().chain(by_letter.keys().copied()).collect();
    let mut ways = vec![format!("{}{any}*", other_than(&known))];
    let ahead = by_letter.iter();
    ways.extend(ahead.map(|(letter, rests)| format!("{}{}", escaped(*letter), behind(rests, excluded, any))));
    let is_end = rests.iter().any(|rest| rest.is_empty());
    format!("(?:{}){}", ways.join("|"), if is_end { "" } else { "?" })
}

fn other_than(letters: &[char]) -> String {
    format!("[^{}]", letters.iter().map(|letter| escaped(*letter)).collect::<String>())
}

fn escaped(letter: char) -> String {
    re2::escaped(letter.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_none_of_the_words_is_matched_and_nothing_else() {
        let texts = ["", "/", "/a", "/ab", "/abc", "/ac", "/b", "a", "ab", "x^]-", "x^]", "x", "é", "éa", "/a\n"];
        let lists: [&[&str]; 7] =
            [&["/a"], &["/a", "/ab"], &["/ab", "/ac", ""], &["x^]-"], &["é"], &["a", "ab", "a"], &[]];
        for words in lists {
            let whole = none_of(words, &[]).expect("short words");
            let judge = regex::Regex::new(&format!(r"\A(?:{whole})\z")).expect("an expression");
            for text in texts {
                assert_eq!(judge.is_match(text), !words.contains(&text), "{words:?}: {text:?}, {whole}");
            }
            let part = none_of(words, &['/']).expect("short words");
            let judge = regex::Regex::new(&format!(r"\A(?:{part})\z")).expect("an expression");
            for text in texts {
                let expected = !words.contains(&text) && !text.contains('/');
                assert_eq!(judge.is_match(text), expected, "{words:?}: {text:?}, {part}");
            }
        }
        assert_eq!(none_of(&[&"w".repeat(LETTERS_MAX + 1)], &[]), None);
        let longest = none_of(&[&"w".repeat(LETTERS_MAX)], &[]).expect("short enough");
        assert!(re2::steps(&longest) < re2::LARGE_PROGRAM_STEPS_MAX);
    }
}
