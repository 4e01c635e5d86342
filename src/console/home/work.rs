//! Work that the catalog has for a visitor.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::catalog::configs::FileFilter;
use crate::catalog::history::Thing;
use crate::catalog::instances::InstanceCounts;
use crate::catalog::page::Page as Rows;
use crate::catalog::rules::RuleFilter;
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
use crate::model::release::Event;
use crate::model::rule::{Family, Rule};
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
    pub(super) waiting: Shown<Request>,
    /// Pending requests of the visitor.
    pub(super) own: Shown<Request>,
    /// Rollouts and gray releases.
    pub(super) under_way: Shown<UnderWay>,
    /// Drafts that differ from what clients get, the oldest first.
    pub(super) drafts: Shown<UnreleasedDraft>,
    /// Services with unhealthy instances, the worst first.
    pub(super) unhealthy: Shown<Unhealthy>,
    pub(super) newest: Vec<Worked>,
}

pub(super) struct Request {
    pub(super) row: RequestRow,
    pub(super) asked: TimeAgo,
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

/// Facts about one rule or file.
struct Facts {
    thing: Thing,
    named: Named,
    grays: Vec<(ReleaseRow, Timestamp)>,
    /// Draft that differs from the releases: its author, its time, and whether clients get nothing.
    draft: Option<(String, Timestamp, bool)>,
}

impl Work {
    pub(super) fn of(catalog: &Catalog, t: &'static Texts, caller: &Caller, namespace: Option<&str>) -> Work {
        let (now, scope) = (catalog.clock(), caller.read_scope());
        let moment = |time: Timestamp| TimeAgo::of(t, now, time);
        let request = |one: Arc<ApprovalRequest>| Request {
            row: RequestRow::of(&one, &catalog.standing(now, &one), t),
            asked: moment(one.created.time),
        };
        let within = |name: &str| namespace.is_none_or(|wanted| wanted == name);
        let of_namespace = |mut found: Vec<Arc<ApprovalRequest>>| {
            found.retain(|one| within(&one.namespace));
            Shown::first(found).map(request)
        };
        let exactly = namespace.map(|name| NameFilter::Exact(name.to_owned()));
        let (mut under_way, mut drafts, mut newest) = (Vec::new(), Vec::new(), Newest::default());
        let mut see = |facts: Facts| {
            let Facts { thing, named, grays, draft } = facts;
            newest.see(catalog, &thing, &named);
            let releases_it = caller.grants.may(Verb::Release, &named.scope.0, &named.scope.1);
            for (release, time) in grays {
                under_way.push((
                    Reverse(time),
                    UnderWay {
                        change_path: change_path(&named.link),
                        called: called(&release.name, release.version),
                        began: moment(time),
                        thing: thing.clone(),
                        named: named.clone(),
                        release,
                        clients: None,
                        releases_it,
                    },
                ));
            }
            if let Some((by, time, is_new)) = draft {
                drafts.push((time, named, by, is_new));
            }
        };
        for family in Family::ALL {
            let filter = RuleFilter { namespace: exactly.clone(), read_scope: scope.clone(), ..RuleFilter::default() };
            for rule in catalog.rules.of(*family).list(&filter, &Rows::ALL).rows {
                see(of_rule(catalog, t, *family, &rule));
            }
        }
        let filter = FileFilter { namespace: exactly.clone(), read_scope: scope.clone(), ..FileFilter::default() };
        for file in catalog.configs.list_files(&filter, &Rows::ALL).rows {
            see(of_file(catalog, t, &file));
        }
        under_way.sort_by_key(|(time, _)| *time);
        drafts.sort_by(|one, other| (one.0, &one.1.name).cmp(&(other.0, &other.1.name)));
        let services = ServiceFilter { namespace: exactly, read_scope: scope, ..ServiceFilter::default() };
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
            under_way: Shown::first(under_way).map(|(_, one)| one),
            drafts: Shown::first(drafts).map(|(time, named, by, is_new)| UnreleasedDraft {
                named,
                by,
                saved: moment(time),
                is_new,
            }),
            unhealthy: Shown::first(unhealthy).map(|(counts, one)| Unhealthy {
                name: format!("{} / {}", one.namespace, one.name),
                link: links::service(&one.namespace, &one.name),
                counts,
            }),
            newest: newest.rows(t, now),
        }
    }
}

fn change_path(link: &str) -> String {
    match link.split_once('?') {
        Some((path, query)) => format!("{path}/change?{query}"),
        None => format!("{link}/change"),
    }
}

fn of_rule(catalog: &Catalog, t: &'static Texts, family: Family, rule: &Rule) -> Facts {
    let active = catalog.rules.of(family).active();
    let (mut grays, mut is_out) = (Vec::new(), false);
    for release in active.releases_of(&rule.id) {
        is_out |= release.rule.revision == rule.revision;
        let row = ReleaseRow::of_rule(release);
        if row.is_gray {
            grays.push((row, release.modified.time));
        }
    }
    let is_new = active.normal(&rule.id).is_none();
    Facts {
        thing: Thing::Rule(family, rule.id.clone()),
        named: named_rule(t, rule),
        draft: (!is_out).then(|| (rule.modified.by.clone(), rule.modified.time, is_new && grays.is_empty())),
        grays,
    }
}

fn of_file(catalog: &Catalog, t: &'static Texts, file: &ConfigFile) -> Facts {
    let normal = catalog.configs.active_release(&file.key);
    let mut is_out = normal.is_some_and(|release| release.content == file.content);
    let mut grays = Vec::new();
    if catalog.configs.has_gray(&file.key) {
        for release in catalog.configs.versions_of(&file.key) {
            let row = ReleaseRow::of_file(&release);
            if row.is_gray && row.is_active() {
                is_out |= release.content == file.content;
                grays.push((row, release.modified.time));
            }
        }
    }
    Facts {
        thing: Thing::File(file.key.clone()),
        named: named_file(t, &file.key),
        draft: (!is_out).then(|| (file.modified.by.clone(), file.modified.time, normal.is_none() && grays.is_empty())),
        grays,
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

/// The newest changes, newest first.
#[derive(Default)]
struct Newest(Vec<(Arc<Event>, Named)>);

impl Newest {
    fn see(&mut self, catalog: &Catalog, thing: &Thing, named: &Named) {
        for event in catalog.history.of(thing).take(CHANGES_SHOWN) {
            let at = self.0.partition_point(|(known, _)| known.time >= event.time);
            if at == CHANGES_SHOWN {
                return;
            }
            self.0.insert(at, (event.clone(), named.clone()));
            self.0.truncate(CHANGES_SHOWN);
        }
    }

    fn rows(self, t: &'static Texts, now: Timestamp) -> Vec<Worked> {
        let worked = |(event, named): (Arc<Event>, Named)| Worked {
            named,
            user: event.user.clone(),
            action: texts::done(t, event.action),
            release: called(&event.release_name, event.version),
            comment: event.comment.clone(),
            time: TimeAgo::of(t, now, event.time),
        };
        self.0.into_iter().map(worked).collect()
    }
}
