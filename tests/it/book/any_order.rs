//! Pages that a reader can take in any order: all of them run against one node, each in a directory and a namespace of
//! its own. Two nodes, one for each order, so that no page depends on another page or disturbs one.

use std::time::Instant;

use super::blocks::{Kind, Page};
use super::terminal::Terminal;
use super::{play, text};
use crate::harness::report;

pub(super) const PAGES: &[&str] = &[
    "docs/access-keys.md",
    "docs/access.md",
    "docs/api.md",
    "docs/approval.md",
    "docs/audit.md",
    "docs/ci.md",
    "docs/clients/grpc-go.md",
    "docs/clients/grpc-java.md",
    "docs/clients/grpc-node.md",
    "docs/clients/grpc-python.md",
    "docs/command-line.md",
    "docs/concepts.md",
    "docs/connect-apollo.md",
    "docs/connect-envoy.md",
    "docs/connect-grpc.md",
    "docs/console.md",
    "docs/contracts.md",
    "docs/encrypt.md",
    "docs/example-programs.md",
    "docs/from-apollo.md",
    "docs/from-nacos.md",
    "docs/from-polaris.md",
    "docs/register.md",
    "docs/rollouts.md",
    "docs/rules-breakers.md",
    "docs/rules-conditions.md",
    "docs/rules-limits.md",
    "docs/rules-probes.md",
    "docs/rules-routing.md",
    "docs/rules.md",
    "docs/single-sign-on-pipelines.md",
    "docs/single-sign-on-providers.md",
    "docs/single-sign-on.md",
    "docs/troubleshooting.md",
    "docs/webhooks.md",
    "docs/xds-status.md",
];

/// Command of the first block of each page.
pub(super) const START: &str = "thuban dev\n";
/// Pages to run, separated by commas, instead of all.
const CHOSEN: &str = "THUBAN_IT_PAGES";

/// Starts a node, and reads the pages in the given order.
async fn read(pages: impl Iterator<Item = &'static str>) {
    let chosen = std::env::var(CHOSEN).ok();
    let is_chosen = |file: &&str| chosen.as_ref().is_none_or(|chosen| chosen.split(',').any(|one| file.ends_with(one)));
    let mut desk = Terminal::open("");
    desk.stay("the node of all pages", START, "…\nThuban is ready.\n…\n", 0).await;
    let (began, mut slowest) = (Instant::now(), Vec::new());
    for file in pages.filter(is_chosen) {
        let began = Instant::now();
        play(file, Terminal::beside(&desk, directory(file)), Some(START)).await;
        slowest.push((began.elapsed(), file));
    }
    desk.close().await;
    slowest.sort_unstable();
    let slowest: Vec<_> = slowest.iter().rev().take(6).map(|(time, file)| format!("{file} {time:.1?}")).collect();
    report(format!("pages on one node: {:.1?}; {}", began.elapsed(), slowest.join(", ")));
}

/// Directory of a page: its name without the folder and the ending.
pub(super) fn directory(file: &'static str) -> &'static str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.trim_end_matches(".md").trim_start_matches("connect-")
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_read_forwards() {
    read(PAGES.iter().copied()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_read_backwards() {
    read(PAGES.iter().rev().copied()).await;
}

/// A page that begins with the local node is in the list, and enters its own directory first.
#[test]
fn pages_of_a_local_node_are_in_the_list() {
    for (file, text) in super::pages() {
        let page = Page::read(file, &text).unwrap_or_else(|fault| panic!("{fault}"));
        let is_first = page.blocks.iter().find(|block| block.kind != Kind::Sample && block.kind != Kind::NotRun);
        let starts = is_first.is_some_and(|block| block.kind == Kind::Stays && block.text == START);
        // Translations, whose blocks are those of their originals, run once.
        let is_once = file.starts_with("docs/zh/");
        assert!(!starts || is_once || PAGES.contains(&file), "{file}: begins with the local node, and is not listed");
        assert!(starts || !PAGES.contains(&file), "{file}: is listed, and does not begin with the local node");
        if starts {
            let enters = format!("mkdir -p {0} && cd {0}\n", directory(file));
            assert!(text.contains(&enters), "{file}: enters a directory of its own: {enters}");
            let is_said = ["local node", "本地节点"].iter().any(|words| text.contains(words));
            assert!(is_said, "{file}: says that it needs a local node");
        }
    }
}

/// No two pages share a directory.
#[test]
fn directories_differ() {
    let mut names: Vec<_> = PAGES.iter().map(|file| directory(file)).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    assert!(PAGES.iter().all(|file| !text(file).is_empty()));
}
