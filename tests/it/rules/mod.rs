//! The rule families and their releases, as callers meet them: one suite of tables, run once per
//! family on three nodes, with the calls going round leader and followers.
//!
//! What a family has of its own is in [`families`]; every table is written once, over [`Family`].

mod breaker;
mod edges;
mod families;
mod fields;
mod lists;
mod publishing;
mod releases;
mod suite;
mod values;
mod views;
mod writes;

use breaker::CIRCUIT_BREAKER;
use families::{FAULT_DETECT, Family, RATE_LIMIT, ROUTING};
use suite::Suite;

/// All tables for one family.
async fn run(family: &'static Family) {
    let suite = Suite::start(family).await;
    fields::run(&suite).await;
    values::run(&suite).await;
    lists::run(&suite).await;
    writes::run(&suite).await;
    publishing::run(&suite).await;
    releases::run(&suite).await;
    views::run(&suite).await;
    suite.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_detection() {
    run(&FAULT_DETECT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limits() {
    run(&RATE_LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routing() {
    run(&ROUTING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn circuit_breaking() {
    run(&CIRCUIT_BREAKER).await;
}
