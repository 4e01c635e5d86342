//! Conditions of rules in what a client of a dialect compares.
//!
//! | part | gRPC | Envoy |
//! |---|---|---|
//! | HEADER | header, in lower case | the same |
//! | METHOD, of a service that speaks HTTP | as below | header `:method` |
//! | METHOD, of a service that speaks gRPC: a word that is an HTTP verb | POST holds, others do not | the same |
//! | METHOD, of such a service: other words, and expressions | last part of the path | the same |
//! | PATH | path; a second one on the header `:path` | the same, with a query behind it |
//! | QUERY | never holds | query parameter; what must not be there by `:path` |
//! | COOKIE | never holds | expression on the header `cookie` |
//! | CALLER_… | the server decides | the same; a gateway has no caller, but perhaps a header with its service |
//! | CUSTOM | never holds | never holds |
//!
//! Values that are not carried meet nothing, as in [`crate::model::explain`].

mod framed;
mod test;

use super::Dialect;
use super::plan::{Abilities, CallerCondition, PartMatch, TextMatch};
use super::re2;
use super::warning::{ENVOY, EVERY_CLIENT, GRPC, Warning};
use crate::model::rule::End;
use crate::model::rule::matching::MatchString;
use crate::model::rule::traffic::{Argument, ArgumentType, GRPC_VERB, HTTP_VERBS};
use framed::Frame;
use test::Test;

/// A condition of a rule, whatever its family.
#[derive(Clone, Copy, Debug)]
pub struct AskedCondition<'a> {
    pub kind: ArgumentType,
    pub key: &'a str,
    pub value: Option<&'a MatchString>,
}

impl<'a, T> From<&'a Argument<T>> for AskedCondition<'a>
where
    T: Default + Copy + Into<ArgumentType>,
{
    fn from(argument: &'a Argument<T>) -> Self {
        AskedCondition { kind: argument.kind.into(), key: &argument.key, value: argument.value.as_ref() }
    }
}

/// A condition as a client or the server judges it.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition<'a> {
    /// On the path without a query; a route has one at most.
    Path(TextMatch),
    Header(PartMatch),
    Query(PartMatch),
    Caller(CallerCondition<'a>),
}

/// Ways in which a condition of a rule holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ways<'a> {
    /// One of them is enough, and all conditions of it have to hold: without any it never holds, with an empty one
    /// always.
    pub any_of: Vec<Vec<Condition<'a>>>,
    pub warnings: Vec<Warning>,
}

impl<'a> Ways<'a> {
    fn always() -> Self {
        Ways { any_of: vec![Vec::new()], warnings: Vec::new() }
    }

    fn never() -> Self {
        Ways::default()
    }

    fn of(any_of: Vec<Vec<Condition<'a>>>) -> Self {
        Ways { any_of, warnings: Vec::new() }
    }

    fn never_as(warning: Warning) -> Self {
        Ways { any_of: Vec::new(), warnings: vec![warning] }
    }

    fn with(mut self, warning: Option<Warning>) -> Self {
        self.warnings.extend(warning);
        self
    }
}

/// Reason why a condition cannot be carried.
enum Obstacle {
    Syntax(re2::Unfit),
    TooLarge,
}

type Found<'a> = Result<Ways<'a>, Obstacle>;

const PATH_HEADER: &str = ":path";
const METHOD_HEADER: &str = ":method";

