//! Parts of a row: the call, and the law that determines its answer.

use axum::http::Method;
use serde_json::Value;

use super::things::{Need, Thing};
use super::{Place, method};
use crate::model::grant::Verb::{self, Discover, Edit, Read};

/// Rule that determines the answer.
#[derive(Debug)]
pub(super) enum Law {
    /// The same answer for every caller, with or without a token.
    Open(u64),
    /// Success for every holder of a token.
    Holder(u64),
    /// Success for holders of the verb on everything.
    Whole(Verb, u64),
    /// Requires all verbs, at the place of the thing and at its target; `missing` is the code for callers that do not
    /// see it. A caller without the verbs anywhere is refused at once.
    Write { verbs: &'static [Verb], stands: Option<Place>, goes: Vec<Place>, missing: u64, code: u64 },
    /// Requires any of the verbs; `missing` is 200000 if the answer is an empty list.
    Read { verbs: &'static [Verb], place: Place, missing: u64 },
    /// A heartbeat of an instance whose health is not checked.
    Beat,
}

/// Query and body of a call.
pub(super) struct Ask {
    pub(super) query: String,
    pub(super) body: Value,
}

pub(super) struct Row {
    pub(super) method: Method,
    pub(super) path: String,
    /// Mark that distinguishes it from other rows of the route.
    pub(super) case: &'static str,
    pub(super) law: Law,
    pub(super) need: Need,
    /// Verbs without which it is refused at once, if fewer than all.
    pub(super) asks: Option<&'static [Verb]>,
    /// True if the thing acts in the other namespace too, and is visible there.
    pub(super) is_felt_elsewhere: bool,
    /// True if the answer is only a count.
    pub(super) is_count: bool,
    /// True if the answer has nothing of the thing itself.
    pub(super) is_nameless: bool,
    pub(super) ends_token: bool,
    pub(super) ask: Box<dyn Fn(&Thing) -> Ask>,
}

impl Row {
    pub(super) fn new(word: &str, path: impl Into<String>, law: Law, ask: impl Fn(&Thing) -> Ask + 'static) -> Row {
        let (method, path, ask) = (method(word), path.into(), Box::new(ask));
        Row {
            method,
            path,
            case: "",
            law,
            need: Need::Nothing,
            asks: None,
            is_felt_elsewhere: false,
            is_count: false,
            is_nameless: false,
            ends_token: false,
            ask,
        }
    }

    pub(super) fn case(self, case: &'static str) -> Row {
        Row { case, ..self }
    }

    pub(super) fn needs(self, need: Need) -> Row {
        Row { need, ..self }
    }

    pub(super) fn asks(self, verbs: &'static [Verb]) -> Row {
        Row { asks: Some(verbs), ..self }
    }

    pub(super) fn felt_elsewhere(self) -> Row {
        Row { is_felt_elsewhere: true, ..self }
    }

    pub(super) fn nameless(self) -> Row {
        Row { is_nameless: true, ..self }
    }

    pub(super) fn counts(self) -> Row {
        Row { is_count: true, ..self }
    }
}

pub(super) fn query(text: String) -> Ask {
    Ask { query: format!("?{text}"), body: Value::Null }
}

pub(super) fn body(body: Value) -> Ask {
    Ask { query: String::new(), body }
}

pub(super) fn nothing(_: &Thing) -> Ask {
    body(Value::Null)
}

/// Returns the law of a change; callers that do not see the thing get `missing`.
pub(super) fn change(verbs: &'static [Verb], missing: u64) -> Law {
    Law::Write { verbs, stands: Some(Place::Thing), goes: Vec::new(), missing, code: 200_000 }
}

pub(super) fn create(verbs: &'static [Verb]) -> Law {
    Law::Write { verbs, stands: None, goes: vec![Place::Thing], missing: 200_000, code: 200_000 }
}

pub(super) fn with_code(law: Law, code: u64) -> Law {
    match law {
        Law::Write { verbs, stands, goes, missing, .. } => Law::Write { verbs, stands, goes, missing, code },
        other => other,
    }
}

pub(super) fn into(law: Law, place: Place) -> Law {
    match law {
        Law::Write { verbs, stands, missing, code, .. } => {
            Law::Write { verbs, stands, goes: vec![place], missing, code }
        }
        other => other,
    }
}

/// Adds a place where the thing acts.
pub(super) fn acting(law: Law, place: Place) -> Law {
    match law {
        Law::Write { verbs, stands, mut goes, missing, code } => {
            goes.push(place);
            Law::Write { verbs, stands, goes, missing, code }
        }
        other => other,
    }
}

pub(super) fn of_namespace(stands: bool, missing: u64) -> Law {
    let (stands, goes) = if stands { (Some(Place::Namespace), vec![]) } else { (None, vec![Place::Namespace]) };
    Law::Write { verbs: &[Edit], stands, goes, missing, code: 200_000 }
}

pub(super) fn listed(place: Place) -> Law {
    Law::Read { verbs: &[Read], place, missing: 200_000 }
}

pub(super) fn readable(missing: u64) -> Law {
    Law::Read { verbs: &[Read], place: Place::Thing, missing }
}

pub(super) fn discovered(place: Place, missing: u64) -> Law {
    Law::Read { verbs: &[Read, Discover], place, missing }
}
