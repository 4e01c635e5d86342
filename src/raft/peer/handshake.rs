//! How a connection begins: versions first, then proof of the secret by both ends, then names.
//!
//! ```text
//! client → "THUBAN" version:u16 purpose:u8                              (9 raw bytes)
//! server → version:u16 0:u8 nonce:32                                    (frame)
//!        | version:u16 1:u8 text                                        version not spoken; closes
//! client → mac:32 nonce:32 hello                                        (frame)
//! server → 0:u8 mac:32 verdict                                          (frame)
//!        | 1:u8 text                                                    wrong secret; closes
//! ```
//!
//! Each `mac` is HMAC-SHA256 under the secret over a label of the side and everything said so far,
//! both nonces included, so that neither a recorded nor a reflected handshake passes. The server
//! compares it in constant time and before it parses the hello; the client verifies the server's,
//! so that a stranger behind a peer's address learns nothing and can answer nothing. `hello` and
//! `verdict` are MessagePack with field names.

use std::fmt;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::frame::Connection;
use super::introductions::{Hello, Introductions, Refusal, Welcome};
use super::limits::{DIAL_WITHIN, REFUSAL_TEXT_BYTES_MAX};
use crate::format::codec;

/// Version of everything in [`super`]. A message may gain a field without a new version; whatever
/// an older binary would misread takes one.
pub const PROTOCOL_VERSION: u16 = 1;

const MAGIC: &[u8; 6] = b"THUBAN";
const PREAMBLE_BYTES: usize = MAGIC.len() + 2 + 1;
const NONCE_BYTES: usize = 32;
const MAC_BYTES: usize = 32;
const OK: u8 = 0;
const REFUSED: u8 = 1;

type Verdict = Result<Welcome, Refusal>;

/// The cluster secret. It has no `Debug` that shows it and no way out but into a MAC.
#[derive(Clone)]
pub struct Secret(Hmac<Sha256>);

impl Secret {
    pub fn new(secret: &[u8]) -> Self {
        Secret(Hmac::new_from_slice(secret).expect("HMAC takes a key of any length"))
    }

    /// The MAC of `parts`, each with its length in front: no two sequences of parts look alike.
    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Purpose {
    Control = 1,
    Append = 2,
    Snapshot = 3,
}

impl Purpose {
    fn from_byte(byte: u8) -> Option<Self> {
        [Purpose::Control, Purpose::Append, Purpose::Snapshot].into_iter().find(|purpose| *purpose as u8 == byte)
    }
}

/// Everything both ends have said before the verdict: what the MACs cover.
struct Transcript {
    preamble: [u8; PREAMBLE_BYTES],
    greeting: Bytes,
    client_nonce: [u8; NONCE_BYTES],
    hello: Bytes,
}

impl Transcript {
    fn client_mac(&self, secret: &Secret) -> Hmac<Sha256> {
        secret.over(&[b"thuban peer client", &self.preamble, &self.greeting, &self.client_nonce, &self.hello])
    }

    fn server_mac(&self, secret: &Secret, verdict: &[u8]) -> Hmac<Sha256> {
        let label = b"thuban peer server";
        secret.over(&[label, &self.preamble, &self.greeting, &self.client_nonce, &self.hello, verdict])
    }
}

/// Why this node could not enter into a conversation with another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntroduceError {
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    #[error("the two nodes have different cluster secrets")]
    BadSecret,
    #[error("the other node speaks version {theirs} of the peer protocol, this one {PROTOCOL_VERSION}")]
    Version { theirs: u16 },
}

/// Meets the node at `address` once and closes: is it there, does it know the secret, who is it?
pub async fn introduce(address: &str, secret: &Secret, hello: &Hello) -> Result<Welcome, IntroduceError> {
    dial(address, Purpose::Control, secret, hello).await.map(|(_, welcome)| welcome)
}

