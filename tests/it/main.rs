//! The black-box ring: real processes, real signals, real HTTP, nothing but the public surfaces.
//!
//! Sizes that matter can be raised by environment variables (`THUBAN_IT_…`, named in the scenario
//! that reads them); figures are printed on stderr also by green runs.

mod harness;

mod access_keys;
mod aliases;
mod audit;
mod away;
mod backup;
mod bad_input;
mod book;
mod catch_up;
mod client_walk;
mod clocks;
mod command_line;
mod config_surface;
mod connections;
mod console;
mod contents;
mod cut_off;
mod data_keys;
mod deploy;
mod discover;
mod divergence;
mod edges;
mod envelope;
mod exhaustion;
mod explain;
mod faults;
mod fleet;
mod formation;
mod graceful;
mod gray_configs;
mod grpc;
mod held_tokens;
mod imports;
mod instances;
mod leader_kill;
mod levels;
mod linearizable;
mod lone;
mod membership;
mod observation;
mod openapi;
mod polls;
mod read_your_writes;
mod real_clients;
mod replicas;
mod restores;
mod rights;
mod rollout;
mod room;
mod rules;
mod scripts;
mod sealed_configs;
mod services;
mod settings;
mod start;
mod subscribers;
mod tidy;
mod tls;
mod traces;
mod users;
mod webhooks;
mod xds;
