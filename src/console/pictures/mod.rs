//! Pictures in pages: SVG that this program draws, with a text beside each for who cannot see it.
//!
//! Positions in bars and lanes are percents of the width, and texts keep their size: they are as readable in a narrow
//! window as in a wide one. The map has a size of its own, and is moved where it does not fit. Shapes differ as colours
//! do.

pub(super) mod call_map;
pub(super) mod holders;
pub(super) mod sparkline;
pub(super) mod timeline;

/// A share of the width, as SVG takes it.
fn percent(share: f64) -> String {
    format!("{share:.2}%")
}
