//! The audit trail: its queries, and notes of actions that are not commands.

use std::net::IpAddr;

use super::{Caller, FAR, Operations};
use crate::catalog::audit::{AuditEvent, AuditNote, Filter};
use crate::catalog::page::{Listed, Page};
use crate::catalog::would_refuse::WouldRefuse;
use crate::controllers::RateClass;
use crate::model::code::{Code, Refusal};
use crate::model::limits;

impl Operations {
    /// Finds a page of the trail, newest first, and makes the answer on the thread that read it.
    pub async fn audit<A: Send + 'static>(
        &self,
        filter: Filter,
        page: Page,
        answer: impl FnOnce(Listed<AuditEvent>) -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        let node = self.node.clone();
        self.on_scan_turn(move || match node.member().audit_page(&filter, page) {
            Ok(Some(listed)) => Ok(answer(listed)),
            Ok(None) => {
                let why = format!("more than {} rows: bound it with since and until", limits::AUDIT_WALK_MAX);
                Err(Refusal::new(Code::InvalidParameter, why))
            }
            Err(error) => Err(Refusal::new(Code::StoreLayerException, error.to_string())),
        })
        .await?
    }

    /// Lists rules and releases that their authors would not have the right to make now.
    pub async fn would_refuse<A: Send + 'static>(
        &self,
        page: Page,
        answer: impl FnOnce(Listed<WouldRefuse>) -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        let now = self.node.sure_now();
        self.scan(FAR, move |catalog| catalog.would_refuse(now, &page), answer).await
    }

    /// Records an action of a caller that is not a command, with its result.
    pub fn note_done(&self, caller: &Caller, action: &str, kind: &str, name: &str, code: Code) {
        self.node.note(RateClass::Done, caller.signs(AuditNote::of(action, kind, name, code)));
    }

    /// Records a failed login. The name is recorded only if a user has it: the caller may have typed a password into
    /// the wrong field.
    pub fn note_login(&self, name: &str, address: Option<IpAddr>, request: &str, code: Code) {
        let is_known = self.node.state().catalog().access.user_named(name).is_some();
        let name = if is_known { name } else { "" };
        let note = AuditNote {
            user: name.to_owned(),
            address,
            request: request.to_owned(),
            ..AuditNote::of("login", "user", name, code)
        };
        self.node.note(RateClass::Stranger, note);
    }
}
