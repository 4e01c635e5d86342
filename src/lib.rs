pub mod metrics;
pub mod pack;
