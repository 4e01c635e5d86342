mod client;
mod delta;
mod model;
mod parts;
mod returning;
mod session;
mod sotw;
mod steps;

use std::fmt::Display;

use tokio::time::Instant;

use super::stream_state::StreamState;
use super::testing::FakeView;
use super::type_state::Now;
use crate::model::mesh::resource::ResourceType;
use crate::model::time::Timestamp;
use crate::proto::Any;
use crate::proto::envoy::service::discovery::v3::ResourceError;
use crate::proto::google::rpc::Status;

const CDS: ResourceType = ResourceType::Cluster;
const EDS: ResourceType = ResourceType::Endpoints;
const LDS: ResourceType = ResourceType::Listener;
const RDS: ResourceType = ResourceType::Route;

fn now_at(instant: Instant) -> Now {
    Now { instant, time: Timestamp(1_000) }
}

fn strings(names: &str) -> Vec<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

fn refusal(message: &str) -> Status {
    Status { code: 3, message: message.to_owned(), details: Vec::new() }
}

/// Returns a response in short form: type, `NAME=CONTENT` per resource, `-NAME` per removed one, `?NAME` per missing
/// one.
fn in_short(type_url: &str, resources: &[&Any], removed: &[String], errors: &[ResourceError]) -> String {
    let label: Option<&str> = ResourceType::of_url(type_url).map(ResourceType::label);
    let kind = label.unwrap_or(type_url);
    let mut words = vec![kind.to_owned()];
    for resource in resources {
        assert_eq!(resource.type_url, type_url, "a resource is of the type of its response");
        words.push(String::from_utf8_lossy(&resource.value).into_owned());
    }
    words.extend(removed.iter().map(|name| format!("-{name}")));
    for error in errors {
        let (name, status) = (error.resource_name.as_ref(), error.error_detail.as_ref());
        let (name, status) = (name.expect("a name"), status.expect("a reason"));
        assert!(status.code == 5 && !status.message.is_empty());
        words.push(format!("?{}", name.name));
    }
    words.join(" ")
}

/// Returns the resources of a type that a client has and those that it refused, according to the register.
fn delivered_text(state: &StreamState, kind: ResourceType) -> String {
    let delivered = state.type_state(kind).delivered();
    let text = |words: &mut dyn Iterator<Item = String>| words.collect::<Vec<_>>().join(" ");
    let has = text(&mut delivered.acked.values().map(|found| String::from_utf8_lossy(&found.bytes()).into_owned()));
    match &delivered.refused {
        None => has,
        Some(refused) => {
            let refused = text(&mut refused.resources.iter().map(|(name, _): &(_, _)| text_of(name)));
            format!("{has} refused {refused}")
        }
    }
}

fn text_of(text: &impl Display) -> String {
    text.to_string()
}

/// Returns two services with all resources that proxies request.
fn two_services() -> FakeView {
    let mut view = FakeView::default();
    for name in ["s/a", "s/b"] {
        view.put(CDS, name, "1");
        view.put(EDS, name, "1");
        view.put_naming(RDS, name, "1", &[name]);
        view.put(LDS, name, "1");
    }
    view
}
