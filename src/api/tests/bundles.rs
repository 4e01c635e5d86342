//! Archives and copies of config files.

use super::*;
use crate::bundle;

const FILES: &str = "/config/v1/configfiles";

fn raw(bytes: &[u8]) -> Value {
    json!(format!("{RAW}{}", STANDARD.encode(bytes)))
}

/// Returns the result of each file, by name.
fn results(answer: &Value) -> Vec<(String, String, u64)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let responses = answer["responses"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let one = |item: &Value| (text(&item["name"]), text(&item["result"]), item["code"].as_u64().unwrap_or_default());
    responses.iter().map(one).collect()
}

fn row(name: &str, result: &str, code: u64) -> (String, String, u64) {
    (name.to_owned(), result.to_owned(), code)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_is_imported_elsewhere() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let send = async |method: &str, path: &str, body: Value| bench.send(method, path, Some(&token), body).await.1;
    let tags = json!([{ "key": "k", "value": "v" }]);
    let files = json!([
        { "namespace": "n", "group": "g", "name": "a.yaml", "content": "a: 1", "comment": "c", "tags": tags },
        { "namespace": "n", "group": "g", "name": "dir/b.txt", "content": "字" },
        { "namespace": "n", "group": "h", "name": "a.yaml", "content": "a: 2" },
    ]);
    send("POST", FILES, files).await;
    let export = async |body: Value| {
        let path = format!("{FILES}/export");
        let (status, bytes) = bench.send_bytes("192.0.2.1", "POST", &path, Some(&token), body).await;
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&bytes));
        bytes
    };
    let all = export(json!({ "namespace": "n" })).await;
    let some = export(json!({ "namespace": "n", "groups": ["g"], "names": ["a.yaml"] })).await;

    let import =
        async |archive: &Bytes, query: &str| send("POST", &format!("{FILES}/import?{query}"), raw(archive)).await;
    let answer = import(&all, "namespace=m").await;
    let created =
        [row("a.yaml", "created", 200_000), row("dir/b.txt", "created", 200_000), row("a.yaml", "created", 200_000)];
    assert_eq!(results(&answer), created, "{answer}");
    assert_eq!(answer["createConfigFiles"].as_array().map(Vec::len), Some(3));
    let file = send("GET", &format!("{FILES}?namespace=m&group=g&name=a.yaml"), Value::Null).await;
    let file = &file["configFile"];
    assert_eq!((&file["content"], &file["comment"], &file["tags"]), (&json!("a: 1"), &json!("c"), &tags), "{file}");
    assert_eq!(file["status"], "to-be-released", "an import publishes nothing");

    let answer = import(&all, "namespace=m&conflict_handling=overwrite").await;
    assert!(results(&answer).iter().all(|(_, result, code)| result == "skipped" && *code == 200_002), "{answer}");
    let changed = json!({ "namespace": "m", "group": "g", "name": "a.yaml", "content": "a: 3" });
    send("PUT", FILES, changed).await;
    let answer = import(&some, "namespace=m&group=g").await;
    assert_eq!(results(&answer), [row("a.yaml", "skipped", 200_002)], "{answer}");
    let answer = import(&some, "namespace=m&group=g&conflict_handling=overwrite").await;
    assert_eq!(results(&answer), [row("a.yaml", "overwritten", 200_000)], "{answer}");
    let refused = import(&all, "namespace=m&conflict_handling=rename").await;
    assert_eq!(refused["code"], 400_103, "{refused}");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_file_of_an_archive_is_judged_by_itself() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let long = "x".repeat(1001);
    let files = [
        ("g/good", "k=1"),
        ("../../etc/passwd", "k=1"),
        ("g/../h/up", "k=1"),
        ("/g/rooted", "k=1"),
        ("groupless", "k=1"),
        ("g/long", long.as_str()),
        ("g/broken.json", "{"),
        ("g/last", "k=2"),
        ("g/.DS_Store", ""),
        ("__MACOSX/g/._last", ""),
    ];
    let archive = bundle::write(files.into_iter()).expect("written");
    let path = format!("{FILES}/import?namespace=n");
    let (_, answer) = bench.send("POST", &path, Some(&token), raw(&archive)).await;
    let codes: Vec<_> = results(&answer).into_iter().map(|(_, result, code)| (result, code)).collect();
    let failed = |code| ("failed".to_owned(), code);
    let created = || ("created".to_owned(), 200_000);
    let expected = [
        created(),
        failed(400_802),
        failed(400_802),
        failed(400_801),
        failed(400_801),
        failed(400_803),
        created(),
        created(),
    ];
    assert_eq!(codes, expected, "{answer}");
    assert_eq!(answer["left_out"], json!(["g/.DS_Store", "__MACOSX/g/._last"]), "{answer}");
    assert!(answer["responses"][6]["warnings"][0].as_str().is_some_and(|told| told.starts_with("line 1")), "{answer}");

    // As a form, in which browsers and Polaris' tools send it.
    let mut form = b"--cut\r\nContent-Disposition: form-data; name=\"config\"; filename=\"a.zip\"\r\n\r\n".to_vec();
    form.extend_from_slice(&archive);
    form.extend_from_slice(b"\r\n--cut--\r\n");
    let request = Request::builder().method("POST").uri(&path).header("Authorization", &token);
    let request = request.header("Content-Type", "multipart/form-data; boundary=cut").body(Body::from(form));
    let response = bench.router.clone().oneshot(request.expect("a request")).await.expect("an answer");
    let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(answer["skipConfigFiles"].as_array().map(Vec::len), Some(3), "{answer}");

    for (body, code) in [(raw(b"no archive"), 400_000), (Value::Null, 400_000)] {
        let (_, answer) = bench.send("POST", &path, Some(&token), body).await;
        assert_eq!(answer["code"], code, "{answer}");
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_copied_to_another_namespace() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let send = async |path: &str, body: Value| bench.send("POST", path, Some(&token), body).await.1;
    // More files than fit into one command.
    let file = |n: usize| {
        json!({ "namespace": "n", "group": format!("g{}", n % 2), "name": format!("f{n:03}.json"),
            "content": format!("[{n}]") })
    };
    for from in [0, 100, 200] {
        send(FILES, (from..from + 100).map(file).collect()).await;
    }
    let copy = async |body: Value| send(&format!("{FILES}/copy"), body).await;
    let answer = copy(json!({ "namespace": "n", "to_namespace": "m" })).await;
    assert_eq!((&answer["code"], &answer["amount"]), (&json!(200_000), &json!(300)), "{answer:.300}");
    let answer = copy(json!({ "namespace": "n", "groups": ["g1"], "to_namespace": "m", "to_group": "h" })).await;
    assert_eq!((&answer["code"], &answer["amount"]), (&json!(200_000), &json!(150)), "{answer:.300}");
    let order = json!({ "namespace": "n", "groups": ["g1"], "names": ["f001.json"], "to_namespace": "m",
        "conflict_handling": "overwrite" });
    assert_eq!(results(&copy(order).await), [row("f001.json", "skipped", 200_002)]);
    for (order, code) in [
        (json!({ "namespace": "n" }), 400_103),
        (json!({ "to_namespace": "n" }), 400_103),
        (json!({ "namespace": "n", "names": ["a"], "to_namespace": "m" }), 400_103),
        (json!({ "namespace": "n", "to_namespace": "m", "to_group": "g" }), 400_103),
        (json!({ "namespace": "none", "to_namespace": "m" }), 400_202),
        (json!({ "namespace": "n", "to_namespace": "m", "conflict_handling": "both" }), 400_001),
    ] {
        let answer = copy(order.clone()).await;
        assert_eq!(answer["code"], code, "{order} {answer}");
    }
    bench.stop().await;
}
