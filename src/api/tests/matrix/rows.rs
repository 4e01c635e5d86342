//! One row per call: its route, object and required verbs. Rows of rules are made for every kind.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::law::{
    Ask, Law, Row, body, change, create, discovered, into, listed, nothing, of_namespace, query, readable, with_code,
};
use super::rule_rows::of_rules;
use super::things::{HOME, Need, Thing, file_release, kinds};
use super::{OTHER_NAMESPACE, Place, RAW, oneself, sso_rows};
use crate::model::grant::Verb::{self, Approve, Edit, Manage, Operate, Read, Register, Release};

pub(super) fn rows() -> Vec<Row> {
    let rules = kinds().flat_map(of_rules);
    let namespaces = ["naming", "core"].into_iter().flat_map(of_namespaces);
    let fixed = [of_everybody(), of_accounts(), of_cluster(), of_services(), of_instances(), of_discovery()];
    let configs = [oneself::rows(), sso_rows::rows(), of_templates(), of_groups(), of_files(), of_file_releases()];
    let mut rows: Vec<_> = fixed.into_iter().chain(configs).flatten().chain(namespaces).chain(rules).collect();
    // Their rules are visible from the other namespace, in lists too, so they run last.
    rows.sort_by_key(|row| row.case == ABROAD);
    rows
}

pub(super) const ABROAD: &str = "about a service elsewhere";

fn of_everybody() -> Vec<Row> {
    let open = ["/livez", "/readyz", "/openapi.json", "/docs", "/metrics"];
    let mut rows: Vec<_> = open.map(|path| Row::new("GET", path, Law::Open(200_000), nothing)).into();
    for prefix in ["auth", "core"] {
        let no_password = |_: &Thing| body(json!({ "name": 5 }));
        rows.push(Row::new("POST", format!("/{prefix}/v1/user/login"), Law::Open(400_001), no_password));
        let log_out = Row::new("POST", format!("/{prefix}/v1/user/logout"), Law::Holder(200_000), nothing);
        rows.push(Row { ends_token: true, ..log_out });
    }
    rows
}

fn of_accounts() -> Vec<Row> {
    let name = |what: &str, thing: &Thing| format!("{what}-{}", thing.turn);
    let (users, tokens, keys) = ("/auth/v1/users", "/auth/v1/tokens", "/auth/v1/accesskeys");
    let key = move |thing: &Thing| json!({ "app_id": thing.tag, "name": "made", "mode": "observe" });
    vec![
        Row::new("GET", users, Law::Whole(Manage, 200_000), nothing),
        Row::new("POST", users, Law::Whole(Manage, 200_000), move |thing| {
            body(json!([{ "name": name("made", thing), "password": "long enough" }]))
        }),
        Row::new("PUT", users, Law::Whole(Manage, 200_000), |thing| {
            body(json!([{ "name": "without-grants", "comment": thing.tag }]))
        }),
        Row::new("POST", "/auth/v1/users/delete", Law::Whole(Manage, 200_000), |_| body(json!([{ "name": "gone" }]))),
        Row::new("PUT", "/auth/v1/user/password", Law::Whole(Manage, 200_000), |_| {
            body(json!({ "name": "former-disabled", "new_password": "long enough" }))
        }),
        Row::new("GET", "/auth/v1/roles", Law::Holder(200_000), nothing),
        Row::new("GET", keys, Law::Whole(Manage, 200_000), nothing),
        Row::new("POST", keys, Law::Whole(Manage, 503_005), move |thing| body(json!([key(thing)]))),
        Row::new("PUT", keys, Law::Whole(Manage, 400_202), move |thing| body(json!([key(thing)]))),
        Row::new("POST", "/auth/v1/accesskeys/delete", Law::Whole(Manage, 200_000), move |thing| {
            body(json!([key(thing)]))
        }),
        Row::new("GET", tokens, Law::Whole(Manage, 200_000), nothing),
        Row::new("POST", tokens, Law::Whole(Manage, 200_000), move |thing| {
            body(json!([{ "name": name("made", thing), "grants": [{ "role": "reader", "namespace": "*" }] }]))
        }),
        Row::new("POST", "/auth/v1/tokens/delete", Law::Whole(Manage, 200_000), |_| body(json!([{ "name": "gone" }]))),
    ]
}

