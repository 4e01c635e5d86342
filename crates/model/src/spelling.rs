//! The two spellings of a name of several words: snake_case and camelCase. Callers may use either one for any field or
//! query key.

/// Reports whether both are the same name: equal, or one in snake_case and the other in camelCase.
pub fn is_same_name(one: &str, other: &str) -> bool {
    one == other || is_camel_of(one, other) || is_camel_of(other, one)
}

/// Returns the name among `names` of which `given` is another spelling, or `given` itself.
pub fn as_declared<'a>(given: &'a str, names: &[&'static str]) -> &'a str {
    let has_words = given.bytes().any(|byte| byte == b'_' || byte.is_ascii_uppercase());
    if !has_words || names.contains(&given) {
        return given;
    }
    names.iter().find(|name| is_same_name(name, given)).copied().unwrap_or(given)
}

fn is_camel_of(snake: &str, camel: &str) -> bool {
    let (mut snake, mut camel) = (snake.bytes(), camel.bytes());
    while let Some(byte) = snake.next() {
        let expected = match byte {
            b'_' => snake.next().filter(u8::is_ascii_lowercase).map(|first| first.to_ascii_uppercase()),
            byte => Some(byte).filter(|byte| !byte.is_ascii_uppercase()),
        };
        if expected.is_none() || camel.next() != expected {
            return false;
        }
    }
    camel.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_two_spellings() {
        for (one, other) in [("expires_in_s", "expiresInS"), ("cmdb_mod1", "cmdbMod1"), ("name", "name"), ("a_b", "aB")]
        {
            assert!(is_same_name(one, other) && is_same_name(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("expires_in_s", "expiresIns"),
            ("expires_in_s", "expires_inS"),
            ("filter", "Filter"),
            ("_a", "a"),
            ("a_1", "a1"),
            ("a_", "a"),
            ("name", "names"),
            ("", "a"),
        ] {
            assert!(!is_same_name(one, other) && !is_same_name(other, one), "{one} {other}");
        }
    }

    #[test]
    fn a_declared_spelling_is_taken_before_another_one() {
        let names = ["betaLabels", "client_labels", "clientLabels"];
        for (given, expected) in [
            ("beta_labels", "betaLabels"),
            ("clientLabels", "clientLabels"),
            ("client_labels", "client_labels"),
            ("more_words", "more_words"),
            ("labels", "labels"),
        ] {
            assert_eq!(as_declared(given, &names), expected);
        }
    }
}
