//! Authentication: finds the [`Caller`] of a credential. No other module authenticates.

use std::net::IpAddr;

use sha2::{Digest, Sha256};

use super::existing::Obstacles;
use super::{Operations, missing, scan_limiter};
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
    /// Address of the caller, if known.
    pub address: Option<IpAddr>,
    /// True if the request was sent from this machine, and not on behalf of another.
    pub is_local: bool,
    /// Id of the request.
    pub request: String,
}

impl Caller {
    pub fn sender(&self) -> Sender {
        Sender { address: self.address, is_local: self.is_local }
    }

    /// Returns the origin by which limits count the caller.
    pub fn origin(&self) -> Origin {
        Origin::of_user(&self.name)
    }

    /// Returns the scope of lists and look-ups.
    pub fn read_scope(&self) -> ReadScope {
        ReadScope::new(&self.grants, &[Verb::Read])
    }

    /// Reports whether the caller may edit the files of a group, and therefore read the content of encrypted ones.
    pub fn edits(&self, namespace: &str, group: &str) -> bool {
        self.grants.may(Verb::Edit, namespace, group)
    }

    /// Returns the scope of reads that the caller makes as a client.
    pub fn client_sight(&self) -> ReadScope {
        ReadScope::new(&self.grants, SEEING)
    }

    /// Authenticates the caller again with the grants that this node knows now.
    pub fn again(&self, operations: &Operations) -> Result<Caller, Refusal> {
        let holder = operations.holder(&self.credential, self.address).ok_or(Code::TokenNotExisted)?;
        Ok(Caller { grants: holder.grants, ..self.clone() })
    }

    /// Refuses a caller that may not do this on everything; for actions on the cluster as a whole.
    pub fn check_everywhere(&self, verb: Verb) -> Result<(), Refusal> {
        if self.grants.may_everywhere(verb) {
            return Ok(());
        }
        Err(Refusal::new(Code::NotAllowedAccess, format!("this needs {} on everything", verb.word())))
    }

    /// Fills in the caller of an audit note.
    pub fn signs(&self, note: AuditNote) -> AuditNote {
        AuditNote {
            user: self.name.clone(),
            token: self.credential.token_id().to_owned(),
            address: self.address,
            request: self.request.clone(),
            ..note
        }
    }

    /// Wraps a command of this caller.
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
    /// Authenticates a credential. A token that this node does not know is looked up again once the node has caught up.
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
                // The token may have been issued a moment ago on another node: look again after a linearizable read.
                // Without one, this node cannot report that the token is invalid.
                let awaited = self.node.await_news().await;
                match (self.holder(&credential, address), awaited) {
                    (Some(holder), _) => holder,
                    (None, Ok(())) => return Err(self.refusal_of(&credential, address, &request)),
                    (None, Err(error)) => return Err(error.into()),
                }
            }
        };
        let Holder { name, grants, .. } = holder;
        scan_limiter::are_of(&name);
        Ok(Caller { name, credential, grants, address, is_local, request })
    }

    /// Authenticates a credential by the last known state, for reports on the node itself. The credential may have been
    /// revoked since; one that this node does not know is refused as unavailable, not as wrong.
    pub fn identify_by_last_known(
        &self,
        credential: Credential,
        Sender { address, is_local }: Sender,
        request: String,
    ) -> Result<Caller, Refusal> {
        let found = self.node.state().access().holder_of(&credential, self.node.sure_now());
        let Some(holder) = found.filter(|holder| holder.is_for(address)) else {
            let why = "this node does not know the token, and reaches no node that might: see /readyz?verbose";
            return Err(Refusal::new(Code::NoLeader, why));
        };
        let Holder { name, grants, .. } = holder;
        scan_limiter::are_of(&name);
        Ok(Caller { name, credential, grants, address, is_local, request })
    }

    /// Carries out a command and returns one outcome per item. Refuses the whole command if its token was revoked
    /// meanwhile.
    pub async fn ask(&self, by: &str, asked: AuthorizedCommand) -> Result<Vec<Outcome>, Refusal> {
        if let Some(refused) = self.refused_anywhere(by, &asked).await? {
            return Ok(refused);
        }
        let (missing, services) = (missing::named_things(&asked.command), missing::named_services(&asked.command));
        let obstacles = Obstacles::of(&asked.command);
        let mut outcomes = self.node.ask(by, asked).await?;
        missing::name_missing(&mut outcomes, &missing);
        missing::name_missing_services(&mut outcomes, &services);
        obstacles.name_existing(&mut outcomes);
        match outcomes.first() {
            Some(Outcome { code: Code::TokenNotExisted, .. }) => Err(Code::TokenNotExisted.into()),
            _ => Ok(outcomes),
        }
    }

    /// Returns refusals for all items if the caller has the needed right nowhere; such a command is not put into the
    /// log.
    async fn refused_anywhere(&self, by: &str, asked: &AuthorizedCommand) -> Result<Option<Vec<Outcome>>, Refusal> {
        let verbs = asked.command.verbs(asked.self_registration);
        let lacks = || {
            let holder = self.holder(&asked.credential, asked.address)?;
            (!verbs.iter().all(|verb| holder.grants.may_somewhere(*verb))).then_some(())
        };
        if verbs.is_empty() || lacks().is_none() {
            return Ok(None);
        }
        // The right may have been granted a moment ago on another node.
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

    /// Carries out a command of one item, and returns a refusal as an error.
    pub async fn ask_one(&self, by: &str, asked: AuthorizedCommand) -> Result<Code, Refusal> {
        match self.ask(by, asked).await?.into_iter().next() {
            Some(refused) if !refused.code.is_success() => Err(Refusal::new(refused.code, refused.detail)),
            done => Ok(done.map_or(Code::ExecuteSuccess, |outcome| outcome.code)),
        }
    }

    /// Returns the reason why a credential has no holder. A person or program of a provider without any right leaves a
    /// row in the audit trail.
    fn refusal_of(&self, credential: &Credential, address: Option<IpAddr>, request: &str) -> Refusal {
        let state = self.node.state();
        let refusal = state.access().refusal_of(credential, self.node.sure_now());
        if refusal.code == Code::NotAllowedAccess {
            let name = state.access().claimed_name(credential);
            let note = AuditNote {
                user: name.clone(),
                token: credential.token_id().to_owned(),
                address,
                request: request.to_owned(),
                count: 1,
                ..AuditNote::refused("identity", &name, refusal.code)
            };
            self.node.note(RateClass::Refused, note);
        }
        refusal
    }

    /// Finds the holder of a credential. `None` as well if this node has been out of date for too long: it may have
    /// missed a revocation.
    fn holder(&self, credential: &Credential, address: Option<IpAddr>) -> Option<Holder> {
        if !self.node.trusts_tokens(self.bounds.token_trust) {
            return None;
        }
        let holder = self.node.state().access().holder_of(credential, self.node.sure_now())?;
        holder.is_for(address).then_some(holder)
    }
}

/// Generates a token of 256 random bits.
pub fn new_token() -> String {
    hex::encode(rand::random::<[u8; 32]>())
}

/// Hashes a token; only the hash is stored.
pub fn token_hash(token: &str) -> TokenHash {
    TokenHash(hex::encode(Sha256::digest(token)))
}
