//! Values of JSON that count each access, and read as null once the time is used up.

use std::borrow::Cow;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, SerdeJson};
use serde_json::{Map, Number, Value};

use crate::contracts::fuel::Fuel;

/// Representation of JSON for the crate `jsonschema`.
pub(super) struct MeteredJson;

#[derive(Clone, Copy)]
pub(super) struct Metered<'a> {
    pub(super) value: &'a Value,
    pub(super) fuel: &'a Fuel,
}

/// Name of a member during an access; its bytes are counted with its object.
#[derive(Default)]
pub(super) struct NameBuffer {
    name: Value,
    fuel: Fuel,
}

impl Json for MeteredJson {
    type Node<'a> = Metered<'a>;
    type PreparedKey = String;
    type StringBuffer = NameBuffer;
    const ACYCLIC: bool = true;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(buffer: &mut NameBuffer, string: &str, f: impl FnOnce(Metered<'_>) -> T) -> T {
        buffer.name = Value::String(string.to_owned());
        f(Metered { value: &buffer.name, fuel: &buffer.fuel })
    }
}

impl<'a> Metered<'a> {
    /// Returns the value, or null once the time is used up.
    fn seen(&self) -> &'a Value {
        const NULL: &Value = &Value::Null;
        if self.fuel.step(1) { self.value } else { NULL }
    }
}

impl<'a> Node<'a, MeteredJson> for Metered<'a> {
    type Object = Members<'a>;
    type Array = Elements<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<Members<'a>> {
        self.seen().as_object().map(|members| Members { members, fuel: self.fuel })
    }

    fn as_array(&self) -> Option<Elements<'a>> {
        self.seen().as_array().map(|elements| Elements { elements, fuel: self.fuel })
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.seen().as_str()?;
        // The caller reads the whole text.
        self.fuel.step(text.len() as u64 / 16).then_some(Cow::Borrowed(text))
    }

    fn as_number(&self) -> Option<&'a Number> {
        self.seen().as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        self.seen().as_bool()
    }

    fn is_null(&self) -> bool {
        self.seen().is_null()
    }

    fn json_type(&self) -> JsonType {
        Node::<SerdeJson>::json_type(&self.seen())
    }

    fn equals_value(&self, expected: &Value) -> bool {
        self.fuel.step(16) && Node::<SerdeJson>::equals_value(&self.seen(), expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        // Faults hold a copy of the value, some until all faults of their kind are found.
        if self.fuel.fault() { Cow::Borrowed(self.seen()) } else { Cow::Owned(Value::Null) }
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Node::<SerdeJson>::identity(&self.value)
    }
}

pub(super) struct Members<'a> {
    members: &'a Map<String, Value>,
    fuel: &'a Fuel,
}

pub(super) struct MembersIter<'a> {
    members: serde_json::map::Iter<'a>,
    fuel: &'a Fuel,
}

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Metered<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.members.next().filter(|_| self.fuel.step(1))?;
        Some((key, Metered { value, fuel: self.fuel }))
    }
}

impl<'a> Object<'a, MeteredJson> for Members<'a> {
    type Node = Metered<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.members.len()
    }

    fn get(&self, key: &String) -> Option<Metered<'a>> {
        let value = self.members.get(key).filter(|_| self.fuel.step(1))?;
        Some(Metered { value, fuel: self.fuel })
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter { members: self.members.iter(), fuel: self.fuel }
    }
}

pub(super) struct Elements<'a> {
    elements: &'a [Value],
    fuel: &'a Fuel,
}

pub(super) struct ElementsIter<'a> {
    elements: std::slice::Iter<'a, Value>,
    fuel: &'a Fuel,
}

impl<'a> Iterator for ElementsIter<'a> {
    type Item = Metered<'a>;

    fn next(&mut self) -> Option<Metered<'a>> {
        let value = self.elements.next().filter(|_| self.fuel.step(1))?;
        Some(Metered { value, fuel: self.fuel })
    }
}

impl<'a> Array<'a, MeteredJson> for Elements<'a> {
    type Node = Metered<'a>;
    type ElementsIter = ElementsIter<'a>;

    fn len(&self) -> usize {
        self.elements.len()
    }

    fn elements(&self) -> ElementsIter<'a> {
        ElementsIter { elements: self.elements.iter(), fuel: self.fuel }
    }

    fn is_unique(&self) -> bool {
        self.fuel.step(1 + self.elements.len() as u64 * 4) && jsonschema::json::unique::is_unique(self.elements)
    }
}
