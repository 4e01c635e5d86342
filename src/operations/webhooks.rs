//! Webhooks: their secrets are sealed before anything is proposed, as those of access keys are.

use super::write::made;
use super::{Caller, Items, Operations, WithSecret};
use crate::catalog::{Command, Op, Outcome};
use crate::model::code::Refusal;
use crate::model::webhook::{WebhookDraft, WebhookRequest, check_reach};

impl Operations {
    /// Their secrets are given or drawn.
    pub async fn create_webhooks(
        &self,
        caller: &Caller,
        items: Items<WebhookRequest>,
    ) -> Result<Vec<WithSecret>, Refusal> {
        let seal = |request: WebhookRequest| {
            request.check_new()?;
            self.check_reach(&request)?;
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
            self.check_reach(&request)?;
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
            let WebhookRequest { name, revision, .. } = request;
            Ok(WebhookDraft { name, revision, ..WebhookDraft::default() })
        };
        self.write(caller, made(items, named), |items| Command::Webhooks(Op::Delete, items)).await
    }

    /// Checks that the URL of a request may be reached. An update that leaves a field out keeps its present value. One
    /// that touches neither stays as it was made, and the leader judges each address before it sends.
    fn check_reach(&self, request: &WebhookRequest) -> Result<(), Refusal> {
        if request.url.is_none() && request.allow_private != Some(true) {
            return Ok(());
        }
        let there = self.node.state().catalog().webhooks.get(&request.name).cloned();
        let kept = there.as_ref().map_or(("", false), |hook| (hook.url.as_str(), hook.allow_private));
        let url = request.url.as_deref().unwrap_or(kept.0);
        match url.is_empty() {
            true => Ok(()),
            false => check_reach(url, request.allow_private.unwrap_or(kept.1), &self.bounds.webhook_networks),
        }
    }
}
