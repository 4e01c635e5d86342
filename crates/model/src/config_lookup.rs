//! Lookup of a config client, and the release that answers it.
//!
//! A [`Lookup`] is a request in our own terms (namespaces, group, file); a [`Released`] is the catalog's answer. This
//! module does not know HTTP, nor how a catalog stores or searches files.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::config_file::{Format, canonical_file};
use super::content::Content;
use super::properties::{self, Pairs, PropertiesError};

/// Namespace with which every lookup ends.
pub const DEFAULT_NAMESPACE: &str = "default";
/// Key of the content of a file that is not in properties format.
pub const CONTENT_KEY: &str = "content";
/// Label that holds the client's address.
pub const CLIENT_ADDRESS_LABEL: &str = "CLIENT_IP";

/// Lookup of a file: the first namespace that has it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    pub group: String,
    /// Namespaces in order: cluster (unless `default`), data center (if given and different), `default`.
    pub namespaces: Vec<String>,
    pub file: String,
    pub client: ClientLabels,
}

/// Separator in a release key before the mark of a cluster that was created from an earlier state.
const BIRTH_MARK: char = '.';

/// Address and labels of a client, which select gray releases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientLabels {
    pub address: String,
    pub labels: Vec<(String, String)>,
}

impl ClientLabels {
    /// Returns the value of a label; the address is the label [`CLIENT_ADDRESS_LABEL`].
    pub fn get(&self, key: &str) -> Option<&str> {
        if key == CLIENT_ADDRESS_LABEL {
            return Some(&self.address);
        }
        self.labels.iter().find(|(label, _)| label == key).map(|(_, value)| value.as_str())
    }
}

/// Returns the namespaces to search, in order and without repetitions. An empty data center counts as absent.
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

/// A release as clients get it. Its renderings are cached elsewhere, under [`Released::identity`].
#[derive(Debug)]
pub struct Released {
    pub namespace: String,
    pub group: String,
    /// Stored name, which may differ from the requested one.
    pub file: String,
    pub version: u64,
    /// Format by the suffix of the file, otherwise by its format field.
    pub format: Format,
    /// Stored content; sealed if the file is encrypted. It lacks its text for a moment when a release comes into force
    /// again.
    pub content: Content,
    pub encrypted: bool,
    /// Key of the release for clients, which compare it as an opaque text.
    pub release_key: String,
    /// Equal exactly for releases with the same names, version and content.
    pub identity: ReleasedId,
}

/// First half of a SHA-256.
pub type ReleasedId = [u8; 16];

/// One form of a file, as clients read it.
pub type Rendering = Result<Bytes, Unreadable>;

/// Reason why a release cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error(transparent)]
    Damaged(#[from] PropertiesError),
    #[error("the content is encrypted, and was not opened")]
    Sealed,
    #[error("the content is not in memory, and could not be read")]
    Absent,
}

impl Released {
    pub fn new(namespace: &str, group: &str, file: &str, version: u64, format: Format, content: Content) -> Self {
        Released {
            namespace: namespace.to_owned(),
            group: group.to_owned(),
            file: file.to_owned(),
            version,
            format: Format::read_as(file, format),
            encrypted: false,
            release_key: format!("{namespace}-{group}-{file}-{version}"),
            identity: identity([namespace, group, file], version, &content),
            content,
        }
    }

    /// Marks the content as sealed.
    pub fn sealed(self) -> Self {
        Released { encrypted: true, ..self }
    }

    /// Returns the release with a key for a cluster that was created from an earlier state. No other cluster created
    /// from that state uses this key.
    pub fn born(self, birth: &str) -> Self {
        Released { release_key: format!("{}{BIRTH_MARK}{birth}", self.release_key), ..self }
    }

    /// Returns the key-value pairs as a JSON object.
    pub fn configurations(&self, text: &str) -> Rendering {
        let json = serde_json::to_vec(&self.pairs(text)?).expect("a map of strings is JSON");
        Ok(json.into_boxed_slice().into())
    }

    /// Returns the key-value pairs as Java's properties text.
    pub fn properties_text(&self, text: &str) -> Rendering {
        Ok(properties::write(&self.pairs(text)?).into_bytes().into_boxed_slice().into())
    }

    fn pairs(&self, text: &str) -> Result<Pairs, Unreadable> {
        match self.format {
            Format::Properties => Ok(properties::parse(text)?),
            _ => Ok([(CONTENT_KEY.to_owned(), text.to_owned())].into_iter().collect()),
        }
    }
}

fn identity(names: [&str; 3], version: u64, content: &Content) -> ReleasedId {
    let mut hash = Sha256::new();
    for name in names {
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
    }
    hash.update(version.to_be_bytes());
    hash.update(content.digest().bytes());
    let hash: [u8; 32] = hash.finalize().into();
    let mut first = ReleasedId::default();
    first.copy_from_slice(&hash[..size_of::<ReleasedId>()]);
    first
}

/// Release that a client's release key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedRelease<'a> {
    pub namespace: &'a str,
    pub file: &'a str,
    pub version: u64,
}

impl Lookup {
    /// Parses a release key for this lookup. Hyphens may occur in each part, so the key is compared with the names that
    /// the lookup can resolve to.
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
    fn properties_are_rendered_in_both_forms() {
        let text = "b=2\na=\\u0041";
        let released = Released::new("default", "app", "application", 3, Format::Properties, text.into());
        assert_eq!(released.release_key, "default-app-application-3");
        assert_eq!(released.configurations(text).as_deref(), Ok(&br#"{"b":"2","a":"A"}"#[..]));
        assert_eq!(released.properties_text(text).as_deref(), Ok(&b"b=2\na=A\n"[..]));
    }

    #[test]
    fn releases_of_one_identity_are_one() {
        let released = |names: [&str; 3], version: u64, content: &str| {
            let [namespace, group, file] = names;
            Released::new(namespace, group, file, version, Format::Properties, content.into()).identity
        };
        let one = released(["a", "b", "c"], 1, "k=v");
        assert_eq!(one, released(["a", "b", "c"], 1, "k=v"));
        let others = [(["a", "b", "c"], 2, "k=v"), (["a", "b", "c"], 1, "k=w"), (["ab", "", "c"], 1, "k=v")];
        for (names, version, content) in others {
            assert_ne!(one, released(names, version, content), "{names:?} {version} {content}");
        }
    }

    #[test]
    fn other_files_are_one_pair_byte_for_byte() {
        let text = "\u{feff}a: 1\r\nb: \"😀\"\r\n";
        let released = Released::new("default", "app", "db.yml", 1, Format::Properties, text.into());
        let pairs: Pairs = serde_json::from_slice(&released.configurations(text).expect("valid")).expect("JSON");
        assert_eq!(pairs, [("content".to_owned(), text.to_owned())].into_iter().collect());
        let written = "content=\u{feff}a\\: 1\\r\\nb\\: \"😀\"\\r\\n\n";
        assert_eq!(released.properties_text(text).as_deref(), Ok(written.as_bytes()));
    }

    #[test]
    fn damaged_properties_are_an_error_not_an_empty_set() {
        let text = "a=1\nb=\\u12";
        let released = Released::new("default", "app", "application", 1, Format::Properties, text.into());
        let refused = released.configurations(text).expect_err("bad escape").to_string();
        assert_eq!(refused.split(':').next(), Some("line 2, column 3"));
        assert!(released.properties_text(text).is_err());
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
