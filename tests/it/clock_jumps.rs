//! Clocks of a whole cluster that are all wrong: at its founding, or while all nodes were down. Nothing is removed,
//! published or ended because of such a time, an alarm is raised, and the time is corrected, also back.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::clocks::{seconds, steerable};
use crate::harness::{ADMIN_PASSWORD, Api, Cluster, Load, eventually, report, run, signed};

const LIMIT: Duration = Duration::from_secs(30);
const FILE: &str = "/configs/app/default/application?ip=10.0.0.1";
const TIME: &str = "/admin/v1/cluster/time";
const CONFIRM: &str = "/admin/v1/cluster/time/confirm";
/// Allowed difference between the true time and a date.
const APART_MAX_S: u64 = 10;

/// A cluster whose clocks are changed while it runs, with what a wrong time would destroy.
struct SteeredCluster {
    cluster: Cluster,
    clocks: PathBuf,
    secret: String,
    service_token: String,
    audit_rows: u64,
}

impl SteeredCluster {
    /// Founds a cluster whose clocks are all wrong by `offset`.
    async fn found(size: u64, offset: &str) -> SteeredCluster {
        let mut cluster = Cluster::prepare(size, &[]);
        let clocks = cluster.file("clocks");
        fs::create_dir_all(&clocks).expect("a directory can be made");
        cluster.ids().into_iter().for_each(|id| set_clock(&clocks, id, offset));
        for id in cluster.ids() {
            cluster.set_environment(id, steerable(&clocks.join(id.to_string())));
        }
        let key = cluster.data_key_flags("a");
        cluster.set_options(&key.iter().map(String::as_str).collect::<Vec<_>>());
        cluster.restart_all().await;
        cluster.log_in_again().await;
        let api = cluster.api(1);
        api.publish("default", "app", "application.properties", "v=1").await.expect_code(200_000);
        let key = json!([{"app_id": "app", "name": "one", "mode": "enforce"}]);
        let made = api.post("/auth/v1/accesskeys", &key).await.expect_code(200_000);
        let secret = made.body["responses"][0]["accessKey"]["secret"].as_str().expect("a secret").to_owned();
        let grants = json!([{"role": "reader", "namespace": "*"}]);
        let token = json!([{"name": "ci", "grants": grants, "expires_in_s": 30 * 24 * 3600}]);
        let made = api.post("/auth/v1/tokens", &token).await.expect_code(200_000);
        let service_token = made.body["responses"][0]["token"]["secret"].as_str().expect("a token").to_owned();
        let file = json!([{"namespace": "default", "group": "app", "name": "week.properties", "content": "v=2"}]);
        api.post("/config/v1/configfiles", &file[0]).await.expect_code(200_000);
        let audit_rows = rows_of(&api).await;
        SteeredCluster { cluster, clocks, secret, service_token, audit_rows }
    }

    /// Plans a release in `in_s` seconds by the true time.
    async fn plan(&self, in_s: u64) {
        let at = OffsetDateTime::now_utc() + Duration::from_secs(in_s);
        let at = at.format(&time::format_description::well_known::Rfc3339).expect("a date");
        let release = json!({
            "namespace": "default", "group": "app", "file_name": "week.properties", "name": "planned", "publish_at": at,
        });
        let planned = self.cluster.api(1).post("/config/v1/configfiles/release", &release).await.expect_code(200_000);
        assert_eq!(planned.body["configFileRelease"]["state"], "scheduled", "{planned}");
    }

    fn set_clocks(&self, ids: &[u64], offset: &str) {
        ids.iter().for_each(|id| set_clock(&self.clocks, *id, offset));
    }

    /// Stops all nodes, has the clocks of some be wrong, and starts all.
    async fn restart_with(&mut self, wrong: &[u64], offset: &str) {
        for id in self.cluster.ids() {
            self.cluster.terminate(id).await;
        }
        self.set_clocks(wrong, offset);
        // They form a majority, and start first.
        for id in wrong {
            self.cluster.relaunch(*id).await;
        }
        for id in wrong {
            self.cluster.wait_ready(*id).await;
        }
        self.cluster.restart_all().await;
    }

    async fn set_right(&mut self) {
        self.set_clocks(&self.cluster.ids(), "+0");
    }

