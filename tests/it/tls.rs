//! Encryption on the way: the surfaces by certificates, the wire between nodes always, and the cluster
//! secret, which is exchanged while the cluster works.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{
    ADMIN_PASSWORD, Api, Attempt, CLUSTER_SECRET, Cluster, Eavesdropper, Load, Outcome, Pki, Ports, Process,
    RealClient, eventually, http, https, member_flags, report, thuban,
};

const LIMIT: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "tls";

async fn create(api: &Api, name: &str) {
    let body = json!([{"namespace": NAMESPACE, "name": name, "comment": name}]);
    api.post("/naming/v1/services", &body).await.expect_code(200_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_surfaces_speak_tls_and_nothing_else() {
    let pki = Pki::new().await;
    let cluster = pki.cluster(3, &[]).await;
    create(&cluster.api(2), "over-tls").await;
    cluster.api(1).publish("default", "app", "application", "number=1").await;
    cluster.expect_equal_state().await;
    let client = https(pki.client()).build().expect("a client");
    let compat = cluster.ports(3).compat;
    let pulled = client.get(format!("https://{compat}/configs/app/default/application")).send().await.expect("TLS");
    assert_eq!(pulled.status(), 200);
    assert_eq!(pulled.version(), reqwest::Version::HTTP_11);
    let services = client.get(format!("https://{compat}/services/config")).send().await.expect("TLS");
    let services = services.text().await.expect("text");
    assert!(services.contains(&format!("https://{compat}/")) && !services.contains("http://"), "{services}");
    let (api, announced) = (cluster.api(1), format!("https://{}", cluster.ports(1).compat));
    eventually(LIMIT, "node 1 is announced as what speaks TLS", || async {
        let view = api.cluster().await?;
        if view.body["members"][0]["compat"] == announced { Ok(()) } else { Err(view.to_string()) }
    })
    .await;

    // Neither an untrusted certificate nor a name that is not in the certificate.
    let strict = http().build().expect("a client");
    let refused =
        strict.get(format!("https://{compat}/livez")).send().await.expect_err("an authority it does not know");
    assert!(format!("{refused:?}").contains("UnknownIssuer"), "{refused:?}");
    let refused = client.get(format!("https://127.0.0.2:{}/livez", compat.port())).send().await;
    assert!(refused.is_err(), "a listener of 127.0.0.1 only");

    for address in [cluster.ports(1).api, compat] {
        let plain =
            http().build().expect("a client").get(format!("http://{address}/livez")).send().await.expect("words");
        assert_eq!(plain.status(), 400);
        assert_eq!(plain.text().await.expect("text"), "HTTPS is spoken on this port.\n");
    }
}

/// Clients that send nothing or garbage do not block others.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_handshake_is_closed_and_counted() {
    let pki = Pki::new().await;
    let cluster = pki.cluster(1, &[]).await;
    let address = cluster.ports(1).api;
    let _silent = TcpStream::connect(address).await.expect("listening");
    let mut nonsense = TcpStream::connect(address).await.expect("listening");
    nonsense.write_all(b"\x16\x03\x01\x00\x05hello").await.expect("open");
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(LIMIT, nonsense.read_to_end(&mut answer)).await;
    closed.expect("it is closed at once").expect("by an alert, and an end");
    let client = https(pki.client()).build().expect("a client");
    let counted = |text: &str, series: &str| text.lines().any(|line| line == series);
    eventually(LIMIT, "it is counted", || async {
        let metrics =
            client.get(format!("https://{address}/metrics")).send().await.map_err(|error| error.to_string())?;
        let text = metrics.text().await.map_err(|error| error.to_string())?;
        let series = r#"thuban_connections_refused_total{listener="api",reason="tls"} 1"#;
        if counted(&text, series) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
}

/// The certificate is replaced while a connection is open, and a broken one changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_shown_without_a_restart() {
    let pki = Pki::new().await;
    let cluster = pki.cluster(1, &[]).await;
    let url = format!("https://{}/livez", cluster.ports(1).api);
    // Its one connection stays open over everything that follows.
    let held = https(pki.client()).build().expect("a client");
    let ask = |client: reqwest::Client| {
        let url = url.clone();
        async move { client.get(url).send().await.map(|answer| answer.status().as_u16()).map_err(|e| format!("{e:?}")) }
    };
    assert_eq!(ask(held.clone()).await, Ok(200));

    let other = Pki::new().await;
    std::fs::write(pki.file("node.pem"), "broken").expect("writable");
    eventually(LIMIT, "the broken file is told", || async {
        let log = std::fs::read_to_string(cluster.log(1)).map_err(|error| error.to_string())?;
        if log.contains("the previous ones stay in use") { Ok(()) } else { Err("not told yet".to_owned()) }
    })
    .await;
    let fresh = || https(pki.client()).build().expect("a client");
    assert_eq!(ask(fresh()).await, Ok(200), "the one before is still shown");

    std::fs::copy(other.file("node-key.pem"), pki.file("node-key.pem")).expect("copied");
    std::fs::copy(other.file("node.pem"), pki.file("node.pem")).expect("copied");
    let new = || https(other.client()).build().expect("a client");
    eventually(LIMIT, "the new certificate is shown", || ask(new())).await;
    assert!(ask(fresh()).await.is_err(), "the old authority does not vouch for the new one");
    assert_eq!(ask(held).await, Ok(200), "the connection from before goes on");
}

/// Raw TLS with a certificate: only its verification; its use by requests has other tests.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_show_a_certificate_of_the_authority_and_no_other() {
    let (pki, other) = (Pki::new().await, Pki::new().await);
    pki.sign("ann=ann").await;
    other.sign("ann=ann").await;
    let cluster = pki.cluster(1, &["--tls-client-ca", &pki.path("ca.pem")]).await;
    let url = format!("https://{}/livez", cluster.ports(1).api);
    let ask = |client: reqwest::Client| client.get(&url).send();
    let without = https(pki.client()).build().expect("a client");
    assert_eq!(ask(without).await.expect("no certificate is needed").status(), 200);
    let known = https(pki.client_as("ann")).build().expect("a client");
    assert_eq!(ask(known).await.expect("one of the authority").status(), 200);
    let stranger = https(other.shown_to(&pki.ca(), "ann")).build().expect("a client");
    assert!(ask(stranger).await.is_err(), "one of another authority");
}

/// A client certificate is checked with each request of its connection, on both ports.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_counts_for_as_long_as_its_authority_does() {
    let (pki, other) = (Pki::new().await, Pki::new().await);
    pki.sign("ann=ann").await;
    let authorities = pki.file("clients.pem");
    std::fs::copy(pki.ca(), &authorities).expect("copied");
    let flags = ["--tls-client-ca", &pki.path("clients.pem"), "--compat-auth", "required"];
    let cluster = pki.cluster(1, &flags).await;
    let grants = json!([{"role": "client", "namespace": "default"}, {"role": "reader", "namespace": "default"}]);
    let ann = json!([{"name": "ann", "password": "a password of ann's", "grants": grants}]);
    cluster.api(1).post("/auth/v1/users", &ann).await.expect_code(200_000);
    cluster.api(1).publish("default", "app", "application", "number=1").await;
    let urls = [
        format!("https://{}/naming/v1/services", cluster.ports(1).api),
        format!("https://{}/configs/app/default/application", cluster.ports(1).compat),
    ];
    let ask = async |client: &reqwest::Client| {
        let mut statuses = Vec::new();
        for url in &urls {
            let answer = client.get(url).send().await.map_err(|error| format!("{error:?}"))?;
            statuses.push(answer.status().as_u16());
        }
        Ok::<_, String>(statuses)
    };
    let without = https(pki.client()).build().expect("a client");
    assert_eq!(ask(&without).await, Ok(vec![401, 401]));
    // Its connections stay open throughout, because new ones would fail.
    let held = https(pki.client_as("ann")).build().expect("a client");
    assert_eq!(ask(&held).await, Ok(vec![200, 200]));
    std::fs::copy(other.ca(), &authorities).expect("copied");
    eventually(LIMIT, "it counts no more", || async {
        let statuses = ask(&held).await?;
        if statuses == [401, 401] { Ok(()) } else { Err(format!("{statuses:?}")) }
    })
    .await;
}

