pub mod metrics;
pub mod model;
pub mod pack;
