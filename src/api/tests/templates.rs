//! Templates of config files, and files made from them.

use super::*;

const TEMPLATES: &str = "/config/v1/configfiletemplates";
const FILES: &str = "/config/v1/configfiles";

#[tokio::test(flavor = "multi_thread")]
async fn a_file_begins_as_its_template_has_it() {
    let bench = Bench::start().await;
    let token = bench.log_in().await;
    let send = async |method: &str, path: &str, body: Value| bench.send(method, path, Some(&token), body).await.1;
    let yaml = json!({ "name": "service.yaml", "content": "port: 80", "format": "yaml", "comment": "c" });
    let made = send("POST", TEMPLATES, yaml.clone()).await;
    let template = &made["configFileTemplate"];
    assert_eq!(
        (&made["code"], &template["format"], &template["createBy"]),
        (&json!(200_000), &json!("yaml"), &json!("admin"))
    );
    let broken = send("POST", TEMPLATES, json!([{ "name": "broken", "content": "{", "format": "json" }])).await;
    let warning = broken["responses"][0]["warnings"][0].as_str().unwrap_or_default();
    assert!(broken["code"] == 200_000 && warning.starts_with("line 1, column "), "{broken}");
    let mended = send("PUT", TEMPLATES, json!({ "name": "broken", "format": "text" })).await;
    assert_eq!((&mended["code"], &mended["warnings"]), (&json!(200_000), &Value::Null), "{mended}");
    for (body, code) in [
        (json!({ "name": "" }), 400_808),
        (json!({ "name": "a b" }), 400_808),
        (json!({ "name": "x", "format": "tar" }), 400_804),
        (json!({ "name": "x", "content": "x".repeat(limits::CONFIG_TEMPLATE_CHARS_MAX + 1) }), 400_803),
        (json!({ "name": "x", "comment": "x".repeat(1025) }), 400_103),
        (yaml, 400_201),
        (json!({ "name": "service.yaml", "revision": "stale" }), 400_201),
    ] {
        assert_eq!(send("POST", TEMPLATES, body.clone()).await["code"], code, "{body:.200}");
    }
    let stale = send("PUT", TEMPLATES, json!({ "name": "service.yaml", "revision": "stale", "comment": "d" })).await;
    assert_eq!(stale["code"], 409_000, "{stale}");
    let listed = send("GET", &format!("{TEMPLATES}?name=service*"), Value::Null).await;
    assert_eq!((&listed["total"], &listed["configFileTemplates"][0]["content"]), (&json!(1), &json!("port: 80")));

    let file = |fields: Value| {
        let mut item = json!({ "namespace": "n", "group": "g", "template": "service.yaml" });
        item.as_object_mut().expect("an object").extend(fields.as_object().expect("fields").clone());
        item
    };
    let rows = [
        (json!({ "name": "whole" }), "port: 80", "yaml"),
        (json!({ "name": "own-content", "content": "port: 81" }), "port: 81", "yaml"),
        (json!({ "name": "own-format", "format": "text" }), "port: 80", "text"),
        (json!({ "name": "no-template", "template": "" }), "", "properties"),
    ];
    for (fields, content, format) in rows {
        let made = send("POST", FILES, file(fields)).await;
        let made = &made["configFile"];
        assert_eq!((&made["content"], &made["format"]), (&json!(content), &json!(format)), "{made}");
    }
    let missing = send("POST", FILES, file(json!({ "name": "x", "template": "gone" }))).await;
    assert!(
        missing["code"] == 400_202 && missing["info"].as_str().is_some_and(|info| info.contains("gone")),
        "{missing}"
    );
    let late = send("PUT", FILES, file(json!({ "name": "whole" }))).await;
    assert_eq!(late["code"], 400_103, "{late}");
    for _ in 0..2 {
        assert_eq!(send("POST", &format!("{TEMPLATES}/delete"), json!([{ "name": "broken" }])).await["code"], 200_000);
    }
    let audit = send("GET", "/admin/v1/audit?kind=configtemplate", Value::Null).await;
    assert_eq!(audit["data"][0]["name"], "broken", "{audit}");
    bench.stop().await;
}
