//! Messages of Polaris' gRPC, and the mapping of services, instances, rules and config files to them and back.
//!
//! Rules are mapped for one service, under the name in the question. A part that Polaris' SDKs cannot carry
//! out is left out as a whole, never widened, and reported as a [`Loss`]. It knows the model alone: no catalog, no
//! clients, no clock and no I/O.

mod asked;
mod breakers;
pub mod carried;
pub mod codes;
mod conditions;
pub mod config;
mod destinations;
pub mod kind;
mod limits;
mod loss;
pub mod naming;
mod nearby;
mod probes;
pub mod revision;
mod routing;
pub mod rules;
#[cfg(test)]
mod testing;

use thuban_model as model;

pub use asked::AskedService;
pub use loss::Loss;

/// Messages with Polaris' numbers, generated from the folder `proto/polaris`.
#[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, rustdoc::all)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/v1.rs"));
}
