pub mod catalog;
pub mod compat;
pub mod metrics;
pub mod model;
pub mod pack;
pub mod raft;
pub mod store;
pub mod watch;