/// Ways of a condition at `place` of a rule; the warning if it cannot be carried. `is_path_taken` says that another
/// condition of the same route is on the path.
pub fn carried<'a>(
    asked: AskedCondition<'a>,
    place: &str,
    is_path_taken: bool,
    to: Abilities,
) -> Result<Ways<'a>, Warning> {
    if let Some(never) = unknown_part(asked, place, to.dialect) {
        return Ok(never);
    }
    if let Some(caller) = on_caller(asked) {
        return match caller {
            caller if !to.is_gateway => Ok(Ways::of(vec![vec![Condition::Caller(caller)]])),
            CallerCondition::Service { namespace, condition } if to.has_caller_header => {
                let limit = limit_of(to);
                let found = Test::of(condition).map_err(Obstacle::Syntax).and_then(|test| {
                    let writer = Writer::new(to, is_path_taken);
                    writer.framed(&Frame::caller(namespace), &test)
                });
                found.map_err(|obstacle| refused(obstacle, place, limit))
            }
            CallerCondition::Service { .. } | CallerCondition::Is { .. } => Err(no_caller(place, true)),
            CallerCondition::Ip(_) | CallerCondition::Metadata { .. } => Err(no_part_of_caller(place)),
        };
    }
    if to.dialect == Dialect::Grpc && asked.kind == ArgumentType::Header && is_hidden_from_grpc(asked.key) {
        let text = format!("{place}: gRPC clients do not compare the header {}: not carried there", asked.key);
        return Err(Warning::left_out(4, GRPC, text));
    }
    let limit = limit_of(to);
    let found = Test::of(asked.value).map_err(Obstacle::Syntax).and_then(|test| {
        let writer = Writer::new(to, is_path_taken);
        writer.ways(asked, test)
    });
    let ways = found.map_err(|obstacle| refused(obstacle, place, limit))?;
    let encoded = (asked.kind == ArgumentType::Query && compares_encoded(asked))
        .then(|| Warning::approximate(5, ENVOY, format!("{place}: {UNDECODED}")));
    Ok(ways.with(encoded).with(cut_range(asked, place)))
}

const UNDECODED: &str = "Envoy compares query parameters as they are sent, undecoded";

/// Steps that the program of an expression may have.
fn limit_of(to: Abilities) -> usize {
    if to.dialect == Dialect::Grpc || to.takes_large_expressions {
        re2::LARGE_PROGRAM_STEPS_MAX
    } else {
        re2::PROGRAM_STEPS_MAX
    }
}

/// The header of a gateway that names an end as the caller.
pub fn named_caller<'a>(end: &End, place: &str, to: Abilities) -> Result<Condition<'a>, Warning> {
    let condition = MatchString { value: end.service.clone(), ..MatchString::default() };
    let asked = AskedCondition { kind: ArgumentType::CallerService, key: &end.namespace, value: Some(&condition) };
    let way = carried(asked, place, false, to)?.any_of.into_iter().flatten().next();
    let header = way.and_then(|condition| match condition {
        Condition::Header(header) => Some(Condition::Header(header)),
        Condition::Path(_) | Condition::Query(_) | Condition::Caller(_) => None,
    });
    header.ok_or_else(|| no_caller(place, true))
}

/// The warning on a condition on the calling service; a gateway without a header for it leaves the sub-rule out.
pub fn no_caller(place: &str, is_left_out: bool) -> Warning {
    let text = format!(
        "{place}: a gateway knows no caller: not carried there unless caller_service_header in its metadata names a \
         header for it"
    );
    Warning { number: 6, dialects: ENVOY, is_left_out, text }
}

fn no_part_of_caller(place: &str) -> Warning {
    Warning::left_out(6, ENVOY, format!("{place}: a gateway knows no caller: not carried there"))
}

/// A condition that never holds, as requests of the dialect have no such part.
fn unknown_part<'a>(asked: AskedCondition<'_>, place: &str, dialect: Dialect) -> Option<Ways<'a>> {
    let never = |dialects, who: &str, part: &str| {
        let text = format!("{place}: {who} no {part}: this never holds there");
        Some(Ways::never_as(Warning::left_out(4, dialects, text)))
    };
    match (asked.kind, dialect) {
        (ArgumentType::Query, Dialect::Grpc) => never(GRPC, "gRPC has", "query parameters"),
        (ArgumentType::Cookie, Dialect::Grpc) => never(GRPC, "gRPC has", "cookies"),
        (ArgumentType::Custom, _) => never(EVERY_CLIENT, "gRPC and Envoy have", "custom labels"),
        (ArgumentType::Header | ArgumentType::Query | ArgumentType::Cookie, _) if !is_carried_name(asked.key) => {
            never(EVERY_CLIENT, "requests carry", "part of this name")
        }
        _ => None,
    }
}

fn is_carried_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Pseudo headers, and headers that gRPC clients keep from what is compared.
fn is_hidden_from_grpc(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    (name.starts_with(':') && name != PATH_HEADER) || name == "user-agent" || name.ends_with("-bin")
}

