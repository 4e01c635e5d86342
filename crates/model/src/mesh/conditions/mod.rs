//! Conditions of rules, translated into comparisons that clients of a dialect perform.
//!
//! | part | gRPC | Envoy |
//! |---|---|---|
//! | HEADER | header, in lower case | the same |
//! | METHOD, of a service that speaks HTTP | as below | header `:method` |
//! | METHOD, of a service that speaks gRPC: a word that is an HTTP verb | POST holds, others do not | the same |
//! | METHOD, of such a service: other words, and expressions | end of the path | end of the header `:path` |
//! | PATH | path | path; negations on `:path`, followed by a query |
//! | a second condition on the path | the header `:path`, for libraries that compare it | the same |
//! | QUERY | never holds | query parameter; negations on `:path` |
//! | COOKIE | never holds | expression on the header `cookie` |
//! | CALLER_… | evaluated by the server | the same; a gateway has no caller, but possibly a header with its service |
//! | CUSTOM | never holds | never holds |
//!
//! An absent value meets no condition, as in [`crate::model::explain`].

mod complement;
mod framed;
mod obstacles;
mod predicate;

use super::Dialect;
use super::plan::{Abilities, CallerCondition, PATH_HEADER, PartMatch, RequestPart, TextMatch};
use super::re2;
use super::warning::{ENVOY, EVERY_CLIENT, GRPC, Warning};
use crate::model::rule::End;
use crate::model::rule::matching::MatchString;
use crate::model::rule::traffic::{Argument, ArgumentType, GRPC_VERB, HTTP_VERBS};
use framed::Frame;
use obstacles::{Obstacle, no_part_of_caller, refused};
pub use obstacles::{no_caller, second_on_path};
use predicate::TextPredicate;

/// A condition of a rule of any family.
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

/// A condition as a client or the server evaluates it.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition<'a> {
    /// Condition on the path without the query; a route has at most one.
    Path(TextMatch),
    Header(PartMatch),
    Query(PartMatch),
    Caller(CallerCondition<'a>),
}

/// Translation of a condition as alternatives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ways<'a> {
    /// Alternatives, each a list of conditions that must all hold. Without alternatives it never holds, with an empty
    /// one always.
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

    /// Converts conditions on the header `:path` into conditions on the path of a route, which has no query.
    fn on_route_path(mut self) -> Self {
        for condition in self.any_of.iter_mut().flatten() {
            if let Condition::Header(PartMatch { name, value }) = condition
                && name == PATH_HEADER
            {
                *condition = Condition::Path(value.clone());
            }
        }
        self
    }

    fn with(mut self, warning: Option<Warning>) -> Self {
        self.warnings.extend(warning);
        self
    }
}

type Found<'a> = Result<Ways<'a>, Obstacle>;

const METHOD_HEADER: &str = ":method";

/// Translates a condition at `place` of a rule; the warning if it cannot be carried. `is_path_taken` is true if another
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
                let found = TextPredicate::of(condition).map_err(Obstacle::Syntax).and_then(|predicate| {
                    let writer = Writer::new(to, is_path_taken);
                    writer.framed(&Frame::caller(namespace), &predicate)
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
    let found = TextPredicate::of(asked.value).map_err(Obstacle::Syntax).and_then(|predicate| {
        let writer = Writer::new(to, is_path_taken);
        writer.ways(asked, predicate)
    });
    let ways = found.map_err(|obstacle| refused(obstacle, place, limit))?;
    let encoded = (asked.kind == ArgumentType::Query && compares_encoded(asked))
        .then(|| Warning::approximate(5, ENVOY, format!("{place}: {UNDECODED}")));
    Ok(ways.with(encoded).with(cut_range(asked, place)))
}

const UNDECODED: &str = "Envoy compares query parameters as they are sent, undecoded";

/// Returns the number of steps that the program of an expression may have.
fn limit_of(to: Abilities) -> usize {
    if to.dialect == Dialect::Grpc || to.takes_large_expressions {
        re2::LARGE_PROGRAM_STEPS_MAX
    } else {
        re2::PROGRAM_STEPS_MAX
    }
}

/// Returns the condition on a gateway's header that names an end as the caller.
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

/// Returns a condition that never holds if requests of the dialect lack the part.
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

/// Reports whether gRPC clients exclude a header from comparisons: pseudo headers and some others.
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

/// Returns conditions for requests whose part is present and none of the texts; `None` if that cannot be carried.
pub fn excluded<'a>(
    part: RequestPart<'_>,
    texts: Vec<&str>,
    is_path_taken: bool,
    to: Abilities,
) -> Option<Vec<Condition<'a>>> {
    let writer = Writer::new(to, is_path_taken);
    let predicate = TextPredicate::NoneOf(texts);
    let ways = match part {
        RequestPart::Header(key) => writer.on_named_header(key, &predicate),
        RequestPart::Method => writer.on_method(predicate),
        RequestPart::Path => writer.on_path(&predicate),
        _ => return None,
    };
    ways.ok()?.any_of.into_iter().next()
}

