//! `thuban dev`: one node on a developer's machine, which prints everything needed to begin.

use std::io::{Error, ErrorKind};
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::running::{NodeOutput, announce, keep_password};
use super::say;
use super::signals::{self, Hangup};
use crate::config::{Config, Hidden};
use crate::model::config_file::file_of_namespace;
use crate::raft::node::Node;
use crate::server::{Bound, Server};
use crate::tasks;

/// On a developer's machine the password is stored in the data directory, readable by its owner alone, so that the
/// printed commands still work at the next start. A cluster member never stores it.
const PASSWORD_FILE: &str = "dev-password";
const READY_WITHIN: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(10);

pub(super) async fn run(mut config: Config) -> anyhow::Result<()> {
    let log = NodeOutput::start(&config)?;
    let stop = signals::stop(Hangup::Ends)?;
    let file = config.data_dir.join(PASSWORD_FILE);
    config.admin_password = kept_password(&file);
    let server = Server::start(config).await.map_err(with_ports)?;
    if let Some(password) = &server.generated_password {
        keep_password(&file, password)?;
    }
    announce(&server.bound);
    let bound = server.bound.clone();
    let node = server.node.clone();
    let greeting = tasks::errand(async move {
        wait_until_ready(&node).await;
        greet(&bound, &file, &file_of_hint(&node));
    });
    let result = log.run(server, stop).await;
    greeting.abort();
    result
}

/// Adds to the error for a port in use which flag chooses another port: the server names the flags of `serve`.
fn with_ports(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Error>() {
        Some(cause) if cause.kind() == ErrorKind::AddrInUse => error.context(
            "another program has a port of this node: end that, or take others by --api-port, --compat-port and \
             --grpc-port (0: a free one)",
        ),
        _ => error,
    }
}

fn kept_password(file: &Path) -> Option<Hidden> {
    std::fs::read_to_string(file).ok().map(|text| Hidden(text.trim().to_owned()))
}

async fn wait_until_ready(node: &Node) {
    let deadline = Instant::now() + READY_WITHIN;
    while Instant::now() < deadline {
        if node.is_ready().await {
            return;
        }
        tokio::time::sleep(READY_POLL).await;
    }
}

/// Namespace and group of the file that the printed commands publish.
const HINT_NAMESPACE: &str = "default";
const HINT_GROUP: &str = "demo";

/// Returns the name of the printed file, in the spelling that an Apollo client of the group would find.
fn file_of_hint(node: &Node) -> String {
    let catalog = node.state().catalog();
    let there = catalog.configs.files_in_group(HINT_NAMESPACE, HINT_GROUP).map(|file| file.key.file.as_str());
    file_of_namespace("application", Vec::from_iter(there).into_iter())
}

fn greet(bound: &Bound, file: &Path, config_file: &str) {
    let (api, compat) = (bound.api, bound.compat);
    let grpc: Vec<String> = bound.grpc.iter().map(ToString::to_string).collect();
    let grpc = grpc.join(" ");
    // For a restored directory, for example, the password is unknown here: it is prompted for.
    let (password, login) = match kept_password(file) {
        Some(Hidden(password)) => {
            let body = format!(r#"{{"name":"admin","password":"{password}"}}"#);
            let token = r#"sed 's/.*"token":"\([^"]*\)".*/\1/'"#;
            let login = format!("curl -s http://{api}/auth/v1/user/login -d '{body}' | {token}");
            (password, login)
        }
        None => ("as before".to_owned(), format!("thuban login --endpoint http://{api}")),
    };
    let config = json!({
        "namespace": HINT_NAMESPACE, "group": HINT_GROUP, "file_name": config_file, "content": "greeting=hello",
    });
    say(&format!(
        r#"
Thuban is ready.
  management API   http://{api}   user admin, password {password}
  config clients   http://{compat}   (the meta address of an Apollo client)
  gRPC             {grpc}   (xDS for Envoy and for gRPC clients without a proxy)
  console          http://{api}/ui
  reference        http://{api}/docs
  metrics, health  http://{api}/metrics   http://{api}/readyz?verbose

Log in, publish a config, read it as an Apollo client does:

TOKEN=$({login})
curl -s http://{api}/config/v1/configfiles/createandpub -H "Authorization: $TOKEN" -d '{config}'
curl -s http://{compat}/configs/{HINT_GROUP}/{HINT_NAMESPACE}/application

Stop with Ctrl-C."#
    ));
}