fn on_caller(asked: AskedCondition<'_>) -> Option<CallerCondition<'_>> {
    match asked.kind {
        ArgumentType::CallerIp => Some(CallerCondition::Ip(asked.value)),
        ArgumentType::CallerService => Some(CallerCondition::Service { namespace: asked.key, condition: asked.value }),
        ArgumentType::CallerMetadata => Some(CallerCondition::Metadata { key: asked.key, condition: asked.value }),
        _ => None,
    }
}

fn refused(obstacle: Obstacle, place: &str, limit: usize) -> Warning {
    match obstacle {
        Obstacle::Syntax(syntax) => {
            let text = format!("{place}: expression uses {syntax} that RE2 lacks or reads otherwise: not carried");
            Warning::left_out(25, EVERY_CLIENT, text)
        }
        Obstacle::TooLarge if limit == re2::PROGRAM_STEPS_MAX => {
            let what = "expression (or list of values) too large for Envoy without re2.max_program_size";
            Warning::left_out(7, ENVOY, format!("{place}: {what}: not carried there"))
        }
        Obstacle::TooLarge => {
            let text = format!("{place}: expression is larger than the memory of RE2: not carried");
            Warning::left_out(25, EVERY_CLIENT, text)
        }
    }
}

/// True if name or value have characters that are sent encoded.
fn compares_encoded(asked: AskedCondition<'_>) -> bool {
    let is_encoded = |character: char| !character.is_ascii_alphanumeric() && !"-._~".contains(character);
    let in_value = match Test::of(asked.value) {
        Ok(Test::AnyOf(words) | Test::NoneOf(words)) => words.iter().any(|word| word.contains(is_encoded)),
        Ok(Test::Found(pattern)) => pattern.names_any(&is_encoded),
        _ => false,
    };
    asked.key.contains(is_encoded) || in_value
}

/// Clients compare numbers up to 2^63-2 alone.
fn cut_range(asked: AskedCondition<'_>, place: &str) -> Option<Warning> {
    let by_number = matches!(asked.kind, ArgumentType::Header);
    match Test::of(asked.value) {
        Ok(Test::Within(_, high)) if by_number && high >= i64::MAX.unsigned_abs() => {
            let text = format!("{place}: numbers from 9223372036854775807 on are not carried by xDS");
            Some(Warning::approximate(15, EVERY_CLIENT, text))
        }
        _ => None,
    }
}

/// Words that are no verbs of HTTP.
fn names_of_methods(words: Vec<&str>) -> Vec<&str> {
    words.into_iter().filter(|word| !HTTP_VERBS.contains(word)).collect()
}

struct Writer {
    dialect: Dialect,
    /// Requests are calls of gRPC.
    is_grpc_called: bool,
    /// Steps that the program of an expression may have.
    limit: usize,
    is_path_taken: bool,
}

impl Writer {
    fn new(to: Abilities, is_path_taken: bool) -> Self {
        let is_grpc_called = to.dialect == Dialect::Grpc || to.is_callee_grpc;
        Writer { dialect: to.dialect, is_grpc_called, limit: limit_of(to), is_path_taken }
    }

    fn ways<'a>(&self, asked: AskedCondition<'a>, test: Test<'a>) -> Found<'a> {
        match asked.kind {
            ArgumentType::Header => self.on_header(&asked.key.to_ascii_lowercase(), &test),
            ArgumentType::Path => self.on_path(&test),
            ArgumentType::Method => self.on_method(test),
            ArgumentType::Query => self.on_query(asked.key, &test),
            ArgumentType::Cookie => self.framed(&Frame::cookie(asked.key), &test),
            // Judged before: they are no part of what a client compares.
            ArgumentType::Custom
            | ArgumentType::CallerIp
            | ArgumentType::CallerMetadata
            | ArgumentType::CallerService => Ok(Ways::never()),
        }
    }

    fn on_header<'a>(&self, name: &str, test: &Test<'_>) -> Found<'a> {
        let header = |value| Condition::Header(PartMatch { name: name.to_owned(), value });
        Ok(Ways::of(match test {
            Test::Always => vec![vec![header(TextMatch::Present)]],
            Test::Never => Vec::new(),
            Test::NoneOf(words) => {
                vec![words.iter().map(|word| header(TextMatch::Not((*word).to_owned()))).collect()]
            }
            Test::Within(low, high) => number_range(*low, *high).into_iter().map(|range| vec![header(range)]).collect(),
            Test::AnyOf(_) | Test::Found(_) => self.texts(test)?.into_iter().map(|text| vec![header(text)]).collect(),
        }))
    }

    fn on_path<'a>(&self, test: &Test<'_>) -> Found<'a> {
        match test {
            Test::Always => Ok(Ways::always()),
            // A path begins with a slash.
            Test::Never | Test::Within(..) => Ok(Ways::never()),
            Test::NoneOf(_) => self.on_path_header(test),
            Test::AnyOf(_) | Test::Found(_) if self.is_path_taken => self.on_path_header(test),
            Test::AnyOf(_) | Test::Found(_) => {
                let paths = self.texts(test)?.into_iter();
                Ok(Ways::of(paths.map(|path| vec![Condition::Path(path)]).collect()))
            }
        }
    }

    fn on_path_header<'a>(&self, test: &Test<'_>) -> Found<'a> {
        match self.dialect {
            Dialect::Grpc => self.on_header(PATH_HEADER, test),
            Dialect::Envoy => self.framed(&Frame::path(), test),
        }
    }

    /// A call of gRPC has its method at the end of the path, and is a POST.
    fn on_method<'a>(&self, test: Test<'_>) -> Found<'a> {
        if !self.is_grpc_called {
            return self.on_verb(&test);
        }
        match test {
            Test::AnyOf(words) if words.contains(&GRPC_VERB) => Ok(Ways::always()),
            Test::NoneOf(words) if words.contains(&GRPC_VERB) => Ok(Ways::never()),
            Test::AnyOf(words) => self.on_method_name(&Test::AnyOf(names_of_methods(words))),
            Test::NoneOf(words) => self.on_method_name(&Test::NoneOf(names_of_methods(words))),
            Test::Always | Test::Never | Test::Found(_) | Test::Within(..) => self.on_method_name(&test),
        }
    }

    fn on_method_name<'a>(&self, test: &Test<'_>) -> Found<'a> {
        self.framed(&Frame::method(self.dialect), test)
    }

    fn on_verb<'a>(&self, test: &Test<'_>) -> Found<'a> {
        match test {
            Test::Always => Ok(Ways::always()),
            test => self.on_header(METHOD_HEADER, test),
        }
    }

    fn on_query<'a>(&self, name: &str, test: &Test<'_>) -> Found<'a> {
        let query = |value| Condition::Query(PartMatch { name: name.to_owned(), value });
        Ok(Ways::of(match test {
            Test::Always => vec![vec![query(TextMatch::Present)]],
            Test::Never => Vec::new(),
            Test::NoneOf(_) => {
                let mut ways = self.framed(&Frame::query(name), test)?.any_of;
                ways.iter_mut().for_each(|way| way.insert(0, query(TextMatch::Present)));
                ways
            }
            Test::Within(low, high) => {
                let number = format!("0*(?:{})", test::digits(*low, *high));
                vec![vec![query(TextMatch::Expression(self.fitting(number)?))]]
            }
            Test::AnyOf(_) | Test::Found(_) => self.texts(test)?.into_iter().map(|text| vec![query(text)]).collect(),
        }))
    }

    /// Matches of which one has to hold.
    fn texts(&self, test: &Test<'_>) -> Result<Vec<TextMatch>, Obstacle> {
        match test {
            Test::AnyOf(words) => match words.as_slice() {
                [word] => Ok(vec![TextMatch::Exact((*word).to_owned())]),
                words => {
                    let text = |chunk: Vec<&str>| match chunk.as_slice() {
                        [word] => TextMatch::Exact((*word).to_owned()),
                        words => TextMatch::Expression(framed::any_of(words)),
                    };
                    Ok(framed::chunks(words, re2::steps(""), self.limit).into_iter().map(text).collect())
                }
            },
            Test::Found(pattern) => Ok(vec![TextMatch::Expression(self.fitting(pattern.whole())?)]),
            _ => Ok(Vec::new()),
        }
    }

    fn fitting(&self, expression: String) -> Result<String, Obstacle> {
        if re2::steps(&expression) <= self.limit { Ok(expression) } else { Err(Obstacle::TooLarge) }
    }
}

/// Half open, up to the highest number that clients compare with.
fn number_range(low: u64, high: u64) -> Option<TextMatch> {
    let low = i64::try_from(low).ok().filter(|low| *low < i64::MAX)?;
    let end = i64::try_from(high).map_or(i64::MAX, |high| high.saturating_add(1));
    Some(TextMatch::Range(low, end))
}

#[cfg(test)]
mod tests;