/// Reports whether name or value contain characters that are sent encoded.
fn compares_encoded(asked: AskedCondition<'_>) -> bool {
    let is_encoded = |character: char| !character.is_ascii_alphanumeric() && !"-._~".contains(character);
    let in_value = match TextPredicate::of(asked.value) {
        Ok(TextPredicate::AnyOf(words) | TextPredicate::NoneOf(words)) => {
            words.iter().any(|word| word.contains(is_encoded))
        }
        Ok(TextPredicate::Found(pattern)) => pattern.names_any(&is_encoded),
        _ => false,
    };
    asked.key.contains(is_encoded) || in_value
}

/// Returns a warning on a range beyond 2^63-2, the highest number that clients compare.
fn cut_range(asked: AskedCondition<'_>, place: &str) -> Option<Warning> {
    let by_number = matches!(asked.kind, ArgumentType::Header);
    match TextPredicate::of(asked.value) {
        Ok(TextPredicate::Within(_, high)) if by_number && high >= i64::MAX.unsigned_abs() => {
            let text = format!("{place}: numbers from 9223372036854775807 on are not carried by xDS");
            Some(Warning::approximate(15, EVERY_CLIENT, text))
        }
        _ => None,
    }
}

/// Returns the words that are not HTTP verbs.
fn names_of_methods(words: Vec<&str>) -> Vec<&str> {
    words.into_iter().filter(|word| !HTTP_VERBS.contains(word)).collect()
}

struct Writer {
    dialect: Dialect,
    /// True if there can be only one condition on the path.
    has_one_path: bool,
    /// True if requests are gRPC calls.
    is_grpc_called: bool,
    /// Steps that the program of an expression may have.
    limit: usize,
    is_path_taken: bool,
}

impl Writer {
    fn new(to: Abilities, is_path_taken: bool) -> Self {
        let is_grpc_called = to.dialect == Dialect::Grpc || to.is_callee_grpc;
        let has_one_path = to.has_one_path();
        Writer { dialect: to.dialect, has_one_path, is_grpc_called, limit: limit_of(to), is_path_taken }
    }

    fn ways<'a>(&self, asked: AskedCondition<'a>, predicate: TextPredicate<'a>) -> Found<'a> {
        match asked.kind {
            ArgumentType::Header => self.on_named_header(asked.key, &predicate),
            ArgumentType::Path => self.on_path(&predicate),
            ArgumentType::Method => self.on_method(predicate),
            ArgumentType::Query => self.on_query(asked.key, &predicate),
            ArgumentType::Cookie => self.framed(&Frame::cookie(asked.key), &predicate),
            // Handled before: clients do not compare these.
            ArgumentType::Custom
            | ArgumentType::CallerIp
            | ArgumentType::CallerMetadata
            | ArgumentType::CallerService => Ok(Ways::never()),
        }
    }

