//! The page of a rule: what it says, who has it, its form, its releases.

use std::sync::Arc;

use askama::Template;
use thuban_documents::written;

use super::Console;
use super::concurrent::{Asked, Conflict};
use super::drafting::{Typed, compact};
use super::families::{Tab, tabs};
use super::fields::Fields;
use super::frame::{Frame, Section};
use super::label_offers::offered;
use super::links::rule as link;
use super::page_head::{FirstAct, LastWork, Panel, Situation};
use super::pictures::holders::{Holders, class, word};
use super::pictures::timeline::History;
use super::release_form::ReleaseForm;
use super::releases::{Line, ReleaseRow, compared, has_canary, head_acts, lines, may_go_back};
use super::rule_form::{Preview, RuleForm};
use super::rule_rows::RuleRow;
use super::session::SessionUser;
use crate::catalog::history::Thing;
use crate::catalog::{Catalog, Entity, Outcome};
use crate::model::code::Refusal;
use crate::model::grant::{ReadScope, Verb};
use crate::model::policy::PolicyKind;
use crate::model::rule::matching::ALL;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{Family, Rule};
use crate::operations::{RuleAdvice, XdsWarnings};
use crate::sentences;

#[derive(Template)]
#[template(path = "rule.html")]
pub(super) struct RulePage {
    pub(super) frame: Frame,
    pub(super) tabs: Vec<Tab>,
    pub(super) kind: &'static str,
    /// Row of the saved rule; `None` for a new one.
    pub(super) row: Option<RuleRow>,
    pub(super) revision: String,
    /// Services whose calls it changes.
    pub(super) acts_on: String,
    pub(super) family: Family,
    pub(super) typed: Typed,
    /// The saved rule in sentences; empty for a new one.
    pub(super) sentences: Vec<String>,
    /// The saved rule as JSON, for visitors who cannot edit it.
    pub(super) as_json: String,
    /// Violated contracts.
    pub(super) advice: Vec<String>,
    /// Kinds of xDS clients that enforce it, in one line; empty for a new one.
    pub(super) enforced: String,
    /// Parts that xDS clients do not implement.
    pub(super) not_carried: Vec<String>,
    /// Difference from the active release to the draft, in words.
    pub(super) words: Vec<Line>,
    /// The same as JSON; empty if nothing is in force.
    pub(super) diff: Vec<Line>,
    pub(super) releases: Vec<ReleaseRow>,
    pub(super) history: History,
    pub(super) holders: Holders,
    pub(super) edits: bool,
    pub(super) releases_them: bool,
    /// True if a policy requires approval to publish it.
    pub(super) asks_approval: bool,
    /// Pending request to release it.
    pub(super) asked: Option<Asked>,
    /// Draft that another user saved meanwhile.
    pub(super) conflict: Option<Conflict>,
    /// Submitted fields of the release form.
    pub(super) rollout: Fields,
    /// Panel shown first.
    pub(super) panel: Panel,
    /// Last change and last release; `None` for a new rule.
    pub(super) last: Option<LastWork>,
    /// True if a canary has the draft.
    pub(super) some_have_it: bool,
    /// Address of the page that explains a call of a service of the rule.
    pub(super) explain: String,
    /// Address of the form.
    pub(super) action: String,
    /// The submitted form in words.
    pub(super) preview: Preview,
}

