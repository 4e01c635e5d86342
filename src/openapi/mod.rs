//! OpenAPI 3.1 description of both public surfaces, built on first use, and the page that shows it.
//!
//! A surface describes each row of its table of routes as an [`Operation`]; the schemas of bodies come from the very
//! types that are read and written (`schemars`, whose dialect is OpenAPI 3.1's). This module knows the format and
//! neither of the surfaces.

mod operation;

use std::net::SocketAddr;
use std::sync::LazyLock;

use bytes::Bytes;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::{Map, Value, json};

pub(crate) use operation::{Operation, Param, Reply, SchemaOf, Security, schema_of};

/// Self-contained page; it reads `/openapi.json` of its own origin.
pub(crate) const PAGE: &str = include_str!("page.html");
/// Content security policy of the page: its own styles and script, and one request to its origin.
pub(crate) const PAGE_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";

const ABOUT: &str = "\
Two surfaces, on two ports of every node. **Management** (8090): JSON; every answer has `code` and `info`, \
and its HTTP status is `code / 1000`. Bodies of writes are arrays of 1 to 100 items, a single object is a batch \
of one; items succeed or fail on their own, in order, and the answer of a batch carries one of `responses` per item, \
also where its status is an error. Unknown query keys are ignored; a field that nothing reads is a warning in the \
answer, and refuses the item with `?unknown=refuse`; fields and query keys of several words are read in snake_case and \
in camelCase. Every answer carries `Request-Id` (the caller's, else a new one) and `X-Thuban-Node`; \
reads say in `X-Thuban-Consistency` what they were. **Config clients** (8890): what Apollo's clients pull and \
long-poll; always the node's own state.";

/// The surface whose port serves a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Management,
    Clients,
    Both,
}

/// The serialized document, built on first use.
pub type LazyDocument = LazyLock<Bytes, Box<dyn FnOnce() -> Bytes + Send>>;

/// The document under construction.
pub struct Document {
    schemas: SchemaGenerator,
    paths: Map<String, Value>,
    tags: Vec<&'static str>,
    servers: [Value; 2],
}

impl Document {
    /// Creates a document for two ports. Only the ports of the addresses are used: the host is the one that the reader
    /// reached, by `scheme`.
    pub fn new(scheme: &str, management: SocketAddr, clients: SocketAddr) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let schemas = settings.with_transform(RecursiveTransform(drop_silent_default)).into_generator();
        let servers = [("Management", management), ("Config clients", clients)].map(|(description, address)| {
            json!({
                "url": format!("{scheme}://{{host}}:{}", address.port()),
                "description": description,
                "variables": { "host": { "default": "localhost" } },
            })
        });
        Document { schemas, paths: Map::new(), tags: Vec::new(), servers }
    }

    /// Returns the generator that collects the schemas of named types.
    pub(crate) fn schemas(&mut self) -> &mut SchemaGenerator {
        &mut self.schemas
    }

    /// Adds one operation; all operations of a path are served on the same port.
    pub(crate) fn add(&mut self, port: Port, operation: Operation) {
        if !self.tags.contains(&operation.tag) {
            self.tags.push(operation.tag);
        }
        let path = self.paths.entry(operation.path_template()).or_insert_with(|| {
            let [management, clients] = self.servers.clone();
            json!({ "servers": match port {
                Port::Management => vec![management],
                Port::Clients => vec![clients],
                Port::Both => vec![management, clients],
            }})
        });
        let method = operation.method_key();
        path[method] = operation.into_value();
    }

    fn into_value(mut self) -> Value {
        let tags: Vec<_> = self.tags.iter().map(|name| json!({ "name": name })).collect();
        json!({
            "openapi": "3.1.0",
            "info": { "title": "Thuban", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT },
            "servers": self.servers,
            "tags": tags,
            "paths": self.paths,
            "components": {
                "schemas": self.schemas.take_definitions(true),
                "securitySchemes": {
                    "token": {
                        "type": "apiKey",
                        "in": "header",
                        "name": "Authorization",
                        "description": "The token of a login, raw or as `Bearer <token>`; \
                                        the header `X-Polaris-Token` takes it too.",
                    },
                    "accessKey": {
                        "type": "apiKey",
                        "in": "header",
                        "name": "Authorization",
                        "description": "`Apollo <appId>:<signature>`, as Apollo's clients write it: the base64 of the \
                                        HMAC-SHA1, under the secret of an access key of the app, of the timestamp, a \
                                        line feed, and path and query as they are sent.",
                    },
                    "accessKeyTime": {
                        "type": "apiKey",
                        "in": "header",
                        "name": "Timestamp",
                        "description": "When the request was signed, in milliseconds since 1970: less than a minute \
                                        from the time of the cluster.",
                    },
                },
            },
        })
    }

    /// Serializes the document.
    pub fn into_bytes(self) -> Bytes {
        self.into_value().to_string().into()
    }
}

/// Removes a default of `null` or an empty text, which adds nothing to an optional field.
fn drop_silent_default(schema: &mut schemars::Schema) {
    if schema.get("default").is_some_and(|default| *default == Value::Null || *default == "") {
        schema.remove("default");
    }
}
