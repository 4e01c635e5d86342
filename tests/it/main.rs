//! The black-box ring: real processes, real signals, real HTTP, nothing but the public surfaces.
//!
//! Sizes that matter can be raised by environment variables (`THUBAN_IT_…`, named in the scenario
//! that reads them); figures are printed on stderr also by green runs.

mod harness;

mod aliases;
mod bad_input;
mod catch_up;
mod config_surface;
mod discover;
mod envelope;
mod explain;
mod graceful;
mod gray_configs;
mod instances;
mod leader_kill;
mod linearizable;
mod observation;
mod openapi;
mod polls;
mod read_your_writes;
mod real_clients;
mod rules;
mod services;
mod start;
mod tidy;