impl RulePage {
    fn of(catalog: &Catalog, visitor: &SessionUser, rule: &Arc<Rule>, query: &Fields) -> RulePage {
        let family = rule.family();
        let book = catalog.rules.of(family);
        let as_saved = written(Some(rule));
        let frame = visitor.frame(Section::Rules).at(catalog.clock());
        let language = frame.t.language();
        let in_force = book.active().normal(&rule.id);
        let sentences = sentences::rule(language, rule);
        let is_changed = in_force.is_none_or(|release| release.rule.revision != rule.revision);
        let before = in_force.map(|release| sentences::rule(language, &release.rule)).unwrap_or_default();
        let words = if is_changed { compared(&lines(&before), &lines(&sentences)) } else { Vec::new() };
        let changed =
            |release: &Arc<RuleRelease>| compared(&compact(&written(Some(&release.rule))), &compact(&as_saved));
        let mut all: Vec<_> = book.releases_of(&rule.id).collect();
        all.sort_by_key(|release| std::cmp::Reverse(release.version));
        let releases: Vec<_> = all.iter().map(|release| ReleaseRow::of_rule(release)).collect();
        let has_draft = |(row, release): (&ReleaseRow, &&Arc<RuleRelease>)| {
            row.is_gray && row.is_active() && release.rule.revision == rule.revision
        };
        let thing = Thing::Rule(family, rule.id.clone());
        RulePage {
            tabs: tabs(frame.t, family),
            kind: family.kind(),
            row: Some(RuleRow::of(catalog, frame.t, rule)),
            revision: rule.revision.clone(),
            acts_on: catalog.effect_of(rule).to_string(),
            diff: in_force.map_or_else(Vec::new, changed),
            words,
            as_json: compact(&as_saved),
            family,
            typed: Typed::of(family, as_saved, query),
            sentences,
            some_have_it: releases.iter().zip(&all).any(has_draft),
            releases,
            last: Some(LastWork::of(catalog, frame.t, &thing, &rule.modified)),
            history: History::of(catalog, &thing),
            edits: visitor.may(Verb::Edit, &rule.namespace, &rule.name),
            releases_them: visitor.may(Verb::Release, &rule.namespace, &rule.name),
            asks_approval: catalog.asks_approval(&thing),
            asked: asked(catalog, visitor, rule),
            panel: if query.is_set("as") { Panel::Edit } else { Panel::Overview },
            explain: explain_path(rule),
            action: link(family, &rule.id),
            ..RulePage::blank(Frame { namespace: rule.namespace.clone(), ..frame }, family)
        }
    }

    /// Returns the page without a rule.
    fn blank(frame: Frame, family: Family) -> RulePage {
        RulePage {
            tabs: Vec::new(),
            kind: family.kind(),
            row: None,
            revision: String::new(),
            acts_on: String::new(),
            family,
            typed: Typed::Json(String::new()),
            sentences: Vec::new(),
            as_json: String::new(),
            advice: Vec::new(),
            enforced: String::new(),
            not_carried: Vec::new(),
            words: Vec::new(),
            diff: Vec::new(),
            releases: Vec::new(),
            history: History::default(),
            holders: Holders::default(),
            edits: true,
            releases_them: false,
            asks_approval: false,
            asked: None,
            conflict: None,
            rollout: Fields::default(),
            panel: Panel::Edit,
            last: None,
            some_have_it: false,
            explain: String::new(),
            action: format!("/ui/rules/{}/new", family.kind()),
            preview: Preview::none(frame.t),
            frame,
        }
    }

    fn situation(&self) -> Situation<'_> {
        Situation {
            releases: &self.releases,
            asked: self.asked.as_ref(),
            asks_approval: self.asks_approval,
            edits: self.edits,
            releases_them: self.releases_them,
            is_new: self.row.as_ref().is_some_and(|row| row.differs || row.in_force.is_none()),
        }
    }

    /// Returns the button in the head; a new rule has none.
    fn first_act(&self) -> Option<FirstAct> {
        self.row.as_ref().and_then(|_| self.situation().first_act(self.frame.t))
    }

    /// Returns the ways of editing, by their names in addresses.
    fn ways(&self) -> [(&'static str, &'static str); 3] {
        [("form", self.frame.t.as_form), ("json", "JSON"), ("yaml", "YAML")]
    }

    fn release_form(&self) -> ReleaseForm<'_> {
        ReleaseForm::new(self.frame.t, &self.rollout, &self.releases, self.asks_approval, &self.holders.labels)
    }

    /// Returns the form, unless the rule is edited as text.
    fn form(&self) -> Option<RuleForm<'_>> {
        let Typed::Form(value) = &self.typed else { return None };
        let fault = self.frame.detail.as_deref();
        Some(RuleForm::new(self.frame.t, self.family, value, fault, (self.action.as_str(), &self.preview)))
    }

    /// Sets the edited draft, with its preview.
    pub(super) async fn typed(self, console: &Console, visitor: &SessionUser, typed: Typed) -> RulePage {
        let preview = Preview::of(console, visitor, self.family, &typed).await;
        RulePage { typed, preview, panel: Panel::Edit, ..self }
    }

    /// Returns the path of the buttons for releases.
    fn change_path(&self) -> String {
        self.row.as_ref().map(|row| format!("{}/change", link(self.family, &row.id))).unwrap_or_default()
    }
}

