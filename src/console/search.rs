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

fn found(catalog: &Catalog, sight: &Sight, name: &NameFilter, text: &str, is_long: bool) -> Vec<Group> {
    let query = &Fields(vec![("q".to_owned(), text.to_owned())]);
    let (t, rows) = (sight.t, &Rows::new(0, SHOWN));
    let (scope, filter) = (|| sight.read_scope.clone(), || Some(name.clone()));
    let mut groups = Vec::new();
    let mut add = |title, hits: Vec<Hit>, amount, list| groups.push(Group { title, hits, amount, list });

    let services = ServiceFilter { name: filter(), read_scope: scope(), ..ServiceFilter::default() };
    let found = catalog.services.list(&services, &catalog.instances, rows);
    let hits = found.rows.iter().map(|one| {
        let counts = catalog.instances.of_service(&one.namespace, &one.name);
        let link = links::service(&one.namespace, &one.name);
        Hit::new(format!("{} / {}", one.namespace, one.name), link).with(of_counts(t, counts))
    });
    add(t.services, hits.collect(), found.amount, list("/ui/services", "name", query));

    for family in Family::ALL {
        let filter = RuleFilter { name: filter(), read_scope: scope(), ..RuleFilter::default() };
        let found = catalog.rules.of(*family).list(&filter, rows);
        let hits = found.rows.iter().map(|rule| {
            let row = RuleRow::of(catalog, t, rule);
            let hit = Hit::new(format!("{} / {}", row.namespace, row.name), links::rule(*family, &row.id));
            let badges = states(t, row.in_force.as_ref(), row.differs, row.grays > 0, row.enable);
            Hit { about: row.sentence, badges, ..hit }
        });
        let path = format!("/ui/rules/{}", family.kind());
        add(texts::family(t, *family), hits.collect(), found.amount, list(&path, "name", query));
    }

    let files = FileFilter { file: filter(), read_scope: scope(), ..FileFilter::default() };
    let of_file = |file: &crate::model::config_file::ConfigFile| {
        let row = FileRow::of(catalog, t, file);
        let badges = states(t, row.in_force.as_ref(), row.differs, row.has_gray, true);
        Hit { badges, ..Hit::new(format!("{} / {} / {}", row.namespace, row.group, row.name), row.link) }
    };
    let found = catalog.configs.list_files(&files, rows);
    let hits = found.rows.iter().map(|file| of_file(file)).collect();
    add(t.config_files, hits, found.amount, list("/ui/config", "name", query));
    if is_long {
        let files = FileFilter { content: Some(text.to_owned()), read_scope: scope(), ..FileFilter::default() };
        let found = catalog.configs.list_files(&files, rows);
        let hits = found.rows.iter().map(|file| of_file(file)).collect();
        add(t.home.in_contents, hits, found.amount, list("/ui/config", "content", query));
    }
    let found =
        catalog.configs.list_groups(&GroupFilter { name: filter(), read_scope: scope(), ..Default::default() }, rows);
    let hits = found.rows.iter().map(|group| {
        let mut pairs = url::form_urlencoded::Serializer::new(String::new());
        pairs.append_pair("namespace", &group.namespace).append_pair("group", &group.name);
        Hit::new(format!("{} / {}", group.namespace, group.name), format!("/ui/config?{}", pairs.finish()))
    });
    add(t.home.groups, hits.collect(), found.amount, String::new());

    let aliases = AliasFilter { alias: filter(), read_scope: scope(), ..AliasFilter::default() };
    let found = catalog.aliases.list(&aliases, rows);
    let hits = found.rows.iter().map(|alias| {
        let hit = Hit::new(
            format!("{} / {}", alias.alias_namespace, alias.alias),
            links::service(&alias.namespace, &alias.service),
        );
        Hit { about: format!("→ {} / {}", alias.namespace, alias.service), ..hit }
    });
    add(t.aliases, hits.collect(), found.amount, String::new());
    let hosts = InstanceFilter { hosts: [text.to_owned()].into(), read_scope: scope(), ..InstanceFilter::default() };
    let found = catalog.instances.list(&hosts, rows);
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
    add(t.instances, hits.collect(), found.amount, String::new());

    let requests = RequestFilter { name: filter(), heads: true, read_scope: scope(), ..RequestFilter::default() };
    let found = catalog.approvals.list(&requests, rows);
    let hits = found.rows.iter().map(|one| {
        let row = RequestRow::of(one, &catalog.standing(catalog.clock(), one), catalog.clock(), t);
        let hit = Hit::new(format!("{} {}", row.act, row.thing), format!("/ui/requests/{}", row.id));
        Hit { about: row.comment, ..hit.with((row.badge.0, row.badge.1.to_owned())) }
    });
    add(t.requests, hits.collect(), found.amount, String::new());

    let namespaces = NamespaceFilter { name: filter(), read_scope: scope(), ..NamespaceFilter::default() };
    let found = catalog.namespaces.list(&namespaces, rows);
    let named = |path: &str, key: &str, name: &str| {
        let text: String = byte_serialize(name.as_bytes()).collect();
        Hit::new(name.to_owned(), format!("{path}?{key}={text}"))
    };
    let hits = found.rows.iter().map(|one| named("/ui", "namespace", &one.name)).collect();
    add(t.namespaces, hits, found.amount, list("/ui/namespaces", "name", query));
    let found = catalog.contracts.list(&filter(), &sight.read_scope, rows);
    let hits = found.rows.iter().map(|one| named("/ui/edit/contracts", "name", &one.name)).collect();
    add(t.contracts, hits, found.amount, String::new());
    let found = catalog.templates.list(&filter(), rows);
    let hits = found.rows.iter().map(|one| named("/ui/edit/templates", "name", &one.name)).collect();
    add(t.templates, hits, found.amount, list("/ui/templates", "name", query));

    if sight.manages {
        let found = catalog.policies.list(&filter(), rows);
        let hits = found.rows.iter().map(|one| named("/ui/edit/policies", "name", &one.name)).collect();
        add(t.policies, hits, found.amount, String::new());
        let found = catalog.access.list_users(|user| name.matches(&user.name), rows);
        let state = |is_off: bool| is_off.then(|| ("", t.disabled.to_owned())).into_iter().collect();
        let hits = found
            .rows
            .iter()
            .map(|one| Hit { badges: state(one.disabled), ..named("/ui/edit/users", "name", &one.name) });
        add(t.users, hits.collect(), found.amount, "/ui/accounts".to_owned());
        let found = catalog.access.list_service_tokens(|token| name.matches(&token.name), rows);
        let hits = found
            .rows
            .iter()
            .map(|one| Hit { badges: state(one.disabled), ..named("/ui/edit/tokens", "name", &one.name) });
        add(t.tokens, hits.collect(), found.amount, "/ui/accounts".to_owned());
    }
    if sight.operates {
        let found = catalog.webhooks.list(filter().as_ref(), rows);
        let hits = found.rows.iter().map(|one| named("/ui/edit/webhooks", "name", &one.name)).collect();
        add(t.webhooks, hits, found.amount, list("/ui/webhooks", "name", query));
    }
    groups
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
