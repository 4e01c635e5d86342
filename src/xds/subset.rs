//! Subset: instances that one destination group of a rule selects, and those that serve as fallback.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::names::{ClusterName, ServiceName, SubsetHash};
use crate::model::instance::Instance;
use crate::model::rule::matching::MatchString;

/// Selections of instances: the first is preferred, the others are fallbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subset {
    pub(crate) choices: Vec<Choice>,
}

/// Instances of a service that meet all conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Choice {
    pub(crate) rank: u32,
    pub(crate) namespace: String,
    pub(crate) service: String,
    pub(crate) labels: BTreeMap<String, MatchString>, // bound: state
}

impl Choice {
    pub(crate) fn service(&self) -> ServiceName {
        ServiceName::new(&self.namespace, &self.service)
    }

    pub(crate) fn is_of(&self, other: &Choice) -> bool {
        (&self.namespace, &self.service) == (&other.namespace, &other.service)
    }

    /// Returns the selected instances.
    pub(crate) fn among<'a>(&self, instances: Vec<&'a Arc<Instance>>) -> Vec<&'a Arc<Instance>> {
        let conditions: Vec<_> = self.labels.iter().map(|(label, condition)| (label, condition.matcher())).collect();
        let meets = |instance: &&Arc<Instance>| {
            let mut conditions = conditions.iter();
            conditions.all(|(label, matcher)| instance.metadata.get(*label).is_some_and(|value| matcher.matches(value)))
        };
        instances.into_iter().filter(meets).collect()
    }
}

impl Subset {
    pub(crate) fn hash(&self) -> SubsetHash {
        let text = serde_json::to_vec(&self.choices).expect("our own types always serialize");
        let digest = Sha256::digest(text);
        let mut hash = [0; 6];
        hash.copy_from_slice(&digest[..6]);
        SubsetHash(hash)
    }

    /// Returns the cluster of the subset in the routes of a service. If it selects all instances of a service in the
    /// same namespace, it is that service's own cluster, which every wildcard subscription with the one includes.
    pub(crate) fn cluster(&self, called: &ServiceName) -> ClusterName {
        if let [choice] = &self.choices[..]
            && choice.labels.is_empty()
            && *choice.namespace == *called.namespace
        {
            return ClusterName { service: choice.service(), subset: None, locality: None };
        }
        ClusterName { service: called.clone(), subset: Some(self.hash()), locality: None }
    }

    /// Returns the conditions in readable form.
    pub(crate) fn describe(&self) -> String {
        let shown = |choice: &Choice| {
            let labels: Vec<_> = choice.labels.iter().map(|(label, is)| format!("{label} {}", is.summary())).collect();
            let labels = if labels.is_empty() { "all".to_owned() } else { labels.join(" and ") };
            format!("{}: {labels}", choice.service())
        };
        let shown: Vec<_> = self.choices.iter().map(shown).collect();
        if shown.is_empty() { "no instance".to_owned() } else { shown.join("; ") }
    }
}

/// Subsets with clusters of their own that rules about a service name.
#[derive(Debug, Default)]
pub(crate) struct Subsets {
    pub(crate) by_hash: BTreeMap<SubsetHash, Arc<Subset>>, // bound: state
    /// Services whose instances determine the subsets.
    pub(crate) of_values: BTreeSet<ServiceName>, // bound: state
}

impl Subsets {
    pub(crate) fn is_nothing(&self) -> bool {
        self.by_hash.is_empty() && self.of_values.is_empty()
    }
}
