//! HTTP below the handlers: layers, admission, arguments of handlers, answers, descriptions of routes.
//!
//! Nothing here depends on a handler; only [`super::view`] is used from the rest of the surface.

mod admission;
pub(super) mod answer;
mod app;
mod bodies;
pub(super) mod bounded;
mod carried;
mod compressing;
mod doc;
pub(super) mod envelope;
mod error;
mod extract;
mod json;
pub(super) mod layers;
mod query;
pub(super) mod reference;
pub(super) mod route;
mod strict;
mod unknown;
mod xds_warnings;

#[cfg(test)]
pub(super) use admission::identify;
pub(super) use app::ApiResult;
pub use app::{ApiSettings, App};
pub(super) use bodies::{read_body, read_body_within};
pub(super) use compressing::Compressing;
pub(super) use doc::{Arguments, Doc, Input, Inputs, PAGING, PAGING_OF_ALL, PROPOSED, REVISION, Sketch, ZIP};
pub(super) use envelope::Shape;
pub(super) use error::ApiError;
pub(super) use extract::{Agent, Batch, ClientAddress, FormBody, NoBody, Object, PathName, RequestIdText, SentBy};
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use extract::{parse_item, parse_object};
pub(super) use layers::Waiting;
#[cfg(test)]
pub(super) use query::Asked;
pub(super) use query::{Fresh, Query};
pub(super) use strict::{Strict, StrictObject};
pub(super) use unknown::{QueryKeys, Unknown};

pub(super) use crate::operations::Caller;
