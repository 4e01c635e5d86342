//! Client status discovery (CSDS): the xDS clients connected to this node and the state of their resources, for tools
//! that inspect a fleet. It returns all clients, so it requires the right to operate the cluster.

use std::pin::Pin;
use std::sync::Arc;

use axum::http::Extensions;
use futures_util::Stream;
use futures_util::stream::StreamExt;
use prost::Message;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::admission::{Visitor, refusal};
use crate::model::code::Refusal;
use crate::model::grant::Verb;
use crate::model::limits;
use crate::model::mesh::resource::{Resource, ResourceType};
use crate::model::time::Timestamp;
use crate::operations::member::LocalMember;
use crate::operations::{Caller, Operations};
use crate::proto::Any;
use crate::proto::envoy::admin::v3::{ClientResourceStatus, UpdateFailureState};
use crate::proto::envoy::config::core::v3::Node as ClientNode;
use crate::proto::envoy::service::status::v3::client_config::GenericXdsConfig;
use crate::proto::envoy::service::status::v3::client_status_discovery_service_server::{
    ClientStatusDiscoveryService, ClientStatusDiscoveryServiceServer,
};
use crate::proto::envoy::service::status::v3::{ClientConfig, ClientStatusRequest, ClientStatusResponse, ConfigStatus};
use crate::proto::envoy::r#type::matcher::v3::NodeMatcher;
use crate::proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use crate::subscribers::streams::{AckState, Delivered, StreamEntry, Streams};

/// The client status service.
pub(super) struct Csds {
    pub(super) operations: Arc<Operations>,
    pub(super) member: LocalMember,
}

impl Csds {
    pub(super) fn service(self) -> ClientStatusDiscoveryServiceServer<Csds> {
        ClientStatusDiscoveryServiceServer::new(self)
    }
}

#[async_trait]
impl ClientStatusDiscoveryService for Csds {
    type StreamClientStatusStream = Pin<Box<dyn Stream<Item = Result<ClientStatusResponse, Status>> + Send>>;

