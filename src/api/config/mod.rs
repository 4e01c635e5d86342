//! `/config/v1`: groups, files, releases and templates of the configuration centre. Paths, bodies and codes are the
//! Polaris family's.

mod archive;
mod batch;
pub(crate) mod bundles;
pub(crate) mod diff;
pub(crate) mod encryption;
pub(crate) mod files;
mod force;
pub(crate) mod groups;
pub(crate) mod releases;
pub(crate) mod subscribers;
pub(crate) mod templates;

use crate::openapi::Param;

/// Query key with which lists include contents.
const CONTENTS: Param =
    Param::flag("brief", "`false` shows the contents, a page at a time; they are left out otherwise.");
