//! Access keys as the management surface shows them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::access_key::{AccessKey, AccessMode};

/// Secret with which config clients of an app sign their requests.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AccessKey")]
pub(crate) struct AccessKeyView<'a> {
    app_id: &'a str,
    name: &'a str,
    mode: AccessMode,
    comment: &'a str,
    /// Namespaces whose files the key can read; empty for all.
    namespaces: &'a [String],
    /// Secret, returned by a create only.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    mtime: String,
    modify_by: &'a str,
    /// Revision, new after every change; empty for an object that is older than revisions.
    revision: &'a str,
}

impl<'a> AccessKeyView<'a> {
    /// Creates the view; the secret is passed only in the answer to the create.
    pub(crate) fn new(key: &'a AccessKey, secret: Option<&'a str>) -> Self {
        AccessKeyView {
            app_id: &key.app_id,
            name: &key.name,
            mode: key.mode,
            comment: &key.comment,
            namespaces: &key.namespaces,
            secret,
            ctime: key.created.time.text(),
            create_by: &key.created.by,
            mtime: key.modified.time.text(),
            modify_by: &key.modified.by,
            revision: &key.revision,
        }
    }
}
