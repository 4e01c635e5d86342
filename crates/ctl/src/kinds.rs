//! Kinds of objects that commands name: one table with the names, API paths and columns of each.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use thuban_model::rule::Family;
use url::form_urlencoded;

use super::errors::Usage;
pub(super) use super::kind::{Kind, Nature};
use super::kind::{MODIFIED, NAME, NAMESPACE, REVISION, cut};
use super::kinds_of_access::{self, identity_name, identity_named};
use super::kinds_of_approval;
use super::remote::Paging;
use super::tables::{Column, text};

/// All kinds, in dependency order.
pub(super) static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let rules = Family::LISTED.map(of_rules);
    let all = KINDS_BEFORE_RULES.into_iter().chain(rules).chain(KINDS_AFTER_RULES);
    let mut all: Vec<Kind> =
        all.chain([kinds_of_access::PROVIDER, kinds_of_access::IDENTITY, kinds_of_approval::POLICY]).collect();
    // A contract that permits more is applied before the files that need it; a policy gates acts, so it is last.
    let files = all.iter().position(|kind| kind.nature == Nature::File).unwrap_or_default();
    all.insert(files, kinds_of_approval::CONTRACT);
    all
});

const KINDS_BEFORE_RULES: [Kind; 5] = [
    Kind {
        nature: Nature::Namespace,
        one: "namespace",
        many: "namespaces",
        short: "ns",
        list: "/naming/v1/namespaces",
        write: "/naming/v1/namespaces",
        rows: "namespaces",
        columns: &[
            NAME,
            ("services", |row| text(&row["total_service_count"])),
            ("comment", |row| cut(&row["comment"])),
        ],
        more: &[("owners", |row| cut(&row["owners"])), MODIFIED, REVISION],
    },
    Kind {
        nature: Nature::Service,
        one: "service",
        many: "services",
        short: "svc",
        list: "/naming/v1/services",
        write: "/naming/v1/services",
        rows: "services",
        columns: &[
            NAMESPACE,
            NAME,
            ("healthy", |row| {
                format!("{}/{}", text(&row["healthy_instance_count"]), text(&row["total_instance_count"]))
            }),
            ("business", |row| cut(&row["business"])),
            ("comment", |row| cut(&row["comment"])),
        ],
        more: &[
            ("department", |row| cut(&row["department"])),
            ("owners", |row| cut(&row["owners"])),
            ("metadata", |row| cut(&row["metadata"])),
            MODIFIED,
            REVISION,
        ],
    },
    Kind {
        nature: Nature::Group,
        one: "configgroup",
        many: "configgroups",
        short: "cg",
        list: "/config/v1/configfilegroups",
        write: "/config/v1/configfilegroups",
        rows: "configFileGroups",
        columns: &[NAMESPACE, NAME, ("files", |row| text(&row["fileCount"])), ("comment", |row| cut(&row["comment"]))],
        more: &[("owner", |row| cut(&row["owner"])), ("modified", |row| text(&row["modifyTime"])), REVISION],
    },
    Kind {
        nature: Nature::Alias,
        one: "alias",
        many: "aliases",
        short: "al",
        list: "/naming/v1/service/aliases",
        write: "/naming/v1/service/alias",
        rows: "aliases",
        columns: &[
            ("namespace", |row| text(&row["alias_namespace"])),
            ("name", |row| text(&row["alias"])),
            ("stands for", |row| format!("{}/{}", text(&row["namespace"]), text(&row["service"]))),
        ],
        more: &[("owners", |row| cut(&row["owners"])), ("comment", |row| cut(&row["comment"])), MODIFIED, REVISION],
    },
    Kind {
        nature: Nature::File,
        one: "configfile",
        many: "configfiles",
        short: "cf",
        list: "/config/v1/configfiles/search",
        write: "/config/v1/configfiles",
        rows: "configFiles",
        columns: &[
            NAMESPACE,
            ("group", |row| text(&row["group"])),
            NAME,
            ("format", |row| text(&row["format"])),
            ("status", |row| text(&row["status"])),
            ("released", |row| text(&row["releaseTime"])),
        ],
        more: &[
            ("bytes", |row| row["content"].as_str().map_or(0, str::len).to_string()),
            ("modified", |row| text(&row["modifyTime"])),
            ("by", |row| text(&row["modifyBy"])),
            REVISION,
        ],
    },
];

