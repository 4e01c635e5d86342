//! Pictures in pages: SVG that this program draws, with a text beside each for who cannot see it.
//!
//! Positions are percents of the width, and texts keep their size: a picture is as readable in a narrow window as in
//! a wide one. Shapes differ as colours do.

pub(super) mod call_map;
pub(super) mod holders;
pub(super) mod sparkline;
pub(super) mod timeline;
