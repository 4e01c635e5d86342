//! MessagePack with field names: the form of everything that is stored or sent between nodes, except log entries. Names
//! instead of positions let a later version add a field with a default.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Encodes `value`.
pub fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("our own types always serialize")
}

/// Appends the encoded `value` to `out`.
pub fn put<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    rmp_serde::encode::write_named(out, value).expect("our own types always serialize");
}

/// Appends `value` without field names, for data of large volume. Its layout has a version of its own.
pub fn put_dense<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    rmp_serde::encode::write(out, value).expect("our own types always serialize");
}

/// Highest nesting of lists and maps. Valid data is far below it. Each level uses the reader's stack, which is too
/// small for the library's default of 1024.
const DEPTH_MAX: usize = 64;

/// Decodes [`to_bytes`], [`put`] and [`put_dense`]; nesting beyond [`DEPTH_MAX`] is an error.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut reader)
}

/// Encodes a hash of 32 bytes as bytes instead of a list of numbers; for `#[serde(with)]`.
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
