//! The page of a config file: editing, validation, comparison, release.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;

use super::Console;
use super::concurrent::{Asked, Conflict};
use super::fields::Fields;
use super::file_form::{FileEdit, FileForm, FileRelease, key, named_file};
use super::flash::{Flash, on_to, on_to_part};
use super::frame::{Frame, Section, page, page_refused};
use super::label_offers::offered;
use super::links;
use super::page_head::{FirstAct, LastWork, Panel, Situation};
use super::pictures::holders::{Holders, class, word};
use super::pictures::timeline::History;
use super::release_form::ReleaseForm;
use super::releases::{
    Line, ReleaseRow, Rollout, action, called, compared, has_canary, head_acts, may_go_back, wanted,
};
use super::session::SessionUser;
use super::sheet::FieldKind;
use super::sheet::edit::edited;
use super::sheet::read::Sent;
use super::sheet::show::{Control, FormRenderer};
use super::texts::Texts;
use super::time_ago::TimeAgo;
use crate::catalog::history::Thing;
use crate::catalog::{Catalog, Op};
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFile, ConfigFileDraft, ConfigKey, ConfigRelease, ConfigReleaseDraft, Format};
use crate::model::content::Content;
use crate::model::grant::Verb;
use crate::model::policy::PolicyKind;
use crate::model::properties::{self, Pairs};
use crate::model::release::ReleaseOp;
use crate::operations::{FAR, one};

/// A file in a list, or as the head of its page.
pub(super) struct FileRow {
    pub(super) namespace: String,
    pub(super) group: String,
    pub(super) name: String,
    pub(super) format: &'static str,
    pub(super) time: TimeAgo,
    pub(super) by: String,
    pub(super) link: String,
    pub(super) in_force: Option<String>,
    pub(super) differs: bool,
    pub(super) has_gray: bool,
    pub(super) encrypted: bool,
}

impl FileRow {
    pub(super) fn of(catalog: &Catalog, t: &Texts, file: &ConfigFile) -> FileRow {
        let in_force = catalog.configs.active_release(&file.key);
        FileRow {
            namespace: file.key.namespace.clone(),
            group: file.key.group.clone(),
            name: file.key.file.clone(),
            format: file.format.word(),
            time: TimeAgo::of(t, catalog.clock(), file.modified.time),
            by: file.modified.by.clone(),
            link: links::file(&file.key),
            in_force: in_force.map(|release| called(&release.name, release.version)),
            differs: in_force.is_some_and(|release| release.content != file.content),
            has_gray: catalog.configs.has_gray(&file.key),
            encrypted: file.encrypted,
        }
    }

    /// Returns the address of a form on the file's page; it names the file, like the address of the page.
    fn link_to(&self, flash: &str) -> String {
        self.link.replacen('?', &format!("{flash}?"), 1)
    }
}

#[derive(Template)]
#[template(path = "file.html")]
struct FilePage {
    frame: Frame,
    row: FileRow,
    text: String,
    revision: String,
    formats: Vec<(&'static str, bool)>,
    /// Difference from the active release to the draft.
    diff: Vec<Line>,
    /// Reasons why the draft cannot be published.
    faults: Vec<String>,
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
    rollout: Fields,
    /// Pairs of a properties file, which may be edited key by key.
    pairs: Option<Pairs>,
    /// Controls of the editor by key, if it is used.
    table: Option<Vec<Control>>,
    /// Panel shown first.
    panel: Panel,
    last: LastWork,
    /// True if a canary has the draft.
    some_have_it: bool,
}

impl FilePage {
    fn release_form(&self) -> ReleaseForm<'_> {
        ReleaseForm::new(self.frame.t, &self.rollout, &self.releases, self.asks_approval, &self.holders.labels)
    }

