//! Runs the crate apollo-rust-client against one address and prints what it holds, a JSON line per change.
//!
//! Arguments: address of the config service, app id, cluster, namespace, cache directory, and `patient` to leave it to
//! its own pace: it asks every 30 s at most, and a stop waits for the end of the 30 s. Else it is begun anew twice a
//! second, as a start asks at once. It has no call for all values of a namespace: the one of the key `number` is told.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use apollo_rust_client::Client;
use apollo_rust_client::client_config::ClientConfig;
use apollo_rust_client::namespace::Namespace;

const KEY: &str = "number";

/// Last printed line, if any.
type Last = Arc<Mutex<Option<Option<String>>>>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, app, cluster, namespace, cache, more @ ..] = arguments.as_slice() else {
        panic!("five arguments: address, app, cluster, namespace and a cache directory")
    };
    let config = ClientConfig {
        app_id: app.clone(),
        cluster: cluster.clone(),
        cache_dir: Some(cache.clone()),
        config_server: address.clone(),
        secret: None,
        label: None,
        ip: None,
        allow_insecure_https: None,
        cache_ttl: None,
        refresh_interval: None,
        http_client: None,
    };
    let last = Last::default();
    loop {
        // What the client has begun ends with its runtime.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut client = Client::new(config.clone());
            let last = last.clone();
            client.add_listener(namespace, Arc::new(move |told| tell(&last, told))).await;
            client.start().await.expect("it is started once");
            match more.is_empty() {
                true => tokio::time::sleep(Duration::from_millis(500)).await,
                false => std::future::pending().await,
            }
        });
    }
}

fn tell(last: &Last, told: Result<Namespace, apollo_rust_client::Error>) {
    let Ok(Namespace::Properties(properties)) = told else { return };
    let value = properties.get_string(KEY);
    let mut last = last.lock().expect("nobody panics with it");
    if last.as_ref() != Some(&value) {
        let values: serde_json::Map<_, _> = value.iter().map(|value| (KEY.to_owned(), value.clone().into())).collect();
        println!("{}", serde_json::json!({"event": "held", "values": values}));
        *last = Some(value);
    }
}
