//! Contents that are malformed in their format: saved, reported, and not published.

use super::*;

const FILES: &str = "/config/v1/configfiles";

fn named(name: &str) -> Value {
    json!({ "namespace": "n", "group": "g", "name": name })
}

fn with(mut item: Value, fields: Value) -> Value {
    let fields = fields.as_object().expect("fields").clone();
    item.as_object_mut().expect("an item").extend(fields);
    item
}

fn to_release(name: &str) -> Value {
    json!({ "namespace": "n", "group": "g", "file_name": name })
}

/// A file name, a malformed content, the place of the fault, and a well-formed content.
const ROWS: [(&str, &str, &str, &str); 6] = [
    ("a.json", "{\n \"a\": }", "line 2, column 7: ", "{}"),
    ("a.yaml", "a: 1\nb: 2\na: 3", "line 3, column 1: ", "a: 1"),
    ("a.yml", "a: [1", "line 2, column 1: ", "a: [1]"),
    ("a.toml", "a = 1\nb =", "line 2, column ", "a = 1"),
    ("a.xml", "<a>\n<b></a>", "line 2, column ", "<a/>"),
    ("a.properties", "a=1\nb=\\u12", "line 2, column 3: ", "a=1"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_draft_is_kept_and_told_of_and_not_published() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let send = async |method: &str, path: &str, body: Value| bench.send(method, path, Some(&token), body).await.1;
    for (name, broken, place, whole) in ROWS {
        let saved = send("POST", FILES, with(named(name), json!({ "content": broken }))).await;
        let warning = saved["warnings"][0].as_str().unwrap_or_default();
        assert!(saved["code"] == 200_000 && warning.starts_with(place), "{name}: {saved}");
        let refused = send("POST", &format!("{FILES}/release"), to_release(name)).await;
        let info = refused["info"].as_str().unwrap_or_default();
        assert!(refused["code"] == 400_813 && info.contains(place), "{name}: {refused}");
        let refused =
            send("POST", &format!("{FILES}/createandpub"), with(to_release(name), json!({ "content": broken }))).await;
        assert_eq!(refused["code"], 400_813, "{name}: {refused}");
        // The draft alone changes the format; the publish validates the result.
        let refused = send("POST", &format!("{FILES}/createandpub"), to_release(name)).await;
        assert_eq!(refused["code"], 400_813, "{name}: {refused}");
        let forced = send("POST", &format!("{FILES}/release?force=true"), to_release(name)).await;
        let code = if name == "a.properties" { 400_813 } else { 200_000 };
        assert_eq!(forced["code"], code, "{name}: {forced}");
        let saved = send("PUT", FILES, with(named(name), json!({ "content": whole }))).await;
        assert_eq!((&saved["code"], &saved["warnings"]), (&json!(200_000), &Value::Null), "{name}: {saved}");
        let published = send("POST", &format!("{FILES}/release"), to_release(name)).await;
        assert_eq!(published["code"], 200_000, "{name}: {published}");
    }
    for item in [json!({ "format": "text" }), json!({ "format": "html" })] {
        let body = with(with(to_release("free"), item), json!({ "content": "{ <a> = \\u1" }));
        let published = send("POST", &format!("{FILES}/createandpub"), body).await;
        assert_eq!((&published["code"], &published["warnings"]), (&json!(200_000), &Value::Null), "{published}");
    }
    let empty = send("POST", &format!("{FILES}/createandpub"), to_release("empty.json")).await;
    assert_eq!(empty["code"], 200_000, "a new file without a content: {empty}");
    let missing = send("POST", &format!("{FILES}/release"), to_release("missing.json")).await;
    assert_eq!(missing["code"], 400_202, "{missing}");
    let items = json!([
        with(to_release("b.json"), json!({ "content": "[" })),
        with(to_release("c.json"), json!({ "content": "[]" }))
    ]);
    let batch = send("POST", &format!("{FILES}/createandpub"), items).await;
    let codes: Vec<_> =
        batch["responses"].as_array().expect("a batch").iter().map(|item| item["code"].clone()).collect();
    assert_eq!(codes, [400_813, 200_000], "each by itself: {batch}");
    bench.stop().await;
}

/// A later change of the format makes the draft malformed.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_file_is_read_as_decides() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let send = async |method: &str, path: &str, body: Value| bench.send(method, path, Some(&token), body).await.1;
    let saved = send("POST", FILES, with(named("app"), json!({ "content": "a=1" }))).await;
    assert_eq!((&saved["code"], &saved["warnings"]), (&json!(200_000), &Value::Null), "{saved}");
    let saved = send("PUT", FILES, with(named("app"), json!({ "format": "json" }))).await;
    assert!(saved["warnings"][0].as_str().is_some_and(|told| told.starts_with("line 1, column 1: ")), "{saved}");
    let refused = send("POST", &format!("{FILES}/createandpub"), to_release("app")).await;
    assert_eq!(refused["code"], 400_813, "{refused}");
    let body = with(to_release("app"), json!({ "content": "[1" }));
    let refused = send("POST", &format!("{FILES}/createandpub"), body).await;
    assert_eq!(refused["code"], 400_813, "the format is the file's: {refused}");
    let body = with(to_release("app"), json!({ "content": "a: [1]", "format": "yaml" }));
    let published = send("POST", &format!("{FILES}/createandpub"), body).await;
    assert_eq!(published["code"], 200_000, "{published}");
    let md5 = published["configFileRelease"]["md5"].as_str().expect("an md5").to_owned();
    let refused = send("POST", &format!("{FILES}/release"), with(to_release("app"), json!({ "md5": "0" }))).await;
    assert_eq!(refused["code"], 409_000, "{refused}");
    let published = send("POST", &format!("{FILES}/release"), with(to_release("app"), json!({ "md5": md5 }))).await;
    assert_eq!(published["code"], 200_000, "{published}");
    bench.stop().await;
}

