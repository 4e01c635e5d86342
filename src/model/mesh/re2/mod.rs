//! Expressions of rules in the syntax that RE2 reads alike.
//!
//! Ours are found anywhere in a text; RE2 has to match the whole. An expression is printed anew from its syntax tree,
//! so that set operations, flags and names of groups are gone. A printed expression agrees with the original on every
//! text of ASCII, which is all that paths, names of methods and the metadata of gRPC consist of, and matches no other
//! text that the original does not match: a class that has some characters beyond ASCII and not all (`\w`, `\pL`,
//! `[é-ü]`) is cut down to ASCII, and an expression with `\b`, which RE2 reads by ASCII, matches no other text at all.
//!
//! Envoy reads bytes where gRPC reads characters: it refuses `\x{100}`, and takes `\x{E9}` for a byte. So characters
//! beyond ASCII are printed as they are, and a class with all of them as a negated one; of those, `.{3}` counts bytes.

use std::fmt::Write;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};
use regex_syntax::utf8::Utf8Sequences;

use crate::model::limits;

/// Steps of a program that Envoy takes unless it is told otherwise.
pub const PROGRAM_STEPS_MAX: usize = 100;
/// Steps of a program that every client takes which has no limit of its own, by the memory that RE2 allows itself.
pub const LARGE_PROGRAM_STEPS_MAX: usize = 20_000;
/// Repetitions that RE2 takes, those of groups within groups multiplied.
const REPETITIONS_MAX: u64 = 1000;
/// Steps of a program around what is written, and some for what is printed apart and was parsed together.
const BASE_STEPS: usize = 8;
/// Steps that match any character beyond ASCII.
const ANY_WIDE_STEPS: usize = 6;
const FIRST_WIDE: char = '\u{80}';
const LAST_ASCII: char = '\u{7f}';
const ANYTHING: &str = "(?s:.*)";
const NOTHING: &str = r"[^\s\S]";

/// Syntax that RE2 lacks or reads otherwise, in words.
pub type Unfit = &'static str;

/// An expression by its syntax tree.
#[derive(Debug)]
pub struct Pattern(Hir);

impl Pattern {
    pub fn parse(expression: &str) -> Result<Pattern, Unfit> {
        if expression.len() > limits::REGEX_BYTES_MAX {
            return Err("more characters than an expression may have");
        }
        let parsed = ParserBuilder::new().utf8(true).build().parse(expression);
        let hir = parsed.map_err(|_| "syntax that is none")?;
        check(&hir)?;
        Ok(Pattern(hir))
    }

    /// True if it is found in every text.
    pub fn is_always_found(&self) -> bool {
        let properties = self.0.properties();
        properties.minimum_len() == Some(0) && properties.look_set().is_empty()
    }

    /// Expression that matches the whole of each text in which this one is found.
    pub fn whole(&self) -> String {
        let alphabet = self.alphabet();
        let fill = match alphabet {
            Alphabet::All => ANYTHING.to_owned(),
            Alphabet::Ascii => r"[\x{0}-\x{7F}]*".to_owned(),
        };
        framed(&branches(&self.0), &fill, alphabet)
    }

    /// The same for a text that stands within a longer one and has none of the `excluded` characters.
    pub fn part(&self, excluded: &[char]) -> Result<String, Unfit> {
        let alphabet = self.alphabet();
        let allowed = without(&ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]), excluded);
        let mut fill = String::new();
        print_class(&Class::Unicode(allowed), alphabet, &mut fill);
        fill.push('*');
        let mut branches = branches(&self.0);
        for branch in &mut branches {
            if branch.core.iter().any(|hir| hir.properties().look_set().contains_anchor()) {
                return Err("an anchor in its middle");
            }
            branch.core = branch.core.iter().map(|hir| excluding(hir, excluded)).collect();
        }
        Ok(framed(&branches, &fill, alphabet))
    }

    /// True if one of the characters that it names is met by `is_special`.
    pub fn names_any(&self, is_special: &dyn Fn(char) -> bool) -> bool {
        names_any(&self.0, is_special)
    }

    fn alphabet(&self) -> Alphabet {
        if self.0.properties().look_set().contains_word() { Alphabet::Ascii } else { Alphabet::All }
    }
}

/// The text as an expression that matches nothing else.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|character| print_character(character, &mut out));
    out
}

