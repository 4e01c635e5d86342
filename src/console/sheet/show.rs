//! Controls of a form.

use std::collections::BTreeSet;

use askama::Template;
use serde_json::Value;

use super::read::{TRUE, path, pointer};
use super::{Field, FieldKind};
use crate::console::texts::Texts;

/// Form element for one value.
#[derive(Template)]
#[template(path = "control.html")]
pub(in crate::console) struct Control {
    t: &'static Texts,
    /// Name under which it is sent.
    pointer: String,
    label: String,
    about: String,
    /// Reason why the value was refused; `None` if it was not.
    fault: Option<String>,
    /// Address of the form, for buttons that change it; empty for that of the page.
    action: String,
    /// Display of the words of choices.
    word: Option<NameOf>,
    form: Widget,
}

/// Returns the display name of a field, or the text of a word.
pub(in crate::console) type NameOf = fn(&Texts, &str) -> String;

enum Widget {
    /// An optional value that is absent.
    Absent,
    Text {
        value: String,
        is_number: bool,
        is_long: bool,
        /// True for passwords and secrets, which are not shown while they are typed.
        is_secret: bool,
    },
    Toggle {
        is_on: bool,
    },
    /// True, false, or absent.
    Maybe {
        value: &'static str,
    },
    Choice {
        words: Vec<String>,
        value: String,
        may_be_empty: bool,
    },
    Several {
        words: Vec<(String, String, bool)>,
        is_optional: bool,
    },
    Group {
        parts: Vec<Control>,
        more: Vec<Control>,
        is_optional: bool,
        is_short: bool,
    },
    Items {
        items: Vec<WidgetItem>,
        is_optional: bool,
        is_ordered: bool,
        /// True if items are added and removed elsewhere.
        is_fixed: bool,
    },
}

impl Widget {
    fn has_part_at_fault(&self) -> bool {
        match self {
            Widget::Group { parts, more, .. } => parts.iter().chain(more).any(Control::is_at_fault),
            Widget::Items { items, .. } => items.iter().any(|item| item.control.is_at_fault()),
            _ => false,
        }
    }
}

struct WidgetItem {
    pointer: String,
    number: usize,
    control: Control,
}

/// Fields with texts of several lines.
const EDITED: [&str; 3] = ["content", "schema", "expression"];
/// Fields with passwords and secrets.
const SECRET: [&str; 3] = ["password", "secret", "client_secret"];

/// Pointers of the values that a form has elsewhere.
#[derive(Default)]
pub(in crate::console) struct ShownElsewhere {
    /// Values that are elsewhere as a whole.
    pub(in crate::console) slots: BTreeSet<String>, // bound: request
    /// Objects, lists and items with parts elsewhere: they are marked as present there.
    pub(in crate::console) touched: BTreeSet<String>, // bound: request
    /// Lists and maps whose items are added and removed elsewhere.
    pub(in crate::console) rows: BTreeSet<String>, // bound: request
}

/// Renderer of the controls of a form.
pub(in crate::console) struct FormRenderer<'a> {
    pub(in crate::console) t: &'static Texts,
    /// Refusal; it begins with the path of the faulty field, if there is one.
    pub(in crate::console) fault: Option<&'a str>,
    /// Address of the form; empty for that of the page.
    pub(in crate::console) action: &'a str,
    /// Values to leave out.
    pub(in crate::console) shown: Option<&'a ShownElsewhere>,
    /// Display of names and words; those of the API if absent.
    pub(in crate::console) label: Option<NameOf>,
    pub(in crate::console) word: Option<NameOf>,
    /// Display of the descriptions of fields; those of the API if absent.
    pub(in crate::console) about: Option<NameOf>,
}