fn of_cluster() -> Vec<Row> {
    let order = |path: &str, code, order: Value| {
        let path = format!("/admin/v1/cluster/{path}");
        Row::new("POST", path, Law::Whole(Operate, code), move |_| body(order.clone()))
    };
    let policies = "/admin/v1/policies";
    let decide = |word: &str, verbs: &'static [Verb]| {
        let of_approvers = Law::Write { verbs, stands: None, goes: Vec::new(), missing: 400_202, code: 400_202 };
        let law = if verbs.is_empty() { Law::Holder(400_202) } else { of_approvers };
        Row::new("POST", format!("/admin/v1/requests/{word}"), law, |_| body(json!([{ "id": "none" }])))
    };
    let contracts = "/admin/v1/contracts";
    let contract = |thing: &Thing| {
        let name = format!("{}-{}", thing.tag, thing.turn);
        body(json!([{ "name": name, "namespace": HOME, "names": [thing.tag], "schema": true }]))
    };
    let [unknown, absent] = [400_202, 200_000].map(|code| Law::Write {
        verbs: &[Edit],
        stands: None,
        goes: Vec::new(),
        missing: code,
        code,
    });
    let tried = Law::Write { verbs: &[Read], stands: None, goes: vec![Place::Thing], missing: 401_001, code: 200_000 };
    let hooks = "/admin/v1/webhooks";
    let hook = |thing: &Thing| body(json!([{ "name": thing.tag, "url": "https://hooks.example.org/" }]));
    vec![
        Row::new("GET", "/admin/v1/audit", Law::Whole(Manage, 200_000), nothing),
        Row::new("GET", "/admin/v1/audit/wouldrefuse", Law::Whole(Manage, 200_000), nothing),
        Row::new("GET", "/admin/v1/settings", Law::Whole(Operate, 200_000), nothing),
        Row::new("PUT", "/admin/v1/settings", Law::Whole(Operate, 200_000), |thing| {
            body(json!({ "releases_kept": 100 + thing.turn }))
        }),
        Row::new("POST", "/admin/v1/datakey/reseal", Law::Whole(Manage, 503_005), nothing),
        Row::new("GET", "/admin/v1/clients", Law::Holder(200_000), |_| query("address=10.0.0.1".into())),
        Row::new("GET", "/admin/v1/xds/clients", Law::Whole(Operate, 200_000), nothing),
        Row::new("GET", "/admin/v1/xds/dump", Law::Whole(Operate, 400_202), |_| query("node_id=nobody".into())),
        Row::new("GET", hooks, Law::Whole(Operate, 200_000), nothing),
        Row::new("POST", hooks, Law::Whole(Operate, 503_005), hook),
        Row::new("PUT", hooks, Law::Whole(Operate, 400_202), hook),
        Row::new("POST", "/admin/v1/webhooks/delete", Law::Whole(Operate, 200_000), hook),
        Row::new("GET", policies, Law::Whole(Manage, 200_000), nothing),
        Row::new("POST", policies, Law::Whole(Manage, 200_000), |thing| {
            body(json!([{ "name": format!("{}-{}", thing.tag, thing.turn), "namespace": "nowhere" }]))
        }),
        Row::new("PUT", policies, Law::Whole(Manage, 400_202), |_| body(json!([{ "name": "none" }]))),
        Row::new("POST", "/admin/v1/policies/delete", Law::Whole(Manage, 200_000), |_| {
            body(json!([{ "name": "none" }]))
        }),
        Row::new("GET", contracts, Law::Holder(200_000), nothing),
        Row::new("POST", contracts, create(&[Edit]), contract),
        Row::new("PUT", contracts, unknown, |_| body(json!([{ "name": "none" }]))),
        Row::new("POST", "/admin/v1/contracts/delete", absent, |_| body(json!([{ "name": "none" }]))),
        Row::new("POST", "/admin/v1/contracts/test", tried, |thing| {
            body(json!([{ "namespace": HOME, "name": format!("{}/a.json", thing.tag), "content": "{}" }]))
        })
        .nameless(),
        Row::new("GET", "/admin/v1/requests", Law::Holder(200_000), nothing),
        Row::new("GET", "/admin/v1/requests/diff", Law::Holder(400_202), |_| query("id=none".into())),
        decide("approve", &[Approve]),
        decide("refuse", &[Approve]),
        decide("withdraw", &[]),
        decide("run", &[]),
        Row::new("GET", "/admin/v1/cluster", Law::Whole(Operate, 200_000), nothing),
        Row::new("GET", "/admin/v1/cluster/time", Law::Whole(Operate, 200_000), nothing),
        Row::new("POST", "/admin/v1/cluster/time/confirm", Law::Whole(Manage, 200_002), |_| {
            body(json!({ "time": "present" }))
        }),
        order("add", 400_103, json!({ "id": 0, "peer": "nowhere" })),
        order("promote", 400_000, json!({ "id": 99 })),
        order("remove", 400_000, json!({ "id": 99 })),
        order("transfer", 400_000, json!({ "to": 99 })),
        order("snapshot", 200_000, json!({})),
        Row::new("GET", "/admin/v1/backup", Law::Whole(Operate, 200_000), nothing),
    ]
}

