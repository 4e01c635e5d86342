//! The page of a rule of any family: editing, comparison, release.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use thuban_documents::{read_rule, written};

use super::Console;
use super::concurrent::{Asked, Conflict};
use super::drafting::{Typed, blank, pretty};
use super::fields::Fields;
use super::flash::{Flash, on_to};
use super::form::Form;
use super::frame::{Frame, Section, page, page_refused};
use super::links::rule as link;
use super::pictures::holders::{Holders, class, word};
use super::pictures::timeline::History;
use super::releases::{Line, ReleaseRow, Rollout, action, compared, has_canary, head_acts, may_go_back, wanted};
use super::rule_rows::RuleRow;
use super::session::SessionUser;
use super::sheet::show::Control;
use super::texts::{self, Texts};
use crate::catalog::history::Thing;
use crate::catalog::{Catalog, Entity, Op, Outcome};
use crate::model::code::Refusal;
use crate::model::grant::{ReadScope, Verb};
use crate::model::policy::PolicyKind;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::{RuleRelease, RuleReleaseDraft};
use crate::model::rule::{Family, Rule, RuleDraft};
use crate::operations::{RuleAdvice, XdsWarnings, one};
use crate::sentences;

/// Returns the family that a path names.
pub(super) fn family_of(kind: &str) -> Option<Family> {
    Family::ALL.iter().copied().find(|family| family.kind() == kind)
}

/// A family as a tab.
pub(super) struct Tab {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) is_current: bool,
}

pub(super) fn tabs(t: &Texts, current: Family) -> Vec<Tab> {
    let tab =
        |family: &Family| Tab { name: texts::family(t, *family), kind: family.kind(), is_current: *family == current };
    // The families that are used most come first.
    let order = [Family::Routing, Family::RateLimit, Family::CircuitBreaker, Family::FaultDetect];
    order.iter().map(tab).collect()
}

#[derive(Template)]
#[template(path = "rule.html")]
struct RulePage {
    frame: Frame,
    tabs: Vec<Tab>,
    kind: &'static str,
    /// Row of the saved rule; `None` for a new one.
    row: Option<RuleRow>,
    revision: String,
    /// Services whose calls it changes.
    acts_on: String,
    family: Family,
    typed: Typed,
    /// The saved rule in sentences; empty for a new one.
    sentences: Vec<String>,
    /// Violated contracts.
    advice: Vec<String>,
    /// Kinds of xDS clients that enforce it, in one line; empty for a new one.
    enforced: String,
    /// Parts that xDS clients do not implement.
    not_carried: Vec<String>,
    /// Difference from the active release to the draft.
    diff: Vec<Line>,
    releases: Vec<ReleaseRow>,
    history: History,
    holders: Holders,
    edits: bool,
    releases_them: bool,
    /// True if a policy requires approval to publish it.
    asks_approval: bool,
    /// Pending request to release it.
    asked: Option<Asked>,
    /// Draft that somebody else saved meanwhile.
    conflict: Option<Conflict>,
    /// Submitted fields of the release form.
    rollout: Fields,
}

impl RulePage {
    fn of(catalog: &Catalog, visitor: &SessionUser, rule: &Arc<Rule>, query: &Fields) -> RulePage {
        let family = rule.family();
        let book = catalog.rules.of(family);
        let as_saved = written(Some(rule));
        let changed = |release: &Arc<RuleRelease>| compared(&pretty(&written(Some(&release.rule))), &pretty(&as_saved));
        let in_force = book.active().normal(&rule.id);
        let mut releases: Vec<_> = book.releases_of(&rule.id).map(|release| ReleaseRow::of_rule(release)).collect();
        releases.sort_by_key(|release| std::cmp::Reverse(release.version));
        let thing = Thing::Rule(family, rule.id.clone());
        let frame = visitor.frame(Section::Rules);
        RulePage {
            tabs: tabs(frame.t, family),
            kind: family.kind(),
            row: Some(RuleRow::of(catalog, frame.t, rule)),
            revision: rule.revision.clone(),
            acts_on: catalog.effect_of(rule).to_string(),
            diff: in_force.map_or_else(Vec::new, changed),
            family,
            typed: Typed::of(family, as_saved, query),
            sentences: sentences::rule(frame.t.language(), rule),
            advice: Vec::new(),
            enforced: String::new(),
            not_carried: Vec::new(),
            releases,
            history: History::of(catalog, &thing),
            holders: Holders::default(),
            edits: visitor.may(Verb::Edit, &rule.namespace, &rule.name),
            releases_them: visitor.may(Verb::Release, &rule.namespace, &rule.name),
            asks_approval: catalog.asks_approval(&Thing::Rule(family, rule.id.clone())),
            asked: asked(catalog, visitor, rule),
            conflict: None,
            rollout: Fields::default(),
            frame: Frame { namespace: rule.namespace.clone(), ..frame },
        }
    }