    async fn stream_client_status(
        &self,
        request: Request<Streaming<ClientStatusRequest>>,
    ) -> Result<Response<Self::StreamClientStatusStream>, Status> {
        let caller = operator(request.extensions())?;
        let (operations, member) = (self.operations.clone(), self.member.clone());
        let answers = request.into_inner().then(move |question| {
            let answer = question.and_then(|question| {
                // Grants may have changed since the stream began.
                let caller = caller.again(&operations).map_err(refusal)?;
                caller.check_everywhere(Verb::Operate).map_err(denied)?;
                status_response(member.subscribers().streams(), &question)
            });
            std::future::ready(answer)
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn fetch_client_status(
        &self,
        request: Request<ClientStatusRequest>,
    ) -> Result<Response<ClientStatusResponse>, Status> {
        operator(request.extensions())?;
        status_response(self.member.subscribers().streams(), request.get_ref()).map(Response::new)
    }
}

fn operator(extensions: &Extensions) -> Result<Caller, Status> {
    let no_token = || Status::unauthenticated("a token is needed: this shows all clients");
    let caller = Visitor::of(extensions)?.caller.ok_or_else(no_token)?;
    caller.check_everywhere(Verb::Operate).map_err(denied)?;
    Ok(caller)
}

/// Returns the status for an identified caller without the required right. Another login would not help.
fn denied(refused: Refusal) -> Status {
    Status::permission_denied(refused.info())
}

fn status_response(streams: &Streams, question: &ClientStatusRequest) -> Result<ClientStatusResponse, Status> {
    let matchers = question.node_matchers.iter().map(Matcher::of).collect::<Result<Vec<_>, _>>()?;
    let mut room = if question.exclude_resource_contents { 0 } else { limits::XDS_RESPONSE_BYTES_TARGET };
    let is_meant =
        |entry: &StreamEntry| matchers.is_empty() || matchers.iter().any(|one| one.matches(&entry.client.node_id));
    let entries = streams.all();
    let config = entries.iter().filter(|entry| is_meant(entry)).map(|entry| client(entry, &mut room));
    let response = ClientStatusResponse { config: config.collect() };
    if response.encoded_len() > limits::XDS_RESPONSE_BYTES_MAX {
        return Err(Status::resource_exhausted("it would be longer than 4 MiB: narrow it with node_matchers"));
    }
    Ok(response)
}

/// Condition on the `node_id` of a client.
struct Matcher<'a> {
    pattern: Option<&'a MatchPattern>,
    ignores_case: bool,
}

impl<'a> Matcher<'a> {
    fn of(matcher: &'a NodeMatcher) -> Result<Matcher<'a>, Status> {
        let of_id = matcher.node_id.as_ref();
        let pattern = of_id.and_then(|text| text.match_pattern.as_ref());
        if matches!(pattern, Some(MatchPattern::SafeRegex(_))) {
            return Err(Status::invalid_argument("node_id: exact, prefix, suffix or contains"));
        }
        Ok(Matcher { pattern, ignores_case: of_id.is_some_and(|text| text.ignore_case) })
    }

    fn matches(&self, node_id: &str) -> bool {
        let folded = |text: &str| if self.ignores_case { text.to_ascii_lowercase() } else { text.to_owned() };
        let id = folded(node_id);
        match self.pattern {
            None => true,
            Some(MatchPattern::Exact(text)) => id == folded(text),
            Some(MatchPattern::Prefix(text)) => id.starts_with(&folded(text)),
            Some(MatchPattern::Suffix(text)) => id.ends_with(&folded(text)),
            Some(MatchPattern::Contains(text)) => id.contains(&folded(text)),
            Some(MatchPattern::SafeRegex(_)) => false,
        }
    }
}

fn client(entry: &StreamEntry, room: &mut usize) -> ClientConfig {
    let node = ClientNode {
        id: entry.client.node_id.clone(),
        user_agent_name: entry.client.agent.clone(),
        ..ClientNode::default()
    };
    let mut configs = Vec::new();
    for kind in ResourceType::ALL {
        let delivered = entry.delivered(kind);
        configs.extend(delivered.sent.iter().map(|(name, given)| resource(kind, name, given, &delivered, room)));
    }
    ClientConfig { node: Some(node), generic_xds_configs: configs }
}

/// Returns a resource in the version that its client has, with the error if it refused a newer one.
fn resource(
    kind: ResourceType,
    name: &str,
    given: &Arc<Resource>,
    delivered: &Delivered,
    room: &mut usize,
) -> GenericXdsConfig {
    let has = delivered.acked.get(name);
    let (status, config, error_state) = match delivered.ack_state(name, given.version) {
        AckState::Acknowledged => (ClientResourceStatus::Acked, ConfigStatus::Synced, None),
        AckState::InFlight => (ClientResourceStatus::Requested, ConfigStatus::Stale, None),
        AckState::Refused(refusal) => {
            let error = UpdateFailureState {
                last_update_attempt: Some(timestamp(refusal.at)),
                details: refusal.message.clone(),
                version_info: given.version.to_string(),
            };
            (ClientResourceStatus::Nacked, ConfigStatus::Error, Some(error))
        }
    };
    GenericXdsConfig {
        type_url: kind.type_url().to_owned(),
        name: name.to_owned(),
        version_info: has.map(|has| has.version.to_string()).unwrap_or_default(),
        xds_config: has.and_then(|has| content(kind, has, room)),
        last_updated: None,
        config_status: config.into(),
        client_status: status.into(),
        error_state,
    }
}

/// Returns the encoded resource while there is room.
fn content(kind: ResourceType, resource: &Resource, room: &mut usize) -> Option<Any> {
    *room = room.checked_sub(resource.size())?;
    (*room > 0).then(|| Any { type_url: kind.type_url().to_owned(), value: resource.bytes() })
}

fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let (seconds, ms) = (time.0 / 1000, time.0 % 1000);
    prost_types::Timestamp {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanos: i32::try_from(ms * 1_000_000).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
    use crate::subscribers::streams::testing::{cluster, stream};
    use crate::subscribers::streams::{Registered, ResourceRefusal};

    const CDS: ResourceType = ResourceType::Cluster;

    fn send(stream: &Registered, resource: &Arc<Resource>, is_had: bool) {
        stream.update(CDS, |state| {
            state.sent.insert(resource.name.clone(), resource.clone());
            if is_had {
                state.acked.insert(resource.name.clone(), resource.clone());
            }
        });
    }

    fn asked(pattern: Option<MatchPattern>, ignore_case: bool) -> ClientStatusRequest {
        let matcher =
            |pattern| NodeMatcher { node_id: Some(StringMatcher { match_pattern: Some(pattern), ignore_case }) };
        ClientStatusRequest { node_matchers: pattern.into_iter().map(matcher).collect(), ..Default::default() }
    }

    #[test]
    fn what_a_client_has_is_told_with_its_status() {
        let streams = Streams::default();
        let one = stream(&streams, "n1");
        send(&one, &cluster("has", 1, 3), true);
        send(&one, &cluster("waits", 2, 3), false);
        send(&one, &cluster("refuses", 3, 3), true);
        let bad = cluster("refuses", 4, 3);
        send(&one, &bad, false);
        let refusal = ResourceRefusal {
            message: "bad".into(),
            at: Timestamp(1_500),
            resources: [("refuses".into(), bad)].into(),
        };
        one.update(CDS, |state| state.refusals.push(Arc::new(refusal)));
        let told = status_response(&streams, &asked(None, false)).expect("told");
        let [client] = &told.config[..] else { panic!("one client") };
        assert_eq!(client.node.as_ref().map(|node| node.id.as_str()), Some("n1"));
        let rows: Vec<_> =
            client.generic_xds_configs.iter().map(|one| (one.name.as_str(), one.client_status())).collect();
        use ClientResourceStatus::{Acked, Nacked, Requested};
        assert_eq!(rows, [("has", Acked), ("refuses", Nacked), ("waits", Requested)]);
        let [has, refuses, waits] = &client.generic_xds_configs[..] else { panic!("three") };
        assert_eq!((has.version_info.as_str(), has.config_status()), ("1-0000000000000001", ConfigStatus::Synced));
        assert_eq!(has.xds_config.as_ref().map(|any| any.value.len()), Some(3));
        assert_eq!(refuses.version_info, "1-0000000000000003", "what it has");
        let error = refuses.error_state.as_ref().expect("an error");
        assert_eq!((error.details.as_str(), error.version_info.as_str()), ("bad", "1-0000000000000004"));
        assert_eq!(error.last_update_attempt, Some(prost_types::Timestamp { seconds: 1, nanos: 500_000_000 }));
        assert_eq!((waits.version_info.as_str(), &waits.xds_config), ("", &None));
    }

    #[test]
    fn clients_are_found_by_their_identity() {
        let streams = Streams::default();
        let _open = [stream(&streams, "cart-1"), stream(&streams, "cart-2"), stream(&streams, "pay-1")];
        let found = |pattern, ignore_case| {
            let told = status_response(&streams, &asked(Some(pattern), ignore_case)).map_err(|status| status.code())?;
            Ok(told.config.len())
        };
        assert_eq!(found(MatchPattern::Exact("cart-1".into()), false), Ok(1));
        assert_eq!(found(MatchPattern::Exact("CART-1".into()), false), Ok(0));
        assert_eq!(found(MatchPattern::Exact("CART-1".into()), true), Ok(1));
        assert_eq!(found(MatchPattern::Prefix("cart".into()), false), Ok(2));
        assert_eq!(found(MatchPattern::Suffix("-1".into()), false), Ok(2));
        assert_eq!(found(MatchPattern::Contains("ay".into()), false), Ok(1));
        let regex = MatchPattern::SafeRegex(RegexMatcher { regex: ".*".into() });
        assert_eq!(found(regex, false), Err(tonic::Code::InvalidArgument));
        assert_eq!(status_response(&streams, &asked(None, false)).map(|told| told.config.len()).ok(), Some(3));
    }

    #[test]
    fn an_answer_is_bounded() {
        let streams = Streams::default();
        let one = stream(&streams, "n1");
        let part = limits::XDS_RESPONSE_BYTES_TARGET / 2;
        for number in 0..4 {
            send(&one, &cluster(&format!("r{number}"), number, part), true);
        }
        let contents = |question: &ClientStatusRequest| {
            let told = status_response(&streams, question).expect("told");
            let configs = &told.config[0].generic_xds_configs;
            (configs.len(), configs.iter().filter(|one| one.xds_config.is_some()).count())
        };
        assert_eq!(contents(&asked(None, false)), (4, 1), "names and versions are there, contents as they fit");
        let lean = ClientStatusRequest { exclude_resource_contents: true, ..Default::default() };
        assert_eq!(contents(&lean), (4, 0));
        let long = "x".repeat(limits::XDS_RESPONSE_BYTES_MAX);
        send(&one, &cluster(&long, 9, 1), true);
        assert_eq!(
            status_response(&streams, &lean).map_err(|status| status.code()),
            Err(tonic::Code::ResourceExhausted)
        );
    }
}
