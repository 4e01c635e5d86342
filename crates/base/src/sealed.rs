//! Text form of secrets that are sealed so that equal texts stay equal: the name of the key, a dot, and base64.
//!
//! The catalog reads only the name of the key; `data_key` writes and opens such texts.

/// Bytes of the name of a key.
pub const ID_BYTES: usize = 8;
/// Separator between the name of the key and the sealed text.
pub const ID_END: char = '.';

/// Returns the name of the key under which a text was sealed alike; empty for any other text.
pub fn key_of(sealed: &str) -> &str {
    let is_name = |id: &&str| id.len() == 2 * ID_BYTES && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    sealed.split_once(ID_END).map(|(id, _)| id).filter(is_name).unwrap_or_default()
}