/// Steps of the program that RE2 makes of a printed expression, at most.
pub fn steps(printed: &str) -> usize {
    let parsed = ParserBuilder::new().utf8(true).nest_limit(1000).build().parse(printed);
    parsed.map_or(usize::MAX, |hir| steps_of(&hir).saturating_add(BASE_STEPS))
}

/// Characters that an expression is printed for.
#[derive(Clone, Copy, PartialEq)]
enum Alphabet {
    All,
    Ascii,
}

/// One of the expressions of which one has to be found.
struct Branch {
    is_at_start: bool,
    is_at_end: bool,
    core: Vec<Hir>,
}

fn check(hir: &Hir) -> Result<(), Unfit> {
    let looks = hir.properties().look_set();
    let crlf = [Look::StartCRLF, Look::EndCRLF];
    if crlf.into_iter().any(|look| looks.contains(look)) {
        return Err("the flag R");
    }
    let known = |look| {
        matches!(
            look,
            Look::Start
                | Look::End
                | Look::StartLF
                | Look::EndLF
                | Look::WordAscii
                | Look::WordAsciiNegate
                | Look::WordUnicode
                | Look::WordUnicodeNegate
        )
    };
    if !looks.iter().all(known) {
        return Err("boundaries that are only start or end of a word");
    }
    if repetitions(hir) > REPETITIONS_MAX {
        return Err("more than 1,000 repetitions");
    }
    Ok(())
}

fn repetitions(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let own = repetition.max.unwrap_or(repetition.min).max(1);
            u64::from(own).saturating_mul(repetitions(&repetition.sub))
        }
        HirKind::Capture(capture) => repetitions(&capture.sub),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => subs.iter().map(repetitions).max().unwrap_or(1),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => 1,
    }
}

fn branches(hir: &Hir) -> Vec<Branch> {
    match hir.kind() {
        HirKind::Alternation(subs) => subs.iter().flat_map(branches).collect(),
        HirKind::Capture(capture) => branches(&capture.sub),
        HirKind::Concat(subs) => sequence(subs),
        HirKind::Look(_) => sequence(std::slice::from_ref(hir)),
        _ => vec![Branch { is_at_start: false, is_at_end: false, core: vec![hir.clone()] }],
    }
}

fn sequence(items: &[Hir]) -> Vec<Branch> {
    let is = |hir: &Hir, wanted: Look| matches!(hir.kind(), HirKind::Look(look) if *look == wanted);
    let starts = items.iter().take_while(|hir| is(hir, Look::Start)).count();
    let rest = &items[starts..];
    let ends = rest.iter().rev().take_while(|hir| is(hir, Look::End)).count();
    let core = &rest[..rest.len() - ends];
    let (is_at_start, is_at_end) = (starts > 0, ends > 0);
    match core {
        [single] if !matches!(single.kind(), HirKind::Look(_)) => {
            let merge = |branch: Branch| Branch {
                is_at_start: branch.is_at_start || is_at_start,
                is_at_end: branch.is_at_end || is_at_end,
                ..branch
            };
            branches(single).into_iter().map(merge).collect()
        }
        _ => vec![Branch { is_at_start, is_at_end, core: core.to_vec() }],
    }
}

/// The branches with `fill` on the sides on which they are open, those alike together.
fn framed(branches: &[Branch], fill: &str, alphabet: Alphabet) -> String {
    let of_end = |is_at_start: bool, is_at_end: bool| {
        let alike = branches.iter().filter(|branch| (branch.is_at_start, branch.is_at_end) == (is_at_start, is_at_end));
        let cores: Vec<String> = alike.map(|branch| printed(&branch.core, alphabet)).collect();
        let after = if is_at_end { "" } else { fill };
        (!cores.is_empty()).then(|| format!("(?:{}){after}", cores.join("|")))
    };
    let of_start = |is_at_start: bool| {
        let ends: Vec<String> =
            [true, false].into_iter().filter_map(|is_at_end| of_end(is_at_start, is_at_end)).collect();
        match ends.as_slice() {
            _ if is_at_start => ends,
            [] => Vec::new(),
            [single] => vec![format!("{fill}{single}")],
            both => vec![format!("{fill}(?:{})", both.join("|"))],
        }
    };
    let mut ways = [true, false].into_iter().flat_map(of_start).collect::<Vec<_>>();
    match ways.len() {
        0 => NOTHING.to_owned(),
        1 => ways.remove(0),
        // Not every client puts a group around an expression.
        _ => format!("(?:{})", ways.join("|")),
    }
}

