//! Events of approvals for webhooks.

use crate::catalog::Catalog;
use crate::catalog::change::ChangeSet;
use crate::catalog::ctx::Ctx;
use crate::catalog::webhooks::beginning;
use crate::model::approval::ApprovalRequest;
use crate::model::limits;
use crate::model::policy::{Place, PolicyKind};
use crate::model::webhook::{EmergencyNews, HookEvent, News, RequestNews};

impl Catalog {
    /// Adds an event of a request, queued at the end of the entry.
    pub(super) fn tell_of_request(
        &self,
        ctx: &Ctx,
        event: HookEvent,
        request: &ApprovalRequest,
        changes: &mut ChangeSet,
    ) {
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
            by: ctx.by.clone(),
        };
        let news = News { event, time: ctx.time, request: Some(told), ..News::default() };
        self.tell_of(news, request.kind, &request.place(), changes);
    }

    /// Adds an event of an action carried out in an emergency.
    pub(super) fn tell_of_emergency(
        &self,
        ctx: &Ctx,
        kind: PolicyKind,
        place: &Place,
        reason: &str,
        changes: &mut ChangeSet,
    ) {
        let reason = beginning(reason, limits::WEBHOOK_COMMENT_CHARS_MAX);
        let told = EmergencyNews { user: ctx.by.clone(), reason };
        let news = News { event: HookEvent::Emergency, time: ctx.time, emergency: Some(told), ..News::default() };
        self.tell_of(news, kind, place, changes);
    }

    fn tell_of(&self, news: News, kind: PolicyKind, place: &Place, changes: &mut ChangeSet) {
        if !self.webhooks.is_listening() {
            return;
        }
        let (namespace, group, name) = match place {
            Place::File(key) => (&key.namespace, key.group.clone(), key.file.clone()),
            Place::Rule { namespace, name } => (namespace, String::new(), name.clone()),
            Place::End(end) => (&end.namespace, String::new(), end.service.clone()),
        };
        changes.tell(News { kind: kind.word().into(), namespace: namespace.clone(), group, name, ..news });
    }
}
