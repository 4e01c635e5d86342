//! Tags of XML with their attributes, names, references and characters.

use std::collections::HashSet;

const ENTITIES: [&str; 5] = ["lt", "gt", "amp", "apos", "quot"];

/// Byte of a fault, and its description.
type At = (usize, String);

/// Checks a tag from its `<` up to, but without, its closing `>` or `/>`.
pub(super) fn check_tag(tag: &str, has_doctype: bool) -> Result<(), At> {
    let mut at = 1 + end_of_name(&tag[1..]);
    let rest = &tag[at..];
    if at == 1 || !(rest.is_empty() || rest.starts_with(is_blank)) {
        return Err((0, "a tag has no valid name of an element".to_owned()));
    }
    let mut seen = HashSet::new();
    loop {
        let before = at;
        at += blanks(&tag[at..]);
        let rest = &tag[at..];
        if rest.is_empty() {
            return Ok(());
        }
        let length = end_of_name(rest);
        if length == 0 {
            return Err((0, "an attribute has no valid name".to_owned()));
        }
        let name = &rest[..length];
        if at == before {
            return Err((0, format!("there is no blank before the attribute {name}")));
        }
        at += length;
        at += blanks(&tag[at..]);
        if !tag[at..].starts_with('=') {
            return Err((0, format!("the attribute {name} has no = after its name")));
        }
        at += 1;
        at += blanks(&tag[at..]);
        let Some(quote) = tag[at..].chars().next() else {
            return Err((0, "an attribute has no value".to_owned()));
        };
        if !matches!(quote, '"' | '\'') {
            return Err((0, "the value of an attribute is not quoted".to_owned()));
        }
        at += 1;
        let Some(length) = tag[at..].find(quote) else {
            return Err((0, "the value of an attribute lacks its closing quote".to_owned()));
        };
        if !seen.insert(name) {
            return Err((0, format!("the attribute {name} occurs twice")));
        }
        check_value(&tag[at..at + length], has_doctype).map_err(|(byte, why)| (at + byte, why))?;
        at += length + 1;
    }
}

fn check_value(value: &str, has_doctype: bool) -> Result<(), At> {
    if let Some(at) = value.find('<') {
        return Err((at, "a < in the value of an attribute has to be written &lt;".to_owned()));
    }
    for (at, _) in value.match_indices('&') {
        let rest = &value[at + 1..];
        let length = rest.strip_prefix('#').map_or_else(|| end_of_name(rest), |digits| 1 + end_of_name_char(digits));
        if length == 0 || !rest[length..].starts_with(';') {
            return Err((at, "a plain & in the value of an attribute has to be written &amp;".to_owned()));
        }
        check_reference(&rest[..length], has_doctype).map_err(|why| (at, why))?;
    }
    Ok(())
}

/// Checks the text between `&` and `;`.
pub(super) fn check_reference(name: &str, has_doctype: bool) -> Result<(), String> {
    let Some(number) = name.strip_prefix('#') else {
        let is_known = ENTITIES.contains(&name) || (has_doctype && !name.is_empty() && end_of_name(name) == name.len());
        let why = || format!("the entity &{name}; is not declared; a plain & has to be written &amp;");
        return if is_known { Ok(()) } else { Err(why()) };
    };
    let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |digits| (digits, 16));
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    let code = u32::from_str_radix(digits, radix).ok().filter(|_| is_number);
    let is_character = code.and_then(char::from_u32).is_some_and(is_character);
    if is_character { Ok(()) } else { Err(format!("the reference &{name}; is not a character of XML")) }
}

/// Reports whether XML allows this character.
pub(super) fn is_character(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => true,
        '\0'..'\u{20}' | '\u{fffe}' | '\u{ffff}' => false,
        _ => true,
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start_matches(is_blank).len()
}

/// Returns the length in bytes of the name at the start of a text; 0 if there is none.
fn end_of_name(text: &str) -> usize {
    if text.starts_with(begins_name) { end_of_name_char(text) } else { 0 }
}

fn end_of_name_char(text: &str) -> usize {
    text.find(|character| !is_of_name(character)).unwrap_or(text.len())
}

fn begins_name(character: char) -> bool {
    matches!(character,
        ':' | '_' | 'A'..='Z' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
        | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}'
        | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}'
        | '\u{10000}'..='\u{effff}')
}

fn is_of_name(character: char) -> bool {
    begins_name(character)
        || matches!(character,
            '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
}
