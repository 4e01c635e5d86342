//! Rules for names. Lengths are in characters; errors name the field and the limit.

use std::collections::BTreeMap;

use super::code::{Code, Refusal};
use super::limits;

/// Pattern of the names that [`check_identifier`] accepts, for the API description.
pub const IDENTIFIER_PATTERN: &str = "^[0-9A-Za-z./:_-]+$";

/// Checks a name against [`IDENTIFIER_PATTERN`] and a limit: namespaces, services, aliases, config groups and the like.
pub fn check_identifier(field: &str, value: &str, chars_max: usize, code: Code) -> Result<(), Refusal> {
    if value.is_empty() {
        return Err(Refusal::new(code, format!("{field} is required")));
    }
    check_length(field, value, chars_max, code)?;
    if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-./:_".contains(&byte)) {
        return Err(Refusal::new(code, format!("{field} may hold letters, digits and - . / : _ only")));
    }
    Ok(())
}

pub fn check_namespace(value: &str) -> Result<(), Refusal> {
    check_identifier("namespace", value, limits::NAMESPACE_CHARS_MAX, Code::InvalidNamespaceName)
}

pub fn check_service(value: &str) -> Result<(), Refusal> {
    check_service_in("name", value)
}

/// Checks the name of a service in the given field.
pub fn check_service_in(field: &str, value: &str) -> Result<(), Refusal> {
    check_identifier(field, value, limits::NAME_CHARS_MAX, Code::InvalidServiceName)
}

pub fn check_config_group(value: &str) -> Result<(), Refusal> {
    check_identifier("group", value, limits::NAME_CHARS_MAX, Code::InvalidConfigFileGroupName)
}

/// Checks free text without control characters: names of rules and releases.
pub fn check_title(field: &str, value: &str) -> Result<(), Refusal> {
    if value.is_empty() {
        return Err(Refusal::new(Code::InvalidParameter, format!("{field} is required")));
    }
    check_length(field, value, limits::NAME_CHARS_MAX, Code::InvalidParameter)?;
    if value.chars().any(char::is_control) {
        return Err(Refusal::new(Code::InvalidParameter, format!("{field} may not hold control characters")));
    }
    Ok(())
}

/// Checks the name of a config file: printable, with slashes but without `.` and `..` segments.
pub fn check_config_file(value: &str) -> Result<(), Refusal> {
    let refuse = |why: &str| Err(Refusal::new(Code::InvalidConfigFileName, why));
    if value.is_empty() {
        return refuse("file name is required");
    }
    check_length("file name", value, limits::NAME_CHARS_MAX, Code::InvalidConfigFileName)?;
    if value.chars().any(char::is_control) {
        return refuse("file name may hold printable characters only");
    }
    if value.split('/').any(|segment| segment.is_empty() || segment == "." || segment == "..") {
        return refuse("file name may not hold empty, . or .. segments");
    }
    Ok(())
}

/// Checks an id that a caller gives: printable ASCII without blanks.
pub fn check_id(value: &str) -> Result<(), Refusal> {
    check_length("id", value, limits::ID_CHARS_MAX, Code::InvalidParameter)?;
    if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refusal::new(Code::InvalidParameter, "id may hold printable ASCII without blanks only"));
    }
    Ok(())
}

pub fn check_length(field: &str, value: &str, chars_max: usize, code: Code) -> Result<(), Refusal> {
    // A string has at least as many bytes as characters, so most values need no count.
    if value.len() > chars_max && value.chars().count() > chars_max {
        return Err(Refusal::new(code, format!("{field} is longer than {chars_max} characters")));
    }
    Ok(())
}

pub fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let refuse = |why: String| Err(Refusal::new(Code::InvalidMetadata, why));
    if metadata.len() > limits::METADATA_ENTRIES_MAX {
        return refuse(format!("metadata has more than {} entries", limits::METADATA_ENTRIES_MAX));
    }
    for (key, value) in metadata {
        if key.is_empty() {
            return refuse("metadata has an empty key".into());
        }
        check_length("a key of metadata", key, limits::METADATA_KEY_CHARS_MAX, Code::InvalidMetadata)?;
        check_length("a value of metadata", value, limits::METADATA_VALUE_CHARS_MAX, Code::InvalidMetadata)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_file_names() {
        for good in ["application", "a.properties", "db/main.yml", "名.json", &"x".repeat(128), &"é".repeat(128)] {
            assert_eq!(check_config_file(good), Ok(()), "{good}");
        }
        for bad in ["", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\nb", "a\u{0}", &"x".repeat(129)] {
            assert_eq!(
                check_config_file(bad).map_err(|refusal| refusal.code),
                Err(Code::InvalidConfigFileName),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn identifiers() {
        for good in ["default", "a-b.c/d:e_f", "0"] {
            assert_eq!(check_namespace(good), Ok(()), "{good}");
        }
        for bad in ["", " ", "a b", "ä", "a\n", &"n".repeat(65)] {
            assert_eq!(
                check_namespace(bad).map_err(|refusal| refusal.code),
                Err(Code::InvalidNamespaceName),
                "{bad:?}"
            );
        }
    }
}
