//! gRPC frames of responses. The bytes of a resource are shared by all streams and sent without a copy. Bytes specific
//! to one response are produced piece by piece, each when the previous one was taken.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::request_body::HEADER_BYTES;
use crate::budget::{Held, keeping};
use crate::proto::Any;
use crate::proto::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse, Resource};

/// Size of the pieces that are produced.
const PIECE_BYTES: usize = 16 * 1024;
/// Minimum size of a resource that is sent as a piece of its own instead of being copied.
const SHARED_BYTES_MIN: usize = 4 * 1024;
/// Field number of the resources in both variants.
const RESOURCES: u32 = 2;

/// Response that contains resources.
pub(super) trait Framed: Message + Default + Unpin + 'static {
    type Item: Send + Unpin;

    fn items(&mut self) -> &mut Vec<Self::Item>;

    fn shared(item: &Self::Item) -> usize;

    /// Writes one item except for the bytes of its resource, which it returns. The item ends with these.
    fn write(item: Self::Item, to: &mut Vec<u8>) -> Bytes;
}

impl Framed for DiscoveryResponse {
    type Item = Any;

    fn items(&mut self) -> &mut Vec<Any> {
        &mut self.resources
    }

    fn shared(item: &Any) -> usize {
        item.value.len()
    }

    fn write(item: Any, to: &mut Vec<u8>) -> Bytes {
        write_any(RESOURCES, item, to)
    }
}

impl Framed for DeltaDiscoveryResponse {
    type Item = Resource;

    fn items(&mut self) -> &mut Vec<Resource> {
        &mut self.resources
    }

    fn shared(item: &Resource) -> usize {
        item.resource.as_ref().map_or(0, |any| any.value.len())
    }

    fn write(mut item: Resource, to: &mut Vec<u8>) -> Bytes {
        write_length(RESOURCES, item.encoded_len(), to);
        let any = item.resource.take();
        item.encode_raw(to);
        any.map_or_else(Bytes::new, |any| write_any(RESOURCES, any, to))
    }
}

/// Writes an [`Any`] field up to its value. `value` has number 2 in it.
fn write_any(number: u32, any: Any, to: &mut Vec<u8>) -> Bytes {
    write_length(number, any.encoded_len(), to);
    let Any { type_url, value } = any;
    Any { type_url, value: Bytes::new() }.encode_raw(to);
    if !value.is_empty() {
        write_length(2, value.len(), to);
    }
    value
}

fn write_length(number: u32, length: usize, to: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, to);
    encode_varint(length as u64, to);
}

/// Returns the bytes that a response occupies for its stream alone until it is sent.
pub(super) fn own_bytes<R: Framed>(response: &mut R) -> usize {
    let items = response.items();
    let (count, shared) = (items.len(), items.iter().map(R::shared).sum::<usize>());
    let whole = response.encoded_len();
    whole - shared + count * size_of::<R::Item>() + shared.min(PIECE_BYTES)
}

/// Response that is being sent.
pub(super) struct Frames<R: Framed> {
    /// Bytes that were produced and not taken; at first the header and every field except the resources.
    head: Vec<u8>,
    items: std::vec::IntoIter<R::Item>,
    /// Remaining bytes of the current resource.
    shared: Bytes,
    held: Arc<Held>,
}

impl<R: Framed> Frames<R> {
    pub(super) fn new(mut response: R, held: Held) -> Frames<R> {
        let length = u32::try_from(response.encoded_len()).unwrap_or(u32::MAX);
        let items = mem::take(response.items()).into_iter();
        let mut head = Vec::with_capacity(HEADER_BYTES + response.encoded_len());
        head.push(0);
        head.extend_from_slice(&length.to_be_bytes());
        response.encode_raw(&mut head);
        Frames { head, items, shared: Bytes::new(), held: Arc::new(held) }
    }

