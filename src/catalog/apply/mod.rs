//! Application of one log entry: the [`command`], its [`authorization`], its [`dispatch`] to the book that it changes,
//! and what comes of it ([`change`], [`row`]). Beside these is what is the same for all books: repeated commands
//! ([`idempotency`]), the life cycle of [`releases`], and what is pruned of them ([`retention`]).

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
pub mod retention;
pub mod row;
mod scope;
pub mod would_refuse;