const KINDS_AFTER_RULES: [Kind; 2] = [
    Kind {
        nature: Nature::Webhook,
        one: "webhook",
        many: "webhooks",
        short: "wh",
        list: "/admin/v1/webhooks",
        write: "/admin/v1/webhooks",
        rows: "data",
        columns: &[
            NAME,
            ("url", |row| cut(&row["url"])),
            ("of", |row| row["namespace"].as_str().filter(|one| !one.is_empty()).unwrap_or("*").to_owned()),
            ("disabled", |row| text(&row["disabled"])),
            ("delivered", |row| text(&row["delivered"])),
            ("pending", |row| text(&row["pending"])),
            ("failing since", |row| text(&row["failing_since"])),
        ],
        more: &[
            ("events", |row| cut(&row["events"])),
            ("dropped", |row| text(&row["dropped"])),
            ("last error", |row| cut(&row["last_error"])),
            ("comment", |row| cut(&row["comment"])),
            MODIFIED,
            REVISION,
        ],
    },
    Kind {
        nature: Nature::Instance,
        one: "instance",
        many: "instances",
        short: "in",
        list: "/naming/v1/instances",
        write: "/naming/v1/instances",
        rows: "instances",
        columns: &[
            NAMESPACE,
            ("service", |row| text(&row["service"])),
            ("address", |row| format!("{}:{}", text(&row["host"]), text(&row["port"]))),
            ("healthy", |row| text(&row["healthy"])),
            ("isolated", |row| text(&row["isolate"])),
            ("weight", |row| text(&row["weight"])),
        ],
        more: &[
            ("version", |row| text(&row["version"])),
            ("zone", |row| text(&row["location"]["zone"])),
            ("metadata", |row| cut(&row["metadata"])),
            ("id", |row| text(&row["id"])),
        ],
    },
];

fn of_rules(family: Family) -> Kind {
    Kind {
        nature: Nature::Rule(family),
        one: family.word(),
        many: family.kind(),
        short: family.short_word(),
        list: family.path(),
        write: family.path(),
        rows: "data",
        columns: &[
            NAMESPACE,
            NAME,
            ("enabled", |row| text(&row["enable"])),
            ("priority", |row| text(&row["priority"])),
            ("modified", |row| text(&row["mtime"])),
        ],
        more: &[
            // Added to each row by the code that fetched the releases.
            ("in force", |row| text(&row["in_force"])),
            ("description", |row| cut(&row["description"])),
            ("id", |row| text(&row["id"])),
            REVISION,
        ],
    }
}

/// Name of one object, or globs for several.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Empty for kinds without namespaces.
    pub(super) namespace: String,
    /// Group of a config file; `None` for other kinds.
    pub(super) group: Option<String>,
    pub(super) name: String,
}