/// A browser shows its certificate by itself, whatever page makes it send something.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_alone_does_not_write_for_another_site() {
    const JSON: (&str, &str) = ("content-type", "application/json");
    let pki = Pki::new().await;
    pki.sign("admin=admin").await;
    let cluster = pki.cluster(1, &["--tls-client-ca", &pki.path("ca.pem")]).await;
    let client = https(pki.client_as("admin")).build().expect("a client");
    let send = async |path: &str, body: String, headers: &[(&str, &str)]| {
        let mut request = client.post(format!("https://{}{path}", cluster.ports(1).api)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.expect("an answer");
        let (status, text) = (answer.status().as_u16(), answer.text().await.expect("text"));
        let body: serde_json::Value = serde_json::from_str(&text).expect("an envelope");
        (status, body["code"].as_u64().expect("a code"))
    };
    let user = |name: &str| {
        let grants = json!([{"role": "admin", "namespace": "*", "name": "*"}]);
        json!([{"name": name, "password": "a long password", "grants": grants}]).to_string()
    };
    let (done, refused) = ((200, 200_000), (403, 403_002));
    let foreign: [&[(&str, &str)]; 6] = [
        &[],
        &[("content-type", "text/plain")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "multipart/form-data; boundary=x")],
        &[JSON, ("sec-fetch-site", "cross-site")],
        &[JSON, ("sec-fetch-site", "same-site")],
    ];
    for headers in foreign {
        assert_eq!(send("/auth/v1/users", user("mallory"), headers).await, refused, "{headers:?}");
    }
    let api = cluster.api(1);
    assert_eq!(api.get("/auth/v1/users").await.amount(), 1, "nobody was made");
    assert_eq!(send("/auth/v1/users", user("ann"), &[JSON]).await, done);
    for (name, site) in [("ben", "same-origin"), ("cas", "none")] {
        assert_eq!(send("/auth/v1/users", user(name), &[JSON, ("sec-fetch-site", site)]).await, done, "{site}");
    }
    // A token is nothing that a browser shows by itself.
    let token = ("authorization", cluster.token());
    let site = ("sec-fetch-site", "cross-site");
    assert_eq!(send("/auth/v1/users", user("dan"), &[token, site, ("content-type", "text/plain")]).await, done);
    // An archive is taken as one, and refused for what is in it.
    let import = "/config/v1/configfiles/import?namespace=default";
    let archive = ("content-type", "application/zip");
    assert_eq!(send(import, "no archive".to_owned(), &[archive]).await.0, 400);
    assert_eq!(send(import, "no archive".to_owned(), &[archive, site]).await, refused);
    // Reads are unaffected.
    let listed =
        client.get(format!("https://{}/auth/v1/users", cluster.ports(1).api)).header(site.0, site.1).send().await;
    assert_eq!(listed.expect("an answer").status(), 200);
    assert_eq!(api.get("/auth/v1/users").await.amount(), 5);
}

