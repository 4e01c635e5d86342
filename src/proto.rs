//! Messages and services of gRPC, generated from the folder `proto`.
//!
//! The files declare only the messages and fields that are sent or read, with Envoy's and Polaris' packages and
//! numbers. Undeclared fields are dropped when a message is decoded. The messages of Polaris are those of
//! [`crate::polaris`]; only its services are generated here.

use bytes::Bytes;

/// Descriptors of all declared messages and services, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// A message with its type, `google.protobuf.Any`. Cloning shares the bytes.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Any {
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

impl Any {
    /// Packs a message.
    pub fn pack<M: prost::Message + prost::Name>(message: &M) -> Any {
        Any { type_url: format!("type.googleapis.com/{}", M::full_name()), value: message.encode_to_vec().into() }
    }
}

#[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, rustdoc::all)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/proto.rs"));
}

pub use generated::{envoy, google, v1 as polaris};