    /// Reports whether the visitor may release the draft, and no request for that waits.
    fn may_release(&self) -> bool {
        self.releases_them && self.asked.as_ref().is_none_or(|asked| !asked.is_of_draft)
    }

    fn controls(&self) -> Vec<Control> {
        self.typed.controls(self.frame.t, self.family, self.frame.detail.as_deref())
    }

    /// Returns the path of the buttons for releases.
    fn change_path(&self) -> String {
        self.row.as_ref().map(|row| format!("{}/change", link(self.family, &row.id))).unwrap_or_default()
    }
}

/// Returns the pending request to release a rule.
fn asked(catalog: &Catalog, visitor: &SessionUser, rule: &Rule) -> Option<Asked> {
    let named = (PolicyKind::Rule(rule.family()), rule.namespace.as_str(), rule.name.as_str());
    Asked::of(catalog, visitor.texts, named, &rule.modified, &visitor.caller.read_scope())
}

pub(super) async fn new(visitor: SessionUser, Path(kind): Path<String>, query: Fields) -> Response {
    match family_of(&kind) {
        Some(family) => page(&unsaved(&visitor, family, Typed::of(family, blank(family), &query))),
        None => visitor.nowhere(),
    }
}

fn unsaved(visitor: &SessionUser, family: Family, typed: Typed) -> RulePage {
    let frame = visitor.frame(Section::Rules);
    RulePage {
        tabs: tabs(frame.t, family),
        kind: family.kind(),
        row: None,
        revision: String::new(),
        acts_on: String::new(),
        family,
        typed,
        sentences: Vec::new(),
        advice: Vec::new(),
        enforced: String::new(),
        not_carried: Vec::new(),
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
        frame,
    }
}

/// Returns the rule that a path names, if the visitor sees it.
fn find(catalog: &Catalog, family: Family, id: &str, read_scope: &ReadScope) -> Result<Arc<Rule>, Refusal> {
    let rule = catalog.rules.of(family).get(id).filter(|rule| rule.is_seen_by(read_scope));
    rule.cloned().ok_or_else(|| Refusal::missing(&format!("{} with the id {id}", family.word())))
}

