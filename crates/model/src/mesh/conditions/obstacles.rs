//! Reasons why a condition is not carried, and their warnings.

use crate::model::mesh::library::Library;
use crate::model::mesh::re2;
use crate::model::mesh::warning::{ENVOY, EVERY_CLIENT, GRPC, Warning};

/// Reason why a condition cannot be carried.
pub(super) enum Obstacle {
    Syntax(re2::Unfit),
    TooLarge,
    /// The library compares only one condition on the path.
    SecondOnPath,
}

/// Returns the warning on a condition on the calling service; for a gateway without a header for it the sub-rule is
/// omitted.
pub fn no_caller(place: &str, is_left_out: bool) -> Warning {
    let text = format!(
        "{place}: a gateway knows no caller: not carried there unless caller_service_header in its metadata names a \
         header for it"
    );
    Warning { is_left_out, ..Warning::left_out(6, ENVOY, text) }
}

pub(super) fn no_part_of_caller(place: &str) -> Warning {
    Warning::left_out(6, ENVOY, format!("{place}: a gateway knows no caller: not carried there"))
}

/// Returns the warning on an omitted part; `limit` is the number of steps that an expression may have.
pub(super) fn refused(obstacle: Obstacle, place: &str, limit: usize) -> Warning {
    match obstacle {
        Obstacle::Syntax(syntax) => {
            let text = format!("{place}: expression uses {syntax} that RE2 lacks or reads otherwise: not carried");
            Warning::left_out(25, EVERY_CLIENT, text)
        }
        Obstacle::TooLarge if limit == re2::PROGRAM_STEPS_MAX => {
            let what = "expression (or list of values) too large for Envoy without re2.max_program_size";
            Warning::left_out(7, ENVOY, format!("{place}: {what}: not carried there"))
        }
        Obstacle::TooLarge => {
            let text = format!("{place}: expression is larger than the memory of RE2: not carried");
            Warning::left_out(25, EVERY_CLIENT, text)
        }
        Obstacle::SecondOnPath => second_on_path(place),
    }
}

/// Returns the warning on a sub-rule with more conditions on the path than some libraries compare.
pub fn second_on_path(place: &str) -> Warning {
    let text = format!("{place}: gRPC in Go, Java and Node compares one condition on the path: not carried there");
    Warning { libraries: &Library::WITHOUT_PATH_HEADER, ..Warning::left_out(27, GRPC, text) }
}
