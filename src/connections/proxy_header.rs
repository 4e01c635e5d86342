//! PROXY protocol, version 2: the header in which a TCP load balancer names the client of a connection.
//!
//! It is accepted from trusted proxies only, before TLS and everything else. A connection of theirs without it is the
//! proxy's own: a health check, or a proxy that names its clients in `X-Forwarded-For`. From any other peer the header
//! is invalid input.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time limit from accepting a connection to the end of the header, or to the first byte of anything else.
const HEADER_WITHIN: Duration = Duration::from_secs(10);
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const HEAD_BYTES: usize = 16;
/// Maximum bytes after the head: addresses, and other information about a client.
const REST_BYTES_MAX: usize = 2048;
const VERSION: u8 = 2;
const LOCAL: u8 = 0;
const PROXY: u8 = 1;
const UNSPECIFIED: u8 = 0x00;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;

/// Reasons for ending a connection, for metrics.
pub(super) const REFUSED: &str = "proxy";
pub(super) const SLOW: &str = "slow";

/// Reads the header, if the connection begins with one. Returns the client that it names; `None` for the proxy itself.
pub(super) async fn read(stream: &mut TcpStream) -> Result<Option<SocketAddr>, &'static str> {
    match timeout(HEADER_WITHIN, read_from(stream)).await {
        Err(_) => Err(SLOW),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the header of a proxy cannot be read");
            Err(REFUSED)
        }
        Ok(Ok(client)) => Ok(client),
    }
}

async fn read_from(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut first = [0];
    // Neither TLS nor a request begins with this byte.
    if stream.peek(&mut first).await? == 0 || first[0] != SIGNATURE[0] {
        return Ok(None);
    }
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head).await?;
    let head = Head::parse(&head)?;
    let mut rest = vec![0; head.length];
    stream.read_exact(&mut rest).await?;
    head.client(&rest)
}

/// The fixed part of the header.
struct Head {
    command: u8,
    family: u8,
    /// Number of bytes that follow.
    length: usize,
}

impl Head {
    fn parse(bytes: &[u8; HEAD_BYTES]) -> io::Result<Head> {
        let (signature, [kind, family, high, low]) = bytes.split_last_chunk::<4>().ok_or_else(|| refused("a head"))?;
        if signature != SIGNATURE {
            return Err(refused("the signature"));
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        match (kind >> 4, kind & 0xf) {
            (VERSION, _) if length > REST_BYTES_MAX => Err(refused("the length")),
            (VERSION, command @ (LOCAL | PROXY)) => Ok(Head { command, family: *family, length }),
            (VERSION, _) => Err(refused("the command")),
            _ => Err(refused("the version")),
        }
    }

    /// Returns the client according to the addresses after the head.
    fn client(&self, rest: &[u8]) -> io::Result<Option<SocketAddr>> {
        if self.command == LOCAL {
            return Ok(None);
        }
        let short = || refused("the addresses");
        let port = |at: usize| rest.get(at..at + 2).and_then(|port| port.try_into().ok()).map(u16::from_be_bytes);
        let named: (IpAddr, u16) = match self.family {
            UNSPECIFIED | UNIX_STREAM => return Ok(None),
            TCP_OVER_IPV4 => {
                let source: [u8; 4] = *rest.first_chunk().ok_or_else(short)?;
                (Ipv4Addr::from(source).into(), port(8).ok_or_else(short)?)
            }
            TCP_OVER_IPV6 => {
                let source: [u8; 16] = *rest.first_chunk().ok_or_else(short)?;
                (Ipv6Addr::from(source).to_canonical(), port(32).ok_or_else(short)?)
            }
            _ => return Err(refused("the family")),
        };
        Ok(Some(named.into()))
    }
}

fn refused(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} of the header of a proxy makes no sense"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
        [&SIGNATURE[..], &[kind, family], &length, rest].concat()
    }

    /// Parses bytes as [`read_from`] does.
    fn parsed(bytes: &[u8]) -> Option<Option<String>> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let head = Head::parse(head).ok()?;
        let client = head.client(rest.get(..head.length)?).ok()?;
        Some(client.map(|client| client.to_string()))
    }

    #[test]
    fn a_client_is_named_in_each_of_the_forms() {
        let of_4 = [198, 51, 100, 7, 10, 0, 0, 1, 0x12, 0x67, 0x22, 0xba];
        let mut of_6 = [0; 36];
        of_6[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        (of_6[15], of_6[33]) = (9, 80);
        let mut mapped = [0; 36];
        (mapped[10], mapped[11]) = (0xff, 0xff);
        mapped[12..16].copy_from_slice(&[198, 51, 100, 7]);
        let with_more = [&of_4[..], &[0x04, 0, 3, 1, 2, 3]].concat();
        let rows: [(Vec<u8>, Option<Option<&str>>); 16] = [
            (header(0x21, 0x11, &of_4), Some(Some("198.51.100.7:4711"))),
            (header(0x21, 0x11, &with_more), Some(Some("198.51.100.7:4711"))),
            (header(0x21, 0x21, &of_6), Some(Some("[2001:db8::9]:80"))),
            (header(0x21, 0x21, &mapped), Some(Some("198.51.100.7:0"))),
            (header(0x20, 0x11, &of_4), Some(None)),
            (header(0x20, 0x00, &[]), Some(None)),
            (header(0x20, 0xff, &[1; 200]), Some(None)),
            (header(0x21, 0x00, &[1; 20]), Some(None)),
            (header(0x21, 0x31, &[0; 216]), Some(None)),
            // UDP, an unknown family, a command, versions, and addresses that are too short.
            (header(0x21, 0x12, &of_4), None),
            (header(0x21, 0x41, &of_4), None),
            (header(0x22, 0x11, &of_4), None),
            (header(0x11, 0x11, &of_4), None),
            (header(0x31, 0x11, &of_4), None),
            (header(0x21, 0x11, &of_4[..9]), None),
            (header(0x20, 0x00, &[0; REST_BYTES_MAX + 1]), None),
        ];
        for (bytes, expected) in rows {
            assert_eq!(parsed(&bytes), expected.map(|client| client.map(str::to_owned)), "{bytes:?}");
        }
    }

    /// Each byte changed, and each truncation: none gives another client, or the connection ends.
    #[test]
    fn nonsense_names_nobody_else_and_ends() {
        let whole = header(0x21, 0x11, &[198, 51, 100, 7, 10, 0, 0, 1, 0x12, 0x67, 0x22, 0xba]);
        for end in 0..whole.len() {
            assert_eq!(parsed(&whole[..end]), None, "{end}");
        }
        for (at, value) in (0..whole.len()).flat_map(|at| (0..=u8::MAX).map(move |value| (at, value))) {
            let mut changed = whole.clone();
            changed[at] = value;
            let is_signed = changed[..SIGNATURE.len()] == *SIGNATURE;
            assert!(is_signed || parsed(&changed).is_none(), "{changed:?}");
        }
    }
}