impl<'a> FormRenderer<'a> {
    /// Returns a renderer that shows everything under the names of the API.
    pub(in crate::console) fn plain(t: &'static Texts, fault: Option<&'a str>) -> FormRenderer<'a> {
        FormRenderer { t, fault, action: "", shown: None, label: None, word: None, about: None }
    }

    /// Returns the controls of an object.
    pub(in crate::console) fn controls(&self, kind: &FieldKind, value: &Value) -> Vec<Control> {
        self.controls_at(kind, value, "")
    }

    /// Returns the controls of an object at a pointer.
    pub(in crate::console) fn controls_at(&self, kind: &FieldKind, value: &Value, at: &str) -> Vec<Control> {
        match kind {
            FieldKind::Object(fields) => self.fields(fields, value, at).map(|(control, _)| control).collect(),
            _ => Vec::new(),
        }
    }

    fn fields<'f>(&self, fields: &'f [Field], value: &Value, at: &str) -> impl Iterator<Item = (Control, &'f Field)> {
        fields.iter().filter_map(move |field| {
            let (value, at) = (&value[&field.name], pointer(at, &field.name));
            let is_elsewhere = self.is_elsewhere(&field.kind, value, &at);
            (!is_elsewhere).then(|| (self.field(field, value, &at), field))
        })
    }

    /// Reports whether the form has all of a value elsewhere.
    fn is_elsewhere(&self, kind: &FieldKind, value: &Value, at: &str) -> bool {
        let Some(shown) = self.shown else { return false };
        if shown.slots.contains(at) {
            return true;
        }
        match (kind, value) {
            (FieldKind::Object(_) | FieldKind::List(_) | FieldKind::Map(_), Value::Null) => shown.touched.contains(at),
            (FieldKind::Object(fields), _) if shown.touched.contains(at) => fields
                .iter()
                .all(|field| self.is_elsewhere(&field.kind, &value[&field.name], &pointer(at, &field.name))),
            (FieldKind::List(item) | FieldKind::Map(item), Value::Array(items)) if shown.rows.contains(at) => {
                let mut items = items.iter().enumerate();
                items.all(|(index, value)| self.is_elsewhere(item, value, &format!("{at}/{index}")))
            }
            _ => false,
        }
    }

    fn field(&self, field: &Field, value: &Value, at: &str) -> Control {
        let is_touched = self.shown.is_some_and(|shown| shown.touched.contains(at));
        let is_optional = field.is_optional && !is_touched;
        let mut form = match (&field.kind, value) {
            (FieldKind::Toggle, _) if field.is_optional => Widget::Maybe { value: value.as_bool().map_or("", word) },
            (kind, Value::Null) if field.is_optional && kind.grows() => Widget::Absent,
            (kind, value) => self.form(kind, value, at, is_optional),
        };
        if let Widget::Text { is_long, is_secret, .. } = &mut form {
            *is_long |= EDITED.contains(&field.name.as_str());
            *is_secret = SECRET.contains(&field.name.as_str());
        }
        let label = self.label.map_or_else(|| field.name.clone(), |label| label(self.t, &field.name));
        let about = self.about.map_or_else(|| field.about.clone(), |about| about(self.t, &field.about));
        self.control(at, label, about, form)
    }

    fn control(&self, at: &str, label: String, about: String, form: Widget) -> Control {
        // A group shows only faults that none of its parts shows.
        let own = self.fault.filter(|fault| !form.has_part_at_fault() && is_about(fault, &path(at)));
        let fault = own.map(str::to_owned);
        let action = self.action.to_owned();
        Control { t: self.t, pointer: at.to_owned(), label, about, fault, action, word: self.word, form }
    }

    fn form(&self, kind: &FieldKind, value: &Value, at: &str, is_optional: bool) -> Widget {
        match kind {
            FieldKind::Object(fields) => {
                let is_short = fields.len() <= 4 && fields.iter().all(|field| field.kind.is_scalar());
                // Absent optional values of a large object are collapsed.
                let waits = |control: &Control, field: &Field| {
                    field.is_optional && control.is_empty() && !control.is_at_fault() && fields.len() > 4
                };
                let (more, parts): (Vec<_>, Vec<_>) =
                    self.fields(fields, value, at).partition(|(control, field)| waits(control, field));
                let controls = |parts: Vec<(Control, &Field)>| parts.into_iter().map(|(control, _)| control).collect();
                Widget::Group { parts: controls(parts), more: controls(more), is_optional, is_short }
            }
            FieldKind::List(item) | FieldKind::Map(item) => {
                let is_fixed = self.shown.is_some_and(|shown| shown.rows.contains(at));
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
                let items = items.filter(|(index, value)| !self.is_elsewhere(item, value, &format!("{at}/{index}")));
                let item = |(index, value): (usize, &Value)| {
                    let pointer = format!("{at}/{index}");
                    let form = self.form(item, value, &pointer, false);
                    let name = value["name"].as_str().unwrap_or_default().to_owned();
                    let label = if is_fixed { format!("{}", index + 1) } else { name };
                    WidgetItem {
                        control: self.control(&pointer, label, String::new(), form),
                        pointer,
                        number: index + 1,
                    }
                };
                Widget::Items {
                    items: items.map(item).collect(),
                    is_optional,
                    is_ordered: matches!(kind, FieldKind::List(_)),
                    is_fixed,
                }
            }
            FieldKind::Choice(words) => {
                let value = value.as_str().unwrap_or_default().to_owned();
                Widget::Choice { words: words.clone(), value, may_be_empty: is_optional }
            }
            FieldKind::Several(words) => {
                let chosen: Vec<_> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let word = |word: &String| (word.clone(), pointer(at, word), chosen.contains(&word.as_str()));
                Widget::Several { words: words.iter().map(word).collect(), is_optional }
            }
            FieldKind::Toggle => Widget::Toggle { is_on: value.as_bool().unwrap_or_default() },
            FieldKind::Whole | FieldKind::Text => {
                let value = match value {
                    Value::String(text) => text.clone(),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                let is_long = value.len() > 80 || value.contains('\n');
                Widget::Text { value, is_number: *kind == FieldKind::Whole, is_long, is_secret: false }
            }
        }
    }
}

fn word(is_on: bool) -> &'static str {
    if is_on { TRUE } else { "false" }
}

/// Reports whether the fault begins with this path, or one within it.
pub(in crate::console) fn is_about(fault: &str, path: &str) -> bool {
    let rest = fault.strip_prefix(path).filter(|_| !path.is_empty());
    rest.is_some_and(|rest| rest.starts_with(['.', '[', ' ', ':']))
}

impl Control {
    /// Sets a label that differs from the field's name.
    pub(in crate::console) fn called(self, label: &str) -> Control {
        Control { label: label.to_owned(), ..self }
    }

    pub(in crate::console) fn is_at_fault(&self) -> bool {
        self.fault.is_some() || self.form.has_part_at_fault()
    }

    /// Returns the display of a word of a choice.
    fn text_of(&self, word: &str) -> String {
        self.word.map_or_else(|| word.to_owned(), |text| text(self.t, word))
    }

    fn is_empty(&self) -> bool {
        match &self.form {
            Widget::Absent => true,
            Widget::Text { value, .. } | Widget::Choice { value, .. } => value.is_empty(),
            Widget::Maybe { value } => value.is_empty(),
            Widget::Items { items, .. } => items.is_empty(),
            Widget::Several { words, .. } => !words.iter().any(|(_, _, is_chosen)| *is_chosen),
            Widget::Toggle { .. } | Widget::Group { .. } => false,
        }
    }
}

/// Returns the display of a word of a choice of several; weekdays have texts.
fn word_of(t: &Texts, word: &str) -> String {
    super::super::texts::weekday(t, word).map_or_else(|| word.to_owned(), str::to_owned)
}
