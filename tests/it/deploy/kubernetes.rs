//! The manifests for Kubernetes: sound by its own schemas, at one with each other and with the binary, and nodes
//! that are started with what the manifests give them form a cluster, which a further node can join.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::{defaults_of_serve, file, stop_limit, text};
use crate::harness::{Api, Ports, binary, eventually, python, run};

const FOLDER: &str = "deploy/kubernetes";
/// The oldest that the manifests are for, and the newest of which the schemas are at hand.
const VERSIONS: &str = "1.28,1.37";
const READY_LIMIT: Duration = Duration::from_secs(40);
/// Variables that `thuban` reads as a command, in addition to the settings of `serve`.
const OF_COMMANDS: [&str; 2] = ["THUBAN_ENDPOINT", "THUBAN_CA_FILE"];

/// The documents of these files, each held to the schemas.
async fn read(files: &[&Path]) -> Vec<Value> {
    let mut command = Command::new(python("kubernetes").await);
    let output = command.arg(file("tests/clients/manifests.py")).arg(VERSIONS).args(files).output().await;
    let output = output.expect("Python can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a list of documents")
}

async fn manifests() -> Vec<Value> {
    let listed = std::fs::read_dir(file(FOLDER)).expect("the folder can be listed");
    let files: Vec<_> = listed.map(|entry| entry.expect("an entry").path()).filter(|path| is_yaml(path)).collect();
    read(&files.iter().map(AsRef::as_ref).collect::<Vec<_>>()).await
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml")
}

/// The two Secrets of a new cluster, and the folder that keeps their files.
async fn secrets(folder: &Path) -> Vec<Value> {
    let mut command = Command::new(file(FOLDER).join("make-secrets"));
    command.env("THUBAN", binary()).arg(folder).arg("config.example.com");
    let output = command.output().await.expect("the script can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = folder.join("secrets.yaml");
    std::fs::write(&printed, output.stdout).expect("a file can be written");
    read(&[&printed]).await
}

fn named<'a>(documents: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |document: &&Value| document["kind"] == kind && document["metadata"]["name"] == name;
    documents.iter().find(is_it).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn pod(documents: &[Value]) -> &Value {
    &named(documents, "StatefulSet", "thuban")["spec"]["template"]["spec"]
}

fn container(documents: &[Value]) -> &Value {
    &pod(documents)["containers"][0]
}

#[tokio::test]
async fn the_manifests_are_sound_and_at_one() {
    let documents = manifests().await;
    let kustomization = documents.iter().find(|document| document["kind"] == "Kustomization").expect("there is one");
    let listed: BTreeSet<_> = list(&kustomization["resources"]).iter().map(word).map(str::to_owned).collect();
    let there =
        std::fs::read_dir(file(FOLDER)).expect("the folder can be listed").map(|entry| entry.expect("an entry"));
    let there =
        there.filter(|entry| is_yaml(&entry.path())).map(|entry| entry.file_name().into_string().expect("text"));
    assert_eq!(listed, there.filter(|name| name != "kustomization.yaml").collect());
    let (set, pod, container) = (named(&documents, "StatefulSet", "thuban"), pod(&documents), container(&documents));
    let image = &kustomization["images"][0];
    assert_eq!((&image["name"], &image["newTag"]), (&container["image"], &env!("CARGO_PKG_VERSION").into()));

    // Without these a first start waits for itself, or a Service's variable is taken for a setting.
    assert_eq!((&set["spec"]["podManagementPolicy"], &pod["enableServiceLinks"]), (&"Parallel".into(), &false.into()));
    let peers = &named(&documents, "Service", word(&set["spec"]["serviceName"]))["spec"];
    assert_eq!((&peers["clusterIP"], &peers["publishNotReadyAddresses"]), (&"None".into(), &true.into()));
    let budget = &named(&documents, "PodDisruptionBudget", "thuban")["spec"];
    assert_eq!(budget["maxUnavailable"], 1);

    let labels = &set["spec"]["template"]["metadata"]["labels"];
    let policy = &named(&documents, "NetworkPolicy", "thuban")["spec"];
    for selector in [&set["spec"]["selector"], &budget["selector"], &policy["podSelector"]] {
        assert_eq!(&selector["matchLabels"], labels);
    }
    let port_of = |name: &str| {
        let port = list(&container["ports"]).iter().find(|port| port["name"] == name);
        number(&port.unwrap_or_else(|| panic!("the container has no port {name}"))["containerPort"])
    };
    for service in documents.iter().filter(|document| document["kind"] == "Service") {
        assert_eq!(&service["spec"]["selector"], labels);
        for port in list(&service["spec"]["ports"]) {
            assert_eq!(number(&port["port"]), port_of(word(&port["targetPort"])), "{}", service["metadata"]["name"]);
        }
    }
    for port in list(&policy["ingress"]).iter().flat_map(|rule| list(&rule["ports"])) {
        port_of(word(&port["port"]));
    }
    for rule in list(&policy["ingress"]) {
        let (from, ports) = (list(&rule["from"]), list(&rule["ports"]));
        let is_bounded = |peer: &Value| {
            let all = serde_json::json!({});
            peer["namespaceSelector"] != all && peer["ipBlock"].is_null()
        };
        assert!(!from.is_empty() && ports.len() == 1 && from.iter().all(is_bounded), "open to the cluster: {rule}");
    }
    assert!(container["resources"]["limits"]["memory"].is_string(), "the node keeps below the limit that it reads");
    let defaults = defaults_of_serve().await;
    for (variable, port) in [("THUBAN_API_ADDR", "api"), ("THUBAN_COMPAT_ADDR", "config"), ("THUBAN_PEER_ADDR", "peer")]
    {
        assert_eq!(
            defaults[variable].rsplit_once(':').map(|(_, port)| port.to_owned()),
            Some(port_of(port).to_string())
        );
    }
    let annotation = &set["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"];
    assert_eq!(*annotation, port_of("metrics").to_string());

    let environment = list(&container["env"]);
    for variable in environment.iter().map(|variable| word(&variable["name"])) {
        let is_known = defaults.contains_key(variable) || OF_COMMANDS.contains(&variable) || variable == "POD_NAME";
        assert!(is_known, "`thuban serve` does not take {variable}");
    }
    let pause = word(&container["lifecycle"]["preStop"]["exec"]["command"][1]).parse::<u64>().expect("seconds");
    let grace = Duration::from_secs(number(&pod["terminationGracePeriodSeconds"]) - pause);
    assert!(grace > stop_limit() && grace < stop_limit() * 2, "{grace:?} for a stop that takes {:?}", stop_limit());
}

/// One pod, as far as there is one without Kubernetes: the command of the container with its environment and
/// nothing else, names and places changed into those of this machine.
struct Pod {
    ports: Ports,
    metrics: std::net::SocketAddr,
    _process: Child,
}

/// Parts of a pod: the documents, the places of their volumes, and the addresses of all pods by ordinal.
struct Ground<'a> {
    documents: &'a [Value],
    folder: &'a Path,
    peers: &'a [(u64, Ports)],
}

