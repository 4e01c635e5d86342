//! Webhooks: their secrets are sealed before anything is proposed, as those of access keys are.

use super::accounts::Drawn;
use super::{Caller, Items, Operations};
use crate::catalog::{Command, Op, Outcome};
use crate::model::code::Refusal;
use crate::model::webhook::{WebhookDraft, WebhookRequest};

impl Operations {
    /// Their secrets are given or drawn.
    pub async fn create_webhooks(&self, caller: &Caller, items: Items<WebhookRequest>) -> Result<Vec<Drawn>, Refusal> {
        let seal = |request: WebhookRequest| {
            request.check_new()?;
            self.node.keyring().seal_new_webhook(request)
        };
        let mut secrets = Vec::with_capacity(items.len());
        let mut drafts = Vec::with_capacity(items.len());
        for sealed in items.into_iter().map(|item| item.and_then(seal)) {
            secrets.push(sealed.as_ref().ok().map(|(_, secret)| secret.expose().to_owned()));
            drafts.push(sealed.map(|(draft, _)| draft));
        }
        let outcomes = self.write(caller, drafts, |items| Command::Webhooks(Op::Create, items)).await?;
        Ok(outcomes.into_iter().zip(secrets).collect())
    }

    pub async fn update_webhooks(
        &self,
        caller: &Caller,
        items: Items<WebhookRequest>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let seal = |request: WebhookRequest| {
            request.check()?;
            self.node.keyring().seal_webhook(request)
        };
        let drafts = items.into_iter().map(|item| item.and_then(seal)).collect();
        self.write(caller, drafts, |items| Command::Webhooks(Op::Update, items)).await
    }

    pub async fn delete_webhooks(
        &self,
        caller: &Caller,
        items: Items<WebhookRequest>,
    ) -> Result<Vec<Outcome>, Refusal> {
        let named = |request: WebhookRequest| {
            request.check_named()?;
            Ok(WebhookDraft { name: request.name, ..WebhookDraft::default() })
        };
        let drafts = items.into_iter().map(|item| item.and_then(named)).collect();
        self.write(caller, drafts, |items| Command::Webhooks(Op::Delete, items)).await
    }
}
