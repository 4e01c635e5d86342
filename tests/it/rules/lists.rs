//! List and detail: every filter of both, and their pages.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::suite::{INVALID, OK, Suite, merged, text};
use crate::harness::eventually;

const BOTH: [&str; 2] = ["", "/detail"];
/// Time limit for a later time, because times have a resolution of a second.
const NEXT_SECOND: Duration = Duration::from_secs(5);

pub(super) async fn run(suite: &Suite) {
    filters_choose(suite).await;
    services_are_found_on_either_end(suite).await;
    pages_hold_everything_once(suite).await;
    the_newest_change_comes_first(suite).await;
    bad_queries_are_refused(suite).await;
}

/// The names that a query finds, by list and by detail alike.
async fn found(suite: &Suite, query: &str) -> Vec<String> {
    let mut ways = Vec::new();
    for operation in BOTH {
        let answer = suite.get(operation, query).await.expect_code(OK);
        let data = answer.body["data"].as_array().unwrap_or_else(|| panic!("no data in {answer}"));
        assert_eq!((answer.amount(), &answer.body["size"]), (data.len() as u64, &json!(data.len())), "{query}");
        let mut names: Vec<String> = data.iter().map(|rule| text(&rule["name"]).to_owned()).collect();
        names.sort();
        ways.push(names);
    }
    assert_eq!(ways[0], ways[1], "list and detail differ on {query}");
    ways.remove(0)
}

async fn filters_choose(suite: &Suite) {
    let about = |service: &str| (suite.family.ends)("shop", service).remove(0);
    let rules = [
        ("shop", "order-api", true, about("order")),
        ("shop", "order-db", false, about("db")),
        ("shop", "Cart", true, about("*")),
        ("shop", "cart & more", false, about("order")),
        ("stage", "order-api", true, about("order")),
    ];
    let mut ids = Vec::new();
    for (namespace, name, enable, about) in rules {
        let rule = merged(&about, &json!({"namespace": namespace, "name": name, "enable": enable}));
        ids.push(text(&suite.create(&rule).await["id"]).to_owned());
    }
    let by_id = format!("id={}", ids[3]);
    let by_id_elsewhere = format!("id={}&namespace=stage", ids[3]);
    let cases: [(&str, &[&str]); 28] = [
        ("namespace=shop", &["Cart", "cart & more", "order-api", "order-db"]),
        ("namespace=stage", &["order-api"]),
        ("namespace=nowhere", &[]),
        ("namespace=SHOP", &[]),
        ("namespace=shop&colour=red", &["Cart", "cart & more", "order-api", "order-db"]),
        (&by_id, &["cart & more"]),
        (&by_id_elsewhere, &[]),
        ("id=nobody", &[]),
        ("name=order-api", &["order-api", "order-api"]),
        ("name=order-api&namespace=shop", &["order-api"]),
        ("name=ORDER-API", &[]),
        ("name=order&namespace=shop", &[]),
        ("name=order*&namespace=shop", &["order-api", "order-db"]),
        ("name=ORDER*&namespace=shop", &["order-api", "order-db"]),
        ("name=*api&namespace=shop", &["order-api"]),
        ("name=*r*&namespace=shop", &["Cart", "cart & more", "order-api", "order-db"]),
        ("name=c*t*&namespace=shop", &["Cart", "cart & more"]),
        ("name=cart+%26+more", &["cart & more"]),
        ("name=*&namespace=stage", &["order-api"]),
        ("name=&namespace=stage", &["order-api"]),
        ("enable=true&namespace=shop", &["Cart", "order-api"]),
        ("enable=false&namespace=shop", &["cart & more", "order-db"]),
        ("enable=&namespace=shop", &["Cart", "cart & more", "order-api", "order-db"]),
        ("service=order&namespace=shop", &["Cart", "cart & more", "order-api"]),
        ("service=db&namespace=shop", &["Cart", "order-db"]),
        ("service=other&namespace=shop", &["Cart"]),
        ("service=order&namespace=shop&enable=true", &["Cart", "order-api"]),
        ("service=order&namespace=shop&enable=true&name=order*", &["order-api"]),
    ];
    suite.count(2 * cases.len());
    for (query, expected) in cases {
        assert_eq!(found(suite, query).await, expected, "{query}");
    }
}

