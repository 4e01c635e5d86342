//! Search in everything that the visitor may see, by a part of a name, with the state of each hit.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use url::form_urlencoded::byte_serialize;

use super::Console;
use super::config::FileRow;
use super::fields::Fields;
use super::frame::{Frame, Section, page};
use super::links;
use super::pictures::holders::{class, word};
use super::requests::RequestRow;
use super::rule_rows::RuleRow;
use super::services::health;
use super::session::SessionUser;
use super::texts::{self, Texts};
use crate::catalog::Catalog;
use crate::catalog::aliases::AliasFilter;
use crate::catalog::approvals::RequestFilter;
use crate::catalog::configs::{FileFilter, GroupFilter};
use crate::catalog::instances::{InstanceCounts, InstanceFilter};
use crate::catalog::namespaces::NamespaceFilter;
use crate::catalog::page::Page as Rows;
use crate::catalog::rules::RuleFilter;
use crate::catalog::services::ServiceFilter;
use crate::model::grant::{ReadScope, Verb};
use crate::model::rule::Family;
use crate::model::text::NameFilter;
use crate::operations::FAR;
use crate::subscribers::client_list::{ClientSearch, PresentClient};

/// Maximum number of hits shown of each kind.
const SHOWN: usize = 10;
/// Minimum characters of a search in contents and clients.
const CONTENT_CHARS_MIN: usize = 3;

type Badge = (&'static str, String);

struct Hit {
    name: String,
    link: String,
    /// Words beside the name.
    about: String,
    badges: Vec<Badge>,
}

impl Hit {
    fn new(name: String, link: String) -> Hit {
        Hit { name, link, about: String::new(), badges: Vec::new() }
    }

    fn with(self, badge: Badge) -> Hit {
        Hit { badges: vec![badge], ..self }
    }
}

/// Hits of one kind.
struct Group {
    title: &'static str,
    hits: Vec<Hit>,
    amount: usize,
    /// List of all hits; empty if no list has this search.
    list: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    frame: Frame,
    query: Fields,
    groups: Vec<Group>,
}

/// Rights of the visitor that the search goes by.
struct Sight {
    t: &'static Texts,
    read_scope: ReadScope,
    manages: bool,
    operates: bool,
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    let frame = visitor.frame(Section::Elsewhere);
    let (Some(text), Some(name)) = (query.given("q"), query.name_filter("q")) else {
        return page(&SearchPage { frame, query, groups: Vec::new() });
    };
    let sight = Sight {
        t: frame.t,
        read_scope: visitor.caller.read_scope(),
        manages: visitor.caller.check_everywhere(Verb::Manage).is_ok(),
        operates: visitor.caller.check_everywhere(Verb::Operate).is_ok(),
    };
    let is_long = text.chars().count() >= CONTENT_CHARS_MIN && !text.contains('*');
    let search = ClientSearch { text: text.clone(), ..ClientSearch::default() };
    let clients = async {
        match is_long {
            true => Some(console.node().member().present_clients(&search).await.0),
            false => None,
        }
    };
    let (t, read_scope) = (frame.t, sight.read_scope.clone());
    let find = move |catalog: &Catalog| found(catalog, &sight, &name, &text, is_long);
    let (groups, clients) = tokio::join!(console.operations.scan(FAR, find, |groups| groups), clients);
    let mut groups = match groups {
        Ok(groups) => groups,
        Err(refusal) => return visitor.failed(&refusal),
    };
    // Of clients with hidden releases a visitor with a part of the namespaces sees only those in its own list.
    if let Some(clients) = clients.filter(|_| read_scope.is_whole()) {
        groups.push(Group {
            title: t.home.clients,
            hits: clients.clients.iter().take(SHOWN).map(|client| of_client(t, client)).collect(),
            amount: clients.amount as usize,
            list: list("/ui/clients", "q", &query),
        });
    }
    groups.retain(|group| group.amount > 0);
    page(&SearchPage { frame, query, groups })
}

fn of_client(t: &'static Texts, client: &PresentClient) -> Hit {
    let is_named = !client.node_id.is_empty();
    let (name, state) = (if is_named { &client.node_id } else { &client.address }, client.state());
    let address: String = byte_serialize(client.address.as_bytes()).collect();
    let hit = Hit::new(name.clone(), format!("/ui/clients?q={address}"));
    Hit { about: client.agent.clone(), ..hit.with((class(&state), word(t, &state).to_owned())) }
}

/// Returns the address of a list with the same search.
fn list(path: &str, key: &str, query: &Fields) -> String {
    let text: String = byte_serialize(query.get("q").as_bytes()).collect();
    format!("{path}?{key}={text}")
}

/// Search in one state: what is searched for, by whom, and the groups of hits found so far.
struct Finder<'a> {
    catalog: &'a Catalog,
    sight: &'a Sight,
    t: &'static Texts,
    name: &'a NameFilter,
    text: &'a str,
    rows: Rows,
    groups: Vec<Group>,
}

