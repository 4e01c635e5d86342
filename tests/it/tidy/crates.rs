//! Dependencies of the crates below the package `thuban`: what each may not have in its tree.

use std::collections::BTreeSet;
use std::process::Command;

use super::{CRATES, root};

/// Crates of others that are heavy, or begin threads, or wait for the network: consensus, its store, servers and
/// runtimes. No crate below the package `thuban` depends on one, directly or through others, unless
/// [`NETWORKED`] names it.
const HEAVY: [&str; 8] = ["axum", "hyper", "librocksdb-sys", "openraft", "reqwest", "rocksdb", "tokio", "tonic"];

/// Crates below the package `thuban` that run tasks or call servers, with the heavy crates that they need. None of them
/// has consensus, a store or a server.
const NETWORKED: &[(&str, &[&str])] =
    &[("tasks", &["tokio"]), ("outbound", &["hyper", "reqwest", "tokio"]), ("ctl", &["hyper", "reqwest", "tokio"])];

/// Names of the crates that one of the workspace is compiled from, without those of its tests.
fn tree_of(name: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let package = format!("thuban-{name}");
    let arguments = ["tree", "--offline", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let ran = Command::new(cargo).args(arguments).args(["--package", &package]).current_dir(root()).output();
    let ran = ran.expect("cargo can be started");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let listed = String::from_utf8(ran.stdout).expect("text");
    listed.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn crates_have_their_order_and_no_heavy_dependency() {
    for (at, (name, _)) in CRATES.iter().enumerate() {
        let tree = tree_of(name);
        assert!(tree.contains(&format!("thuban-{name}")), "{tree:?}");
        let needed = NETWORKED.iter().find(|(one, _)| one == name).map_or(&[][..], |(_, needed)| needed);
        let heavy: Vec<_> = HEAVY.iter().filter(|one| tree.contains(**one) && !needed.contains(one)).collect();
        assert!(heavy.is_empty(), "thuban-{name} depends on {heavy:?}");
        let above = CRATES[at + 1..].iter().map(|(name, _)| format!("thuban-{name}")).chain(["thuban".to_owned()]);
        let above: Vec<_> = above.filter(|one| tree.contains(one)).collect();
        assert!(above.is_empty(), "thuban-{name} depends on {above:?}");
    }
    let catalog = tree_of("catalog");
    assert!(
        catalog.contains("thuban-model") && !catalog.contains("thuban-validate"),
        "apply calls no parser of others"
    );
    assert!(HEAVY.iter().all(|one| {
        std::fs::read_to_string(root().join("Cargo.lock")).is_ok_and(|lock| lock.contains(&format!("name = \"{one}\"")))
    }));
}

/// A crate that is not in the list is held by nothing.
#[test]
fn every_crate_is_in_the_list() {
    let folders = root().join("crates").read_dir().expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let there: BTreeSet<_> = folders.map(|name| name.to_string_lossy().into_owned()).collect();
    let listed: BTreeSet<_> = CRATES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, listed);
    for (file, row) in [("Dockerfile", "COPY crates/NAME/Cargo.toml"), ("tests/profile.toml", "package.thuban-NAME]")] {
        let text = std::fs::read_to_string(root().join(file)).expect("a file");
        let missing: Vec<_> = there.iter().filter(|name| !text.contains(&row.replace("NAME", name))).collect();
        assert!(missing.is_empty(), "{file} has no row of {missing:?}");
    }
}
