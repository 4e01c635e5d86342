//! Users and service tokens as the management surface shows them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::access::User;
use crate::model::grant::Grants;
use crate::model::service_token::ServiceToken;
use crate::model::sso::SEPARATOR;
use crate::model::time::Timestamp;

/// A user; the password is never shown.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "User")]
pub(crate) struct UserView<'a> {
    id: &'a str,
    name: &'a str,
    /// Name of the identity provider of a person; absent for a local user.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    /// Name under which the provider knows the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
    comment: &'a str,
    disabled: bool,
    grants: &'a Grants,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    mtime: String,
    /// Revision, new after every change; empty for an object that is older than revisions.
    revision: &'a str,
}

impl<'a> UserView<'a> {
    pub(crate) fn new(user: &'a User) -> Self {
        let User { id, name, comment, disabled, grants, ctime, mtime, revision, sso, .. } = user;
        let (ctime, mtime) = (ctime.text(), mtime.text());
        // The name of a person is that of its provider, which has no separator, and its `sub`.
        let provider = sso.as_ref().and_then(|_| name.split(SEPARATOR).next());
        let sub = sso.as_ref().map(|sso| sso.key.sub.as_str());
        UserView { id, name, provider, sub, comment, disabled: *disabled, grants, ctime, mtime, revision }
    }
}

/// A service token.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ServiceToken")]
pub(crate) struct ServiceTokenView<'a> {
    /// Id of the token in the audit trail.
    id: &'a str,
    name: &'a str,
    comment: &'a str,
    /// True if the token is refused.
    disabled: bool,
    grants: &'a Grants,
    /// Networks from which the token is accepted; empty for any.
    networks: Vec<String>,
    /// Time, `YYYY-MM-DD HH:MM:SS`, UTC, as all times.
    ctime: String,
    create_by: &'a str,
    /// Time of the last change; empty before the first.
    mtime: String,
    modify_by: &'a str,
    /// Time of expiry; empty for never.
    expires: String,
    /// End of the validity of the previous secret; empty if there is none.
    previous_until: String,
    /// Revision, new after every change; empty for an object that is older than revisions.
    revision: &'a str,
    /// The token itself, returned by the create and the rotation only.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
}

impl<'a> ServiceTokenView<'a> {
    pub(crate) fn new(token: &'a ServiceToken, secret: Option<&'a str>) -> Self {
        let text = |time: Option<Timestamp>| time.map(Timestamp::text).unwrap_or_default();
        ServiceTokenView {
            id: token.hash.id(),
            name: &token.name,
            comment: &token.comment,
            disabled: token.disabled,
            grants: &token.grants,
            networks: token.networks.iter().map(ToString::to_string).collect(),
            ctime: token.ctime.text(),
            create_by: &token.by,
            mtime: text(token.modified.as_ref().map(|stamp| stamp.time)),
            modify_by: token.modified.as_ref().map_or("", |stamp| &stamp.by),
            expires: text(token.expires),
            previous_until: text(token.previous.as_ref().map(|previous| previous.until)),
            revision: &token.revision,
            secret,
        }
    }
}
