//! Patterns of claim values: text in which `*` covers any number of characters, also none. Case matters.

/// Reports whether a pattern covers a text. The first and the last piece are anchored, those between are searched from
/// the left, which is complete for patterns whose only wildcard is `*`.
pub(super) fn covers(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut text) = text.strip_prefix(first) else { return false };
    for piece in middle.split('*').filter(|piece| !piece.is_empty()) {
        let Some(at) = text.find(piece) else { return false };
        text = &text[at + piece.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_covers_any_characters() {
        let rows = [
            ("dev", "dev", true),
            ("dev", "Dev", false),
            ("dev", "devs", false),
            ("*", "", true),
            ("*", "any/thing\n", true),
            ("", "", true),
            ("", "a", false),
            ("acme/*", "acme/shop", true),
            ("acme/*", "acme/", true),
            ("acme/*", "acme2/shop", false),
            ("acme/*", "evil/acme/shop", false),
            ("*/shop", "acme/shop", true),
            ("*/shop", "acme/shop2", false),
            ("refs/*/main", "refs/heads/main", true),
            ("refs/*/main", "refs/main", false),
            ("a*a", "a", false),
            ("ab*ba", "aba", false),
            ("ab*ba", "abba", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**a**", "xay", true),
            ("ä*ß", "äüß", true),
            ("*é", "e\u{301}", false),
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(covers(pattern, text), expected, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn many_stars_take_linear_time() {
        let (pattern, text) = ("a*".repeat(128) + "b", "a".repeat(16 * 1024));
        assert!(!covers(&pattern, &text));
    }
}
