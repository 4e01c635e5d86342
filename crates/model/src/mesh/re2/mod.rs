//! Expressions of rules in a syntax that RE2 reads alike.
//!
//! Ours are searched for anywhere in a text; RE2 matches the whole text. An expression is printed from its syntax tree,
//! which removes set operations, flags and group names. The printed expression agrees with the original on every ASCII
//! text, which covers paths, names of methods and gRPC metadata, and matches no other text that the original does not:
//! a class with some but not all characters beyond ASCII (`\w`, `\pL`, `[é-ü]`) is reduced to ASCII, and an expression
//! with `\b`, which RE2 defines by ASCII, matches only ASCII texts.
//!
//! Envoy reads bytes and gRPC reads characters: Envoy refuses `\x{100}`, and reads `\x{E9}` as a byte. Characters
//! beyond ASCII are therefore printed literally, and a class with all of them as a negated class, for which `.{3}`
//! counts bytes.

use std::fmt::Write;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};
use regex_syntax::utf8::Utf8Sequences;

use crate::model::limits;

/// Program steps that Envoy accepts by default.
pub const PROGRAM_STEPS_MAX: usize = 100;
/// Program steps that clients without a limit of their own accept, by the memory limit of RE2.
pub const LARGE_PROGRAM_STEPS_MAX: usize = 20_000;
/// Repetitions that RE2 accepts, multiplied over nested groups.
const REPETITIONS_MAX: u64 = 1000;
/// Steps added to every program, with a margin for parts that are printed separately but were parsed as one.
const BASE_STEPS: usize = 8;
/// Steps that match any character beyond ASCII.
const ANY_WIDE_STEPS: usize = 6;
const FIRST_WIDE: char = '\u{80}';
const LAST_ASCII: char = '\u{7f}';
const ANYTHING: &str = "(?s:.*)";
const NOTHING: &str = r"[^\s\S]";

/// Description of syntax that RE2 lacks or reads differently.
pub type Unfit = &'static str;

/// An expression as its syntax tree.
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

    /// Reports whether it is found in every text.
    pub fn is_always_found(&self) -> bool {
        let properties = self.0.properties();
        properties.minimum_len() == Some(0) && properties.look_set().is_empty()
    }

    /// Returns an expression that matches each whole text in which this one is found.
    pub fn whole(&self) -> String {
        let alphabet = self.alphabet();
        let fill = match alphabet {
            Alphabet::All => ANYTHING.to_owned(),
            Alphabet::Ascii => r"[\x{0}-\x{7F}]*".to_owned(),
        };
        framed(&branches(&self.0), &fill, alphabet)
    }

    /// Returns such an expression for a part of a longer text that contains no `excluded` characters.
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

    /// Reports whether a character that it contains literally satisfies `is_special`.
    pub fn names_any(&self, is_special: &dyn Fn(char) -> bool) -> bool {
        names_any(&self.0, is_special)
    }

    fn alphabet(&self) -> Alphabet {
        if self.0.properties().look_set().contains_word() { Alphabet::Ascii } else { Alphabet::All }
    }
}

/// Returns an expression that matches only this text.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|character| print_character(character, &mut out));
    out
}

/// Estimates the program steps in RE2 of a printed expression from above.
pub fn steps(printed: &str) -> usize {
    let parsed = ParserBuilder::new().utf8(true).nest_limit(1000).build().parse(printed);
    parsed.map_or(usize::MAX, |hir| steps_of(&hir).saturating_add(BASE_STEPS))
}

/// Characters that a printed expression may match.
#[derive(Clone, Copy, PartialEq)]
enum Alphabet {
    All,
    Ascii,
}

/// One of several alternatives of an expression.
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

/// Prints the branches with `fill` on their open sides; branches open on the same sides are grouped.
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
        // Not every client adds a group to an expression.
        _ => format!("(?:{})", ways.join("|")),
    }
}

fn printed(items: &[Hir], alphabet: Alphabet) -> String {
    let mut out = String::new();
    items.iter().for_each(|item| print_item(item, alphabet, &mut out));
    out
}

/// Prints one item of a sequence.
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
        // Refused when the expression was parsed.
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

/// Prints a class with all characters beyond ASCII as the negation of those that it lacks.
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

/// Returns the ASCII ranges between the given ones.
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

/// Restricts an expression to texts without the excluded characters.
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