/// While drafts change concurrently, each publish has the draft that was validated.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_changes_meanwhile_is_judged_again() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let send = async |method: &str, path: &str, body: Value| bench.send(method, path, Some(&token), body).await.1;
    send("POST", FILES, with(named("a.json"), json!({ "content": "[0]" }))).await;
    let changes = async {
        for turn in 0..60 {
            let content = if turn % 2 == 0 { format!("[{turn}") } else { format!("[{turn}]") };
            send("PUT", FILES, with(named("a.json"), json!({ "content": content }))).await;
        }
    };
    let publishes = async {
        let (mut published, mut overtaken) = (0, 0);
        for _ in 0..60 {
            let answer = send("POST", &format!("{FILES}/release"), to_release("a.json")).await;
            let code = answer["code"].as_u64().expect("a code");
            assert!([200_000, 400_813, 409_000].contains(&code), "{answer}");
            overtaken += usize::from(code == 409_000);
            if code == 200_000 {
                published += 1;
                let content = answer["configFileRelease"]["content"].as_str().expect("a content");
                assert!(serde_json::from_str::<Value>(content).is_ok(), "{content} was published");
            }
        }
        (published, overtaken)
    };
    let ((), (published, overtaken)) = futures_util::join!(changes, publishes);
    // A retried publish is one audit row, with its final answer.
    for (code, count) in [(200_000, published), (409_000, overtaken)] {
        let rows = bench.trail(&token, &format!("kind=configfile&name=g/a.json&code={code}")).await;
        let publishes = rows.iter().filter(|row| row["action"] == "publish");
        assert_eq!(publishes.count(), count, "{code}: {rows:?}");
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_found_by_a_part_of_their_content() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    for (group, name, content) in [("g", "one", "url=db-1"), ("g", "two", "url=db-2"), ("h", "three", "note=DB-1")] {
        let body = json!({ "namespace": "n", "group": group, "name": name, "content": content });
        bench.send("POST", FILES, Some(&token), body).await;
    }
    let rows = [
        ("content=db-", vec!["one", "two"]),
        ("content=db-&group=g&namespace=n", vec!["one", "two"]),
        ("content=db-&name=t*", vec!["two"]),
        ("content=DB", vec!["three"]),
        ("content=url%3Ddb-1", vec!["one"]),
        ("content=nothing", vec![]),
        ("content=", vec!["one", "three", "two"]),
    ];
    for (query, expected) in rows {
        let (_, answer) = bench.send("GET", &format!("{FILES}/search?{query}"), Some(&token), Value::Null).await;
        let files = answer["configFiles"].as_array().expect("files");
        let mut names: Vec<_> = files.iter().map(|file| file["name"].as_str().expect("a name")).collect();
        names.sort_unstable();
        assert_eq!((names, answer["amount"].as_u64()), (expected.clone(), Some(expected.len() as u64)), "{query}");
    }
    let page = format!("{FILES}/search?content=db-&limit=1&offset=1");
    let (_, answer) = bench.send("GET", &page, Some(&token), Value::Null).await;
    assert_eq!((&answer["amount"], &answer["size"]), (&json!(2), &json!(1)), "{answer}");
    bench.stop().await;
}
