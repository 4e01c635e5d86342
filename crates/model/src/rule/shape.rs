//! Interface of a family of rules, and the macro that declares its fields.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Body;
use super::fault::Fault;
use super::matching::ALL;
use crate::model::explain::Explained;

/// Part of a rule that is specific to its family.
pub trait Shape: Explained {
    /// Returns the initial body of a new rule in an editor, as members of a JSON object.
    fn blank() -> &'static str
    where
        Self: Sized;

    /// Refuses values that are invalid regardless of other fields.
    fn check(&self) -> Result<(), Fault>;

    /// Makes fields that depend on each other consistent, or refuses them.
    fn settle(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Removes optional objects with only default values.
    fn drop_empty(&mut self) {}

    /// Returns the body in the form for clients, if that differs from the stored one.
    fn as_clients_see(&self) -> Option<Body> {
        None
    }

    /// Visits namespace and name of each service that the rule concerns, with its role; an empty namespace is that of
    /// the rule, an empty name means none.
    fn each_end(&self, visit: &mut dyn FnMut(EndRole, &str, &str));
}

/// Role of a service in a rule that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRole {
    Callee,
    Caller,
    /// Every service of a namespace, or of all of them, as callers of a named callee.
    AnyCaller,
    /// Service to which calls are routed instead of the callee.
    Destination,
    /// Service that calls are forwarded to.
    Transfer,
}

impl EndRole {
    /// Reports whether clients request the rule by the name of this service.
    pub(super) fn is_asked_for(self) -> bool {
        !matches!(self, EndRole::AnyCaller | EndRole::Transfer)
    }
}

/// A service that a rule concerns; `*` matches any.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct End {
    pub namespace: String,
    pub service: String,
}

impl End {
    /// Returns an end; `None` for a service without a name.
    pub fn of(namespace: &str, service: &str, namespace_of_rule: &str) -> Option<End> {
        let namespace = if namespace.is_empty() { namespace_of_rule } else { namespace };
        (!service.is_empty()).then(|| End { namespace: namespace.to_owned(), service: service.to_owned() })
    }

    /// Returns the end that covers every service of every namespace.
    pub fn every() -> End {
        End { namespace: ALL.to_owned(), service: ALL.to_owned() }
    }

    /// Reports whether this end covers the service.
    pub fn covers(&self, namespace: &str, service: &str) -> bool {
        let is = |pattern: &str, name: &str| pattern == ALL || pattern == name;
        is(&self.namespace, namespace) && is(&self.service, service)
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.service)
    }
}

/// Removes an object with only default values, such as one read from `{}`.
pub(super) fn drop_default<T: Default + PartialEq>(object: &mut Option<T>) {
    object.take_if(|given| *given == T::default());
}

/// Declares the fields of a family twice: as stored, and as a patch in which every field may be absent.
///
/// Fields under `written` are always serialized. The absence of those under `optional` is significant: it is stored as
/// such and shown as null. Fields that are replaced by another one are an older form of it: an update with the newer
/// field and none of the older ones removes them.
macro_rules! shape {
    (
        $(#[$meta:meta])*
        pub struct $shape:ident / $patch:ident {
            written { $( $(#[$written_meta:meta])* $written:ident: $written_type:ty, )* }
            optional { $( $(#[$optional_meta:meta])* $optional:ident: $optional_type:ty, )* }
            $( replaced by $newer:ident { $( $(#[$older_meta:meta])* $older:ident: $older_type:ty, )* } )?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default)]
        pub struct $shape {
            $( $(#[$written_meta])* pub $written: $written_type, )*
            $(
                $(#[$optional_meta])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $optional: Option<$optional_type>,
            )*
            $( $(
                $(#[$older_meta])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $older: Option<$older_type>,
            )* )?
        }

        #[doc = concat!("Fields of `", stringify!($shape), "` in a request; an absent one is not changed.")]
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default)]
        pub struct $patch {
            $(
                $(#[$written_meta])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $written: Option<$written_type>,
            )*
            $(
                $(#[$optional_meta])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $optional: Option<$optional_type>,
            )*
            $( $(
                $(#[$older_meta])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $older: Option<$older_type>,
            )* )?
        }

        impl $shape {
            /// Returns the fields under `optional` that are absent.
            pub(super) fn unset(&self) -> Vec<&'static str> {
                let optional: &[(&'static str, bool)] = &[ $( (stringify!($optional), self.$optional.is_none()), )* ];
                optional.iter().filter(|(_, is_unset)| *is_unset).map(|(field, _)| *field).collect()
            }
        }

        impl $patch {
            /// Overwrites `shape` with the given fields; absent ones are not changed.
            pub(super) fn lay_over(&self, shape: &mut $shape) {
                $crate::draft::lay_over!(self => shape: $($written),*);
                $( if self.$optional.is_some() { shape.$optional.clone_from(&self.$optional); } )*
                $(
                    if self.$newer.is_some() $( && self.$older.is_none() )* {
                        $( shape.$older = None; )*
                    }
                    $( if self.$older.is_some() { shape.$older.clone_from(&self.$older); } )*
                )?
            }
        }
    };
}
pub(super) use shape;
