//! The form of a rule: sentences with slots for what is set most, all other fields under *Advanced*, and a preview in
//! words.
//!
//! Its fields have the names of the generated forms ([`super::sheet`]), so both are read and changed alike. Buttons
//! that change the form send it; a script only shows the changed part of the answer.

mod families;
mod hints;
mod labels;
mod line;
mod offers;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use serde_json::Value;

use super::Console;
use super::drafting::{Typed, kind_of};
use super::session::SessionUser;
use super::sheet::show::{Control, ShownElsewhere};
use super::texts::Texts;
use crate::catalog::{Entity, Outcome};
use crate::model::rule::{Family, Rule};
use crate::model::stamp::Stamp;
use crate::operations::XdsWarnings;
use crate::sentences;
use line::{FormBlock, FormBuilder};
use offers::Offers;

/// Maximum number of namespaces offered.
const NAMESPACES_MAX: usize = 500;

/// A rule under edit in words, with those who enforce it and with values that it may have.
#[derive(Template)]
#[template(path = "rule_preview.html")]
pub(super) struct Preview {
    t: &'static Texts,
    sentences: Vec<String>,
    enforced: String,
    /// Probable mistakes.
    advice: Vec<String>,
    /// Reason why it is no rule yet.
    fault: Option<String>,
    offers: Offers,
}

impl Preview {
    /// Returns the preview of a page without a form.
    pub(super) fn none(t: &'static Texts) -> Preview {
        let (sentences, advice) = (Vec::new(), Vec::new());
        Preview { t, sentences, enforced: String::new(), advice, fault: None, offers: Offers::default() }
    }

    /// Describes what was typed.
    pub(super) async fn of(console: &Console, visitor: &SessionUser, family: Family, typed: &Typed) -> Preview {
        let t = visitor.texts;
        let rule = typed.draft(family).and_then(|draft| {
            let rule = draft.rule(String::new(), String::new(), Stamp::default())?;
            let checked = draft.check_new();
            Ok((Arc::new(rule), checked.err().map(|refusal| refusal.info())))
        });
        let (rule, fault) = match rule {
            Ok((rule, fault)) => (Some(rule), fault),
            Err(refusal) => (None, Some(refusal.info())),
        };
        let namespaces = visitor.namespaces(NAMESPACES_MAX);
        let offers = {
            let namespace = rule.as_ref().map(|rule| rule.namespace.clone()).unwrap_or_default();
            let view = console.node().state().view();
            Offers::of(&view, &visitor.caller.read_scope(), &namespace, rule.as_deref())
        };
        let mut preview = Preview { fault, offers: Offers { namespaces, ..offers }, ..Preview::none(t) };
        let Some(rule) = rule else { return preview };
        preview.sentences = sentences::rule(t.language(), &rule);
        let by = console.operations.carried_out_by(&rule).await;
        preview.enforced = by.map(|by| sentences::enforced(t.language(), &by)).unwrap_or_default();
        preview.advice = advice(console, visitor, rule).await;
        preview
    }
}

/// Returns the probable mistakes in a rule.
async fn advice(console: &Console, visitor: &SessionUser, rule: Arc<Rule>) -> Vec<String> {
    let outcome = [Outcome::done(Entity::Rule(rule))];
    let advice = console.operations.advice(&visitor.caller, &outcome, XdsWarnings::WhereSeen).await.pop();
    advice.map(|advice| [advice.mistakes, advice.broken].concat()).unwrap_or_default()
}

/// The form.
#[derive(Template)]
#[template(path = "rule_form.html")]
pub(super) struct RuleForm<'a> {
    t: &'static Texts,
    action: &'a str,
    blocks: Vec<FormBlock>,
    /// Names of empty fields that mark values as present.
    marks: BTreeSet<String>,
    rest: Vec<Control>,
    preview: &'a Preview,
}

impl<'a> RuleForm<'a> {
    /// Returns the form for a value; a fault is shown at the field that it names.
    pub(super) fn new(
        t: &'static Texts,
        family: Family,
        value: &Value,
        fault: Option<&str>,
        (action, preview): (&'a str, &'a Preview),
    ) -> RuleForm<'a> {
        let (kind, shown) = (kind_of(family), ShownElsewhere::default());
        let mut builder = FormBuilder { t, kind, value, fault, action, shown, blocks: Vec::new() };
        families::tell(&mut builder, family);
        let (rest, marks) = (builder.rest(""), builder.marks());
        RuleForm { t, action, blocks: builder.blocks, marks, rest, preview }
    }

    fn is_rest_at_fault(&self) -> bool {
        self.rest.iter().any(Control::is_at_fault)
    }
}
