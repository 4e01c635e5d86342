//! A reader's terminals: a folder, a shell in which blocks are run one after the other, and further ones for commands
//! that keep running.
//!
//! Pages assume a machine on which nothing else runs: ports are shifted here by an offset, as `scripts/cluster` does
//! with `THUBAN_PORT_OFFSET`. `thuban` is the binary under test, and `curl` fails if the answer is a refusal, unless an
//! option prevents it.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command as Plain, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use regex::{Captures, Regex};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::{blocks, project};
use crate::harness::{binary, eventually};

/// A block may start three nodes.
const BLOCK_LIMIT: Duration = Duration::from_secs(180);
/// A program may be compiled first.
const STAY_LIMIT: Duration = Duration::from_secs(300);
const END_LIMIT: Duration = Duration::from_secs(30);

/// Ports that pages name.
const PORTS: [u16; 30] = [
    8090, 8091, 8100, 8101, 8110, 8111, 8120, 8121, 8190, 8191, 8192, 8193, 8211, 8212, 8213, 8214, 8215, 8216, 8217,
    8218, 8219, 8220, 8490, 8491, 8590, 8690, 8890, 8891, 8892, 8893,
];
/// Below those of the other tests.
const FIRST_OFFSET: u16 = 1_000;
const OFFSETS: u16 = 10_000;
const OFFSET_STEP: usize = 37;

/// Ends what a block printed.
const MARK: u8 = 0x1e;
/// All blocks run in one shell, so variables persist. A failure names its command.
const SHELL: &str = r#"
set -Eeuo pipefail
exec 3<&0 </dev/null 2>&1
trap 'printf "\036failed: %s\n" "$BASH_COMMAND"' ERR
while read -r -u 3 block; do
    . "$block"
    printf '\036done\n'
done
"#;

pub(super) struct Terminal {
    folder: Arc<TempDir>,
    /// Directory of the page in the folder, if its commands make one.
    directory: &'static str,
    offset: u16,
    replaced: Vec<(String, String)>,
    shell: Child,
    group: Pid,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    staying: Vec<Staying>,
}

/// A terminal in which something runs.
struct Staying {
    child: Child,
    group: Pid,
    chapter: usize,
}

