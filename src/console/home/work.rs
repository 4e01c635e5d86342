//! Work that the catalog has for a visitor.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::catalog::configs::FileFilter;
use crate::catalog::history::Thing;
use crate::catalog::instances::InstanceCounts;
use crate::catalog::page::Page as Rows;
use crate::catalog::rules::{Active, RuleFilter};
use crate::catalog::services::ServiceFilter;
use crate::console::inbox;
use crate::console::links;
use crate::console::releases::{ReleaseRow, called};
use crate::console::requests::RequestRow;
use crate::console::texts::{self, Texts};
use crate::console::time_ago::TimeAgo;
use crate::controllers::subscribers::ClusterSubscribers;
use crate::model::approval::ApprovalRequest;
use crate::model::config_file::{ConfigFile, ConfigKey};
use crate::model::grant::{ReadScope, Verb};
use crate::model::release::{Event, ReleaseType};
use crate::model::rule::{Family, Rule};
use crate::model::stamp::Stamp;
use crate::model::text::NameFilter;
use crate::model::time::Timestamp;
use crate::operations::Caller;

/// Maximum number of rows of a part of the page.
const SHOWN: usize = 6;
/// Maximum number of changes.
const CHANGES_SHOWN: usize = 10;

/// Rows of a part of the page, and the number of all.
pub(super) struct Shown<T> {
    pub(super) rows: Vec<T>,
    pub(super) amount: usize,
}

impl<T> Shown<T> {
    fn first(mut rows: Vec<T>) -> Shown<T> {
        let amount = rows.len();
        rows.truncate(SHOWN);
        Shown { rows, amount }
    }

    /// Returns the number of rows that are not shown.
    pub(super) fn more(&self) -> usize {
        self.amount - self.rows.len()
    }

    fn map<U>(self, make: impl FnMut(T) -> U) -> Shown<U> {
        Shown { amount: self.amount, rows: self.rows.into_iter().map(make).collect() }
    }
}

pub(super) struct Work {
    /// Requests that the visitor may decide or carry out.
    pub(super) waiting: Shown<RequestRow>,
    /// Pending requests of the visitor.
    pub(super) own: Shown<RequestRow>,
    /// Rollouts and gray releases.
    pub(super) under_way: Shown<UnderWay>,
    /// Drafts that differ from what clients get, the oldest first.
    pub(super) drafts: Shown<UnreleasedDraft>,
    /// Services with unhealthy instances, the worst first.
    pub(super) unhealthy: Shown<Unhealthy>,
    pub(super) newest: Vec<Worked>,
}

/// A rule or file as a page names it.
#[derive(Clone)]
pub(in crate::console) struct Named {
    pub(in crate::console) kind: &'static str,
    pub(in crate::console) name: String,
    pub(in crate::console) link: String,
    /// Namespace and name that grants cover.
    scope: (String, String),
}

/// A rollout or gray release.
pub(super) struct UnderWay {
    pub(super) thing: Thing,
    pub(super) named: Named,
    /// Path of the buttons.
    pub(super) change_path: String,
    pub(super) release: ReleaseRow,
    pub(super) called: String,
    pub(super) began: TimeAgo,
    /// Clients, if they were counted.
    pub(super) clients: Option<ClientCounts>,
    /// True if the visitor may change it.
    pub(super) releases_it: bool,
}

impl UnderWay {
    /// Returns the namespace, group and name of a file, which its forms carry.
    pub(super) fn file(&self) -> Option<(&str, &str, &str)> {
        match &self.thing {
            Thing::File(key) => Some((&key.namespace, &key.group, &key.file)),
            Thing::Rule(..) => None,
        }
    }
}

/// Numbers of clients of a thing.
pub(super) struct ClientCounts {
    pub(super) amount: u64,
    pub(super) current: u64,
    pub(super) refused: u64,
}

impl From<ClusterSubscribers> for ClientCounts {
    fn from(found: ClusterSubscribers) -> ClientCounts {
        ClientCounts { amount: found.amount, current: found.current, refused: found.refused }
    }
}

pub(super) struct UnreleasedDraft {
    pub(super) named: Named,
    pub(super) by: String,
    pub(super) saved: TimeAgo,
    /// True if clients get nothing of it yet.
    pub(super) is_new: bool,
}

pub(super) struct Unhealthy {
    pub(super) name: String,
    pub(super) link: String,
    pub(super) counts: InstanceCounts,
}

/// A change that clients saw.
pub(super) struct Worked {
    pub(super) named: Named,
    pub(super) user: String,
    pub(super) action: &'static str,
    pub(super) release: String,
    pub(super) comment: String,
    pub(super) time: TimeAgo,
}