/// Finds all groups of hits, also empty ones. A short text is not searched in contents.
fn found(catalog: &Catalog, sight: &Sight, name: &NameFilter, text: &str, is_long: bool) -> Vec<Group> {
    let (t, rows) = (sight.t, Rows::new(0, SHOWN));
    let mut finder = Finder { catalog, sight, t, name, text, rows, groups: Vec::new() };
    finder.services();
    for family in Family::ALL {
        finder.rules(*family);
    }
    finder.files(is_long);
    finder.config_groups();
    finder.aliases();
    finder.instances();
    finder.requests();
    finder.other_kinds();
    if sight.manages {
        finder.accounts();
    }
    if sight.operates {
        let found = catalog.webhooks.list(finder.filter().as_ref(), &finder.rows);
        let hits = found.rows.iter().map(|one| named("/ui/edit/webhooks", "name", &one.name)).collect();
        finder.add_listed(t.webhooks, hits, found.amount, "/ui/webhooks", "name");
    }
    finder.groups
}

/// Returns a hit whose page is selected by its name alone.
fn named(path: &str, key: &str, name: &str) -> Hit {
    let text: String = byte_serialize(name.as_bytes()).collect();
    Hit::new(name.to_owned(), format!("{path}?{key}={text}"))
}

impl Finder<'_> {
    fn filter(&self) -> Option<NameFilter> {
        Some(self.name.clone())
    }

    fn scope(&self) -> ReadScope {
        self.sight.read_scope.clone()
    }

    fn add(&mut self, title: &'static str, hits: Vec<Hit>, amount: usize) {
        self.groups.push(Group { title, hits, amount, list: String::new() });
    }

    /// Adds hits with the address of a list that has the same search.
    fn add_listed(&mut self, title: &'static str, hits: Vec<Hit>, amount: usize, path: &str, key: &str) {
        let list = list(path, key, &Fields(vec![("q".to_owned(), self.text.to_owned())]));
        self.groups.push(Group { title, hits, amount, list });
    }

    fn services(&mut self) {
        let instances = &self.catalog.instances;
        let filter = ServiceFilter { name: self.filter(), read_scope: self.scope(), ..ServiceFilter::default() };
        let found = self.catalog.services.list(&filter, instances, &self.rows);
        let hits = found.rows.iter().map(|one| {
            let counts = instances.of_service(&one.namespace, &one.name);
            let link = links::service(&one.namespace, &one.name);
            Hit::new(format!("{} / {}", one.namespace, one.name), link).with(of_counts(self.t, counts))
        });
        self.add_listed(self.t.services, hits.collect(), found.amount, "/ui/services", "name");
    }

    fn rules(&mut self, family: Family) {
        let t = self.t;
        let filter = RuleFilter { name: self.filter(), read_scope: self.scope(), ..RuleFilter::default() };
        let found = self.catalog.rules.of(family).list(&filter, &self.rows);
        let hits = found.rows.iter().map(|rule| {
            let row = RuleRow::of(self.catalog, t, rule);
            let hit = Hit::new(format!("{} / {}", row.namespace, row.name), links::rule(family, &row.id));
            let badges = states(t, row.in_force.as_ref(), row.differs, row.grays > 0, row.enable);
            Hit { about: row.sentence, badges, ..hit }
        });
        let path = format!("/ui/rules/{}", family.kind());
        self.add_listed(texts::family(t, family), hits.collect(), found.amount, &path, "name");
    }

    fn files(&mut self, is_long: bool) {
        let by_name = FileFilter { file: self.filter(), read_scope: self.scope(), ..FileFilter::default() };
        self.files_by(self.t.config_files, &by_name, "name");
        if is_long {
            let content = Some(self.text.to_owned());
            let by_content = FileFilter { content, read_scope: self.scope(), ..FileFilter::default() };
            self.files_by(self.t.home.in_contents, &by_content, "content");
        }
    }

    fn files_by(&mut self, title: &'static str, filter: &FileFilter, key: &str) {
        let found = self.catalog.configs.list_files(filter, &self.rows);
        let hits = found.rows.iter().map(|file| {
            let row = FileRow::of(self.catalog, self.t, file);
            let badges = states(self.t, row.in_force.as_ref(), row.differs, row.has_gray, true);
            Hit { badges, ..Hit::new(format!("{} / {} / {}", row.namespace, row.group, row.name), row.link) }
        });
        self.add_listed(title, hits.collect(), found.amount, "/ui/config", key);
    }

    fn config_groups(&mut self) {
        let filter = GroupFilter { name: self.filter(), read_scope: self.scope(), ..GroupFilter::default() };
        let found = self.catalog.configs.list_groups(&filter, &self.rows);
        let hits = found.rows.iter().map(|group| {
            let mut pairs = url::form_urlencoded::Serializer::new(String::new());
            pairs.append_pair("namespace", &group.namespace).append_pair("group", &group.name);
            Hit::new(format!("{} / {}", group.namespace, group.name), format!("/ui/config?{}", pairs.finish()))
        });
        self.add(self.t.home.groups, hits.collect(), found.amount);
    }

    fn aliases(&mut self) {
        let filter = AliasFilter { alias: self.filter(), read_scope: self.scope(), ..AliasFilter::default() };
        let found = self.catalog.aliases.list(&filter, &self.rows);
        let hits = found.rows.iter().map(|alias| {
            let name = format!("{} / {}", alias.alias_namespace, alias.alias);
            let hit = Hit::new(name, links::service(&alias.namespace, &alias.service));
            Hit { about: format!("→ {} / {}", alias.namespace, alias.service), ..hit }
        });
        self.add(self.t.aliases, hits.collect(), found.amount);
    }

    fn instances(&mut self) {
        let t = self.t;
        let hosts = [self.text.to_owned()].into();
        let filter = InstanceFilter { hosts, read_scope: self.scope(), ..InstanceFilter::default() };
        let found = self.catalog.instances.list(&filter, &self.rows);
        let hits = found.rows.iter().map(|one| {
            let link = links::service(&one.namespace, &one.service);
            let state = match (one.isolate, one.healthy) {
                (true, _) => ("warn", t.isolated.to_owned()),
                (_, true) => ("good", t.healthy.to_owned()),
                _ => ("fault", t.unhealthy.to_owned()),
            };
            let hit = Hit::new(format!("{}:{}", one.host, one.port), link).with(state);
            Hit { about: format!("{} / {}", one.namespace, one.service), ..hit }
        });
        self.add(t.instances, hits.collect(), found.amount);
    }

    fn requests(&mut self) {
        let (name, read_scope) = (self.filter(), self.scope());
        let filter = RequestFilter { name, heads: true, read_scope, ..RequestFilter::default() };
        let found = self.catalog.approvals.list(&filter, &self.rows);
        let clock = self.catalog.clock();
        let hits = found.rows.iter().map(|one| {
            let row = RequestRow::of(one, &self.catalog.standing(clock, one), clock, self.t);
            let hit = Hit::new(format!("{} {}", row.act, row.thing), format!("/ui/requests/{}", row.id));
            Hit { about: row.comment, ..hit.with((row.badge.0, row.badge.1.to_owned())) }
        });
        self.add(self.t.requests, hits.collect(), found.amount);
    }

    /// Finds namespaces, contracts and templates.
    fn other_kinds(&mut self) {
        let (t, filter) = (self.t, self.filter());
        let namespaces =
            NamespaceFilter { name: self.filter(), read_scope: self.scope(), ..NamespaceFilter::default() };
        let found = self.catalog.namespaces.list(&namespaces, &self.rows);
        let hits = found.rows.iter().map(|one| named("/ui", "namespace", &one.name)).collect();
        self.add_listed(t.namespaces, hits, found.amount, "/ui/namespaces", "name");
        let found = self.catalog.contracts.list(&filter, &self.sight.read_scope, &self.rows);
        let hits = found.rows.iter().map(|one| named("/ui/edit/contracts", "name", &one.name)).collect();
        self.add(t.contracts, hits, found.amount);
        let found = self.catalog.templates.list(&filter, &self.rows);
        let hits = found.rows.iter().map(|one| named("/ui/edit/templates", "name", &one.name)).collect();
        self.add_listed(t.templates, hits, found.amount, "/ui/templates", "name");
    }

    /// Finds policies, users and service tokens, which only administrators see.
    fn accounts(&mut self) {
        let (t, access) = (self.t, &self.catalog.access);
        let found = self.catalog.policies.list(&self.filter(), &self.rows);
        let hits = found.rows.iter().map(|one| named("/ui/edit/policies", "name", &one.name)).collect();
        self.add(t.policies, hits, found.amount);
        let state = |is_off: bool| is_off.then(|| ("", t.disabled.to_owned())).into_iter().collect();
        let hit = |path: &str, name: &str, is_off| Hit { badges: state(is_off), ..named(path, "name", name) };
        let users = access.list_users(|user| self.name.matches(&user.name), &self.rows);
        let of_users = users.rows.iter().map(|one| hit("/ui/edit/users", &one.name, one.disabled)).collect();
        let tokens = access.list_service_tokens(|token| self.name.matches(&token.name), &self.rows);
        let of_tokens = tokens.rows.iter().map(|one| hit("/ui/edit/tokens", &one.name, one.disabled)).collect();
        for (title, hits, amount) in [(t.users, of_users, users.amount), (t.tokens, of_tokens, tokens.amount)] {
            self.groups.push(Group { title, hits, amount, list: "/ui/accounts".to_owned() });
        }
    }
}

fn of_counts(t: &Texts, counts: InstanceCounts) -> Badge {
    match counts.total {
        0 => ("", t.help.no_instances.to_owned()),
        total => (health(counts), format!("{} / {total} {}", counts.healthy, t.healthy)),
    }
}

/// Returns the states of a rule or file.
fn states(t: &Texts, in_force: Option<&String>, differs: bool, has_gray: bool, is_on: bool) -> Vec<Badge> {
    let mut badges = vec![match in_force {
        Some(release) => ("good", format!("{} {release}", t.in_force)),
        None => ("", t.not_released.to_owned()),
    }];
    let more = [(differs, "warn", t.draft_differs), (has_gray, "warn", t.gray), (!is_on, "", t.disabled)];
    badges.extend(more.into_iter().filter(|(is_so, ..)| *is_so).map(|(_, class, word)| (class, word.to_owned())));
    badges
}
