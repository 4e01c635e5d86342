//! Lines of a form: words with slots between them.

use std::collections::BTreeSet;

use askama::Template;
use serde_json::Value;

use super::{hints, labels};
use crate::console::sheet::FieldKind;
use crate::console::sheet::edit::kind_at;
use crate::console::sheet::read::path;
use crate::console::sheet::show::{Control, FormRenderer, ShownElsewhere, is_about};
use crate::console::texts::Texts;
use crate::model::rule::matching::MatchType;
use crate::model::wire::Words;

/// Part of a line.
#[derive(Template)]
#[template(path = "rule_piece.html")]
pub(super) enum FormPiece {
    Words(String),
    Slot(FormSlot),
    /// A button that changes the form.
    Button {
        text: String,
        label: String,
        /// Value of the button: the change.
        edit: String,
        /// Address of the form, with the id of the part that is shown next.
        target: String,
    },
}

/// A field within a line.
pub(super) struct FormSlot {
    /// Name under which it is sent.
    pointer: String,
    label: String,
    value: String,
    fault: Option<String>,
    control: SlotControl,
}

enum SlotControl {
    Text {
        /// Id of the list of offered values; empty for none.
        list: &'static str,
        size: usize,
        is_number: bool,
    },
    Choice {
        /// Values with their texts.
        words: Vec<(String, String)>,
        /// True if other slots depend on the choice.
        redraws: bool,
    },
}

/// A line, with the id by which buttons refer to it.
pub(super) struct FormLine {
    pub(super) id: String,
    pub(super) pieces: Vec<FormPiece>,
}

/// Lines that belong together, such as those of a sub-rule.
pub(super) struct FormBlock {
    pub(super) id: String,
    /// Number of the sub-rule; 0 for other lines.
    pub(super) number: usize,
    pub(super) lines: Vec<FormLine>,
    pub(super) advanced: Vec<Control>,
}

impl FormBlock {
    pub(super) fn is_at_fault(&self) -> bool {
        self.advanced.iter().any(Control::is_at_fault)
    }
}

/// Form of a rule under construction.
pub(super) struct FormBuilder<'a> {
    pub(super) t: &'static Texts,
    pub(super) kind: &'a FieldKind,
    pub(super) value: &'a Value,
    pub(super) fault: Option<&'a str>,
    /// Address of the form.
    pub(super) action: &'a str,
    pub(super) shown: ShownElsewhere,
    pub(super) blocks: Vec<FormBlock>,
}

