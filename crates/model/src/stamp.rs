//! Time and author of a change.

use serde::{Deserialize, Serialize};

use super::time::Timestamp;

/// Time and author of an action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub time: Timestamp,
    pub by: String,
}
