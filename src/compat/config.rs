//! Pulls: `/configs` and the three forms of `/configfiles`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use schemars::JsonSchema;
use serde_json::json;

use super::Surface;
use super::answer;
use super::client_request::ClientRequest;
use super::doc::{self, Doc};
use super::lookup::{ClientState, Named, lookup};
use crate::compression::{self, Accepted, Coding};
use crate::model::config_file::{Format, PROPERTIES_SUFFIX};
use crate::model::config_lookup::{Released, Rendering, Unreadable};
use crate::openapi::{Reply, Security, schema_of};
use crate::reads::{ConfigSource, ReadRefusal, RenderedForm};

const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain;charset=UTF-8");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml;charset=UTF-8");
const XML: HeaderValue = HeaderValue::from_static("application/xml;charset=UTF-8");

const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

/// Usual number of headers of an answer, without those of the protocol.
const HEADERS_USUAL: usize = 12;

type PathResult = Result<Path<Named>, PathRejection>;

/// Description of a pull, without the differences between the forms.
const PULL: Doc = Doc {
    summary: "",
    path: doc::FILE,
    query: &[doc::DATA_CENTER, doc::IP, doc::LABEL, doc::RELEASE_KEY, doc::MESSAGES],
    body: None,
    security: Security::Reader,
    replies: |_| Vec::new(),
};

pub(super) const CONFIGS: Doc = Doc {
    summary: "The released file as an object, found by cluster, then data centre, then `default`.",
    replies: |schemas| {
        let object = doc::success("The released file.", schema_of::<ConfigObject>()(schemas));
        [object, doc::unchanged()].into_iter().chain(doc::container_refusals(schemas)).collect()
    },
    ..PULL
};

pub(super) async fn configs<S: ConfigSource>(
    State(surface): State<Surface<S>>,
    path: PathResult,
    ask: ClientRequest,
) -> Response {
    let answer = async {
        let pulled = surface.pull(path, &ask).await?;
        if pulled.is_current() { Ok(unchanged()) } else { surface.config_object(&pulled, ask.accepted) }
    };
    answer.await.unwrap_or_else(|refusal: ReadRefusal| refusal.for_path(ask.uri.path()))
}

pub(super) const JSON: Doc = Doc {
    summary: "The pairs of the released file alone, as `/configs` has them.",
    replies: |schemas| {
        let pairs = doc::success("The pairs.", schema_of::<BTreeMap<String, String>>()(schemas));
        [pairs, doc::unchanged()].into_iter().chain(doc::bare_refusals()).collect()
    },
    ..PULL
};

pub(super) async fn json<S: ConfigSource>(
    State(surface): State<Surface<S>>,
    path: PathResult,
    ask: ClientRequest,
) -> Response {
    let answer = async {
        let pulled = surface.pull(path, &ask).await?;
        if pulled.is_current() {
            return Ok(unchanged());
        }
        let (released, form) = (&pulled.released, RenderedForm::Pairs);
        Ok(whole(answer::JSON, surface.reads.encoded(released, form, ask.accepted, || surface.pairs(released))?))
    };
    answer.await.unwrap_or_else(|refusal: ReadRefusal| refusal.bare())
}

pub(super) const TEXT: Doc = Doc {
    summary: "The released file as properties text.",
    replies: |_| {
        let text = Reply::new("Properties.", "text/plain", json!({ "type": "string" }));
        [(200, text)].into_iter().chain(doc::bare_refusals()).collect()
    },
    ..PULL
};

pub(super) async fn text<S: ConfigSource>(
    State(surface): State<Surface<S>>,
    path: PathResult,
    ask: ClientRequest,
) -> Response {
    let answer = async {
        let released = surface.pull(path, &ask).await?.released;
        Ok(whole(PLAIN_TEXT, surface.properties(&released, ask.accepted)?))
    };
    answer.await.unwrap_or_else(|refusal: ReadRefusal| refusal.bare())
}

pub(super) const RAW: Doc = Doc {
    summary: "The released file as it was written, under the media type of its format.",
    replies: |_| {
        let forms = ["application/json", "application/yaml", "application/xml"];
        let text = Reply::new("The file.", "text/plain", json!({ "type": "string" }));
        let any = forms.into_iter().fold(text, |reply, media_type| reply.or(media_type, json!({})));
        [(200, any)].into_iter().chain(doc::bare_refusals()).collect()
    },
    ..PULL
};

