//! Ground of every scenario: real processes of the built binary, a client for each surface,
//! waiting on facts, a recorded write load and a small balancer.
//!
//! It knows the outside of the program only: flags, signals, HTTP and the one line that a node
//! prints when it listens. Nothing in here sleeps in the hope that something has happened by then;
//! [`eventually`] polls a fact and fails with what it saw last.

pub(crate) mod ads;
mod api;
pub(crate) mod apollo;
mod bad_log;
mod balancer;
mod beaters;
mod built_clients;
mod clients;
mod cluster;
mod collector;
mod command;
mod eavesdropper;
mod grpc;
mod history;
mod holders;
mod links;
mod load;
mod pki;
mod ports;
mod process;
mod programs;
mod raw;
mod receiver;
mod small_disk;
mod wait;

/// A time that is so far from now, as RFC 3339 has it.
pub(crate) fn in_future(from_now: std::time::Duration) -> String {
    let from_now = format!("now + {} seconds", from_now.as_secs());
    let date = std::process::Command::new("date").args(["-u", "+%FT%TZ", "-d", &from_now]).output();
    String::from_utf8(date.expect("date runs").stdout).expect("text").trim().to_owned()
}

pub(crate) use api::{Answer, Api, http, https};
pub(crate) use apollo::{Apollo, Polled, signed};
pub(crate) use bad_log::BadLog;
pub(crate) use balancer::Balancer;
pub(crate) use beaters::Beaters;
pub(crate) use built_clients::{BuiltClient, ClientSettings};
pub(crate) use clients::{Kind, RealClient, axe, balancers, client_file, python};
pub(crate) use cluster::{ADMIN_PASSWORD, CLUSTER_SECRET, Cluster, member_flags};
pub(crate) use collector::{Collector, Mood, Span};
pub(crate) use command::{Done, run};
pub(crate) use eavesdropper::Eavesdropper;
pub(crate) use grpc::{Ended as GrpcEnded, GrpcCall, GrpcClient};
pub(crate) use history::{Kind as OperationKind, Operation, is_linearizable};
pub(crate) use holders::{Holder, Holders, Watched, is_in_share};
pub(crate) use links::{ThinLink, linked};
pub(crate) use load::{Attempt, Journal, Load, Outcome};
pub(crate) use pki::Pki;
pub(crate) use ports::{Ports, free_address};
pub(crate) use process::{DOOM, Exited, Process, binary, is_doomed, run_doomed, tail, thuban};
pub(crate) use programs::{asked_client, program};
pub(crate) use raw::{Raw, RawAnswer};
pub(crate) use receiver::{Posted, Receiver};
pub(crate) use small_disk::SmallDisk;
pub(crate) use wait::{eventually, patient, percentile, report, setting};
