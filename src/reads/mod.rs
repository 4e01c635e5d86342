//! Clients' reads, below every door: what clients ask of this node's own applied state, and of no other node.
//!
//! A door parses what it is sent, calls what stands here, and writes down the answer in its own form; nothing here
//! knows of HTTP. What a client names that is not applied here is waited for ([`catch_up`]: no step back). A read may
//! be held until there is another answer ([`hold`]). What is asked of services and their rules is a [`Question`], and
//! what there is [`Found`] ([`discovery`]); config files are pulled and polled through [`ConfigReads`], over a
//! [`ConfigSource`]. Who reads was let in by [`admission`] or by [`crate::operations::caller`], and what a client was
//! given is noted in [`crate::subscribers`].
//!
//! # A stream
//!
//! A door with streams, such as gRPC, has one [`Discovery`] for each subscription and loops over short holds:
//!
//! 1. `let discovery = Discovery::new(operations, caller, question.checked()?, render);`
//! 2. `discovery.catch_up(index).await?; let mut hold = discovery.held()?;` watches all it depends on and its token.
//! 3. `let end = match hold.look().await? { Some(answer) => HoldEnd::News(answer), None => hold.wait().await? };`
//! 4. `if let HoldEnd::News(answer) = end { stream.send(answer).await? }`, and after `HoldEnd::Shutdown` it returns.
//! 5. `hold = hold.query.held()?;` and on with 3: the question goes on from the revision that was sent last.

pub mod admission;
pub mod catch_up;
mod config;
mod config_poll;
mod config_source;
pub mod discovery;
pub mod hold;
mod local;
mod renderings;
pub(crate) mod repeat_limiter;
mod reports;
#[cfg(test)]
pub(crate) mod testing;

pub use admission::{Admitted, Asker, ReaderCredentials};
pub use config::{ConfigReads, ReadRefusal};
pub use config_poll::{ConfigNews, ConfigPoll, PollRequest, PollingClient, WatchedFile};
pub use config_source::{ConfigSource, LiveMember, Reader, Sight};
pub use discovery::{Discovery, DiscoveryKind, Findings, Found, Question};
pub use hold::{Hold, HoldEnd};
pub use local::LocalView;
pub use renderings::RenderedForm;
pub use reports::{ReportedRelease, RuleReport};
