//! State of a client with a release: its own word on it, and whether it has what it should have.

use serde::{Deserialize, Serialize};

/// A client's own word on what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applied {
    Yes,
    Refused,
}

impl Applied {
    /// Word in answers.
    pub fn word(self) -> &'static str {
        match self {
            Applied::Yes => "yes",
            Applied::Refused => "refused",
        }
    }
}

/// State of a client with the release that it should have, the most pressing first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldState {
    /// It said that it could not apply it.
    Refused,
    /// It does not have it.
    Behind,
    /// It has it and said nothing.
    Held,
    /// It said that it has applied it.
    Applied,
}

impl HoldState {
    pub const ALL: [HoldState; 4] = [HoldState::Refused, HoldState::Behind, HoldState::Held, HoldState::Applied];

    /// By the client's own word, and by whether it has what it should have.
    pub fn of(word: Option<Applied>, is_current: bool) -> HoldState {
        match word {
            Some(Applied::Refused) => HoldState::Refused,
            _ if !is_current => HoldState::Behind,
            Some(Applied::Yes) => HoldState::Applied,
            None => HoldState::Held,
        }
    }
}
