//! What a config client asks for, and the release that answers.
//!
//! A [`Lookup`] is one question in our own words (namespaces, group, file); a [`Released`] is what
//! the catalog answers. Knows nothing of HTTP, and not how a catalog keeps or searches files.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::config_file::{Format, canonical_file};
use super::properties::{self, Pairs, PropertiesError};

/// The namespace that every lookup ends in.
pub const DEFAULT_NAMESPACE: &str = "default";
/// The one key of a file that is not properties.
pub const CONTENT_KEY: &str = "content";
/// The label that holds the client's address.
pub const CLIENT_ADDRESS_LABEL: &str = "CLIENT_IP";

/// One question of one client: the first namespace that has the file answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    pub group: String,
    /// In order: cluster (unless `default`), data centre (if given and different), `default`.
    pub namespaces: Vec<String>,
    pub file: String,
    pub client: ClientLabels,
}

/// In a release key, before the mark of a cluster that was made of an earlier state.
const BIRTH_MARK: char = '.';

/// By how many names a file is asked for: with the suffix of properties, and without.
const SHOWN_NAMES: usize = 2;

/// What gray releases are matched against.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientLabels {
    pub address: String,
    pub labels: Vec<(String, String)>,
}

impl ClientLabels {
    /// Value of a label of this client; the address is the label [`CLIENT_ADDRESS_LABEL`].
    pub fn get(&self, key: &str) -> Option<&str> {
        if key == CLIENT_ADDRESS_LABEL {
            return Some(&self.address);
        }
        self.labels.iter().find(|(label, _)| label == key).map(|(_, value)| value.as_str())
    }
}

/// The namespaces to look in, in order, each once. An empty data centre is none.
pub fn chain(cluster: &str, data_center: Option<&str>) -> Vec<String> {
    let mut namespaces: Vec<&str> = [Some(cluster), data_center]
        .into_iter()
        .flatten()
        .filter(|namespace| !namespace.is_empty() && *namespace != DEFAULT_NAMESPACE)
        .collect();
    namespaces.dedup();
    namespaces.push(DEFAULT_NAMESPACE);
    namespaces.into_iter().map(str::to_owned).collect()
}

/// One release as clients get it.
///
/// What clients read is rendered on the first request and kept, so that a publish to thousands of
/// them costs one rendering, and every answer shares the bytes. The catalog therefore holds the
/// `Arc` of an active release and hands out clones; for one that is active no more it should keep
/// only the content.
#[derive(Debug)]
pub struct Released {
    pub namespace: String,
    pub group: String,
    /// As stored, not as asked for.
    pub file: String,
    pub version: u64,
    /// By the suffix of the file where that says something, whatever its format field says.
    pub format: Format,
    /// As it is kept: sealed, if the file is encrypted.
    pub content: Arc<str>,
    pub encrypted: bool,
    /// What a sealed content says, as far as this node could open it.
    clear: OnceLock<Option<Arc<str>>>,
    /// Names this release to clients, who compare it as a whole and never look inside.
    pub release_key: String,
    configurations: OnceLock<Rendering>,
    properties_text: OnceLock<Rendering>,
    shown: [OnceLock<(String, Rendering)>; SHOWN_NAMES],
}

type Rendering = Result<Bytes, Unreadable>;

/// Why there is nothing to read for clients.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error(transparent)]
    Damaged(#[from] PropertiesError),
    #[error("the content is encrypted, and was not opened")]
    Sealed,
}

impl Released {
    pub fn new(namespace: &str, group: &str, file: &str, version: u64, format: Format, content: Arc<str>) -> Self {
        Released {
            namespace: namespace.to_owned(),
            group: group.to_owned(),
            file: file.to_owned(),
            version,
            format: Format::read_as(file, format),
            content,
            encrypted: false,
            clear: OnceLock::new(),
            release_key: format!("{namespace}-{group}-{file}-{version}"),
            configurations: OnceLock::new(),
            properties_text: OnceLock::new(),
            shown: Default::default(),
        }
    }

    /// The same, of a content that is sealed.
    pub fn sealed(self) -> Self {
        Released { encrypted: true, ..self }
    }

