//! Webhooks: their secrets are sealed before they are proposed, like those of access keys.

use super::write::made;
use super::{Caller, Items, Operations, WithSecret};
use crate::catalog::{Command, Op};
use crate::model::code::Refusal;
use crate::model::webhook::{WebhookDraft, WebhookRequest, check_reach};

impl Operations {
    /// Creates, changes or deletes webhooks. The secret of a new one is given or generated.
    pub async fn webhooks(
        &self,
        caller: &Caller,
        op: Op,
        items: Items<WebhookRequest>,
    ) -> Result<Vec<WithSecret>, Refusal> {
        let keyring = self.node.keyring();
        let seal = |request: WebhookRequest| match op {
            Op::Create => {
                request.check_new()?;
                self.check_reach(&request)?;
                keyring.seal_new_webhook(request).map(|(draft, secret)| (draft, Some(secret)))
            }
            Op::Update => {
                request.check()?;
                self.check_reach(&request)?;
                Ok((keyring.seal_webhook(request)?, None))
            }
            Op::Delete => {
                request.check_named()?;
                let WebhookRequest { name, revision, .. } = request;
                Ok((WebhookDraft { name, revision, ..WebhookDraft::default() }, None))
            }
        };
        self.write_with_secrets(caller, made(items, seal), |items| Command::Webhooks(op, items)).await
    }

    /// Checks that the URL of a webhook may be reached. Absent fields of an update keep their present values; an update
    /// of neither field is not checked. The leader checks each address again before it sends.
    fn check_reach(&self, request: &WebhookRequest) -> Result<(), Refusal> {
        if request.url.is_none() && request.allow_private != Some(true) {
            return Ok(());
        }
        let there = self.node.state().catalog().webhooks.get(&request.name).cloned();
        let kept = there.as_ref().map_or(("", false), |hook| (hook.url.as_str(), hook.allow_private));
        let url = request.url.as_deref().unwrap_or(kept.0);
        if url.is_empty() {
            return Ok(());
        }
        check_reach(url, request.allow_private.unwrap_or(kept.1), &self.bounds.webhook_networks)
    }
}
