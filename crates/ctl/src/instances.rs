//! `thuban instance`: registers an instance of a service, sends its heartbeats, and lists instances.

use std::time::Duration;

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::drain::read_address;
use super::find::InArgs;
use super::get;
use super::kinds::Kind;
use super::refusals::Refused;
use super::refusals::is_final;
use super::remote::Remote;
use super::signals::{self, Hangup};
use super::tables::{Output, text};
use super::telling::{say, say_error};

const REGISTER: &str = "/v1/RegisterInstance";
const DEREGISTER: &str = "/v1/DeregisterInstance";
const HEARTBEAT: &str = "/v1/Heartbeat";
/// Code for a heartbeat of an unknown instance: it was deleted, or the cluster was restored.
const UNKNOWN: u64 = 400_202;
/// Time between two heartbeats, in seconds, unless --ttl sets another one.
const TTL_DEFAULT: u32 = 5;

#[derive(Subcommand)]
pub(super) enum InstanceCommand {
    /// Register an instance, or replace the one at its address
    Register(Box<RegisterArgs>),
    /// Deregister an instance; success also if it does not exist
    Deregister(AddressArgs),
    /// List instances
    List(InstanceListArgs),
}

/// Address of an instance and its service.
#[derive(Args)]
pub(super) struct AddressArgs {
    /// Address of the instance
    #[arg(value_name = "HOST:PORT", value_parser = read_address)]
    address: (String, u16),
    /// Service of the instance; registering creates a missing one
    #[arg(short, long)]
    service: String,
    #[command(flatten)]
    at: InArgs,
}

#[derive(Args)]
pub(super) struct RegisterArgs {
    #[command(flatten)]
    named: AddressArgs,
    /// Label by which rules select the instance; may be repeated
    #[arg(short, long = "label", value_name = "KEY=VALUE", value_parser = super::explain::read_pair)]
    labels: Vec<(String, String)>,
    /// Share of the calls [default: 100]
    #[arg(long)]
    weight: Option<u32>,
    /// Protocol: http, http2, grpc or another word
    #[arg(long)]
    protocol: Option<String>,
    /// Location, for rules that prefer near instances
    #[arg(long, value_name = "REGION/ZONE/CAMPUS", value_parser = read_location)]
    location: Option<Value>,
    /// Check the health by heartbeats, one in this number of seconds, 1 to 60 [default: no check; 5 with --heartbeat]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=60))]
    ttl: Option<u32>,
    /// Send heartbeats until Ctrl-C or SIGTERM, then deregister
    #[arg(long)]
    heartbeat: bool,
}

#[derive(Args)]
pub(super) struct InstanceListArgs {
    /// Only instances of this service
    #[arg(short, long)]
    service: Option<String>,
    #[command(flatten)]
    at: InArgs,
    /// All namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

/// Parses a location; campus, or zone and campus, may be absent.
fn read_location(text: &str) -> Result<Value, String> {
    let mut parts = text.splitn(3, '/');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (region, zone, campus) = (next(), next(), next());
    if region.is_empty() || campus.contains('/') {
        return Err(format!("{text:?} is not REGION/ZONE/CAMPUS"));
    }
    Ok(json!({ "region": region, "zone": zone, "campus": campus }))
}

/// An instance by its address.
struct NamedInstance {
    remote: Remote,
    /// Members of a body that name the instance.
    body: Value,
    /// Name in output.
    text: String,
}

impl AddressArgs {
    fn read(&self) -> anyhow::Result<NamedInstance> {
        let (remote, namespace) = self.at.remote()?;
        let ((host, port), service) = (&self.address, &self.service);
        let body = json!({ "namespace": namespace, "service": service, "host": host, "port": port });
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        Ok(NamedInstance { remote, body, text: format!("{host}:{port} of service/{service} in {namespace}") })
    }
}

impl NamedInstance {
    async fn send(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.remote.call(Method::POST, path, Some(body)).await
    }