/// [`connect`] by the rules of the node, whose verdict on the welcome counts too.
pub(super) async fn dial_as(
    introductions: &dyn Introductions,
    secret: &Secret,
    address: &str,
    target: u64,
    purpose: Purpose,
) -> Result<(Connection, Welcome), IntroduceError> {
    let (connection, welcome) = dial(address, purpose, secret, &introductions.hello(target)).await?;
    introductions.accept(&welcome)?;
    Ok((connection, welcome))
}

async fn dial(
    address: &str,
    purpose: Purpose,
    secret: &Secret,
    hello: &Hello,
) -> Result<(Connection, Welcome), IntroduceError> {
    match timeout(DIAL_WITHIN, connect(address, purpose, secret, hello)).await {
        Ok(result) => result,
        Err(_) => Err(unreachable_after(DIAL_WITHIN)),
    }
}

fn unreachable_after(limit: Duration) -> IntroduceError {
    IntroduceError::Unreachable(format!("no answer within {limit:?}"))
}

fn garbled() -> IntroduceError {
    IntroduceError::Unreachable("the answer is not of the peer protocol".into())
}

impl From<std::io::Error> for IntroduceError {
    fn from(error: std::io::Error) -> Self {
        IntroduceError::Unreachable(error.to_string())
    }
}

/// The client's half.
async fn connect(
    address: &str,
    purpose: Purpose,
    secret: &Secret,
    hello: &Hello,
) -> Result<(Connection, Welcome), IntroduceError> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let preamble = preamble(purpose);
    stream.write_all(&preamble).await?;
    let mut connection = Connection::new(stream);
    let greeting = connection.expect().await?;
    check_greeting(&greeting)?;
    let transcript =
        Transcript { preamble, greeting, client_nonce: rand::random(), hello: codec::to_bytes(hello).into() };
    let mac = transcript.client_mac(secret).finalize().into_bytes();
    connection.send(&[&mac[..], &transcript.client_nonce, &transcript.hello].concat()).await?;
    let answer = connection.expect().await?;
    let welcome = read_verdict(&transcript, secret, answer)??;
    connection.trust();
    Ok((connection, welcome))
}

fn preamble(purpose: Purpose) -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[MAGIC.len()..MAGIC.len() + 2].copy_from_slice(&PROTOCOL_VERSION.to_be_bytes());
    bytes[PREAMBLE_BYTES - 1] = purpose as u8;
    bytes
}

fn check_greeting(greeting: &[u8]) -> Result<(), IntroduceError> {
    let [high, low, status, rest @ ..] = greeting else { return Err(garbled()) };
    match (u16::from_be_bytes([*high, *low]), *status) {
        (PROTOCOL_VERSION, OK) if rest.len() == NONCE_BYTES => Ok(()),
        (PROTOCOL_VERSION, REFUSED) => Err(IntroduceError::Unreachable(String::from_utf8_lossy(rest).into_owned())),
        (PROTOCOL_VERSION, _) => Err(garbled()),
        (theirs, _) => Err(IntroduceError::Version { theirs }),
    }
}

fn read_verdict(transcript: &Transcript, secret: &Secret, answer: Bytes) -> Result<Verdict, IntroduceError> {
    if answer.first() == Some(&REFUSED) {
        return Err(IntroduceError::BadSecret);
    }
    if answer.len() < 1 + MAC_BYTES {
        return Err(garbled());
    }
    let (mac, verdict) = (&answer[1..1 + MAC_BYTES], &answer[1 + MAC_BYTES..]);
    // A server that cannot prove the secret is none of ours, whatever it says.
    transcript.server_mac(secret, verdict).verify_slice(mac).map_err(|_| IntroduceError::BadSecret)?;
    codec::from_bytes(verdict).map_err(|_| garbled())
}

/// Why a connection was turned away: the label for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turned(pub(super) &'static str);

impl From<std::io::Error> for Turned {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::InvalidData => Turned("frame"),
            _ => Turned("gone"),
        }
    }
}

