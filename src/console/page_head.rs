//! The head of the page of a rule or a file: its state, its one button, its last changes, and the panel shown first.

use std::sync::Arc;

use super::concurrent::Asked;
use super::releases::{HeadAct, ReleaseRow, called, has_canary, head_acts};
use super::texts::{self, Texts};
use super::time_ago::TimeAgo;
use crate::catalog::Catalog;
use crate::catalog::history::Thing;
use crate::model::release::Event;
use crate::model::stamp::Stamp;

/// A panel of the page. All are in the document; a fragment in the address selects another one than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panel {
    Overview,
    Edit,
    Releases,
}

impl Panel {
    /// Returns the CSS classes of `panel`, if this one is shown first.
    pub(super) fn class_of(self, panel: Panel) -> &'static str {
        if self == panel { "panel first" } else { "panel" }
    }

    /// Returns `aria-current` for the tab of `panel`.
    pub(super) fn current(self, panel: Panel) -> &'static str {
        if self == panel { "page" } else { "false" }
    }
}

/// The one button in the head of a page.
#[derive(Debug, PartialEq)]
pub(super) enum FirstAct {
    /// A form with one button.
    Change(HeadAct),
    /// A link to a part of the page, or to another page.
    Go { link: String, text: &'static str, class: &'static str },
}

/// Data on which the button depends.
pub(super) struct Situation<'a> {
    pub(super) releases: &'a [ReleaseRow],
    /// Request that waits for the release of the draft, or of an earlier one.
    pub(super) asked: Option<&'a Asked>,
    pub(super) asks_approval: bool,
    pub(super) edits: bool,
    pub(super) releases_them: bool,
    /// True if clients do not have the draft.
    pub(super) is_new: bool,
}

impl<'a> Situation<'a> {
    fn asked_for_draft(&self) -> Option<&'a Asked> {
        self.asked.filter(|asked| asked.is_of_draft)
    }

    /// Reports whether the visitor may release the draft, and no request for that waits.
    pub(super) fn may_release(&self) -> bool {
        self.releases_them && self.asked_for_draft().is_none()
    }

    /// Returns the act that comes next; `None` for a visitor without any.
    pub(super) fn first_act(&self, t: &Texts) -> Option<FirstAct> {
        let go = |link: &str, text, class| Some(FirstAct::Go { link: link.to_owned(), text, class });
        let mut acts = head_acts(t, self.releases).into_iter();
        if has_canary(self.releases) && self.releases_them {
            return match acts.next() {
                Some(_) if self.asks_approval => go("#acts", t.object.ask_to_promote, "primary"),
                Some(promotion) => Some(FirstAct::Change(promotion)),
                None => go("#rollout", t.object.steer, "primary"),
            };
        }
        if let Some(asked) = self.asked_for_draft().filter(|_| self.edits || self.releases_them) {
            return go(&asked.path(), t.object.see_request, "primary");
        }
        match (self.may_release() && self.is_new, self.asks_approval) {
            (true, true) => return go("#release", t.object.ask_to_release, "primary"),
            (true, false) => return go("#release", t.object.release, "primary"),
            _ => {}
        }
        if self.edits {
            return go("#edit", t.edit, "");
        }
        let act = acts.next().filter(|_| self.releases_them)?;
        if self.asks_approval { go("#acts", t.ask_for_approval, "") } else { Some(FirstAct::Change(act)) }
    }
}

/// The last change of a draft, and the last event of its releases.
pub(super) struct LastWork {
    pub(super) edited_by: String,
    pub(super) edited: TimeAgo,
    pub(super) released: Option<LastRelease>,
}

pub(super) struct LastRelease {
    pub(super) by: String,
    pub(super) act: &'static str,
    pub(super) name: String,
    pub(super) time: TimeAgo,
}

impl LastWork {
    pub(super) fn of(catalog: &Catalog, t: &Texts, thing: &Thing, modified: &Stamp) -> LastWork {
        let now = catalog.clock();
        let release = |event: &Arc<Event>| LastRelease {
            by: event.user.clone(),
            act: texts::done(t, event.action),
            name: called(&event.release_name, event.version),
            time: TimeAgo::of(t, now, event.time),
        };
        LastWork {
            edited_by: modified.by.clone(),
            edited: TimeAgo::of(t, now, modified.time),
            released: catalog.history.of(thing).next().map(release),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::texts::Language;
    use crate::model::release::ReleaseState;

    fn row(version: u64, state: ReleaseState, is_gray: bool) -> ReleaseRow {
        ReleaseRow { is_gray, ..ReleaseRow::bare(version, state) }
    }

    fn first(situation: &Situation<'_>) -> String {
        match situation.first_act(Language::English.texts()) {
            Some(FirstAct::Change(act)) => act.change.to_owned(),
            Some(FirstAct::Go { link, .. }) => link,
            None => String::new(),
        }
    }

    #[test]
    fn a_page_has_one_button_which_is_never_refused() {
        let (active, gray) = (ReleaseState::NormalActive, ReleaseState::GrayActive);
        let settled = [row(2, active, false), row(1, ReleaseState::NormalInactive, false)];
        let canary = [row(3, gray, true), row(2, active, false)];
        let rows: [(&[ReleaseRow], _, _, _, _, _); 9] = [
            (&[], true, true, true, false, "#release"),
            (&[], true, true, true, true, "#release"),
            (&settled, true, true, false, false, "#edit"),
            (&settled, false, true, false, false, "rollback"),
            (&settled, false, true, false, true, "#acts"),
            (&settled, false, false, false, false, ""),
            (&canary, true, true, true, false, "promote"),
            (&canary, true, true, true, true, "#acts"),
            (&canary, true, false, false, false, "#edit"),
        ];
        for (releases, edits, releases_them, is_new, asks_approval, expected) in rows {
            let situation = Situation { releases, asked: None, asks_approval, edits, releases_them, is_new };
            assert_eq!(first(&situation), expected, "{edits} {releases_them} {is_new} {asks_approval}");
        }
    }
}
