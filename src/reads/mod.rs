//! Reads of clients from this node's own applied state, below every API.
//!
//! An API parses requests, calls these reads, and formats the results; nothing here knows HTTP. If a client names a
//! change that is not applied here, the read waits for it ([`catch_up`]). A read can be held until its answer changes
//! ([`hold`]). Discovery of services and rules takes a [`Question`] and returns [`Found`] ([`discovery`]). Config files
//! are pulled and polled through [`ConfigReads`], over a [`ConfigSource`]. Readers are admitted by [`admission`] or
//! [`crate::operations::caller`], and what they are sent is recorded in [`crate::subscribers`].
//!
//! # Streams
//!
//! A streaming API such as gRPC has one [`Discovery`] per subscription, and loops over short holds:
//!
//! 1. `let discovery = Discovery::new(operations, caller, question.checked()?, render);`
//! 2. `discovery.catch_up(index).await?; let mut hold = discovery.held()?;` watches all it depends on and its token.
//! 3. `let end = match hold.look().await? { Some(answer) => HoldEnd::News(answer), None => hold.wait().await? };`
//! 4. `if let HoldEnd::News(answer) = end { stream.send(answer).await? }`, and after `HoldEnd::Shutdown` it returns.
//! 5. `hold = hold.query.held()?;` and on with step 3: the question continues from the revision that was sent last.

pub mod admission;
pub mod catch_up;
mod config;
mod config_poll;
mod config_source;
mod config_watch;
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
pub use config_watch::{FileNews, KnownFile};
pub use discovery::{Discoverer, Discovery, DiscoveryKind, Findings, Found, Question};
pub use hold::{Hold, HoldEnd};
pub use local::LocalView;
pub use renderings::RenderedForm;
pub use reports::{ReportedRelease, RuleReport};
