//! Authentication of callers: a credential to a [`Caller`]. The one place that lets anybody in.

use std::net::IpAddr;

use sha2::{Digest, Sha256};

use super::{Operations, scan_limiter};
use crate::catalog::access::Holder;
use crate::catalog::audit::AuditNote;
use crate::catalog::authorization::{SEEING, refused};
use crate::catalog::{AuthorizedCommand, Command, Credential, Outcome};
use crate::controllers::RateClass;
use crate::model::access::TokenHash;
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grants, ReadScope, Verb};
use crate::origin::{Origin, Sender};

/// Caller of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The user, or `token:NAME` for a service token.
    pub name: String,
    pub credential: Credential,
    pub grants: Grants,
    /// Address of the caller, as far as it is known.
    pub address: Option<IpAddr>,
    /// From this very machine, and for no other.
    pub is_local: bool,
    /// Id of the request.
    pub request: String,
}

impl Caller {
    pub fn sender(&self) -> Sender {
        Sender { address: self.address, is_local: self.is_local }
    }

    /// Origin that limits count the caller by.
    pub fn origin(&self) -> Origin {
        Origin::of_user(&self.name)
    }

    /// Scope of what the caller sees in lists and look-ups.
    pub fn read_scope(&self) -> ReadScope {
        ReadScope::new(&self.grants, &[Verb::Read])
    }

    /// True if the caller may edit the files of a group, and so have the content of those that are kept encrypted.
    pub fn edits(&self, namespace: &str, group: &str) -> bool {
        self.grants.may(Verb::Edit, namespace, group)
    }

    /// Scope of what the caller sees where it asks as a client.
    pub fn client_sight(&self) -> ReadScope {
        ReadScope::new(&self.grants, SEEING)
    }

    /// The same caller by what this node knows now, if it is still let in.
    pub fn again(&self, operations: &Operations) -> Result<Caller, Refusal> {
        let holder = operations.holder(&self.credential, self.address).ok_or(Code::TokenNotExisted)?;
        Ok(Caller { grants: holder.grants, ..self.clone() })
    }

    /// Refuses who may not do this on everything: what belongs to the cluster as a whole.
    pub fn check_everywhere(&self, verb: Verb) -> Result<(), Refusal> {
        if self.grants.may_everywhere(verb) {
            return Ok(());
        }
        Err(Refusal::new(Code::NotAllowedAccess, format!("this needs {} on everything", verb.word())))
    }

    /// A note of what this caller did, where there is no command.
    pub fn signs(&self, note: AuditNote) -> AuditNote {
        AuditNote {
            user: self.name.clone(),
            token: self.credential.token_id().to_owned(),
            address: self.address,
            request: self.request.clone(),
            ..note
        }
    }

    /// A command of this caller.
    pub fn asks(&self, command: Command) -> AuthorizedCommand {
        AuthorizedCommand {
            credential: self.credential.clone(),
            address: self.address,
            request: self.request.clone(),
            self_registration: false,
            mutes_refusals: false,
            command,
        }
    }
}

impl Operations {
    /// Finds the caller behind a credential, by a state that is as fresh as it has to be.
    pub async fn identify(
        &self,
        credential: Credential,
        Sender { address, is_local }: Sender,
        request: String,
    ) -> Result<Caller, Refusal> {
        let found = self.holder(&credential, address);
        let holder = match found {
            Some(holder) => holder,
            None => {
                // Issued a moment ago on another node? Then this node is behind, and a linearizable look tells. Where
                // none is possible nobody can say that the token is wrong.
                let awaited = self.node.await_news().await;
                match (self.holder(&credential, address), awaited) {
                    (Some(holder), _) => holder,
                    (None, Ok(())) => return Err(Code::TokenNotExisted.into()),
                    (None, Err(error)) => return Err(error.into()),
                }
            }
        };
        let Holder { name, grants, .. } = holder;
        scan_limiter::are_of(&name);
        Ok(Caller { name, credential, grants, address, is_local, request })
    }