/// The command line verifies names and authorities, and reads passwords from files.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_speaks_https() {
    let pki = Pki::new().await;
    let cluster = pki.cluster(1, &[]).await;
    let endpoint = format!("https://localhost:{}", cluster.ports(1).api.port());
    let password = cluster.file("password");
    std::fs::write(&password, format!("{ADMIN_PASSWORD}\n")).expect("writable");
    let (ca, password) = (pki.path("ca.pem"), password.to_str().expect("text").to_owned());
    let run = |arguments: Vec<String>| async move {
        let output = thuban().args(arguments).output().await.expect("it runs");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (output.status.success(), said(&output.stdout), said(&output.stderr))
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (done, token, errors) =
        run(words(&["login", "--endpoint", &endpoint, "--ca-file", &ca, "--password-file", &password])).await;
    assert!(done && token.len() == 64, "{errors}");
    let status = ["cluster", "status", "--endpoint", &endpoint, "--ca-file", &ca, "--token", &token];
    let (done, view, errors) = run(words(&status)).await;
    assert!(done && view.contains("leader"), "{view}{errors}");
    let (done, _, errors) = run(words(&["health", "--endpoint", &endpoint])).await;
    assert!(!done && errors.contains("UnknownIssuer"), "an authority of ours is not the system's: {errors}");
    let by_address = format!("https://[::1]:{}", cluster.ports(1).api.port());
    let (done, ..) = run(words(&["health", "--endpoint", &by_address, "--ca-file", &ca])).await;
    assert!(!done, "nobody is vouched for there");
    let mut piped = thuban();
    piped.args(["login", "--endpoint", &endpoint, "--ca-file", &ca, "--password-file", "-"]);
    piped.stdin(std::process::Stdio::from(std::fs::File::open(&password).expect("readable")));
    let output = piped.output().await.expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_client_pulls_and_polls_by_tls() {
    let pki = Pki::new().await;
    let cluster = pki.cluster(1, &[]).await;
    cluster.api(1).publish("default", "app", "application", "number=1").await;
    let mut client = RealClient::start_secure(cluster.ports(1).compat, &pki.ca(), "app", "application", None).await;
    client.holds(LIMIT, "number", "1").await;
    cluster.api(1).publish("default", "app", "application", "number=2").await;
    client.holds(LIMIT, "number", "2").await;
}

/// Records every byte between the nodes.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_readable_crosses_the_wire_between_nodes() {
    const READABLE: &str = "a-service-name-that-is-easy-to-find";
    let mut cluster = Cluster::prepare(3, &[]);
    let (mut ears, mut list) = (Vec::new(), Vec::new());
    for id in cluster.ids() {
        let ear = Eavesdropper::before(cluster.ports(id).peer).await;
        list.push(format!("{id}={}", ear.address()));
        ears.push(ear);
    }
    cluster.set_initial_cluster(&list.join(","));
    cluster.restart_all().await;
    cluster.log_in_again().await;
    for id in cluster.ids() {
        // Forwarded by two of them, replicated by the third.
        create(&cluster.api(id), &format!("{READABLE}-{id}")).await;
    }
    cluster.expect_equal_state().await;
    let bytes: usize = ears.iter().map(Eavesdropper::heard_bytes).sum();
    assert!(bytes > 10_000, "{bytes} bytes: the nodes do not talk by way of the listeners");
    for words in [READABLE, "THUBAN", "cluster_id", "naming"] {
        assert!(!ears.iter().any(|ear| ear.heard(words.as_bytes())), "{words:?} can be read on the wire");
    }
}