impl FormBuilder<'_> {
    pub(super) fn at(&self, pointer: &str) -> &Value {
        self.value.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub(super) fn text_at(&self, pointer: &str) -> String {
        match self.at(pointer) {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
    }

    /// Returns the number of items of a list.
    pub(super) fn len(&self, pointer: &str) -> usize {
        self.at(pointer).as_array().map_or(0, Vec::len)
    }

    fn slot(&mut self, pointer: &str, control: SlotControl) -> FormPiece {
        for (index, _) in pointer.match_indices('/').skip(1) {
            self.shown.touched.insert(pointer[..index].to_owned());
        }
        self.shown.slots.insert(pointer.to_owned());
        let field = pointer.rsplit('/').next().unwrap_or_default();
        let fault = self.fault.filter(|fault| is_about(fault, &path(pointer)));
        FormPiece::Slot(FormSlot {
            pointer: pointer.to_owned(),
            label: labels::field(self.t, field),
            value: self.text_at(pointer),
            fault: fault.map(str::to_owned),
            control,
        })
    }

    /// Returns a slot for a text, with the list of offered values.
    pub(super) fn text(&mut self, pointer: &str, list: &'static str) -> FormPiece {
        self.slot(pointer, SlotControl::Text { list, size: 14, is_number: false })
    }

    /// Returns a slot for a short text.
    pub(super) fn short(&mut self, pointer: &str) -> FormPiece {
        self.slot(pointer, SlotControl::Text { list: "", size: 5, is_number: false })
    }

    pub(super) fn number(&mut self, pointer: &str) -> FormPiece {
        self.slot(pointer, SlotControl::Text { list: "", size: 5, is_number: true })
    }

    /// Returns a slot for a switch whose absence has a meaning of its own.
    pub(super) fn switch(&mut self, pointer: &str) -> FormPiece {
        let f = &self.t.form;
        let words = [("true", f.is_enabled), ("false", f.is_off)];
        let words = words.map(|(word, text)| (word.to_owned(), text.to_owned())).to_vec();
        self.slot(pointer, SlotControl::Choice { words, redraws: false })
    }

    /// Returns a slot for one of the words of the field. `UNKNOWN` is offered only where it is the value.
    pub(super) fn choice(&mut self, pointer: &str, redraws: bool) -> FormPiece {
        let value = self.text_at(pointer);
        let words = match kind_at(self.kind, pointer) {
            Some(FieldKind::Choice(words)) => words.clone(),
            _ => Vec::new(),
        };
        let offered = words.into_iter().filter(|word| word != "UNKNOWN" || *word == value);
        let words = offered.map(|word| (word.clone(), labels::word(self.t, &word))).collect();
        self.slot(pointer, SlotControl::Choice { words, redraws })
    }

    /// Returns a slot for the comparison of a condition whose value may be absent: the part is then only present.
    fn comparison(&mut self, pointer: &str, may_be_absent: bool) -> FormPiece {
        let known = MatchType::ALL.iter().map(|(_, word)| ((*word).to_owned(), labels::word(self.t, word)));
        let mut words: Vec<_> = known.collect();
        if may_be_absent {
            words.push((String::new(), self.t.form.is_present.to_owned()));
        }
        self.slot(pointer, SlotControl::Choice { words, redraws: false })
    }

    pub(super) fn button(&self, text: String, label: &str, edit: String, shows: &str) -> FormPiece {
        let target = format!("{}#{shows}", self.action);
        FormPiece::Button { text, label: label.to_owned(), edit, target }
    }

    /// Returns the button that adds an item to a list.
    pub(super) fn add(&self, text: &str, list: &str) -> FormPiece {
        let shows = format!("{list}/{}", self.len(list));
        self.button(format!("+ {text}"), text, format!("add:{list}"), &shows)
    }

    /// Returns the button that removes an item.
    pub(super) fn remove(&self, item: &str) -> FormPiece {
        let parent = item.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.button("×".to_owned(), self.t.remove, format!("remove:{item}"), parent)
    }

    /// Fills the slots of a phrase, which are named in braces.
    pub(super) fn phrase(&self, phrase: &str, slots: Vec<(&str, FormPiece)>) -> Vec<FormPiece> {
        let mut slots = slots;
        let mut pieces = Vec::new();
        let words = |pieces: &mut Vec<FormPiece>, text: &str| {
            if !text.trim().is_empty() {
                pieces.push(FormPiece::Words(text.trim().to_owned()));
            }
        };
        let mut rest = phrase;
        while let Some((before, (name, after))) =
            rest.split_once('{').and_then(|(one, two)| Some((one, two.split_once('}')?)))
        {
            words(&mut pieces, before);
            if let Some(index) = slots.iter().position(|(known, _)| *known == name) {
                pieces.push(slots.remove(index).1);
            }
            rest = after;
        }
        words(&mut pieces, rest);
        pieces.extend(slots.into_iter().map(|(_, piece)| piece));
        pieces
    }

    /// Adds the lines of the conditions in a list, and the button that adds one.
    pub(super) fn conditions(&mut self, lines: &mut Vec<FormLine>, list: &str, words: (&str, &str)) {
        self.shown.rows.insert(list.to_owned());
        self.shown.touched.insert(list.to_owned());
        for index in 0..self.len(list) {
            let item = format!("{list}/{index}");
            let kind = self.text_at(&format!("{item}/type"));
            let has_key = !matches!(kind.as_str(), "METHOD" | "PATH" | "CALLER_IP");
            let offers = if kind == "CALLER_SERVICE" { "offer-services" } else { "" };
            let mut pieces = vec![FormPiece::Words(if index == 0 { words.0 } else { words.1 }.to_owned())];
            pieces.push(self.choice(&format!("{item}/type"), true));
            if has_key || !self.text_at(&format!("{item}/key")).is_empty() {
                pieces.push(
                    self.text(&format!("{item}/key"), if kind == "CALLER_SERVICE" { "offer-namespaces" } else { "" }),
                );
            }
            pieces.push(self.comparison(&format!("{item}/value/type"), true));
            pieces.push(self.text(&format!("{item}/value/value"), offers));
            pieces.push(self.remove(&item));
            lines.push(FormLine { id: item, pieces });
        }
        if self.len(list) == 0 {
            lines.push(FormLine {
                id: String::new(),
                pieces: vec![FormPiece::Words(self.t.form.every_call.to_owned())],
            });
        }
        lines.push(FormLine { id: list.to_owned(), pieces: vec![self.add(self.t.form.condition, list)] });
    }

    /// Returns the pieces of a condition on a value: the comparison and what it compares with.
    pub(super) fn matched(&mut self, pointer: &str, offers: &'static str) -> [FormPiece; 2] {
        let comparison = self.comparison(&format!("{pointer}/type"), false);
        [comparison, self.text(&format!("{pointer}/value"), offers)]
    }

    /// Adds the lines of a map of labels; values are texts, or conditions.
    pub(super) fn labels(&mut self, lines: &mut Vec<FormLine>, map: &str, phrase: &str, has_conditions: bool) {
        self.shown.rows.insert(map.to_owned());
        self.shown.touched.insert(map.to_owned());
        for index in 0..self.len(map) {
            let item = format!("{map}/{index}");
            let key = self.text(&format!("{item}/key"), "offer-labels");
            let mut slots = vec![("key", key)];
            match has_conditions {
                true => {
                    let [comparison, value] = self.matched(&format!("{item}/value"), "offer-values");
                    slots.extend([("is", comparison), ("value", value)]);
                }
                false => {
                    slots.push(("is", FormPiece::Words("=".to_owned())));
                    slots.push(("value", self.text(&format!("{item}/value"), "offer-values")));
                }
            }
            let mut pieces = self.phrase(phrase, slots);
            pieces.push(self.remove(&item));
            lines.push(FormLine { id: item, pieces });
        }
        lines.push(FormLine { id: map.to_owned(), pieces: vec![self.add(self.t.form.label, map)] });
    }

    /// Adds a block of lines without a number.
    pub(super) fn block(&mut self, lines: Vec<Vec<FormPiece>>) {
        let lines = lines.into_iter().map(|pieces| FormLine { id: String::new(), pieces }).collect();
        self.blocks.push(FormBlock { id: String::new(), number: 0, lines, advanced: Vec::new() });
    }

    /// Adds a block for each sub-rule of a list, and the button that adds one.
    pub(super) fn sub_rules(&mut self, list: &str, add: &str, lines_of: impl Fn(&mut Self, &str) -> Vec<FormLine>) {
        self.shown.touched.insert(list.to_owned());
        for index in 0..self.len(list) {
            let item = format!("{list}/{index}");
            let mut lines = lines_of(self, &item);
            let mut pieces = Vec::new();
            if index > 0 {
                let up = self.t.up;
                pieces.push(self.button(format!("↑ {up}"), up, format!("up:{item}"), list));
            }
            let removal = format!("{} {} {}", self.t.remove, add, index + 1);
            pieces.push(self.button(removal.clone(), &removal, format!("remove:{item}"), list));
            lines.push(FormLine { id: String::new(), pieces });
            self.shown.touched.insert(item.clone());
            let advanced = self.rest(&item);
            self.blocks.push(FormBlock { id: item, number: index + 1, lines, advanced });
        }
        // What the blocks have is not repeated below.
        self.shown.slots.insert(list.to_owned());
        let add = self.add(add, list);
        let lines = vec![FormLine { id: list.to_owned(), pieces: vec![add] }];
        self.blocks.push(FormBlock { id: String::new(), number: 0, lines, advanced: Vec::new() });
    }

    /// Returns controls for everything within a value that no line has.
    pub(super) fn rest(&self, pointer: &str) -> Vec<Control> {
        let Some(kind) = (if pointer.is_empty() { Some(self.kind) } else { kind_at(self.kind, pointer) }) else {
            return Vec::new();
        };
        let renderer = FormRenderer {
            t: self.t,
            fault: self.fault,
            action: self.action,
            shown: Some(&self.shown),
            label: Some(labels::field),
            word: Some(labels::word),
            about: Some(hints::hint),
        };
        renderer.controls_at(kind, self.at(pointer), pointer)
    }

    /// Returns the names of empty fields that mark values as present.
    pub(super) fn marks(&self) -> BTreeSet<String> {
        self.shown.touched.clone()
    }
}
