//! Tests of nodes without surfaces (consensus over real stores and real sockets, with wires that can be cut), and of
//! the state machine alone.

mod clocks;
mod cut_off;
mod groups;
mod memberships;
mod orders;
mod stall;
mod trio;
