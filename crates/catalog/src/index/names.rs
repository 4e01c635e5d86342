//! Values by namespace and name, in that order.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

/// Cheap to clone, like every map of the catalog: clones share what neither side changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Names<V: Clone> {
    by_namespace: OrdMap<Arc<str>, OrdMap<Arc<str>, V>>,
}

impl<V: Clone> Default for Names<V> {
    fn default() -> Self {
        Names { by_namespace: OrdMap::new() }
    }
}

impl<V: Clone> Names<V> {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&V> {
        self.by_namespace.get(namespace)?.get(name)
    }

    /// Returns the value of a name, and inserts a default if it is missing.
    pub(crate) fn or_default(&mut self, namespace: &str, name: &str) -> &mut V
    where
        V: Default,
    {
        in_place(in_place(&mut self.by_namespace, namespace), name)
    }

    pub(crate) fn insert(&mut self, namespace: &str, name: &str, value: V) {
        let held = self.by_namespace.get_mut(namespace).and_then(|names| names.get_mut(name));
        match held {
            Some(held) => *held = value,
            None => drop(in_place(&mut self.by_namespace, namespace).insert(Arc::from(name), value)),
        }
    }

    pub(crate) fn remove(&mut self, namespace: &str, name: &str) {
        if let Some(names) = self.by_namespace.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
    }

    /// Returns the number of values in all namespaces.
    pub(crate) fn len(&self) -> usize {
        self.by_namespace.values().map(OrdMap::len).sum()
    }

    pub(crate) fn has_any_in(&self, namespace: &str) -> bool {
        self.by_namespace.contains_key(namespace)
    }

    pub(crate) fn count_in(&self, namespace: &str) -> usize {
        self.by_namespace.get(namespace).map_or(0, OrdMap::len)
    }

    /// Returns the values of one namespace, or of all.
    pub(crate) fn values(&self, namespace: Option<&str>) -> impl Iterator<Item = &V> {
        let (one, all) = match namespace {
            Some(namespace) => (self.by_namespace.get(namespace), None),
            None => (None, Some(self.by_namespace.values())),
        };
        one.into_iter().chain(all.into_iter().flatten()).flat_map(OrdMap::values)
    }

    /// Returns the values of all namespaces, from a namespace and a name on.
    pub(crate) fn onward<'a>(&'a self, namespace: &str, name: &str) -> impl Iterator<Item = &'a V> + use<'a, V> {
        let here = self.by_namespace.get(namespace);
        let here = here.map(|names| names.range::<_, str>((Bound::Included(name), Bound::Unbounded)));
        let behind = self.by_namespace.range::<_, str>((Bound::Excluded(namespace), Bound::Unbounded));
        let behind = behind.flat_map(|(_, names)| names.values());
        here.into_iter().flatten().map(|(_, value)| value).chain(behind)
    }

    /// Returns the values of this name in any namespace.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = &V> {
        self.by_namespace.values().filter_map(move |names| names.get(name))
    }
}

/// Returns the value of a key, and inserts a default if it is missing. An existing key is not allocated again.
pub(crate) fn in_place<'a, V: Clone + Default>(map: &'a mut OrdMap<Arc<str>, V>, key: &str) -> &'a mut V {
    if !map.contains_key(key) {
        map.insert(Arc::from(key), V::default());
    }
    map.get_mut(key).expect("it was put there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_stays_what_it_was() {
        let mut names = Names::default();
        names.insert("a", "x", 1);
        names.insert("b", "x", 2);
        let seen = names.clone();
        names.insert("a", "x", 3);
        names.insert("a", "y", 4);
        names.remove("b", "x");
        *names.or_default("c", "z") += 5;
        assert_eq!(seen.values(None).copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(names.values(None).copied().collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(names.named("x").copied().collect::<Vec<_>>(), [3]);
        for (from, expected) in [(("", ""), &[3, 4, 5][..]), (("a", "x"), &[3, 4, 5]), (("a", "xx"), &[4, 5])] {
            assert_eq!(names.onward(from.0, from.1).copied().collect::<Vec<_>>(), expected, "{from:?}");
        }
        assert_eq!(names.onward("aa", "z").copied().collect::<Vec<_>>(), [5]);
        assert_eq!(names.onward("c", "zz").count(), 0);
        assert_eq!((names.len(), names.count_in("a"), names.has_any_in("b")), (3, 2, false));
    }
}