impl Ground<'_> {
    /// `text` with the names of pods and the places of volumes changed into those of pod `ordinal` here.
    fn here(&self, text: &str, ordinal: u64) -> String {
        let mut text = text.replace("$(POD_NAME)", &format!("thuban-{ordinal}"));
        for (id, ports) in self.peers {
            text = text.replace(&format!("thuban-{id}.thuban-peers:8190"), &ports.peer.to_string());
            text = text.replace(&format!("thuban-{id}.thuban-peers:8090"), &ports.api.to_string());
        }
        for volume in ["/run/thuban-tls", "/run/thuban-ids", "/run/thuban/", "/var/lib/thuban"] {
            let place = self.folder.join(volume.trim_matches('/').replace('/', "-"));
            let place = if volume.starts_with("/var") { place.join(ordinal.to_string()) } else { place };
            let end = if volume.ends_with('/') { "/" } else { "" };
            text = text.replace(volume, &format!("{}{end}", place.display()));
        }
        text
    }

    fn start(&self, ordinal: u64) -> Pod {
        let container = container(self.documents);
        let ports = self.peers.iter().find(|(id, _)| *id == ordinal).expect("a known pod").1;
        let Ports { api: metrics, compat: grpc, .. } = Ports::reserve();
        let mut command = Command::new(word(&container["command"][0]));
        let arguments = list(&container["command"]).iter().skip(1).map(word);
        command.args(arguments.map(|argument| self.here(argument, ordinal))).env_clear();
        // By its name in the image, which differs here.
        let binaries = self.folder.join(format!("bin-{ordinal}"));
        std::fs::create_dir(&binaries).expect("a folder can be made");
        std::os::unix::fs::symlink(binary(), binaries.join("thuban")).expect("a link can be made");
        command.env("PATH", format!("{}:/usr/bin:/bin", binaries.display()));
        for variable in list(&container["env"]) {
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.name") => format!("thuban-{ordinal}"),
                Some("metadata.labels['apps.kubernetes.io/pod-index']") => ordinal.to_string(),
                Some(other) => panic!("Kubernetes knows {other}?"),
                None => self.here(word(&variable["value"]), ordinal),
            };
            command.env(word(&variable["name"]), value);
        }
        for (variable, address) in
            [("API", ports.api), ("COMPAT", ports.compat), ("PEER", ports.peer), ("METRICS", metrics), ("GRPC", grpc)]
        {
            command.env(format!("THUBAN_{variable}_ADDR"), address.to_string());
        }
        std::fs::create_dir_all(self.here("/var/lib/thuban", ordinal)).expect("a volume can be made");
        let log = std::fs::File::create(self.folder.join(format!("{ordinal}.log"))).expect("a log can be made");
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        Pod { ports, metrics, _process: command.spawn().expect("the shell can be started") }
    }
}

