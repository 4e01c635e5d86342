//! Lists of addresses in `:authority`.
//!
//! A gRPC client in C, or in a language based on it, that is configured with several addresses of its server
//! (`ipv4:A:1,B:1`) sends the whole list as `:authority`. That is no valid authority, and the connection would be
//! refused for it. Its value is not used here, so its further separators are replaced by dots, byte for byte, before
//! HTTP/2 is parsed.

use std::mem;

const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// Encoding of the literal name, uncompressed, as such clients send it; the value follows in the same way.
const NAME: &[u8; 11] = b"\x0a:authority";
const COMPRESSED: u8 = 0x80;
/// Length from which on the encoding uses further bytes.
const LENGTH_MAX: u8 = 0x7f;

/// Parser of the bytes after the preface, as they arrive.
#[derive(Debug, Default)]
pub(super) struct AuthorityLists {
    head: [u8; HEAD_BYTES],
    head_read: usize,
    /// Bytes of the frame that have not arrived yet.
    left: usize,
    inside: Inside,
}

/// Position within a block of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    /// Number of bytes of the name seen.
    Name(usize),
    Length,
    LongLength {
        value: usize,
        shift: u32,
    },
    Value {
        left: usize,
        is_list: bool,
    },
}

impl Default for Inside {
    fn default() -> Self {
        Inside::Name(0)
    }
}

impl AuthorityLists {
    /// Replaces each list in the arrived bytes by one authority.
    pub(super) fn mend(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let taken = if self.left == 0 { self.read_head(bytes) } else { self.read_payload(bytes) };
            bytes = &mut mem::take(&mut bytes)[taken..];
        }
    }

    fn read_head(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(HEAD_BYTES - self.head_read);
        self.head[self.head_read..][..taken].copy_from_slice(&bytes[..taken]);
        self.head_read += taken;
        if self.head_read == HEAD_BYTES {
            self.head_read = 0;
            self.left = self.head[..3].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            if self.head[3] == HEADERS {
                self.inside = Inside::default();
            }
        }
        taken
    }

    fn read_payload(&mut self, bytes: &mut [u8]) -> usize {
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        if matches!(self.head[3], HEADERS | CONTINUATION) {
            for byte in &mut bytes[..taken] {
                self.inside = self.inside.after(byte);
            }
        }
        taken
    }
}

impl Inside {
    fn after(self, byte: &mut u8) -> Inside {
        match self {
            Inside::Name(seen) if *byte == NAME[seen] => {
                if seen + 1 == NAME.len() {
                    Inside::Length
                } else {
                    Inside::Name(seen + 1)
                }
            }
            Inside::Name(_) => Inside::Name(usize::from(*byte == NAME[0])),
            Inside::Length if *byte & COMPRESSED != 0 || *byte == 0 => Inside::default(),
            Inside::Length if *byte == LENGTH_MAX => Inside::LongLength { value: LENGTH_MAX.into(), shift: 0 },
            Inside::Length => Inside::Value { left: usize::from(*byte), is_list: false },
            // A value of that length is refused anyway.
            Inside::LongLength { shift, .. } if shift > 14 => Inside::default(),
            Inside::LongLength { value, shift } => {
                let value = value + (usize::from(*byte & LENGTH_MAX) << shift);
                let is_last = *byte & COMPRESSED == 0;
                if is_last {
                    Inside::Value { left: value, is_list: false }
                } else {
                    Inside::LongLength { value, shift: shift + 7 }
                }
            }
            Inside::Value { left, is_list } => {
                let is_list = is_list || *byte == b',';
                if is_list && matches!(*byte, b',' | b':' | b'[' | b']') {
                    *byte = b'.';
                }
                if left > 1 { Inside::Value { left: left - 1, is_list } } else { Inside::default() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::uri::Authority;

    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[kind, 4, 0, 0, 0, 1], payload].concat()
    }

    fn named(authority: &str) -> Vec<u8> {
        let length = match authority.len() {
            short @ 0..127 => vec![u8::try_from(short).expect("short")],
            long => vec![
                127,
                0x80 | u8::try_from((long - 127) & 127).expect("7 bits"),
                u8::try_from((long - 127) >> 7).expect("short"),
            ],
        };
        [b"\x83\x86@\x0a:authority", length.as_slice(), authority.as_bytes(), b"@\x02te\x08trailers"].concat()
    }

    /// Replaces lists with every split of the bytes.
    fn mended(bytes: &[u8]) -> Vec<u8> {
        let whole = {
            let mut bytes = bytes.to_vec();
            AuthorityLists::default().mend(&mut bytes);
            bytes
        };
        for size in 1..40 {
            let (mut lists, mut bytes) = (AuthorityLists::default(), bytes.to_vec());
            bytes.chunks_mut(size).for_each(|part| lists.mend(part));
            assert_eq!(bytes, whole, "in parts of {size}");
        }
        whole
    }

    #[test]
    fn a_list_becomes_one_authority() {
        let list = "10.0.0.1:8091,[::1]:8091,10.0.0.2:8091";
        let one = "10.0.0.1:8091....1..8091.10.0.0.2.8091";
        assert!(list.parse::<Authority>().is_err() && one.parse::<Authority>().is_ok());
        let sent = [frame(4, b"\0\x05\0\0@\0"), frame(1, &named(list)), frame(1, &named(list))].concat();
        let expected = [frame(4, b"\0\x05\0\0@\0"), frame(1, &named(one)), frame(1, &named(one))].concat();
        assert_eq!(mended(&sent), expected);
        let long = vec!["10.0.0.1:8091"; 40].join(",");
        let mended = mended(&frame(1, &named(&long)));
        assert!(!mended.contains(&b','), "{mended:?}");
    }

    #[test]
    fn all_else_stays() {
        let list = "10.0.0.1:8091,10.0.0.2:8091";
        for sent in [
            frame(1, &named("10.0.0.1:8091")),
            frame(1, &named("[::1]:8091")),
            frame(0, &named(list)),
            frame(1, &[b"@\x05:path\x20".as_slice(), list.as_bytes()].concat()),
            frame(1, &[b"@\x0a:authority\x9b".as_slice(), list.as_bytes()].concat()),
        ] {
            assert_eq!(mended(&sent), sent);
        }
    }
}
