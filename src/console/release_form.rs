//! The form of a release: to everyone, to some clients, or in steps. Labels, steps and guards are rows.

use askama::Template;

use super::client_labels::ClientLabels;
use super::fields::Fields;
use super::release_fields::{GUARDS, LABEL, STEP, rows};
use super::releases::{ReleaseRow, has_canary};
use super::texts::Texts;

/// Steps that a new rollout begins with.
const STEPS: [[&str; 2]; 3] = [["5", "10m"], ["25", "30m"], ["100", ""]];

/// Choice of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    All,
    Some,
    InSteps,
}

/// A row of two fields, each with its name and its value.
struct RowFields([(String, String); 2]);

/// The form, within a form of its page.
#[derive(Template)]
#[template(path = "release_form.html")]
pub(super) struct ReleaseForm<'a> {
    t: &'static Texts,
    /// Submitted fields; empty for a new form.
    given: &'a Fields,
    has_canary: bool,
    asks_approval: bool,
    /// Labels that clients have.
    labels: &'a ClientLabels,
}

impl<'a> ReleaseForm<'a> {
    pub(super) fn new(
        t: &'static Texts,
        given: &'a Fields,
        releases: &[ReleaseRow],
        asks_approval: bool,
        labels: &'a ClientLabels,
    ) -> ReleaseForm<'a> {
        ReleaseForm { t, given, has_canary: has_canary(releases), asks_approval, labels }
    }

    /// Reports whether a button only adds a row.
    pub(super) fn is_growing(fields: &Fields) -> bool {
        fields.is_set("row")
    }

    /// Returns the choice; during a canary, which forbids a release to all, that of some clients.
    fn whom(&self) -> Whom {
        match self.given.get("type") {
            "steps" => Whom::InSteps,
            "gray" if self.given.is_set("plan") => Whom::InSteps,
            "gray" => Whom::Some,
            "" if self.has_canary => Whom::Some,
            _ => Whom::All,
        }
    }

    fn checked(&self, whom: Whom) -> &'static str {
        if self.whom() == whom { " checked" } else { "" }
    }

    /// Returns the rows of a kind: the submitted ones, or those of a new form, and an empty one if a button adds one.
    fn rows(&self, kind: &str, names: [&str; 2], begun: &[[&str; 2]]) -> Vec<RowFields> {
        let mut values = rows(self.given, names);
        if values.is_empty() {
            values = begun.iter().map(|row| row.map(str::to_owned)).collect();
        }
        if self.given.get("row") == kind {
            values.push(Default::default());
        }
        let row = |(number, values): (usize, [String; 2])| {
            let [first, second] = names.map(|name| name.replace('*', &number.to_string()));
            let [one, other] = values;
            RowFields([(first, one), (second, other)])
        };
        values.into_iter().enumerate().map(row).collect()
    }

    fn label_rows(&self) -> Vec<RowFields> {
        self.rows("label", LABEL, &[["", ""]])
    }

    fn steps(&self) -> Vec<RowFields> {
        self.rows("step", STEP, &STEPS)
    }

    /// Returns the guards with a limit, each with its limit and its text.
    fn guards(&self) -> [(String, String, &'static str); 2] {
        let is_begun = !self.given.is_set("guard.rows");
        let texts = [self.t.object.guard_refused, self.t.object.guard_health];
        let mut texts = texts.into_iter();
        GUARDS.map(|(name, usual)| {
            let field = format!("guard.{name}");
            let value = if is_begun { usual } else { self.given.get(&field) }.to_owned();
            (field, value, texts.next().unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::texts::Language;

    #[test]
    fn a_form_keeps_what_was_typed_and_grows_by_a_row() {
        let given = Fields::parse(b"type=gray&label.0.key=zone&label.0.value=a&row=label&percent=7");
        let clients = [vec![("zone".to_owned(), "<a>".to_owned())]];
        let labels = ClientLabels::of(clients.iter().map(Vec::as_slice));
        let form = ReleaseForm::new(Language::English.texts(), &given, &[], false, &labels);
        let form = form.render().expect("it can be made");
        assert!(form.contains("<option value=\"zone\">1 clients</option>"), "{form}");
        assert!(!form.contains("<a>") && form.contains("list=\"client-values\""), "{form}");
        assert!(form.contains("value=\"gray\" checked") && form.contains("name=\"percent\" value=\"7\""), "{form}");
        assert!(form.contains("name=\"label.0.value\" value=\"a\""), "{form}");
        assert!(form.contains("name=\"label.1.key\" value=\"\""), "{form}");
        assert_eq!(form.matches(".hold\"").count(), STEPS.len(), "{form}");
        assert!(!form.contains("name=\"request\""), "no policy asks for a reason");
    }
}
