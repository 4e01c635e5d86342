//! Encrypted config files as documents: compared for callers with edit permission, and never printed.

use serde_json::json;

use super::Desk;
use crate::harness::{Cluster, run};

const SECRET: &str = "correct-horse";

fn document(content: &str) -> String {
    let spec = json!({ "content": format!("password={content}\n"), "encrypted": true });
    json!({ "kind": "configfile", "name": "app/db.properties", "spec": spec }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_file_is_compared_for_who_may_edit_it() {
    let desk = Desk::of(Cluster::start_with_data_key(1, &[]).await);
    let diff = ["diff", "-f", "-"];
    desk.run(&["apply", "-f", "-", "--release"], &document(SECRET)).await.expect(0);
    for arguments in [&diff[..], &["diff", "-f", "-", "--release"], &["apply", "-f", "-", "--release"]] {
        let same = desk.run(arguments, &document(SECRET)).await.expect(0);
        assert!(same.contains("0 to create, 0 to change, 1 the same already"), "{arguments:?}: {same}");
    }
    let differs = desk.run(&diff, &document("battery-staple")).await;
    assert_eq!(differs.code, 1, "{}{}", differs.out, differs.error);
    assert!(differs.out.contains("its content, which is kept encrypted and not shown"), "{}", differs.out);
    for printed in [&differs.out, &differs.error] {
        assert!(!printed.contains(SECRET) && !printed.contains("battery"), "{printed}");
    }
    desk.run(&["apply", "-f", "-", "--release"], &document("battery-staple")).await.expect(0);
    let pulled = desk.cluster.apollo(1).config("app", "default", "db.properties").await;
    assert_eq!(pulled["configurations"]["password"], "battery-staple", "{pulled}");

    // An export does not include the content.
    let exported = desk.line("export configfiles").await.expect(0);
    assert!(exported.contains("encrypted: true") && !exported.contains("battery"), "{exported}");
    desk.run(&["diff", "-f", "-", "--release"], &exported).await.expect(0);
    desk.run(&["apply", "-f", "-"], &exported).await.expect(0);
    desk.run(&diff, &document("battery-staple")).await.expect(0);
    let elsewhere = exported.replace("db.properties", "other.properties");
    let refused = desk.run(&["apply", "-f", "-"], &elsewhere).await;
    assert!(refused.code == 3 && refused.error.contains("content is required"), "{}{}", refused.out, refused.error);

    let reader = json!([{ "name": "reader", "grants": [{ "role": "reader", "namespace": "*"}] }]);
    let made = desk.cluster.api(1).post("/auth/v1/tokens", &reader).await.expect_code(200_000);
    let token = made.body["responses"][0]["token"]["secret"].as_str().expect("a secret").to_owned();
    for content in ["battery-staple", "another"] {
        let told = run(&desk.endpoints, &token, &diff, &document(content)).await.expect(0);
        assert!(told.contains("its content is not compared") && !told.contains("battery"), "{told}");
    }
}
