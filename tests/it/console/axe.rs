//! Accessibility of every page: by axe-core, and with the keyboard alone, in a real browser.

use super::day::Day;
use crate::harness::{ADMIN_PASSWORD, Cluster, axe};

/// Starts a script of tests/clients over the console of a cluster of one.
async fn start(script: &str, more: &[&str]) -> (Cluster, Day) {
    let cluster = Cluster::start_with_data_key(1, &[]).await;
    let ports = cluster.ports(1);
    let (url, clients) = (format!("http://{}", ports.api), ports.compat.to_string());
    let day = Day::start(script, &[&[url.as_str(), &clients, ADMIN_PASSWORD], more].concat()).await;
    (cluster, day)
}

#[tokio::test(flavor = "multi_thread")]
async fn axe_core_finds_no_violation_on_any_page() {
    let (_cluster, mut day) = start("axe.py", &[&axe().await]).await;
    let mut pages = 0;
    while day.next_line().await != "done" {
        pages += 1;
    }
    assert!(pages > 200, "{pages} pages were judged");
    day.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_main_jobs_are_done_with_the_keyboard_alone() {
    let (_cluster, mut day) = start("keyboard.py", &[]).await;
    day.comes_to("done").await;
    day.ends().await;
}