    async fn time(&self, id: u64) -> Value {
        self.cluster.api(id).get(TIME).await.expect_code(200_000).body
    }

    /// Seconds between the true time and the time of the cluster as this node shows it.
    async fn apart_s(&self, id: u64) -> u64 {
        OffsetDateTime::now_utc().unix_timestamp().abs_diff(seconds(&self.time(id).await["time"]))
    }

    /// Waits until each node has an alarm of the clock with these words, or none.
    async fn expect_alarm(&self, words: Option<&str>) {
        for id in self.cluster.running() {
            let api = self.cluster.api(id);
            eventually(LIMIT, &format!("node {id} has the alarm {words:?}"), || async {
                let alarms = api.get("/admin/v1/cluster").await.body["alarms"].clone();
                let kind = api.metric("thuban_alarm{kind=\"clock\"}").await;
                let found = alarms
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .find(|text| text.starts_with("the time of the cluster"));
                let is_found = match words {
                    Some(words) => found.is_some_and(|text| text.contains(words)) && kind == Some(1.0),
                    None => found.is_none() && kind != Some(1.0),
                };
                if is_found { Ok(()) } else { Err(format!("{alarms} {kind:?}")) }
            })
            .await;
        }
    }

    /// Fails unless everything is there that the wrong time would have ended, removed or published.
    async fn expect_kept(&self) {
        for id in self.cluster.running() {
            let api = self.cluster.api(id);
            let rows = rows_of(&api).await;
            assert!(rows >= self.audit_rows, "node {id} has {rows} audit rows of {}", self.audit_rows);
            let named = api.with_token(&self.service_token);
            named
                .get("/config/v1/configfiles?namespace=default&group=app&name=application.properties")
                .await
                .expect_code(200_000);
        }
        let path = "/config/v1/configfiles/releases?namespace=default&group=app&file_name=week.properties";
        let listed = self.cluster.api(1).get(path).await.expect_code(200_000);
        let [planned] = &listed.body["configFileReleases"].as_array().expect("a list")[..] else { panic!("{listed}") };
        assert_eq!((&planned["name"], &planned["state"]), (&json!("planned"), &json!("scheduled")), "{listed}");
    }

    /// Has an administrator set the time to that of most members' clocks, then looks at every node.
    async fn confirm_clocks(&self, asked: u64) {
        let api = self.cluster.api(asked);
        eventually(LIMIT, "most clocks are seen elsewhere", || async {
            let shown = api.get(TIME).await.body;
            if shown["most_clocks"].is_string() { Ok(()) } else { Err(shown.to_string()) }
        })
        .await;
        let answer = api.post(CONFIRM, &json!({"time": "clocks"})).await.expect_code(200_000);
        report(format!("the time was set: {}", answer.body["time"]));
        self.expect_right().await;
    }

    /// Waits until every node has the true time, accepts signatures with it, and dates writes by it.
    async fn expect_right(&self) {
        for id in self.cluster.running() {
            eventually(LIMIT, &format!("node {id} has the true time"), || async {
                let shown = self.time(id).await;
                let apart = OffsetDateTime::now_utc().unix_timestamp().abs_diff(seconds(&shown["time"]));
                let is_sure = shown["doubt"].is_null() && shown["time"] == shown["sure_time"];
                if apart <= APART_MAX_S && is_sure { Ok(()) } else { Err(format!("{apart} s apart: {shown}")) }
            })
            .await;
            let pulled = self.pull(id).await;
            assert_eq!(pulled.0, 200, "node {id}: {}", pulled.1);
        }
        self.expect_alarm(None).await;
        let name = format!("at-{}", OffsetDateTime::now_utc().unix_timestamp_nanos());
        let api = self.cluster.api(self.cluster.running()[0]);
        let apart = crate::clocks::written_apart_s(&api, &name).await;
        assert!(apart <= APART_MAX_S, "dated {apart} s off");
    }

    /// A pull that is signed with the true time: status and body.
    async fn pull(&self, id: u64) -> (u16, String) {
        let headers = signed(&self.secret, "app", FILE, 0);
        let pulled = self.cluster.apollo(id).get_with(FILE, &headers).await;
        (pulled.status, format!("{pulled:?}"))
    }
}

