//! Pictures in pages: SVG drawn by this program, with a text alternative for each.
//!
//! Positions in bars and lanes are percentages of the width, and texts have a fixed size, so they are readable at any
//! window width. The map has a fixed size and can be scrolled. States differ in shape as well as in colour.

pub(super) mod call_map;
pub(super) mod holders;
pub(super) mod sparkline;
pub(super) mod timeline;

/// Formats a share of the width for SVG.
fn percent(share: f64) -> String {
    format!("{share:.2}%")
}
