//! Golden bytes of a handshake.

use super::*;
use crate::format::level::{Level, LevelRange};
use crate::peer::hello::{Build, ListDigest, RefusalReason};

fn build() -> Build {
    let (levels, format) = (LevelRange { min: Level(1), max: Level(9) }, "0123456789abcdef".into());
    Build { version: "1.2.3".into(), levels, level: Level(8), format }
}

fn transcript(binding: [u8; BINDING_BYTES]) -> Transcript {
    let hello =
        Hello { cluster_id: Some("c".into()), node_id: 1, target: 2, instance: "i".into(), build: build(), list: None };
    Transcript {
        binding,
        preamble: preamble(Purpose::Append),
        greeting: greeting(OK, &[7; NONCE_BYTES]),
        client_nonce: [9; NONCE_BYTES],
        hello: codec::to_bytes(&hello).into(),
    }
}

/// Bytes of a handshake within TLS. They never change within a protocol version.
#[test]
fn the_bytes_of_a_handshake() {
    let (secret, transcript) = (Secret::new(b"0123456789abcdef0123456789abcdef"), transcript([5; BINDING_BYTES]));
    let hex_of = |mac: Hmac<Sha256>| hex::encode(mac.finalize().into_bytes());
    let verdict: Verdict = Ok(Welcome {
        cluster_id: None,
        node_id: 2,
        instance: "j".into(),
        initialized: false,
        knows_you: true,
        build: build(),
        list: Some(ListDigest { digest: "d".into(), text: "1=a:1".into() }),
    });
    let refusal: Verdict = Err(Refusal { reason: RefusalReason::OtherInstance, text: "t".into() });
    let rows = [
        (hex::encode(transcript.preamble), "54485542414e000102"),
        (hex::encode(&transcript.greeting), "0001000707070707070707070707070707070707070707070707070707070707070707"),
        (hex::encode(greeting(REFUSED, b"no")), "0001016e6f"),
        (
            hex::encode(&transcript.hello),
            "85aa636c75737465725f6964a163a76e6f64655f696401a674617267657402a8696e7374616e6365a169a56275696c6484a7\
             76657273696f6ea5312e322e33a66c6576656c7382a36d696e01a36d617809a56c6576656c08a6666f726d6174b0303132333435\
             36373839616263646566",
        ),
        (hex_of(transcript.client_mac(&secret)), "6b04fde1d3c0ff52f52ce8ab60659f8c71fd6e0fbabb3483fc57113fd776a974"),
        (
            hex_of(transcript.server_mac(&secret, b"verdict")),
            "cb90c72d6598fb2e29ac5ebf223a9bd3b91afb23e146c55e452789c13d7ce711",
        ),
        (
            hex::encode(codec::to_bytes(&verdict)),
            "81a24f6b87aa636c75737465725f6964c0a76e6f64655f696402a8696e7374616e6365a16aab696e697469616c697a6564c2\
             a96b6e6f77735f796f75c3a56275696c6484a776657273696f6ea5312e322e33a66c6576656c7382a36d696e01a36d617809\
             a56c6576656c08a6666f726d6174b030313233343536373839616263646566a46c69737482a6646967657374a164a474657874\
             a5313d613a31",
        ),
        (
            hex::encode(codec::to_bytes(&refusal)),
            "81a345727282a6726561736f6eae6f746865725f696e7374616e6365a474657874a174",
        ),
    ];
    for (row, (bytes, golden)) in rows.iter().enumerate() {
        assert_eq!(bytes, golden, "row {row}");
    }
}

#[test]
fn a_proof_holds_on_one_connection_only() {
    let secret = Secret::new(b"0123456789abcdef0123456789abcdef");
    let proofs = |transcript: Transcript| {
        let macs = [transcript.client_mac(&secret), transcript.server_mac(&secret, b"verdict")];
        macs.map(|mac| hex::encode(mac.finalize().into_bytes()))
    };
    let (one, other) = (proofs(transcript([5; BINDING_BYTES])), proofs(transcript([6; BINDING_BYTES])));
    assert!(one[0] != other[0] && one[1] != other[1] && one[0] != one[1], "{one:?} {other:?}");
}

#[test]
fn a_reason_of_a_later_version_is_still_a_refusal() {
    #[derive(serde::Serialize)]
    struct Later {
        reason: &'static str,
        text: &'static str,
    }
    let bytes = codec::to_bytes(&Err::<(), _>(Later { reason: "moon_phase", text: "t" }));
    let read: Verdict = codec::from_bytes(&bytes).expect("readable");
    assert_eq!(read, Err(Refusal { reason: RefusalReason::Unknown, text: "t".into() }));
}

#[test]
fn the_secret_is_never_shown() {
    assert_eq!(format!("{:?}", Secret::new(b"hunter2")), "Secret(***)");
}