fn set_clock(clocks: &std::path::Path, id: u64, offset: &str) {
    // In one step: the library reads it at any moment.
    let (file, new) = (clocks.join(id.to_string()), clocks.join(format!("{id}.new")));
    fs::write(&new, format!("{offset}\n")).expect("a file can be written");
    fs::rename(&new, &file).expect("it can be renamed");
}

async fn rows_of(api: &Api) -> u64 {
    api.get("/admin/v1/audit?limit=1").await.expect_code(200_000).amount()
}

/// Starts all nodes of a cluster that is written to with clocks that are wrong by `offset`, puts them right and has the
/// time set to them; then what is written is dated right on every node.
pub(crate) async fn suffer(cluster: &mut Cluster, offset: &str, load: &Load) {
    let clocks = cluster.file("clocks");
    fs::create_dir_all(&clocks).expect("a directory can be made");
    let (ids, down) = (cluster.ids(), Instant::now());
    for id in &ids {
        cluster.terminate(*id).await;
        set_clock(&clocks, *id, offset);
        cluster.set_environment(*id, steerable(&clocks.join(id.to_string())));
    }
    cluster.restart_all().await;
    // With clocks that are behind, the length of the downtime is unknown: the time stops meanwhile, and catches up
    // later.
    let apart_max_s = APART_MAX_S + down.elapsed().as_secs();
    load.flows(LIMIT, 5).await;
    ids.iter().for_each(|id| set_clock(&clocks, *id, "+0"));
    let api = cluster.api(ids[0]);
    let is_ahead = offset.starts_with('+');
    // A clock that is behind moves no time back: it continues from the last stamp.
    eventually(LIMIT, "the clocks and the time are compared", || async {
        let shown = api.get(TIME).await.body;
        let is_seen = shown["most_clocks"].is_string() || (!is_ahead && shown["clocks_agree"] == true);
        if is_seen { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    let answer = api.post(CONFIRM, &json!({"time": "clocks"})).await;
    assert!([200_000, 200_002].contains(&answer.code()), "{answer}");
    for id in &ids {
        let name = format!("jump-{offset}-{id}-{}", OffsetDateTime::now_utc().unix_timestamp());
        let apart = crate::clocks::written_apart_s(&cluster.api(*id), &name.replace('+', "p")).await;
        assert!(apart <= apart_max_s, "node {id}: dated {apart} s off after {offset}");
    }
    load.flows(LIMIT, 5).await;
    for id in &ids {
        cluster.terminate(*id).await;
        cluster.set_environment(*id, Vec::new());
        cluster.restart(*id).await;
    }
}

/// A hardware clock in local time, on all machines after a power failure.
#[tokio::test(flavor = "multi_thread")]
async fn all_clocks_eight_hours_ahead_at_a_start_are_set_back() {
    let mut steered = SteeredCluster::found(3, "+0").await;
    steered.plan(4 * 3600).await;
    assert_eq!(steered.pull(1).await.0, 200);
    steered.restart_with(&[1, 2, 3], "+8h").await;
    steered.expect_alarm(Some("in doubt")).await;
    let shown = steered.time(2).await;
    assert_eq!((&shown["doubt"]["ends_by_itself"], &shown["waits"]["releases"]), (&json!(true), &json!(1)), "{shown}");
    steered.expect_kept().await;
    steered.set_right().await;
    steered.expect_alarm(Some("ahead of the clocks of most members")).await;
    let (status, refused) = steered.pull(3).await;
    assert_eq!(status, 401, "{refused}");
    let names_both = refused.contains("the request is signed at 20") && refused.contains("and it is 20");
    assert!(names_both, "it names both times: {refused}");
    steered.expect_kept().await;
    steered.confirm_clocks(2).await;
    steered.expect_kept().await;
    // Neither a leadership transfer nor a restarted node restores the previous time.
    let (leader, next) = (steered.cluster.leader().await, steered.cluster.followers().await[0]);
    steered.cluster.api(leader).post("/admin/v1/cluster/transfer", &json!({"to": next})).await.expect_code(200_000);
    steered.expect_right().await;
    let follower = steered.cluster.followers().await[0];
    steered.cluster.kill(follower).await;
    steered.cluster.restart(follower).await;
    steered.expect_right().await;
    steered.restart_with(&[], "+0").await;
    steered.expect_right().await;
    steered.cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_founded_eight_hours_behind_is_set_right() {
    let steered = {
        let mut steered = SteeredCluster::found(3, "-8h").await;
        assert!(steered.apart_s(1).await > 7 * 3600);
        steered.set_right().await;
        steered
    };
    steered.expect_alarm(Some("behind the clocks of most members")).await;
    let difference = steered.cluster.api(1).metric("thuban_clock_difference_seconds").await.expect("a series");
    assert!((difference - 8.0 * 3600.0).abs() < 60.0, "{difference} s");
    steered.confirm_clocks(1).await;
    steered.cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clocks_of_three_a_hundred_days_ahead_destroy_nothing() {
    let mut steered = SteeredCluster::found(3, "+0").await;
    steered.plan(7 * 24 * 3600).await;
    steered.restart_with(&[1, 2], "+100d").await;
    steered.expect_alarm(Some("in doubt")).await;
    steered.expect_kept().await;
    let shown = steered.time(1).await;
    assert_eq!(shown["doubt"]["ends_by_itself"], false, "{shown}");
    // A login made under the wrong time remains valid.
    let login = steered.cluster.api(3).login(ADMIN_PASSWORD).await.expect("a login");
    steered.set_right().await;
    // A node that is away when the time is set gets it with the log.
    let away = steered.cluster.followers().await[0];
    steered.cluster.kill(away).await;
    let asked = steered.cluster.running()[0];
    steered.confirm_clocks(asked).await;
    steered.cluster.restart(away).await;
    steered.expect_right().await;
    steered.expect_kept().await;
    steered.cluster.api(away).with_token(&login).get("/admin/v1/cluster").await.expect_code(200_000);
    steered.restart_with(&[], "+0").await;
    steered.expect_right().await;
    steered.expect_kept().await;
    steered.cluster.expect_equal_state().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_node_four_hundred_days_ahead_is_set_back() {
    let mut steered = SteeredCluster::found(1, "+0").await;
    steered.plan(7 * 24 * 3600).await;
    steered.restart_with(&[1], "+400d").await;
    steered.expect_alarm(Some("in doubt")).await;
    steered.expect_kept().await;
    steered.set_right().await;
    steered.confirm_clocks(1).await;
    steered.expect_kept().await;
    steered.restart_with(&[], "+0").await;
    steered.expect_right().await;
    steered.expect_kept().await;
}

/// A long pause with correct clocks: an administrator confirms the time instead of waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_time_that_is_in_doubt_is_confirmed() {
    let mut steered = SteeredCluster::found(3, "-30d").await;
    steered.restart_with(&[1, 2, 3], "+0").await;
    steered.expect_alarm(Some("--to present")).await;
    assert_eq!(steered.apart_s(2).await / APART_MAX_S, 0);
    steered.cluster.api(1).post(CONFIRM, &json!({"time": "tomorrow"})).await.expect_code(400_001);
    let unknown = steered.cluster.api(1).with_token(&steered.service_token);
    unknown.post(CONFIRM, &json!({"time": "present"})).await.expect_code(401_001);
    steered.cluster.api(3).post(CONFIRM, &json!({"time": "present"})).await.expect_code(200_000);
    // A login ends with the doubt, as thirty days have passed.
    steered.cluster.log_in_again().await;
    steered.expect_right().await;
    steered.cluster.api(3).post(CONFIRM, &json!({"time": "present"})).await.expect_code(200_002);
    let rows = steered.cluster.api(1).get("/admin/v1/audit?kind=time").await.expect_code(200_000);
    assert!(rows.amount() >= 1, "{rows}");
}

/// The clocks that count are those of the moment in which an administrator confirms them, not of the look before.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_put_right_this_moment_is_not_taken_for_what_it_was() {
    let mut steered = SteeredCluster::found(3, "+0").await;
    steered.plan(4 * 3600).await;
    for offset in ["-8h", "-100d"] {
        steered.restart_with(&[1, 2, 3], offset).await;
        steered.expect_alarm(Some("ahead of the clocks of most members")).await;
        steered.set_right().await;
        let answer = steered.cluster.api(1).post(CONFIRM, &json!({"time": "clocks"})).await;
        // It has stood still while all nodes were down: that may be too much to agree.
        assert!([200_000, 200_002].contains(&answer.code()), "{answer}");
        for id in steered.cluster.ids() {
            let apart = steered.apart_s(id).await;
            assert!(apart < 60, "node {id} is {apart} s off, after clocks that were wrong by {offset}");
        }
        steered.expect_alarm(None).await;
        steered.expect_kept().await;
    }
}

/// Output of a command, which is repeated as long as no leader is known.
async fn said(endpoint: &str, token: &str, arguments: &[&str]) -> String {
    eventually(LIMIT, "there is a leader", || async {
        let done = run(endpoint, token, arguments, "").await;
        if done.error.contains("(503001)") { Err(done.error) } else { Ok(done.expect(0)) }
    })
    .await
}

/// The steps of the run-book, with its commands.
#[tokio::test(flavor = "multi_thread")]
async fn the_run_book_of_a_wrong_time_works_as_it_is_written() {
    let mut steered = SteeredCluster::found(3, "-30d").await;
    let api = steered.cluster.api(1);
    let due = (OffsetDateTime::now_utc() - Duration::from_secs(10 * 24 * 3600)).unix_timestamp();
    let due = OffsetDateTime::from_unix_timestamp(due).expect("a time");
    let due = due.format(&time::format_description::well_known::Rfc3339).expect("a date");
    for name in ["kept.properties", "deleted.properties"] {
        let file = json!({"namespace": "default", "group": "app", "name": name, "content": "v=2"});
        api.post("/config/v1/configfiles", &file).await.expect_code(200_000);
        let release = json!({
            "namespace": "default", "group": "app", "file_name": name, "name": "planned", "publish_at": due,
        });
        api.post("/config/v1/configfiles/release", &release).await.expect_code(200_000);
    }
    steered.restart_with(&[1, 2, 3], "+0").await;
    steered.expect_alarm(Some("--to present")).await;
    let endpoint = format!("http://{}", steered.cluster.ports(2).api);
    let token = steered.cluster.token().to_owned();
    // Step 1.
    let shown = said(&endpoint, &token, &["cluster", "time"]).await;
    for words in ["30 d 0 h", "waits for `thuban cluster confirm-time`", "releases 2,", "agree with the time", "node 3"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    // Step 3. Step 2 is done: the clocks are right.
    let planned = said(&endpoint, &token, &["history", "configfile/app/deleted.properties"]).await;
    assert!(planned.contains("schedule  planned"), "{planned}");
    let deleted = json!([{
        "namespace": "default", "group": "app", "file_name": "deleted.properties", "name": "planned",
    }]);
    api.post("/config/v1/configfiles/releases/delete", &deleted).await.expect_code(200_000);
    said(&endpoint, &token, &["cluster", "confirm-time", "--to", "present"]).await;
    let over = run(&endpoint, &token, &["cluster", "time"], "").await;
    assert!(over.code != 0 && over.error.contains("thuban login"), "{}", over.error);
    steered.cluster.log_in_again().await;
    let token = steered.cluster.token().to_owned();
    let api = steered.cluster.api(3);
    let releases = async |name: &str| {
        let path = format!("/config/v1/configfiles/releases?namespace=default&group=app&file_name={name}");
        api.get(&path).await.expect_code(200_000)
    };
    eventually(LIMIT, "what waited and is due is done", || async {
        let listed = releases("kept.properties").await;
        if listed.body["configFileReleases"][0]["state"] == "active" { Ok(()) } else { Err(listed.to_string()) }
    })
    .await;
    assert_eq!(releases("deleted.properties").await.amount(), 0);
    // Step 5.
    let shown = said(&endpoint, &token, &["cluster", "time"]).await;
    assert!(shown.contains("doubt            none"), "{shown}");
    steered.expect_alarm(None).await;
    let status = said(&endpoint, &token, &["cluster", "status"]).await;
    assert!(!status.contains("ALARM"), "{status}");
    // Steps 2 and 4, with all clocks wrong at a start and put right.
    steered.restart_with(&[1, 2, 3], "+8h").await;
    steered.expect_alarm(Some("in doubt")).await;
    steered.set_right().await;
    said(&endpoint, &token, &["cluster", "confirm-time", "--to", "clocks"]).await;
    let shown = said(&endpoint, &token, &["cluster", "time"]).await;
    assert!(shown.contains("doubt            none") && shown.contains("agree with the time"), "{shown}");
    steered.expect_right().await;
}
