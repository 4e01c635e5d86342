//! Clients' reads, below every door: what clients ask of this node's own applied state, and of no other node.
//!
//! A door parses what it is sent, calls what stands here, and writes down the answer in its own form: nothing here knows
//! of HTTP. What a client names that is not applied here is waited for ([`catch_up`]: no step back). A read may be held
//! until there is another answer ([`hold`]). Config files are pulled and polled through [`ConfigReads`], over a
//! [`ConfigSource`]; who reads was let in by [`admission`], and what a client was given is noted in
//! [`crate::subscribers`].

pub mod admission;
pub mod catch_up;
mod config;
mod config_poll;
mod config_source;
pub mod hold;
mod local;
mod renderings;
pub(crate) mod repeat_limiter;
#[cfg(test)]
pub(crate) mod testing;

pub use admission::{Admitted, Asker, ReaderCredentials};
pub use config::{ConfigReads, ReadRefusal};
pub use config_poll::{ConfigNews, ConfigPoll, PollRequest, PollingClient, WatchedFile};
pub use config_source::{ConfigSource, LiveMember, Reader};
pub use hold::{Hold, HoldEnd};
pub use local::LocalView;
pub use renderings::RenderedForm;