pub(super) async fn raw<S: ConfigSource>(
    State(surface): State<Surface<S>>,
    path: PathResult,
    ask: ClientRequest,
) -> Response {
    let answer = async {
        let released = surface.pull(path, &ask).await?.released;
        let content_type = match released.format {
            Format::Json => answer::JSON,
            Format::Yaml => YAML,
            Format::Xml => XML,
            Format::Properties | Format::Text | Format::Html | Format::Toml => PLAIN_TEXT,
        };
        let content = match released.format {
            // Properties are rendered in normal form.
            Format::Properties => surface.properties(&released, ask.accepted)?,
            _ => {
                let clear = || surface.reads.clear(&released);
                surface.reads.encoded(&released, RenderedForm::Clear, ask.accepted, clear)?
            }
        };
        Ok(whole(content_type, content))
    };
    answer.await.unwrap_or_else(|refusal: ReadRefusal| refusal.bare())
}

/// Result of a pull, with the parts of the request that shape the answer.
struct Pulled<'a> {
    /// Name of the file as in the request.
    file: String,
    known: ClientState<'a>,
    released: Arc<Released>,
}

impl Pulled<'_> {
    fn is_current(&self) -> bool {
        self.known.is_current(&self.released.release_key)
    }
}

impl<S: ConfigSource> Surface<S> {
    async fn pull<'a>(&self, path: PathResult, ask: &'a ClientRequest) -> Result<Pulled<'a>, ReadRefusal> {
        let named = path.map_err(|rejection| ReadRefusal::BadRequest(rejection.body_text()));
        let lookup = named.and_then(|Path(named)| lookup(named, ask));
        let wanted = lookup.as_ref().ok().map(|lookup| (lookup.group.as_str(), lookup.namespaces.as_slice()));
        let admitted = self.reads.admit(ask.asker(), wanted)?;
        let mut lookup = lookup?;
        let known = ClientState::of(ask.query());
        let (id, key, reader) = (known.notified_id, known.release_key.as_deref(), ask.reader(Duration::ZERO));
        let released = self.reads.pull(&admitted, &mut lookup, id, key, reader).await?;
        Ok(Pulled { file: lookup.file, known, released })
    }
}

/// A released file with its release key.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "the pairs are shared by all clients and are written around, not copied in")]
struct ConfigObject {
    app_id: String,
    /// Namespace in which the file was found.
    cluster: String,
    namespace_name: String,
    /// Pairs of a properties file; for other formats the whole text under `content`.
    configurations: BTreeMap<String, String>, // bound: request
    /// Release key, `namespace-group-file-version`; different after every change.
    release_key: String,
}

impl<S: ConfigSource> Surface<S> {
    fn pairs(&self, released: &Released) -> Rendering {
        self.reads.rendered(released, RenderedForm::Pairs, |text| released.configurations(text))
    }

    fn properties(&self, released: &Released, accepted: Accepted) -> Result<(Bytes, Coding), Unreadable> {
        let form = RenderedForm::Properties;
        let plain = || self.reads.rendered(released, form, |text| released.properties_text(text));
        self.reads.encoded(released, form, accepted, plain)
    }

    /// Returns the object of `/configs`: the file name as requested, with the names and pairs of the file found.
    fn config_object(
        &self,
        Pulled { file, released, .. }: &Pulled<'_>,
        accepted: Accepted,
    ) -> Result<Response, ReadRefusal> {
        let around = |pairs: Bytes| {
            let (app, cluster, key) = (&released.group, &released.namespace, &released.release_key);
            let [app, cluster, name, key] = [app, cluster, file, key].map(|text| json!(text));
            let head = format!(r#"{{"appId":{app},"cluster":{cluster},"namespaceName":{name},"configurations":"#);
            [head.as_bytes(), &pairs, format!(r#","releaseKey":{key}}}"#).as_bytes()].concat().into()
        };
        let render = |text: &str| released.configurations(text).map(around);
        let form = if *file == released.file {
            RenderedForm::Object
        } else if is_other_name(file, &released.file) {
            RenderedForm::ObjectByOtherName
        } else {
            // A name has very many spellings, so an object with another spelling is neither cached nor compressed.
            return Ok(whole(answer::JSON, (self.pairs(released).map(around)?, Coding::Identity)));
        };
        let plain = || self.reads.rendered(released, form, render);
        Ok(whole(answer::JSON, self.reads.encoded(released, form, accepted, plain)?))
    }
}

/// Reports whether one name is the other with the suffix of properties.
fn is_other_name(one: &str, other: &str) -> bool {
    [(one, other), (other, one)].iter().any(|(long, short)| long.strip_suffix(PROPERTIES_SUFFIX) == Some(short))
}

/// Returns a whole answer, sandboxed in browsers: a file may be markup with scripts.
fn whole(content_type: HeaderValue, (content, coding): (Bytes, Coding)) -> Response {
    let mut response = Response::new(Body::from(content));
    let headers = response.headers_mut();
    // Reserves room for all headers at once.
    headers.reserve(HEADERS_USUAL);
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
    compression::mark(headers, coding);
    response
}

/// Returns 304, which, unlike a full answer, does not depend on the accepted codings.
fn unchanged() -> Response {
    let mut response = answer::not_modified();
    compression::mark(response.headers_mut(), Coding::Identity);
    response
}
