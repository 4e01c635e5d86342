//! Commands that run a node: logging, start-up line, traces and shutdown.

use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use thuban_ctl::signals::{self, Hangup};
use thuban_ctl::telling::{self, Queues, say};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{Config, Hidden, LogFormat};
use crate::logging::Output;
use crate::server::{Bound, Server};
use crate::traces::Pipeline;

/// Default log filter, if `RUST_LOG` is not set. openraft warns about every failed call to a peer: many a second while
/// one is away, perhaps for days. Our own lines report the loss of a peer or of the leader once.
const LOG_FILTER: &str = "info,openraft=error,thuban::audit=off";

/// File in the data directory for the administrator's generated password, if there is no terminal to print it on.
const FIRST_PASSWORD_FILE: &str = "first-password";

pub(super) async fn serve(config: Config) -> anyhow::Result<()> {
    let log = NodeOutput::start(&config)?;
    let stop = signals::stop(Hangup::Ignored)?;
    let first_password = config.data_dir.join(FIRST_PASSWORD_FILE);
    let server = Server::start(config).await?;
    if let Some(password) = &server.generated_password {
        hand_over(password, &first_password)?;
    }
    announce(&server.bound);
    log.run(server, stop).await
}

/// Hands over a generated password: on a terminal it is printed; otherwise stdout is a log that others read too, and it
/// goes to a file.
fn hand_over(password: &str, file: &Path) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() {
        say("This node has no data yet. If it founds the cluster, the administrator is:");
        say(&format!("  name admin, password {password}"));
    } else {
        keep_password(file, password).with_context(|| format!("{} cannot be written", file.display()))?;
        let file = file.display();
        tracing::info!(%file, "if this node founds the cluster, the first password of admin is in the file");
    }
    Ok(())
}

/// Writes a password to a file that only its owner can read.
pub(super) fn keep_password(file: &Path, password: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    writeln!(options.open(file)?, "{password}")
}

/// Returns the password that `dev` stored in its directory, if there is one.
pub(super) fn stored_password(file: &Path) -> Option<Hidden> {
    std::fs::read_to_string(file).ok().map(|text| Hidden(text.trim().to_owned()))
}

/// Prints the addresses of the node, on one line for programs.
pub(super) fn announce(bound: &Bound) {
    let addresses = serde_json::to_string(bound).expect("addresses are JSON");
    say(&format!("THUBAN READY {addresses}"));
}

impl Queues for Output {
    fn push_stdout(&self, line: &[u8]) {
        self.stdout.push(line);
    }

    fn push_stderr(&self, line: &[u8]) {
        self.stderr.push(line);
    }

    fn flush(&self) {
        self.flush();
    }
}

/// Output of a node: lines on two streams, and traces to a collector if there is one.
pub(super) struct NodeOutput {
    output: Output,
    traces: Option<Pipeline>,
}

impl NodeOutput {
    /// Starts logging to stderr, filtered by `RUST_LOG`, else by [`LOG_FILTER`].
    pub(super) fn start(config: &Config) -> anyhow::Result<NodeOutput> {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG_FILTER));
        let format = config.tuning.log_format;
        let is_terminal = std::io::stderr().is_terminal();
        let output = Output::start(format).context("the threads of the log could not start")?;
        telling::print_through(output.clone());
        let lines = output.stderr.clone();
        let writer = move || lines.clone();
        let Some(settings) = &config.traces else {
            let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
            let builder = builder.log_internal_errors(false);
            match format {
                LogFormat::Text => builder.with_ansi(is_terminal).init(),
                LogFormat::Json => builder.json().init(),
            }
            return Ok(NodeOutput { output, traces: None });
        };
        let traces = Pipeline::start(settings, config.node_id);
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        let log = tracing_subscriber::fmt::layer().log_internal_errors(false).with_writer(writer);
        match format {
            LogFormat::Text => subscriber.with(log.with_ansi(is_terminal).with_filter(filter)).init(),
            LogFormat::Json => subscriber.with(log.json().with_filter(filter)).init(),
        }
        Ok(NodeOutput { output, traces: Some(traces) })
    }

    /// Serves until `stop`; exports the remaining spans after the shutdown.
    pub(super) async fn run(self, server: Server, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        self.output.count_in(server.node.metrics());
        if let Some(traces) = &self.traces {
            traces.count_in(server.node.metrics().clone());
        }
        let result = server.run(stop).await;
        if let Some(traces) = self.traces {
            traces.close().await;
        }
        result
    }
}