    fn on_named_header<'a>(&self, key: &str, predicate: &TextPredicate<'_>) -> Found<'a> {
        let name = key.to_ascii_lowercase();
        // This is the path, and most libraries compare it only as such.
        let is_path = self.dialect == Dialect::Grpc && name == PATH_HEADER;
        if is_path { self.on_path(predicate) } else { self.on_header(&name, predicate) }
    }

    fn on_header<'a>(&self, name: &str, predicate: &TextPredicate<'_>) -> Found<'a> {
        let header = |value| Condition::Header(PartMatch { name: name.to_owned(), value });
        Ok(Ways::of(match predicate {
            TextPredicate::Always => vec![vec![header(TextMatch::Present)]],
            TextPredicate::Never => Vec::new(),
            TextPredicate::NoneOf(words) => {
                vec![words.iter().map(|word| header(TextMatch::Not((*word).to_owned()))).collect()]
            }
            TextPredicate::Within(low, high) => {
                number_range(*low, *high).into_iter().map(|range| vec![header(range)]).collect()
            }
            TextPredicate::AnyOf(_) | TextPredicate::Found(_) => {
                self.texts(predicate)?.into_iter().map(|text| vec![header(text)]).collect()
            }
        }))
    }

    fn on_path<'a>(&self, predicate: &TextPredicate<'_>) -> Found<'a> {
        match predicate {
            TextPredicate::Always => Ok(Ways::always()),
            // A path begins with a slash.
            TextPredicate::Never | TextPredicate::Within(..) => Ok(Ways::never()),
            _ if self.is_path_taken && self.has_one_path => Err(Obstacle::SecondOnPath),
            TextPredicate::NoneOf(words) if self.dialect == Dialect::Grpc && !self.is_path_taken => {
                let others = complement::none_of(words, &[]).ok_or(Obstacle::TooLarge)?;
                Ok(Ways::of(vec![vec![self.path_as(others)?]]))
            }
            TextPredicate::NoneOf(_) => self.on_path_header(predicate),
            TextPredicate::AnyOf(_) | TextPredicate::Found(_) if self.is_path_taken => self.on_path_header(predicate),
            TextPredicate::AnyOf(_) | TextPredicate::Found(_) => {
                let paths = self.texts(predicate)?.into_iter();
                Ok(Ways::of(paths.map(|path| vec![Condition::Path(path)]).collect()))
            }
        }
    }

    fn on_path_header<'a>(&self, predicate: &TextPredicate<'_>) -> Found<'a> {
        match self.dialect {
            Dialect::Grpc => self.on_header(PATH_HEADER, predicate),
            Dialect::Envoy => self.framed(&Frame::path(), predicate),
        }
    }

    /// Translates a condition on the method. A gRPC call has its method at the end of the path, and is a POST.
    fn on_method<'a>(&self, predicate: TextPredicate<'_>) -> Found<'a> {
        if !self.is_grpc_called {
            return self.on_verb(&predicate);
        }
        match predicate {
            TextPredicate::AnyOf(words) if words.contains(&GRPC_VERB) => Ok(Ways::always()),
            TextPredicate::NoneOf(words) if words.contains(&GRPC_VERB) => Ok(Ways::never()),
            TextPredicate::AnyOf(words) => self.on_method_name(&TextPredicate::AnyOf(names_of_methods(words))),
            TextPredicate::NoneOf(words) => self.on_method_name(&TextPredicate::NoneOf(names_of_methods(words))),
            TextPredicate::Always | TextPredicate::Never | TextPredicate::Found(_) | TextPredicate::Within(..) => {
                self.on_method_name(&predicate)
            }
        }
    }

    fn on_method_name<'a>(&self, predicate: &TextPredicate<'_>) -> Found<'a> {
        let frame = Frame::method(self.dialect);
        if self.dialect == Dialect::Envoy {
            return self.framed(&frame, predicate);
        }
        let ways = match predicate {
            TextPredicate::NoneOf(words) if !words.is_empty() && !self.is_path_taken => {
                let others = complement::none_of(words, &['/']).ok_or(Obstacle::TooLarge)?;
                return Ok(Ways::of(vec![vec![self.path_as(frame.around(&others))?]]));
            }
            predicate => self.framed(&frame, predicate)?,
        };
        let is_on_path = ways.any_of.iter().any(|way| !way.is_empty());
        match is_on_path {
            true if self.is_path_taken && self.has_one_path => Err(Obstacle::SecondOnPath),
            true if !self.is_path_taken => Ok(ways.on_route_path()),
            _ => Ok(ways),
        }
    }

    fn path_as<'a>(&self, expression: String) -> Result<Condition<'a>, Obstacle> {
        self.fitting(expression).map(|expression| Condition::Path(TextMatch::Expression(expression)))
    }

    fn on_verb<'a>(&self, predicate: &TextPredicate<'_>) -> Found<'a> {
        match predicate {
            TextPredicate::Always => Ok(Ways::always()),
            predicate => self.on_header(METHOD_HEADER, predicate),
        }
    }

    fn on_query<'a>(&self, name: &str, predicate: &TextPredicate<'_>) -> Found<'a> {
        let query = |value| Condition::Query(PartMatch { name: name.to_owned(), value });
        Ok(Ways::of(match predicate {
            TextPredicate::Always => vec![vec![query(TextMatch::Present)]],
            TextPredicate::Never => Vec::new(),
            TextPredicate::NoneOf(_) => {
                let mut ways = self.framed(&Frame::query(name), predicate)?.any_of;
                ways.iter_mut().for_each(|way| way.insert(0, query(TextMatch::Present)));
                ways
            }
            TextPredicate::Within(low, high) => {
                let number = format!("0*(?:{})", predicate::digits(*low, *high));
                vec![vec![query(TextMatch::Expression(self.fitting(number)?))]]
            }
            TextPredicate::AnyOf(_) | TextPredicate::Found(_) => {
                self.texts(predicate)?.into_iter().map(|text| vec![query(text)]).collect()
            }
        }))
    }

    /// Returns comparisons, one of which must match.
    fn texts(&self, predicate: &TextPredicate<'_>) -> Result<Vec<TextMatch>, Obstacle> {
        match predicate {
            TextPredicate::AnyOf(words) => match words.as_slice() {
                [word] => Ok(vec![TextMatch::Exact((*word).to_owned())]),
                words => {
                    let text = |chunk: Vec<&str>| match chunk.as_slice() {
                        [word] => TextMatch::Exact((*word).to_owned()),
                        words => TextMatch::Expression(framed::any_of(words)),
                    };
                    Ok(framed::chunks(words, re2::steps(""), self.limit).into_iter().map(text).collect())
                }
            },
            TextPredicate::Found(pattern) => Ok(vec![TextMatch::Expression(self.fitting(pattern.whole())?)]),
            _ => Ok(Vec::new()),
        }
    }

    fn fitting(&self, expression: String) -> Result<String, Obstacle> {
        if re2::steps(&expression) <= self.limit { Ok(expression) } else { Err(Obstacle::TooLarge) }
    }
}

/// Returns a half-open range, up to the highest number that clients compare.
fn number_range(low: u64, high: u64) -> Option<TextMatch> {
    let low = i64::try_from(low).ok().filter(|low| *low < i64::MAX)?;
    let end = i64::try_from(high).map_or(i64::MAX, |high| high.saturating_add(1));
    Some(TextMatch::Range(low, end))
}

#[cfg(test)]
mod tests;
