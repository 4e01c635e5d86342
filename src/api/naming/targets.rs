//! `GET /v1/prometheus/targets`: registered instances as targets of Prometheus' HTTP service discovery.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::Ipv6Addr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::header::{ETAG, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::api::http::bounded::{self, Measure, Rows};
use crate::api::http::{ApiResult, App, Caller, Doc, Input, Query, envelope};
use crate::catalog::Catalog;
use crate::catalog::instances::InstanceFilter;
use crate::catalog::page::{Listed, Page};
use crate::model::code::Code;
use crate::model::instance::Instance;
use crate::openapi::Param;

/// Prefix of all labels: Prometheus drops them after relabelling.
const META: &str = "__meta_thuban_";

pub(crate) const TARGETS: Doc = Doc::new("Discovery")
    .says(
        "The instances that the caller may discover, isolated ones included, as targets of Prometheus' HTTP service \
         discovery. The token may be the password of `basic_auth`.",
    )
    .query(&[&[
        Param::text("namespace", "Exact, or with `*` a glob that ignores case."),
        Param::text("service", "Exact, or with `*` a glob that ignores case."),
        Param::flag("healthy", "Only instances that are well, or that are not."),
    ]])
    .gives_raw_array(&[
        (200, "application/json", "A list of `targets` with `labels`, with an `ETag`."),
        (304, "", "The list still has the `ETag` of `If-None-Match`."),
    ])
    .codes(&[&[Code::InvalidParameter, Code::AnswerTooLong]]);

/// One target, with its labels.
#[derive(Serialize)]
struct TargetGroup {
    targets: [String; 1],
    labels: BTreeMap<String, String>, // bound: fixed
}

impl TargetGroup {
    fn of(instance: &Instance) -> TargetGroup {
        let Instance { host, port, location, .. } = instance;
        let host = if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]") } else { host.clone() };
        let healthy = instance.healthy.to_string();
        let fixed = [
            ("namespace", &instance.namespace),
            ("service", &instance.service),
            ("instance_id", &instance.id),
            ("version", &instance.version),
            ("region", &location.region),
            ("zone", &location.zone),
            ("campus", &location.campus),
            ("healthy", &healthy),
        ];
        let mut labels: BTreeMap<_, _> =
            fixed.into_iter().map(|(name, value)| (format!("{META}{name}"), value.clone())).collect();
        for (key, value) in &instance.metadata {
            labels.entry(format!("{META}metadata_{}", label_name(key))).or_insert_with(|| value.clone());
        }
        TargetGroup { targets: [format!("{host}:{port}")], labels }
    }
}

/// Returns the key with `_` for each character that a label of Prometheus may not have, as its other discoveries do.
fn label_name(key: &str) -> String {
    key.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect()
}

/// `If-None-Match` of a request.
pub(crate) struct KnownTags(Vec<String>);

impl FromRequestParts<App> for KnownTags {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let texts = parts.headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let tags = texts.flat_map(|text| text.split(','));
        Ok(KnownTags(tags.map(|tag| tag.trim().trim_start_matches("W/").to_owned()).collect()))
    }
}

impl Input for KnownTags {}

/// Answers from this node's state, by key, so that equal lists have equal bytes on all nodes.
pub(crate) async fn targets(
    State(app): State<App>,
    query: Query,
    caller: Caller,
    KnownTags(known): KnownTags,
) -> ApiResult {
    let filter = InstanceFilter {
        namespace: query.name("namespace"),
        service: query.name("service"),
        healthy: query.flag("healthy")?,
        read_scope: caller.client_sight(),
        ..InstanceFilter::default()
    };
    let page = Page { limit: usize::MAX, ..Page::new(0, 0) }.by_key(None);
    let reach = app.node().state().catalog().instances.reach(&filter, &page);
    let find = move |catalog: &Catalog| catalog.instances.list(&filter, &page);
    app.scan(reach, find, move |listed: Listed<_>| answer(&listed.rows, &known)).await
}

fn answer(instances: &[Arc<Instance>], known: &[String]) -> Response {
    let measure = Measure::of_answer();
    let rows = Rows::of(instances, &measure, |instance| TargetGroup::of(instance));
    let bytes = match bounded::write(&measure, &rows) {
        Ok(bytes) => bytes,
        Err(failed) => return bounded::unwritten(failed),
    };
    let tag = format!("\"{}\"", hex::encode(&Sha256::digest(&bytes)[..16]));
    let is_known = known.iter().any(|known| *known == tag || known == "*");
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        envelope::written(Code::ExecuteSuccess, bytes)
    };
    response.headers_mut().insert(ETAG, HeaderValue::from_str(&tag).expect("hex digits"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::instance::Location;

    #[test]
    fn a_target_has_the_labels_of_its_instance() {
        let metadata = [("prometheus.io/port", "9090"), ("prometheus_io_port", "1"), ("größe", "x")];
        let instance = Instance {
            id: "i".into(),
            namespace: "shop".into(),
            service: "pay".into(),
            host: "2001:db8::1".into(),
            port: 80,
            version: "2".into(),
            location: Location { region: "eu".into(), zone: "a".into(), campus: String::new() },
            metadata: metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..Instance::default()
        };
        let expected = serde_json::json!({"targets": ["[2001:db8::1]:80"], "labels": {
            "__meta_thuban_namespace": "shop",
            "__meta_thuban_service": "pay",
            "__meta_thuban_instance_id": "i",
            "__meta_thuban_version": "2",
            "__meta_thuban_region": "eu",
            "__meta_thuban_zone": "a",
            "__meta_thuban_campus": "",
            "__meta_thuban_healthy": "false",
            "__meta_thuban_metadata_prometheus_io_port": "9090",
            "__meta_thuban_metadata_gr__e": "x",
        }});
        assert_eq!(serde_json::to_value(TargetGroup::of(&instance)).expect("JSON"), expected);
        let named = Instance { host: "pay.shop".into(), ..instance };
        assert_eq!(TargetGroup::of(&named).targets, ["pay.shop:80"]);
    }
}
