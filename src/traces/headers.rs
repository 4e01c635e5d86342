//! File with additional headers of every post, for a collector that requires a token.
//!
//! Each line is `name: value`; blank lines and those that begin with `#` are ignored. Errors name the number of the
//! line and repeat neither name nor value, because a secret may be in the place of a name.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use reqwest::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderName,
    HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use zeroize::Zeroizing;

/// Maximum size of the file, equal to common limits for the head of a request.
const FILE_BYTES_MAX: usize = 16 * 1024;
/// Headers set by the node itself: content, destination and transfer.
const OWN: [HeaderName; 12] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    EXPECT,
    HOST,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    USER_AGENT,
];
const BLANKS: [char; 2] = [' ', '\t'];

/// Reason why a file of headers is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeadersError {
    #[error("{0}: {1}")]
    Read(PathBuf, io::Error),
    #[error("{0} has more than {FILE_BYTES_MAX} bytes")]
    Long(PathBuf),
    #[error("{0} is no text in UTF-8")]
    NoText(PathBuf),
    #[error("{0} holds no header")]
    Empty(PathBuf),
    #[error("{0}: {list}", list = in_words(.1))]
    Lines(PathBuf, Vec<(usize, HeaderFault)>),
}

/// Error in a line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderFault {
    #[error("is not `name: value`")]
    Form,
    #[error("has a name that no header may have")]
    Name,
    #[error("has no value")]
    NoValue,
    #[error("has a value that no header may have")]
    Value,
    #[error("names {0}, which the node sets itself")]
    Own(HeaderName),
    #[error("has the name of a line before it")]
    Again,
}

fn in_words(faults: &[(usize, HeaderFault)]) -> String {
    faults.iter().map(|(line, fault)| format!("line {line} {fault}")).collect::<Vec<_>>().join("; ")
}

/// Reads the headers in a file and marks their values as sensitive. Blocks on the disk.
pub(crate) fn read(file: &Path) -> Result<HeaderMap, HeadersError> {
    let bytes = read_bytes(file).map_err(|error| HeadersError::Read(file.to_owned(), error))?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(HeadersError::Long(file.to_owned()));
    }
    let text = str::from_utf8(&bytes).map_err(|_| HeadersError::NoText(file.to_owned()))?;
    let headers = parse(text).map_err(|faults| HeadersError::Lines(file.to_owned(), faults))?;
    if headers.is_empty() { Err(HeadersError::Empty(file.to_owned())) } else { Ok(headers) }
}

/// Reads a file up to one byte above the limit.
fn read_bytes(file: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_BYTES_MAX + 1));
    let limit = u64::try_from(FILE_BYTES_MAX + 1).unwrap_or(u64::MAX);
    File::open(file)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Parses the lines. Returns all errors, not only the first one.
fn parse(text: &str) -> Result<HeaderMap, Vec<(usize, HeaderFault)>> {
    let (mut headers, mut faults) = (HeaderMap::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        if line.trim_matches(BLANKS).is_empty() || line.starts_with('#') {
            continue;
        }
        match header(line) {
            Ok((name, _)) if headers.contains_key(&name) => faults.push((number + 1, HeaderFault::Again)),
            Ok((name, value)) => drop(headers.insert(name, value)),
            Err(fault) => faults.push((number + 1, fault)),
        }
    }
    if faults.is_empty() { Ok(headers) } else { Err(faults) }
}

