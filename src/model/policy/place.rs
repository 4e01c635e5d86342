//! Places of things, as the patterns of policies and contracts name them.

use super::super::config_file::{ConfigKey, PROPERTIES_SUFFIX, canonical_file};
use super::super::grant::covers;
use super::super::rule::{End, Rule};
use super::PolicyKind;

/// Parts the group from the file in a pattern, where one of them holds a slash.
const PARTED: &str = "//";

/// One of the places at which an act on a thing is judged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A config file. Group and file stay apart, as both may hold slashes.
    File(ConfigKey),
    /// The name of a rule.
    Rule { namespace: String, name: String },
    /// Services on whose calls a rule acts.
    End(End),
}

impl Place {
    /// The name of a rule as it is written there.
    pub fn of_rule(rule: &Rule) -> Place {
        Place::Rule { namespace: rule.namespace.clone(), name: rule.name.clone() }
    }

    /// Namespace and name by which grants judge it.
    pub fn scope(&self) -> (&str, &str) {
        match self {
            Place::File(key) => (&key.namespace, &key.group),
            Place::Rule { namespace, name } => (namespace, name),
            Place::End(end) => (&end.namespace, &end.service),
        }
    }

    /// Name for people, without the namespace; that of a config file is `group/file`.
    pub fn name(&self) -> String {
        match self {
            Place::File(key) => format!("{}/{}", key.group, key.file),
            Place::Rule { name, .. } => name.clone(),
            Place::End(end) => end.service.clone(),
        }
    }

    /// Group of a config file, else empty.
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

    /// True if one of these patterns names it, or a part of what it stands for.
    pub fn is_of<'a>(&self, namespace: &str, mut names: impl Iterator<Item = &'a str>) -> bool {
        self.is_in(namespace) && names.any(|pattern| self.is_named_by(pattern))
    }

    /// Scopes of what these patterns and the place have in common; none where that is nothing.
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

/// True if a thing is of these kinds, where there are any, in a namespace of the pattern, and named by a pattern.
pub fn is_about<'a>(
    (kinds, namespace, names): (&[PolicyKind], &str, impl Iterator<Item = &'a str>),
    kind: PolicyKind,
    place: &Place,
) -> bool {
    (kinds.is_empty() || kinds.contains(&kind)) && place.is_of(namespace, names)
}

/// Groups that a pattern of names may be about: of `a/b/c` these are `a` and `a/b`, of `a/b//c` it is `a/b`.
pub fn groups_of(pattern: &str) -> Vec<&str> {
    match pattern.rsplit_once(PARTED) {
        Some((group, _)) => vec![group],
        None if !pattern.contains('/') => vec![pattern],
        None => pattern.match_indices('/').map(|(at, _)| &pattern[..at]).collect(),
    }
}

/// True if a pattern names a file, or one that serves the same clients. One without a slash names all files of the
/// groups that it covers; one of several slashes is read in each way in which it names a group and a file.
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

/// True if a pattern covers a name of a config file, or another name that serves the same clients: their lookups try
/// a name with and without `.properties` and without regard to case.
fn covers_twin(pattern: &str, file: &str) -> bool {
    let stem = folded(&canonical_file(file));
    let (beginning, is_open) = pattern.strip_suffix('*').map_or((pattern, false), |beginning| (beginning, true));
    let beginning = folded(beginning);
    let is_named = |name: &str| if is_open { name.starts_with(&beginning) } else { name == beginning };
    // A name that ends in the suffix is never looked up as the stem of another.
    is_named(&format!("{stem}{PROPERTIES_SUFFIX}")) || !stem.ends_with(PROPERTIES_SUFFIX) && is_named(&stem)
}

/// Without letter case, letter by letter, so that the beginning of a text is the beginning of what becomes of it: the
/// sigma at the end of a word is as any other.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).map(|letter| if letter == 'ς' { 'σ' } else { letter }).collect()
}

/// True if two patterns have a name in common.
fn meet(one: &str, other: &str) -> bool {
    covers(one, other) || covers(other, one)
}

/// The narrower of two patterns that meet.
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
