//! Listing of the audit trail: user, address, outcome, and refused queries.

use super::*;

impl Bench {
    pub(super) async fn trail(&self, token: &str, query: &str) -> Vec<Value> {
        let path = format!("/admin/v1/audit?{query}");
        let (status, answer) = self.send("GET", &path, Some(token), Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!(answer["size"].as_u64(), answer["data"].as_array().map(|rows| rows.len() as u64));
        answer["data"].as_array().expect("a list").clone()
    }

    /// Waits for audit notes, which are written within a second or two.
    async fn await_trail(&self, token: &str, query: &str) -> Vec<Value> {
        for _ in 0..300 {
            let rows = self.trail(token, query).await;
            if !rows.is_empty() {
                return rows;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("nothing is found with {query}");
    }
}

fn parts<'a>(row: &'a Value, keys: &[&str]) -> Vec<&'a Value> {
    keys.iter().map(|key| &row[*key]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_logins_and_refusals_are_found() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let items = json!([{ "name": "a", "namespace": "n" }, { "name": "a", "namespace": "n" }]);
    let (_, made) = bench.send("POST", "/naming/v1/services", Some(&token), items).await;
    let rows = bench.trail(&token, "kind=service&limit=2").await;
    let keys = ["user", "action", "kind", "namespace", "name", "code", "address"];
    let row = |code: u32| json!(["admin", "create", "service", "n", "a", code, "192.0.2.1"]);
    assert_eq!(json!(parts(&rows[0], &keys)), row(400_201));
    assert_eq!(json!(parts(&rows[1], &keys)), row(200_000));
    assert_eq!((&rows[1]["after"], &rows[1]["before"]), (&made["responses"][0]["service"]["revision"], &json!("")));
    assert!(rows[1]["request_id"].as_str().is_some_and(|id| !id.is_empty()), "{rows:?}");
    let login = bench.trail(&token, "kind=user&user=admin&code=200000").await;
    assert_eq!(json!(parts(&login[0], &["action", "name", "token"])), json!(["login", "admin", rows[0]["token"]]));

    let wrong = json!({ "name": "admin", "password": "a wrong secret" });
    bench.send("POST", "/auth/v1/user/login", None, wrong).await;
    let mistaken = json!({ "name": "typed-into-the-wrong-field", "password": "x" });
    bench.send("POST", "/auth/v1/user/login", None, mistaken).await;
    bench.send("POST", "/naming/v1/services", Some("no-such-token"), json!([{}])).await;
    let failed = bench.await_trail(&token, "kind=user&code=401001&user=admin").await;
    let keys = ["user", "action", "name", "token", "address", "count"];
    assert_eq!(json!(parts(&failed[0], &keys)), json!(["admin", "login", "admin", "", "192.0.2.1", 1]));
    let refused = bench.await_trail(&token, "kind=route").await;
    let keys = ["user", "action", "name", "code"];
    assert_eq!(json!(parts(&refused[0], &keys)), json!(["", "refused", "POST /naming/v1/services", 401_004]));

    // A caller without the permission is refused, and the answer names it.
    let reader =
        json!([{ "name": "rita", "password": "long enough", "grants": [{ "role": "reader", "namespace": "*" }] }]);
    let (_, answer) = bench.send("POST", "/auth/v1/users", Some(&token), reader).await;
    assert_eq!(answer["code"], 200_000, "{answer}");
    let login = json!({ "name": "rita", "password": "long enough" });
    let (_, answer) = bench.send("POST", "/auth/v1/user/login", None, login).await;
    let rita = answer["loginResponse"]["token"].as_str().expect("a token");
    let (_, answer) = bench.send("GET", "/admin/v1/audit", Some(rita), Value::Null).await;
    assert_eq!(answer["code"], 401_001);
    let (_, answer) =
        bench.send("POST", "/naming/v1/services", Some(rita), json!([{ "name": "b", "namespace": "n" }])).await;
    assert_eq!(answer["code"], 401_001);
    let refused = bench.await_trail(&token, "user=rita&kind=route").await;
    assert_eq!(refused[0]["name"], "GET /admin/v1/audit");
    let refused = bench.trail(&token, "user=rita&kind=service&code=401001").await;
    assert_eq!((&refused[0]["name"], refused.len()), (&json!("b"), 1));

    let all = json!(bench.trail(&token, "").await).to_string();
    for secret in
        [PASSWORD, "a wrong secret", "typed-into-the-wrong-field", "no-such-token", "long enough", &token, rita]
    {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trail_is_cut_into_pages_and_bad_questions_are_refused() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let items: Vec<_> = (0..5).map(|number| json!({ "name": format!("s{number}"), "namespace": "n" })).collect();
    bench.send("POST", "/naming/v1/services", Some(&token), json!(items)).await;
    let names = async |query: &str| {
        let rows = bench.trail(&token, query).await;
        rows.iter().map(|row| row["name"].as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("kind=service&limit=2").await, ["s4", "s3"]);
    assert_eq!(names("kind=service&limit=2&offset=4").await, ["s0"]);
    assert_eq!(names("limit=2&offset=1").await, ["s3", "s2"]);
    assert_eq!(names("namespace=N*&name=s1").await, ["s1"]);
    assert_eq!(names("since=2100-01-01%2000:00:00").await, [""; 0]);
    assert_eq!(names("until=2001-01-01T00:00:00Z").await, [""; 0]);
    assert_eq!(
        names("kind=service&since=2001-01-01T00:00:00%2B02:00&until=2100-01-01%2000:00:00&limit=1").await,
        ["s4"]
    );
    let path = "/admin/v1/audit?limit=0";
    let (_, answer) = bench.send("GET", path, Some(&token), Value::Null).await;
    assert_eq!((&answer["amount"], &answer["size"]), (&json!(6), &json!(0)));
    for query in ["since=yesterday", "until=1", "code=x", "code=-1", "limit=-1", "since=2026-01-01"] {
        let (_, answer) = bench.send("GET", &format!("/admin/v1/audit?{query}"), Some(&token), Value::Null).await;
        assert_eq!(answer["code"], 400_103, "{query}: {answer}");
    }
    bench.stop().await;
}
