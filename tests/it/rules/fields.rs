//! Every field of the specification's tables: stored, shown on another node, accepted in both spellings, and replaced
//! only by an update.

use serde_json::{Value, json};

use super::families::Family;
use super::suite::{Bad, Good, Suite, UNCHANGED, WRONG_TYPE, merged, place, stripped, text, with, without};

/// Objects whose keys are the caller's, so that no spelling of them means another.
const MAPS: [&str; 3] = ["metadata", "labels", "headers"];

pub(super) async fn run(suite: &Suite) {
    samples_come_back_whole(suite).await;
    keys_are_read_in_both_spellings(suite).await;
    words_are_read_by_name_and_number(suite).await;
    little_said_is_filled_in(suite).await;
    what_the_server_writes_looks_right(suite).await;
    updates_replace_what_they_name(suite).await;
}

/// A sample as it is shown: all of them are off.
pub(super) fn as_returned(sample: &Value) -> Value {
    merged(sample, &json!({"enable": false, "disable": true}))
}

pub(super) fn sample(family: &Family, title: &str) -> Value {
    let all = (family.samples)();
    all.into_iter().find(|(known, _)| *known == title).unwrap_or_else(|| panic!("no sample {title}")).1
}

async fn samples_come_back_whole(suite: &Suite) {
    let samples = (suite.family.samples)().into_iter();
    suite
        .expect_taken(samples.map(|(title, sample)| Good::new(title, sample.clone(), as_returned(&sample))).collect())
        .await;
    for (_, sample) in (suite.family.samples)() {
        let created = suite.create(&merged(&sample, &json!({"name": suite.fresh("whole")}))).await;
        let id = text(&created["id"]);
        for operation in ["", "/detail"] {
            assert_eq!(suite.listed(operation, &format!("id={id}")).await[id], created, "{operation} shows less");
        }
        let brief = &suite.listed("", &format!("id={id}&brief=true")).await[id];
        for field in ["id", "name", "namespace", "enable", "disable", "revision"] {
            assert_eq!(brief[field], created[field], "{field} in {brief}");
        }
        for field in ["rules", "routing_config", "report", "target_service"] {
            assert!(brief.get(field).is_none(), "{field} in {brief}");
        }
        suite.count(3);
    }
}

/// Pointers to every field that is named by more than one word.
fn long_names(value: &Value, at: &str, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                let is_map = at.rsplit('/').next().is_some_and(|field| MAPS.contains(&field));
                if !is_map && !key.starts_with('@') && twin(key) != *key {
                    names.push(format!("{at}/{key}"));
                }
                long_names(inner, &format!("{at}/{key}"), names);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                long_names(inner, &format!("{at}/{index}"), names);
            }
        }
        _ => {}
    }
}

/// `max_amount` for `maxAmount` and the other way round.
pub(super) fn twin(key: &str) -> String {
    let mut respelt = String::new();
    let mut begins_word = false;
    for letter in key.chars() {
        match letter {
            '_' => begins_word = true,
            _ if begins_word => {
                respelt.extend(letter.to_uppercase());
                begins_word = false;
            }
            _ if letter.is_uppercase() => {
                respelt.push('_');
                respelt.extend(letter.to_lowercase());
            }
            _ => respelt.push(letter),
        }
    }
    respelt
}

/// The value with the field at a pointer under its other name.
fn respelt(value: &Value, pointer: &str) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
    let field = value.pointer(pointer).expect("the field is there").clone();
    with(&without(value, pointer), &format!("{parent}/{}", twin(key)), field)
}

async fn keys_are_read_in_both_spellings(suite: &Suite) {
    let mut goods = Vec::new();
    for (title, sample) in (suite.family.samples)() {
        let mut names = Vec::new();
        long_names(&sample, "", &mut names);
        assert!(!names.is_empty(), "{title} has no long names");
        let twins = names
            .iter()
            .map(|at| Good::new(format!("{title}, twin of {at}"), respelt(&sample, at), as_returned(&sample)));
        goods.extend(twins);
    }
    suite.expect_taken(goods).await;
}

