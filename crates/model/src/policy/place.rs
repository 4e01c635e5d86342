//! Places of objects, which the patterns of policies and contracts select.

use super::super::config_file::{ConfigKey, PROPERTIES_SUFFIX, canonical_file};
use super::super::grant::covers;
use super::super::rule::{End, Rule};
use super::PolicyKind;

/// Separator between group and file in a pattern in which one of them contains a slash.
const PARTED: &str = "//";

/// A place at which an act on an object is checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A config file. Group and file are separate, since both may contain slashes.
    File(ConfigKey),
    /// A rule by its name.
    Rule { namespace: String, name: String },
    /// A service whose calls a rule affects; parts may be `*`.
    End(End),
}

impl Place {
    /// Returns the place of a rule by its name.
    pub fn of_rule(rule: &Rule) -> Place {
        Place::Rule { namespace: rule.namespace.clone(), name: rule.name.clone() }
    }

    /// Returns the namespace and name that grants cover.
    pub fn scope(&self) -> (&str, &str) {
        match self {
            Place::File(key) => (&key.namespace, &key.group),
            Place::Rule { namespace, name } => (namespace, name),
            Place::End(end) => (&end.namespace, &end.service),
        }
    }

    /// Returns the name for display, without the namespace; `group/file` for a config file.
    pub fn name(&self) -> String {
        match self {
            Place::File(key) => format!("{}/{}", key.group, key.file),
            Place::Rule { name, .. } => name.clone(),
            Place::End(end) => end.service.clone(),
        }
    }

    /// Returns the group of a config file, otherwise an empty text.
    pub fn group(&self) -> &str {
        if let Place::File(key) = self { &key.group } else { "" }
    }

    fn is_in(&self, namespace: &str) -> bool {
        match self {
            Place::File(key) => covers(namespace, &key.namespace),
            Place::Rule { namespace: given, .. } => covers(namespace, given),
            Place::End(end) => meet(namespace, &end.namespace),
        }
    }

    fn is_named_by(&self, pattern: &str) -> bool {
        match self {
            Place::File(key) => names_file(pattern, key),
            Place::Rule { name, .. } => covers(pattern, name),
            Place::End(end) => meet(pattern, &end.service),
        }
    }

    /// Reports whether one of these patterns matches it, or a part of it if it contains `*`.
    pub fn is_of<'a>(&self, namespace: &str, mut names: impl Iterator<Item = &'a str>) -> bool {
        self.is_in(namespace) && names.any(|pattern| self.is_named_by(pattern))
    }

    /// Returns the scopes that these patterns and the place have in common.
    pub fn scopes_in<'a>(
        &self,
        namespace: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> impl Iterator<Item = (String, String)> {
        let is_in = self.is_in(namespace);
        let (own, name) = self.scope();
        let namespace = narrower(namespace, own).to_owned();
        let named = names.filter(move |pattern| is_in && self.is_named_by(pattern));
        named.map(move |pattern| match self {
            Place::End(_) => (namespace.clone(), narrower(pattern, name).to_owned()),
            Place::File(_) | Place::Rule { .. } => (namespace.clone(), name.to_owned()),
        })
    }
}

/// Reports whether an object is of one of these kinds (empty for all), in a matching namespace, with a matching name.
pub fn is_about<'a>(
    (kinds, namespace, names): (&[PolicyKind], &str, impl Iterator<Item = &'a str>),
    kind: PolicyKind,
    place: &Place,
) -> bool {
    (kinds.is_empty() || kinds.contains(&kind)) && place.is_of(namespace, names)
}

/// Returns the groups that a pattern of names may mean: `a` and `a/b` for `a/b/c`, `a/b` for `a/b//c`.
pub fn groups_of(pattern: &str) -> Vec<&str> {
    match pattern.rsplit_once(PARTED) {
        Some((group, _)) => vec![group],
        None if !pattern.contains('/') => vec![pattern],
        None => pattern.match_indices('/').map(|(at, _)| &pattern[..at]).collect(),
    }
}

/// Reports whether a pattern matches a file, or one that serves the same clients. A pattern without a slash matches all
/// files of the groups that it covers; one with several slashes may be split at each of them.
fn names_file(pattern: &str, key: &ConfigKey) -> bool {
    if let Some((group, file)) = pattern.rsplit_once(PARTED) {
        return group == key.group && covers_twin(file, &key.file);
    }
    if !pattern.contains('/') {
        return covers(pattern, &key.group);
    }
    let file = pattern.strip_prefix(key.group.as_str()).and_then(|rest| rest.strip_prefix('/'));
    file.is_some_and(|file| covers_twin(file, &key.file))
}

