//! Parts of a row: the call, and the law by which it is answered.

use axum::http::Method;
use serde_json::Value;

use super::things::{Need, Thing};
use super::{Place, method};
use crate::model::grant::Verb::{self, Discover, Edit, Read};

/// Ground of the answer.
#[derive(Debug)]
pub(super) enum Law {
    /// The same for everybody, token or none.
    Open(u64),
    /// For every holder of a token.
    Holder(u64),
    /// For who may do this on everything.
    Whole(Verb, u64),
    /// All verbs, where the thing is and where it goes or acts; `missing` for who does not see it. Who has a verb of it
    /// nowhere is refused at once.
    Write { verbs: &'static [Verb], stands: Option<Place>, goes: Vec<Place>, missing: u64, code: u64 },
    /// Any of the verbs; `missing` is 200000 where a list is empty.
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
    /// Mark that tells it from other rows of the route.
    pub(super) case: &'static str,
    pub(super) law: Law,
    pub(super) need: Need,
    /// The verbs without which it is refused at once, where that are fewer than all.
    pub(super) asks: Option<&'static [Verb]>,
    /// The thing acts in the other namespace too, and is seen there.
    pub(super) is_felt_elsewhere: bool,
    /// Only a number is seen.
    pub(super) is_count: bool,
    /// Nothing of the thing itself is in the answer.
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

/// A change of a thing, which is what who does not see it is told to be `missing`.
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

/// The same, where it also acts.
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
