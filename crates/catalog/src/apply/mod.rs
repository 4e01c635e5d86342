//! Application of log entries: the [`command`], its [`authorization`], its [`dispatch`] to the book that it changes,
//! and its results ([`change`], [`row`]). In addition, what all books share: repeated commands ([`idempotency`]), the
//! life cycle of [`releases`], and their [`retention`].

mod acts;
mod auth_targets;
pub mod authorization;
pub mod change;
pub mod command;
pub mod ctx;
mod dispatch;
pub(super) mod idempotency;
pub mod rekey;
pub mod releases;
mod reserved_names;
pub(super) mod resource;
pub mod retention;
pub mod row;
pub(super) mod scope;
pub(super) mod sso_commands;
pub mod would_refuse;
