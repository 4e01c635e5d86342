//! The description of both surfaces: whole, valid by the standard, and true of a running node.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::harness::{Cluster, http, python, report, setting};

const METHODS: [&str; 4] = ["get", "post", "put", "delete"];
/// Time limit, longer than a run takes concurrently with all other tests.
const RUN_LIMIT: Duration = Duration::from_secs(600);

async fn get(url: String) -> Result<reqwest::Response, reqwest::Error> {
    http().build().expect("a client").get(url).send().await
}

async fn document(address: SocketAddr) -> String {
    let response = get(format!("http://{address}/openapi.json")).await.expect("the document is served");
    assert_eq!(response.status(), 200);
    response.text().await.expect("the document is text")
}

/// Collects every value of `$ref` below `value`.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = document["paths"].as_object().expect("paths are an object");
    paths.iter().flat_map(|(path, item)| {
        METHODS.iter().filter_map(move |method| Some((format!("{method} {path}"), item.get(*method)?)))
    })
}

/// Runs a module of a Python that has the tools; fails with what it printed.
async fn run_tool(what: &str, arguments: &[&str], directory: &Path) -> String {
    let mut command = Command::new(python("schemathesis").await);
    command.arg("-m").args(arguments).current_dir(directory).kill_on_drop(true);
    let ended = tokio::time::timeout(RUN_LIMIT, command.output()).await;
    let output = ended.unwrap_or_else(|_| panic!("{what} takes longer than {RUN_LIMIT:?}")).expect("Python can be run");
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}:\n{told}");
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ports_serve_one_valid_description_of_both_surfaces() {
    let cluster = Cluster::start(1).await;
    let ports = cluster.ports(1);
    let text = document(ports.api).await;
    assert_eq!(text, document(ports.compat).await, "the two ports tell different things");
    let document: Value = serde_json::from_str(&text).expect("the document is JSON");

    for known in ["post /naming/v1/services", "get /naming/v1/routings", "get /notifications/v2", "get /readyz"] {
        assert!(operations(&document).any(|(name, _)| name == known), "{known} is not described");
    }
    // Optional parameters that clients send.
    for (path, names) in [("/notifications/v2", &["appId", "ip"][..]), ("/services/config", &["appId", "ip"])] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().expect("a list");
        for name in names {
            assert!(parameters.iter().any(|parameter| parameter["name"] == *name), "{path} does not tell of {name}");
        }
    }
    let mut ids = BTreeSet::new();
    for (name, operation) in operations(&document) {
        assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{name} does not say what it does");
        assert!(ids.insert(operation["operationId"].as_str()), "{name} has the id of another");
    }
    // What is for readers of the source names items of it.
    for inside in ["[`", "::"] {
        let at = text.find(inside).map(|at| text[at.saturating_sub(80)..].chars().take(160).collect::<String>());
        assert_eq!(at, None, "{inside}");
    }
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(!found.is_empty(), "no type has a name");
    for reference in found {
        let place = reference.strip_prefix('#').unwrap_or(reference);
        assert!(document.pointer(place).is_some(), "{reference} leads nowhere");
    }

    let directory = TempDir::new().expect("a temporary directory can be made");
    std::fs::write(directory.path().join("openapi.json"), &text).expect("a file can be written");
    run_tool("openapi-spec-validator", &["openapi_spec_validator", "openapi.json"], directory.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_nothing_from_elsewhere() {
    let cluster = Cluster::start(1).await;
    for address in [cluster.ports(1).api, cluster.ports(1).compat] {
        let response = get(format!("http://{address}/docs")).await.expect("the page is served");
        let header = |name: &str| response.headers()[name].to_str().expect("a header is text").to_owned();
        assert_eq!(header("content-type"), "text/html; charset=utf-8");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert!(header("content-security-policy").starts_with("default-src 'none'; "));
        let page = response.text().await.expect("the page is text");
        assert!(!page.contains("//cdn") && !page.contains("http"), "the page names another place");
        assert!(!page.contains("innerHTML") && !page.contains("document.write"), "the page parses text as markup");
    }
}

/// Requests made up from the description, good and bad ones: nothing fails inside, and no status,
/// media type or body is answered that the description does not have. `THUBAN_IT_EXAMPLES` sets how
/// many for each operation.
async fn hold_to_the_description(
    surface: &str,
    address: impl Fn(&Cluster) -> SocketAddr,
    selection: &[&str],
) -> Cluster {
    // Polls that find nothing are held to their end.
    let cluster = Cluster::start_with_data_key(1, &["--long-poll-timeout-ms", "100"]).await;
    cluster.api(1).publish("default", "app", "application", "greeting=hello").await;
    let directory = TempDir::new().expect("a temporary directory can be made");
    let (base, token) = (format!("http://{}", address(&cluster)), format!("Authorization: {}", cluster.token()));
    let (location, examples) = (format!("{base}/openapi.json"), setting("THUBAN_IT_EXAMPLES", 10_u32).to_string());
    let checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
    let mut arguments = vec!["schemathesis.cli", "run", &location, "--url", &base, "--header", &token];
    arguments.extend(["--checks", checks, "--phases", "examples,coverage,fuzzing", "--max-examples", &examples]);
    // Equal requests in every run.
    arguments.extend(["--generation-deterministic", "--generation-with-security-parameters", "false"]);
    arguments.extend(["--continue-on-failure", "--no-color", "--warnings", "off", "--suppress-health-check", "all"]);
    arguments.extend(selection);
    let told = run_tool(&format!("schemathesis on {surface}"), &arguments, directory.path()).await;
    let counted = told.lines().find(|line| line.contains("generated")).unwrap_or_default();
    report(format!("schemathesis on {surface}: {}", counted.trim()));
    cluster
}

/// Without its token a run would have seen nothing but 401.
async fn expect_token_alive(cluster: &Cluster) {
    cluster.api(1).get("/naming/v1/services/count").await.expect_code(200_000);
}

/// Rules have the deepest types and by far the most requests.
const RULES: &str = "^/naming/v1/(faultdetectors|ratelimits|routings|circuitbreakers)";
/// Releases of all families have the same handlers and types: those of one family represent all.
const WITHOUT_REPETITION: &str =
    "^/naming/v1/(routings|(faultdetectors|ratelimits|circuitbreakers)(/detail|/delete)?$)";

#[tokio::test(flavor = "multi_thread")]
async fn the_routes_of_rules_answer_as_they_are_described() {
    let selection = ["--include-path-regex", WITHOUT_REPETITION];
    expect_token_alive(&hold_to_the_description("rules", |cluster| cluster.ports(1).api, &selection).await).await;
}

/// Requests that take names from answers may end the token of their own run.
const ACCOUNTS: &str = "^/auth/v1/(users|user/password)";

#[tokio::test(flavor = "multi_thread")]
async fn the_routes_of_accounts_answer_as_they_are_described() {
    let selection = ["--include-path-regex", ACCOUNTS];
    let cluster = hold_to_the_description("accounts", |cluster| cluster.ports(1).api, &selection).await;
    assert_eq!(cluster.api(1).health("/readyz").await.expect("the node answers").0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_routes_of_management_answer_as_they_are_described() {
    let left_out = [
        RULES,
        ACCOUNTS,
        // Ends the token of this run.
        "/logout$",
        // A single node cannot lose a member: with one that is down it would stop at the first write.
        "^/admin/v1/cluster/(add|promote|remove|transfer)$",
        // Is held for a made-up time, and waits for a made-up index.
        "^/v1/Discover$",
        // The same handlers under another name.
        "^/core/v1/",
    ];
    // The last occurrence of a repeated option wins.
    let left_out = left_out.join("|");
    let selection = ["--exclude-tag", "Config clients", "--exclude-path-regex", &left_out];
    expect_token_alive(&hold_to_the_description("management", |cluster| cluster.ports(1).api, &selection).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_surface_of_config_clients_answers_as_it_is_described() {
    let selection = ["--include-tag", "Config clients"];
    let cluster = hold_to_the_description("config clients", |cluster| cluster.ports(1).compat, &selection).await;
    expect_token_alive(&cluster).await;
}