fn printed(items: &[Hir], alphabet: Alphabet) -> String {
    let mut out = String::new();
    items.iter().for_each(|item| print_item(item, alphabet, &mut out));
    out
}

/// One item of a sequence.
fn print_item(hir: &Hir, alphabet: Alphabet, out: &mut String) {
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => {
            for character in String::from_utf8_lossy(&literal.0).chars() {
                match alphabet {
                    Alphabet::Ascii if !character.is_ascii() => out.push_str(NOTHING),
                    _ => print_character(character, out),
                }
            }
        }
        HirKind::Class(class) => print_class(class, alphabet, out),
        HirKind::Look(look) => out.push_str(look_in_re2(*look)),
        HirKind::Repetition(repetition) => print_repetition(repetition, alphabet, out),
        HirKind::Capture(capture) => print_item(&capture.sub, alphabet, out),
        HirKind::Concat(subs) => subs.iter().for_each(|sub| print_item(sub, alphabet, out)),
        HirKind::Alternation(subs) => {
            let subs: Vec<String> = subs.iter().map(|sub| printed(std::slice::from_ref(sub), alphabet)).collect();
            let _ = write!(out, "(?:{})", subs.join("|"));
        }
    }
}

fn print_repetition(repetition: &Repetition, alphabet: Alphabet, out: &mut String) {
    let sub = printed(std::slice::from_ref(&repetition.sub), alphabet);
    let is_atom = match repetition.sub.kind() {
        HirKind::Class(_) => true,
        HirKind::Literal(_) => sub.len() == 1,
        _ => false,
    };
    let _ = if is_atom { write!(out, "{sub}") } else { write!(out, "(?:{sub})") };
    let _ = match (repetition.min, repetition.max) {
        (0, None) => write!(out, "*"),
        (1, None) => write!(out, "+"),
        (0, Some(1)) => write!(out, "?"),
        (min, None) => write!(out, "{{{min},}}"),
        (min, Some(max)) if min == max => write!(out, "{{{min}}}"),
        (min, Some(max)) => write!(out, "{{{min},{max}}}"),
    };
}

fn look_in_re2(look: Look) -> &'static str {
    match look {
        Look::Start => "^",
        Look::End => "$",
        Look::StartLF => "(?m:^)",
        Look::EndLF => "(?m:$)",
        Look::WordAscii | Look::WordUnicode => r"\b",
        Look::WordAsciiNegate | Look::WordUnicodeNegate => r"\B",
        // Refused where the expression was parsed.
        _ => NOTHING,
    }
}

fn print_character(character: char, out: &mut String) {
    let _ = match character {
        _ if character.is_ascii_alphanumeric() => write!(out, "{character}"),
        ' ' | '!'..='~' if !is_special(character) => write!(out, "{character}"),
        ' '..='~' => write!(out, "\\{character}"),
        _ if character >= FIRST_WIDE => write!(out, "{character}"),
        _ => write!(out, "\\x{{{:X}}}", u32::from(character)),
    };
}

fn is_special(character: char) -> bool {
    regex_syntax::is_meta_character(character)
}

fn print_class(class: &Class, alphabet: Alphabet, out: &mut String) {
    let all = ranges_of(class);
    let is_open = all.last().is_some_and(|(start, end)| *start <= FIRST_WIDE && *end == char::MAX);
    let of_ascii = all.into_iter().filter(|(start, _)| start.is_ascii());
    let of_ascii: Vec<_> = of_ascii.map(|(start, end)| (start, end.min(LAST_ASCII))).collect();
    if is_open && alphabet == Alphabet::All {
        return print_open_class(&gaps(&of_ascii), out);
    }
    if of_ascii.is_empty() { out.push_str(NOTHING) } else { print_ranges("[", &of_ascii, out) }
}

/// A class with all characters beyond ASCII, by those that it lacks.
fn print_open_class(lacking: &[(char, char)], out: &mut String) {
    match lacking {
        [] => out.push_str("(?s:.)"),
        [('\n', '\n')] => out.push('.'),
        _ => print_ranges("[^", lacking, out),
    }
}

fn print_ranges(opening: &str, ranges: &[(char, char)], out: &mut String) {
    out.push_str(opening);
    for (start, end) in ranges {
        print_bound(*start, out);
        if start != end {
            out.push('-');
            print_bound(*end, out);
        }
    }
    out.push(']');
}