impl Terminal {
    /// A machine for the page with this directory.
    pub(super) fn open(directory: &'static str) -> Terminal {
        let folder = TempDir::with_prefix("thuban-book-").expect("a temporary directory can be made");
        let offset = free_offset();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).expect("made");
        let (api, compat, grpc) = (8090 + offset, 8890 + offset, 8091 + offset);
        let binary = binary();
        executable(
            &bin.join("thuban"),
            &format!(
                "#!/bin/sh\nif [ \"$1\" = dev ]; then\n    shift\n    \
                 set -- dev --api-port {api} --compat-port {compat} --grpc-port {grpc} \"$@\"\nfi\n\
                 exec {binary} \"$@\"\n"
            ),
        );
        // Scripts define themselves which answers are failures.
        executable(
            &bin.join("curl"),
            "#!/bin/sh\nPATH=${PATH#*:}\ncase \" $* \" in *' -f'*) exec curl \"$@\" ;; esac\n\
             exec curl --no-progress-meter --fail-with-body \"$@\"\n",
        );
        for name in ["scripts", "examples"] {
            std::os::unix::fs::symlink(project(name), folder.path().join(name)).expect("linked");
        }
        Terminal::begin(Arc::new(folder), directory, offset)
    }

    /// A further terminal on the machine of another one, for the page with this directory.
    pub(super) fn beside(other: &Terminal, directory: &'static str) -> Terminal {
        Terminal::begin(other.folder.clone(), directory, other.offset)
    }

    fn begin(folder: Arc<TempDir>, directory: &'static str, offset: u16) -> Terminal {
        let mut shell = bash(folder.path(), folder.path(), offset);
        let mut shell = shell.args(["-c", SHELL]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash");
        let input = shell.stdin.take().expect("stdin is piped");
        let output = BufReader::new(shell.stdout.take().expect("stdout is piped"));
        let (group, replaced, staying) = (group_of(&shell), Vec::new(), Vec::new());
        Terminal { folder, directory, offset, replaced, shell, group, input, output, staying }
    }

    /// A file in the directory of the page that the reader has brought along.
    pub(super) fn put(&self, name: &str, content: &[u8]) {
        let directory = self.folder.path().join(self.directory);
        std::fs::create_dir_all(&directory).expect("made");
        std::fs::write(directory.join(name), content).expect("written");
    }

    /// The port of this machine in place of one that pages name.
    pub(super) fn port(&self, named: u16) -> u16 {
        assert!(PORTS.contains(&named), "{named} is not among the ports that pages name");
        named + self.offset
    }

    /// Replaces an address of the pages by one of this terminal.
    pub(super) fn replace(&mut self, printed: &str, here: &str) {
        self.replaced.push((printed.to_owned(), here.to_owned()));
    }

    /// A text of a page as it is on this desk.
    pub(super) fn here(&self, text: &str) -> String {
        let text = self.replaced.iter().fold(text.to_owned(), |text, (printed, here)| text.replace(printed, here));
        let ports = Regex::new(r"(127\.0\.0\.1|localhost):(8\d{3})\b").expect("an expression");
        let moved = |found: &Captures<'_>| {
            let port: u16 = found[2].parse().expect("four digits");
            format!("{}:{}", &found[1], self.port(port))
        };
        ports.replace_all(&text, moved).into_owned()
    }

    /// Writes a block to a file of its own, and returns its path.
    fn keep(&self, block: &str) -> String {
        static BLOCKS: AtomicUsize = AtomicUsize::new(0);
        let number = BLOCKS.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.path().join(format!("block-{number}"));
        std::fs::write(&path, self.here(block)).expect("written");
        path.display().to_string()
    }

    /// Runs a block and returns what it printed, or where it failed.
    pub(super) async fn run(&mut self, block: &str) -> Result<String, String> {
        let name = self.keep(block);
        self.input.write_all(format!("{name}\n").as_bytes()).await.expect("the shell reads");
        let (mut printed, mut word) = (Vec::new(), String::new());
        let read = async {
            self.output.read_until(MARK, &mut printed).await.expect("the shell writes");
            self.output.read_line(&mut word).await.expect("the shell writes");
            if word != "done\n" {
                self.output.read_to_string(&mut word).await.expect("the shell writes");
            }
        };
        let ended = timeout(BLOCK_LIMIT, read).await.is_ok();
        let printed = String::from_utf8_lossy(&printed).replace(['\r', char::from(MARK)], "");
        match (ended, word.as_str()) {
            (false, _) => Err(format!("not done within {BLOCK_LIMIT:?}; printed so far:\n{printed}")),
            (true, "done\n") => Ok(printed),
            (true, word) => Err(format!("{word}--- printed:\n{printed}")),
        }
    }

    /// Runs a block of one command in a terminal of its own; returns when it has printed what is expected.
    pub(super) async fn stay(&mut self, at: &str, block: &str, expected: &str, chapter: usize) {
        // It replaces the shell, so that its end is noticed.
        let (name, expected) = (self.keep(&format!("exec {block}")), self.here(expected));
        let path = format!("{name}.out");
        let of_page = self.folder.path().join(self.directory);
        // The node has its data where all pages find it.
        let is_of_page = of_page.is_dir() && block != super::any_order::START;
        let directory = if is_of_page { &of_page } else { self.folder.path() };
        let [out, error] = [(); 2]
            .map(|()| std::fs::OpenOptions::new().create(true).append(true).open(&path).expect("a file can be made"));
        let mut command = bash(self.folder.path(), directory, self.offset);
        let child = command.args(["-eu", &name]).stdin(Stdio::null()).stdout(out).stderr(error).spawn().expect("bash");
        let group = group_of(&child);
        self.staying.push(Staying { child, group, chapter });
        let staying = &mut self.staying.last_mut().expect("pushed").child;
        eventually(STAY_LIMIT, &format!("{at} prints what the page says"), || {
            let printed = std::fs::read_to_string(&path).unwrap_or_default();
            let ended = staying.try_wait().expect("a child");
            assert!(ended.is_none(), "{at}: ended with {ended:?}\n{printed}");
            let fault = blocks::differs(&expected, &printed);
            async move { fault.map_or(Ok(()), |fault| Err(format!("{fault}\n--- printed:\n{printed}"))) }
        })
        .await;
    }

    /// Ends what stayed for this chapter.
    pub(super) async fn end_chapter(&mut self, chapter: usize) {
        if chapter > 0 {
            self.end(|staying| staying.chapter == chapter).await;
        }
    }

    async fn end(&mut self, is_over: impl Fn(&Staying) -> bool) {
        let (over, staying) = std::mem::take(&mut self.staying).into_iter().partition(is_over);
        self.staying = staying;
        let over: Vec<Staying> = over;
        for mut staying in over {
            // Ctrl-C would reach all that runs in it too.
            kill_process_group(staying.group, Signal::TERM).expect("it runs until it is told to end");
            let ended = timeout(END_LIMIT, staying.child.wait()).await;
            assert!(ended.is_ok(), "what stayed has not ended within {END_LIMIT:?}");
        }
    }

    pub(super) async fn close(mut self) {
        self.end(|_| true).await;
    }
}

