//! Forms about one config file.

use axum::extract::{FromRequest, Request};
use axum::response::Response;

use super::Console;
use super::fields::Fields;
use super::form::Form;
use super::session::SessionUser;
use crate::model::config_file::{ConfigFileDraft, ConfigKey};
use crate::model::grant::Verb;

/// A form about a config file that its visitor may edit, or release if `RELEASES`.
pub(super) struct FileForm<const RELEASES: bool> {
    pub(super) visitor: SessionUser,
    pub(super) fields: Fields,
    pub(super) key: ConfigKey,
}

/// A form that edits a config file.
pub(super) type FileEdit = FileForm<false>;
/// A form that releases a config file or changes its releases.
pub(super) type FileRelease = FileForm<true>;

impl<const RELEASES: bool> FromRequest<Console> for FileForm<RELEASES> {
    type Rejection = Response;

    /// Refuses a visitor without the right.
    async fn from_request(request: Request, console: &Console) -> Result<Self, Response> {
        let Form { visitor, fields } = Form::from_request(request, console).await?;
        let key = key(&fields);
        let verb = if RELEASES { Verb::Release } else { Verb::Edit };
        visitor.check(verb, &key.namespace, &key.group).map_err(|refusal| visitor.barred(console, &refusal))?;
        Ok(FileForm { visitor, fields, key })
    }
}

/// Reads the key of a file.
pub(super) fn key(fields: &Fields) -> ConfigKey {
    ConfigKey::new(fields.get("namespace"), fields.get("group"), fields.get("name"))
}

/// Returns a draft that names a file.
pub(super) fn named_file(key: &ConfigKey) -> ConfigFileDraft {
    let ConfigKey { namespace, group, file } = key.clone();
    ConfigFileDraft { namespace, group, name: file, ..ConfigFileDraft::default() }
}
