//! `GET /config/v1/configfiles/release/diff`: differences between two of these: the draft of a file, its active normal
//! release, any release.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;

use super::encryption;
use super::releases::{KEY, key};
use crate::api::http::{ApiResult, App, Caller, Doc, Fresh, Query, Shape, envelope};
use crate::api::releases::{ACTIVE, DRAFT, DiffSide, Difference, SIDES, no_release};
use crate::catalog::Catalog;
use crate::catalog::approvals::ReleasedFile;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigKey, ConfigRelease, Format};
use crate::model::content::Content;
use crate::model::{diff, properties};
use crate::operations::FAR;

/// Time limit for the search of a minimal line difference.
const SEARCH_MAX: Duration = Duration::from_millis(500);

pub(crate) const DIFF: Doc = Doc::new("Config releases")
    .says(
        "What is different between two of: the draft of a file, what is in force, and any release of it. If one of \
         them is encrypted, this needs edit.",
    )
    .query(&[KEY, SIDES])
    .gives(Shape::single::<Difference>("diff"))
    .codes(&[&[Code::InvalidConfigFileName, Code::NotFoundResource, Code::NotAllowedAccess], encryption::READ_CODES]);

pub(crate) async fn diff(State(app): State<App>, query: Query, _: Fresh, caller: Caller) -> ApiResult {
    let (key, read_scope, (from, to)) = (key(&query)?, caller.read_scope(), DiffSide::named(&query));
    let (reader, named) = (app.clone(), key.clone());
    let find = move |catalog: &Catalog| {
        if !read_scope.sees(&key.namespace, &key.group) {
            return Err(Refusal::missing(&key.placed()));
        }
        Ok((text_of(catalog, &key, &from)?, text_of(catalog, &key, &to)?))
    };
    app.scan(FAR, find, move |found: Result<_, Refusal>| {
        let (mut from, mut to) = found?;
        for side in [&mut from, &mut to] {
            side.read(&reader, &caller, &named)?;
        }
        Ok(envelope::single("diff", &from.against(to)))
    })
    .await?
}

/// One side of a file's diff.
pub(crate) struct FileText {
    side: DiffSide,
    content: Content,
    encrypted: bool,
    format: Format,
}

fn text_of(catalog: &Catalog, key: &ConfigKey, word: &str) -> Result<FileText, Refusal> {
    let of_release = |release: &Arc<ConfigRelease>| FileText {
        side: DiffSide { release_name: release.name.clone(), version: release.version },
        content: release.content.clone(),
        encrypted: release.encrypted,
        format: Format::of_suffix(&key.file).unwrap_or(release.format),
    };
    let file = catalog.configs.file(key).ok_or_else(|| Refusal::missing(&key.placed()))?;
    let nothing = |encrypted: bool, content: Content| FileText {
        side: DiffSide::unreleased(),
        content,
        encrypted,
        format: Format::of_suffix(&key.file).unwrap_or(file.format),
    };
    match word {
        DRAFT => Ok(nothing(file.encrypted, file.content.clone())),
        ACTIVE => {
            Ok(catalog.configs.active_release(key).map_or_else(|| nothing(false, Content::default()), of_release))
        }
        name => catalog.configs.release(key, name).map(of_release).ok_or_else(|| no_release(name, &key.placed())),
    }
}

impl FileText {
    /// Returns the side for a file as released or to be released; an empty one for `None`.
    pub(crate) fn of(key: &ConfigKey, released: Option<&ReleasedFile>) -> FileText {
        let format = |format: Format| Format::of_suffix(&key.file).unwrap_or(format);
        match released {
            None => FileText {
                side: DiffSide::unreleased(),
                content: Content::default(),
                encrypted: false,
                format: format(Format::Text),
            },
            Some(ReleasedFile { release_name, version, file }) => FileText {
                side: DiffSide { release_name: release_name.clone(), version: *version },
                content: file.content.clone(),
                encrypted: file.encrypted,
                format: format(file.format),
            },
        }
    }

    /// Reads a content that is only on disk, and opens an encrypted one for callers with the permission.
    pub(crate) fn read(&mut self, app: &App, caller: &Caller, key: &ConfigKey) -> Result<(), Refusal> {
        self.content = if self.encrypted {
            (&*app.operations.needed_content(caller, key, true, &self.content)?).into()
        } else {
            app.operations.whole(&self.content)?
        };
        Ok(())
    }

    pub(crate) fn against(self, to: FileText) -> Difference {
        let is_properties = [self.format, to.format].iter().all(|format| *format == Format::Properties);
        let pairs = || Some((properties::parse(&self.content).ok()?, properties::parse(&to.content).ok()?));
        // Properties that cannot be parsed are compared as text.
        match pairs().filter(|_| is_properties) {
            Some((before, after)) => {
                let changes = Some(diff::of_pairs(&before, &after));
                Difference { from: self.side, to: to.side, changes, lines: None }
            }
            None => {
                let lines = Some(diff::of_texts(&self.content, &to.content, Instant::now() + SEARCH_MAX));
                Difference { from: self.side, to: to.side, changes: None, lines }
            }
        }
    }
}