    async fn deregister(&self) -> anyhow::Result<()> {
        self.send(DEREGISTER, &self.body).await?;
        say(&format!("{}: deregistered", self.text));
        Ok(())
    }
}

impl RegisterArgs {
    /// Returns the body of a registration.
    fn body(&self, named: &Value) -> Value {
        let mut body = named.clone();
        let labels: serde_json::Map<_, _> =
            self.labels.iter().map(|(key, value)| (key.clone(), Value::from(value.clone()))).collect();
        if !labels.is_empty() {
            body["metadata"] = labels.into();
        }
        let given = [
            ("weight", self.weight.map(Value::from)),
            ("protocol", self.protocol.clone().map(Value::from)),
            ("location", self.location.clone()),
        ];
        for (member, value) in given {
            if let Some(value) = value {
                body[member] = value;
            }
        }
        if let Some(ttl) = self.ttl_s() {
            body["health_check"] = json!({ "type": "HEARTBEAT", "heartbeat": { "ttl": ttl } });
        }
        body
    }

    fn ttl_s(&self) -> Option<u32> {
        self.ttl.or(self.heartbeat.then_some(TTL_DEFAULT))
    }
}

pub(super) async fn run(command: InstanceCommand) -> anyhow::Result<()> {
    match command {
        InstanceCommand::Register(args) => register(&args).await,
        InstanceCommand::Deregister(args) => args.read()?.deregister().await,
        InstanceCommand::List(args) => {
            let InstanceListArgs { service, at, all_namespaces, output } = args;
            get::list(Kind::of_word("instance")?, &at, (all_namespaces, service), output).await
        }
    }
}

async fn register(args: &RegisterArgs) -> anyhow::Result<()> {
    let named = args.named.read()?;
    let body = args.body(&named.body);
    // Set before the registration, so that the instance is deregistered whenever a signal comes.
    let stop = args.heartbeat.then(|| signals::stop(Hangup::Ends)).transpose()?;
    let answer = named.send(REGISTER, &body).await?;
    let check = match args.ttl_s() {
        Some(ttl) => format!("a heartbeat is due every {ttl} s"),
        None => "without a health check".to_owned(),
    };
    say(&format!("{}: registered, {check}", named.text));
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        say(&format!("warning   {}", text(warning)));
    }
    let (Some(stop), Some(ttl)) = (stop, args.ttl_s()) else { return Ok(()) };
    tokio::select! {
        fault = beat(&named, &body, Duration::from_secs(ttl.into())) => fault,
        () = stop => named.deregister().await,
    }
}

/// Sends heartbeats, and registers the instance again if it was deleted. Returns only if the node refuses them.
async fn beat(named: &NamedInstance, body: &Value, every: Duration) -> anyhow::Result<()> {
    let mut is_answered = true;
    loop {
        sleep(every).await;
        let mut done = named.send(HEARTBEAT, &named.body).await.map(drop);
        if done.as_ref().is_err_and(is_unknown) {
            done = named.send(REGISTER, body).await.map(|_| say(&format!("{}: registered again", named.text)));
        }
        match done {
            Ok(()) => is_answered = true,
            Err(error) if is_final(&error) => return Err(error),
            Err(error) if is_answered => {
                say_error(&format!("thuban: {}; trying again", super::errors::in_words(&error)));
                is_answered = false;
            }
            Err(_) => {}
        }
    }
}

fn is_unknown(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.code == UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_have_up_to_three_parts() {
        let of = |region: &str, zone: &str, campus: &str| json!({ "region": region, "zone": zone, "campus": campus });
        for (text, expected) in
            [("eu", of("eu", "", "")), ("eu/eu-1", of("eu", "eu-1", "")), ("eu/eu-1/a", of("eu", "eu-1", "a"))]
        {
            assert_eq!(read_location(text), Ok(expected), "{text}");
        }
        for bad in ["", "/a", "a/b/c/d"] {
            assert!(read_location(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unknown_instance_is_told_from_other_refusals() {
        let refused = |code| anyhow::Error::from(Refused::new(code, ""));
        assert!(is_unknown(&refused(UNKNOWN)) && !is_unknown(&refused(400_140)));
    }
}
