//! A tree of documents as a pipeline has it: applied, changed, pruned, applied again.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Desk, path_text};
use crate::harness::{report, setting};

const NAMESPACES: [&str; 2] = ["shop", "bank"];
const PRUNED: &str = "--prune --prune-namespaces shop,bank --prune-kinds \
    aliases,services,ratelimits,routings,faultdetectors,circuitbreakers,configfiles";

/// Document `number` of a tree, as it was in the beginning or as it is changed.
fn document(number: usize, is_changed: bool) -> Value {
    let namespace = NAMESPACES[number % 2];
    let word = if is_changed { "changed" } else { "first" };
    let name = format!("thing-{number}");
    let service = json!({ "service": format!("thing-{}", number / 10 * 10), "namespace": namespace });
    let of = |kind: &str, name: &str, spec: Value| {
        json!({ "kind": kind, "namespace": namespace, "name": name,
            "spec": spec })
    };
    match number % 10 {
        0 | 1 => of("service", &name, json!({ "comment": word, "metadata": { "tier": "1" }, "ports": "80" })),
        2 => of("alias", &name, json!({ "service": format!("thing-{}", number - 2), "comment": word })),
        3 | 4 => {
            of("configfile", &name, json!({ "group": "app", "content": format!("word={word}\nnumber={number}\n") }))
        }
        5 => of("configfile", &format!("app/{name}.yaml"), json!({ "content": format!("word: {word}\n") })),
        6 => of(
            "ratelimit",
            &name,
            json!({ "callee": service, "description": word,
                "rules": [{ "apis": [{ "path": { "type": "EXACT", "value": "/a" } }],
                "amounts": [{ "maxAmount": number + 1, "validDuration": "1s" }] }] }),
        ),
        7 => of(
            "routing",
            &name,
            json!({ "priority": usize::from(is_changed),
                "routing_config": { "callee": service, "rules": [{ "name": word,
                "destinations": [{ "service": service["service"], "namespace": namespace,
                  "labels": { "v": { "value": "1" } } }] }] } }),
        ),
        8 => of(
            "faultdetector",
            &name,
            json!({ "description": word, "target_service": service,
                "rules": [{ "interval": 30, "timeout": 10, "port": 80, "protocol": "TCP" }] }),
        ),
        _ => of(
            "circuitbreaker",
            &name,
            json!({ "description": word, "level": "SERVICE",
                "rule_matcher": { "source": { "service": "*", "namespace": "*" },
                "destination": service } }),
        ),
    }
}

/// Writes a tree anew: YAML and JSON, several documents a file.
fn write(desk: &Desk, documents: &[Value]) {
    let folder = desk.cluster.file("tree");
    let _ = std::fs::remove_dir_all(&folder);
    for (number, part) in documents.chunks(7).enumerate() {
        if number % 3 == 0 {
            desk.write(&format!("tree/deep/{number}.json"), &json!(part).to_string());
        } else {
            // JSON is YAML: each line is a document.
            let text: String = part.iter().map(|one| format!("---\n{one:#}\n")).collect();
            desk.write(&format!("tree/{number}.yaml"), &text);
        }
    }
}