fn of_namespaces(prefix: &'static str) -> Vec<Row> {
    let path = format!("/{prefix}/v1/namespaces");
    vec![
        Row::new("GET", &path, listed(Place::Namespace), |_| query(format!("name={HOME}"))),
        Row::new("POST", &path, of_namespace(false, 200_000), move |thing| {
            body(json!([{ "name": format!("{HOME}-by-{prefix}-{}", thing.turn) }]))
        }),
        Row::new("PUT", &path, of_namespace(true, 400_202), |thing| {
            body(json!([{ "name": thing.home, "owners": format!("owner {}", thing.turn) }]))
        })
        .needs(Need::Namespace),
        Row::new("POST", format!("{path}/delete"), of_namespace(true, 200_000), |thing| {
            body(json!([{ "name": thing.home }]))
        })
        .needs(Need::Namespace),
    ]
}

fn of_services() -> Vec<Row> {
    let (services, aliases) = ("/naming/v1/services", "/naming/v1/service/aliases");
    let named = |thing: &Thing| json!({ "namespace": HOME, "name": thing.tag });
    let alias = |thing: &Thing| json!({ "alias": thing.alias(), "alias_namespace": HOME });
    let with = |mut item: Value, key: &str, value: Value| {
        item[key] = value;
        body(json!([item]))
    };
    vec![
        Row::new("GET", services, listed(Place::Thing), |thing| query(format!("namespace={HOME}&name={}", thing.tag))),
        Row::new("GET", services, listed(Place::Thing), |_| query("name=*&namespace=*".into())).case("by globs"),
        Row::new("GET", "/naming/v1/services/all", listed(Place::Thing), |_| query(format!("namespace={HOME}"))),
        Row::new("GET", "/naming/v1/services/count", listed(Place::Thing), nothing).counts(),
        Row::new("POST", services, create(&[Edit]), move |thing| body(json!([named(thing)]))),
        Row::new("POST", services, with_code(create(&[Edit]), 400_201), move |thing| body(json!([named(thing)])))
            .case("taken")
            .needs(Need::Service),
        Row::new("PUT", services, change(&[Edit], 400_202), move |thing| with(named(thing), "owners", json!("them")))
            .needs(Need::Service),
        Row::new("PUT", services, change(&[Edit], 400_202), move |thing| {
            with(json!({ "id": thing.service_id }), "owners", json!("them"))
        })
        .case("by id")
        .needs(Need::Service),
        Row::new("POST", "/naming/v1/services/delete", change(&[Edit], 200_000), move |thing| {
            body(json!([named(thing)]))
        })
        .needs(Need::Service),
        Row::new("GET", aliases, listed(Place::Thing), |thing| query(format!("alias={}", thing.alias()))),
        Row::new("POST", "/naming/v1/service/alias", create(&[Edit]), |thing| {
            let alias = format!("{}-further", thing.tag);
            body(json!([{ "alias": alias, "alias_namespace": HOME, "service": thing.tag, "namespace": HOME }]))
        })
        .needs(Need::Service),
        Row::new("PUT", "/naming/v1/service/alias", change(&[Edit], 400_304), move |thing| {
            with(alias(thing), "owners", json!("them"))
        })
        .needs(Need::Alias),
        Row::new(
            "PUT",
            "/naming/v1/service/alias",
            with_code(into(change(&[Edit], 400_304), Place::ThingElsewhere), 400_301),
            move |thing| {
                let mut item = alias(thing);
                item["namespace"] = json!(OTHER_NAMESPACE);
                with(item, "service", json!(thing.tag))
            },
        )
        .case("to a service of another namespace")
        .needs(Need::Alias),
        Row::new("POST", "/naming/v1/service/aliases/delete", change(&[Edit], 200_000), move |thing| {
            body(json!([alias(thing)]))
        })
        .needs(Need::Alias),
        Row::new("POST", "/naming/v1/service/aliases/delete", change(&[Edit], 200_000), |thing| {
            body(json!([{ "id": thing.alias_id }]))
        })
        .case("by id")
        .needs(Need::Alias),
    ]
}

