//! Lists of what is large: what they carry, how long they get, and what they cost the node.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::Memory;
use crate::harness::{Answer, Api, Cluster, run};

const FILES: u64 = 100;
const CONTENT_BYTES: usize = 1_000_000;
/// Files with an earlier version, which is on disk alone.
const EARLIER: u64 = 30;
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
const SERVICES: u64 = 80;
/// One of the longest answers, while it is moved to a larger buffer, and what the allocator keeps.
const GROWTH_MIB: f64 = 96.0;

/// Sends a request and returns its answer, while the memory of the node is measured.
async fn ask(cluster: &Cluster, memory: &mut Memory, path: &str) -> Answer {
    let (api, path) = (cluster.api(1), path.to_owned());
    let mut answer = tokio::spawn(async move { api.get(&path).await });
    loop {
        memory.look(cluster, 1);
        if let Ok(answer) = tokio::time::timeout(Duration::from_millis(1), &mut answer).await {
            return answer.expect("the request does not panic");
        }
    }
}

fn rows<'a>(answer: &'a Answer, element: &str) -> &'a Vec<Value> {
    answer.body[element].as_array().unwrap_or_else(|| panic!("a list: {:.300}", answer.body.to_string()))
}

/// Returns the number of rows that fit, from the refusal of a list that is too long.
fn fitting(answer: &Answer) -> u64 {
    assert_eq!((answer.status, answer.code()), (413, 413_002), "{:.300}", answer.body.to_string());
    answer.body["limit"].as_u64().expect("how many fit")
}

async fn publish(api: &Api, number: u64, letter: &str) {
    let file = json!({"namespace": "default", "group": "app", "file_name": format!("f{number:03}.txt"),
        "content": letter.repeat(CONTENT_BYTES)});
    api.post("/config/v1/configfiles/createandpub", &file).await.expect_code(200_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_large_files_is_brief_or_bounded() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    for number in 0..FILES {
        if number < EARLIER {
            publish(&api, number, "a").await;
        }
        publish(&api, number, "b").await;
    }
    let mut memory = Memory::of(&cluster, 1);
    for (list, element, amount) in
        [("search", "configFiles", FILES), ("releases", "configFileReleases", FILES + EARLIER)]
    {
        let path = format!("/config/v1/configfiles/{list}?namespace=default");
        let brief = ask(&cluster, &mut memory, &path).await.expect_code(200_000);
        assert_eq!((brief.amount(), rows(&brief, element).len()), (amount, 100), "{list}");
        assert!(rows(&brief, element).iter().all(|row| row.get("content").is_none()), "{list}");
        let refused = ask(&cluster, &mut memory, &format!("{path}&brief=false")).await;
        let limit = fitting(&refused);
        assert_eq!(limit, (ANSWER_BYTES_MAX / (CONTENT_BYTES + 1000)) as u64, "{list}");
        assert_eq!(
            fitting(&ask(&cluster, &mut memory, &format!("{path}&brief=false&limit={}", limit + 1)).await),
            limit
        );
        // Page by page, as many as fit: everything is there, what is on disk alone too.
        let (mut after, mut seen) = (String::new(), BTreeSet::new());
        loop {
            let page = format!("{path}&brief=false&order=key&limit={limit}{after}");
            let page = ask(&cluster, &mut memory, &page).await.expect_code(200_000);
            for row in rows(&page, element) {
                let content = row["content"].as_str().expect("a content");
                assert_eq!(content.len(), CONTENT_BYTES, "{list}");
                seen.insert((row["id"].to_string(), content.starts_with('b')));
            }
            let Some(end) = page.body["after"].as_str() else { break };
            after = format!("&after={end}");
        }
        let current = seen.iter().filter(|(_, is_current)| *is_current).count() as u64;
        assert_eq!((seen.len() as u64, current), (amount, FILES), "{list}");
    }
    memory.expect_growth_below(GROWTH_MIB, "lists of 100 files of 1 MB");

    // The command line asks for as many as are answered.
    let endpoint = format!("http://{}", cluster.ports(1).api);
    let exported = run(&endpoint, cluster.token(), &["export", "configfiles"], "").await.expect(0);
    assert_eq!(exported.matches("kind: configfile").count() as u64, FILES);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_services_of_a_namespace_are_answered_as_far_as_they_fit() {
    let cluster = Cluster::start(1).await;
    let api = cluster.api(1);
    let large: serde_json::Map<_, _> = (0..60).map(|key| (format!("k{key}"), json!("v".repeat(4000)))).collect();
    for first in (0..SERVICES).step_by(8) {
        let one = |number| json!({"namespace": "large", "name": format!("s{number:02}"), "metadata": large});
        let batch: Vec<_> = (first..first + 8).map(one).collect();
        api.post("/naming/v1/services", &json!(batch)).await.expect_code(200_000);
    }
    let discover = json!({"type": "SERVICES", "service": {"namespace": "large"}});
    let limit = fitting(&api.post("/v1/Discover", &discover).await);
    for path in ["/naming/v1/services/all?namespace=large", "/naming/v1/services?namespace=large"] {
        let refused = fitting(&api.get(path).await);
        assert!(refused.abs_diff(limit) <= 1 && (60..SERVICES).contains(&refused), "{path}: {refused} and {limit}");
        let first = api.get(&format!("{path}&order=key&limit={refused}")).await.expect_code(200_000);
        let end = first.body["after"].as_str().expect("there are more");
        let rest = api.get(&format!("{path}&after={end}")).await.expect_code(200_000);
        let names: BTreeSet<_> = [&first, &rest]
            .into_iter()
            .flat_map(|page| rows(page, "services"))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|row| row["name"].to_string())
            .collect();
        assert_eq!(names.len() as u64, SERVICES, "{path}");
    }
    // A client with the current revision gets no data.
    let small = json!({"type": "SERVICES", "service": {"namespace": "small"}});
    assert_eq!(api.post("/v1/Discover", &small).await.expect_code(200_000).body["services"], json!([]));
}
