//! Sentences for people, in both languages: a rule as a whole, its effect on one request, the clients that enforce it,
//! and the situation of a request for approval. Every surface prints these.
//!
//! The sentences of a rule have the content of [`crate::model::explain`], for every request at once. Entered values are
//! plain text, cut if they are long; what is long is described up to a bound.

mod breaker;
mod conditions;
mod detector;
mod effect;
mod enforced;
mod finding;
mod language;
mod phrases;
mod ratelimit;
mod routing;
mod standing;
mod story;
#[cfg(test)]
mod tests;
mod warnings;

use crate::model::rule::Rule;
pub(crate) use conditions::cut;
pub(crate) use effect::effect;
pub(crate) use enforced::enforced;
pub(crate) use finding::{finding, of_gray};
pub(crate) use language::Language;
pub(crate) use standing::standing;
use story::Story;
pub(crate) use warnings::warning;

/// Describes a rule in evaluation order; nothing for a family without sentences.
pub(crate) fn rule(language: Language, rule: &Rule) -> Vec<String> {
    let mut story = Story::new(language);
    if !rule.enable {
        story.say(|| language.switched_off());
    }
    let begun = story.len();
    routing::tell(&mut story, rule);
    ratelimit::tell(&mut story, rule);
    detector::tell(&mut story, rule);
    breaker::tell(&mut story, rule);
    if story.len() == begun { Vec::new() } else { story.end() }
}
