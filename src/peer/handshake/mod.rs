//! Handshake of a connection: TLS, then versions, then proof of the secret by both ends, then introductions.
//!
//! TLS hides the exchange from strangers; it proves nothing, as any certificate is accepted ([`crate::tls`]). The ends
//! authenticate within it:
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
//! Each `mac` is HMAC-SHA256 under the secret over a label of the side and all previous messages, including both
//! nonces, so that neither a recorded nor a reflected handshake is valid, and over a value that only the two ends of
//! this TLS connection know (RFC 9266), so that a relay that terminates TLS cannot forward the proof. The server
//! compares it in constant time before it parses the hello. The client verifies the server's, so that a stranger at a
//! peer's address neither learns nor can answer anything. `hello` and `verdict` are MessagePack with field names.
//!
//! During a rotation a node has two secrets: it uses the first when it dials, and accepts both.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::format::codec;
use crate::peer::credentials::{Credentials, Secret};
use crate::peer::frame::Connection;
use crate::peer::hello::{Hello, Introductions, Refusal, RefusalReason, Welcome};
use crate::peer::limits::{DIAL_WITHIN, REFUSAL_TEXT_BYTES_MAX, UNACKNOWLEDGED_MAX};
use crate::peer::wire::{BINDING_BYTES, Wire};

/// Version of everything in [`super`]. A message may gain a field without a new version; a change that an older binary
/// would misread needs one.
pub(super) const PROTOCOL_VERSION: u16 = 1;

const MAGIC: &[u8; 6] = b"THUBAN";
const PREAMBLE_BYTES: usize = MAGIC.len() + 2 + 1;
const NONCE_BYTES: usize = 32;
const MAC_BYTES: usize = 32;
const OK: u8 = 0;
const REFUSED: u8 = 1;

type Verdict = Result<Welcome, Refusal>;

/// Purpose of a connection.
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

/// Messages of both ends before the verdict, and the binding to the TLS connection: the input of the MACs.
struct Transcript {
    binding: [u8; BINDING_BYTES],
    preamble: [u8; PREAMBLE_BYTES],
    greeting: Bytes,
    client_nonce: [u8; NONCE_BYTES],
    hello: Bytes,
}

impl Transcript {
    fn client_mac(&self, secret: &Secret) -> Hmac<Sha256> {
        self.mac(secret, &[b"thuban peer client", &self.preamble, &self.greeting, &self.client_nonce, &self.hello])
    }

    fn server_mac(&self, secret: &Secret, verdict: &[u8]) -> Hmac<Sha256> {
        let label = b"thuban peer server";
        self.mac(secret, &[label, &self.preamble, &self.greeting, &self.client_nonce, &self.hello, verdict])
    }

    fn mac(&self, secret: &Secret, said: &[&[u8]]) -> Hmac<Sha256> {
        secret.over(&[said, &[&self.binding[..]]].concat())
    }

    /// Returns the accepted secret under which the caller's proof is valid.
    fn secret_behind<'a>(&self, mac: &[u8], credentials: &'a Credentials) -> Option<&'a Secret> {
        credentials.taken().iter().find(|secret| self.client_mac(secret).verify_slice(mac).is_ok())
    }
}

/// Reason why a handshake with another node failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntroduceError {
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    #[error("the two nodes have different cluster secrets, or somebody between them ends their TLS")]
    BadSecret,
    #[error("the other node speaks version {theirs} of the peer protocol, this one {ours}")]
    Version { theirs: u16, ours: u16 },
}

/// Connects to `target` at `address` for `purpose`. The node's own decision on the welcome counts too.
pub(super) async fn dial_as(
    introductions: &dyn Introductions,
    credentials: &Credentials,
    address: &str,
    target: u64,
    purpose: Purpose,
) -> Result<(Connection, Welcome), IntroduceError> {
    let connecting = connect(address, purpose, credentials, introductions, target);
    let met = timeout(DIAL_WITHIN, connecting).await;
    let met = met.map_err(|_| unreachable_after(DIAL_WITHIN)).flatten();
    if let Err(IntroduceError::Refused(refusal)) = &met {
        introductions.hear_refusal(refusal);
    }
    let (connection, welcome) = met?;
    introductions.accept(&welcome)?;
    if welcome.node_id != target {
        let text = format!("this is node {}, not node {target}", welcome.node_id);
        return Err(Refusal { reason: RefusalReason::OtherNode, text }.into());
    }
    Ok((connection, welcome))
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

/// Performs the client's half of a handshake.
async fn connect(
    address: &str,
    purpose: Purpose,
    credentials: &Credentials,
    introductions: &dyn Introductions,
    target: u64,
) -> Result<(Connection, Welcome), IntroduceError> {
    let hello = introductions.hello(target);
    let stream = credentials.open(address).await?;
    tune(&stream)?;
    let secured = Wire::secured(stream, credentials.tls()).await;
    let wire = secured.map_err(|error| IntroduceError::Unreachable(format!("no TLS with it: {error}")))?;
    introduce(wire, purpose, credentials, &hello).await
}

/// Disables Nagle's algorithm, and limits the time in which the other end's kernel has to acknowledge bytes: a time
/// limit of our own would have to guess the speed of the link.
fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let limit_ms = u32::try_from(UNACKNOWLEDGED_MAX.as_millis()).expect("seconds");
    Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, limit_ms)?)
}