fn address(thing: &Thing) -> Value {
    json!({ "namespace": HOME, "service": thing.tag, "host": "10.0.0.1", "port": 80 })
}

fn of_instances() -> Vec<Row> {
    let instances = "/naming/v1/instances";
    let new = |thing: &Thing| json!({ "namespace": HOME, "service": thing.tag, "host": "10.0.0.9", "port": 81 });
    let of_service = |thing: &Thing| query(format!("namespace={HOME}&service={}", thing.tag));
    vec![
        Row::new("GET", instances, listed(Place::Thing), of_service),
        Row::new("GET", instances, listed(Place::Thing), |_| query("host=10.0.0.1".into())).case("by host"),
        Row::new("GET", "/naming/v1/instances/count", listed(Place::Thing), nothing).counts(),
        Row::new("GET", "/naming/v1/instances/labels", readable(400_301), of_service),
        Row::new("POST", instances, create(&[Edit]), move |thing| body(json!([new(thing)]))),
        Row::new("PUT", instances, change(&[Edit], 400_303), |thing| {
            body(json!([{ "id": thing.instance_id, "weight": 7 }]))
        })
        .needs(Need::Instance),
        Row::new("POST", "/naming/v1/instances/delete", change(&[Edit], 200_000), |thing| {
            body(json!([address(thing)]))
        })
        .needs(Need::Instance),
        Row::new("POST", "/naming/v1/instances/delete/host", change(&[Edit], 200_000), |thing| {
            body(json!([address(thing)]))
        })
        .needs(Need::Instance),
        Row::new("PUT", "/naming/v1/instances/isolate/host", change(&[Edit], 400_303), |thing| {
            let mut item = address(thing);
            item["isolate"] = json!(true);
            body(json!([item]))
        })
        .needs(Need::Instance),
        Row::new("GET", "/naming/v1/instances/subscribers", readable(400_202), of_service).nameless(),
        Row::new("POST", "/naming/v1/instances/drain", change(&[Edit], 400_202), |thing| body(address(thing)))
            .needs(Need::Instance),
        Row::new("POST", "/v1/RegisterInstance", create(&[Register]), move |thing| body(new(thing))),
        Row::new("POST", "/v1/DeregisterInstance", change(&[Register], 200_000), |thing| body(address(thing)))
            .needs(Need::Instance),
        Row::new("POST", "/v1/DeregisterInstance", change(&[Register], 200_000), |thing| {
            body(json!({ "id": thing.instance_id }))
        })
        .case("by id")
        .needs(Need::Instance),
        Row::new("POST", "/v1/Heartbeat", Law::Beat, |thing| body(json!({ "id": thing.instance_id }))),
        Row::new("POST", "/v1/Heartbeat", Law::Beat, |thing| body(address(thing))).case("by address"),
    ]
}

fn of_discovery() -> Vec<Row> {
    let row = |case: &'static str, law| {
        Row::new("POST", "/v1/Discover", law, move |thing: &Thing| {
            body(json!({ "type": case, "service": { "namespace": HOME, "name": thing.tag } }))
        })
        .case(case)
    };
    let by_alias =
        |thing: &Thing| body(json!({ "type": "INSTANCE", "service": { "namespace": HOME, "name": thing.alias() } }));
    vec![
        row("SERVICES", discovered(Place::Thing, 200_000)),
        row("NAMESPACES", discovered(Place::Namespace, 200_000)),
        row("INSTANCE", discovered(Place::Thing, 400_202)),
        Row::new("POST", "/v1/Discover", discovered(Place::Thing, 400_202), by_alias).case("INSTANCE by alias"),
        row("ROUTING", discovered(Place::Thing, 200_000)),
        row("CUSTOM_ROUTE_RULE", discovered(Place::Thing, 200_000)),
        row("RATE_LIMIT", discovered(Place::Thing, 200_000)),
        row("FAULT_DETECTOR", discovered(Place::Thing, 200_000)),
        Row::new("GET", "/v1/prometheus/targets", discovered(Place::Thing, 200_000), |_| {
            query(format!("namespace={HOME}"))
        }),
        Row::new("POST", "/v1/Applied", Law::Holder(204_000), |thing| {
            body(json!({ "type": "ROUTING", "namespace": HOME, "name": thing.tag, "version": 1, "ok": true }))
        }),
    ]
}

