//! The bytes of a handshake, pinned.

use super::*;
use crate::peer::hello::{Build, RefusalReason};

fn transcript(version: u16, binding: Option<[u8; BINDING_BYTES]>) -> Transcript {
    let hello = Hello {
        cluster_id: Some("c".into()),
        node_id: 1,
        target: 2,
        instance: "i".into(),
        build: Build::default(),
        list: None,
    };
    Transcript {
        binding,
        preamble: preamble(version, Purpose::Append),
        greeting: greeting(version, OK, &[7; NONCE_BYTES]),
        client_nonce: [9; NONCE_BYTES],
        hello: codec::to_bytes(&hello).into(),
    }
}

/// Bytes of the first release in a handshake. They never change within a protocol version.
#[test]
fn the_bytes_of_a_handshake() {
    let (secret, transcript) = (Secret::new(b"0123456789abcdef0123456789abcdef"), transcript(PLAIN_VERSION, None));
    let hex_of = |mac: Hmac<Sha256>| hex::encode(mac.finalize().into_bytes());
    let verdict: Verdict = Ok(Welcome {
        cluster_id: None,
        node_id: 2,
        instance: "j".into(),
        initialized: false,
        knows_you: true,
        build: Build::default(),
        list: None,
    });
    let refusal: Verdict = Err(Refusal { reason: RefusalReason::OtherInstance, text: "t".into() });
    let rows = [
        (hex::encode(transcript.preamble), "54485542414e000102"),
        (hex::encode(&transcript.greeting), "0001000707070707070707070707070707070707070707070707070707070707070707"),
        (hex::encode(greeting(PLAIN_VERSION, REFUSED, b"no")), "0001016e6f"),
        (
            hex::encode(&transcript.hello),
            "84aa636c75737465725f6964a163a76e6f64655f696401a674617267657402a8696e7374616e6365a169",
        ),
        (hex_of(transcript.client_mac(&secret)), "15eec73e9d21736b30957d8bb6fbdd30d9c33f2a965bda99860048374f487a21"),
        (
            hex_of(transcript.server_mac(&secret, b"verdict")),
            "4b3bc489ff3fa87a0cd32002c7014e8cf24e55f35578b0bef4effb8ad249100a",
        ),
        (
            hex::encode(codec::to_bytes(&verdict)),
            "81a24f6b85aa636c75737465725f6964c0a76e6f64655f696402a8696e7374616e6365a16aab696e697469616c697a6564c2a96b6\
             e6f77735f796f75c3",
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

/// With TLS: another version, and proofs that hold on one connection only.
#[test]
fn the_bytes_of_a_handshake_within_tls() {
    let secret = Secret::new(b"0123456789abcdef0123456789abcdef");
    let hex_of = |mac: Hmac<Sha256>| hex::encode(mac.finalize().into_bytes());
    let proofs = |binding| {
        let transcript = transcript(PROTOCOL_VERSION, binding);
        [hex_of(transcript.client_mac(&secret)), hex_of(transcript.server_mac(&secret, b"verdict"))]
    };
    let bound = transcript(PROTOCOL_VERSION, Some([5; BINDING_BYTES]));
    let rows = [
        (hex::encode(bound.preamble), "54485542414e000202"),
        (hex::encode(&bound.greeting), "0002000707070707070707070707070707070707070707070707070707070707070707"),
        (hex_of(bound.client_mac(&secret)), "c2a014d837dcaa108e8b880f1746c47bb1c904b9c525bf124bc4d72a4a81b79e"),
        (
            hex_of(bound.server_mac(&secret, b"verdict")),
            "e90ce15f5e24290c36d4f162a64360ad1486f896b5cfb6e00daac942452093be",
        ),
    ];
    for (row, (bytes, golden)) in rows.iter().enumerate() {
        assert_eq!(bytes, golden, "row {row}");
    }
    assert_ne!(proofs(Some([5; BINDING_BYTES])), proofs(Some([6; BINDING_BYTES])));
    assert_ne!(proofs(Some([5; BINDING_BYTES])), proofs(None));
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
