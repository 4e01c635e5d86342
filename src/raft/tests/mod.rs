//! Whole nodes without surfaces: consensus over real stores and real sockets, with wires that can be
//! cut.

mod clocks;
mod cut_off;
mod memberships;
mod orders;
mod trio;