    /// The same in a cluster that was made of an earlier state: no other cluster that is made of it gives this key to
    /// anything.
    pub fn born(self, birth: &str) -> Self {
        Released { release_key: format!("{}{BIRTH_MARK}{birth}", self.release_key), ..self }
    }

    /// Whether it can be rendered. A sealed content is opened by the first who asks, and what it says, or that it
    /// cannot be opened here, is kept for as long as the release is in force.
    pub fn is_open(&self, open: impl FnOnce(&Released) -> Option<Arc<str>>) -> bool {
        !self.encrypted || self.clear.get_or_init(|| open(self)).is_some()
    }

    /// What clients read.
    fn text(&self) -> Result<&Arc<str>, Unreadable> {
        match self.clear.get() {
            Some(Some(clear)) => Ok(clear),
            _ if self.encrypted => Err(Unreadable::Sealed),
            _ => Ok(&self.content),
        }
    }

    /// The key-value pairs as a JSON object.
    pub fn configurations(&self) -> Rendering {
        self.configurations.get_or_init(|| self.rendered_configurations()).clone()
    }

    /// The same, rendered for a form that is kept itself.
    pub fn rendered_configurations(&self) -> Rendering {
        Ok(serde_json::to_vec(&self.pairs()?).expect("a map of strings is JSON").into())
    }

    /// What `render` makes for clients that ask for the file by this name. It is kept for the first few names.
    pub fn shown_as(&self, name: &str, render: impl Fn() -> Rendering) -> Rendering {
        let kept = self.shown.iter().find_map(|slot| {
            let (shown_as, shown) = slot.get_or_init(|| (name.to_owned(), render()));
            (shown_as == name).then(|| shown.clone())
        });
        kept.unwrap_or_else(render)
    }

    /// The key-value pairs as Java's properties text.
    pub fn properties_text(&self) -> Rendering {
        let render = || Ok(properties::write(&self.pairs()?).into_bytes().into());
        self.properties_text.get_or_init(render).clone()
    }

    /// The content as it was published; properties in their normal form.
    pub fn raw(&self) -> Rendering {
        if self.format == Format::Properties {
            self.properties_text()
        } else {
            Ok(Bytes::from_owner(Text(self.text()?.clone())))
        }
    }

    fn pairs(&self) -> Result<Pairs, Unreadable> {
        match self.format {
            Format::Properties => Ok(properties::parse(self.text()?)?),
            _ => Ok(Pairs::from([(CONTENT_KEY.to_owned(), self.text()?.to_string())])),
        }
    }
}

