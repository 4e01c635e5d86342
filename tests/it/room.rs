//! Room that runs short: quota, disk, snapshots that cannot be written, a log of large entries. Nothing
//! of it ends a node, and each gets over it as soon as there is room again.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{ADMIN_PASSWORD, Answer, Api, Cluster, eventually, report};

const LIMIT: Duration = Duration::from_secs(20);
const NO_ROOM: u64 = 507_001;
const SERVICES: &str = "/naming/v1/services";

/// A service of about 16 kB.
fn large_service(name: &str) -> Value {
    let metadata: serde_json::Map<String, Value> =
        (0..4).map(|number| (format!("k{number}"), Value::String("v".repeat(4000)))).collect();
    json!([{"namespace": "default", "name": name, "metadata": metadata}])
}

async fn create(api: &Api, name: &str) -> Answer {
    api.post(SERVICES, &large_service(name)).await
}

async fn delete(api: &Api, name: &str) -> Answer {
    api.post("/naming/v1/services/delete", &json!([{"namespace": "default", "name": name}])).await
}

/// Waits until a series has a value that `is_wanted`.
async fn expect_metric(api: &Api, series: &str, is_wanted: impl Fn(f64) -> bool) -> f64 {
    let is_wanted = &is_wanted;
    eventually(LIMIT, series, || async move {
        match api.metric(series).await {
            Some(value) if is_wanted(value) => Ok(value),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn above_the_quota_nothing_is_added_until_something_is_deleted() {
    const QUOTA: f64 = 300_000.0;
    let cluster = Cluster::start_with(3, &["--quota-bytes", "300000"]).await;
    let (leader, follower) = (cluster.leader().await, cluster.followers().await[0]);
    let (api, other) = (cluster.api(leader), cluster.api(follower));
    api.publish("default", "app", "application", "v=1").await;
    let mut filled = Vec::new();
    let refused = loop {
        let name = format!("large-{}", filled.len());
        let answer = create(if filled.len() % 2 == 0 { &api } else { &other }, &name).await;
        match answer.code() {
            200_000 => filled.push(name),
            _ => break answer.expect_code(NO_ROOM),
        }
        assert!(filled.len() < 50, "the quota never ends it");
    };
    assert!(refused.to_string().contains("300000"), "it says how much there may be: {refused}");
    report(format!("a quota of 300,000 bytes took {} services of 16 kB", filled.len()));
    assert!((15..=20).contains(&filled.len()), "{} services", filled.len());
    let bytes = api.metric("thuban_state_bytes").await.expect("the gauge is there");
    assert!(bytes > QUOTA && bytes < QUOTA + 40_000.0, "{bytes}");
    expect_metric(&api, r#"thuban_storage_alarm{reason="quota"}"#, |alarm| alarm == 1.0).await;

    create(&other, "further").await.expect_code(NO_ROOM);
    let changed = json!([{"namespace": "default", "name": filled[0], "comment": "c"}]);
    api.put(SERVICES, &changed).await.expect_code(NO_ROOM);
    other.login(ADMIN_PASSWORD).await.expect("who is to make room has to get in");
    let read = cluster.apollo(follower).config("app", "default", "application").await;
    assert_eq!(read["configurations"], json!({"v": "1"}), "reads go on");

    for name in &filled[..3] {
        delete(&other, name).await.expect_code(200_000);
    }
    eventually(LIMIT, "there is room again", || async {
        match create(&api, "again").await {
            answer if answer.code() == 200_000 => Ok(()),
            answer => Err(answer.to_string()),
        }
    })
    .await;
    expect_metric(&api, r#"thuban_storage_alarm{reason="quota"}"#, |alarm| alarm == 0.0).await;
    let weights = [api.metric("thuban_state_bytes").await, other.metric("thuban_state_bytes").await];
    cluster.expect_equal_state().await;
    assert!(weights.iter().all(Option::is_some), "{weights:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_a_short_disk_stops_what_adds_and_only_that() {
    let cluster = Cluster::start(3).await;
    let space = rustix::fs::statvfs(cluster.data(1)).expect("the directory is there");
    let reserve = (space.f_bavail * space.f_frsize).saturating_mul(3);
    a_short_member_stops_what_adds(cluster, "disk", &["--disk-reserve-bytes", &reserve.to_string()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_memory_is_short_stops_what_adds_and_only_that() {
    // Any node has more.
    let limit = ["--memory-limit-bytes", "12000000"];
    a_short_member_stops_what_adds(Cluster::start(3).await, "memory", &limit).await;
}

/// One member that is short stops what adds on all of them, and nothing else.
async fn a_short_member_stops_what_adds(mut cluster: Cluster, reason: &str, options: &[&str]) {
    let alarm_of = |reason: &str| format!("thuban_storage_alarm{{reason=\"{reason}\"}}");
    for name in ["one", "two"] {
        create(&cluster.api(1), name).await.expect_code(200_000);
    }
    let short = cluster.followers().await[0];
    cluster.terminate(short).await;
    cluster.set_options(options);
    cluster.restart(short).await;

    let leader = cluster.leader().await;
    let (api, of_short) = (cluster.api(leader), cluster.api(short));
    let refused = eventually(LIMIT, "the leader hears of it", || async {
        match create(&api, "three").await {
            answer if answer.code() == NO_ROOM => Ok(answer),
            answer => Err(answer.to_string()),
        }
    })
    .await
    .expect_code(NO_ROOM);
    assert!(refused.to_string().contains(&format!("node {short} has")), "it says who: {refused}");
    create(&of_short, "four").await.expect_code(NO_ROOM);
    expect_metric(&of_short, &alarm_of(reason), |alarm| alarm == 1.0).await;
    expect_metric(&api, &alarm_of(reason), |alarm| alarm == 1.0).await;
    for other in ["disk", "memory", "quota"].into_iter().filter(|other| *other != reason) {
        assert_eq!(of_short.metric(&alarm_of(other)).await, Some(0.0), "{other}");
    }

    expect_alarm(&cluster, &format!("node {short} has ")).await;
    for id in cluster.ids() {
        expect_logged(&cluster, id, &format!(" node {short} has "), |lines| lines == 1).await;
    }
    let line = format!("[!]{reason}: node {short} has ");
    let (status, text) = of_short.health("/readyz?verbose").await.expect("an answer");
    assert!(status == 200 && text.contains(&line) && text.ends_with("ok\n"), "{text}");
    let text = of_short.health("/readyz").await.expect("an answer").1;
    assert_eq!(text, "ok\n", "only what fails is named unasked");

    of_short.login(ADMIN_PASSWORD).await.expect("logins go on");
    delete(&of_short, "one").await.expect_code(200_000);
    let list = format!("{SERVICES}?namespace=default&name=two");
    assert_eq!(of_short.get(&list).await.expect_code(200_000).amount(), 1, "reads go on");
    for id in cluster.ids() {
        assert_eq!(cluster.api(id).health("/readyz").await.expect("an answer").0, 200, "node {id} stays in service");
    }

    cluster.terminate(short).await;
    cluster.set_options(&[]);
    cluster.restart(short).await;
    eventually(LIMIT, "there is room again", || async {
        match create(&api, "five").await {
            answer if answer.code() == 200_000 => Ok(()),
            answer => Err(answer.to_string()),
        }
    })
    .await;
    expect_metric(&api, &alarm_of(reason), |alarm| alarm == 0.0).await;
    expect_metric(&api, &format!("thuban_alarm{{kind=\"{reason}\"}}"), |alarm| alarm == 0.0).await;
    let over = format!("this alarm has ended: node {short} has ");
    expect_logged(&cluster, leader, &over, |lines| lines > 0).await;
    cluster.expect_equal_state().await;
}

/// Waits until the number of lines with these words in a node's log is as wanted.
async fn expect_logged(cluster: &Cluster, id: u64, words: &str, is_wanted: impl Fn(usize) -> bool) {
    let is_wanted = &is_wanted;
    eventually(LIMIT, words, || async move {
        let log = std::fs::read_to_string(cluster.log(id)).map_err(|error| error.to_string())?;
        let lines = log.lines().filter(|line| line.contains(words)).count();
        if is_wanted(lines) { Ok(()) } else { Err(format!("{lines} lines of node {id}")) }
    })
    .await;
}

/// Every node shows this alarm, in the words in which writes are refused.
async fn expect_alarm(cluster: &Cluster, words: &str) {
    for id in cluster.ids() {
        let api = cluster.api(id);
        eventually(LIMIT, "the alarm is shown", || async {
            let view = api.cluster().await?;
            match view.body["alarms"].to_string() {
                shown if shown.contains(words) => Ok(()),
                shown => Err(format!("node {id}: {shown}")),
            }
        })
        .await;
    }
}

/// Without a quota that is given, what clients register ends before memory does.
#[tokio::test(flavor = "multi_thread")]
async fn the_default_quota_ends_what_is_registered_before_memory_is_short() {
    const LIMIT_BYTES: f64 = 402_653_184.0;
    const FULL: usize = 7;
    let cluster = Cluster::start_with(1, &["--memory-limit-bytes", "402653184"]).await;
    let api = cluster.api(1);
    let quota = expect_metric(&api, "thuban_quota_bytes", |quota| quota > 0.0).await;
    assert!((quota * 6.0 * 2.0 - LIMIT_BYTES).abs() < 12.0, "{quota}");
    assert_eq!(api.metric("thuban_memory_limit_bytes").await, Some(LIMIT_BYTES));
    let metadata: serde_json::Map<String, Value> =
        (0..64).map(|number| (format!("k{number}"), Value::String("v".repeat(4096)))).collect();
    let mut requests = 0;
    loop {
        let instances: Vec<_> = (0..FULL)
            .map(|number| {
                let service = format!("s{}", requests * FULL + number);
                json!({"service": service, "namespace": "default", "host": "10.0.0.1", "port": 1, "metadata": metadata})
            })
            .collect();
        let answer = api.post("/naming/v1/instances", &json!(instances)).await;
        if answer.code() == NO_ROOM {
            break;
        }
        answer.expect_code(200_000);
        requests += 1;
        assert!(requests < 100, "the quota never ends it");
    }
    let state = api.metric("thuban_state_bytes").await.expect("the gauge is there");
    let used = expect_metric(&api, "thuban_memory_used_bytes", |used| used > 0.0).await;
    report(format!("under 384 MiB of memory: {state} bytes of state were taken, {used} bytes are in memory"));
    assert!(used < LIMIT_BYTES * 0.85, "{used}");
    assert_eq!(api.metric(r#"thuban_storage_alarm{reason="memory"}"#).await, Some(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_quota_is_none_where_it_is_asked_for_and_the_system_says_the_limit() {
    let cluster = Cluster::start_with(1, &["--quota-bytes", "0"]).await;
    let api = cluster.api(1);
    let limit = expect_metric(&api, "thuban_memory_limit_bytes", |limit| limit > 0.0).await;
    let machine = std::fs::read_to_string("/proc/meminfo").expect("Linux says it");
    let total = machine.lines().next().and_then(|line| line.split_whitespace().nth(1)).expect("MemTotal comes first");
    assert!(limit <= total.parse::<f64>().expect("a number") * 1024.0, "{limit} of {total} kB");
    assert_eq!(api.metric("thuban_quota_bytes").await, Some(0.0));
}

/// A file blocks the path of the snapshot folder: every attempt fails, as on a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_cannot_be_written_is_an_alarm_and_not_an_end() {
    let cluster = Cluster::start_with(1, &["--snapshot-entries", "20", "--log-entries-kept", "5"]).await;
    let api = cluster.api(1);
    let (folder, aside) = (cluster.data(1).join("snapshots"), cluster.data(1).join("snapshots-aside"));
    std::fs::rename(&folder, &aside).expect("the folder can be moved");
    std::fs::write(&folder, "no folder").expect("a file can be written");
    for number in 0..40 {
        create(&api, &format!("service-{number}")).await.expect_code(200_000);
    }
    expect_metric(&api, "thuban_snapshot_failing", |failing| failing == 1.0).await;
    let nothing = json!({});
    let order = || api.post("/admin/v1/cluster/snapshot", &nothing);
    let refused = order().await.expect_code(500_001);
    assert!(refused.to_string().contains("directory"), "it says why: {refused}");
    create(&api, "after").await.expect_code(200_000);
    assert_eq!(api.health("/readyz").await.expect("an answer").0, 200);

    std::fs::remove_file(&folder).expect("the file can be removed");
    std::fs::rename(&aside, &folder).expect("the folder can be moved back");
    order().await.expect_code(200_000);
    expect_metric(&api, "thuban_snapshot_failing", |failing| failing == 0.0).await;
    expect_metric(&api, "thuban_raft_purged_index", |purged| purged > 30.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_large_entries_is_bounded_by_bytes() {
    const PUBLISHED_BYTES: usize = 100_000;
    let options = ["--snapshot-bytes", "4194304", "--log-bytes-kept", "1048576"];
    let cluster = Cluster::start_with(3, &options).await;
    let api = cluster.api(cluster.leader().await);
    let content = "x".repeat(PUBLISHED_BYTES);
    let mut largest: f64 = 0.0;
    for number in 0..150 {
        api.publish("default", "group", &format!("file-{}.txt", number % 5), &content).await;
        if number % 10 == 0 {
            largest = largest.max(api.metric("thuban_log_size_bytes").await.expect("the gauge is there"));
        }
    }
    report(format!("15 MB of publishes; the log had {largest} bytes at most, with 4 MiB and 1 MiB allowed"));
    assert!(largest < 9_000_000.0, "{largest}");
    for id in cluster.ids() {
        let api = cluster.api(id);
        expect_metric(&api, "thuban_log_size_bytes", |bytes| bytes < 6_000_000.0).await;
        expect_metric(&api, "thuban_raft_purged_index", |purged| purged > 60.0).await;
    }
}
