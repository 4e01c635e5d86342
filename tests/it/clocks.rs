//! Nodes whose clocks are wrong by a month become leaders: no date is affected, and no token ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use time::{Date, Month, OffsetDateTime};

use crate::harness::{ADMIN_PASSWORD, Api, Cluster, eventually, report};

const LIMIT: Duration = Duration::from_secs(20);
/// Allowed difference between the true time and a stamp.
const APART_MAX_S: u64 = 60;

/// The library of Debian's package `faketime`, which `scripts/test` installs.
fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("there is /usr/lib").flatten().map(|entry| entry.path());
    let found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists());
    found.expect("libfaketime is installed: apt-get install faketime, or run scripts/test")
}

/// The wall clock alone is wrong; how much time passes is seen rightly, as it is on a real machine.
pub(crate) fn wrong_by(offset: &str) -> Vec<(String, String)> {
    let library = library().to_str().expect("the path is text").to_owned();
    let variables = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME", offset),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// Returns the environment of a clock whose error is read from a file.
pub(crate) fn steerable(file: &Path) -> Vec<(String, String)> {
    let (library, file) = (library(), file.to_str().expect("the path is text").to_owned());
    let variables = [
        ("LD_PRELOAD", library.to_str().expect("the path is text")),
        ("FAKETIME_TIMESTAMP_FILE", file.as_str()),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_clock_is_a_month_off_dates_nothing_by_it() {
    let mut cluster = Cluster::start(3).await;
    for (offset, name) in [("+30d", "ahead"), ("-30d", "behind")] {
        let node = cluster.followers().await[0];
        cluster.terminate(node).await;
        cluster.set_environment(node, wrong_by(offset));
        cluster.restart(node).await;
        expect_log_dated_wrong(&cluster, node);
        let api = cluster.api(node);
        eventually(LIMIT, "the node with the wrong clock leads", || async {
            let answer = api.post("/admin/v1/cluster/transfer", &json!({"to": node})).await;
            let leader = cluster.leader().await;
            if leader == node { Ok(()) } else { Err(format!("{leader} leads; {answer}")) }
        })
        .await;

        let apart = written_apart_s(&api, name).await;
        report(format!("a leader whose clock is wrong by {offset}: a write is dated {apart} s off"));
        assert!(apart < APART_MAX_S, "dated {apart} s off");

        // A login retires the tokens that are over; the one of the harness is seven days old by that clock,
        // or of the future.
        let fresh = api.login(ADMIN_PASSWORD).await.expect("a login");
        for id in cluster.ids() {
            for token in [cluster.token(), &fresh] {
                cluster.api(id).with_token(token).get("/admin/v1/cluster").await.expect_code(200_000);
            }
        }
        cluster.terminate(node).await;
        cluster.set_environment(node, Vec::new());
        cluster.restart(node).await;
        let apart = written_apart_s(&cluster.api(node), &format!("after-{name}")).await;
        assert!(apart < APART_MAX_S, "dated {apart} s off after it was back");
    }
    cluster.expect_equal_state().await;
}

/// The test would prove nothing if the node saw the true time.
fn expect_log_dated_wrong(cluster: &Cluster, node: u64) {
    let log = std::fs::read_to_string(cluster.log(node)).expect("there is a log");
    let date = |line: &str| line.get(..10).map(str::to_owned);
    let (first, last) = (log.lines().next().and_then(date), log.lines().last().and_then(date));
    assert!(first.is_some() && first != last, "the clock of node {node} is not wrong:\n{log}");
}

/// Seconds between the true time and the date of something that is written now.
pub(crate) async fn written_apart_s(api: &Api, name: &str) -> u64 {
    let item = json!([{"namespace": "clocks", "name": name}]);
    eventually(LIMIT, "a write is taken", || async {
        match api.post("/naming/v1/services", &item).await {
            answer if answer.code() == 200_000 => Ok(()),
            answer => Err(answer.to_string()),
        }
    })
    .await;
    let list = api.get(&format!("/naming/v1/services?namespace=clocks&name={name}")).await.expect_code(200_000);
    let service = &list.body["services"][0];
    let dated = [&service["ctime"], &service["mtime"]].map(seconds);
    assert_eq!(dated[0], dated[1], "{list}");
    OffsetDateTime::now_utc().unix_timestamp().abs_diff(dated[0])
}

/// `YYYY-MM-DD HH:MM:SS` in UTC as seconds since the epoch.
pub(crate) fn seconds(text: &Value) -> i64 {
    let text = text.as_str().unwrap_or_else(|| panic!("{text} is no time"));
    let part = |from: usize, to: usize| text[from..to].parse::<u16>().unwrap_or_else(|_| panic!("{text} is no time"));
    let small = |from| u8::try_from(part(from, from + 2)).expect("two digits");
    let month = Month::try_from(small(5)).expect("a month");
    let date = Date::from_calendar_date(i32::from(part(0, 4)), month, small(8)).expect("a day");
    date.with_hms(small(11), small(14), small(17)).expect("a time of day").assume_utc().unix_timestamp()
}
