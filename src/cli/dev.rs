//! `thuban dev`: one node on a developer's machine, which prints everything needed to begin.

use std::io::{Error, ErrorKind};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use thuban_ctl::signals::{self, Hangup};
use thuban_ctl::telling::say;
use tokio::time::Instant;

use super::demo;
use super::running::{NodeOutput, announce, keep_password, stored_password};
use crate::config::{Config, Hidden};
use crate::data_key::DataKey;
use crate::model::config_file::file_of_namespace;
use crate::raft::node::Node;
use crate::server::{Bound, Server};
use crate::tasks;

/// File in the data directory with the administrator's password, readable by its owner alone, so that the
/// printed commands still work at the next start. A cluster member never stores it.
const PASSWORD_FILE: &str = "dev-password";
/// File of a generated data key, so that encrypted files, webhooks and access keys work without any setting.
const DATA_KEY_FILE: &str = "dev-data-key";
const READY_WITHIN: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(10);

/// Runs a node, with the data and the clients of the demo if `is_demo`.
pub(super) async fn run(mut config: Config, is_demo: bool) -> anyhow::Result<()> {
    if is_demo {
        demo::check_directory(&config.data_dir)?;
    }
    let log = NodeOutput::start(&config)?;
    let stop = signals::stop(Hangup::Ends)?;
    let data_dir = config.data_dir.clone();
    let file = data_dir.join(PASSWORD_FILE);
    config.admin_password = stored_password(&file);
    let generated_key = add_data_key(&mut config)?;
    let server = Server::start(config).await.map_err(with_ports)?;
    if let Some(password) = &server.generated_password {
        keep_password(&file, password)?;
    }
    if let Some(Hidden(key)) = generated_key {
        keep_password(&data_dir.join(DATA_KEY_FILE), &key)?;
    }
    if is_demo {
        demo::mark_directory(&data_dir)?;
    }
    announce(&server.bound);
    let bound = server.bound.clone();
    let node = server.node.clone();
    let work = tasks::errand(async move {
        wait_until_ready(&node).await;
        if is_demo {
            let greet = || greet_demo(&bound, &file);
            demo::run(&bound, file.clone(), greet).await;
        } else {
            greet(&bound, &file, &file_of_hint(&node));
        }
    });
    let result = log.run(server, stop).await;
    work.abort();
    result
}

/// Gives a node without a data key that of its directory, or a new one; returns a new one, to be stored. A key file
/// that cannot be read or holds no key is an error: a new key would not open what the old one sealed.
fn add_data_key(config: &mut Config) -> anyhow::Result<Option<Hidden>> {
    if !config.data_keys.is_empty() {
        return Ok(None);
    }
    let file = config.data_dir.join(DATA_KEY_FILE);
    let (key, is_new) = match std::fs::read_to_string(&file) {
        Ok(text) => (text.trim().to_owned(), false),
        Err(error) if error.kind() == ErrorKind::NotFound => (hex::encode(rand::random::<[u8; 32]>()), true),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", file.display())),
    };
    let read = DataKey::of_hex(&key).with_context(|| format!("{} has to hold 64 hex digits", file.display()))?;
    config.data_keys.push(read);
    Ok(is_new.then_some(Hidden(key)))
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

/// Says where the node listens and where its password is.
fn greet(bound: &Bound, file: &Path, config_file: &str) {
    let (api, compat) = (bound.api, bound.compat);
    let grpc: Vec<String> = bound.grpc.iter().map(ToString::to_string).collect();
    let grpc = grpc.join(" ");
    let shown = file.display();
    // The password of a directory that was restored, say, is in no file.
    let (password, login) = if file.exists() {
        let body = format!(r#"{{\"name\":\"admin\",\"password\":\"$(cat {shown})\"}}"#);
        let token = r#"sed 's/.*"token":"\([^"]*\)".*/\1/'"#;
        let login = format!(r#"curl -s http://{api}/auth/v1/user/login -d "{body}" | {token}"#);
        (format!("password in {shown}"), login)
    } else {
        ("password as before".to_owned(), format!("thuban login --endpoint http://{api}"))
    };
    let config = json!({
        "namespace": HINT_NAMESPACE, "group": HINT_GROUP, "file_name": config_file, "content": "greeting=hello",
    });
    say(&format!(
        r#"
Thuban is ready.
  management API   http://{api}   user admin, {password}
  config clients   http://{compat}   (the meta address of an Apollo client)
  gRPC             {grpc}   (xDS for Envoy and gRPC clients; Polaris' SDKs)
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

/// Says what to try on the demo.
fn greet_demo(bound: &Bound, file: &Path) {
    let api = bound.api;
    let file = file.display();
    let thuban = std::env::args().next().unwrap_or_else(|| "thuban".to_owned());
    say(&format!(
        r#"
Thuban is ready, and namespace demo has services, config files, rules and twenty clients.
  console          http://{api}/ui   user admin, password in {file}

Try in another terminal:

{thuban} login --endpoint http://{api} --password-file {file} --save
{thuban} rollout status configfile/shop/features.yaml -n demo
{thuban} who ratelimit/pay-limit -n demo
{thuban} requests

Stop with Ctrl-C."#
    ));
}
