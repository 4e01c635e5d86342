//! Controls of a form.

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
    form: Widget,
}

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
const SECRET: [&str; 2] = ["password", "secret"];

/// Renderer of the controls of a form.
pub(in crate::console) struct FormRenderer<'a> {
    pub(in crate::console) t: &'static Texts,
    /// Refusal; it begins with the path of the faulty field, if there is one.
    pub(in crate::console) fault: Option<&'a str>,
}

impl FormRenderer<'_> {
    /// Returns the controls of an object.
    pub(in crate::console) fn controls(&self, kind: &FieldKind, value: &Value) -> Vec<Control> {
        match kind {
            FieldKind::Object(fields) => self.fields(fields, value, "").collect(),
            _ => Vec::new(),
        }
    }

    fn fields(&self, fields: &[Field], value: &Value, at: &str) -> impl Iterator<Item = Control> {
        fields.iter().map(move |field| self.field(field, &value[&field.name], &pointer(at, &field.name)))
    }

    fn field(&self, field: &Field, value: &Value, at: &str) -> Control {
        let mut form = match (&field.kind, value) {
            (FieldKind::Toggle, _) if field.is_optional => Widget::Maybe { value: value.as_bool().map_or("", word) },
            (kind, Value::Null) if field.is_optional && kind.grows() => Widget::Absent,
            (kind, value) => self.form(kind, value, at, field.is_optional),
        };
        if let Widget::Text { is_long, is_secret, .. } = &mut form {
            *is_long |= EDITED.contains(&field.name.as_str());
            *is_secret = SECRET.contains(&field.name.as_str());
        }
        self.control(at, field.name.clone(), field.about.clone(), form)
    }

    fn control(&self, at: &str, label: String, about: String, form: Widget) -> Control {
        // A group shows only faults that none of its parts shows.
        let own = self.fault.filter(|fault| !form.has_part_at_fault() && is_about(fault, &path(at)));
        let fault = own.map(str::to_owned);
        Control { t: self.t, pointer: at.to_owned(), label, about, fault, form }
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
                    self.fields(fields, value, at).zip(fields).partition(|(control, field)| waits(control, field));
                let controls = |parts: Vec<(Control, &Field)>| parts.into_iter().map(|(control, _)| control).collect();
                Widget::Group { parts: controls(parts), more: controls(more), is_optional, is_short }
            }
            FieldKind::List(item) | FieldKind::Map(item) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate();
                let item = |(index, value): (usize, &Value)| {
                    let pointer = format!("{at}/{index}");
                    let form = self.form(item, value, &pointer, false);
                    let label = value["name"].as_str().unwrap_or_default().to_owned();
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
fn is_about(fault: &str, path: &str) -> bool {
    let rest = fault.strip_prefix(path).filter(|_| !path.is_empty());
    rest.is_some_and(|rest| rest.starts_with(['.', '[', ' ', ':']))
}

impl Control {
    /// Sets a label that differs from the field's name.
    pub(in crate::console) fn called(self, label: &str) -> Control {
        Control { label: label.to_owned(), ..self }
    }

    fn is_at_fault(&self) -> bool {
        self.fault.is_some() || self.form.has_part_at_fault()
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
