//! Encrypted config files: visibility, and every operation on them.

use super::*;
use crate::bundle;

const FILES: &str = "/config/v1/configfiles";
const SECRET: &str = "password=correct horse";

fn with(mut item: Value, fields: Value) -> Value {
    item.as_object_mut().expect("an item").extend(fields.as_object().expect("fields").clone());
    item
}

fn named(name: &str, fields: Value) -> Value {
    with(json!({ "namespace": "n", "group": "g", "name": name }), fields)
}

/// Returns a body in which the name is that of a release.
fn to_release(name: &str, fields: Value) -> Value {
    with(json!({ "namespace": "n", "group": "g", "file_name": name }), fields)
}

fn of(name: &str) -> String {
    format!("namespace=n&group=g&name={name}")
}

fn of_releases(name: &str) -> String {
    format!("namespace=n&group=g&file_name={name}")
}

/// Creates a caller with a role in a namespace.
async fn caller(bench: &Bench, admin: &str, role: &str, namespace: &str) -> String {
    let item = json!({ "name": format!("{role}-{namespace}"), "grants": [{ "role": role, "namespace": namespace }] });
    let (_, made) = bench.send("POST", "/auth/v1/tokens", Some(admin), json!([item])).await;
    made["responses"][0]["token"]["secret"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_edit_sees_what_an_encrypted_file_says() {
    let bench = Bench::start_with(&["a"]).await;
    let admin = bench.log_in().await;
    let (editor, reader) = (caller(&bench, &admin, "editor", "n").await, caller(&bench, &admin, "reader", "n").await);
    let releaser = caller(&bench, &admin, "releaser", "n").await;
    let send =
        async |token: &str, method: &str, path: &str, body: Value| bench.send(method, path, Some(token), body).await.1;

    let made = send(&editor, "POST", FILES, named("a", json!({ "content": SECRET, "encrypted": true }))).await;
    let file = &made["configFile"];
    assert_eq!((&file["encrypted"], &file["encryptAlgo"]), (&json!(true), &json!("XChaCha20-Poly1305")), "{made}");
    assert_eq!(file.get("content"), None, "no answer to a write has it");
    let published =
        send(&releaser, "POST", &format!("{FILES}/release"), to_release("a", json!({ "name": "r1" }))).await;
    assert_eq!(published["code"], 200_000, "a releaser publishes what it does not see: {published}");
    let second = to_release("a", json!({ "content": "password=2", "release_name": "r2" }));
    let published = send(&admin, "POST", &format!("{FILES}/createandpub"), second).await;
    assert_eq!(published["code"], 200_000, "{published}");

    for (token, sees) in [(&admin, true), (&editor, true), (&reader, false), (&releaser, false)] {
        let get = async |path: String| send(token, "GET", &path, Value::Null).await;
        let file = get(format!("{FILES}?{}", of("a"))).await["configFile"].clone();
        assert_eq!(file.get("content"), sees.then(|| json!("password=2")).as_ref(), "{file}");
        assert_eq!(file["encrypted"], true);
        let release = get(format!("{FILES}/release?{}&release_name=r1", of_releases("a"))).await;
        let release = &release["configFileRelease"];
        assert_eq!(release.get("content"), sees.then(|| json!(SECRET)).as_ref(), "{release}");
        // The md5 is that of the stored bytes: it can be compared, but does not help to guess the content.
        let md5 = release["md5"].as_str().expect("an md5");
        assert!(md5.len() == 32 && md5 != "a83716fd14985eb8ab7163848de0b672", "{release}");
        let diff = get(format!("{FILES}/release/diff?{}&from=r1&to=r2", of_releases("a"))).await;
        let code = if sees { 200_000 } else { 401_001 };
        assert_eq!(diff["code"], code, "{diff}");
        assert_eq!(diff.to_string().contains("correct horse"), sees, "{diff}");
        for path in [
            format!("{FILES}/search?namespace=n&brief=false"),
            format!("{FILES}/releases?{}&brief=false", of_releases("a")),
            format!("{FILES}/release/versions?{}&brief=false", of_releases("a")),
            format!("{FILES}/releasehistory?{}", of_releases("a")),
            format!("{FILES}/subscribers?{}", of_releases("a")),
        ] {
            let listed = get(path.clone()).await;
            assert!(listed["code"] == 200_000 && !listed.to_string().contains("password"), "{path}: {listed}");
        }
        for part in ["correct", "password", "="] {
            let found = get(format!("{FILES}/search?content={part}")).await;
            assert_eq!(found["amount"], 0, "{part}: {found}");
        }
    }
    let published = send(&reader, "GET", &format!("{FILES}/release?{}", of_releases("a")), Value::Null).await;
    let md5 = published["configFileRelease"]["md5"].clone();
    let expecting = |md5: Value| to_release("a", json!({ "content": "password=3", "md5": md5 }));
    assert_eq!(send(&admin, "POST", &format!("{FILES}/createandpub"), expecting(json!("0"))).await["code"], 409_000);
    assert_eq!(send(&admin, "POST", &format!("{FILES}/createandpub"), expecting(md5.clone())).await["code"], 200_000);
    assert_eq!(send(&admin, "POST", &format!("{FILES}/createandpub"), expecting(md5)).await["code"], 409_000);
    let same = send(&editor, "PUT", FILES, named("a", json!({ "content": "password=3" }))).await;
    assert_eq!((&same["code"], &same["configFile"]["status"]), (&json!(200_002), &json!("normal")), "{same}");
    let refused = send(&reader, "PUT", FILES, named("a", json!({ "encrypted": false }))).await;
    assert_eq!(refused["code"], 401_001, "{refused}");
    let odd = send(&editor, "PUT", FILES, named("a", json!({ "encryptAlgo": "AES" }))).await;
    assert!(odd["code"] == 400_103 && odd["info"].as_str().is_some_and(|info| info.contains("XChaCha20")), "{odd}");
    let ways = send(&reader, "GET", &format!("{FILES}/encryptalgorithm"), Value::Null).await;
    assert_eq!(ways["algorithms"], json!(["XChaCha20-Poly1305"]));
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sealed_is_judged_and_its_faults_are_told_to_who_may_see_it() {
    let bench = Bench::start_with(&["a"]).await;
    let admin = bench.log_in().await;
    let releaser = caller(&bench, &admin, "releaser", "n").await;
    let send =
        async |token: &str, method: &str, path: &str, body: Value| bench.send(method, path, Some(token), body).await.1;
    for (name, broken, whole, is_forced) in [
        ("a.json", "{\"topsecret\" 1}", "{\"topsecret\": 1}", true),
        ("a.yaml", "topsecret: 1\ntopsecret: 2", "topsecret: 1", true),
        ("a.properties", "a=1\nb=\\u12", "a=1", false),
    ] {
        let made = send(&admin, "POST", FILES, named(name, json!({ "content": broken, "encrypted": true }))).await;
        assert!(made["code"] == 200_000 && made["warnings"][0].is_string(), "{made}");
        let kept = send(&admin, "PUT", FILES, named(name, json!({ "comment": "c" }))).await;
        assert!(kept["code"] == 200_000 && kept["warnings"][0].is_string(), "{kept}");
        let refused =
            send(&releaser, "POST", &format!("{FILES}/release"), to_release(name, json!({ "name": "r" }))).await;
        let info = refused["info"].as_str().unwrap_or_default();
        assert!(refused["code"] == 400_813 && info.contains("line ") && !info.contains("topsecret"), "{refused}");
        let forced =
            send(&releaser, "POST", &format!("{FILES}/release?force=true"), to_release(name, json!({ "name": "f" })))
                .await;
        assert_eq!(forced["code"], if is_forced { 200_000 } else { 400_813 }, "{forced}");
        let both = |content: &str| {
            to_release(name, json!({ "content": content, "release_name": format!("{}", content.len()) }))
        };
        for path in ["createandpub", "createandpub?force=true"] {
            let refused = send(&admin, "POST", &format!("{FILES}/{path}"), both(broken)).await;
            let code = if is_forced && path.ends_with("true") { 200_000 } else { 400_813 };
            assert_eq!(refused["code"], code, "{name} {path}: {refused}");
        }
        assert_eq!(
            send(&admin, "POST", &format!("{FILES}/createandpub"), both(whole)).await["code"],
            200_000,
            "{name}"
        );
        // Turned off and published in one step, and on again, with the existing content.
        for (encrypted, release) in [(false, "off"), (true, "on")] {
            let body = to_release(name, json!({ "encrypted": encrypted, "release_name": release }));
            let answer = send(&admin, "POST", &format!("{FILES}/createandpub"), body).await;
            assert_eq!(
                (&answer["code"], &answer["configFileRelease"]["encrypted"]),
                (&json!(200_000), &json!(encrypted))
            );
            let release = send(&admin, "GET", &format!("{FILES}/release?{}", of_releases(name)), Value::Null).await;
            assert_eq!(release["configFileRelease"]["content"], whole, "{name} {encrypted}: {release}");
        }
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sealed_is_exported_sealed_and_copied_by_who_may_see_it() {
    let bench = Bench::start_with(&["a"]).await;
    let admin = bench.log_in().await;
    let elsewhere = caller(&bench, &admin, "editor", "m").await;
    let send =
        async |token: &str, method: &str, path: &str, body: Value| bench.send(method, path, Some(token), body).await.1;
    // A reader of one namespace and editor of the other.
    let grants = json!([{ "role": "reader", "namespace": "n" }, { "role": "editor", "namespace": "m" }]);
    let (_, made) =
        bench.send("POST", "/auth/v1/tokens", Some(&admin), json!([{ "name": "both", "grants": grants }])).await;
    let both = made["responses"][0]["token"]["secret"].as_str().expect("a secret").to_owned();
    send(&admin, "POST", FILES, named("a", json!({ "content": SECRET, "encrypted": true }))).await;
    send(&admin, "POST", FILES, named("open", json!({ "content": "k=1" }))).await;

    let path = format!("{FILES}/export");
    let (_, archive) = bench.send_bytes("192.0.2.1", "POST", &path, Some(&both), json!({ "namespace": "n" })).await;
    let limits = bundle::Limits { entries: 10, bytes: 1 << 20, entry_bytes: 1 << 20 };
    let entries = bundle::read(&archive, limits).expect("an archive");
    assert!(entries.iter().all(|entry| !entry.text.as_ref().expect("a text").contains("correct horse")), "{entries:?}");

    let archive = json!(format!("{RAW}{}", STANDARD.encode(&archive)));
    let codes = |answer: &Value| {
        let all = answer["responses"].as_array().unwrap_or_else(|| panic!("{answer}"));
        all.iter().map(|item| item["code"].as_u64().unwrap_or_default()).collect::<Vec<_>>()
    };
    let import = |namespace: &str| format!("{FILES}/import?namespace={namespace}&conflict_handling=overwrite");
    for token in [&both, &elsewhere] {
        let answer = send(token, "POST", &import("m"), archive.clone()).await;
        assert_eq!(codes(&answer)[0], 401_001, "an archive is no way to the secret: {answer}");
    }
    let answer = send(&admin, "POST", &import("m"), archive.clone()).await;
    assert_eq!(codes(&answer), [200_000, 200_002], "{answer}");
    let answer = send(&admin, "POST", &import("n"), archive.clone()).await;
    assert_eq!(codes(&answer), [200_002, 200_002], "the same as it was: {answer}");
    let copy = |to: &str| json!({ "namespace": "n", "groups": ["g"], "names": ["a"], "to_namespace": to });
    let refused = send(&both, "POST", &format!("{FILES}/copy"), copy("m2")).await;
    assert_eq!(codes(&refused), [401_001], "{refused}");
    let copied = send(&admin, "POST", &format!("{FILES}/copy"), copy("copy")).await;
    assert_eq!(codes(&copied), [200_000], "{copied}");
    for namespace in ["m", "copy"] {
        let file = send(&admin, "GET", &format!("{FILES}?namespace={namespace}&group=g&name=a"), Value::Null).await;
        let file = &file["configFile"];
        assert_eq!((&file["encrypted"], &file["content"]), (&json!(true), &json!(SECRET)), "{file}");
    }
    bench.stop().await;
}

/// A node without the key, or with another one, refuses and stores nothing in clear.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_data_key_nothing_is_kept_or_shown_in_clear() {
    let bench = Bench::start().await;
    let admin = bench.log_in().await;
    let send = async |method: &str, path: &str, body: Value| bench.send(method, path, Some(&admin), body).await.1;
    let wanted = || json!({ "content": SECRET, "encrypted": true });
    for (path, body) in [
        (FILES.to_owned(), named("a", wanted())),
        (format!("{FILES}/createandpub"), to_release("a", wanted())),
        (format!("{FILES}/createandpub?force=true"), to_release("a", wanted())),
    ] {
        let refused = send("POST", &path, body).await;
        assert_eq!(refused["code"], 503_005, "{path}: {refused}");
    }
    let unasked = send("POST", FILES, named("b", json!({ "content": "k=1", "encrypted": false }))).await;
    assert_eq!((&unasked["code"], &unasked["configFile"]["encrypted"]), (&json!(200_000), &json!(false)), "{unasked}");

    // Proposed as by a node with the key.
    let other = crate::keyring::Keyring::new(DataKey::of_hex(&"b".repeat(64)));
    let draft = crate::model::config_file::ConfigFileDraft {
        namespace: "n".into(),
        group: "g".into(),
        name: "a.json".into(),
        content: Some("{}".into()),
        encrypted: Some(true),
        ..Default::default()
    };
    let sealed = other.seal_file(draft, None, true).expect("a data key");
    let command = crate::catalog::Command::ConfigFiles(crate::catalog::Op::Create, vec![sealed]);
    let outcomes = bench.node.propose("test", command).await.expect("proposed");
    assert!(outcomes[0].code.is_success(), "{outcomes:?}");
    let told = send("GET", &format!("{FILES}?{}", of("a.json")), Value::Null).await;
    assert_eq!(told["code"], 503_005, "{told}");
    let listed = send("GET", &format!("{FILES}/search?namespace=n"), Value::Null).await;
    assert_eq!((&listed["code"], &listed["amount"]), (&json!(200_000), &json!(2)), "the rest goes on: {listed}");
    let update = send("PUT", FILES, named("a.json", json!({ "content": "[]" }))).await;
    assert_eq!(update["code"], 503_005, "{update}");
    let comment = send("PUT", FILES, named("a.json", json!({ "comment": "c" }))).await;
    assert_eq!(comment["code"], 200_000, "{comment}");
    let unjudged = send("POST", &format!("{FILES}/release"), to_release("a.json", json!({ "name": "r1" }))).await;
    assert_eq!(unjudged["code"], 503_005, "{unjudged}");
    let forced =
        send("POST", &format!("{FILES}/release?force=true"), to_release("a.json", json!({ "name": "r1" }))).await;
    assert_eq!(forced["code"], 200_000, "it is published as it is kept: {forced}");
    let status = send("GET", "/admin/v1/cluster", Value::Null).await;
    assert!(status["alarms"].to_string().contains("2 drafts and releases of encrypted config files"), "{status}");
    bench.stop().await;
}
