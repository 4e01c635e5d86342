//! MessagePack with field names: the form of everything that is kept or sent between nodes and is
//! not a log entry. Names (not positions) let a later version add a field with a default.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes of `value`.
pub fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("our own types always serialize")
}

/// The inverse of [`to_bytes`].
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    rmp_serde::from_slice(bytes)
}
