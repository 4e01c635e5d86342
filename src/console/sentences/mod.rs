//! Rules in sentences, in evaluation order and in both languages.
//!
//! Sentences have the content of [`crate::model::explain`], for every request at once. Entered values are plain text,
//! cut if they are long; a rule with many sub-rules is described up to a bound.

mod breaker;
mod conditions;
mod detector;
mod phrases;
mod ratelimit;
mod routing;
#[cfg(test)]
mod tests;

use super::texts::{Language, Texts, cut};
use crate::model::rule::Rule;

/// Maximum number of sentences of a rule; the others are counted.
const SENTENCES_MAX: usize = 40;
/// Maximum characters about one sub-rule.
const CHARS_MAX: usize = 2000;

/// Returns the rule in the language of the texts; nothing for a family without sentences.
pub(super) fn sentences(t: &Texts, rule: &Rule) -> Vec<String> {
    let language = Language::of_tag(t.tag).unwrap_or(Language::English);
    let mut story = Story { language, told: Vec::new(), untold: 0 };
    if !rule.enable {
        story.say(|| language.switched_off());
    }
    let begun = story.told.len();
    routing::tell(&mut story, rule);
    ratelimit::tell(&mut story, rule);
    detector::tell(&mut story, rule);
    breaker::tell(&mut story, rule);
    if story.told.len() == begun {
        return Vec::new();
    }
    if story.untold > 0 {
        story.told.push(language.and_more(story.untold));
    }
    story.told
}

/// Sentences under construction.
struct Story {
    language: Language,
    told: Vec<String>,
    /// Number of sentences beyond the bound.
    untold: usize,
}

impl Story {
    /// Adds a sentence, built only if it is shown.
    fn say(&mut self, sentence: impl FnOnce() -> String) {
        if self.told.len() < SENTENCES_MAX {
            self.told.push(cut(&sentence(), CHARS_MAX));
        } else {
            self.untold += 1;
        }
    }

    /// Adds a sentence for each sub-rule, numbered if there are several.
    fn say_each<T>(&mut self, sub_rules: &[T], sentence: impl Fn(&T) -> String) {
        let language = self.language;
        for (index, sub_rule) in sub_rules.iter().enumerate() {
            self.say(|| match sub_rules.len() {
                1 => sentence(sub_rule),
                _ => language.numbered(index + 1, sentence(sub_rule)),
            });
        }
    }
}

impl Language {
    /// Joins the non-empty sentences.
    fn paragraph(self, sentences: impl IntoIterator<Item = String>) -> String {
        let told = sentences.into_iter().filter(|sentence| !sentence.is_empty());
        told.reduce(|first, second| self.beside(first, second)).unwrap_or_default()
    }
}
