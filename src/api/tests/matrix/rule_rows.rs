//! Rows of the rules of a kind and of their releases.

use serde_json::{Value, json};

use super::law::{Row, acting, body, change, create, into, listed, query, readable};
use super::rows::ABROAD;
use super::things::{HOME, Need, Thing, gray_labels, rule, rule_about};
use super::{OTHER_NAMESPACE, Place};
use crate::model::grant::Verb::{Edit, Release};

pub(super) fn of_rules(kind: &'static str) -> Vec<Row> {
    let path = |rest: &str| format!("/naming/v1/{kind}{rest}");
    let named = |thing: &Thing| json!({ "namespace": HOME, "name": thing.tag });
    let by_id = move |thing: &Thing| json!({ "id": thing.rule(kind) });
    let with = |mut item: Value, key: &str, value: Value| {
        item[key] = value;
        body(json!([item]))
    };
    let release = |name: &'static str| {
        move |thing: &Thing| body(json!([{ "rule_name": thing.tag, "namespace": HOME, "release_name": name }]))
    };
    let saying = move |key: &'static str, value: Value| {
        move |thing: &Thing| {
            let item = json!({ "rule_name": thing.tag, "namespace": HOME, "release_name": "gray" });
            with(item, key, value.clone())
        }
    };
    let nameless =
        |name: &'static str| move |thing: &Thing| body(json!([{ "rule_name": thing.tag, "release_name": name }]));
    let gray_of_id = move |thing: &Thing| {
        let item = json!({ "rule_id": thing.rule(kind), "release_type": "gray", "client_labels": gray_labels() });
        with(item, "release_name", json!("other"))
    };
    let sketch = |alias: bool, draft: bool| {
        move |thing: &Thing| {
            let service = if alias { thing.alias() } else { thing.tag.clone() };
            body(json!({ "namespace": HOME, "service": service, "draft": draft }))
        }
    };
    let of_rule =
        |rest: &'static str| move |thing: &Thing| query(format!("rule_name={}&namespace={HOME}{rest}", thing.tag));
    let (edit, released) = (&[Edit], &[Release]);
    vec![
        Row::new("GET", path(""), listed(Place::Thing), |thing| query(format!("name={}", thing.tag))),
        Row::new("GET", path(""), listed(Place::Thing), |thing| query(format!("service={}", thing.tag)))
            .case("by service"),
        Row::new("GET", path("/detail"), listed(Place::Thing), |thing| query(format!("name={}", thing.tag))),
        Row::new("POST", path(""), create(edit), move |thing| body(json!([rule(kind, &thing.tag)]))),
        Row::new("PUT", path(""), change(edit, 400_202), move |thing| with(named(thing), "priority", json!(3)))
            .needs(Need::Rule(kind)),
        Row::new("PUT", path(""), change(edit, 400_202), move |thing| with(by_id(thing), "priority", json!(3)))
            .case("by id")
            .needs(Need::Rule(kind)),
        Row::new("PUT", path(""), into(change(edit, 400_202), Place::ThingElsewhere), move |thing| {
            with(by_id(thing), "namespace", json!(OTHER_NAMESPACE))
        })
        .case("into another namespace")
        .needs(Need::Rule(kind)),
        Row::new("POST", path("/delete"), change(edit, 200_000), move |thing| body(json!([by_id(thing)])))
            .needs(Need::Rule(kind)),
        Row::new("POST", path("/delete"), change(&[Edit, Release], 200_000), move |thing| body(json!([by_id(thing)])))
            .case("in force")
            .asks(edit)
            .needs(Need::RuleReleases(kind)),
        Row::new("POST", path(""), acting(create(edit), Place::ThingElsewhere), move |thing| {
            body(json!([rule_about(kind, &thing.tag, OTHER_NAMESPACE)]))
        })
        .case(ABROAD),
        Row::new("PUT", path(""), acting(change(edit, 400_202), Place::ThingElsewhere), move |thing| {
            with(by_id(thing), "priority", json!(3))
        })
        .case(ABROAD)
        .needs(Need::RuleAbroad(kind))
        .felt_elsewhere(),
        Row::new("POST", path("/releases"), acting(change(released, 400_202), Place::ThingElsewhere), release("third"))
            .case(ABROAD)
            .needs(Need::RuleAbroad(kind))
            .felt_elsewhere(),
        Row::new("POST", path("/explain"), listed(Place::Thing), sketch(false, false)),
        Row::new("POST", path("/explain"), listed(Place::Thing), sketch(true, false)).case("by alias"),
        Row::new("POST", path("/explain"), listed(Place::Thing), sketch(false, true)).case("of drafts"),
        Row::new("POST", path("/releases"), change(released, 400_202), release("third"))
            .needs(Need::RuleReleases(kind)),
        Row::new("POST", path("/releases"), change(released, 400_202), nameless("third"))
            .case("without the namespace")
            .needs(Need::RuleReleases(kind)),
        Row::new("POST", path("/releases"), change(released, 400_202), gray_of_id)
            .case("a gray one by id")
            .needs(Need::RuleReleases(kind)),
        Row::new("GET", path("/releases"), listed(Place::Thing), |thing| query(format!("rule_name={}", thing.tag))),
        Row::new("GET", path("/releases"), listed(Place::Thing), move |thing| {
            query(format!("rule_id={}&brief=false", thing.rule(kind)))
        })
        .case("by id"),
        Row::new("GET", path("/releases"), listed(Place::Thing), |_| query("brief=false".into())).case("of all rules"),
        Row::new("PUT", path("/releases/rollback"), change(released, 400_202), release("first"))
            .needs(Need::RuleReleases(kind)),
        Row::new("PUT", path("/releases/rollback"), change(released, 400_202), move |thing| {
            let first = thing.releases.iter().find(|(one, _)| *one == kind).map(|(_, id)| id.clone());
            body(json!([{ "id": first }]))
        })
        .case("by id")
        .needs(Need::RuleReleases(kind)),
        Row::new("PUT", path("/releases/stopbeta"), change(released, 400_202), release("gray"))
            .needs(Need::RuleGray(kind)),
        Row::new("PUT", path("/releases/promote"), change(released, 400_202), release("gray"))
            .needs(Need::RuleGray(kind)),
        Row::new("PUT", path("/releases/rollout"), change(released, 400_202), saying("action", json!("pause")))
            .needs(Need::RuleGray(kind)),
        Row::new("POST", path("/releases/signal"), change(released, 400_202), saying("ok", json!(true)))
            .needs(Need::RuleGray(kind)),
        Row::new("PUT", path("/releases/withdraw"), change(released, 400_202), release("second"))
            .needs(Need::RuleReleases(kind)),
        Row::new("GET", path("/releases/history"), readable(400_202), of_rule(""))
            .counts()
            .needs(Need::RuleReleases(kind)),
        Row::new("GET", path("/subscribers"), readable(400_202), of_rule(""))
            .nameless()
            .needs(Need::RuleReleases(kind)),
        Row::new("GET", path("/releases/diff"), readable(400_202), of_rule("&from=first"))
            .counts()
            .needs(Need::RuleReleases(kind)),
        Row::new("POST", path("/releases/delete"), change(released, 200_000), release("first"))
            .needs(Need::RuleReleases(kind)),
    ]
}
