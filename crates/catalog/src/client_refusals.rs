//! Refusals of releases by clients, as events for webhooks. The catalog does not store them.

use serde::{Deserialize, Serialize};

use super::change::Outcome;
use super::ctx::Apply;
use super::history::Thing;
use super::webhooks::beginning;
use crate::model::code::Code;
use crate::model::limits;
use crate::model::webhook::{ClientNews, HookEvent, News, ReleaseNews};

/// Report that a client could not apply a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRefusal {
    pub thing: Thing,
    /// Version of the release.
    pub version: u64,
    pub address: String,
    pub agent: String,
    /// Reason given by the client.
    pub message: String,
    /// Number of further clients that could not apply it since the last event.
    #[serde(default, skip_serializing_if = "crate::model::is_zero")]
    pub others: u64,
}

impl Apply<'_> {
    pub(super) fn emit_client_refusal(&mut self, refusal: &ClientRefusal) -> Outcome {
        let ClientRefusal { thing, version, address, agent, message, others } = refusal;
        let Some(release_name) = self.catalog.release_named_by_version(thing, *version) else {
            return Code::NoNeedUpdate.into();
        };
        let release = ReleaseNews { release_name, version: *version, ..ReleaseNews::default() };
        let message = beginning(message, limits::WEBHOOK_COMMENT_CHARS_MAX);
        let count = others.saturating_add(1);
        let client = ClientNews { address: address.clone(), agent: agent.clone(), message, count };
        let news = News {
            event: HookEvent::ClientRefused,
            time: self.ctx.time,
            release: Some(release),
            client: Some(client),
            ..News::default()
        };
        self.emit_about(thing, news);
        Outcome::default()
    }
}
