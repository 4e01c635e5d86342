//! Sentences under construction, up to a bound.

use super::conditions::cut;
use super::language::Language;

/// Maximum number of sentences of a rule, or of an effect; the others are counted.
pub(super) const SENTENCES_MAX: usize = 40;
/// Maximum characters about one sub-rule.
pub(super) const CHARS_MAX: usize = 2000;

/// Sentences under construction.
pub(super) struct Story {
    pub(super) language: Language,
    lines: Vec<String>,
    /// Number of sentences beyond the bound.
    left_out: usize,
}

impl Story {
    pub(super) fn new(language: Language) -> Story {
        Story { language, lines: Vec::new(), left_out: 0 }
    }

    /// Adds a sentence, built only if it is shown.
    pub(super) fn say(&mut self, sentence: impl FnOnce() -> String) {
        if self.lines.len() < SENTENCES_MAX {
            self.lines.push(cut(&sentence(), CHARS_MAX));
        } else {
            self.left_out += 1;
        }
    }

    /// Adds a sentence for each sub-rule, numbered if there are several.
    pub(super) fn say_each<T>(&mut self, sub_rules: &[T], sentence: impl Fn(&T) -> String) {
        let language = self.language;
        for (index, sub_rule) in sub_rules.iter().enumerate() {
            self.say(|| match sub_rules.len() {
                1 => sentence(sub_rule),
                _ => language.numbered(index + 1, sentence(sub_rule)),
            });
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the sentences, and the number of those beyond the bound as the last one.
    pub(super) fn end(mut self) -> Vec<String> {
        if self.left_out > 0 {
            self.lines.push(self.language.and_more(self.left_out));
        }
        self.lines
    }
}

impl Language {
    /// Joins the non-empty sentences.
    pub(super) fn paragraph(self, sentences: impl IntoIterator<Item = String>) -> String {
        let given = sentences.into_iter().filter(|sentence| !sentence.is_empty());
        given.reduce(|first, second| self.beside(first, second)).unwrap_or_default()
    }

    /// Joins the non-empty clauses into one line.
    pub(super) fn clauses(self, clauses: impl IntoIterator<Item = String>) -> String {
        let given = clauses.into_iter().filter(|clause| !clause.is_empty());
        given.reduce(|first, second| self.then(first, second)).unwrap_or_default()
    }

    /// Makes a sentence of a clause: a capital at its begin, a stop at its end.
    pub(super) fn sentence(self, clause: String) -> String {
        let mut letters = clause.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        self.stop(first.into_iter().chain(letters).collect::<String>())
    }
}