async fn expect(desk: &Desk, line: &str, code: i32, words: &str) -> String {
    let told = desk.line(line).await;
    assert_eq!(told.code, code, "{line}: {}{}", told.out, told.error);
    assert!(told.out.contains(words), "{line}: no {words:?} in {}", told.out);
    told.out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_applied_changed_pruned_and_applied_again() {
    let desk = Desk::start(3).await;
    let count = setting("THUBAN_IT_DOCUMENTS", 500);
    let documents: Vec<_> = (0..count).map(|number| document(number, false)).collect();
    write(&desk, &documents);
    let tree = desk.cluster.file("tree");
    let tree = path_text(&tree);

    let all = format!("{count} to create, 0 to change, 0 the same already");
    expect(&desk, &format!("apply -f {tree} --dry-run"), 1, &all).await;
    let none = desk.line("get services -A -o name").await.expect(0);
    assert_eq!(none, "", "a dry run changes nothing");

    let begun = Instant::now();
    expect(&desk, &format!("apply -f {tree} --brief"), 0, &format!("{count} done, 0 refused")).await;
    let first = begun.elapsed();
    let same = format!("0 to create, 0 to change, {count} the same already");
    let begun = Instant::now();
    expect(&desk, &format!("apply -f {tree}"), 0, &same).await;
    let again = begun.elapsed();
    let before = revisions(&desk).await;
    expect(&desk, &format!("diff -f {tree}"), 0, &same).await;
    assert_eq!(revisions(&desk).await, before, "the same again changes nothing");

    // What is not the tree's: of another kind, in another namespace.
    desk.cluster
        .api(1)
        .post("/naming/v1/services", &json!([{ "name": "else", "namespace": "others" }]))
        .await
        .expect_code(200_000);

    // Every twentieth is changed, every tenth of the rest deleted; in tens, so that dependants are deleted too.
    let kept = |number: usize| number / 10 % 10 != 3;
    let changed: Vec<_> =
        (0..count).filter(|number| kept(*number)).map(|number| document(number, number % 20 < 10)).collect();
    let (gone, others) = (count - changed.len(), (0..count).filter(|number| kept(*number) && number % 20 < 10).count());
    write(&desk, &changed);
    let plan =
        format!("0 to create, {others} to change, {gone} to delete, {} the same already", changed.len() - others);
    expect(&desk, &format!("diff -f {tree} {PRUNED}"), 1, &plan).await;
    let unasked = desk.line(&format!("apply -f {tree} {PRUNED}")).await;
    assert!(unasked.code == 2 && unasked.error.contains("--yes"), "{}{}", unasked.out, unasked.error);
    let begun = Instant::now();
    expect(&desk, &format!("apply -f {tree} {PRUNED} --yes --brief"), 0, &format!("{} done, 0 refused", others + gone))
        .await;
    let pruned = begun.elapsed();
    let same = format!("0 to create, 0 to change, {} the same already", changed.len());
    expect(&desk, &format!("apply -f {tree} {PRUNED} --yes"), 0, &same).await;
    expect(&desk, "get service/else -n others -o name", 0, "service/else").await;
    expect(&desk, "get service/thing-30 -n shop", 3, "").await;

    // What is written out is found equal, and makes the same on another cluster.
    let export = desk.cluster.file("export");
    expect(&desk, &format!("export -A --dir {}", path_text(&export)), 0, "documents in").await;
    let told = expect(&desk, &format!("diff -f {}", path_text(&export)), 0, "0 to create, 0 to change").await;
    let other = Desk::start(1).await;
    expect(&other, &format!("apply -f {} --brief", path_text(&export)), 0, "0 refused").await;
    expect(&other, &format!("diff -f {tree}"), 0, &same).await;

    let begun = Instant::now();
    let released = expect(&desk, &format!("apply -f {tree} --release --brief"), 0, "0 refused").await;
    let in_force = begun.elapsed();
    assert!(released.contains("to release"), "{released}");
    expect(&desk, &format!("diff -f {tree} --release"), 0, &same).await;
    report(format_args!(
        "{count} documents on three nodes: applied in {first:.2?}, found the same in {again:.2?}, {others} changed and \
         {gone} \
         pruned in {pruned:.2?}, released in {in_force:.2?}; {}",
        told.lines().last().unwrap_or_default()
    ));
    release_is_in_force(&desk, Path::new(tree)).await;
}

async fn revisions(desk: &Desk) -> Vec<String> {
    let listed = desk.line("get services -A -o json").await.expect(0);
    let rows: Vec<Value> = serde_json::from_str(&listed).expect("JSON");
    rows.iter().map(|row| row["status"]["revision"].to_string()).collect()
}

/// Checks that a client gets the contents of the tree.
async fn release_is_in_force(desk: &Desk, tree: &Path) {
    assert!(tree.exists());
    let pulled = desk.cluster.apollo(1).config("app", "bank", "thing-3").await;
    assert_eq!(pulled["configurations"]["word"], "changed", "{pulled}");
}
