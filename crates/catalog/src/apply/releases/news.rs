//! Events of releases for webhooks.

use crate::catalog::ctx::Apply;
use crate::catalog::history::Thing;
use crate::catalog::webhooks::beginning;
use crate::model::limits;
use crate::model::release::Event;
use crate::model::rollout::StagedRollout;
use crate::model::webhook::{HookEvent, News, ReleaseNews, RolloutNews};

impl Apply<'_> {
    /// Adds the event of a release, queued at the end of the entry.
    pub(crate) fn emit_release(&mut self, thing: &Thing, event: &Event, rollout: Option<&StagedRollout>) {
        let Some(word) = HookEvent::of(event.action).filter(|_| self.catalog.webhooks.is_listening()) else { return };
        let is_of_rollout = matches!(word, HookEvent::RolloutStep | HookEvent::RolloutStopped);
        let rollout = rollout.filter(|_| is_of_rollout).map(|rollout| RolloutNews {
            step: rollout.step,
            percent: rollout.percent(),
            state: rollout.state,
            reason: beginning(&rollout.reason, limits::WEBHOOK_COMMENT_CHARS_MAX),
        });
        let release = ReleaseNews {
            user: event.user.clone(),
            release_name: event.release_name.clone(),
            version: event.version,
            from_version: event.from_version,
            comment: beginning(&event.comment, limits::WEBHOOK_COMMENT_CHARS_MAX),
        };
        let news = News { event: word, time: event.time, release: Some(release), rollout, ..News::default() };
        self.emit_about(thing, news);
    }

    /// Adds an event about a thing with releases.
    pub(crate) fn emit_about(&mut self, thing: &Thing, news: News) {
        if !self.catalog.webhooks.is_listening() {
            return;
        }
        self.changes.tell(match thing {
            Thing::File(key) => News {
                kind: "configfile".into(),
                namespace: key.namespace.clone(),
                group: key.group.clone(),
                name: key.file.clone(),
                ..news
            },
            Thing::Rule(family, id) => {
                let rule = self.catalog.rules.of(*family).get(id);
                let (namespace, name) =
                    rule.map(|rule| (rule.namespace.clone(), rule.name.clone())).unwrap_or_default();
                News { kind: family.word().into(), namespace, name, ..news }
            }
        });
    }
}