/// Reports whether a pattern covers a file name, or another name that serves the same clients: their lookups try a name
/// with and without `.properties` and ignore case.
fn covers_twin(pattern: &str, file: &str) -> bool {
    let stem = folded(&canonical_file(file));
    let (beginning, is_open) = pattern.strip_suffix('*').map_or((pattern, false), |beginning| (beginning, true));
    let beginning = folded(beginning);
    let is_named = |name: &str| if is_open { name.starts_with(&beginning) } else { name == beginning };
    // A name that ends with the suffix is never looked up as the stem of another one.
    is_named(&format!("{stem}{PROPERTIES_SUFFIX}")) || !stem.ends_with(PROPERTIES_SUFFIX) && is_named(&stem)
}

/// Folds case letter by letter, so that a prefix of a text remains a prefix of its result: a final sigma is folded like
/// any other.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).map(|letter| if letter == 'ς' { 'σ' } else { letter }).collect()
}

/// Reports whether two patterns have a name in common.
fn meet(one: &str, other: &str) -> bool {
    covers(one, other) || covers(other, one)
}

/// Returns the narrower of two patterns that have a name in common.
fn narrower<'a>(one: &'a str, other: &'a str) -> &'a str {
    if covers(one, other) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(group: &str, file: &str) -> Place {
        Place::File(ConfigKey::new("shop", group, file))
    }

    fn is_of(place: &Place, namespace: &str, name: &str) -> bool {
        place.is_of(namespace, [name].into_iter())
    }

    #[test]
    fn group_and_file_are_matched_apart() {
        let rows = [
            ("pay", "pay", "app.yml", true),
            ("pay", "pay/eu", "app.yml", false),
            ("pay/*", "pay", "app.yml", true),
            ("pay/*", "pay", "eu/app.yml", true),
            ("pay/*", "pay/eu", "app.yml", false),
            ("pay/eu/app.yml", "pay/eu", "app.yml", true),
            ("pay/eu/app.yml", "pay", "eu/app.yml", true),
            ("pay/eu//app.yml", "pay/eu", "app.yml", true),
            ("pay/eu//app.yml", "pay", "eu/app.yml", false),
            ("pay//eu/*", "pay", "eu/app.yml", true),
            ("pay//eu/*", "pay/eu", "app.yml", false),
            ("pay/eu//*", "pay/eu", "x", true),
            ("pay*", "pay/eu", "app.yml", true),
        ];
        for (pattern, group, name, expected) in rows {
            assert_eq!(is_of(&file(group, name), "shop", pattern), expected, "{pattern} {group} {name}");
            let is_scoped = groups_of(pattern).iter().any(|scope| covers(scope, group));
            assert!(is_scoped || !expected, "{pattern}: {group} is among its groups");
        }
        assert_eq!(groups_of("a/b/c"), ["a", "a/b"]);
        assert_eq!(groups_of("a/b//c"), ["a/b"]);
    }

    #[test]
    fn names_that_serve_the_same_clients_are_covered_with_each_other() {
        let rows = [
            ("pay/application.properties", "application", true),
            ("pay/application", "application.properties", true),
            ("pay/application", "Application.PROPERTIES", true),
            ("pay/App.json", "app.json", true),
            ("pay/X.YML", "x.yml", true),
            ("pay/app.json", "app.json.properties", true),
            ("pay/app.json", "app.yml", false),
            ("pay/application.prop*", "application", true),
            ("pay/App*", "application", true),
            ("pay/app.properties", "app.properties.properties", false),
            ("pay/app.properties.properties", "app.properties.properties", true),
            ("pay/ΑΣ*", "ας", true),
            ("pay/ΑΣ*", "ΑΣΑ", true),
            ("pay/b*", "application", false),
        ];
        for (pattern, name, expected) in rows {
            assert_eq!(is_of(&file("pay", name), "shop", pattern), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn ends_are_covered_where_they_meet() {
        let end = |namespace: &str, service: &str| {
            Place::End(End { namespace: namespace.to_owned(), service: service.to_owned() })
        };
        let rows = [
            (end("shop", "pay"), "shop", "pay", vec![("shop", "pay")]),
            (end("shop", "*"), "shop", "pay", vec![("shop", "pay")]),
            (end("*", "*"), "shop", "pay*", vec![("shop", "pay*")]),
            (end("shop", "pay"), "*", "*", vec![("shop", "pay")]),
            (end("shop", "pay"), "lab", "*", vec![]),
            (end("shop", "pay"), "shop", "stock", vec![]),
        ];
        for (place, namespace, name, scopes) in rows {
            let found: Vec<_> = place.scopes_in(namespace, [name].into_iter()).collect();
            let expected: Vec<_> = scopes.into_iter().map(|(one, two)| (one.to_owned(), two.to_owned())).collect();
            assert_eq!(is_of(&place, namespace, name), !expected.is_empty(), "{place:?} {namespace} {name}");
            assert_eq!(found, expected, "{place:?} {namespace} {name}");
        }
    }
}
