//! Compression of responses with gzip, for clients that accept it (RFC 9110, 12.5.3). No other coding is offered.
//!
//! A response that many clients get is compressed once. `reads::renderings` stores compressed renderings of config
//! files; [`CompressedAnswers`] caches the most recent other responses by their digests.

use std::io::Write;

use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use sha2::{Digest, Sha256};

use crate::model::limits;

const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const VARIES_BY: HeaderValue = HeaderValue::from_static("accept-encoding");
/// Equivalent names of the coding (RFC 9110, 8.4.1.3).
const GZIP_NAMES: [&str; 2] = ["gzip", "x-gzip"];
const IDENTITY: &str = "identity";
const ANY: &str = "*";
/// Default quality, in thousandths.
const WHOLE: u16 = 1000;

/// Coding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Not compressed.
    Identity,
    Gzip,
}

/// Codings that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Responses are not compressed.
    Identity,
    /// Responses are compressed if they are large enough.
    Gzip,
    /// Every response is compressed, because the client accepts nothing else.
    GzipAlone,
}

impl Accepted {
    /// Parses the headers of a request. A coding with an unreadable quality, and a whole header that is unreadable,
    /// count as not accepted. At equal quality gzip is preferred.
    pub fn of(headers: &HeaderMap) -> Accepted {
        let [mut gzip, mut identity, mut any] = [None; 3];
        for value in headers.get_all(header::ACCEPT_ENCODING) {
            let Ok(text) = value.to_str() else { return Accepted::Identity };
            for member in text.split(',') {
                let mut parts = member.split(';').map(str::trim);
                let coding = parts.next().unwrap_or_default();
                let quality = parts.next().map_or(Some(WHOLE), quality).unwrap_or(0);
                let is = |name: &&str| coding.eq_ignore_ascii_case(name);
                let place = if GZIP_NAMES.iter().any(is) {
                    &mut gzip
                } else if is(&IDENTITY) {
                    &mut identity
                } else if is(&ANY) {
                    &mut any
                } else {
                    continue;
                };
                // The first of two equal names counts.
                place.get_or_insert(quality);
            }
        }
        let gzip = gzip.or(any).unwrap_or(0);
        match identity.or(any.filter(|any| *any == 0)) {
            _ if gzip == 0 => Accepted::Identity,
            Some(0) => Accepted::GzipAlone,
            Some(identity) if identity > gzip => Accepted::Identity,
            _ => Accepted::Gzip,
        }
    }

    /// Reports whether a response of this size is compressed.
    pub fn is_worth(self, bytes: usize) -> bool {
        match self {
            Accepted::Identity => false,
            Accepted::Gzip => bytes >= limits::COMPRESSED_FROM_BYTES,
            Accepted::GzipAlone => true,
        }
    }
}

/// Parses a parameter like `q=0.5` into thousandths. Returns `None` if it is invalid by RFC 9110 (12.4.2).
fn quality(parameter: &str) -> Option<u16> {
    let (name, value) = parameter.split_once('=')?;
    let (whole, rest) = value.split_once('.').unwrap_or((value, ""));
    let is_valid =
        name.eq_ignore_ascii_case("q") && rest.len() <= 3 && rest.bytes().all(|digit| digit.is_ascii_digit());
    let thousandths: u16 = format!("{rest:0<3}").parse().ok().filter(|_| is_valid)?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(WHOLE),
        _ => None,
    }
}

/// Sets the headers for the coding of a response, and for its dependence on the request.
pub fn mark(headers: &mut HeaderMap, coding: Coding) {
    headers.insert(header::VARY, VARIES_BY);
    if coding == Coding::Gzip {
        headers.insert(header::CONTENT_ENCODING, GZIP);
    }
}

/// Compresses at a zlib level from 1 (fast) to 9 (small).
pub fn gzip(bytes: &[u8], level: u32) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 3), Compression::new(level));
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all").into_boxed_slice().into()
}

/// Digest of a response: 16 bytes of SHA-256.
type AnswerMark = [u8; 16];

#[derive(Clone)]
struct Weight;

impl Weighter<AnswerMark, Bytes> for Weight {
    fn weight(&self, _: &AnswerMark, compressed: &Bytes) -> u64 {
        limits::COMPRESSED_ANSWER_OVERHEAD_BYTES + compressed.len() as u64
    }
}

/// Cache of compressed responses by the digest of their content. Thousands of clients that wait for the same change get
/// equal responses.
pub struct CompressedAnswers(Cache<AnswerMark, Bytes, Weight>); // bound: compressed