fn header(line: &str) -> Result<(HeaderName, HeaderValue), HeaderFault> {
    let (name, value) = line.split_once(':').ok_or(HeaderFault::Form)?;
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| HeaderFault::Name)?;
    if OWN.contains(&name) {
        return Err(HeaderFault::Own(name));
    }
    let value = value.trim_matches(BLANKS);
    if value.is_empty() {
        return Err(HeaderFault::NoValue);
    }
    // Servers interpret other characters differently.
    let ascii = Some(value).filter(|value| value.is_ascii()).ok_or(HeaderFault::Value)?;
    let mut value = HeaderValue::from_str(ascii).map_err(|_| HeaderFault::Value)?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// Value in every position where a secret could be.
    const TOKEN: &str = "b1946ac92492d234";

    fn faults(text: &str) -> Vec<(usize, HeaderFault)> {
        parse(text).map(drop).expect_err("a fault")
    }

    #[test]
    fn every_line_is_a_header() {
        let own = "x-scope-orgid";
        for (text, headers) in [
            (format!("authorization: Bearer {TOKEN}"), vec![("authorization", format!("Bearer {TOKEN}"))]),
            (format!("Authorization:Bearer {TOKEN}\r\n"), vec![("authorization", format!("Bearer {TOKEN}"))]),
            (format!("{own}:\t {TOKEN} \t"), vec![(own, TOKEN.to_owned())]),
            (format!("{own}: a:b=c, \"d\";#e"), vec![(own, "a:b=c, \"d\";#e".to_owned())]),
            (
                format!("# of the company\n\n \t\napi-key: {TOKEN}\n#x: y\n{own}: 1\n\n"),
                vec![("api-key", TOKEN.to_owned()), (own, "1".to_owned())],
            ),
            ("accept: */*".to_owned(), vec![("accept", "*/*".to_owned())]),
        ] {
            let read = parse(&text).unwrap_or_else(|faults| panic!("{text:?}: {faults:?}"));
            let mut shown: Vec<_> =
                read.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text").to_owned())).collect();
            shown.sort_unstable();
            assert_eq!(shown, headers, "{text:?}");
            assert!(read.values().all(HeaderValue::is_sensitive) && !format!("{read:?}").contains(TOKEN), "{read:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line() {
        for (text, fault) in [
            (TOKEN.to_owned(), HeaderFault::Form),
            (format!("Authorization=Bearer {TOKEN}"), HeaderFault::Form),
            (format!(": {TOKEN}"), HeaderFault::Name),
            (format!("api key: {TOKEN}"), HeaderFault::Name),
            (format!("api-key : {TOKEN}"), HeaderFault::Name),
            (format!(" api-key: {TOKEN}"), HeaderFault::Name),
            (format!(" # api-key: {TOKEN}"), HeaderFault::Name),
            (format!("schlüssel: {TOKEN}"), HeaderFault::Name),
            (format!("\u{feff}api-key: {TOKEN}"), HeaderFault::Name),
            ("api-key:".to_owned(), HeaderFault::NoValue),
            ("api-key: \t ".to_owned(), HeaderFault::NoValue),
            (format!("api-key: {TOKEN}\rx"), HeaderFault::Value),
            (format!("api-key: {TOKEN}\0"), HeaderFault::Value),
            (format!("api-key: {TOKEN}\u{7f}"), HeaderFault::Value),
            (format!("api-key: {TOKEN}ü"), HeaderFault::Value),
        ] {
            assert_eq!(faults(&format!("a: b\n\n{text}\nc: d")), [(3, fault)], "{text:?}");
        }
        for name in OWN {
            let said = name.as_str().to_uppercase();
            assert_eq!(faults(&format!("{said}: {TOKEN}")), [(1, HeaderFault::Own(name))]);
        }
        assert_eq!(faults("api-key: a\nAPI-Key: b"), [(2, HeaderFault::Again)]);
        let all = faults("a\nb: c\nd:\nhost: e");
        assert_eq!(
            all,
            [(1, HeaderFault::Form), (3, HeaderFault::NoValue), (4, HeaderFault::Own(HOST))],
            "all of them"
        );
    }

    #[test]
    fn a_file_that_is_not_taken_is_named_and_not_shown() {
        let dir = TempDir::new().expect("a directory");
        let file = dir.path().join("headers");
        let told = |bytes: &[u8]| {
            std::fs::write(&file, bytes).expect("writable");
            let told = read(&file).expect_err("a fault").to_string();
            assert!(told.starts_with(file.to_str().expect("text")) && !told.contains(TOKEN), "{told}");
            told
        };
        let lines = told(format!("{TOKEN}\nhost: {TOKEN}").as_bytes());
        assert!(
            lines.ends_with("headers: line 1 is not `name: value`; line 2 names host, which the node sets itself"),
            "{lines}"
        );
        assert!(told(b"").ends_with("holds no header") && told(b"# api-key: a\n\n").ends_with("holds no header"));
        assert!(told(&[TOKEN.as_bytes(), &[0xff]].concat()).ends_with("is no text in UTF-8"));
        let most = format!("api-key: {}", "x".repeat(FILE_BYTES_MAX));
        assert!(told(most.as_bytes()).ends_with("has more than 16384 bytes"));
        std::fs::write(&file, &most[..FILE_BYTES_MAX]).expect("writable");
        assert_eq!(read(&file).expect("as long as one may be").len(), 1);
        assert!(read(dir.path()).is_err() && read(&dir.path().join("missing")).is_err());
    }
}