fn of_groups() -> Vec<Row> {
    let groups = "/config/v1/configfilegroups";
    let named = |thing: &Thing| json!({ "namespace": HOME, "name": thing.tag });
    let of_group = |thing: &Thing| query(format!("namespace={HOME}&group={}", thing.tag));
    vec![
        Row::new("GET", groups, listed(Place::Thing), of_group),
        Row::new("POST", groups, create(&[Edit]), move |thing| body(named(thing))),
        Row::new("PUT", groups, change(&[Edit], 400_202), move |thing| {
            let mut item = named(thing);
            item["business"] = json!("theirs");
            body(item)
        })
        .needs(Need::Group),
        Row::new("DELETE", groups, change(&[Edit], 200_000), of_group).needs(Need::Group),
        Row::new("POST", "/config/v1/configfilegroups/delete", change(&[Edit], 200_000), move |thing| {
            body(json!([named(thing)]))
        })
        .needs(Need::Group),
    ]
}

fn of_templates() -> Vec<Row> {
    let templates = "/config/v1/configfiletemplates";
    let made = |thing: &Thing| body(json!({ "name": format!("template-{}", thing.turn), "content": "k=1" }));
    vec![
        Row::new("GET", "/config/v1/configfiles/encryptalgorithm", Law::Holder(200_000), nothing),
        Row::new("GET", templates, Law::Holder(200_000), nothing),
        Row::new("POST", templates, Law::Whole(Edit, 200_000), made),
        Row::new("PUT", templates, Law::Whole(Edit, 400_202), |_| body(json!([{ "name": "gone" }]))),
        Row::new("POST", format!("{templates}/delete"), Law::Whole(Edit, 200_000), |_| {
            body(json!([{ "name": "gone" }]))
        }),
    ]
}

fn of_files() -> Vec<Row> {
    let files = "/config/v1/configfiles";
    let named = |thing: &Thing| json!({ "namespace": HOME, "group": thing.tag, "name": "app.properties" });
    let of_file = |thing: &Thing| query(format!("namespace={HOME}&group={}&name=app.properties", thing.tag));
    let of_group = |thing: &Thing| query(format!("namespace={HOME}&group={}&brief=false", thing.tag));
    let mut rows = vec![
        Row::new("GET", files, readable(400_202), of_file),
        Row::new("GET", "/config/v1/configfiles/search", listed(Place::Thing), of_group),
        Row::new("GET", "/config/v1/configfiles/search", listed(Place::Thing), |_| {
            query("name=app*&brief=false".into())
        })
        .case("everywhere"),
        Row::new("GET", "/config/v1/configfiles/search", listed(Place::Thing), |_| {
            query("content=sealed&brief=false".into())
        })
        .case("by content"),
        Row::new("POST", "/config/v1/configfiles/export", readable(400_202), |thing| {
            body(json!({ "namespace": HOME, "groups": [thing.tag] }))
        }),
        Row::new("POST", "/config/v1/configfiles/import", create(&[Edit]), |thing| {
            let archive = crate::bundle::write([("imported", "k=1")].into_iter()).expect("written");
            let query = format!("?namespace={HOME}&group={}", thing.tag);
            Ask { query, body: json!(format!("{RAW}{}", STANDARD.encode(archive))) }
        }),
        Row::new("POST", "/config/v1/configfiles/copy", into(change(&[Edit], 400_202), Place::Thing), |thing| {
            let to = format!("{}-copy", thing.tag);
            body(json!({ "namespace": HOME, "groups": [thing.tag], "to_namespace": HOME, "to_group": to }))
        })
        .asks(&[])
        .needs(Need::File),
        Row::new("GET", "/config/v1/configfiles/by-group", listed(Place::Thing), of_group),
        Row::new("POST", files, create(&[Edit]), move |thing| body(named(thing))),
        Row::new("PUT", files, change(&[Edit], 400_202), move |thing| {
            let mut item = named(thing);
            item["content"] = json!("changed=1");
            body(item)
        })
        .needs(Need::File),
        Row::new("DELETE", files, change(&[Edit], 200_000), of_file).needs(Need::File),
    ];
    for path in ["/config/v1/configfiles/delete", "/config/v1/configfiles/batchdelete"] {
        let delete = move |thing: &Thing| body(json!([named(thing)]));
        rows.push(Row::new("POST", path, change(&[Edit], 200_000), delete).needs(Need::File));
        let in_force = Row::new("POST", path, change(&[Edit, Release], 200_000), delete).case("in force");
        rows.push(in_force.asks(&[Edit]).needs(Need::FileReleases));
    }
    rows
}

