//! xDS with published clients: proxyless gRPC clients, and Envoy with both variants. The called servers count calls.

mod announced;
mod bad_rule;
mod between;
mod declared;
mod drivers;
mod failures;
mod hostile;
mod languages;
mod limits;
mod noted;
mod partitions;
mod returning;
mod rules;
mod secure;
mod warned;
mod world;