async fn words_are_read_by_name_and_number(suite: &Suite) {
    let (mut goods, mut bads) = (Vec::new(), Vec::new());
    for (title, at, words) in suite.family.words {
        let sample = sample(suite.family, title);
        for (number, word) in words.iter().enumerate() {
            let expected = with(&as_returned(&sample), at, json!(word));
            for sent in [json!(word), json!(number), json!(number.to_string())] {
                goods.push(Good::new(format!("{at} = {sent}"), with(&sample, at, sent), expected.clone()));
            }
        }
        let lower = words[0].to_lowercase();
        for sent in
            [json!("NONE_OF_THEM"), json!(lower), json!(words.len()), json!(-1), json!(""), json!([]), json!({})]
        {
            bads.push(Bad::new(format!("{at} = {sent}"), with(&sample, at, sent), WRONG_TYPE, place(at)));
        }
    }
    suite.expect_taken(goods).await;
    suite.expect_refused(bads).await;
    if suite.family.kind == "routings" {
        policies_are_read_by_number(suite).await;
    }
}

/// The policy is a word that the rest of the rule depends on: each sample with its own number.
async fn policies_are_read_by_number(suite: &Suite) {
    let samples = (suite.family.samples)().into_iter().enumerate();
    let numbered = |(number, (title, sample)): (usize, (&'static str, Value))| {
        Good::new(title, with(&sample, "/route_policy", json!(number)), as_returned(&sample))
    };
    suite.expect_taken(samples.map(numbered).collect()).await;
}

async fn little_said_is_filled_in(suite: &Suite) {
    let head = json!({"description": "", "priority": 0, "metadata": {}, "enable": true, "disable": false});
    let named = |fields: &Value| merged(&json!({"name": "", "namespace": ""}), fields);
    let bare = (suite.family.bare)().into_iter();
    let goods = bare.map(|(item, body)| Good::new(format!("bare {item}"), named(&item), named(&merged(&head, &body))));
    suite.expect_taken(goods.collect()).await;
    let unknown = json!({"colour": "red", "ctime": "x", "mtime": 5, "etime": [], "editable": "no", "deleteable": {}});
    let (item, body) = (suite.family.bare)().remove(0);
    let good = Good::new("unknown fields", named(&merged(&item, &unknown)), named(&merged(&head, &body)));
    suite.expect_taken(vec![good]).await;
}

async fn what_the_server_writes_looks_right(suite: &Suite) {
    let rule = suite.rule("server", json!({"revision": "of the caller"})).await;
    let is_hex = |text: &str| text.len() == 32 && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    assert!(is_hex(text(&rule["id"])), "{rule}");
    assert!(is_hex(text(&rule["revision"])), "{rule}");
    assert_eq!((&rule["editable"], &rule["deleteable"]), (&json!(true), &json!(true)), "{rule}");
    let time = regex::Regex::new(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$").expect("an expression");
    for field in ["ctime", "mtime", "etime"] {
        assert!(time.is_match(text(&rule[field])), "{field} in {rule}");
    }
    suite.count(5);
}

async fn updates_replace_what_they_name(suite: &Suite) {
    let (_, sample) = (suite.family.samples)().remove(0);
    let mut rule = suite.create(&merged(&sample, &json!({"name": suite.fresh("changing")}))).await;
    let (unchanged, by_name) = (json!([{"id": rule["id"]}]), json!([{"name": rule["name"], "namespace": "samples"}]));
    for nothing in [unchanged, by_name, json!([rule])] {
        let answer = suite.put("", &nothing).await.expect_code(UNCHANGED);
        assert_eq!(answer.item_codes(), [UNCHANGED], "{answer}");
    }
    assert_eq!(suite.detail(&rule["id"]).await, rule, "an empty update changed something");
    let name = suite.fresh("renamed");
    let mut changes = vec![
        ("name", json!(name), json!(name)),
        ("description", json!(""), json!("")),
        ("priority", json!("9"), json!(9)),
        ("metadata", json!({"only": "this"}), json!({"only": "this"})),
        ("metadata", json!({}), json!({})),
    ];
    changes.extend((suite.family.changes)());
    suite.count(3 + 2 * changes.len());
    for (field, value, shown) in changes {
        let update = json!([{"id": rule["id"], field: value}]);
        let answered = suite.only_entity(suite.put("", &update).await);
        let expected = with(&stripped(&rule), &format!("/{field}"), shown);
        assert_eq!(stripped(&answered), expected, "{field} = {value}");
        assert_eq!(suite.detail(&rule["id"]).await, answered, "{field} = {value}");
        assert_ne!(answered["revision"], rule["revision"], "{field} = {value}");
        let again = suite.put("", &update).await.expect_code(UNCHANGED);
        assert_eq!(again.amount(), 1, "{again}");
        assert_eq!(suite.detail(&rule["id"]).await["revision"], answered["revision"], "{field} = {value}, again");
        rule = answered;
    }
}
