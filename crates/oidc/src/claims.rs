//! Claims from more than one source.

use serde_json::{Map, Value};

/// Adds to the claims of an ID token those that only the userinfo endpoint sends. No claim of the token is replaced.
pub fn fill_missing(claims: &mut Map<String, Value>, userinfo: Map<String, Value>) {
    for (name, value) in userinfo {
        claims.entry(name).or_insert(value);
    }
}
