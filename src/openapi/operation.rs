//! One operation: method, path, parameters, body and replies.

use std::collections::BTreeMap;

use axum::http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// Function that returns the schema of a type when the document is built, so that constants can refer to it.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Returns the schema of `T`, by reference if it has a name of its own.
pub(crate) const fn schema_of<T: JsonSchema>() -> SchemaOf {
    SchemaGenerator::subschema_for::<T>
}

/// A parameter of a path or query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    about: &'static str,
    kind: ParamKind,
    is_required: bool,
    /// Alternative names, read if `name` is absent.
    pub(crate) also: &'static [&'static str],
    example: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParamKind {
    Text,
    Whole {
        default: usize,
    },
    Number,
    Flag,
    Word(&'static [&'static str]),
    /// Parameter that is repeated, or has one value with commas.
    List,
    /// Key without a value.
    Switch,
}

impl Param {
    const fn new(name: &'static str, about: &'static str, kind: ParamKind) -> Self {
        Param { name, about, kind, is_required: false, also: &[], example: None }
    }

    pub(crate) const fn text(name: &'static str, about: &'static str) -> Self {
        Param::new(name, about, ParamKind::Text)
    }

    /// Creates a parameter for a whole number from 0 on.
    pub(crate) const fn whole(name: &'static str, about: &'static str, default: usize) -> Self {
        Param::new(name, about, ParamKind::Whole { default })
    }

    /// Creates a parameter for a whole number without a default.
    pub(crate) const fn number(name: &'static str, about: &'static str) -> Self {
        Param::new(name, about, ParamKind::Number)
    }

    pub(crate) const fn flag(name: &'static str, about: &'static str) -> Self {
        Param::new(name, about, ParamKind::Flag)
    }

    /// Creates a parameter with a fixed set of values; the first is the default.
    pub(crate) const fn word(name: &'static str, about: &'static str, words: &'static [&'static str]) -> Self {
        Param::new(name, about, ParamKind::Word(words))
    }

    pub(crate) const fn list(name: &'static str, about: &'static str) -> Self {
        Param::new(name, about, ParamKind::List)
    }

    pub(crate) const fn switch(name: &'static str, about: &'static str) -> Self {
        Param::new(name, about, ParamKind::Switch)
    }

    pub(crate) const fn required(self) -> Self {
        Param { is_required: true, ..self }
    }

    pub(crate) const fn also(self, also: &'static [&'static str]) -> Self {
        Param { also, ..self }
    }

    /// Sets an example value that exists.
    pub(crate) const fn example(self, example: &'static str) -> Self {
        Param { example: Some(example), ..self }
    }

    /// Returns the name, then the alternatives.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.also.iter().copied())
    }

    fn about(&self) -> String {
        let also = self.also.iter().map(|name| format!(" `{name}` is read too."));
        std::iter::once(self.about.to_owned()).chain(also).collect()
    }

    fn schema(&self) -> Value {
        match self.kind {
            ParamKind::Text => json!({ "type": "string" }),
            ParamKind::Whole { default } => json!({ "type": "integer", "minimum": 0, "default": default }),
            ParamKind::Number => json!({ "type": "integer", "minimum": 0 }),
            ParamKind::Flag => json!({ "type": "boolean" }),
            ParamKind::Word(words) => json!({ "type": "string", "enum": words, "default": words.first() }),
            ParamKind::List => json!({ "type": "array", "items": { "type": "string" } }),
            ParamKind::Switch => json!({ "type": "string", "enum": [""] }),
        }
    }

    fn value(&self, place: &str) -> Value {
        let mut value = json!({
            "name": self.name,
            "in": place,
            "description": self.about(),
            "required": self.is_required,
            "schema": self.schema(),
        });
        if let Some(example) = self.example {
            value["example"] = example.into();
        }
        if self.kind == ParamKind::Switch {
            value["allowEmptyValue"] = true.into();
        }
        value
    }

    /// Returns a valid value.
    #[cfg(test)]
    pub(crate) fn sample(&self) -> &'static str {
        match self.kind {
            ParamKind::Text | ParamKind::List | ParamKind::Number => "1",
            ParamKind::Whole { .. } => "0",
            ParamKind::Flag => "true",
            ParamKind::Word(words) => words[0],
            ParamKind::Switch => "",
        }
    }
}

/// Credentials that an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    Open,
    /// Token or signature optional; checked if present.
    Reader,
    Token,
}

/// Response for one status.
pub(crate) struct Reply {
    about: String,
    /// Schema by media type; empty for a response without a body.
    content: Vec<(&'static str, Value)>,
}

impl Reply {
    pub(crate) fn empty(about: impl Into<String>) -> Self {
        Reply { about: about.into(), content: Vec::new() }
    }

    pub(crate) fn new(about: impl Into<String>, media_type: &'static str, schema: impl Into<Value>) -> Self {
        Reply::empty(about).or(media_type, schema)
    }

    /// Adds the same response in another media type.
    pub(crate) fn or(mut self, media_type: &'static str, schema: impl Into<Value>) -> Self {
        self.content.push((media_type, schema.into()));
        self
    }

    fn into_value(self) -> Value {
        let mut value = json!({ "description": self.about });
        for (media_type, schema) in self.content {
            value["content"][media_type] = json!({ "schema": schema });
        }
        value
    }
}

/// Description of a row of a table of routes.
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// Path in axum's syntax.
    pub(crate) path: String,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) security: Security,
    pub(crate) path_params: Vec<Param>,
    pub(crate) query: Vec<Param>,
    /// Schema of the body.
    pub(crate) body: Option<Value>,
    /// Media types in which a body is sent.
    pub(crate) body_types: &'static [&'static str],
    pub(crate) replies: BTreeMap<u16, Reply>,
}

impl Operation {
    /// Returns the path in OpenAPI's syntax, which has no form for a trailing wildcard.
    pub(super) fn path_template(&self) -> String {
        self.path.replace("{*", "{")
    }

    pub(super) fn method_key(&self) -> String {
        self.method.as_str().to_ascii_lowercase()
    }

    /// Returns an id made of method and path, unique as they are.
    fn id(&self) -> String {
        let words = self.path.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<_> = words.collect();
        format!("{}_{}", self.method_key(), words.join("_"))
    }

    pub(super) fn into_value(self) -> Value {
        let path_params = self.path_params.iter().map(|param| param.required().value("path"));
        let parameters: Vec<_> = path_params.chain(self.query.iter().map(|param| param.value("query"))).collect();
        let id = self.id();
        let replies: BTreeMap<_, _> =
            self.replies.into_iter().map(|(status, reply)| (status.to_string(), reply.into_value())).collect();
        let mut value = json!({
            "operationId": id,
            "tags": [self.tag],
            "summary": self.summary,
            "parameters": parameters,
            "responses": replies,
            "security": match self.security {
                Security::Open => json!([]),
                Security::Reader => json!([{}, { "token": [] }, { "accessKey": [], "accessKeyTime": [] }]),
                Security::Token => json!([{ "token": [] }]),
            },
        });
        if let Some(schema) = self.body {
            value["requestBody"] = json!({ "required": true, "content": {} });
            for media_type in self.body_types {
                value["requestBody"]["content"][media_type] = json!({ "schema": schema });
            }
        }
        value
    }
}
