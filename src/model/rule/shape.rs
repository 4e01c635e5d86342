//! Interface of a family of rules, and the declaration of its fields.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Body;
use super::fault::Fault;
use super::matching::ALL;
use crate::model::explain::Explained;

/// The part of a rule that only its family has.
pub trait Shape: Explained {
    /// Members of a JSON object: the body that a person who writes a new rule begins with.
    fn blank() -> &'static str
    where
        Self: Sized;

    /// Refuses values that no rule of the family may hold, whatever its other fields say.
    fn check(&self) -> Result<(), Fault>;

    /// Brings fields that depend on each other in line, or refuses them.
    fn settle(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Takes optional objects that say nothing for what is absent.
    fn drop_empty(&mut self) {}

    /// The body in the form in which clients get it, if that is another than it is kept in.
    fn as_clients_see(&self) -> Option<Body> {
        None
    }

    /// Shows namespace and name of each service that the rule is about, and what it is to the rule; an
    /// empty namespace stands for that of the rule, an empty name for none.
    fn each_end(&self, visit: &mut dyn FnMut(EndRole, &str, &str));
}

/// Role of a service in a rule that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndRole {
    Callee,
    Caller,
    /// Every service of a namespace, or of all of them, as callers of a callee that has a name.
    AnyCaller,
    /// Service that calls go to in place of the callee.
    Destination,
    /// Service that calls are forwarded to.
    Transfer,
}

impl EndRole {
    /// True if clients ask for the rule by the name of this service.
    pub(super) fn is_asked_for(self) -> bool {
        !matches!(self, EndRole::AnyCaller | EndRole::Transfer)
    }
}

/// A service that a rule is about; `*` stands for every one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct End {
    pub namespace: String,
    pub service: String,
}

impl End {
    /// None for a service that is not named.
    pub(crate) fn of(namespace: &str, service: &str, namespace_of_rule: &str) -> Option<End> {
        let namespace = if namespace.is_empty() { namespace_of_rule } else { namespace };
        (!service.is_empty()).then(|| End { namespace: namespace.to_owned(), service: service.to_owned() })
    }

    /// Every service of every namespace.
    pub fn every() -> End {
        End { namespace: ALL.to_owned(), service: ALL.to_owned() }
    }

    /// True if this end is the service, or stands for it.
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

/// An object of nothing but defaults, as `{}` is read, is none.
pub(super) fn drop_default<T: Default + PartialEq>(object: &mut Option<T>) {
    object.take_if(|given| *given == T::default());
}

/// Declares the fields of a family twice: as they are kept, and as a patch in which every field may be absent.
///
/// Fields under `written` are always shown. Those under `optional` mean something by being absent, and are then left
/// out where they are kept, and null where they are shown. Those that are replaced by another one are an older form of
/// what that one says: an update that brings it and none of them takes them away.
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

        #[doc = concat!("The fields of `", stringify!($shape), "` that a caller gives; an absent one stays as it is.")]
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
            /// The fields under `optional` that are absent.
            pub(super) fn unset(&self) -> Vec<&'static str> {
                let optional: &[(&'static str, bool)] = &[ $( (stringify!($optional), self.$optional.is_none()), )* ];
                optional.iter().filter(|(_, is_unset)| *is_unset).map(|(field, _)| *field).collect()
            }
        }

        impl $patch {
            /// Lays the given fields over `shape`; absent ones stay.
            pub(super) fn lay_over(&self, shape: &mut $shape) {
                $crate::model::draft::lay_over!(self => shape: $($written),*);
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
