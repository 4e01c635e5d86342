//! Measures an encoded request, so that the memory it would occupy is limited before it is decoded.

use prost::Message;
use tonic::Status;

use crate::model::limits;
use crate::proto::envoy::config::core::v3::Node;
use crate::proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};

/// Bytes of a decoded name in addition to its text: a string in a list, and its allocation.
const OF_NAME: usize = 64;
/// Bytes of a decoded resource version in addition to its text: two strings in a map.
const OF_VERSION: usize = 176;
/// Maximum decoded bytes per encoded byte of an error, reached by empty details.
const PER_ERROR_BYTE: usize = 32;
/// Field number of the client program's name in a node.
const USER_AGENT_NAME: u64 = 6;
const ENVOY: &[u8] = b"envoy";

/// A request of xDS.
pub(super) trait XdsRequest: Message + Default + Unpin + 'static {
    const FIELDS: FieldNumbers;

    /// Returns the description of the client.
    fn node(&self) -> Option<&Node>;

    /// Drops the description of the client, which is used from the first request of a stream only.
    fn forget_node(&mut self);
}

/// Numbers of the fields with a size that the client controls.
pub(super) struct FieldNumbers {
    node: u64,
    names: &'static [u64],
    versions: Option<u64>,
    error: u64,
}

impl XdsRequest for DiscoveryRequest {
    const FIELDS: FieldNumbers = FieldNumbers { node: 2, names: &[3], versions: None, error: 6 };

    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    fn forget_node(&mut self) {
        self.node = None;
    }
}

impl XdsRequest for DeltaDiscoveryRequest {
    const FIELDS: FieldNumbers = FieldNumbers { node: 1, names: &[3, 4], versions: Some(5), error: 7 };

    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    fn forget_node(&mut self) {
        self.node = None;
    }
}

/// Sizes of the parts of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestShape {
    bytes: usize,
    names: usize,
    versions: usize,
    node: usize,
    error: usize,
}

impl RequestShape {
    /// Measures a complete message. Returns `None` if it is malformed.
    pub(super) fn of<Q: XdsRequest>(message: &[u8]) -> Option<RequestShape> {
        let FieldNumbers { node, names, versions, error } = Q::FIELDS;
        let mut shape = RequestShape { bytes: message.len(), ..RequestShape::default() };
        for field in Walk(message) {
            let Field { number, content } = field?;
            shape.names += usize::from(names.contains(&number));
            shape.versions += usize::from(versions == Some(number));
            if number == node {
                shape.node += content.len();
            } else if number == error {
                shape.error += content.len();
            }
        }
        Some(shape)
    }

    /// Returns an error if the request exceeds a limit.
    pub(super) fn check(self, is_proxy: bool) -> Result<(), Status> {
        let entries_max = if is_proxy { limits::XDS_PROXY_ENTRIES_MAX } else { limits::XDS_NAMES_MAX };
        let rows = [
            ("names", self.names, entries_max),
            ("versions", self.versions, entries_max),
            ("bytes of a node", self.node, limits::XDS_NODE_BYTES_MAX),
            ("bytes of an error", self.error, limits::XDS_ERROR_BYTES_MAX),
        ];
        match rows.into_iter().find(|(_, found, max)| found > max) {
            Some((what, found, max)) => {
                Err(Status::resource_exhausted(format!("{found} {what}: a request has at most {max}")))
            }
            None => Ok(()),
        }
    }

    /// Returns the bytes of the decoded request without its node, which is read at once and dropped.
    pub(super) fn decoded_bytes(self) -> usize {
        let RequestShape { bytes, names, versions, node, error } = self;
        bytes.saturating_sub(node) + names * OF_NAME + versions * OF_VERSION + error * PER_ERROR_BYTE
    }
}

/// Reports whether the beginning of a message contains a node with Envoy as its program.
pub(super) fn is_of_envoy<Q: XdsRequest>(beginning: &[u8]) -> bool {
    let node = Walk(beginning).map_while(|field| field).find(|field| field.number == Q::FIELDS.node);
    let Some(node) = node else { return false };
    let agent = Walk(node.content).map_while(|field| field).find(|field| field.number == USER_AGENT_NAME);
    agent.is_some_and(|agent| agent.content.get(..ENVOY.len()).is_some_and(|name| name.eq_ignore_ascii_case(ENVOY)))
}

/// Field of a message.
struct Field<'a> {
    number: u64,
    /// Content of a length-delimited field; empty for numbers.
    content: &'a [u8],
}

/// Iterator over the fields of a message. It ends with `None` as an item at the first malformed or incomplete field.
struct Walk<'a>(&'a [u8]);