/// Introduces this node to the server.
pub(super) async fn introduce(
    wire: Wire,
    purpose: Purpose,
    credentials: &Credentials,
    hello: &Hello,
) -> Result<(Connection, Welcome), IntroduceError> {
    introduce_with(wire, purpose, credentials, codec::to_bytes(hello).into()).await
}

/// Introduces this node with the bytes of a hello.
pub(super) async fn introduce_with(
    mut wire: Wire,
    purpose: Purpose,
    credentials: &Credentials,
    hello: Bytes,
) -> Result<(Connection, Welcome), IntroduceError> {
    let binding = wire.binding()?;
    let preamble = preamble(purpose);
    wire.write_all(&preamble).await?;
    wire.flush().await?;
    let mut connection = Connection::new(wire);
    let greeting = connection.expect().await?;
    check_greeting(&greeting)?;
    let transcript = Transcript { binding, preamble, greeting, client_nonce: rand::random(), hello };
    let secret = credentials.presented();
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
        (theirs, _) if theirs != PROTOCOL_VERSION => Err(IntroduceError::Version { theirs, ours: PROTOCOL_VERSION }),
        (_, OK) if rest.len() == NONCE_BYTES => Ok(()),
        (_, REFUSED) => Err(IntroduceError::Unreachable(String::from_utf8_lossy(rest).into_owned())),
        _ => Err(garbled()),
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
    // A server that cannot prove the secret is not a peer, whatever it sends.
    transcript.server_mac(secret, verdict).verify_slice(mac).map_err(|_| IntroduceError::BadSecret)?;
    codec::from_bytes(verdict).map_err(|_| garbled())
}

/// Reason why a connection was refused, as the label for metrics.
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

/// Performs the server's half of a handshake. The caller sets the time limit.
pub(super) async fn receive(
    stream: TcpStream,
    credentials: &Credentials,
    introductions: &dyn Introductions,
) -> Result<(Connection, Purpose, Hello), Turned> {
    tune(&stream)?;
    let mut wire = Wire::accepted(stream, credentials.tls()).await?;
    let binding = wire.binding()?;
    let mut preamble = [0; PREAMBLE_BYTES];
    wire.read_exact(&mut preamble).await?;
    let mut connection = Connection::new(wire);
    let purpose = match check_preamble(&preamble) {
        Ok(purpose) => purpose,
        Err(turned) => return Err(turn_away(&mut connection, turned).await),
    };
    let greeting = greeting(OK, &rand::random::<[u8; NONCE_BYTES]>());
    connection.send(&greeting).await?;
    let said = Said { binding, preamble, greeting };
    let (transcript, secret) = read_hello(&mut connection, credentials, said).await?;
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
            introductions.log_refused(hello.node_id, &refusal);
            Err(Turned(refusal.reason.label()))
        }
    }
}

/// Performs the server's half for a node that sends an arbitrary verdict with a valid proof.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) async fn receive_with(
    mut wire: Wire,
    credentials: &Credentials,
    verdict: &[u8],
) -> Result<Connection, Turned> {
    let binding = wire.binding()?;
    let mut preamble = [0; PREAMBLE_BYTES];
    wire.read_exact(&mut preamble).await?;
    let mut connection = Connection::new(wire);
    let greeting = greeting(OK, &rand::random::<[u8; NONCE_BYTES]>());
    connection.send(&greeting).await?;
    let (transcript, secret) = read_hello(&mut connection, credentials, Said { binding, preamble, greeting }).await?;
    let mac = transcript.server_mac(secret, verdict).finalize().into_bytes();
    connection.send(&[&[OK], &mac[..], verdict].concat()).await?;
    Ok(connection)
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

/// Sends the reason of the refusal to a caller that uses our protocol; a stranger gets nothing.
async fn turn_away(connection: &mut Connection, turned: Turned) -> Turned {
    let text = match turned.0 {
        "version" => "this version of the peer protocol is not spoken here",
        "purpose" => "the purpose of the connection is not known here",
        _ => return turned,
    };
    // The connection closes either way.
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

/// Messages that the server has before the hello.
struct Said {
    binding: [u8; BINDING_BYTES],
    preamble: [u8; PREAMBLE_BYTES],
    greeting: Bytes,
}

/// Reads the hello frame and finds the secret that its MAC is valid under; the hello inside is still unparsed.
async fn read_hello<'a>(
    connection: &mut Connection,
    credentials: &'a Credentials,
    Said { binding, preamble, greeting }: Said,
) -> Result<(Transcript, &'a Secret), Turned> {
    let frame = connection.expect().await?;
    if frame.len() < MAC_BYTES + NONCE_BYTES {
        return Err(Turned("frame"));
    }
    let client_nonce = frame[MAC_BYTES..MAC_BYTES + NONCE_BYTES].try_into().expect("a nonce by its length");
    let hello = frame.slice(MAC_BYTES + NONCE_BYTES..);
    let transcript = Transcript { binding, preamble, greeting, client_nonce, hello };
    match transcript.secret_behind(&frame[..MAC_BYTES], credentials) {
        Some(secret) => Ok((transcript, secret)),
        None => {
            // The connection closes either way.
            let _ = connection.send(&[&[REFUSED], &b"wrong cluster secret"[..]].concat()).await;
            Err(Turned("secret"))
        }
    }
}

fn shortened(mut refusal: Refusal) -> Refusal {
    refusal.text.truncate(refusal.text.floor_char_boundary(REFUSAL_TEXT_BYTES_MAX));
    refusal
}

#[cfg(test)]
mod golden;
