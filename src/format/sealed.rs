//! The text form of a secret that is sealed so that equal texts stay equal: the name of its key, a dot, and base64.
//!
//! The catalog reads the name of the key, and nothing else; `data_key` makes and opens such texts.

/// Bytes of the name of a key.
pub(crate) const ID_BYTES: usize = 8;
/// Separator between the name of the key and what is sealed under it.
pub(crate) const ID_END: char = '.';

/// The name of the key under which a text was sealed alike; empty for any other text.
pub fn key_of(sealed: &str) -> &str {
    let is_name = |id: &&str| id.len() == 2 * ID_BYTES && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    sealed.split_once(ID_END).map(|(id, _)| id).filter(is_name).unwrap_or_default()
}