impl<'a> Iterator for Walk<'a> {
    type Item = Option<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.step();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Walk<'a> {
    fn step(&mut self) -> Option<Field<'a>> {
        let key = self.varint()?;
        let content = match key & 7 {
            0 => {
                self.varint()?;
                &[][..]
            }
            1 => self.skip(8)?,
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.skip(length)?
            }
            5 => self.skip(4)?,
            _ => return None,
        };
        Some(Field { number: key >> 3, content })
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn skip(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (content, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::proto::envoy::config::core::v3::Node;
    use crate::proto::google::rpc;

    fn node(agent: &str) -> Option<Node> {
        Some(Node { id: "a".repeat(300), user_agent_name: agent.to_owned(), ..Node::default() })
    }

    fn delta(names: usize, versions: usize) -> DeltaDiscoveryRequest {
        DeltaDiscoveryRequest {
            node: node("envoy"),
            resource_names_subscribe: vec!["n".to_owned(); names],
            resource_names_unsubscribe: vec![String::new(); names],
            initial_resource_versions: (0..versions).map(|number| (number.to_string(), String::new())).collect(),
            error_detail: Some(rpc::Status { code: 3, message: "no".to_owned(), ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn entries_are_counted_in_the_bytes() {
        let request = delta(7, 5);
        let bytes = request.encode_to_vec();
        let node = request.node.as_ref().map_or(0, Message::encoded_len);
        let shape = RequestShape::of::<DeltaDiscoveryRequest>(&bytes).expect("a message");
        assert_eq!(shape, RequestShape { bytes: bytes.len(), names: 14, versions: 5, node, error: 6 });
        let names = DiscoveryRequest { resource_names: vec![String::new(); 9], ..Default::default() };
        let shape = RequestShape::of::<DiscoveryRequest>(&names.encode_to_vec()).expect("a message");
        assert_eq!((shape.names, shape.bytes), (9, 18));
        // No prefix of a message is accepted as a complete one.
        for end in 1..bytes.len() {
            let whole = DeltaDiscoveryRequest::decode(&bytes[..end]).is_ok();
            assert_eq!(RequestShape::of::<DeltaDiscoveryRequest>(&bytes[..end]).is_some(), whole, "{end}");
        }
        for nonsense in [&[0xff; 12][..], &[0x0b], &[0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f]] {
            assert_eq!(RequestShape::of::<DeltaDiscoveryRequest>(nonsense), None);
        }
    }

    #[test]
    fn what_nobody_asks_for_is_refused_before_it_is_decoded() {
        let refused = |names, versions, is_proxy| {
            let shape =
                RequestShape::of::<DeltaDiscoveryRequest>(&delta(names, versions).encode_to_vec()).expect("a message");
            shape.check(is_proxy).err().map(|status| status.code())
        };
        let max = limits::XDS_NAMES_MAX;
        assert_eq!((refused(max / 2, max, false), refused(max, max, true)), (None, None));
        for (names, versions) in [(max / 2 + 1, 0), (0, max + 1)] {
            assert_eq!(refused(names, versions, false), Some(Code::ResourceExhausted), "{names} {versions}");
        }
        let max = limits::XDS_PROXY_ENTRIES_MAX;
        assert_eq!(refused(0, max + 1, true), Some(Code::ResourceExhausted));
        let shape = RequestShape { node: limits::XDS_NODE_BYTES_MAX + 1, ..RequestShape::default() };
        assert!(shape.check(true).is_err());
    }

    /// Many entries of a few bytes each occupy far more memory than their encoding.
    #[test]
    fn small_entries_take_many_times_their_bytes() {
        let shape = RequestShape { bytes: 700, versions: 100, ..RequestShape::default() };
        assert!(shape.decoded_bytes() > 20 * shape.bytes);
    }

    #[test]
    fn a_proxy_says_so_at_the_beginning() {
        let is_of_envoy = is_of_envoy::<DeltaDiscoveryRequest>;
        let bytes = delta(3, 3).encode_to_vec();
        assert!(is_of_envoy(&bytes) && is_of_envoy(&bytes[..bytes.len() - 1]) && !is_of_envoy(&bytes[..100]));
        for (agent, expected) in [("Envoy", true), ("envoy-gateway", true), ("gRPC C-core", false), ("env", false)] {
            let request = DeltaDiscoveryRequest { node: node(agent), ..Default::default() };
            assert_eq!(is_of_envoy(&request.encode_to_vec()), expected, "{agent}");
        }
        assert!(!is_of_envoy(&[]));
    }
}