    /// Finds the caller of a credential by what this node knew last, for what only shows how the node itself is. It
    /// may have been revoked since; a node that does not know it cannot say that it is wrong.
    pub fn identify_by_last_known(
        &self,
        credential: Credential,
        Sender { address, is_local }: Sender,
        request: String,
    ) -> Result<Caller, Refusal> {
        let found = self.node.state().access().holder_of(&credential, self.node.sure_now());
        let Some(holder) = found.filter(|holder| holder.is_for(address)) else {
            let why = "this node does not know the token, and reaches nobody who might: /readyz?verbose says why";
            return Err(Refusal::new(Code::NoLeader, why));
        };
        let Holder { name, grants, .. } = holder;
        scan_limiter::are_of(&name);
        Ok(Caller { name, credential, grants, address, is_local, request })
    }

    /// Has something done that somebody asked for. One outcome per item; a token that was retired meanwhile
    /// refuses all of it.
    pub async fn ask(&self, by: &str, asked: AuthorizedCommand) -> Result<Vec<Outcome>, Refusal> {
        if let Some(refused) = self.refused_anywhere(by, &asked).await? {
            return Ok(refused);
        }
        let outcomes = self.node.ask(by, asked).await?;
        match outcomes.first() {
            Some(Outcome { code: Code::TokenNotExisted, .. }) => Err(Code::TokenNotExisted.into()),
            _ => Ok(outcomes),
        }
    }

    /// An outcome for each item of what its caller may do nowhere, which the log does not have to know.
    async fn refused_anywhere(&self, by: &str, asked: &AuthorizedCommand) -> Result<Option<Vec<Outcome>>, Refusal> {
        let verbs = asked.command.verbs(asked.self_registration);
        let lacks = || {
            let holder = self.holder(&asked.credential, asked.address)?;
            (!verbs.iter().all(|verb| holder.grants.may_somewhere(*verb))).then_some(())
        };
        if verbs.is_empty() || lacks().is_none() {
            return Ok(None);
        }
        // The right may have been given a moment ago on another node.
        self.node.await_news().await?;
        if lacks().is_none() {
            return Ok(None);
        }
        let count = asked.command.items();
        let note = AuditNote {
            user: by.to_owned(),
            token: asked.credential.token_id().to_owned(),
            address: asked.address,
            request: asked.request.clone(),
            count: u32::try_from(count).unwrap_or(u32::MAX),
            ..self.node.state().catalog().note_of_refused(&asked.command, asked.self_registration)
        };
        self.node.note(RateClass::Refused, note);
        Ok(Some(vec![refused(verbs); count]))
    }

    /// Has one thing done: refused where it is.
    pub async fn ask_one(&self, by: &str, asked: AuthorizedCommand) -> Result<Code, Refusal> {
        match self.ask(by, asked).await?.into_iter().next() {
            Some(refused) if !refused.code.is_success() => Err(Refusal::new(refused.code, refused.detail)),
            done => Ok(done.map_or(Code::ExecuteSuccess, |outcome| outcome.code)),
        }
    }

    /// As far as this node may say: one that has not been up to date for too long believes nobody, as it may not know
    /// of a revocation.
    fn holder(&self, credential: &Credential, address: Option<IpAddr>) -> Option<Holder> {
        if !self.node.trusts_tokens(self.bounds.token_trust) {
            return None;
        }
        let holder = self.node.state().access().holder_of(credential, self.node.sure_now())?;
        holder.is_for(address).then_some(holder)
    }
}

/// A token that nobody can guess.
pub fn new_token() -> String {
    hex::encode(rand::random::<[u8; 32]>())
}

/// Hash of a token, the only part of it that is kept.
pub fn token_hash(token: &str) -> TokenHash {
    TokenHash(hex::encode(Sha256::digest(token)))
}
