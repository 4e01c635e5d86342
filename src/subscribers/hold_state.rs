//! State of a client with respect to a release: its report, and whether it has the release that it should have.

use serde::{Deserialize, Serialize};

/// Report of a client on what it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applied {
    Yes,
    Refused,
}

impl Applied {
    /// Returns the name used in answers.
    pub fn word(self) -> &'static str {
        match self {
            Applied::Yes => "yes",
            Applied::Refused => "refused",
        }
    }
}

/// State of a client with respect to the release that it should have, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldState {
    /// The client reported that it could not apply the release.
    Refused,
    /// The client does not have the release.
    Behind,
    /// The client has the release and reported nothing.
    Held,
    /// The client reported that it applied the release.
    Applied,
}

impl HoldState {
    pub const ALL: [HoldState; 4] = [HoldState::Refused, HoldState::Behind, HoldState::Held, HoldState::Applied];

    /// Derives the state from the client's report and from whether it has the release that it should have.
    pub fn of(word: Option<Applied>, is_current: bool) -> HoldState {
        match word {
            Some(Applied::Refused) => HoldState::Refused,
            _ if !is_current => HoldState::Behind,
            Some(Applied::Yes) => HoldState::Applied,
            None => HoldState::Held,
        }
    }
}
