//! Values of expressions: borrowed from the JSON input, or created by the expression.

use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::Stop;
use crate::contracts::fuel::Fuel;

pub(super) const TYPES: [&str; 9] = ["bool", "int", "uint", "double", "string", "list", "map", "null_type", "type"];

/// Largest whole number that `int` and `double` both represent exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

#[derive(Clone, Debug)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(&'a str),
    MadeStr(Rc<str>),
    List(&'a [Value]),
    MadeList(Rc<Vec<Val<'a>>>),
    Map(&'a Map<String, Value>),
    MadeMap(Rc<Vec<(Val<'a>, Val<'a>)>>),
    Type(&'static str),
}

impl<'a> Val<'a> {
    pub(super) fn of(value: &'a Value) -> Val<'a> {
        match value {
            Value::Null => Val::Null,
            Value::Bool(boolean) => Val::Bool(*boolean),
            Value::String(text) => Val::Str(text),
            Value::Array(elements) => Val::List(elements),
            Value::Object(members) => Val::Map(members),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Val::Int(whole),
                #[expect(clippy::cast_possible_truncation, reason = "a whole number that both hold")]
                (None, Some(double)) if double.fract() == 0.0 && double.abs() <= WHOLE_MAX => Val::Int(double as i64),
                (None, double) => Val::Double(double.unwrap_or(f64::NAN)),
            },
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Val::Str(text) => Some(text),
            Val::MadeStr(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name of its type, one of [`TYPES`].
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::Str(_) | Val::MadeStr(_) => "string",
            Val::List(_) | Val::MadeList(_) => "list",
            Val::Map(_) | Val::MadeMap(_) => "map",
            Val::Type(_) => "type",
        }
    }

    /// Returns the elements of a list or the keys of a map.
    pub(super) fn elements(&self) -> Option<Elements<'a>> {
        Some(match self {
            Val::List(list) => Elements::List(list.iter()),
            Val::MadeList(list) => Elements::Made(Rc::clone(list), 0),
            Val::Map(map) => Elements::Keys(map.keys()),
            Val::MadeMap(map) => Elements::MadeKeys(Rc::clone(map), 0),
            _ => return None,
        })
    }

    /// Returns the number of elements of a list or of members of a map.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Val::List(list) => Some(list.len()),
            Val::MadeList(list) => Some(list.len()),
            Val::Map(map) => Some(map.len()),
            Val::MadeMap(map) => Some(map.len()),
            _ => None,
        }
    }

    /// Returns the member of a map; `Err` if the value is not a map.
    pub(super) fn member(&self, key: &Val<'a>, fuel: &Fuel) -> Result<Option<Val<'a>>, Stop> {
        match self {
            Val::Map(map) => Ok(key.text().and_then(|key| map.get(key)).map(Val::of)),
            Val::MadeMap(map) => {
                for (there, value) in map.iter() {
                    if equal(there, key, fuel)? {
                        return Ok(Some(value.clone()));
                    }
                }
                Ok(None)
            }
            other => Err(Stop::Failed(format!("a {} has no members", other.kind()))),
        }
    }

    fn at(&self, index: usize) -> Option<Val<'a>> {
        match self {
            Val::List(list) => list.get(index).map(Val::of),
            Val::MadeList(list) => list.get(index).cloned(),
            _ => None,
        }
    }

    /// Returns an element of a list or a member of a map.
    pub(super) fn index(&self, key: &Val<'a>, fuel: &Fuel) -> Result<Val<'a>, Stop> {
        if !matches!(self, Val::List(_) | Val::MadeList(_)) {
            return self.member(key, fuel)?.ok_or_else(|| Stop::Failed("no such member".to_owned()));
        }
        let index = match key {
            Val::Int(index) => usize::try_from(*index).ok(),
            Val::Uint(index) => usize::try_from(*index).ok(),
            other => return Err(Stop::Failed(format!("a list has no element at a {}", other.kind()))),
        };
        index.and_then(|index| self.at(index)).ok_or_else(|| Stop::Failed("no such element".to_owned()))
    }
}

pub(super) enum Elements<'a> {
    List(std::slice::Iter<'a, Value>),
    Made(Rc<Vec<Val<'a>>>, usize),
    Keys(serde_json::map::Keys<'a>),
    MadeKeys(Rc<Vec<(Val<'a>, Val<'a>)>>, usize),
}

impl<'a> Iterator for Elements<'a> {
    type Item = Val<'a>;

    fn next(&mut self) -> Option<Val<'a>> {
        match self {
            Elements::List(list) => list.next().map(Val::of),
            Elements::Keys(keys) => keys.next().map(|key| Val::Str(key)),
            Elements::Made(list, at) => {
                *at += 1;
                list.get(*at - 1).cloned()
            }
            Elements::MadeKeys(map, at) => {
                *at += 1;
                map.get(*at - 1).map(|(key, _)| key.clone())
            }
        }
    }
}

/// Compares as CEL does: numbers of all types by value, other values only within their type.
pub(super) fn equal(one: &Val<'_>, other: &Val<'_>, fuel: &Fuel) -> Result<bool, Stop> {
    if !fuel.step(1) {
        return Err(Stop::Out);
    }
    if let (Some(one), Some(other)) = (one.text(), other.text()) {
        return if fuel.step(one.len() as u64 / 64) { Ok(one == other) } else { Err(Stop::Out) };
    }
    match (one, other) {
        (Val::Null, Val::Null) => Ok(true),
        (Val::Bool(one), Val::Bool(other)) => Ok(one == other),
        (Val::Type(one), Val::Type(other)) => Ok(one == other),
        (Val::List(_) | Val::MadeList(_), Val::List(_) | Val::MadeList(_)) => {
            if one.len() != other.len() {
                return Ok(false);
            }
            for (one, other) in one.elements().into_iter().flatten().zip(other.elements().into_iter().flatten()) {
                if !equal(&one, &other, fuel)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Val::Map(_) | Val::MadeMap(_), Val::Map(_) | Val::MadeMap(_)) => equal_maps(one, other, fuel),
        _ => Ok(by_number(one, other) == Some(Ordering::Equal)),
    }
}

fn equal_maps<'a>(one: &Val<'a>, other: &Val<'a>, fuel: &Fuel) -> Result<bool, Stop> {
    if one.len() != other.len() {
        return Ok(false);
    }
    for key in one.elements().into_iter().flatten() {
        match (one.member(&key, fuel)?, other.member(&key, fuel)?) {
            (Some(one), Some(other)) if equal(&one, &other, fuel)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns the order of two values; `None` if they have none.
pub(super) fn compare(one: &Val<'_>, other: &Val<'_>) -> Option<Ordering> {
    match (one, other) {
        (Val::Bool(one), Val::Bool(other)) => Some(one.cmp(other)),
        _ => match (one.text(), other.text()) {
            (Some(one), Some(other)) => Some(one.cmp(other)),
            _ => by_number(one, other),
        },
    }
}

fn by_number(one: &Val<'_>, other: &Val<'_>) -> Option<Ordering> {
    let whole = |value: &Val<'_>| match value {
        Val::Int(number) => Some(i128::from(*number)),
        Val::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    match (whole(one), whole(other), one, other) {
        (Some(one), Some(other), ..) => Some(one.cmp(&other)),
        (None, None, Val::Double(one), Val::Double(other)) => one.partial_cmp(other),
        (Some(one), None, _, Val::Double(other)) => with_double(one, *other),
        (None, Some(other), Val::Double(one), _) => with_double(other, *one).map(Ordering::reverse),
        _ => None,
    }
}

fn with_double(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it saturates far beyond any whole number here")]
    let floor = double.floor() as i128;
    Some(whole.cmp(&floor).then(if double.fract() == 0.0 { Ordering::Equal } else { Ordering::Less }))
}