/// Returns the address of the page that explains calls of the first service of a rule.
fn explain_path(rule: &Rule) -> String {
    let path = format!("/ui/rules/{}/explain", rule.family().kind());
    let ends = rule.called_ends();
    let Some(end) = ends.iter().find(|end| !end.service.is_empty() && end.service != ALL) else { return path };
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("namespace", &end.namespace).append_pair("service", &end.service);
    format!("{path}?{}", query.finish())
}

/// Returns the pending request to release a rule.
pub(super) fn asked(catalog: &Catalog, visitor: &SessionUser, rule: &Rule) -> Option<Asked> {
    let named = (PolicyKind::Rule(rule.family()), rule.namespace.as_str(), rule.name.as_str());
    Asked::of(catalog, visitor.texts, named, &rule.modified, &visitor.caller.read_scope())
}

/// Returns the page of a new rule.
pub(super) async fn unsaved(console: &Console, visitor: &SessionUser, family: Family, typed: Typed) -> RulePage {
    let frame = visitor.frame(Section::Rules);
    let tabs = tabs(frame.t, family);
    RulePage { tabs, ..RulePage::blank(frame, family) }.typed(console, visitor, typed).await
}

/// Returns the rule that a path names, if the visitor sees it.
pub(super) fn find(catalog: &Catalog, family: Family, id: &str, read_scope: &ReadScope) -> Result<Arc<Rule>, Refusal> {
    let rule = catalog.rules.of(family).get(id).filter(|rule| rule.is_seen_by(read_scope));
    rule.cloned().ok_or_else(|| Refusal::missing(&format!("{} with the id {id}", family.word())))
}

pub(super) async fn rule_page(
    console: &Console,
    visitor: &SessionUser,
    family: Family,
    id: &str,
    query: &Fields,
) -> Result<RulePage, Refusal> {
    let (page, rule) = {
        let catalog = console.node().state().view();
        let rule = find(&catalog, family, id, &visitor.caller.read_scope())?;
        (RulePage::of(&catalog, visitor, &rule, query), rule)
    };
    let by = console.operations.carried_out_by(&rule).await;
    let enforced = by.as_ref().map(|by| sentences::enforced(page.frame.t.language(), by)).unwrap_or_default();
    let language = page.frame.t.language();
    let not_carried = by.map(|by| by.warnings).unwrap_or_default();
    let not_carried = not_carried.iter().map(|text| sentences::warning(language, text)).collect();
    let advice = match page.edits {
        true => {
            let saved = [Outcome::done(Entity::Rule(rule))];
            console.operations.advice(&visitor.caller, &saved, XdsWarnings::WhereSeen).await.pop()
        }
        false => None,
    };
    let RuleAdvice { mistakes, broken, .. } = advice.unwrap_or_default();
    let advice = [mistakes, broken].concat();
    let preview = match (&page.typed, page.edits) {
        (typed @ Typed::Form(_), true) => Preview::of(console, visitor, family, typed).await,
        _ => page.preview,
    };
    let mut holders = Holders::of(console, &Thing::Rule(family, id.to_owned())).await;
    if page.releases_them {
        holders.labels = offered(holders.labels, console, visitor, &page.frame.namespace).await;
    }
    Ok(RulePage { holders, advice, enforced, not_carried, preview, ..page })
}
