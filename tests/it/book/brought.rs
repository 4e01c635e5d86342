//! Things that a reader of some pages has brought along: archives to import, libraries, Envoy.

use std::path::Path;

use serde_json::json;

use super::terminal::Terminal;
use super::text;
use crate::harness::{program, python};
use crate::imports;

/// Files that a reader of the migration pages has brought along.
pub(super) async fn bring(terminal: &mut Terminal) {
    let metadata =
        "metadata:\n- appName: shop\n  dataId: pay\n  desc: of the team\n  group: DEFAULT_GROUP\n  type: properties\n";
    let meta = r#"{"shop/app.toml":{"tags":{"team":"pay"},"comment":"of the team"}}"#;
    let archives: [(&str, &[(&str, &str)]); 4] = [
        (
            "apollo_config_export.zip",
            &[
                ("me/shop/DEV/shop+default+application.properties", "greeting = dev"),
                ("me/shop/PRO/shop+default+application.properties", "greeting = hello"),
                ("me/shop/PRO/shop+blue+db.yaml", "pool: 20\n"),
            ],
        ),
        (
            "nacos_config_export.zip",
            &[
                ("DEFAULT_GROUP/app.yaml", "pool: 20\n"),
                ("DEFAULT_GROUP/pay", "greeting=hello"),
                (".metadata.yml", metadata),
            ],
        ),
        ("polaris_export.zip", &[("shop/app.toml", "pool = 20\n"), ("META", meta)]),
        ("files.zip", &[("east/shop/one.txt", "1"), ("west/shop/one.txt", "2")]),
    ];
    for (name, files) in archives {
        terminal.put(name, &thuban::bundle::write(files.iter().copied()).expect("written"));
    }
    terminal.put("apollo-secret", imports::SECRET.as_bytes());
    let application = |name: &str| (name == "application").then(|| json!({ "greeting": "hello" }));
    let address = imports::stand_in(application).await;
    terminal.replace("http://apollo:8080", &format!("http://{address}"));
}

/// Gives a page of a language the library that its reader has fetched; false where the language is left out.
pub(super) async fn bring_library(terminal: &mut Terminal, language: &str) -> bool {
    if language == "python" {
        terminal.replace("client/bin/python ", &format!("{} ", python("xds").await));
        return true;
    }
    let Some(built) = program(language, "grpc", "newest").await else { return false };
    let folder = Path::new(&built).parent().expect("a program lies in a folder");
    let cache = folder.parent().and_then(Path::parent).expect("the cache has folders");
    match language {
        "go" => {
            for file in ["go.mod", "go.sum"] {
                terminal.put(file, text(&format!("tests/clients/go/grpc/{file}")).as_bytes());
            }
            let cache = cache.join("go").display().to_string();
            let environment = format!("GOMODCACHE={cache}/modules GOCACHE={cache}/build GOFLAGS=-trimpath");
            terminal.replace("go run . ", &format!("env {environment} go run . "));
        }
        "java" => terminal.replace("'lib/*'", &format!("'{}/lib/*'", folder.display())),
        _ => terminal.replace("node pay.js", &format!("env NODE_PATH={}/node_modules node pay.js", folder.display())),
    }
    true
}

/// Gives a reader Envoy, with free ports in place of the usual ones.
pub(super) async fn bring_envoy(terminal: &mut Terminal) {
    let python = python("xds").await;
    terminal.replace("client/bin/envoy", &Path::new(&python).with_file_name("envoy").display().to_string());
    for (usual, port) in [("15001", 8219), ("9901", 8220)] {
        terminal.replace(usual, &terminal.port(port).to_string());
    }
}