fn of_file_releases() -> Vec<Row> {
    let base = "/config/v1/configfiles";
    let of_file = |rest: &'static str| {
        move |thing: &Thing| query(format!("namespace={HOME}&group={}&file_name=app.properties{rest}", thing.tag))
    };
    let release = |name: &'static str, as_array: bool| {
        move |thing: &Thing| {
            let mut item = file_release(&thing.tag, name);
            item.as_object_mut().expect("an object").remove("release_description");
            body(if as_array { json!([item]) } else { item })
        }
    };
    let change = |missing| change(&[Release], missing);
    let mut rows = vec![
        Row::new("POST", format!("{base}/createandpub"), create(&[Edit, Release]), |thing| {
            let content = format!("k={}", thing.turn);
            body(json!({ "namespace": HOME, "group": thing.tag, "file_name": "app.properties", "content": content }))
        }),
        Row::new("POST", format!("{base}/release"), change(400_202), release("third", false)).needs(Need::FileReleases),
        Row::new("GET", format!("{base}/release"), readable(400_202), of_file("")),
        Row::new("GET", format!("{base}/release"), readable(400_202), of_file("&name=gray")).case("by its name"),
        Row::new("GET", format!("{base}/releases"), listed(Place::Thing), of_file("")),
        Row::new("GET", format!("{base}/releases"), listed(Place::Thing), |_| query(String::new())).case("all"),
        Row::new("GET", format!("{base}/release/versions"), listed(Place::Thing), of_file("")),
        Row::new("PUT", format!("{base}/releases/rollback"), change(400_202), release("first", true))
            .needs(Need::FileReleases),
        Row::new("POST", format!("{base}/releases/delete"), change(200_000), release("first", true))
            .needs(Need::FileReleases),
        Row::new("DELETE", format!("{base}/releases"), change(200_000), of_file("&name=first"))
            .needs(Need::FileReleases),
    ];
    let history = Row::new("GET", format!("{base}/releasehistory"), listed(Place::Thing), of_file(""));
    rows.push(history.counts().needs(Need::FileReleases));
    let diff = Row::new("GET", format!("{base}/release/diff"), readable(400_202), of_file("&from=first"));
    rows.push(diff.counts().needs(Need::FileReleases));
    let holders = Row::new("GET", format!("{base}/subscribers"), readable(400_202), of_file(""));
    rows.push(holders.nameless().needs(Need::FileReleases));
    let promote = Row::new("PUT", format!("{base}/releases/promote"), change(400_202), release("gray", true));
    rows.push(promote.needs(Need::FileGray));
    for (method, path, field, word) in
        [("PUT", "rollout", "action", json!("pause")), ("POST", "signal", "ok", json!(true))]
    {
        let steered = move |thing: &Thing| {
            let mut item = file_release(&thing.tag, "gray");
            item[field] = word.clone();
            body(json!([item]))
        };
        rows.push(Row::new(method, format!("{base}/releases/{path}"), change(400_202), steered).needs(Need::FileGray));
    }
    let withdraw = Row::new("PUT", format!("{base}/releases/withdraw"), change(400_202), release("second", true));
    rows.push(withdraw.needs(Need::FileReleases));
    for word in ["POST", "PUT"] {
        let stop = Row::new(word, format!("{base}/releases/stopbeta"), change(400_202), release("gray", true));
        rows.push(stop.needs(Need::FileGray));
    }
    rows
}
