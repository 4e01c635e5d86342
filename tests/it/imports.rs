//! `thuban import`: what it would do, what it does, and that it does nothing the second time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use thuban::model::signature::{Signature, SigningKey, Target};

use crate::harness::{Cluster, Done, report, run, setting};

const APP: &str = "shop";
pub(crate) const SECRET: &str = "secret-of-the-app";
const KEYS: usize = 20;

/// Paths and texts of an archive.
type Files<'a> = &'a [(&'a str, &'a str)];

/// Answers signed requests like a config service of Apollo, with the configurations of each namespace.
pub(crate) async fn stand_in(
    configurations: impl Fn(&str) -> Option<Value> + Clone + Send + Sync + 'static,
) -> SocketAddr {
    let answer = move |Path((app, cluster, name)): Path<(String, String, String)>, request: Request| async move {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let target = Target { path: request.uri().path(), query: "" };
        let signature = Signature::read(header("Authorization"), header("Timestamp"));
        let key = SigningKey::new(SECRET.as_bytes());
        if !signature.is_some_and(|signature| signature.app_id == APP && key.has_signed(target, &signature)) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let Some(configurations) = configurations(&name).filter(|_| app == APP) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let answer = json!({
            "appId": app, "cluster": cluster, "namespaceName": name, "configurations": configurations,
              "releaseKey": "1",
        });
        Response::new(answer.to_string().into())
    };
    let router = Router::new().route("/configs/{app}/{cluster}/{name}", get(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Namespaces `app-0` and so on.
fn numbered(namespaces: usize) -> impl Fn(&str) -> Option<Value> + Clone {
    move |name| {
        let number = name.strip_prefix("app-").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
        let number = number.filter(|number| *number < namespaces)?;
        let pair = |key: usize| (format!("key.{key}"), Value::from(format!("value {number} = {key}: ü")));
        let pairs: BTreeMap<_, _> = match name.ends_with(".yaml") {
            true => [("content".to_owned(), json!(format!("number: {number}\n")))].into(),
            false => (0..KEYS).map(pair).collect(),
        };
        Some(json!(pairs))
    }
}

struct Bench {
    cluster: Cluster,
    endpoint: String,
}

impl Bench {
    async fn start() -> Bench {
        let cluster = Cluster::start(1).await;
        let endpoint = format!("http://{}", cluster.ports(1).api);
        Bench { cluster, endpoint }
    }

    async fn import(&self, arguments: &str) -> Done {
        let arguments: Vec<_> = ["import"].into_iter().chain(arguments.split(' ')).collect();
        run(&self.endpoint, self.cluster.token(), &arguments, "").await
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.cluster.file(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    /// Releases that there are: what changed nothing published nothing.
    async fn written(&self) -> u64 {
        let answer = self.cluster.api(1).get("/config/v1/configfiles/releases?limit=0").await.expect_code(200_000);
        answer.amount()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_service_of_apollos_is_brought_in_once() {
    let bench = Bench::start().await;
    let count = setting("THUBAN_IT_IMPORTED", 1000);
    let address = stand_in(numbered(count)).await;
    let suffix = |number: usize| if number % 10 == 9 { ".yaml" } else { "" };
    let names: String = (0..count).map(|number| format!("app-{number}{}\n", suffix(number))).collect();
    let names = bench.file("namespaces", format!("{names}missing\n").as_bytes());
    let secret = bench.file("secret", format!("{SECRET}\n").as_bytes());
    let base = format!("apollo --config-service http://{address} --app-id {APP} --namespaces-file {}", names.display());
    let refused = bench.import(&base).await.expect(2);
    assert!(refused.contains("--secret-file"), "{refused}");

    let import = format!("{base} --secret-file {}", secret.display());
    let told = bench.import(&import).await;
    assert!(told.error.contains("--yes does it"), "{}", told.error);
    assert_eq!(told.code, 1);
    assert!(told.out.contains(&format!("{count} to create, 0 to change, 0 kept as they are, 0 the same already")));
    assert!(told.out.contains("left out  default/shop/missing: nothing is released"), "{:.300}", told.out);
    assert_eq!(bench.written().await, 0, "a dry run changes nothing");

    let begun = Instant::now();
    let told = bench.import(&format!("{import} --yes")).await.expect(0);
    let first = begun.elapsed();
    assert!(told.contains(&format!("{count} done, 0 refused")), "{told:.300}");
    assert_eq!(bench.written().await, count as u64);
    let pulled = bench.cluster.apollo(1).config(APP, "default", "app-7").await;
    let pairs = pulled["configurations"].as_object().expect("pairs");
    assert_eq!((pairs.len(), &pairs["key.3"]), (KEYS, &json!("value 7 = 3: ü")), "{pulled}");
    let pulled = bench.cluster.apollo(1).config(APP, "default", "app-9.yaml").await;
    assert_eq!(pulled["configurations"], json!({ "content": "number: 9\n" }));

    let begun = Instant::now();
    let told = bench.import(&format!("{import} --yes")).await.expect(0);
    let second = begun.elapsed();
    assert!(
        told.contains(&format!("0 to create, 0 to change, 0 kept as they are, {count} the same already")),
        "{told}"
    );
    assert_eq!(bench.written().await, count as u64, "nothing was published again");
    report(format_args!("{count} namespaces with {KEYS} keys imported in {first:.2?}, found the same in {second:.2?}"));

    // Files changed here since are overwritten, or kept.
    bench.cluster.api(1).publish("default", APP, "app-7.properties", "mine=1").await;
    let told = bench.import(&format!("{import} --keep --yes")).await.expect(0);
    assert!(told.contains("keep      default/shop/app-7.properties ") && told.contains("1 kept as they are"), "{told}");
    let told = bench.import(&format!("{import} --yes")).await.expect(0);
    assert!(told.contains("change    default/shop/app-7") && told.contains("1 done, 0 refused"), "{told}");
}

/// In the order of the keys in which the config service gives them, under the names that are there; else with the
/// suffix that the console and the book use.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_keeps_the_order_of_keys_and_the_names_that_are_there() {
    let bench = Bench::start().await;
    let api = bench.cluster.api(1);
    let address = stand_in(|_| Some(json!({ "zeta": "1", "b.2": "2", "alpha": "3" }))).await;
    let secret = bench.file("secret", SECRET.as_bytes());
    api.publish("default", APP, "plain", "old=1").await;
    api.publish("default", APP, "Suffixed.properties", "old=1").await;
    let draft = json!({"namespace": "default", "group": APP, "name": "drafted", "content": "old=1"});
    api.post("/config/v1/configfiles", &draft).await.expect_code(200_000);
    let names = "plain,suffixed,drafted,fresh";
    let import = format!(
        "apollo --config-service http://{address} --app-id {APP} --namespaces {names} --secret-file {} --yes",
        secret.display()
    );
    let told = bench.import(&import).await.expect(0);
    for line in [
        "change    default/shop/plain ",
        "change    default/shop/Suffixed.properties ",
        "create    default/shop/drafted ",
        "create    default/shop/fresh.properties ",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    assert!(!told.contains("warning"), "no file is beside another: {told}");
    for name in names.split(',') {
        let pulled = bench.cluster.apollo(1).get(&format!("/configfiles/json/{APP}/default/{name}")).await;
        assert_eq!(pulled.text, r#"{"zeta":"1","b.2":"2","alpha":"3"}"#, "{name}");
    }
    assert!(bench.import(&import).await.expect(0).contains("4 the same already"));

    // A file with another spelling of an imported name is reported by every surface.
    let beside = json!({"namespace": "default", "group": APP, "name": "fresh", "content": "mine=1"});
    let saved = api.post("/config/v1/configfiles", &beside).await.expect_code(200_000);
    let warning = r#"\"fresh.properties\" is published in this group as well"#;
    assert!(saved.to_string().contains(warning), "{saved}");
    let who = run(&bench.endpoint, bench.cluster.token(), &["who", "configfile/shop/fresh"], "").await.expect(0);
    assert!(who.contains(r#"warning   "fresh.properties" is published"#), "{who}");
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_are_brought_in_once() {
    let bench = Bench::start().await;
    let metadata = "metadata:\n- appName: shop\n  dataId: plain\n  desc: d\n  group: G\n  type: properties\n";
    let nacos = [("G/app.yaml", "a: 1"), ("G/plain", "a=1"), ("H/broken.json", "{"), (".metadata.yml", metadata)];
    let apollo = [("me/shop/DEV/shop+blue+application.properties", "a = 1"), ("me/shop/DEV/shop+blue+app.yml", "a: 1")];
    let polaris = [("g/one.toml", "a = 1"), ("META", "{\"g/one.toml\":{\"tags\":{\"k\":\"v\"},\"comment\":\"c\"}}")];
    let plain = [("east/app/one.txt", "1"), ("west/app/one.txt", "2")];
    let rows: [(&str, Files<'_>, &str, usize, usize); 4] = [
        ("nacos", &nacos, " --to-namespace prod", 2, 1),
        ("apollo", &apollo, "", 2, 0),
        ("polaris", &polaris, "", 1, 0),
        ("zip", &plain, "", 2, 0),
    ];
    for (kind, files, options, good, broken) in rows {
        let archive = thuban::bundle::write(files.iter().copied()).expect("written");
        let path = bench.file(kind, &archive);
        let import = format!("{kind} --file {}{options}", path.display());
        let before = bench.written().await;
        let told = bench.import(&import).await;
        assert!(told.code == 1 && told.out.contains(&format!("{} to create", good + broken)), "{kind} {}", told.out);
        let told = bench.import(&format!("{import} --yes --dry-run")).await;
        assert!(told.code == 1 && told.out.contains(&format!("{} to create", good + broken)), "{kind} {}", told.out);
        let told = bench.import(&format!("{import} --yes")).await;
        assert!(told.out.contains(&format!("{good} done, {broken} refused")), "{kind} {}", told.out);
        assert_eq!(told.code, if broken > 0 { 3 } else { 0 });
        let refused = told.error.lines().filter(|line| line.starts_with("refused   ")).count();
        assert!(refused == broken && !told.out.contains("refused   "), "{kind} {}{}", told.out, told.error);
        let told = bench.import(&format!("{import} --yes --force")).await;
        assert!(told.code == 0 && told.out.contains(&format!("{good} the same already")), "{kind} {}", told.out);
        let told = bench.import(&format!("{import} --yes")).await.expect(0);
        assert!(told.contains(&format!("{} the same already", good + broken)), "{kind} {told}");
        bench.import(&format!("{import} --dry-run")).await.expect(0);
        assert_eq!(bench.written().await - before, (good + broken) as u64, "{kind}");
    }
    let pulled = bench.cluster.apollo(1).config("G", "prod", "plain").await;
    assert_eq!(pulled["configurations"], json!({ "a": "1" }));
    let pulled = bench.cluster.apollo(1).config("shop", "blue", "application").await;
    assert_eq!(pulled["configurations"], json!({ "a": "1" }));

    // Drafts alone, then the same again.
    let archive = thuban::bundle::write(plain.into_iter()).expect("written");
    let path = bench.file("drafts", &archive);
    let import = format!("polaris --file {} --to-namespace drafts --drafts --yes", path.display());
    let before = bench.written().await;
    bench.import(&import).await.expect(0);
    assert!(bench.import(&import).await.expect(0).contains("2 the same already"));
    assert_eq!(bench.written().await, before, "nothing is published");
    let missing = bench.import("zip --file nowhere.zip").await.expect(2);
    assert!(missing.contains("nowhere.zip cannot be read"), "{missing}");
    let no_zip = bench.file("no.zip", b"not an archive");
    bench.import(&format!("zip --file {} --yes", no_zip.display())).await.expect(2);
    bench.import("apollo --config-service http://127.0.0.1:1 --app-id a").await.expect(2);
}