    fn situation(&self) -> Situation<'_> {
        Situation {
            releases: &self.releases,
            asked: self.asked.as_ref(),
            asks_approval: self.asks_approval,
            edits: self.edits,
            releases_them: self.releases_them,
            is_new: self.row.differs || self.row.in_force.is_none(),
        }
    }

    /// Returns the button in the head.
    fn first_act(&self) -> Option<FirstAct> {
        self.situation().first_act(self.frame.t)
    }

    /// Switches to the editor by key, with the saved pairs or the submitted ones.
    fn tabled(self, typed: Option<Value>) -> FilePage {
        let value = typed.or_else(|| Some(table_of(self.pairs.as_ref()?)));
        let drawing = FormRenderer::plain(self.frame.t, None);
        let controls = value.map(|value| drawing.controls(&FieldKind::texts(PAIRS), &value));
        let label = self.frame.t.a_key;
        let table = controls.map(|controls| controls.into_iter().map(|control| control.called(label)).collect());
        FilePage { table, panel: Panel::Edit, ..self }
    }
}

/// Maximum number of keys for the editor by key: beyond it the page would be megabytes.
const TABLE_KEYS_MAX: usize = 1000;
/// Form field with the pairs of a file.
const PAIRS: &str = "pairs";

fn table_of(pairs: &Pairs) -> Value {
    FieldKind::texts(PAIRS).opened(serde_json::json!({ PAIRS: pairs }))
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    match file_page(&console, &visitor, &key(&query)).await {
        Ok(file) if query.get("as") == "table" => page(&file.tabled(None)),
        Ok(file) if query.is_set("as") => page(&FilePage { panel: Panel::Edit, ..file }),
        Ok(file) => page(&file),
        Err(refusal) => visitor.failed(&refusal),
    }
}

async fn file_page(console: &Console, visitor: &SessionUser, key: &ConfigKey) -> Result<FilePage, Refusal> {
    let frame = visitor.frame(Section::Config).at(console.node().now());
    let edits = visitor.may(Verb::Edit, &key.namespace, &key.group);
    let releases_them = visitor.may(Verb::Release, &key.namespace, &key.group);
    let read_scope = visitor.caller.read_scope();
    let wanted = key.clone();
    let find = move |catalog: &Catalog| {
        let file = catalog.configs.file(&wanted).filter(|_| read_scope.sees(&wanted.namespace, &wanted.group));
        let file = file.ok_or_else(|| Refusal::missing(&wanted.placed()))?;
        let in_force = catalog.configs.active_release(&wanted).cloned();
        Ok((of(catalog, frame, file, edits, releases_them), file.clone(), in_force))
    };
    let (mut page, file, in_force) = console.operations.scan(FAR, find, |found: Result<_, Refusal>| found).await??;
    page.asked = asked(console, visitor, key);
    // An encrypted content is shown to visitors who may edit the file; a node that cannot read it reports that.
    let content =
        |encrypted, content: &Content| console.operations.shown_content(&visitor.caller, key, encrypted, content);
    match content(file.encrypted, &file.content) {
        Ok(Some(text)) => {
            let before = in_force.and_then(|release| content(release.encrypted, &release.content).ok().flatten());
            page.diff = before.map_or_else(Vec::new, |before| compared(&before, &text));
            let is_properties = page.row.format == Format::Properties.word();
            let pairs = is_properties.then(|| properties::parse(&text).ok()).flatten();
            page.pairs = pairs.filter(|pairs| pairs.len() <= TABLE_KEYS_MAX);
            page.text = text.to_string();
        }
        Ok(None) => page.edits = false,
        Err(refusal) => {
            page.edits = false;
            page.frame = page.frame.refused(&refusal);
        }
    }
    let (_, faults) = console.operations.faults(&visitor.caller, vec![Ok(named_file(key))]).await?;
    page.faults = faults.into_iter().flatten().collect();
    page.holders = Holders::of(console, &Thing::File(key.clone())).await;
    if page.releases_them {
        let of_file = std::mem::take(&mut page.holders.labels);
        page.holders.labels = offered(of_file, console, visitor, &key.namespace).await;
    }
    Ok(page)
}

/// Returns the pending request to release a file.
fn asked(console: &Console, visitor: &SessionUser, key: &ConfigKey) -> Option<Asked> {
    let view = console.node().state().view();
    let file = view.configs.file(key)?;
    let name = format!("{}/{}", key.group, key.file);
    let named = (PolicyKind::ConfigFile, key.namespace.as_str(), name.as_str());
    Asked::of(&view, visitor.texts, named, &file.modified, &visitor.caller.read_scope())
}

