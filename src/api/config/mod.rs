//! `/config/v1`: groups, files, releases and templates of the configuration centre, through which config gets in.
//! Paths, bodies and codes are the Polaris family's.

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

/// Query key by which lists show what they leave out otherwise.
const CONTENTS: Param =
    Param::flag("brief", "`false` shows the contents, a page at a time; they are left out otherwise.");
