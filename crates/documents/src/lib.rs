//! Bodies of the management API as JSON documents: parsing, with the paths of faults and of unknown fields, and the
//! written form of rules. The API, the console and the command line share it, so that all of them read and write alike.
//!
//! It knows the model alone: no HTTP, no catalog, no files and no caller.

mod nulls;
mod objects;
mod parsing;
mod rules;
mod upstream;
mod view;

pub use parsing::{parse_noting, parse_noting_all_but, parse_seeded, refuse_unknown, unknown_warnings};
pub use rules::{GIVEN, parse_rule, read_rule, written};
pub use upstream::folded;
pub use view::RuleView;