/// The server's half. The caller puts the deadline around it.
pub(super) async fn receive(
    mut stream: TcpStream,
    secret: &Secret,
    introductions: &dyn Introductions,
) -> Result<(Connection, Purpose, Hello), Turned> {
    stream.set_nodelay(true)?;
    let mut preamble = [0; PREAMBLE_BYTES];
    stream.read_exact(&mut preamble).await?;
    let mut connection = Connection::new(stream);
    let purpose = match check_preamble(&preamble) {
        Ok(purpose) => purpose,
        Err(turned) => return Err(turn_away(&mut connection, turned).await),
    };
    let greeting = greeting(OK, &rand::random::<[u8; NONCE_BYTES]>());
    connection.send(&greeting).await?;
    let transcript = read_hello(&mut connection, secret, preamble, greeting).await?;
    let hello: Hello = codec::from_bytes(&transcript.hello).map_err(|_| Turned("hello"))?;
    let verdict = introductions.judge(&hello).map_err(shortened);
    let body = codec::to_bytes(&verdict);
    let mac = transcript.server_mac(secret, &body).finalize().into_bytes();
    connection.send(&[&[OK], &mac[..], &body].concat()).await?;
    match verdict {
        Ok(_) => {
            connection.trust();
            Ok((connection, purpose, hello))
        }
        Err(refusal) => {
            introductions.tell_refused(hello.node_id, &refusal);
            Err(Turned(refusal.reason.label()))
        }
    }
}

fn check_preamble(preamble: &[u8; PREAMBLE_BYTES]) -> Result<Purpose, Turned> {
    let (magic, rest) = preamble.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Turned("magic"));
    }
    if rest[..2] != PROTOCOL_VERSION.to_be_bytes() {
        return Err(Turned("version"));
    }
    Purpose::from_byte(rest[2]).ok_or(Turned("purpose"))
}

/// Tells one that speaks our protocol why it ends here; a stranger is told nothing.
async fn turn_away(connection: &mut Connection, turned: Turned) -> Turned {
    let text = match turned.0 {
        "version" => "this version of the peer protocol is not spoken here",
        "purpose" => "the purpose of the connection is not known here",
        _ => return turned,
    };
    // The connection closes either way; that the caller did not get to read why changes nothing.
    let _ = connection.send(&greeting(REFUSED, text.as_bytes())).await;
    turned
}

fn greeting(status: u8, rest: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(3 + rest.len());
    bytes.put_u16(PROTOCOL_VERSION);
    bytes.put_u8(status);
    bytes.put_slice(rest);
    bytes.freeze()
}

/// Reads the hello frame and verifies its MAC; the hello inside is still unparsed.
async fn read_hello(
    connection: &mut Connection,
    secret: &Secret,
    preamble: [u8; PREAMBLE_BYTES],
    greeting: Bytes,
) -> Result<Transcript, Turned> {
    let frame = connection.expect().await?;
    if frame.len() < MAC_BYTES + NONCE_BYTES {
        return Err(Turned("frame"));
    }
    let client_nonce = frame[MAC_BYTES..MAC_BYTES + NONCE_BYTES].try_into().expect("a nonce by its length");
    let transcript = Transcript { preamble, greeting, client_nonce, hello: frame.slice(MAC_BYTES + NONCE_BYTES..) };
    if transcript.client_mac(secret).verify_slice(&frame[..MAC_BYTES]).is_err() {
        // As in `turn_away`: telling is a courtesy.
        let _ = connection.send(&[&[REFUSED], &b"wrong cluster secret"[..]].concat()).await;
        return Err(Turned("secret"));
    }
    Ok(transcript)
}

fn shortened(mut refusal: Refusal) -> Refusal {
    if refusal.text.len() > REFUSAL_TEXT_BYTES_MAX {
        let end = (0..=REFUSAL_TEXT_BYTES_MAX).rev().find(|at| refusal.text.is_char_boundary(*at)).unwrap_or(0);
        refusal.text.truncate(end);
    }
    refusal
}

#[cfg(test)]
mod golden;