impl Drop for Terminal {
    /// Leaves nothing that runs: neither what stayed nor the nodes of `scripts/cluster`, which live on by themselves.
    fn drop(&mut self) {
        let staying = self.staying.iter_mut().map(|staying| (&mut staying.child, staying.group));
        for (child, group) in staying.chain([(&mut self.shell, self.group)]) {
            // The id of an ended process may have been reused.
            if matches!(child.try_wait(), Ok(None)) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        if self.folder.path().join(".cache/thuban/cluster").exists() {
            let mut command = Plain::new("bash");
            surround(&mut command, self.folder.path(), self.offset);
            let _ = command.args(["scripts/cluster", "down"]).stdin(Stdio::null()).status();
        }
    }
}

/// A child that has just been started leads a group of its own.
fn group_of(child: &Child) -> Pid {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    id.and_then(Pid::from_raw).expect("a child not yet waited for has an id")
}

fn bash(folder: &Path, directory: &Path, offset: u16) -> Command {
    let mut plain = Plain::new("bash");
    surround(&mut plain, folder, offset);
    plain.current_dir(directory);
    let mut command = Command::from(plain);
    command.process_group(0).kill_on_drop(true);
    command
}

/// Isolates the environment: a home of its own, and no variables of the caller.
fn surround(command: &mut Plain, folder: &Path, offset: u16) {
    let ours = |name: &str| name.starts_with("THUBAN_") || name.starts_with("XDG_");
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    let bin = folder.join("bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    command.current_dir(folder).env("PATH", path).env("HOME", folder).env("LC_ALL", "C.UTF-8");
    // Java reads the home directory from elsewhere.
    command.env("MAVEN_OPTS", format!("-Duser.home={}", folder.display()));
    command.env("THUBAN_BIN", bin.join("thuban")).env("THUBAN_PORT_OFFSET", offset.to_string());
}

fn executable(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("changed");
}

/// A number by which the ports of a page are moved to free ones, which no other page of this process was given.
fn free_offset() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let begin = (std::process::id() as u16).wrapping_mul(97) % OFFSETS;
    let mut given = GIVEN.lock();
    let is_ours = |offset: &u16| PORTS.iter().all(|port| !given.contains(&(port + offset)));
    let is_free =
        |offset: &u16| PORTS.iter().all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port + offset)).is_ok());
    let mut all = (0..OFFSETS).step_by(OFFSET_STEP).map(|more| FIRST_OFFSET + (begin + more) % OFFSETS);
    let found = all.find(|offset| is_ours(offset) && is_free(offset)).expect("free ports");
    given.extend(PORTS.map(|port| port + found));
    found
}