/// Writes what a Secret holds into the volume that the container mounts it at.
fn mount(ground: &Ground<'_>, secrets: &[Value]) {
    let container = container(ground.documents);
    let volumes = list(&pod(ground.documents)["volumes"]);
    for volume in volumes.iter().filter(|volume| volume["secret"].is_object()) {
        let mounted = list(&container["volumeMounts"]).iter().find(|mount| mount["name"] == volume["name"]);
        let place = ground.here(&format!("{}/", word(&mounted.expect("it is mounted")["mountPath"])), 0);
        std::fs::create_dir_all(&place).expect("a folder can be made");
        let secret = named(secrets, "Secret", word(&volume["secret"]["secretName"]));
        for (key, value) in secret["data"].as_object().expect("a Secret holds data") {
            let bytes = base64::engine::general_purpose::STANDARD.decode(word(value)).expect("base64");
            std::fs::write(Path::new(&place).join(key), bytes).expect("a file can be written");
        }
    }
}

/// Waits until what the kubelet would ask is answered as it wants it.
async fn await_probe(ground: &Ground<'_>, pod: &Pod, probe: &str, wanted: u16) {
    let asked = &container(ground.documents)[probe]["httpGet"];
    let (api, address) = match (word(&asked["port"]), asked["scheme"].as_str()) {
        ("api", Some("HTTPS")) => {
            let ca = ground.here("/run/thuban-tls/ca.crt", 0);
            let tls = thuban_outbound::trust::trusting(Some(Path::new(&ca))).expect("an authority");
            (Api::secure(pod.ports.api, &tls), pod.ports.api)
        }
        ("metrics", None) => (Api::new(pod.metrics), pod.metrics),
        other => panic!("{probe}: {other:?}"),
    };
    let path = word(&asked["path"]);
    eventually(READY_LIMIT, &format!("{probe} of {address:?} is {wanted}"), || async {
        match api.health(path).await? {
            (status, _) if status == wanted => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_started_as_the_manifests_say_form_a_cluster_that_grows() {
    let documents = manifests().await;
    let folder = TempDir::with_prefix("thuban-pods-").expect("a temporary directory can be made");
    let secrets = secrets(&folder.path().join("kept")).await;
    let set = &named(&documents, "StatefulSet", "thuban")["spec"];
    let (first, count) = (number(&set["ordinals"]["start"]), number(&set["replicas"]));
    // One more than there are at first.
    let peers: Vec<(u64, Ports)> = (first..=first + count).map(|ordinal| (ordinal, Ports::reserve())).collect();
    let ground = Ground { documents: &documents, folder: folder.path(), peers: &peers };
    mount(&ground, &secrets);
    let mut pods: Vec<Pod> = (first..first + count).map(|ordinal| ground.start(ordinal)).collect();
    for pod in &pods {
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            await_probe(&ground, pod, probe, 200).await;
        }
        let (status, shown) = Api::new(pod.metrics).health("/metrics").await.expect("answered");
        assert!(status == 200 && shown.contains("thuban_build_info"), "{shown}");
    }

    // A volume whose node was removed is taken by one with another id.
    let id = "9";
    let ids = ground.here("/run/thuban-ids", 0);
    std::fs::create_dir(&ids).expect("a folder can be made");
    std::fs::write(format!("{ids}/thuban-{}", first + count), id).expect("a file can be written");
    let newcomer = ground.start(first + count);
    await_probe(&ground, &newcomer, "livenessProbe", 200).await;
    await_probe(&ground, &newcomer, "readinessProbe", 503).await;
    let [ca, password] = ["/run/thuban-tls/ca.crt", "/run/thuban/admin-password"].map(|path| ground.here(path, 0));
    let endpoint = format!("https://{}", pods[0].ports.api);
    let trusting = ["--ca-file", ca.as_str()];
    let login = run(&endpoint, "", &[&["login", "--password-file", &password][..], &trusting].concat(), "").await;
    let token = login.expect(0);
    let peer = newcomer.ports.peer.to_string();
    let add = [&["cluster", "add", "--id", id, "--peer", &peer][..], &trusting].concat();
    run(&endpoint, token.trim(), &add, "").await.expect(0);
    pods.push(newcomer);
    await_probe(&ground, &pods[pods.len() - 1], "readinessProbe", 200).await;
}

#[test]
fn the_image_runs_as_the_user_that_the_pods_have() {
    let (image, set) = (text("Dockerfile"), text("deploy/kubernetes/statefulset.yaml"));
    for user in ["runAsUser: 10001", "runAsGroup: 10001", "fsGroup: 10001"] {
        assert!(set.contains(user), "{user}");
    }
    assert!(image.contains("--uid 10001"), "{image}");
}