/// However a rule names its service, and `*` for all of them.
async fn services_are_found_on_either_end(suite: &Suite) {
    let namespace = suite.fresh("ends");
    let mut expected = Vec::new();
    for (way, about) in (suite.family.ends)(&namespace, "inventory").into_iter().enumerate() {
        let item = merged(&about, &json!({"namespace": namespace, "name": format!("way-{way}")}));
        suite.create(&item).await;
        expected.push(format!("way-{way}"));
    }
    let finds = |service: &str| format!("namespace={namespace}&service={service}");
    assert_eq!(found(suite, &finds("inventory")).await, expected, "by service");
    assert_eq!(found(suite, &finds("inventor")).await, [""; 0], "by a part of its name");
    let nameless = json!({"namespace": namespace, "name": "nameless"});
    suite.create(&nameless).await;
    let for_all: &[&str] = if suite.family.nameless_is_for_all { &["nameless"] } else { &[] };
    assert_eq!(found(suite, &finds("other")).await, for_all, "a rule that names no service");
    suite.count(2 * (expected.len() + 2));
    for (way, about) in (suite.family.ends)(&namespace, "*").into_iter().enumerate() {
        let name = format!("all-{way}");
        let rule = suite.create(&merged(&about, &json!({"namespace": namespace, "name": name}))).await;
        let mut expected: Vec<&str> = for_all.to_vec();
        expected.insert(0, &name);
        assert_eq!(found(suite, &finds("other")).await, expected, "{about}");
        suite.post("/delete", &json!([{"id": rule["id"]}])).await.expect_code(OK);
        suite.count(2);
    }
}

async fn pages_hold_everything_once(suite: &Suite) {
    let namespace = suite.fresh("pages");
    let item = |n: usize| json!({"namespace": namespace, "name": format!("r-{n:03}")});
    for range in [0..70, 70..130] {
        suite.post("", &range.map(item).collect()).await.expect_code(OK);
    }
    for operation in BOTH {
        let page =
            async |more: &str| suite.get(operation, &format!("namespace={namespace}{more}")).await.expect_code(OK);
        for (more, size) in
            [("", 100), ("&limit=1000", 100), ("&limit=7", 7), ("&limit=0", 0), ("&offset=125", 5), ("&offset=130", 0)]
        {
            let answer = page(more).await;
            assert_eq!((answer.amount(), &answer.body["size"]), (130, &json!(size)), "{operation}{more}");
            assert_eq!(answer.body["data"].as_array().map(Vec::len), Some(size), "{operation}{more}");
            suite.count(1);
        }
        let mut seen = Vec::new();
        for offset in (0..130).step_by(40) {
            let answer = page(&format!("&offset={offset}&limit=40")).await;
            seen.extend(answer.body["data"].as_array().expect("data").iter().map(|rule| text(&rule["id"]).to_owned()));
        }
        let distinct: BTreeSet<&String> = seen.iter().collect();
        assert_eq!((seen.len(), distinct.len()), (130, 130), "pages of {operation} overlap or leave gaps");
    }
}

async fn the_newest_change_comes_first(suite: &Suite) {
    let namespace = suite.fresh("order");
    let [first, second] = ["a", "b"].map(|name| json!({"namespace": namespace, "name": name}));
    let (first, second) = (suite.create(&first).await, suite.create(&second).await);
    eventually(NEXT_SECOND, "a later change has a later time", || async {
        let update = json!([{"id": first["id"], "description": suite.fresh("change")}]);
        let changed = suite.only_entity(suite.put("", &update).await);
        if changed["mtime"] != second["mtime"] { Ok(()) } else { Err(changed.to_string()) }
    })
    .await;
    for operation in BOTH {
        let answer = suite.get(operation, &format!("namespace={namespace}")).await.expect_code(OK);
        let names: Vec<&Value> =
            answer.body["data"].as_array().expect("data").iter().map(|rule| &rule["name"]).collect();
        assert_eq!(names, ["a", "b"], "{operation}: {answer}");
        suite.count(1);
    }
}

async fn bad_queries_are_refused(suite: &Suite) {
    let queries = [
        ("offset=-1", "offset"),
        ("offset=x", "offset"),
        ("offset=18446744073709551616", "offset"),
        ("limit=-1", "limit"),
        ("limit=1.5", "limit"),
        ("limit=ten", "limit"),
        ("enable=maybe", "enable"),
        ("consistency=none", "consistency"),
    ];
    for (query, named) in queries {
        for operation in BOTH {
            let answer = suite.get(operation, query).await.expect_code(INVALID);
            assert!(text(&answer.body["info"]).contains(named), "{operation}?{query}: {answer}");
            suite.count(1);
        }
    }
    let far = suite.get("", "offset=9223372036854775808").await.expect_code(OK);
    assert_eq!(far.body["size"], 0, "{far}");
}
