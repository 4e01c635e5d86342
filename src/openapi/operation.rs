//! One operation: what a method of a path takes and what it answers.

use std::collections::BTreeMap;

use axum::http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// The schema of a type, asked for when the document is built: a constant can hold it.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of `T`, by reference where it has a name of its own.
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
    /// Other names that are read where this one is absent.
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
    /// Repeated, or one value with commas.
    List,
    /// The key alone, without a value.
    Switch,
}

impl Param {
    const fn new(name: &'static str, about: &'static str, kind: ParamKind) -> Self {
        Param { name, about, kind, is_required: false, also: &[], example: None }
    }

    pub(crate) const fn text(name: &'static str, about: &'static str) -> Self {
        Param::new(name, about, ParamKind::Text)
    }

    /// A whole number from 0 on.
    pub(crate) const fn whole(name: &'static str, about: &'static str, default: usize) -> Self {
        Param::new(name, about, ParamKind::Whole { default })
    }

    /// A whole number without a default.
    pub(crate) const fn number(name: &'static str, about: &'static str) -> Self {
        Param::new(name, about, ParamKind::Number)
    }

    pub(crate) const fn flag(name: &'static str, about: &'static str) -> Self {
        Param::new(name, about, ParamKind::Flag)
    }

    /// One of a few words; the first is the default.
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

    /// A value that leads somewhere.
    pub(crate) const fn example(self, example: &'static str) -> Self {
        Param { example: Some(example), ..self }
    }

    /// The name, then the others.
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

    /// A value that it takes.
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

/// Callers that an operation accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    Open,
    /// A token or a signature is judged where there is one.
    Reader,
    Token,
}

/// Answer under one status.
pub(crate) struct Reply {
    about: String,
    /// By media type; none for an answer without a body.
    content: Vec<(&'static str, Value)>,
}

impl Reply {
    pub(crate) fn empty(about: impl Into<String>) -> Self {
        Reply { about: about.into(), content: Vec::new() }
    }

    pub(crate) fn new(about: impl Into<String>, media_type: &'static str, schema: impl Into<Value>) -> Self {
        Reply::empty(about).or(media_type, schema)
    }

    /// The same answer in another form.
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
    /// In axum's form.
    pub(crate) path: String,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) security: Security,
    pub(crate) path_params: Vec<Param>,
    pub(crate) query: Vec<Param>,
    /// The schema of the body.
    pub(crate) body: Option<Value>,
    /// Media types in which a body is sent.
    pub(crate) body_types: &'static [&'static str],
    pub(crate) replies: BTreeMap<u16, Reply>,
}

impl Operation {
    /// The path as OpenAPI writes it, which has no word for "and all that follows".
    pub(super) fn path_template(&self) -> String {
        self.path.replace("{*", "{")
    }

    pub(super) fn method_key(&self) -> String {
        self.method.as_str().to_ascii_lowercase()
    }

    /// Method and path are unique, and so is what is made of them.
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
