//! The variable `namespace`, a reserved word of CEL. Expressions are parsed with another name of the same length, so
//! that the positions in errors are right.

/// Name of the variable during parsing. An expression that uses it directly means the same variable.
pub(super) const NAMESPACE: &str = "namespac_";
const RESERVED: &str = "namespace";

/// Returns the expression with the variable renamed. Members, strings and comments are unchanged.
pub(super) fn renamed(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len());
    let (mut at, mut before) = (0, b' ');
    while let Some(byte) = bytes.get(at).copied() {
        let until = |is_end: fn(u8) -> bool| bytes[at..].iter().position(|byte| is_end(*byte)).map(|end| at + end);
        let end = match byte {
            b'\'' | b'"' => end_of_text(bytes, at, matches!(before, b'r' | b'R')),
            b'/' if bytes.get(at + 1) == Some(&b'/') => until(|byte| byte == b'\n'),
            byte if is_of_name(byte) => until(|byte| !is_of_name(byte)),
            _ => Some(at + 1),
        };
        let end = source.ceil_char_boundary(end.unwrap_or(bytes.len()));
        let part = &source[at..end];
        out.push_str(if part == RESERVED && before != b'.' { NAMESPACE } else { part });
        if !byte.is_ascii_whitespace() {
            before = part.bytes().last().unwrap_or(b' ');
        }
        at = end;
    }
    out
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the position after the quotation marks that end the string which begins at `at`.
fn end_of_text(bytes: &[u8], at: usize, is_raw: bool) -> Option<usize> {
    let marks = if bytes[at..].starts_with(&[bytes[at]; 3]) { 3 } else { 1 };
    let quotes = vec![bytes[at]; marks];
    let mut here = at + marks;
    while here < bytes.len() {
        if bytes[here] == b'\\' && !is_raw {
            here += 2;
        } else if bytes[here..].starts_with(&quotes) {
            return Some(here + marks);
        } else {
            here += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_alone_is_renamed() {
        for (source, expected) in [
            ("namespace == 'namespace'", "namespac_ == 'namespace'"),
            ("new.namespace == namespace", "new.namespace == namespac_"),
            ("new . namespace", "new . namespace"),
            ("namespaces + my_namespace", "namespaces + my_namespace"),
            (r"'a\'namespace' + namespace", r"'a\'namespace' + namespac_"),
            (r"r'\' + namespace", r"r'\' + namespac_"),
            ("'''namespace ' ''' + namespace", "'''namespace ' ''' + namespac_"),
            ("namespace // namespace\n+namespace", "namespac_ // namespace\n+namespac_"),
            ("'ä' + namespace + 'ö", "'ä' + namespac_ + 'ö"),
            ("", ""),
        ] {
            assert_eq!(renamed(source), expected, "{source}");
        }
    }
}
