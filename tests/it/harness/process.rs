//! One process of the built binary: start, announcement, signals, end, and its log.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use clap::Parser;
use serde::Deserialize;
use thuban::cli::Cli;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::patient;

/// Prefix of the line on stdout with a node's bound addresses.
const ANNOUNCEMENT: &str = "THUBAN READY ";
const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// The unit of processor time in `/proc`, the same on every Linux that this runs on.
const TICKS_A_SECOND: u64 = 100;

/// Variable with the file at which a task of the node dies; a node with it is a process of this test program.
pub(crate) const DOOM: &str = "THUBAN_IT_DOOM";
/// Variable with the arguments of such a node, a line each.
const FLAGS: &str = "THUBAN_IT_FLAGS";

/// The binary under test: the one built with the tests or, as for every script, what `THUBAN_BIN` names.
pub(crate) fn binary() -> &'static str {
    static BINARY: LazyLock<String> = LazyLock::new(|| match std::env::var("THUBAN_BIN") {
        Ok(given) if !given.is_empty() => {
            let path = std::fs::canonicalize(&given).unwrap_or_else(|error| panic!("THUBAN_BIN={given}: {error}"));
            path.into_os_string().into_string().expect("a path is text")
        }
        _ => env!("CARGO_BIN_EXE_thuban").to_owned(),
    });
    &BINARY
}

/// The same, without any setting of the caller's environment, and without contexts.
pub(crate) fn thuban() -> Command {
    bare(Command::new(binary()))
}

/// Returns a command with a limit of file descriptors, set by a shell: limits of a child would need unsafe code here.
fn thuban_under(descriptors: u32) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""), binary()]);
    bare(shell)
}

/// This test program as a node, see [`run_doomed`].
fn doomed() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    // With one thread the name of the test would precede the announcement on its line.
    let test = "dead_task::a_node_whose_task_dies_ends_in_order_with_a_code_of_its_own";
    command.args(["--exact", test, "--nocapture", "--test-threads=2"]);
    bare(command)
}

/// True in the process of such a node.
pub(crate) fn is_doomed() -> bool {
    std::env::var_os(DOOM).is_some()
}

/// Runs the node that the environment describes, as the binary does, with a task that it needs and that panics once the
/// file in [`DOOM`] is there. Ends the process with the exit code of the node.
pub(crate) fn run_doomed() {
    let variable = |name| std::env::var(name).expect("the node was started with it");
    let (doom, flags) = (variable(DOOM), variable(FLAGS));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async move {
            let task = async move {
                while !Path::new(&doom).exists() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                panic!("its time has come");
            };
            let _: Result<(), _> = thuban::tasks::needed("doomed", task).await;
        });
    });
    let code = thuban::cli::run(Cli::parse_from(["thuban"].into_iter().chain(flags.lines())));
    let code = (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).expect("each code is a byte");
    std::process::exit(code.into());
}

fn bare(mut command: Command) -> Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("THUBAN_")) {
        command.env_remove(name);
    }
    // Receivers of webhooks are on this machine.
    command.env("THUBAN_WEBHOOK_PRIVATE_NETWORKS", "127.0.0.0/8");
    // By the environment: a binary of an earlier version does not know the flag.
    command.env("THUBAN_GRPC_ADDR", "127.0.0.1:0");
    // No balancer has to notice that a node stops.
    command.env("THUBAN_DRAIN_MS", "0");
    command.env("XDG_CONFIG_HOME", "/nonexistent").kill_on_drop(true).stdin(Stdio::null());
    command
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Announced {
    pub(crate) node_id: u64,
    pub(crate) api: SocketAddr,
    pub(crate) compat: SocketAddr,
    pub(crate) peer: SocketAddr,
    #[serde(default)]
    pub(crate) grpc: Vec<SocketAddr>,
}

/// A node that ended instead of listening.
#[derive(Debug)]
pub(crate) struct Exited {
    pub(crate) status: ExitStatus,
    pub(crate) log: String,
}

pub(crate) struct Process {
    child: Child,
    pub(crate) pid: u32,
    pub(crate) announced: Announced,
}