fn of(catalog: &Catalog, frame: Frame, file: &ConfigFile, edits: bool, releases_them: bool) -> FilePage {
    let thing = Thing::File(file.key.clone());
    let releases = catalog.configs.versions_of(&file.key);
    let rows: Vec<_> = releases.iter().map(|release| ReleaseRow::of_file(release)).collect();
    let has_draft = |(row, release): (&ReleaseRow, &Arc<ConfigRelease>)| {
        row.is_gray && row.is_active() && release.content == file.content
    };
    FilePage {
        row: FileRow::of(catalog, frame.t, file),
        some_have_it: rows.iter().zip(&releases).any(has_draft),
        last: LastWork::of(catalog, frame.t, &thing, &file.modified),
        panel: Panel::Overview,
        revision: file.revision.clone(),
        formats: Format::ALL.iter().map(|format| (format.word(), *format == file.format)).collect(),
        diff: Vec::new(),
        text: String::new(),
        faults: Vec::new(),
        releases: rows,
        history: History::of(catalog, &thing),
        holders: Holders::default(),
        edits,
        releases_them,
        asks_approval: catalog.asks_approval(&thing),
        asked: None,
        conflict: None,
        rollout: Fields::default(),
        pairs: None,
        table: None,
        frame,
    }
}

pub(super) async fn save(State(console): State<Console>, form: FileEdit) -> Response {
    let FileForm { visitor, fields, key } = form;
    let mut typed = None;
    let text = if fields.get("as") == "table" {
        let page_as_saved = match file_page(&console, &visitor, &key).await {
            Ok(page) => page,
            Err(refusal) => return visitor.undone(&refusal),
        };
        let kind = FieldKind::texts(PAIRS);
        let value = Sent::of(&fields).value(&kind);
        if let Some(asked) = fields.given("edit") {
            let revision = fields.get("revision").to_owned();
            return page(&FilePage { revision, ..page_as_saved.tabled(Some(edited(&kind, value, &asked))) });
        }
        match pairs_in(&kind, value.clone()).map(|pairs| properties::rewritten(&page_as_saved.text, &pairs)) {
            Ok(text) => {
                typed = Some(value);
                text.unwrap_or(page_as_saved.text)
            }
            Err(refusal) => return refused(&visitor, Ok(page_as_saved.tabled(Some(value))), &refusal),
        }
    } else {
        // Browsers end lines in forms with two characters.
        fields.raw("text").replace("\r\n", "\n")
    };
    let draft = ConfigFileDraft {
        content: Some(text.clone()),
        format: fields.given("format"),
        revision: fields.given("revision"),
        ..named_file(&key)
    };
    let saved = console.operations.config_files(&visitor.caller, Op::Update, vec![Ok(draft)]).await;
    match one(saved.map(|(outcomes, _)| outcomes)) {
        Ok(outcome) if fields.get("then") == "release" => {
            on_to_part(&links::file(&key), Flash::of(&outcome, Flash::Drafted), "release")
        }
        Ok(outcome) => on_to(&links::file(&key), Flash::of(&outcome, Flash::Drafted)),
        Err(refusal) => {
            let now = (visitor.texts, console.node().state().view().clock());
            let page = file_page(&console, &visitor, &key).await.map(|page| {
                let modified = console.node().state().view().configs.file(&key).map(|file| file.modified.clone());
                let saved = (page.revision.as_str(), &modified.unwrap_or_default());
                let conflict = Conflict::of(now, &fields, saved, (page.text.as_str(), text.as_str()));
                let page = FilePage { conflict, panel: Panel::Edit, ..page };
                match typed {
                    Some(value) => page.tabled(Some(value)),
                    None => FilePage { text, ..page },
                }
            });
            refused(&visitor, page, &refusal)
        }
    }
}

