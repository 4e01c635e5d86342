//! `/naming/v1/{kind}`: rules and their releases, once for all families; which one a request is about comes with the
//! route.

pub(crate) mod docs;
pub(crate) mod documents;
pub(crate) mod drafts;
pub(crate) mod explain;
pub(crate) mod releases;
pub(crate) mod upstream;