/// Three rounds of restarts, one node at a time: no write fails by way of the nodes that stay.
#[tokio::test(flavor = "multi_thread")]
async fn the_secret_is_exchanged_while_the_cluster_works() {
    const NEXT: &str = "the next cluster secret for tests, long enough";
    let mut cluster = Cluster::prepare(3, &[]);
    let steps: [&[&str]; 3] = [&[CLUSTER_SECRET, NEXT], &[NEXT, CLUSTER_SECRET], &[NEXT]];
    for id in cluster.ids() {
        cluster.set_secrets(id, &[CLUSTER_SECRET]);
    }
    cluster.restart_all().await;
    cluster.log_in_again().await;
    let mut refused = 0;
    for (step, secrets) in steps.into_iter().enumerate() {
        for id in cluster.ids() {
            // Uses the nodes that stay up: they forward to each other and to any leader.
            let staying = cluster.ids().into_iter().filter(|other| *other != id);
            let unpooled = |id| (id, Api::unpooled(cluster.ports(id).api).with_token(cluster.token()));
            let namespace = format!("{NAMESPACE}-{step}-{id}");
            let load = Load::start(&namespace, 2, staying.map(unpooled).collect());
            load.flows(LIMIT, 20).await;
            cluster.set_secrets(id, secrets);
            let status = cluster.terminate(id).await;
            assert!(status.success(), "node {id} ended with {status}");
            load.flows(LIMIT, 20).await;
            cluster.restart(id).await;
            load.flows(LIMIT, 20).await;
            let journal = load.stop().await;
            let is_failed = |attempt: &&Attempt| matches!(attempt.outcome, Outcome::Unknown(_) | Outcome::Unsent);
            let failed: Vec<_> = journal.attempts.iter().filter(is_failed).collect();
            assert!(failed.is_empty(), "{} writes failed: {failed:?}", failed.len());
            refused += journal.keys(&Outcome::Refused).len();
            journal.expect_kept(&namespace, &cluster.api(id)).await;
        }
    }
    report(format!("{refused} writes were refused while the secret was exchanged"));
    cluster.expect_equal_state().await;

    // A node with only the old secret is refused.
    cluster.terminate(3).await;
    cluster.set_secrets(3, &[CLUSTER_SECRET]);
    cluster.relaunch(3).await;
    eventually(LIMIT, "node 3 is told why it is alone", || async {
        let log = std::fs::read_to_string(cluster.log(3)).map_err(|error| error.to_string())?;
        if log.contains("different cluster secrets") { Ok(()) } else { Err("nothing told yet".to_owned()) }
    })
    .await;
}

/// Messages for an operator who restarts a node with its old settings.
#[tokio::test(flavor = "multi_thread")]
async fn management_on_a_public_address_needs_tls_or_a_word() {
    let dir = TempDir::new().expect("a temporary directory can be made");
    let data = dir.path().join("data");
    let flags = ["serve", "--node-id", "1", "--api-addr", "0.0.0.0:0", "--data-dir", data.to_str().expect("text")];
    let flags = flags.into_iter().chain(["--initial-cluster", "1=127.0.0.1:1", "--compat-addr", "127.0.0.1:0"]);
    let output = thuban().args(flags).output().await.expect("it runs");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("--tls-cert") && words.contains("--insecure-http"), "{words}");
    assert!(!data.exists());
    let ports = Ports { api: SocketAddr::from(([0, 0, 0, 0], 0)), ..Ports::any() };
    let mut flags = member_flags(1, data.to_str().expect("text"), ports);
    flags.extend(["--initial-cluster", "1=127.0.0.1:1", "--insecure-http"].map(str::to_owned));
    let log = dir.path().join("log");
    let node = Process::start(&flags, &log).await.expect("it starts as it is told to");
    let said = std::fs::read_to_string(log).expect("a log");
    assert!(said.contains("--insecure-http: passwords and tokens are readable"), "{said}");
    node.kill().await;
}