/// Returns the submitted pairs.
fn pairs_in(kind: &FieldKind, typed: Value) -> Result<Pairs, Refusal> {
    let mut closed = kind.closed(typed)?;
    serde_json::from_value(closed[PAIRS].take()).map_err(|error| Refusal::new(Code::ParseException, error.to_string()))
}

pub(super) async fn delete(State(console): State<Console>, form: FileEdit) -> Response {
    let FileForm { visitor, key, .. } = form;
    let deleted = console.operations.config_files(&visitor.caller, Op::Delete, vec![Ok(named_file(&key))]).await;
    match one(deleted.map(|(outcomes, _)| outcomes)) {
        Ok(_) => on_to("/ui/config", Flash::Deleted),
        Err(refusal) => refused(&visitor, file_page(&console, &visitor, &key).await, &refusal),
    }
}

pub(super) async fn release(State(console): State<Console>, form: FileRelease) -> Response {
    let FileForm { visitor, fields, key } = form;
    if ReleaseForm::is_growing(&fields) {
        let shown = file_page(&console, &visitor, &key).await;
        return match shown {
            Ok(shown) => page(&FilePage { rollout: fields, panel: Panel::Releases, ..shown }),
            Err(refusal) => visitor.undone(&refusal),
        };
    }
    if let Some(asked) = asked(&console, &visitor, &key).filter(|asked| asked.is_of_draft) {
        return on_to(&asked.path(), Flash::AskedBefore);
    }
    let released = match Rollout::read(&fields) {
        Ok(rollout) => {
            let draft = ConfigReleaseDraft {
                name: rollout.name,
                release_description: rollout.comment,
                release_type: rollout.release_type,
                beta_labels: rollout.labels,
                client_percent: rollout.percent,
                plan: rollout.plan,
                publish_at: rollout.at,
                request: rollout.request,
                ..named(&key)
            };
            let (caller, force) = (&visitor.caller, fields.is_set("force"));
            one(console.operations.publish_files(caller, vec![Ok(draft)], force).await.map(|(outcomes, _)| outcomes))
        }
        Err(refusal) => Err(refusal),
    };
    done(&console, &visitor, &key, released.map(|outcome| Flash::of(&outcome, Flash::Released)), fields).await
}

fn named(key: &ConfigKey) -> ConfigReleaseDraft {
    let ConfigKey { namespace, group, file } = key.clone();
    ConfigReleaseDraft { namespace, group, file_name: file, ..ConfigReleaseDraft::default() }
}

pub(super) async fn change(State(console): State<Console>, form: FileRelease) -> Response {
    let FileForm { visitor, fields, key } = form;
    let changed = match wanted(&fields) {
        Some(op) => {
            let draft = ConfigReleaseDraft {
                name: fields.given("release"),
                action: action(&fields),
                to_previous: (op == ReleaseOp::Withdraw).then(|| fields.is_set("to_previous")),
                request: fields.given("request"),
                ..named(&key)
            };
            one(console.operations.change_config_releases(&visitor.caller, op, vec![Ok(draft)]).await)
        }
        None => Err(Code::InvalidParameter.into()),
    };
    done(&console, &visitor, &key, changed.map(|outcome| Flash::of(&outcome, Flash::Changed)), Fields::default()).await
}

async fn done(
    console: &Console,
    visitor: &SessionUser,
    key: &ConfigKey,
    done: Result<Flash, Refusal>,
    rollout: Fields,
) -> Response {
    match done {
        Ok(flash) => on_to(&links::file(key), flash),
        Err(refusal) => {
            let panel = if rollout.0.is_empty() { Panel::Overview } else { Panel::Releases };
            let page = file_page(console, visitor, key).await.map(|page| FilePage { rollout, panel, ..page });
            refused(visitor, page, &refusal)
        }
    }
}

/// Returns the page again, with the refusal.
fn refused(visitor: &SessionUser, page: Result<FilePage, Refusal>, refusal: &Refusal) -> Response {
    match page {
        Ok(page) => page_refused(refusal.code, &FilePage { frame: page.frame.refused(refusal), ..page }),
        Err(gone) => visitor.undone(&gone),
    }
}
