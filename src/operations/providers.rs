//! Identity providers and their people. The secret of a client is sealed before it is proposed, like that of a webhook.

use super::write::made;
use super::{Caller, Items, Operations};
use crate::catalog::{Command, Op, Outcome};
use crate::model::code::Refusal;
use crate::model::sso::{IdentityRequest, ProviderDraft, ProviderRequest};

impl Operations {
    /// Creates, changes or deletes identity providers.
    pub async fn providers(
        &self,
        caller: &Caller,
        op: Op,
        items: Items<ProviderRequest>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let keyring = self.node.keyring();
        let seal = |request: ProviderRequest| match op {
            Op::Create => {
                request.check_new()?;
                keyring.seal_provider(request)
            }
            Op::Update => {
                request.check()?;
                keyring.seal_provider(request)
            }
            Op::Delete => {
                request.check_named()?;
                let ProviderRequest { name, revision, .. } = request;
                Ok(ProviderDraft { name, revision, ..ProviderDraft::default() })
            }
        };
        self.write(caller, made(items, seal), |items| Command::Providers(op, items)).await
    }

    /// Deletes identities, so that their names are free, and ends their sessions; with `tokens` also the service tokens
    /// of these people.
    pub async fn free_identities(
        &self,
        caller: &Caller,
        items: Items<IdentityRequest>,
        tokens: bool,
    ) -> Result<Vec<Outcome>, Refusal> {
        let checked = |request: IdentityRequest| request.check().map(|()| request);
        self.write(caller, made(items, checked), |items| Command::FreeIdentities { items, tokens }).await
    }
}
