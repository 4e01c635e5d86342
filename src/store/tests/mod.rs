//! The store as a whole: what it keeps through restarts, damage and the loss of power.

mod log;
mod power_loss;
mod recovery;
mod rows;
mod snapshot;
mod space;
mod store;
mod suite;