    /// Returns the next piece, or `None` after the last one.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        if !self.shared.is_empty() {
            return Some(keeping(mem::take(&mut self.shared), self.held.clone()));
        }
        let mut made = mem::take(&mut self.head);
        while made.len() < PIECE_BYTES {
            let Some(item) = self.items.next() else { break };
            let value = R::write(item, &mut made);
            if value.len() >= SHARED_BYTES_MIN {
                self.shared = value;
                break;
            }
            made.extend_from_slice(&value);
        }
        made.shrink_to_fit();
        (!made.is_empty()).then(|| keeping(made.into(), self.held.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::metrics::Metrics;
    use crate::origin::Origin;
    use crate::proto::envoy::config::core::v3::ControlPlane;

    fn any(size: usize) -> Any {
        Any { type_url: "type.googleapis.com/a.B".to_owned(), value: Bytes::from(vec![7; size]) }
    }

    fn sent<R: Framed>(response: R) -> Vec<Bytes> {
        let metrics = Metrics::new().expect("a table").into();
        let mut frames = Frames::new(response, Budget::new(None, metrics).nothing(Origin::UNKNOWN));
        std::iter::from_fn(|| frames.next()).collect()
    }

    fn decoded<R: Framed>(pieces: &[Bytes]) -> R {
        let whole = pieces.concat();
        let length = u32::try_from(whole.len() - HEADER_BYTES).expect("short");
        assert_eq!(whole[..HEADER_BYTES], [&[0][..], &length.to_be_bytes()].concat());
        R::decode(&whole[HEADER_BYTES..]).expect("a message")
    }

    #[test]
    fn what_is_sent_is_the_response() {
        let control_plane = Some(ControlPlane { identifier: "thuban 1".to_owned() });
        for sizes in [&[][..], &[0], &[5], &[5_000], &[10, SHARED_BYTES_MIN, 0, 70_000, 3], &[900; 100]] {
            let sotw = DiscoveryResponse {
                version_info: "1-ab".to_owned(),
                resources: sizes.iter().map(|size| any(*size)).collect(),
                nonce: "1".to_owned(),
                control_plane: control_plane.clone(),
                ..Default::default()
            };
            assert_eq!(decoded::<DiscoveryResponse>(&sent(sotw.clone())), sotw, "{sizes:?}");
            let resource = |size: &usize| Resource {
                version: "2-cd".to_owned(),
                resource: (*size != 5).then(|| any(*size)),
                name: "shop/pay".to_owned(),
            };
            let delta = DeltaDiscoveryResponse {
                resources: sizes.iter().map(resource).collect(),
                removed_resources: vec!["shop/gone".to_owned()],
                control_plane: control_plane.clone(),
                ..Default::default()
            };
            assert_eq!(decoded::<DeltaDiscoveryResponse>(&sent(delta.clone())), delta, "{sizes:?}");
        }
        assert_eq!(sent(DiscoveryResponse::default()).concat(), [0; HEADER_BYTES]);
    }

    /// A resource that all streams are sent exists once in memory.
    #[test]
    fn large_resources_are_not_copied() {
        let resource = any(100_000);
        let at = resource.value.as_ptr();
        let mut response = DiscoveryResponse { resources: vec![any(30), resource, any(30)], ..Default::default() };
        assert!(own_bytes(&mut response) < PIECE_BYTES + 1000);
        let pieces = sent(response);
        assert_eq!(pieces.iter().filter(|piece| piece.as_ptr() == at && piece.len() == 100_000).count(), 1);
        let small = DiscoveryResponse { resources: vec![any(1000); 100], ..Default::default() };
        assert!(sent(small).iter().all(|piece| piece.len() < PIECE_BYTES + 1100));
    }

    #[test]
    fn a_response_counts_until_its_last_piece_is_gone() {
        let metrics = Arc::new(Metrics::new().expect("a table"));
        let budget = Budget::new(None, metrics.clone());
        let response = DiscoveryResponse { resources: vec![any(10), any(9_000), any(10)], ..Default::default() };
        let mut frames = Frames::new(response, budget.take(Origin::UNKNOWN, 500).expect("room"));
        let pieces: Vec<_> = std::iter::from_fn(|| frames.next()).collect();
        assert_eq!(pieces.len(), 3);
        drop(frames);
        for piece in pieces {
            assert_eq!(metrics.under_way.get(), 500);
            drop(piece);
        }
        assert_eq!(metrics.under_way.get(), 0);
    }
}
