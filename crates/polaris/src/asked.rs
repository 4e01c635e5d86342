//! Service that a client asks about.

use crate::model::rule::End;
use crate::model::rule::traffic::ServiceKey;

/// Service under the name by which a client asks for it, which may be an alias.
#[derive(Clone, Copy, Debug)]
pub struct AskedService<'a> {
    pub namespace: &'a str,
    pub service: &'a str,
    /// Service of this name, as rules name it.
    pub target: &'a ServiceKey,
}

impl AskedService<'_> {
    /// Reports whether a service that a rule names is this one. `None` is a service without a name.
    pub(crate) fn is_covered_by(&self, end: Option<&End>) -> bool {
        end.is_some_and(|end| end.covers(&self.target.namespace, &self.target.service))
    }
}
