//! Names of config files, as lookups of config clients match them: with and without `.properties`, and without regard
//! to case.

use super::config_format::Format;

/// Returns the name in lower case, without one trailing `.properties`: equal for all names that one lookup may try. It
/// is part of the key of a hashed row, so the version of Unicode is fixed within a level (`catalog::tests::words`).
pub fn canonical_file(file: &str) -> String {
    let mut lower = file.to_lowercase();
    if lower.ends_with(PROPERTIES_SUFFIX) {
        lower.truncate(lower.len() - PROPERTIES_SUFFIX.len());
    }
    lower
}

/// Suffix that a client may omit.
pub const PROPERTIES_SUFFIX: &str = ".properties";

/// Returns the file for an Apollo namespace: the existing name that clients find by it, otherwise the namespace itself,
/// with the suffix if it is in properties format.
pub fn file_of_namespace<'a>(namespace: &str, there: impl Iterator<Item = &'a str> + Clone) -> String {
    let toggled = toggle_suffix(namespace);
    let names = [namespace, toggled.as_str()];
    let same = |name: &str| there.clone().find(|other| *other == name);
    let alike = |name: &str| {
        let name = name.to_lowercase();
        let mut alike = there.clone().filter(move |other| other.to_lowercase() == name);
        alike.next().filter(|_| alike.next().is_none())
    };
    let found = names.into_iter().find_map(same).or_else(|| names.into_iter().find_map(alike));
    found.map_or_else(
        || match Format::of_suffix(namespace) {
            Some(_) => namespace.to_owned(),
            None => toggled.clone(),
        },
        str::to_owned,
    )
}

/// Converts `a` to `a.properties` and back; the suffix is recognized in any case.
pub fn toggle_suffix(file: &str) -> String {
    let cut = file.len().checked_sub(PROPERTIES_SUFFIX.len());
    match cut.and_then(|cut| file.split_at_checked(cut)) {
        Some((stem, suffix)) if suffix.eq_ignore_ascii_case(PROPERTIES_SUFFIX) => stem.to_owned(),
        _ => format!("{file}{PROPERTIES_SUFFIX}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_called_as_its_file_is_there() {
        let table: &[(&str, &[&str], &str)] = &[
            ("application", &[], "application.properties"),
            ("com.acme.app", &[], "com.acme.app.properties"),
            ("db.yaml", &[], "db.yaml"),
            ("application", &["application"], "application"),
            ("application", &["application.properties"], "application.properties"),
            ("application", &["application.properties", "application"], "application"),
            ("application", &["Application.Properties"], "Application.Properties"),
            ("application", &["Application", "APPLICATION"], "application.properties"),
            ("application", &["other", "application.yml"], "application.properties"),
            ("application", &["APPLICATION", "application.properties"], "application.properties"),
            ("DB.yaml", &["db.yaml"], "db.yaml"),
        ];
        for (namespace, there, expected) in table {
            assert_eq!(file_of_namespace(namespace, there.iter().copied()), *expected, "{namespace} {there:?}");
        }
    }
}