/// A content as bytes that are shared.
struct Text(Arc<str>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The release that a client's release key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedRelease<'a> {
    pub namespace: &'a str,
    pub file: &'a str,
    pub version: u64,
}

impl Lookup {
    /// Reads a release key as far as it concerns this lookup: hyphens may stand inside every part,
    /// so it is read against the names that the lookup can resolve to.
    pub fn named_release<'a>(&'a self, release_key: &'a str) -> Option<NamedRelease<'a>> {
        let (names, version) = release_key.rsplit_once('-')?;
        let (version, _) = version.split_once(BIRTH_MARK).unwrap_or((version, ""));
        let version = version.parse().ok()?;
        let wanted = canonical_file(&self.file);
        self.namespaces.iter().find_map(|namespace| {
            let rest = names.strip_prefix(namespace.as_str())?.strip_prefix('-')?;
            let file = rest.strip_prefix(self.group.as_str())?.strip_prefix('-')?;
            (canonical_file(file) == wanted).then_some(NamedRelease { namespace, file, version })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_cluster_then_data_center_then_default() {
        let table: &[(&str, Option<&str>, &[&str])] = &[
            ("default", None, &["default"]),
            ("c1", None, &["c1", "default"]),
            ("c1", Some("sz"), &["c1", "sz", "default"]),
            ("default", Some("sz"), &["sz", "default"]),
            ("sz", Some("sz"), &["sz", "default"]),
            ("c1", Some("default"), &["c1", "default"]),
            ("default", Some("default"), &["default"]),
            ("c1", Some(""), &["c1", "default"]),
            ("Default", None, &["Default", "default"]),
        ];
        for (cluster, data_center, expected) in table {
            assert_eq!(chain(cluster, *data_center), *expected, "{cluster} {data_center:?}");
        }
    }

    #[test]
    fn a_known_suffix_wins_over_the_format() {
        let table = [
            ("application", Format::Properties, Format::Properties),
            ("application", Format::Yaml, Format::Yaml),
            ("a.PROPERTIES", Format::Text, Format::Properties),
            ("a.json", Format::Properties, Format::Json),
            ("a.YML", Format::Properties, Format::Yaml),
            ("a.txt", Format::Properties, Format::Text),
            ("com.acme.app", Format::Properties, Format::Properties),
        ];
        for (file, format, expected) in table {
            assert_eq!(Released::new("default", "app", file, 1, format, "".into()).format, expected, "{file}");
        }
    }

    #[test]
    fn a_release_is_rendered_once() {
        let released = Released::new("default", "app", "application", 3, Format::Properties, "b=2\na=\\u0041".into());
        assert_eq!(released.release_key, "default-app-application-3");
        assert_eq!(released.configurations().as_deref(), Ok(&br#"{"a":"A","b":"2"}"#[..]));
        assert_eq!(released.properties_text().as_deref(), Ok(&b"a=A\nb=2\n"[..]));
        assert_eq!(released.raw(), released.properties_text());
        let (first, second) = (released.configurations(), released.configurations());
        assert_eq!(first.expect("valid").as_ptr(), second.expect("valid").as_ptr());
    }

    #[test]
    fn other_files_are_one_pair_byte_for_byte() {
        let text = "\u{feff}a: 1\r\nb: \"😀\"\r\n";
        let released = Released::new("default", "app", "db.yml", 1, Format::Properties, text.into());
        let pairs: Pairs = serde_json::from_slice(&released.configurations().expect("valid")).expect("JSON");
        assert_eq!(pairs, Pairs::from([("content".to_owned(), text.to_owned())]));
        assert_eq!(released.raw().as_deref(), Ok(text.as_bytes()));
        let text = "content=\u{feff}a\\: 1\\r\\nb\\: \"😀\"\\r\\n\n";
        assert_eq!(released.properties_text().as_deref(), Ok(text.as_bytes()));
    }

    #[test]
    fn damaged_properties_are_an_error_not_an_empty_set() {
        let released = Released::new("default", "app", "application", 1, Format::Properties, "a=1\nb=\\u12".into());
        assert_eq!(released.configurations().expect_err("bad escape").to_string().split(':').next(), Some("line 2"));
        assert!(released.properties_text().is_err() && released.raw().is_err());
    }

    #[test]
    fn release_keys_are_read_against_the_lookup() {
        let lookup = |group: &str, file: &str| Lookup {
            group: group.to_owned(),
            namespaces: chain("a-b", Some("a")),
            file: file.to_owned(),
            client: ClientLabels::default(),
        };
        let table = [
            ("app", "x", "default-app-x-7", Some(("default", "x", 7))),
            ("app", "x", "a-app-X.properties-7", Some(("a", "X.properties", 7))),
            ("my-app", "x-y.yml", "a-b-my-app-x-y.yml-12", Some(("a-b", "x-y.yml", 12))),
            ("b", "b-x", "a-b-b-x-1", Some(("a", "b-x", 1))),
            ("b", "x", "a-b-b-x-1", Some(("a-b", "x", 1))),
            ("app", "x", "default-app-x-7.3fa9c1d2", Some(("default", "x", 7))),
            ("app", "x", "default-app-x-7.", Some(("default", "x", 7))),
            ("app", "x", "default-app-x-.7", None),
            ("app", "x", "default-app-y-7", None),
            ("app", "x", "other-app-x-7", None),
            ("app", "x", "default-app-x", None),
            ("app", "x", "default-app-x-seven", None),
            ("app", "x", "default-app-x-99999999999999999999", None),
            ("app", "x", "-1", None),
            ("app", "x", "undefined", None),
            ("app", "x", "20220604162445-090bb751775f383a", None),
            ("app", "x", "", None),
        ];
        for (group, file, key, expected) in table {
            let lookup = lookup(group, file);
            let named = lookup.named_release(key).map(|named| (named.namespace, named.file, named.version));
            assert_eq!(named, expected, "{group} {file} {key}");
        }
    }
}