impl Kind {
    /// Returns the kind with this singular, plural or short name; letter case is ignored.
    pub(super) fn of_word(word: &str) -> Result<&'static Kind, Usage> {
        let lower = word.to_ascii_lowercase();
        KINDS.iter().find(|kind| [kind.one, kind.many, kind.short].contains(&lower.as_str())).ok_or_else(|| {
            let known: Vec<_> = KINDS.iter().map(|kind| format!("{} ({})", kind.many, kind.short)).collect();
            Usage(format!("{word:?} is no kind; there are {}", known.join(", ")))
        })
    }

    /// Returns the position in dependency order.
    pub(super) fn order(&self) -> usize {
        KINDS.iter().position(|kind| kind.nature == self.nature).unwrap_or(KINDS.len())
    }

    /// Returns the path for deletes.
    pub(super) fn delete(&self) -> String {
        let all = if self.nature == Nature::File { self.write } else { self.list };
        format!("{all}/delete")
    }

    pub(super) fn is_documented(&self) -> bool {
        !matches!(self.nature, Nature::Instance | Nature::Identity)
    }

    /// Returns the origin of objects that are not documented, and the command for them.
    pub(super) fn origin(&self) -> (&'static str, &'static str) {
        match self.nature {
            Nature::Identity => ("come of sign-ins", "`thuban identity`"),
            _ => ("register themselves", "`thuban instance`"),
        }
    }

    /// Reports whether objects of the kind are in a namespace.
    pub(super) fn is_placed(&self) -> bool {
        self.nature != Nature::Namespace && !self.is_of_cluster()
    }

    /// Reports whether objects belong to the cluster as a whole: `namespace` in their spec is a pattern.
    pub(super) fn is_of_cluster(&self) -> bool {
        let Kind { nature, .. } = self;
        matches!(nature, Nature::Webhook | Nature::Policy | Nature::Contract | Nature::Provider | Nature::Identity)
    }

    /// Reports whether objects have releases.
    pub(super) fn is_released(&self) -> bool {
        matches!(self.nature, Nature::Rule(_) | Nature::File)
    }

    pub(super) fn columns(&self, wide: bool) -> Vec<Column> {
        let more = if wide { self.more } else { &[] };
        self.columns.iter().chain(more).copied().collect()
    }

    /// Returns the name of a row's object.
    pub(super) fn key_of(&self, row: &Value) -> Key {
        let of = |member: &str| row[member].as_str().unwrap_or_default().to_owned();
        match self.nature {
            Nature::Identity => Key { name: identity_name(row), ..Key::default() },
            _ if !self.is_placed() => Key { name: of("name"), ..Key::default() },
            Nature::Alias => Key { namespace: of("alias_namespace"), name: of("alias"), ..Key::default() },
            Nature::File => Key { namespace: of("namespace"), group: Some(of("group")), name: of("name") },
            Nature::Instance => Key { namespace: of("namespace"), name: of("id"), ..Key::default() },
            _ => Key { namespace: of("namespace"), name: of("name"), ..Key::default() },
        }
    }

    /// Returns the members of a body that name the object.
    pub(super) fn named(&self, key: &Key) -> Map<String, Value> {
        let body = match self.nature {
            Nature::Identity => return identity_named(&key.name),
            _ if !self.is_placed() => json!({ "name": key.name }),
            Nature::Alias => json!({ "alias_namespace": key.namespace, "alias": key.name }),
            Nature::File => json!({ "namespace": key.namespace, "group": key.group, "name": key.name }),
            Nature::Instance => json!({ "id": key.name }),
            _ => json!({ "namespace": key.namespace, "name": key.name }),
        };
        body.as_object().cloned().unwrap_or_default()
    }

    /// Returns the path of a page of objects; absent parts of the name match all.
    pub(super) fn page(&self, wanted: &KindFilter, paging: &Paging) -> String {
        let (namespace, name) = match self.nature {
            Nature::Identity => (None, "provider"),
            _ if !self.is_placed() => (None, "name"),
            Nature::Alias => (Some("alias_namespace"), "alias"),
            Nature::Group => (Some("namespace"), "group"),
            Nature::Instance => (Some("namespace"), "id"),
            _ => (Some("namespace"), "name"),
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        let mut add = |key: Option<&str>, value: &Option<String>| {
            if let (Some(key), Some(value)) = (key, value) {
                query.append_pair(key, value);
            }
        };
        // The list of instances requires a filter.
        let any = (self.nature == Nature::Instance).then(|| "*".to_owned());
        add(namespace, &wanted.namespace.clone().or(any));
        match (self.nature, wanted.name.as_deref().and_then(|name| name.split_once('/'))) {
            (Nature::Identity, Some((provider, sub))) => {
                add(Some("provider"), &Some(provider.to_owned()));
                add(Some("sub"), &Some(sub.to_owned()));
            }
            _ => add(Some(name), &wanted.name),
        }
        add(Some("group"), &wanted.group);
        add(Some("service"), &wanted.service);
        if self.nature == Nature::File {
            query.append_pair("brief", "false");
        }
        paging.ask(&mut query);
        format!("{}?{}", self.list, query.finish())
    }
}

/// Selection of objects of a kind; absent fields match all.
#[derive(Clone, Debug, Default)]
pub(super) struct KindFilter {
    pub(super) namespace: Option<String>,
    pub(super) group: Option<String>,
    pub(super) name: Option<String>,
    /// Service, for kinds that belong to one.
    pub(super) service: Option<String>,
}

/// Formats a name for people, with the group of a config file.
pub(super) fn display_name(kind: &Kind, key: &Key) -> String {
    match &key.group {
        Some(group) => format!("{}/{group}/{}", kind.one, key.name),
        None => format!("{}/{}", kind.one, key.name),
    }
}

