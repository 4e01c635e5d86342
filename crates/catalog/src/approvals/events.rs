//! Events of approvals for webhooks.

use crate::catalog::ctx::Apply;
use crate::catalog::webhooks::beginning;
use crate::model::approval::ApprovalRequest;
use crate::model::limits;
use crate::model::policy::{Place, PolicyKind};
use crate::model::webhook::{EmergencyNews, HookEvent, News, RequestNews};

impl Apply<'_> {
    /// Adds an event of a request, queued at the end of the entry.
    pub(super) fn emit_request(&mut self, event: HookEvent, request: &ApprovalRequest) {
        let said = match event {
            HookEvent::Refused => &request.reason,
            HookEvent::Approved => request.approvals.last().map_or(&request.comment, |given| &given.comment),
            _ => &request.comment,
        };
        let told = RequestNews {
            id: request.id.clone(),
            act: request.act.word().to_owned(),
            user: request.created.by.clone(),
            comment: beginning(said, limits::WEBHOOK_COMMENT_CHARS_MAX),
            by: self.ctx.by.clone(),
        };
        let news = News { event, time: self.ctx.time, request: Some(told), ..News::default() };
        self.emit_about_place(news, request.kind, &request.place());
    }

    /// Adds an event of an action carried out in an emergency.
    pub(super) fn emit_emergency(&mut self, kind: PolicyKind, place: &Place, reason: &str) {
        let reason = beginning(reason, limits::WEBHOOK_COMMENT_CHARS_MAX);
        let told = EmergencyNews { user: self.ctx.by.clone(), reason };
        let news = News { event: HookEvent::Emergency, time: self.ctx.time, emergency: Some(told), ..News::default() };
        self.emit_about_place(news, kind, place);
    }

    fn emit_about_place(&mut self, news: News, kind: PolicyKind, place: &Place) {
        if !self.catalog.webhooks.is_listening() {
            return;
        }
        let (namespace, group, name) = match place {
            Place::File(key) => (&key.namespace, key.group.clone(), key.file.clone()),
            Place::Rule { namespace, name } => (namespace, String::new(), name.clone()),
            Place::End(end) => (&end.namespace, String::new(), end.service.clone()),
        };
        self.changes.tell(News { kind: kind.word().into(), namespace: namespace.clone(), group, name, ..news });
    }
}