/// Refuses a visitor without the verb on a visible rule; for other rules the operation answers that there is none.
fn check(console: &Console, visitor: &SessionUser, verb: Verb, family: Family, id: &str) -> Result<(), Refusal> {
    match find(&console.node().state().view(), family, id, &visitor.caller.read_scope()) {
        Ok(rule) => visitor.check(verb, &rule.namespace, &rule.name),
        Err(_) => Ok(()),
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    visitor: SessionUser,
    Path((kind, id)): Path<(String, String)>,
    query: Fields,
) -> Response {
    let Some(family) = family_of(&kind) else { return visitor.nowhere() };
    match rule_page(&console, &visitor, family, &id, &query).await {
        Ok(shown) => page(&shown),
        Err(refusal) => visitor.failed(&refusal),
    }
}

async fn rule_page(
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
    let not_carried = by.map(|by| by.warnings).unwrap_or_default();
    let advice = match page.edits {
        true => {
            let saved = [Outcome::done(Entity::Rule(rule))];
            console.operations.advice(&visitor.caller, &saved, XdsWarnings::WhereSeen).await.pop()
        }
        false => None,
    };
    let RuleAdvice { mistakes, broken, .. } = advice.unwrap_or_default();
    let advice = [mistakes, broken].concat();
    let holders = Holders::of(console, &Thing::Rule(family, id.to_owned())).await;
    Ok(RulePage { holders, advice, enforced, not_carried, ..page })
}

/// Creates the submitted rule.
pub(super) async fn create(State(console): State<Console>, Path(kind): Path<String>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let Some(family) = family_of(&kind) else { return visitor.nowhere() };
    let (typed, is_done) = Typed::read(family, &fields);
    if !is_done {
        return page(&unsaved(&visitor, family, typed));
    }
    let made = match typed.draft(family) {
        Ok(draft) => one(console.operations.rules(&visitor.caller, Op::Create, vec![Ok(draft)]).await),
        Err(refusal) => Err(refusal),
    };
    match made {
        Ok(Outcome { entity: Entity::Rule(rule), .. }) => on_to(&link(family, &rule.id), Flash::Created),
        Ok(outcome) => on_to(&format!("/ui/rules/{kind}"), Flash::of(&outcome, Flash::Created)),
        Err(refusal) => refused(&visitor, Ok(unsaved(&visitor, family, typed)), &refusal),
    }
}

/// Saves the submitted rule, unless it was changed since the page was made.
pub(super) async fn save(
    State(console): State<Console>,
    Path((kind, id)): Path<(String, String)>,
    form: Form,
) -> Response {
    let Form { visitor, fields } = form;
    let Some(family) = family_of(&kind) else { return visitor.nowhere() };
    if let Err(refusal) = check(&console, &visitor, Verb::Edit, family, &id) {
        return visitor.barred(&console, &refusal);
    }
    let (typed, is_done) = Typed::read(family, &fields);
    // A concurrent change is reported on saving, not by a button before it.
    let again = async |typed| {
        let page = rule_page(&console, &visitor, family, &id, &fields).await;
        page.map(|page| RulePage { typed, revision: fields.get("revision").to_owned(), ..page })
    };
    if !is_done {
        return match again(typed).await {
            Ok(shown) => page(&shown),
            Err(refusal) => visitor.undone(&refusal),
        };
    }
    let saved = match typed.draft(family) {
        Ok(RuleDraft { mut head, body }) => {
            (head.id, head.revision) = (Some(id.clone()), fields.given("revision"));
            one(console.operations.rules(&visitor.caller, Op::Update, vec![Ok(RuleDraft { head, body })]).await)
        }
        Err(refusal) => Err(refusal),
    };
    match saved {
        Ok(outcome) => on_to(&link(family, &id), Flash::of(&outcome, Flash::Drafted)),
        Err(refusal) => {
            let conflict = conflict(&console, &visitor, (family, &id), &fields, &typed);
            let page = again(typed).await.map(|page| match conflict {
                Some((revision, conflict)) => RulePage { revision, conflict: Some(conflict), ..page },
                None => page,
            });
            refused(&visitor, page, &refusal)
        }
    }
}

/// Returns the revision of a draft that was saved since the page was made, with the difference to what was typed.
fn conflict(
    console: &Console,
    visitor: &SessionUser,
    (family, id): (Family, &str),
    fields: &Fields,
    typed: &Typed,
) -> Option<(String, Conflict)> {
    let view = console.node().state().view();
    let rule = find(&view, family, id, &visitor.caller.read_scope()).ok()?;
    let texts = (pretty(&written(Some(&rule))), typed.whole(family)?);
    let now = (visitor.texts, view.clock());
    let found =
        Conflict::of(now, fields, (rule.revision.as_str(), &rule.modified), (texts.0.as_str(), texts.1.as_str()))?;
    Some((rule.revision.clone(), found))
}

pub(super) async fn delete(
    State(console): State<Console>,
    Path((kind, id)): Path<(String, String)>,
    form: Form,
) -> Response {
    let Some(family) = family_of(&kind) else { return form.visitor.nowhere() };
    if let Err(refusal) = check(&console, &form.visitor, Verb::Edit, family, &id) {
        return form.visitor.barred(&console, &refusal);
    }
    let named = rule_page(&console, &form.visitor, family, &id, &Fields::default()).await;
    let deleted = match find(&console.node().state().view(), family, &id, &form.visitor.caller.read_scope()) {
        Ok(rule) => {
            let draft = read_rule(family, &serde_json::json!({ "id": rule.id }).to_string());
            one(console.operations.rules(&form.visitor.caller, Op::Delete, vec![draft]).await)
        }
        Err(refusal) => Err(refusal),
    };
    match deleted {
        Ok(outcome) => on_to(&format!("/ui/rules/{kind}"), Flash::of(&outcome, Flash::Deleted)),
        Err(refusal) => refused(&form.visitor, named, &refusal),
    }
}

/// Publishes the saved rule.
pub(super) async fn release(
    State(console): State<Console>,
    Path((kind, id)): Path<(String, String)>,
    form: Form,
) -> Response {
    let Form { visitor, fields } = form;
    let Some(family) = family_of(&kind) else { return visitor.nowhere() };
    if let Err(refusal) = check(&console, &visitor, Verb::Release, family, &id) {
        return visitor.barred(&console, &refusal);
    }
    let view = console.node().state().view();
    let rule = find(&view, family, &id, &visitor.caller.read_scope()).ok();
    if let Some(asked) = rule.and_then(|rule| asked(&view, &visitor, &rule)).filter(|asked| asked.is_of_draft) {
        return on_to(&asked.path(), Flash::AskedBefore);
    }
    let released = match Rollout::read(&fields) {
        Ok(rollout) => {
            let draft = RuleReleaseDraft {
                rule_id: Some(id.clone()),
                release_name: rollout.name,
                description: rollout.comment,
                release_type: rollout.release_type,
                client_labels: rollout.labels,
                client_percent: rollout.percent,
                plan: rollout.plan,
                publish_at: rollout.at,
                request: rollout.request,
                revision: fields.given("revision"),
                ..RuleReleaseDraft::default()
            };
            one(console.operations.publish_rules(&visitor.caller, family, vec![Ok(draft)]).await)
        }
        Err(refusal) => Err(refusal),
    };
    done(&console, &visitor, family, &id, released.map(|outcome| Flash::of(&outcome, Flash::Released)), fields).await
}

/// Carries out the act of the submitted button on a release.
pub(super) async fn change(
    State(console): State<Console>,
    Path((kind, id)): Path<(String, String)>,
    form: Form,
) -> Response {
    let Form { visitor, fields } = form;
    let (Some(family), Some(op)) = (family_of(&kind), wanted(&fields)) else {
        return visitor.nowhere();
    };
    if let Err(refusal) = check(&console, &visitor, Verb::Release, family, &id) {
        return visitor.barred(&console, &refusal);
    }
    let draft = RuleReleaseDraft {
        rule_id: Some(id.clone()),
        release_name: fields.given("release"),
        action: action(&fields),
        to_previous: (op == ReleaseOp::Withdraw).then(|| fields.is_set("to_previous")),
        request: fields.given("request"),
        ..RuleReleaseDraft::default()
    };
    let changed = one(console.operations.change_rule_releases(&visitor.caller, family, op, vec![Ok(draft)]).await);
    done(&console, &visitor, family, &id, changed.map(|outcome| Flash::of(&outcome, Flash::Changed)), Fields::default())
        .await
}

async fn done(
    console: &Console,
    visitor: &SessionUser,
    family: Family,
    id: &str,
    done: Result<Flash, Refusal>,
    rollout: Fields,
) -> Response {
    match done {
        Ok(flash) => on_to(&link(family, id), flash),
        Err(refusal) => {
            let page = rule_page(console, visitor, family, id, &Fields::default())
                .await
                .map(|page| RulePage { rollout, ..page });
            refused(visitor, page, &refusal)
        }
    }
}

/// Returns the page again, with the refusal.
fn refused(visitor: &SessionUser, page: Result<RulePage, Refusal>, refusal: &Refusal) -> Response {
    match page {
        Ok(page) => page_refused(refusal.code, &RulePage { frame: page.frame.refused(refusal), ..page }),
        Err(gone) => visitor.undone(&gone),
    }
}
