//! Percent-encoding, byte by byte: `%2F` for `/`.

use std::fmt::{self, Write};

/// Writes a text. A character is escaped as a whole unless `is_kept` accepts all its bytes.
pub fn write_escaped(to: &mut impl Write, text: &str, is_kept: impl Fn(u8) -> bool) -> fmt::Result {
    for character in text.chars() {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).as_bytes();
        if bytes.iter().all(|byte| is_kept(*byte)) {
            to.write_char(character)?;
        } else {
            bytes.iter().try_for_each(|byte| write!(to, "%{byte:02X}"))?;
        }
    }
    Ok(())
}

pub fn escaped(text: &str, is_kept: impl Fn(u8) -> bool) -> String {
    let mut made = String::with_capacity(text.len());
    write_escaped(&mut made, text, is_kept).expect("a text takes everything");
    made
}

/// Reports whether names of resources have this byte of a namespace unescaped.
pub fn is_in_namespace(byte: u8) -> bool {
    byte != b'/' && byte != b'%'
}

/// Reports whether a byte may occur in the path of a URI.
pub fn is_in_uri(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte)
}

/// Decodes escapes; invalid ones are left unchanged.
pub fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let number = behind.get(..2).filter(|_| first == b'%').and_then(|digits| {
            let digits =
                std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|d| d.is_ascii_hexdigit()))?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(number.unwrap_or(first));
        rest = if number.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
