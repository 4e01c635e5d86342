//! A rule in sentences, as a person would tell it: in the order in which it is judged, and in both languages.
//!
//! A sentence says as much as [`crate::model::explain`] does, for every request at once. Values that were typed stand
//! in it as plain text, cut where they are long; a rule of many sub-rules is told up to a bound.

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

/// Sentences of a rule that are shown; the rest is counted.
const SENTENCES_MAX: usize = 40;
/// Characters of what is told of one sub-rule.
const CHARS_MAX: usize = 2000;

/// The rule in the language of the texts; nothing of a family that has no sentences.
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

/// Sentences while they are told.
struct Story {
    language: Language,
    told: Vec<String>,
    /// Number of those beyond the bound.
    untold: usize,
}

impl Story {
    /// Makes the sentence only if it is shown.
    fn say(&mut self, sentence: impl FnOnce() -> String) {
        if self.told.len() < SENTENCES_MAX {
            self.told.push(cut(&sentence(), CHARS_MAX));
        } else {
            self.untold += 1;
        }
    }

    /// Says something for each of the sub-rules, with its number where there are several.
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
    /// One sentence after another, of those that say something.
    fn paragraph(self, sentences: impl IntoIterator<Item = String>) -> String {
        let told = sentences.into_iter().filter(|sentence| !sentence.is_empty());
        told.reduce(|first, second| self.beside(first, second)).unwrap_or_default()
    }
}
