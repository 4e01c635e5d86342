//! Access keys as the management surface shows them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::access_key::{AccessKey, AccessMode};

/// Secret that config clients of an app sign their requests with.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AccessKey")]
pub(crate) struct AccessKeyView<'a> {
    app_id: &'a str,
    name: &'a str,
    mode: AccessMode,
    comment: &'a str,
    /// Namespaces whose files it is for; none for all.
    namespaces: &'a [String],
    /// In the answer of a create only.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    /// `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    mtime: String,
    modify_by: &'a str,
    /// Changes with every write that changes something; empty of one that is older than that.
    revision: &'a str,
}

impl<'a> AccessKeyView<'a> {
    /// The secret is shown to who made the key, and to nobody again.
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