/// Formats a name with its namespace, for output about several.
pub(super) fn placed(kind: &Kind, key: &Key) -> String {
    if key.namespace.is_empty() {
        display_name(kind, key)
    } else {
        format!("{} in {}", display_name(kind, key), key.namespace)
    }
}

/// Parses a name; that of a config file may be GROUP/FILE.
pub(super) fn read_key(kind: &Kind, namespace: &str, group: Option<&str>, name: &str) -> Result<Key, Usage> {
    let namespace = if kind.is_placed() { namespace } else { "" };
    let (group, name) = match (kind.nature, group) {
        (Nature::File, Some(group)) => (Some(group.to_owned()), name),
        (Nature::File, None) => {
            let (group, file) = name.split_once('/').ok_or_else(|| {
                Usage(format!("{name:?} says no group: a config file is named GROUP/FILE, e.g. configfile/shop/{name}"))
            })?;
            (Some(group.to_owned()), file)
        }
        _ => (None, name),
    };
    if name.is_empty() {
        return Err(Usage(format!("which {}? give its name: {}/NAME", kind.one, kind.one)));
    }
    Ok(Key { namespace: namespace.to_owned(), group, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_word_names_one_kind() {
        let mut seen = BTreeSet::new();
        for kind in KINDS.iter() {
            for word in BTreeSet::from([kind.one, kind.many, kind.short]) {
                assert!(seen.insert(word), "{word} names two kinds");
                assert_eq!(Kind::of_word(&word.to_uppercase()).ok().map(|kind| kind.one), Some(kind.one));
            }
            assert_eq!(kind.key_of(&Value::Object(kind.named(&sample(kind)))), sample(kind), "{}", kind.one);
        }
        assert!(Kind::of_word("pods").err().expect("no kind").0.contains("routings (rt)"));
    }

    fn sample(kind: &Kind) -> Key {
        let namespace = if kind.is_placed() && kind.nature != Nature::Instance { "shop" } else { "" };
        let group = (kind.nature == Nature::File).then(|| "g".to_owned());
        let name = if kind.nature == Nature::Identity { "corp/a/1" } else { "a" };
        Key { namespace: namespace.to_owned(), group, name: name.to_owned() }
    }

    #[test]
    fn config_files_are_named_with_their_group() {
        let kind = Kind::of_word("cf").expect("a kind");
        let key = read_key(kind, "ns", None, "g/deep/a.yaml").expect("a name");
        assert_eq!((key.group.as_deref(), key.name.as_str()), (Some("g"), "deep/a.yaml"));
        assert_eq!(display_name(kind, &key), "configfile/g/deep/a.yaml");
        assert_eq!(placed(kind, &key), "configfile/g/deep/a.yaml in ns");
        let slashed = read_key(kind, "ns", Some("g/h"), "a/b").expect("a name");
        assert_eq!((slashed.group.as_deref(), slashed.name.as_str()), (Some("g/h"), "a/b"));
        assert!(read_key(kind, "ns", None, "a.yaml").is_err());
    }

    #[test]
    fn pages_are_asked_for_by_the_names_of_the_api() {
        let wanted = KindFilter { namespace: Some("a b".into()), name: Some("x*".into()), ..KindFilter::default() };
        let of = |word| Kind::of_word(word).expect("a kind").page(&wanted, &Paging::first(100));
        assert_eq!(of("al"), "/naming/v1/service/aliases?alias_namespace=a+b&alias=x*&order=key&limit=100&offset=0");
        assert_eq!(of("ns"), "/naming/v1/namespaces?name=x*&order=key&limit=100&offset=0");
        let of_name = |name: &str| {
            let wanted = KindFilter { name: Some(name.to_owned()), ..KindFilter::default() };
            Kind::of_word("identities").expect("a kind").page(&wanted, &Paging::first(100))
        };
        let paging = "order=key&limit=100&offset=0";
        assert_eq!(of_name("corp/a/1"), format!("/auth/v1/identities?provider=corp&sub=a%2F1&{paging}"));
        assert_eq!(of_name("corp"), format!("/auth/v1/identities?provider=corp&{paging}"));
        let files = "/config/v1/configfiles/search?namespace=a+b&name=x*&brief=false&order=key&limit=100&offset=0";
        assert_eq!(of("cf"), files);
    }
}
