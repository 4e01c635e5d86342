//! The acts on a rule of any family: creation, change, deletion, release.

use axum::extract::{Path, State};
use axum::response::Response;
use thuban_documents::{read_rule, written};

use super::Console;
use super::concurrent::Conflict;
use super::drafting::{Typed, blank, compact};
use super::families::family_of;
use super::fields::Fields;
use super::flash::{Flash, on_to, on_to_part};
use super::form::Form;
use super::frame::{page, page_refused};
use super::links::rule as link;
use super::page_head::Panel;
use super::release_form::ReleaseForm;
use super::releases::{Rollout, action, wanted};
use super::rule_form::{Preview, RuleForm};
use super::rule_page::{RulePage, asked, find, rule_page, unsaved};
use super::session::SessionUser;
use crate::catalog::{Entity, Op, Outcome};
use crate::model::code::Refusal;
use crate::model::grant::Verb;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, RuleDraft};
use crate::operations::one;

/// Shows the form of a new rule; the query may name its namespace.
pub(super) async fn new(
    State(console): State<Console>,
    visitor: SessionUser,
    Path(kind): Path<String>,
    query: Fields,
) -> Response {
    let Some(family) = family_of(&kind) else { return visitor.nowhere() };
    let mut begun = blank(family);
    if let Some(namespace) = query.given("namespace") {
        begun["namespace"] = namespace.into();
    }
    page(&unsaved(&console, &visitor, family, Typed::of(family, begun, &query)).await)
}

/// Answers a button that only changes the form: with the part that a script asks for, or with the whole page.
async fn redrawn(
    console: &Console,
    visitor: &SessionUser,
    (family, action): (Family, &str),
    (fields, typed): (&Fields, &Typed),
) -> Option<Response> {
    let Typed::Form(value) = typed else { return None };
    match fields.get("part") {
        "preview" => Some(page(&Preview::of(console, visitor, family, typed).await)),
        "form" => {
            let preview = Preview::of(console, visitor, family, typed).await;
            Some(page(&RuleForm::new(visitor.texts, family, value, None, (action, &preview))))
        }
        _ => None,
    }
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

/// Creates the submitted rule.
pub(super) async fn create(State(console): State<Console>, Path(kind): Path<String>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let Some(family) = family_of(&kind) else { return visitor.nowhere() };
    let (typed, is_done) = Typed::read(family, &fields);
    if !is_done {
        let action = format!("/ui/rules/{kind}/new");
        let part = redrawn(&console, &visitor, (family, action.as_str()), (&fields, &typed)).await;
        return match part {
            Some(part) => part,
            None => page(&unsaved(&console, &visitor, family, typed).await),
        };
    }
    let made = match typed.draft(family) {
        Ok(draft) => one(console.operations.rules(&visitor.caller, Op::Create, vec![Ok(draft)]).await),
        Err(refusal) => Err(refusal),
    };
    match made {
        Ok(Outcome { entity: Entity::Rule(rule), .. }) if fields.get("then") == "release" => {
            on_to_part(&link(family, &rule.id), Flash::Created, "release")
        }
        Ok(Outcome { entity: Entity::Rule(rule), .. }) => on_to(&link(family, &rule.id), Flash::Created),
        Ok(outcome) => on_to(&format!("/ui/rules/{kind}"), Flash::of(&outcome, Flash::Created)),
        Err(refusal) => refused(&visitor, Ok(unsaved(&console, &visitor, family, typed).await), &refusal),
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
        let page = rule_page(&console, &visitor, family, &id, &fields).await?;
        let revision = fields.get("revision").to_owned();
        Ok(RulePage { revision, ..page.typed(&console, &visitor, typed).await })
    };
    if !is_done
        && let Some(part) = redrawn(&console, &visitor, (family, link(family, &id).as_str()), (&fields, &typed)).await
    {
        return part;
    }
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
        Ok(outcome) if fields.get("then") == "release" => {
            on_to_part(&link(family, &id), Flash::of(&outcome, Flash::Drafted), "release")
        }
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
    let texts = (compact(&written(Some(&rule))), typed.whole(family)?);
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
    if ReleaseForm::is_growing(&fields) {
        return match rule_page(&console, &visitor, family, &id, &Fields::default()).await {
            Ok(shown) => page(&RulePage { rollout: fields, panel: Panel::Releases, ..shown }),
            Err(refusal) => visitor.undone(&refusal),
        };
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
    // A refused release form is shown again, with what was typed.
    let panel = if rollout.0.is_empty() { Panel::Overview } else { Panel::Releases };
    match done {
        Ok(flash) => on_to(&link(family, id), flash),
        Err(refusal) => {
            let page = rule_page(console, visitor, family, id, &Fields::default()).await.map(|page| RulePage {
                rollout,
                panel,
                ..page
            });
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
