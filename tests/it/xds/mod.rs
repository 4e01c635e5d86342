//! xDS as clients meet it that others wrote: gRPC clients without a proxy, and Envoy by both ways of streaming. Servers
//! that they call count who came.

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
