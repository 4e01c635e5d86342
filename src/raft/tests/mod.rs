//! Whole nodes without surfaces (consensus over real stores and real sockets, with wires that can be cut), and the
//! state machine by itself.

mod clocks;
mod cut_off;
mod groups;
mod memberships;
mod orders;
mod stall;
mod trio;