impl Process {
    /// Runs `thuban <arguments>` with its log appended to `log`; returns when it listens, or has ended.
    pub(crate) async fn start(arguments: &[String], log: &Path) -> Result<Process, Exited> {
        Process::start_in(None, arguments, &[], log).await
    }

    /// Starts a process with these variables, and with a limit of file descriptors.
    pub(crate) async fn start_in(
        descriptors: Option<u32>,
        arguments: &[String],
        environment: &[(String, String)],
        log: &Path,
    ) -> Result<Process, Exited> {
        let file = OpenOptions::new().create(true).append(true).open(log).expect("the log can be opened");
        let is_doomed = environment.iter().any(|(name, _)| name == DOOM);
        let mut command = if is_doomed { doomed() } else { descriptors.map_or_else(thuban, thuban_under) };
        if is_doomed {
            command.env(FLAGS, arguments.join("\n"));
        } else {
            command.args(arguments);
        }
        command.envs(environment.iter().cloned()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().expect("the binary can be started");
        let pid = child.id().expect("a child not yet waited for has an id");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let announced = tokio::time::timeout(patient(START_LIMIT), announcement(&mut lines))
            .await
            .unwrap_or_else(|_| panic!("no announcement within {START_LIMIT:?}; log:\n{}", tail(log)));
        match announced {
            Some(announced) => {
                // A node whose stdout is closed would fail when it prints.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                Ok(Process { child, pid, announced })
            }
            None => {
                let status = child.wait().await.expect("an ended child has a status");
                Err(Exited { status, log: tail(log) })
            }
        }
    }

    /// Kills the process with SIGKILL: it cannot flush or print anything.
    pub(crate) async fn kill(mut self) {
        self.child.start_kill().expect("the process can be killed");
        self.child.wait().await.expect("a killed process ends");
    }

    /// SIGTERM, and the status of the end that follows.
    pub(crate) async fn terminate(mut self) -> ExitStatus {
        self.signal("TERM").await;
        match tokio::time::timeout(patient(STOP_LIMIT), self.child.wait()).await {
            Ok(status) => status.expect("an ended child has a status"),
            Err(_) => panic!("process {} still runs {STOP_LIMIT:?} after SIGTERM", self.pid),
        }
    }

    /// The end of a node that listened first and gave up then.
    pub(crate) async fn expect_end(&mut self, limit: Duration, log: &Path) -> Exited {
        match tokio::time::timeout(patient(limit), self.child.wait()).await {
            Ok(status) => Exited { status: status.expect("an ended child has a status"), log: tail(log) },
            Err(_) => panic!("process {} still runs after {limit:?}; log:\n{}", self.pid, tail(log)),
        }
    }

    /// Processor time used so far, in the kernel and outside.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = self.proc("stat");
        // The fields after the name, which may hold spaces and brackets itself.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = [11, 12].iter().map(|at| fields[*at].parse::<u64>().expect("ticks are numbers")).sum();
        Duration::from_millis(ticks * 1000 / TICKS_A_SECOND)
    }

    /// Memory that is resident.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a running process has memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of kilobytes") * 1024
    }

    /// Descriptors that are open.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid)).expect("the process runs, and is ours").count()
    }

    /// Table files of RocksDB among them.
    pub(crate) fn open_tables(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).expect("the process runs, and is ours");
        let names = open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        names.filter(|name| name.extension().is_some_and(|extension| extension == "sst")).count()
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.pid)).expect("the process runs")
    }

    /// Sends a signal with the `kill` command: signals other than SIGKILL would need unsafe code here.
    pub(crate) async fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.pid.to_string()]).status().await;
        assert!(status.expect("kill can be run").success(), "kill -{name} {} failed", self.pid);
    }
}

/// The announcement, or nothing if stdout ends before.
async fn announcement(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<Announced> {
    while let Some(line) = lines.next_line().await.expect("stdout is text") {
        if let Some(json) = line.strip_prefix(ANNOUNCEMENT) {
            return Some(serde_json::from_str(json).expect("the announcement is JSON"));
        }
    }
    None
}

/// Returns the end of a log, for a failed test; empty for a pipe or a device.
pub(crate) fn tail(log: &Path) -> String {
    const LINES: usize = 80;
    if !log.is_file() {
        return String::new();
    }
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
