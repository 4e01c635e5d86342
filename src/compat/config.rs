//! The pulls: `/configs` and the three forms of `/configfiles`.

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
use crate::model::config_file::{Format, PROPERTIES_SUFFIX};
use crate::model::config_lookup::{Released, Rendering};
use crate::openapi::{Reply, Security, schema_of};
use crate::reads::{ConfigSource, ReadRefusal, RenderedForm};

const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain;charset=UTF-8");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml;charset=UTF-8");
const XML: HeaderValue = HeaderValue::from_static("application/xml;charset=UTF-8");

const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox; default-src 'none'");

/// Headers of an answer, without those of the protocol.
const HEADERS_USUAL: usize = 10;

type PathResult = Result<Path<Named>, PathRejection>;

/// A pull, without what tells the forms apart.
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
        if pulled.is_current() { Ok(answer::not_modified()) } else { surface.config_object(&pulled) }
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
            return Ok(answer::not_modified());
        }
        Ok(whole(answer::JSON, surface.pairs(&pulled.released)?))
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
    let answer = async { Ok(whole(PLAIN_TEXT, surface.properties(&surface.pull(path, &ask).await?.released)?)) };
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
            // In its normal form.
            Format::Properties => surface.properties(&released)?,
            _ => surface.reads.clear(&released)?,
        };
        Ok(whole(content_type, content))
    };
    answer.await.unwrap_or_else(|refusal: ReadRefusal| refusal.bare())
}

/// Result of a pull, beside what its client asked with.
struct Pulled<'a> {
    /// As the client wrote it.
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

/// A released file, and which release it is.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "the pairs are shared by all clients and are written around, not copied in")]
struct ConfigObject {
    app_id: String,
    /// The namespace that had the file.
    cluster: String,
    namespace_name: String,
    /// The pairs of a properties file; of any other the whole text under `content`.
    configurations: BTreeMap<String, String>, // bound: request
    /// `namespace-group-file-version`; another after every change.
    release_key: String,
}

impl<S: ConfigSource> Surface<S> {
    fn pairs(&self, released: &Released) -> Rendering {
        self.reads.rendered(released, RenderedForm::Pairs, |text| released.configurations(text))
    }

    fn properties(&self, released: &Released) -> Rendering {
        self.reads.rendered(released, RenderedForm::Properties, |text| released.properties_text(text))
    }

    /// The object of `/configs`: the client's own name of the file beside the names and pairs of what was found.
    fn config_object(&self, Pulled { file, released, .. }: &Pulled<'_>) -> Result<Response, ReadRefusal> {
        let around = |pairs: Bytes| {
            let (app, cluster, key) = (&released.group, &released.namespace, &released.release_key);
            let [app, cluster, name, key] = [app, cluster, file, key].map(|text| json!(text));
            let head = format!(r#"{{"appId":{app},"cluster":{cluster},"namespaceName":{name},"configurations":"#);
            [head.as_bytes(), &pairs, format!(r#","releaseKey":{key}}}"#).as_bytes()].concat().into()
        };
        let render = |text: &str| released.configurations(text).map(around);
        let object = if *file == released.file {
            self.reads.rendered(released, RenderedForm::Object, render)
        } else if is_other_name(file, &released.file) {
            self.reads.rendered(released, RenderedForm::ObjectByOtherName, render)
        } else {
            // By names in any letter case, of which there are very many.
            self.pairs(released).map(around)
        };
        Ok(answer(answer::JSON, Body::from(object?)))
    }
}

/// True if one name is the other with the suffix of properties.
fn is_other_name(one: &str, other: &str) -> bool {
    [(one, other), (other, one)].iter().any(|(long, short)| long.strip_suffix(PROPERTIES_SUFFIX) == Some(short))
}

fn whole(content_type: HeaderValue, content: Bytes) -> Response {
    answer(content_type, Body::from(content))
}

/// A file may be markup with scripts in it: opened in a browser it is shown, and may do nothing.
fn answer(content_type: HeaderValue, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    // At once for all that are put on it on its way out.
    headers.reserve(HEADERS_USUAL);
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
    response
}
