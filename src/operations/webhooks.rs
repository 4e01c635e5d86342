//! Webhooks: their secrets are sealed before anything is proposed, as those of access keys are.

use super::write::made;
use super::{Caller, Drawn, Items, Operations};
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
        self.write_sealed(caller, made(items, seal), |items| Command::Webhooks(Op::Create, items)).await
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
        self.write(caller, made(items, seal), |items| Command::Webhooks(Op::Update, items)).await
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
        self.write(caller, made(items, named), |items| Command::Webhooks(Op::Delete, items)).await
    }
}
