//! Documents that are refused, changed by two, edited, listed and taken away.

use serde_json::{Value, json};

use super::{Desk, path_text};
use crate::harness::binary;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_told_by_file_and_document() {
    let desk = Desk::start(1).await;
    let tree = desk.write(
        "tree/a.yaml",
        "kind: service\nname: good\n---\nkind: ratelimit\nname: typo\nspec: {rules: [{amount: 1}]}\n---\n\
         kind: ratelimit\nname: range\nspec: {priority: -1}\n",
    );
    let told = desk.line(&format!("apply -f {}", path_text(&tree))).await;
    assert_eq!(told.code, 3, "{}{}", told.out, told.error);
    for words in [
        "a.yaml, document 2 (line 4): ratelimit/typo: rules[0].amount is not known",
        "a.yaml, document 3 (line 8): ratelimit/range: ",
        "priority",
    ] {
        assert!(told.error.contains(words), "no {words:?} in {}", told.error);
    }
    assert!(told.out.contains("create    service/good") && !told.out.contains("refused   "), "{}", told.out);
    assert!(told.error.contains("nothing was changed"), "{}", told.error);
    desk.line("get service/good").await.expect(3);

    // The node reports faults that only it can detect; the other documents are applied.
    let tree = desk
        .write("tree/a.yaml", "kind: service\nname: good\n---\nkind: alias\nname: other\nspec: {service: nobody}\n");
    let told = desk.line(&format!("apply -f {}", path_text(&tree))).await;
    assert_eq!(told.code, 3, "{}{}", told.out, told.error);
    let words = "a.yaml, document 2 (line 4): alias/other in default: ";
    assert!(told.error.contains(words) && told.out.contains("1 done, 1 refused"), "{}{}", told.out, told.error);
    assert!(!told.out.contains(words), "{}", told.out);
    desk.line("get service/good -o name").await.expect(0);

    for (text, words) in [
        ("kind: pod\nname: a\n", "is no kind"),
        ("kind: service\nname: a\nports: 80\n", "stand in spec"),
        ("a: [\n", "a.yaml: line"),
        ("kind: service\nname: a\n---\nkind: svc\nname: a\n", "stands in"),
        ("", "no document"),
    ] {
        desk.write("tree/a.yaml", text);
        let told = desk.line(&format!("diff -f {}", path_text(&tree))).await.expect(2);
        assert!(told.contains(words), "{text}: {told}");
    }
    let missing = desk.line("apply -f nowhere").await.expect(2);
    assert!(missing.contains("nowhere"), "{missing}");
    desk.line("apply").await.expect(2);
    let wide = desk.line(&format!("apply -f {} --prune", path_text(&tree))).await.expect(2);
    assert!(wide.contains("--prune-namespaces"), "{wide}");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_come_from_standard_input_and_go_again() {
    let desk = Desk::start(1).await;
    let text =
        r#"[{"kind":"configfile","name":"g/a.txt","spec":{"content":"one\ntwo\n"}},{"kind":"namespace","name":"own"}]"#;
    let done = desk.run(&["apply", "-f", "-"], text).await.expect(0);
    assert!(done.contains("2 done, 0 refused"), "{done}");
    let shown = desk.line("get configfile/g/a.txt -o yaml").await.expect(0);
    assert!(shown.contains("content: |\n") && !shown.contains("revision") && !shown.contains("createTime"), "{shown}");
    let same = desk.run(&["diff", "-f", "-"], &shown).await.expect(0);
    assert!(same.contains("1 the same already"), "{same}");
    let changed = desk.run(&["diff", "-f", "-"], &shown.replace("two", "three")).await;
    assert!(changed.code == 1 && changed.out.contains("-two\n    +three"), "{}", changed.out);

    // A field that the document does not have any more is not what it was.
    let with = "kind: service\nname: s\nspec: {comment: c, metadata: {a: b}}\n";
    desk.run(&["apply", "-f", "-"], with).await.expect(0);
    let without = "kind: service\nname: s\nspec: {comment: c}\n";
    let told = desk.run(&["apply", "-f", "-"], without).await.expect(0);
    assert!(told.contains("- /metadata: {\"a\":\"b\"}"), "{told}");
    let row: Value = serde_json::from_str(&desk.line("get service s -o json").await.expect(0)).expect("JSON");
    assert_eq!(row[0]["spec"], json!({ "comment": "c" }), "{row}");

    let gone = desk.run(&["delete", "-f", "-"], with).await;
    assert!(gone.code == 2 && gone.error.contains("--yes"), "{}", gone.error);
    desk.run(&["delete", "-f", "-", "--yes"], with).await.expect(0);
    let gone = desk.line("delete service/s --yes").await.expect(0);
    assert!(gone.contains("is not there"), "{gone}");
    desk.line("delete cf g/a.txt --yes").await.expect(0);
    desk.line("get cf/g/a.txt").await.expect(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_takes_nothing_but_what_it_is_told_to() {
    let desk = Desk::start(1).await;
    let services = |names: &[&str]| -> String {
        names.iter().map(|name| format!("---\nkind: service\nnamespace: shop\nname: {name}\n")).collect()
    };
    desk.run(&["apply", "-f", "-"], &services(&["a", "b", "c"])).await.expect(0);
    let prune = ["apply", "-f", "-", "--prune", "--prune-namespaces", "shop", "--prune-kinds", "services", "--yes"];
    // A wrong folder has nothing of it.
    let wrong = desk.run(&prune, "kind: service\nnamespace: shopp\nname: a\n").await.expect(2);
    assert!(wrong.contains("pruning would take all of them"), "{wrong}");
    // An object in use stays, and the reason is printed.
    let instance = json!([{ "service": "c", "namespace": "shop", "host": "10.0.0.1", "port": 80 }]);
    desk.cluster.api(1).post("/naming/v1/instances", &instance).await.expect_code(200_000);
    let told = desk.run(&prune, &services(&["a"])).await;
    assert!(told.code == 3 && told.error.contains("refused   service/c in shop: "), "{}{}", told.out, told.error);
    let left = desk.line("get services -n shop -o name").await.expect(0);
    assert_eq!(left, "service/a\nservice/c\n");
    let instances = desk.line("get instances -n shop --service c").await.expect(0);
    assert!(instances.contains("10.0.0.1:80"), "{instances}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_edited_is_kept_where_it_is_refused() {
    let desk = Desk::start(1).await;
    desk.run(&["apply", "-f", "-"], "kind: service\nname: s\nspec: {comment: one}\n").await.expect(0);
    let edit = |editor: &'static str| ["edit", "service/s", "--editor", editor];
    let told = desk.run(&edit("true"), "").await.expect(0);
    assert!(told.contains("nothing was changed"), "{told}");
    let told = desk.run(&edit("sed -i s/one/two/"), "").await.expect(0);
    assert!(told.contains("+ /comment: \"two\""), "{told}");
    assert!(desk.line("get svc/s").await.expect(0).contains("two"));

    let told = desk.run(&edit("sed -i s/comment:/coment:/"), "").await.expect(3);
    assert!(told.contains("coment is not known"), "{told}");
    let kept = told.split("kept in ").nth(1).and_then(|rest| rest.split(';').next()).expect("where it is").to_owned();
    let text = std::fs::read_to_string(&kept).expect("it is there");
    assert!(text.contains("coment: two"), "{text}");
    std::fs::remove_file(kept).expect("removed");

    // A concurrent change: an editor that changes the object itself.
    let program = binary();
    let other = "kind: service\nname: s\nspec: {comment: three}\n";
    let behind = desk.write("behind.yaml", other);
    let script = desk.write(
        "editor",
        &format!("#!/bin/sh\n{program} apply -f {} >/dev/null\nsed -i s/two/four/ \"$1\"\n", path_text(&behind)),
    );
    let editor = format!("sh {}", path_text(&script));
    let told = desk.run(&["edit", "service/s", "--editor", &editor], "").await;
    assert!(told.code == 3 && told.error.contains("409000"), "{}{}", told.out, told.error);
    assert!(desk.line("get svc/s").await.expect(0).contains("three"));
    let kept = told.error.split("kept in ").nth(1).and_then(|rest| rest.split(';').next()).expect("where it is");
    std::fs::remove_file(kept).expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_comes_in_five_forms() {
    let desk = Desk::start(1).await;
    let text =
        "kind: service\nname: pay\nspec: {business: money}\n---\nkind: routing\nname: r\nspec: {description: d}\n";
    desk.run(&["apply", "-f", "-"], text).await.expect(0);
    let table = desk.line("get services").await.expect(0);
    assert!(table.starts_with("namespace  name  healthy  business"), "{table}");
    assert!(table.contains("default    pay   0/0      money"), "{table}");
    assert_eq!(desk.line("get svc,rt").await.code, 2);
    assert_eq!(desk.line("get svc/pay rt/r -o name").await.expect(0), "service/pay\nrouting/r\n");
    let wide = desk.line("get rt -o wide").await.expect(0);
    assert!(wide.contains("in force") && wide.contains("description"), "{wide}");
    let rows: Value = serde_json::from_str(&desk.line("get services p* -o json").await.expect(0)).expect("JSON");
    assert_eq!((&rows[0]["kind"], &rows[0]["name"]), (&json!("service"), &json!("pay")));
    assert!(rows[0]["status"]["revision"].is_string(), "{rows}");
    assert_eq!(desk.line("get services -n empty -o name").await.expect(0), "");
    let missing = desk.line("get service/nobody").await.expect(3);
    assert!(missing.contains("service/nobody") && missing.contains("thuban get"), "{missing}");

    // Lines for creations and changes, up to the given number; another process changes an object until then.
    let watch = desk.line("watch services --every 1 --changes 1");
    tokio::pin!(watch);
    let mut number = 0;
    let seen = loop {
        number += 1;
        let touch = format!("kind: service\nname: other\nspec: {{comment: '{number}'}}\n");
        tokio::select! {
            seen = &mut watch => break seen,
            _ = desk.run(&["apply", "-f", "-"], &touch) => {}
        }
    };
    let seen = seen.expect(0);
    assert!(seen.contains("there  service  default  pay"), "{seen}");
    assert!(
        seen.contains("changed  service  default  other") || seen.contains("added  service  default  other"),
        "{seen}"
    );
}
