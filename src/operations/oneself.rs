//! The caller's own identity, and its logins.

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::write::made;
use super::{Caller, Items, Operations};
use crate::catalog::{Command, Credential, Outcome};
use crate::model::access::Token;
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grants, Verb};
use crate::model::service_token::TOKEN_HOLDER;
use crate::model::time::Timestamp;

/// The caller as this node knows it.
pub struct Oneself {
    pub name: String,
    pub grants: Grants,
    /// Grants that the bindings of an identity provider give; the others were given by hand.
    pub bound: Grants,
    /// Verbs that the grants allow anywhere.
    pub verbs: BTreeSet<Verb>, // bound: request
    pub signed_in_by: &'static str,
    /// Time at which the credential expires by itself; `None` if it does not.
    pub until: Option<Timestamp>,
}

/// A login to be ended.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionRequest {
    /// The id from the list of sessions.
    pub id: String,
}

impl Operations {
    pub fn oneself(&self, caller: &Caller) -> Oneself {
        let state = self.node.state();
        let access = state.access();
        let (signed_in_by, until) = match &caller.credential {
            Credential::Token(hash) if access.login(hash).is_some_and(|token| token.sso.is_some()) => {
                ("provider", access.end_of(hash))
            }
            Credential::Token(hash) if access.is_login(hash) => ("login", access.end_of(hash)),
            Credential::Token(hash) => ("token", access.end_of(hash)),
            Credential::Certificate(_) => ("certificate", None),
            Credential::Bearer(bearer) => ("bearer", Some(bearer.expires)),
            Credential::Login => ("login", None),
        };
        let verbs = caller.grants.roles().flat_map(|role| role.verbs().iter().copied()).collect();
        let holder = access.holder_of(&caller.credential, self.node.sure_now());
        let bound = holder.and_then(|holder| access.bound_grants(&holder)).unwrap_or_default();
        Oneself { name: caller.name.clone(), grants: caller.grants.clone(), bound, verbs, signed_in_by, until }
    }

    /// Lists logins, newest first: the caller's own, or those of `user`, which requires manage on everything.
    pub fn sessions(&self, caller: &Caller, user: Option<&str>) -> Result<Vec<Arc<Token>>, Refusal> {
        let name = user.unwrap_or(&caller.name);
        if name != caller.name {
            caller.check_everywhere(Verb::Manage)?;
        }
        let now = self.node.sure_now();
        let access = self.node.state().access();
        // A service token has no logins: its person is the user who made it.
        let person = Some(name).filter(|name| !name.starts_with(TOKEN_HOLDER)).map(|name| access.person_named(name));
        let all = person.map(|person| access.sessions_of(&person)).unwrap_or_default();
        Ok(all.into_iter().filter(|session| now < session.expires).collect())
    }

    /// Ends logins. Those of others require manage on everything. Ending one that does not exist is a success.
    pub async fn end_sessions(&self, caller: &Caller, items: Items<SessionRequest>) -> Result<Vec<Outcome>, Refusal> {
        let id = |SessionRequest { id }: SessionRequest| {
            if id.is_empty() { Err(Refusal::new(Code::InvalidParameter, "id is required")) } else { Ok(id) }
        };
        self.write(caller, made(items, id), Command::EndSessions).await
    }
}