/// A rule or file of the walk.
#[derive(Clone)]
enum Tracked {
    Rule(Arc<Rule>),
    File(Arc<ConfigFile>),
}

impl Tracked {
    fn thing(&self) -> Thing {
        match self {
            Tracked::Rule(rule) => Thing::Rule(rule.family(), rule.id.clone()),
            Tracked::File(file) => Thing::File(file.key.clone()),
        }
    }

    fn named(&self, t: &'static Texts) -> Named {
        match self {
            Tracked::Rule(rule) => named_rule(t, rule),
            Tracked::File(file) => named_file(t, &file.key),
        }
    }

    /// Returns the last change of the draft.
    fn modified(&self) -> &Stamp {
        match self {
            Tracked::Rule(rule) => &rule.modified,
            Tracked::File(file) => &file.modified,
        }
    }
}

/// Rules and files that have something to do; they get names once those to show are chosen.
#[derive(Default)]
struct OpenWork {
    /// Gray releases with their times.
    grays: Vec<(Timestamp, Tracked, ReleaseRow)>,
    /// Drafts that differ from the releases, and whether clients get nothing.
    drafts: Vec<(Tracked, bool)>,
}

impl OpenWork {
    fn see_rule(&mut self, active: &Active, rule: &Arc<Rule>) {
        let (mut is_out, mut is_new, mut has_gray) = (false, true, false);
        for release in active.releases_of(&rule.id) {
            is_out |= release.rule.revision == rule.revision;
            if release.release_type == ReleaseType::Gray {
                has_gray = true;
                let row = ReleaseRow::of_rule(release);
                self.grays.push((release.modified.time, Tracked::Rule(rule.clone()), row));
            } else {
                is_new = false;
            }
        }
        if !is_out {
            self.drafts.push((Tracked::Rule(rule.clone()), is_new && !has_gray));
        }
    }

    fn see_file(&mut self, catalog: &Catalog, file: &Arc<ConfigFile>) {
        let normal = catalog.configs.active_release(&file.key);
        let (mut is_out, mut has_gray) = (normal.is_some_and(|release| release.content == file.content), false);
        if catalog.configs.has_gray(&file.key) {
            for release in catalog.configs.versions_of(&file.key) {
                let row = ReleaseRow::of_file(&release);
                if row.is_gray && row.is_active() {
                    has_gray = true;
                    is_out |= release.content == file.content;
                    self.grays.push((release.modified.time, Tracked::File(file.clone()), row));
                }
            }
        }
        if !is_out {
            self.drafts.push((Tracked::File(file.clone()), normal.is_none() && !has_gray));
        }
    }
}

