//! Macros for drafts, whose fields may all be absent: their declaration, and the update of stored objects from them.

/// Declares a struct of which absent `Option` fields are not serialized. `..approval_options,` is replaced by the
/// fields of [`super::approval::ApprovalOptions`].
macro_rules! sparse {
    ($(#[$meta:meta])* pub struct $name:ident { $($fields:tt)* }) => {
        $crate::draft::sparse!(@field [$(#[$meta])* pub struct $name] {} $($fields)*);
    };
    (@field [$($head:tt)*] {$($done:tt)*}) => { $($head)* { $($done)* } };
    (@field $head:tt {$($done:tt)*} ..approval_options, $($rest:tt)*) => {
        $crate::draft::sparse!(@field $head {
            $($done)*
            /// Comment of a request for approval, which is created if a policy gates the act; otherwise the act is
            /// performed at once.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub request: Option<String>,
            /// Name of at most 64 characters, used with `request`. Acts of one person with the same name form one
            /// request, which is decided as a whole.
            #[serde(skip_serializing_if = "crate::model::is_unsaid")]
            pub request_set: Option<String>,
            /// True if the approved act waits until it is run; used with `request`.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub hold: Option<bool>,
            /// Reason, of at least 8 characters, for performing a gated act without approval or in a freeze.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub emergency: Option<String>,
        } $($rest)*);
    };
    (@field $head:tt {$($done:tt)*} $(#[$meta:meta])* pub $field:ident: Option<$type:ty>, $($rest:tt)*) => {
        $crate::draft::sparse!(@field $head {
            $($done)*
            $(#[$meta])*
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $field: Option<$type>,
        } $($rest)*);
    };
    (@field $head:tt {$($done:tt)*} $(#[$meta:meta])* pub $field:ident: $type:ty, $($rest:tt)*) => {
        $crate::draft::sparse!(@field $head { $($done)* $(#[$meta])* pub $field: $type, } $($rest)*);
    };
}
pub(crate) use sparse;

/// Updates fields from those of a draft with the same names: an absent one leaves the value unchanged, a given one
/// replaces it as a whole.
macro_rules! lay_over {
    ($draft:expr => $kept:ident: $($field:ident),*) => {
        $( $crate::draft::replace(&mut $kept.$field, &$draft.$field); )*
    };
}
pub(crate) use lay_over;

/// Replaces the old value if a new one is given.
pub(crate) fn replace<T: Clone>(old: &mut T, new: &Option<T>) {
    if let Some(new) = new {
        old.clone_from(new);
    }
}
