//! MessagePack with field names: the form of everything that is kept or sent between nodes and is
//! not a log entry. Names (not positions) let a later version add a field with a default.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes of `value`.
pub fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("our own types always serialize")
}

/// Appends the bytes of `value`.
pub fn put<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    rmp_serde::encode::write_named(out, value).expect("our own types always serialize");
}

/// The same without the names of the fields, for what there is very much of: its layout changes with a version of its
/// own.
pub fn put_dense<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    rmp_serde::encode::write(out, value).expect("our own types always serialize");
}

/// Lists and maps within each other. Nothing that is kept or sent comes near it, and each takes from the stack of
/// the thread that reads: the default of 1024 is more than a thread has.
const DEPTH_MAX: usize = 64;

/// The inverse of [`to_bytes`], [`put`] and [`put_dense`]; what is nested deeper than [`DEPTH_MAX`] is an error.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut reader)
}

/// A hash of 32 bytes as bytes, not as a list of numbers; for `#[serde(with)]`.
pub mod hash_bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(hash: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(hash)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        bytes.try_into().map_err(|_| serde::de::Error::custom("a hash has 32 bytes"))
    }
}
