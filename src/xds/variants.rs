//! Variants of an item, by the client inputs that were read while it was built.
//!
//! The next input to read depends only on the values read before, so the variants of all clients form a tree.

use std::collections::HashMap;

use super::client_inputs::{ClientContext, ClientInput, InputRecorder, InputValue};

/// Bytes per input value on the path to a leaf, in addition to its texts.
const VALUE_BYTES: usize = 96;

/// Variants of one item by their inputs.
pub(crate) struct VariantTree<T> {
    nodes: Vec<Node<T>>,
    leaves: usize,
    bytes: usize,
}

enum Node<T> {
    Open,
    /// An input, and the next node for each of its values.
    Branch(ClientInput, HashMap<InputValue, usize>),
    Leaf(Leaf<T>),
}

struct Leaf<T> {
    thing: T,
    bytes: usize,
    /// Number of the last use.
    used: u64,
}

impl<T> Default for VariantTree<T> {
    fn default() -> Self {
        VariantTree { nodes: vec![Node::Open], leaves: 0, bytes: 0 }
    }
}

impl<T> VariantTree<T> {
    /// Returns the number of variants.
    pub(crate) fn len(&self) -> usize {
        self.leaves
    }

    /// Returns the bytes of all variants.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the variant for a client. `uses` is the number of this use.
    pub(crate) fn find(&mut self, context: &ClientContext<'_>, uses: u64) -> Option<&mut T> {
        self.find_by(|input| Some(context.value(input)), uses)
    }

    /// Returns the variant for a client and records the inputs that were read, even if no variant exists.
    pub(crate) fn find_recording(&mut self, inputs: &mut InputRecorder<'_>, uses: u64) -> Option<&mut T> {
        self.find_by(|input| Some(inputs.read(input.clone())), uses)
    }

    /// Returns the variant for these inputs.
    pub(crate) fn find_recorded(&mut self, recorded: &[(ClientInput, InputValue)], uses: u64) -> Option<&mut T> {
        let value = |input: &ClientInput| recorded.iter().find(|(known, _)| known == input);
        self.find_by(|input| value(input).map(|(_, value)| value.clone()), uses)
    }

    fn find_by(&mut self, mut value: impl FnMut(&ClientInput) -> Option<InputValue>, uses: u64) -> Option<&mut T> {
        let mut at = 0;
        while let Node::Branch(input, values) = &self.nodes[at] {
            at = *values.get(&value(input)?)?;
        }
        match &mut self.nodes[at] {
            Node::Leaf(leaf) => {
                leaf.used = uses;
                Some(&mut leaf.thing)
            }
            Node::Open | Node::Branch(..) => None,
        }
    }

    /// Inserts or replaces the variant for these inputs.
    pub(crate) fn insert(&mut self, recorded: &[(ClientInput, InputValue)], thing: T, bytes: usize, uses: u64) {
        let mut at = 0;
        for (input, value) in recorded {
            let next = self.nodes.len();
            match &mut self.nodes[at] {
                Node::Branch(known, values) if known == input => {
                    at = *values.entry(value.clone()).or_insert(next);
                }
                // The inputs contradict the tree, so this variant could never be found.
                Node::Branch(..) => return,
                Node::Open | Node::Leaf(_) => {
                    self.open(at);
                    self.nodes[at] = Node::Branch(input.clone(), HashMap::from([(value.clone(), next)]));
                    at = next;
                }
            }
            if at == next {
                self.nodes.push(Node::Open);
            }
        }
        if let Node::Branch(..) = self.nodes[at] {
            return;
        }
        self.open(at);
        let of_values: usize = recorded.iter().map(|(_, value)| VALUE_BYTES + value.bytes()).sum();
        let bytes = bytes + of_values;
        self.leaves += 1;
        self.bytes += bytes;
        self.nodes[at] = Node::Leaf(Leaf { thing, bytes, used: uses });
    }

    /// Empties a leaf.
    fn open(&mut self, at: usize) {
        if let Node::Leaf(leaf) = std::mem::replace(&mut self.nodes[at], Node::Open) {
            self.leaves -= 1;
            self.bytes -= leaf.bytes;
        }
    }

    /// Removes the variants for which `is_retained` returns false. It gets the variant and the number of its last use.
    pub(crate) fn retain(&mut self, mut is_retained: impl FnMut(&T, u64) -> bool) {
        // Child nodes follow their parents.
        let mut is_alive = vec![false; self.nodes.len()];
        for at in (0..self.nodes.len()).rev() {
            is_alive[at] = match &mut self.nodes[at] {
                Node::Open => false,
                Node::Leaf(leaf) => is_retained(&leaf.thing, leaf.used),
                Node::Branch(_, values) => {
                    values.retain(|_, next| is_alive[*next]);
                    !values.is_empty()
                }
            };
        }
        let mut positions = vec![0; self.nodes.len()];
        let mut remaining = Vec::new();
        for (at, node) in std::mem::take(&mut self.nodes).into_iter().enumerate() {
            if is_alive[at] {
                positions[at] = remaining.len();
                remaining.push(node);
            } else if let Node::Leaf(leaf) = node {
                self.leaves -= 1;
                self.bytes -= leaf.bytes;
            }
        }
        for node in &mut remaining {
            if let Node::Branch(_, values) = node {
                values.values_mut().for_each(|next| *next = positions[*next]);
            }
        }
        if remaining.is_empty() {
            remaining.push(Node::Open);
        }
        self.nodes = remaining;
    }

    pub(crate) fn clear(&mut self) {
        *self = VariantTree::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(values: &[(&str, &str)]) -> Vec<(ClientInput, InputValue)> {
        let pair = |(label, value): &(&str, &str)| {
            (ClientInput::Label((*label).into()), InputValue::Text(Some((*value).into())))
        };
        values.iter().map(pair).collect()
    }

    fn found(tree: &mut VariantTree<u32>, values: &[(&str, &str)]) -> Option<u32> {
        tree.find_recorded(&recorded(values), 9).copied()
    }

    #[test]
    fn things_are_found_by_answers_and_go_one_by_one() {
        let mut tree = VariantTree::default();
        tree.insert(&recorded(&[("a", "1"), ("b", "1")]), 11, 100, 1);
        tree.insert(&recorded(&[("a", "1"), ("b", "2")]), 12, 100, 2);
        tree.insert(&recorded(&[("a", "2")]), 2, 100, 3);
        tree.insert(&recorded(&[("c", "2")]), 3, 100, 3);
        assert_eq!((tree.len(), found(&mut tree, &[("a", "1"), ("b", "2")])), (3, Some(12)));
        assert_eq!(found(&mut tree, &[("a", "1"), ("b", "3")]), None);
        tree.retain(|thing, used| *thing == 2 || used == 9);
        assert_eq!(tree.len(), 2);
        assert_eq!(found(&mut tree, &[("a", "1"), ("b", "1")]), None);
        assert_eq!(found(&mut tree, &[("a", "1"), ("b", "2")]), Some(12));
        assert_eq!(found(&mut tree, &[("a", "2")]), Some(2));
        // A further input after a value replaces the variant stored there.
        tree.insert(&recorded(&[("a", "2"), ("c", "1")]), 21, 50, 4);
        assert_eq!((found(&mut tree, &[("a", "2")]), found(&mut tree, &[("a", "2"), ("c", "1")])), (None, Some(21)));
        tree.retain(|_, _| false);
        assert_eq!((tree.len(), tree.bytes(), tree.nodes.len()), (0, 0, 1));
    }
}