impl Default for CompressedAnswers {
    fn default() -> Self {
        CompressedAnswers::new(limits::COMPRESSED_ANSWERS_BYTES)
    }
}

impl CompressedAnswers {
    fn new(bytes_max: u64) -> Self {
        let mut options = OptionsBuilder::new();
        let usual = usize::try_from(bytes_max / limits::COMPRESSED_FROM_BYTES as u64).unwrap_or(usize::MAX);
        options.shards(1).estimated_items_capacity(usual).weight_capacity(bytes_max);
        let options = options.build().expect("both capacities are given");
        let (hashing, cycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        CompressedAnswers(Cache::with_options(options, Weight, hashing, cycle))
    }

    /// Returns a compressed response, from the cache if possible. A response larger than the whole cache is compressed
    /// each time.
    pub fn gzip(&self, answer: &[u8]) -> Bytes {
        let mut mark = AnswerMark::default();
        mark.copy_from_slice(&Sha256::digest(answer)[..size_of::<AnswerMark>()]);
        let made = || Ok::<_, std::convert::Infallible>(gzip(answer, limits::COMPRESSION_FAST));
        match self.0.get_or_insert_with(&mark, made) {
            Ok(compressed) => compressed,
            Err(never) => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn accepted(values: &[&str]) -> Accepted {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        Accepted::of(&headers)
    }

    #[test]
    fn a_client_gets_what_it_accepts_and_prefers() {
        use Accepted::*;
        for (values, expected) in [
            (&[][..], Identity),
            (&[""], Identity),
            (&["gzip"], Gzip),
            (&["GZIP"], Gzip),
            (&["x-gzip"], Gzip),
            (&["gzip, deflate, br, zstd"], Gzip),
            (&["deflate", "gzip;q=0.1"], Gzip),
            (&["br, deflate"], Identity),
            (&["*"], Gzip),
            (&["*;q=0"], Identity),
            (&["gzip;q=0"], Identity),
            (&["gzip;q=0.000, *"], Identity),
            (&["gzip ; q=0.001"], Gzip),
            (&["identity"], Identity),
            (&["identity, gzip"], Gzip),
            (&["identity;q=0.5, gzip"], Gzip),
            (&["identity, gzip;q=0.5"], Identity),
            (&["identity;q=0, gzip"], GzipAlone),
            (&["*;q=0, gzip"], GzipAlone),
            (&["identity;q=0"], Identity),
            (&["*;q=0, identity, gzip;q=1.0"], Gzip),
            (&["gzip;q=2"], Identity),
            (&["gzip;q=0.0001"], Identity),
            (&["gzip;q=a"], Identity),
            (&["gzip;q="], Identity),
            (&["gzip;v=1"], Identity),
            (&["gzip;q=1.1"], Identity),
            (&["gzip;q=0, gzip"], Identity),
            (&["gzip\u{e9}, gzip"], Identity),
            (&["gzipped"], Identity),
        ] {
            assert_eq!(accepted(values), expected, "{values:?}");
        }
    }

    #[test]
    fn small_answers_are_compressed_for_who_takes_no_other_alone() {
        let limit = limits::COMPRESSED_FROM_BYTES;
        for (accepted, small, large) in
            [(Accepted::Identity, false, false), (Accepted::Gzip, false, true), (Accepted::GzipAlone, true, true)]
        {
            assert_eq!((accepted.is_worth(limit - 1), accepted.is_worth(limit)), (small, large), "{accepted:?}");
        }
    }

    fn read(compressed: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        GzDecoder::new(compressed).read_to_end(&mut plain).expect("gzip");
        plain
    }

    #[test]
    fn equal_answers_are_compressed_once_within_a_bound() {
        let answers = CompressedAnswers::new(64 * 1024);
        let answer = |number: usize| format!("{{\"code\":200000,\"n\":{number},\"rows\":{:?}}}", vec![number; 1000]);
        let first = answers.gzip(answer(1).as_bytes());
        assert_eq!(read(&first), answer(1).as_bytes());
        assert!(first.len() < answer(1).len() / 4, "{}", first.len());
        assert_eq!(answers.gzip(answer(1).as_bytes()).as_ptr(), first.as_ptr(), "it is kept");
        for number in 2..2000 {
            assert_eq!(read(&answers.gzip(answer(number).as_bytes())), answer(number).as_bytes());
            assert!(answers.0.weight() <= 64 * 1024);
        }
    }
}