impl Work {
    pub(super) fn of(catalog: &Catalog, t: &'static Texts, caller: &Caller, namespace: Option<&str>) -> Work {
        let (now, scope) = (catalog.clock(), caller.read_scope());
        let moment = |time: Timestamp| TimeAgo::of(t, now, time);
        let request = |one: Arc<ApprovalRequest>| RequestRow::of(&one, &catalog.standing(now, &one), now, t);
        let within = |name: &str| namespace.is_none_or(|wanted| wanted == name);
        let of_namespace = |mut found: Vec<Arc<ApprovalRequest>>| {
            found.retain(|one| within(&one.namespace));
            Shown::first(found).map(request)
        };
        let exactly = namespace.map(|name| NameFilter::Exact(name.to_owned()));
        let mut walk = OpenWork::default();
        for family in Family::ALL {
            let filter = RuleFilter { namespace: exactly.clone(), read_scope: scope.clone(), ..RuleFilter::default() };
            let book = catalog.rules.of(*family);
            book.list(&filter, &Rows::ALL).rows.iter().for_each(|rule| walk.see_rule(book.active(), rule));
        }
        let filter = FileFilter { namespace: exactly.clone(), read_scope: scope.clone(), ..FileFilter::default() };
        catalog.configs.list_files(&filter, &Rows::ALL).rows.iter().for_each(|file| walk.see_file(catalog, file));
        walk.grays.sort_by_key(|(time, ..)| Reverse(*time));
        walk.drafts.sort_by_key(|(of, _)| of.modified().time);
        let under_way = Shown::first(walk.grays).map(|(time, of, release)| {
            let named = of.named(t);
            UnderWay {
                change_path: change_path(&named.link),
                called: called(&release.name, release.version),
                began: moment(time),
                thing: of.thing(),
                releases_it: caller.grants.may(Verb::Release, &named.scope.0, &named.scope.1),
                named,
                release,
                clients: None,
            }
        });
        let drafts = Shown::first(walk.drafts).map(|(of, is_new)| UnreleasedDraft {
            named: of.named(t),
            by: of.modified().by.clone(),
            saved: moment(of.modified().time),
            is_new,
        });
        let services = ServiceFilter { namespace: exactly, read_scope: scope.clone(), ..ServiceFilter::default() };
        let services = catalog.services.list(&services, &catalog.instances, &Rows::ALL).rows.into_iter();
        let counted = services.map(|one| (catalog.instances.of_service(&one.namespace, &one.name), one));
        let mut unhealthy: Vec<_> =
            counted.filter(|(counts, _)| counts.healthy + counts.isolated < counts.total).collect();
        unhealthy.sort_by(|(one, a), (other, b)| {
            let share = |counts: &InstanceCounts| counts.healthy as f64 / counts.total as f64;
            share(one).total_cmp(&share(other)).then_with(|| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
        });
        Work {
            waiting: of_namespace(inbox::waiting_for(catalog, caller)),
            own: of_namespace(inbox::pending_of(catalog, caller)),
            under_way,
            drafts,
            unhealthy: Shown::first(unhealthy).map(|(counts, one)| Unhealthy {
                name: format!("{} / {}", one.namespace, one.name),
                link: links::service(&one.namespace, &one.name),
                counts,
            }),
            newest: newest(catalog, t, &scope, namespace),
        }
    }
}

fn change_path(link: &str) -> String {
    match link.split_once('?') {
        Some((path, query)) => format!("{path}/change?{query}"),
        None => format!("{link}/change"),
    }
}

fn named_rule(t: &'static Texts, rule: &Rule) -> Named {
    Named {
        kind: texts::family(t, rule.family()),
        name: format!("{} / {}", rule.namespace, rule.name),
        link: links::rule(rule.family(), &rule.id),
        scope: (rule.namespace.clone(), rule.name.clone()),
    }
}

fn named_file(t: &'static Texts, key: &ConfigKey) -> Named {
    Named {
        kind: t.config_files,
        name: format!("{} / {} / {}", key.namespace, key.group, key.file),
        link: links::file(key),
        scope: (key.namespace.clone(), key.group.clone()),
    }
}

/// Returns the name and page of a rule or file that the visitor sees.
pub(in crate::console) fn thing_of(
    catalog: &Catalog,
    t: &'static Texts,
    thing: &Thing,
    scope: &ReadScope,
) -> Option<Named> {
    match thing {
        Thing::File(key) => scope.sees(&key.namespace, &key.group).then(|| named_file(t, key)),
        Thing::Rule(family, id) => {
            let rule = catalog.rules.of(*family).get(id).filter(|rule| rule.is_seen_by(scope))?;
            Some(named_rule(t, rule))
        }
    }
}

/// Adds a change to the newest ones, which are sorted.
fn insert<'a>(found: &mut Vec<(&'a Thing, &'a Arc<Event>)>, thing: &'a Thing, event: &'a Arc<Event>) {
    let at = found.partition_point(|(_, known)| known.time >= event.time);
    if at < CHANGES_SHOWN {
        found.insert(at, (thing, event));
        found.truncate(CHANGES_SHOWN);
    }
}

/// Returns the newest changes, newest first. The walk goes over the newest change of each thing, and reads further ones
/// of the few things that have one to show.
fn newest(catalog: &Catalog, t: &'static Texts, scope: &ReadScope, namespace: Option<&str>) -> Vec<Worked> {
    let mut candidates: Vec<(&Thing, &Arc<Event>)> = Vec::new();
    let is_seen = |thing: &Thing| {
        let is_within = |name: &str| namespace.is_none_or(|wanted| wanted == name);
        match thing {
            Thing::File(key) => is_within(&key.namespace) && scope.sees(&key.namespace, &key.group),
            Thing::Rule(family, id) => {
                let rule = catalog.rules.of(*family).get(id);
                rule.is_some_and(|rule| is_within(&rule.namespace) && rule.is_seen_by(scope))
            }
        }
    };
    for (thing, event) in catalog.history.newest() {
        let is_late = candidates.get(CHANGES_SHOWN - 1).is_none_or(|(_, last)| last.time < event.time);
        if is_late && is_seen(thing) {
            insert(&mut candidates, thing, event);
        }
    }
    let mut found = Vec::new();
    for (thing, _) in candidates {
        catalog.history.of(thing).take(CHANGES_SHOWN).for_each(|event| insert(&mut found, thing, event));
    }
    let now = catalog.clock();
    let worked = |(thing, event): (&Thing, &Arc<Event>)| {
        Some(Worked {
            named: thing_of(catalog, t, thing, scope)?,
            user: event.user.clone(),
            action: texts::done(t, event.action),
            release: called(&event.release_name, event.version),
            comment: event.comment.clone(),
            time: TimeAgo::of(t, now, event.time),
        })
    };
    found.into_iter().filter_map(worked).collect()
}