fn print_bound(character: char, out: &mut String) {
    let _ = if character.is_ascii_alphanumeric() {
        write!(out, "{character}")
    } else {
        write!(out, "\\x{{{:X}}}", u32::from(character))
    };
}

fn ranges_of(class: &Class) -> Vec<(char, char)> {
    match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
    }
}

/// Ranges of ASCII between the given ones.
fn gaps(ranges: &[(char, char)]) -> Vec<(char, char)> {
    let mut all = ClassUnicode::new([ClassUnicodeRange::new('\0', LAST_ASCII)]);
    all.difference(&ClassUnicode::new(ranges.iter().map(|(start, end)| ClassUnicodeRange::new(*start, *end))));
    all.iter().map(|range| (range.start(), range.end())).collect()
}

fn without(class: &ClassUnicode, excluded: &[char]) -> ClassUnicode {
    let mut rest = class.clone();
    rest.difference(&ClassUnicode::new(
        excluded.iter().map(|character| ClassUnicodeRange::new(*character, *character)),
    ));
    rest
}

/// The same for texts that have none of the characters.
fn excluding(hir: &Hir, excluded: &[char]) -> Hir {
    match hir.kind() {
        HirKind::Literal(literal) => {
            let is_impossible = String::from_utf8_lossy(&literal.0).contains(excluded);
            if is_impossible { Hir::fail() } else { hir.clone() }
        }
        HirKind::Class(Class::Unicode(class)) => Hir::class(Class::Unicode(without(class, excluded))),
        HirKind::Class(Class::Bytes(class)) => {
            let ranges = class.iter().map(|range| ClassUnicodeRange::new(range.start().into(), range.end().into()));
            Hir::class(Class::Unicode(without(&ClassUnicode::new(ranges), excluded)))
        }
        HirKind::Repetition(repetition) => {
            Hir::repetition(Repetition { sub: Box::new(excluding(&repetition.sub, excluded)), ..repetition.clone() })
        }
        HirKind::Capture(capture) => excluding(&capture.sub, excluded),
        HirKind::Concat(subs) => Hir::concat(subs.iter().map(|sub| excluding(sub, excluded)).collect()),
        HirKind::Alternation(subs) => Hir::alternation(subs.iter().map(|sub| excluding(sub, excluded)).collect()),
        HirKind::Empty | HirKind::Look(_) => hir.clone(),
    }
}

fn names_any(hir: &Hir, is_special: &dyn Fn(char) -> bool) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => String::from_utf8_lossy(&literal.0).chars().any(is_special),
        HirKind::Repetition(repetition) => names_any(&repetition.sub, is_special),
        HirKind::Capture(capture) => names_any(&capture.sub, is_special),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => subs.iter().any(|sub| names_any(sub, is_special)),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

fn steps_of(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(class) => steps_of_class(class),
        HirKind::Look(_) => 1,
        HirKind::Capture(capture) => steps_of(&capture.sub).saturating_add(2),
        HirKind::Concat(subs) => subs.iter().map(steps_of).fold(0, usize::saturating_add),
        HirKind::Alternation(subs) => {
            subs.iter().map(|sub| steps_of(sub).saturating_add(1)).fold(0, usize::saturating_add)
        }
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            let optional = repetition.max.map_or(2, |max| max.saturating_sub(repetition.min).saturating_mul(2));
            let times = usize::try_from(times).unwrap_or(usize::MAX);
            let optional = usize::try_from(optional).unwrap_or(usize::MAX);
            steps_of(&repetition.sub).saturating_mul(times).saturating_add(optional)
        }
    }
}

fn steps_of_class(class: &Class) -> usize {
    let Class::Unicode(class) = class else { return class_ranges(class) };
    let steps = class.iter().map(|range| match (range.start(), range.end()) {
        (start, char::MAX) if start <= FIRST_WIDE => ANY_WIDE_STEPS + usize::from(start.is_ascii()),
        (start, end) => Utf8Sequences::new(start, end).map(|sequence| sequence.len()).sum(),
    });
    steps.sum::<usize>().max(1)
}

fn class_ranges(class: &Class) -> usize {
    match class {
        Class::Unicode(class) => class.ranges().len(),
        Class::Bytes(class) => class.ranges().len(),
    }
}

#[cfg(test)]
mod tests;
