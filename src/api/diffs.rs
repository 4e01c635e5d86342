//! Differences between two of: the draft, what is in force for all clients, and any release.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Extension, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::auth::Caller;
use super::config_releases;
use super::doc::Doc;
use super::documents::written;
use super::envelope::{self, Shape};
use super::error::ApiError;
use super::query::{Fresh, Query};
use super::rules;
use super::sealed;
use crate::catalog::Catalog;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigKey, ConfigRelease, Format};
use crate::model::content::Content;
use crate::model::diff::{self, Changed};
use crate::model::properties;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{Family, Rule};
use crate::openapi::Param;
use crate::operations::FAR;

/// Query keys of the two sides that are compared.
pub(super) const SIDES: &[Param] = &[
    Param::text("from", "`draft`, `active` or the name of a release; `active` where absent."),
    Param::text("to", "The same; `draft` where absent."),
];
/// Time limit of the search for the fewest lines that tell one text from another.
const SEARCH_MAX: Duration = Duration::from_millis(500);
/// Word for the draft: what is edited, and released as it stands then.
const DRAFT: &str = "draft";
/// The normal release in force.
const ACTIVE: &str = "active";

/// One of the two that are compared.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DiffSide")]
struct Side {
    /// Empty for the draft, and where nothing is in force.
    release_name: String,
    /// 0 for those.
    version: u64,
}

/// What is different.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Diff")]
pub(super) struct Difference {
    from: Side,
    to: Side,
    /// Of rules by field, of properties by key.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<Changed>>,
    /// Of any other text: the lines of a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<String>>,
}

/// The words for both sides.
fn sides(query: &Query) -> (String, String) {
    (query.text("from").unwrap_or_else(|| ACTIVE.into()), query.text("to").unwrap_or_else(|| DRAFT.into()))
}

fn no_release(name: &str) -> Refusal {
    Refusal::new(Code::NotFoundResource, format!("no release is called {name:?}"))
}

pub(super) const OF_FILE: Doc = Doc::new("Config releases")
    .says("What is different between two of: the draft of a file, what is in force, and any release of it. If one of them is encrypted, this needs edit.")
    .query(&[config_releases::KEY, SIDES])
    .gives(Shape::single::<Difference>("diff"))
    .codes(&[&[Code::InvalidConfigFileName, Code::NotFoundResource, Code::NotAllowedAccess], sealed::READ_CODES]);

pub(super) async fn of_file(
    State(app): State<App>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> Result<Response, ApiError> {
    let (key, read_scope, (from, to)) = (config_releases::key(&query)?, caller.read_scope(), sides(&query));
    let (reader, named) = (app.clone(), key.clone());
    let find = move |catalog: &Catalog| {
        if !read_scope.sees(&key.namespace, &key.group) {
            return Err(Code::NotFoundResource.into());
        }
        Ok((text_of(catalog, &key, &from)?, text_of(catalog, &key, &to)?))
    };
    app.scan(FAR, find, move |found: Result<_, Refusal>| {
        let (mut from, mut to) = found?;
        for side in [&mut from, &mut to] {
            side.content = match side.encrypted {
                true => (&*reader.needed_content(&caller, &named, (true, &side.content))?).into(),
                false => reader.whole(&side.content)?,
            };
        }
        Ok(envelope::single("diff", &between_texts(from, to)))
    })
    .await?
}

/// One side of a file's diff.
struct Text {
    side: Side,
    content: Content,
    encrypted: bool,
    format: Format,
}

fn text_of(catalog: &Catalog, key: &ConfigKey, word: &str) -> Result<Text, Refusal> {
    let of_release = |release: &Arc<ConfigRelease>| Text {
        side: Side { release_name: release.name.clone(), version: release.version },
        content: release.content.clone(),
        encrypted: release.encrypted,
        format: Format::of_suffix(&key.file).unwrap_or(release.format),
    };
    let file = catalog.configs.file(key).ok_or_else(|| Refusal::new(Code::NotFoundResource, "no such config file"))?;
    let nothing = |encrypted: bool, content: Content| Text {
        side: Side { release_name: String::new(), version: 0 },
        content,
        encrypted,
        format: Format::of_suffix(&key.file).unwrap_or(file.format),
    };
    match word {
        DRAFT => Ok(nothing(file.encrypted, file.content.clone())),
        ACTIVE => {
            Ok(catalog.configs.active_release(key).map_or_else(|| nothing(false, Content::default()), of_release))
        }
        name => catalog.configs.release(key, name).map(of_release).ok_or_else(|| no_release(name)),
    }
}

fn between_texts(from: Text, to: Text) -> Difference {
    let is_properties = [from.format, to.format].iter().all(|format| *format == Format::Properties);
    let pairs = || Some((properties::parse(&from.content).ok()?, properties::parse(&to.content).ok()?));
    // What cannot be parsed yet is text.
    match pairs().filter(|_| is_properties) {
        Some((before, after)) => {
            let changes = Some(diff::of_pairs(&before, &after));
            Difference { from: from.side, to: to.side, changes, lines: None }
        }
        None => {
            let lines = Some(diff::of_texts(&from.content, &to.content, Instant::now() + SEARCH_MAX));
            Difference { from: from.side, to: to.side, changes: None, lines }
        }
    }
}

/// By field; what the server gives to every rule is not compared.
pub(super) async fn of_rule(
    State(app): State<App>,
    Extension(family): Extension<Family>,
    query: Query,
    _: Fresh,
    caller: Caller,
) -> Result<Response, ApiError> {
    let (wanted, read_scope, (from, to)) = (rules::OneRule::of(&query)?, caller.read_scope(), sides(&query));
    let find = move |catalog: &Catalog| {
        let rule = wanted.find(catalog, family, &read_scope)?;
        Ok((rule_of(catalog, &rule, &from)?, rule_of(catalog, &rule, &to)?))
    };
    app.scan(FAR, find, |found: Result<_, Refusal>| {
        let ((from, before), (to, after)) = found?;
        let changes = Some(diff::of_values(&written(before.as_deref()), &written(after.as_deref())));
        Ok(envelope::single("diff", &Difference { from, to, changes, lines: None }))
    })
    .await?
}

fn rule_of(catalog: &Catalog, rule: &Arc<Rule>, word: &str) -> Result<(Side, Option<Arc<Rule>>), Refusal> {
    let nothing = || Side { release_name: String::new(), version: 0 };
    let of_release = |release: &Arc<RuleRelease>| {
        let side = Side { release_name: release.name.clone(), version: release.version };
        (side, Some(release.rule.clone()))
    };
    let book = catalog.rules.of(rule.family());
    match word {
        DRAFT => Ok((nothing(), Some(rule.clone()))),
        ACTIVE => Ok(book.active().normal(&rule.id).map_or_else(|| (nothing(), None), of_release)),
        name => book.release(&rule.id, name).map(of_release).ok_or_else(|| no_release(name)),
    }
}
