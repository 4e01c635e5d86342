//! Pages by key of every list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use crate::catalog::{AuthorizedCommand, Command, Credential, SsoSignIn};
use crate::model::access::Whence;
use crate::model::config_lookup::ClientLabels;
use crate::model::mesh::Dialect;
use crate::model::mesh::resource::{Resource, ResourceType, Version};
use crate::model::rule::Family;
use crate::model::sso::Claims;
use crate::model::time::Timestamp;
use crate::operations::token_hash;
use crate::origin::Origin;
use crate::subscribers::Client;
use crate::subscribers::streams::{Registered, StreamClient};

/// Lists without pages: short ones, or counts only.
const WHOLE: [&str; 4] = ["/auth/v1/roles", "/auth/v1/sso", "/naming/v1/services/count", "/naming/v1/instances/count"];
const MANY: u64 = 5;

/// Function that makes the item of a write from its number.
type Item = fn(u64) -> Value;

/// A list: path, query, element of its rows, naming fields, and a write that changes all of its rows.
struct List {
    path: String,
    query: String,
    rows: &'static str,
    key: &'static [&'static str],
    stir: Option<(String, Item)>,
}

impl List {
    fn new(path: impl Into<String>, query: &str, rows: &'static str, key: &'static [&'static str]) -> Self {
        List { path: path.into(), query: query.to_owned(), rows, key, stir: None }
    }

    fn stirred(self, path: impl Into<String>, item: Item) -> Self {
        List { stir: Some((path.into(), item)), ..self }
    }
}

fn text(prefix: &str, number: u64) -> String {
    format!("{prefix}{number}")
}

fn rule(kind: &str, number: u64) -> Value {
    let service = json!({ "namespace": "n", "service": "s0" });
    let mut rule = match kind {
        "faultdetectors" => json!({ "target_service": service }),
        "ratelimits" => json!({ "callee": service }),
        "circuitbreakers" => json!({ "rule_matcher": { "destination": service } }),
        _ => json!({ "routing_config": { "callee": service } }),
    };
    let head = json!({ "name": text("r", number), "namespace": "n", "enable": true });
    rule.as_object_mut().expect("an object").extend(head.as_object().expect("an object").clone());
    rule
}

fn policy(number: u64) -> Value {
    json!({ "name": text("p", number), "namespace": "asked" })
}

fn provider(number: u64) -> Value {
    let everybody = json!([{ "claim": "sub", "value": "*", "role": "reader", "namespace": "*" }]);
    let issuer = format!("https://p{number}.example.com");
    json!({ "name": text("p", number), "issuer": issuer, "client_id": "thuban", "bindings": everybody })
}

/// Signs people in at the first provider.
async fn sign_people_in(bench: &Bench) {
    let provider = bench.node.state().catalog().access.sso().provider("p0").cloned().expect("it was created");
    for number in 0..MANY {
        let claims =
            json!({ "iss": provider.issuer, "sub": text("s", number), "preferred_username": text("u", number) });
        let sign_in = SsoSignIn {
            hash: token_hash(&text("session ", number)),
            provider: provider.id.clone(),
            claims: Claims::parse(&claims.to_string()).expect("claims"),
            digest: text("d", number),
            from: Whence::default(),
        };
        let asked = AuthorizedCommand {
            credential: Credential::Login,
            address: None,
            request: String::new(),
            self_registration: false,
            mutes_refusals: false,
            command: Command::SsoSignIn(Box::new(sign_in)),
        };
        let done = bench.node.ask(&provider.holder(&text("u", number)), asked).await.expect("a leader");
        assert!(done.iter().all(|outcome| outcome.code.is_success()), "{done:?}");
    }
}

fn contract(number: u64) -> Value {
    json!({ "name": text("c", number), "namespace": "asked", "schema": true })
}

fn lists() -> Vec<List> {
    let file = "namespace=n&group=g0&file_name=f0.txt";
    let (files, releases) = ("/config/v1/configfiles", "configFileReleases");
    let named = |number| json!({ "name": text("n", number) });
    let mut lists = vec![
        List::new("/auth/v1/users", "", "data", &["name"])
            .stirred("/auth/v1/users", |number| json!({ "name": text("u", number) })),
        List::new("/auth/v1/sessions", "", "data", &["id"]),
        List::new("/auth/v1/tokens", "", "data", &["name"])
            .stirred("/auth/v1/tokens", |number| json!({ "name": text("t", number) })),
        List::new("/auth/v1/providers", "", "data", &["name"])
            .stirred("/auth/v1/providers", |number| json!({ "name": text("p", number) })),
        List::new("/auth/v1/identities", "", "data", &["provider", "name"]),
        List::new("/auth/v1/accesskeys", "", "data", &["app_id", "name"])
            .stirred("/auth/v1/accesskeys", |number| json!({ "app_id": "app", "name": text("k", number) })),
        List::new("/naming/v1/namespaces", "", "namespaces", &["name"]).stirred("/naming/v1/namespaces", named),
        List::new("/core/v1/namespaces", "", "namespaces", &["name"]).stirred("/core/v1/namespaces", named),
        List::new("/naming/v1/services", "", "services", &["namespace", "name"])
            .stirred("/naming/v1/services", |number| json!({ "namespace": "n", "name": text("s", number) })),
        List::new("/naming/v1/services/all", "namespace=n", "services", &["name"])
            .stirred("/naming/v1/services", |number| json!({ "namespace": "n", "name": text("s", number) })),
        List::new("/naming/v1/service/aliases", "", "aliases", &["alias_namespace", "alias"]).stirred(
            "/naming/v1/service/alias",
            |number| json!({ "namespace": "n", "service": "s0", "alias_namespace": "n", "alias": text("a", number) }),
        ),
        List::new("/naming/v1/instances", "namespace=*", "instances", &["namespace", "service", "id"])
            .stirred("/naming/v1/instances", instance),
        List::new("/config/v1/configfilegroups", "", "configFileGroups", &["namespace", "name"])
            .stirred("/config/v1/configfilegroups", |number| json!({ "namespace": "n", "name": text("g", number) })),
        List::new("/config/v1/configfiletemplates", "", "configFileTemplates", &["name"])
            .stirred("/config/v1/configfiletemplates", |number| json!({ "name": text("c", number), "content": "x" })),
        List::new(format!("{files}/releases"), "", releases, &["namespace", "group", "fileName", "name"]),
        List::new(format!("{files}/release/versions"), file, releases, &["name"]),
        List::new(format!("{files}/releasehistory"), file, "data", &[]),
        List::new(format!("{files}/subscribers"), file, "data", &["address", "agent"]),
        List::new("/naming/v1/instances/subscribers", "namespace=n&service=s0", "data", &["address", "agent"]),
        List::new("/admin/v1/audit", "", "data", &[]),
        List::new("/admin/v1/audit/wouldrefuse", "", "data", &["kind", "namespace", "name", "release_name"]),
        List::new("/admin/v1/clients", "address=192.0.2.1", "data", &["kind", "namespace", "name"]),
        List::new("/admin/v1/xds/clients", "", "data", &["node_id"]),
        List::new("/admin/v1/xds/dump", "node_id=x0", "data", &["type", "name"]),
        List::new("/admin/v1/webhooks", "", "data", &["name"]).stirred("/admin/v1/webhooks", hook),
        List::new("/admin/v1/policies", "", "data", &["name"]).stirred("/admin/v1/policies", policy),
        List::new("/admin/v1/contracts", "", "data", &["name"]).stirred("/admin/v1/contracts", contract),
        List::new("/admin/v1/requests", "", "data", &["id"]),
    ];
    for path in ["/search", "/by-group"] {
        let of_files = List::new(format!("{files}{path}"), "", "configFiles", &["namespace", "group", "name"]);
        lists.push(
            of_files
                .stirred(files, |number| json!({ "namespace": "n", "group": "g0", "name": format!("f{number}.txt") })),
        );
    }
    for kind in Family::ALL.iter().map(|family| family.kind()) {
        let path = format!("/naming/v1/{kind}");
        let one = "rule_name=r0&namespace=n";
        for rest in ["", "/detail"] {
            lists.push(List::new(format!("{path}{rest}"), "", "data", &["namespace", "name"]));
        }
        lists.push(List::new(format!("{path}/releases"), "", "data", &["namespace", "rule_name", "release_name"]));
        lists.push(List::new(format!("{path}/releases/history"), one, "data", &[]));
        lists.push(List::new(format!("{path}/subscribers"), one, "data", &["address", "agent"]));
    }
    lists
}

fn instance(number: u64) -> Value {
    json!({ "namespace": "n", "service": "s0", "host": text("192.0.2.", number), "port": 80 })
}

fn hook(number: u64) -> Value {
    json!({ "name": text("w", number), "url": "https://hooks.example.org/" })
}

/// Creates some objects of every kind that can be listed.
async fn fill(bench: &Bench, token: &str) -> Vec<Registered> {
    let all = |item: &dyn Fn(u64) -> Value| Value::Array((0..MANY).map(item).collect());
    let grants = json!([{ "role": "admin", "namespace": "*" }]);
    let mut writes: Vec<(&str, String, Value)> = vec![
        ("POST", "/naming/v1/namespaces".into(), all(&|number| json!({ "name": text("n", number) }))),
        ("POST", "/naming/v1/services".into(), all(&|number| json!({ "namespace": "n", "name": text("s", number) }))),
        (
            "POST",
            "/naming/v1/service/alias".into(),
            all(&|number| {
                json!({ "namespace": "n", "service": "s0", "alias_namespace": "n",
                    "alias": text("a", number) })
            }),
        ),
        ("POST", "/naming/v1/instances".into(), all(&instance)),
        (
            "POST",
            "/auth/v1/users".into(),
            all(&|number| json!({ "name": text("u", number), "password": PASSWORD, "grants": grants })),
        ),
        ("POST", "/auth/v1/tokens".into(), all(&|number| json!({ "name": text("t", number), "grants": grants }))),
        ("POST", "/auth/v1/providers".into(), all(&provider)),
        ("POST", "/auth/v1/accesskeys".into(), all(&|number| json!({ "app_id": "app", "name": text("k", number) }))),
        ("POST", "/admin/v1/webhooks".into(), all(&hook)),
        ("POST", "/admin/v1/policies".into(), all(&policy)),
        ("POST", "/admin/v1/contracts".into(), all(&contract)),
        (
            "POST",
            "/config/v1/configfiletemplates".into(),
            all(&|number| json!({ "name": text("c", number), "content": "x" })),
        ),
        (
            "POST",
            "/config/v1/configfilegroups".into(),
            all(&|number| json!({ "namespace": "n", "name": text("g", number) })),
        ),
    ];
    for turn in 0..MANY {
        writes.push((
            "POST",
            "/config/v1/configfiles/createandpub".into(),
            all(&|number| {
                json!({ "namespace": "n", "group": "g0", "file_name": format!("f{number}.txt"),
                    "content": text("x", turn), "release_name": text("v", turn) })
            }),
        ));
    }
    for (method, path, body) in &writes {
        let (_, answer) = bench.send(method, path, Some(token), body.clone()).await;
        assert_eq!(answer["code"], 200000, "{path} {answer}");
    }
    sign_people_in(bench).await;
    for number in 0..MANY {
        let asked = json!({ "namespace": "asked", "group": "g", "file_name": text("f", number), "request": "please" });
        let (_, answer) = bench.send("POST", "/config/v1/configfiles/createandpub", Some(token), asked).await;
        assert_eq!(answer["code"], 202000, "{answer}");
    }
    let body = json!({ "name": "u0", "password": PASSWORD });
    let (_, answer) = bench.send("POST", "/auth/v1/user/login", None, body).await;
    let author = answer["loginResponse"]["token"].as_str().expect("a token").to_owned();
    for kind in Family::ALL.iter().map(|family| family.kind()) {
        let path = format!("/naming/v1/{kind}");
        let rules: Vec<_> = (0..MANY).map(|number| rule(kind, number)).collect();
        let (_, answer) = bench.send("POST", &path, Some(&author), json!(rules)).await;
        assert_eq!(answer["code"], 200000, "{path} {answer}");
        for turn in 0..MANY {
            let releases = all(
                &|number| json!({ "rule_name": text("r", number), "namespace": "n", "release_name": text("v", turn) }),
            );
            let (_, answer) = bench.send("POST", &format!("{path}/releases"), Some(&author), releases).await;
            assert_eq!(answer["code"], 200000, "{path} {answer}");
        }
    }
    for _ in 1..MANY {
        bench.log_in().await;
    }
    // Without grants the user could not have made the rules.
    let narrowed = json!([{ "name": "u0", "grants": [] }]);
    let (_, answer) = bench.send("PUT", "/auth/v1/users", Some(token), narrowed).await;
    assert_eq!(answer["code"], 200000, "{answer}");
    hear_of_clients(bench);
    (0..MANY).map(|number| connect(bench, number)).collect()
}

/// Registers an xDS client with some resources, connected until the return value is dropped.
fn connect(bench: &Bench, number: u64) -> Registered {
    let stream = bench.app.node().member().subscribers().streams().begin(StreamClient {
        dialect: Dialect::Grpc,
        node_id: text("x", number),
        agent: "a".to_owned(),
        address: None,
        labels: Arc::default(),
        is_delta: false,
        since: Timestamp(1),
    });
    let kind = ResourceType::Cluster;
    let resource = |name: u64| Resource {
        kind,
        name: text("c", name).into(),
        version: Version::default(),
        head: Bytes::new(),
        body: Bytes::new(),
        releases: Vec::new(),
        clusters: Vec::new(),
    };
    let resources = (0..MANY).map(|name| Arc::new(resource(name)));
    stream.update(kind, |state| state.sent = resources.map(|resource| (resource.name.clone(), resource)).collect());
    stream
}

fn hear_of_clients(bench: &Bench) {
    let catalog = bench.node.state().view();
    let released = catalog.configs.find("n", "g0", "f0.txt", &ClientLabels::default()).expect("a release");
    for number in 0..MANY {
        let address = text("192.0.2.", number);
        let hold = Duration::from_secs(55);
        let (origin, connection) = (Origin::of([192, 0, 2, 1].into()), None);
        let client =
            || Client { address: &address, agent: "a", origin, hold, connection, is_named: true, is_polaris: false };
        let now = || Timestamp(1);
        bench.app.node().member().subscribers().pulled(client(), &[], &["n".to_owned()], "f0.txt", released, now);
        bench.app.node().member().subscribers().listed(client(), &BTreeMap::new(), ("n", "s0"), ("r", 1), now);
        for family in Family::ALL {
            let book = catalog.rules.of(*family);
            let rule = book.named("n", "r0").expect("a rule");
            let given: Vec<_> = book.releases_of(&rule.id).filter(|release| release.active).cloned().collect();
            bench.app.node().member().subscribers().discovered(
                client(),
                &BTreeMap::new(),
                *family,
                ("n", "s0"),
                &given,
                now,
            );
        }
    }
}

async fn ask(bench: &Bench, token: &str, list: &List, query: &str) -> Value {
    let uri = format!("{}?{}&{query}", list.path, list.query);
    bench.send("GET", &uri, Some(token), Value::Null).await.1
}

fn rows_of<'a>(list: &List, answer: &'a Value) -> &'a Vec<Value> {
    answer[list.rows].as_array().unwrap_or_else(|| panic!("{}: {answer}", list.path))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_list_is_walked_by_key_and_every_row_of_it_met_once() {
    let bench = Bench::start_with(&["a"]).await;
    let token = bench.log_in().await;
    let _streams = fill(&bench, &token).await;
    let lists = lists();
    let known: BTreeSet<_> = lists.iter().map(|list| list.path.clone()).collect();
    for route in routes().into_iter().filter(|route| route.doc.is_list() || route.doc.reads("offset")) {
        let is_whole = WHOLE.contains(&route.path.as_str());
        assert_eq!(route.doc.reads("order") && route.doc.reads("after"), !is_whole, "{}", route.path);
        assert!(is_whole || known.contains(&route.path), "{} is not tried", route.path);
    }
    for list in &lists {
        let path = &list.path;
        let whole = ask(&bench, &token, list, "").await;
        let (mut seen, mut after, mut turn) = (Vec::new(), String::new(), 0);
        loop {
            let answer = ask(&bench, &token, list, &format!("order=key&limit=2{after}")).await;
            let rows = rows_of(list, &answer);
            assert_eq!(answer["after"].is_string(), rows.len() == 2, "{path}: {answer}");
            seen.extend(rows.iter().cloned());
            let Some(end) = answer["after"].as_str() else { break };
            after = format!("&after={end}");
            turn += 1;
            if let Some((path, item)) = &list.stir {
                let items = (0..MANY).map(|number| {
                    let mut item = item((number + turn) % MANY);
                    item["comment"] = json!(text("turn ", turn));
                    item
                });
                let (_, answer) = bench.send("PUT", path, Some(&token), items.collect()).await;
                assert!(answer["code"].as_u64().is_some_and(|code| code < 300_000), "{path}: {answer}");
            }
        }
        let key = |row: &Value| -> Vec<String> {
            let words = list.key.iter().map(|member| row[*member].as_str().unwrap_or_else(|| panic!("{path}: {row}")));
            words.map(str::to_owned).collect()
        };
        if list.key.is_empty() {
            // Events, newest first; the walk itself adds some.
            let told: Vec<_> = rows_of(list, &whole).to_vec();
            assert!(seen.len() >= told.len() && seen.iter().take(told.len()).eq(&told), "{path}");
        } else {
            let expected: BTreeSet<_> = rows_of(list, &whole).iter().map(key).collect();
            let keys: Vec<_> = seen.iter().map(key).collect();
            assert!(keys.is_sorted_by(|one, other| one < other), "{path}: {keys:?}");
            assert_eq!(keys.iter().cloned().collect::<BTreeSet<_>>(), expected, "{path}");
            assert!(keys.len() >= 3, "{path} has too few rows to try it: {keys:?}");
        }
        for (query, words) in [
            ("order=mtime", "order"),
            ("order=key&after=x", "after"),
            ("after=W10", "after"),
            (format!("order=key&offset=1{after}").as_str(), "exclude"),
        ] {
            let answer = ask(&bench, &token, list, query).await;
            assert!(
                answer["code"] == 400103 && answer["info"].as_str().is_some_and(|info| info.contains(words)),
                "{path} {query}: {answer}"
            );
        }
        let none = ask(&bench, &token, list, "order=key&limit=0").await;
        assert!(none["after"].is_null() && none["amount"] == whole["amount"], "{path}: {none}");
    }
    bench.stop().await;
}
