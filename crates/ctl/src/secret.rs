//! Passwords from a file, standard input, or a prompt without echo. Never an argument, which every process of the
//! machine can read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::Context;
use futures_util::future::select_all;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use thuban_model::access::check_password;
use tokio::signal::unix::{SignalKind, signal};

use super::errors::Usage;

const STANDARD_INPUT: &str = "-";
/// Maximum size of a password file.
const BYTES_MAX: u64 = 64 * 1024;
/// Base of the exit code of a process that a signal ended; the number of the signal is added.
const EXIT_OF_SIGNALS: i32 = 128;

/// Reads an existing password; `what` is the prompt.
pub(super) fn read(file: Option<&Path>, what: &str) -> anyhow::Result<String> {
    match file {
        Some(file) => read_file(file),
        None => ask(what),
    }
}

/// Reads a new password: prompted for twice, and checked before it is sent.
pub fn read_new(file: Option<&Path>) -> anyhow::Result<String> {
    let password = read(file, "New password")?;
    if file.is_none() && ask("Again")? != password {
        return Err(Usage("the two are not the same".to_owned()).into());
    }
    check_password("the password", &password).map_err(|refusal| Usage(refusal.detail))?;
    Ok(password)
}

/// Reads a file without its final line end. Blocks on the file.
pub(super) fn read_file(file: &Path) -> anyhow::Result<String> {
    let (read, named) = match file.to_str() {
        Some(STANDARD_INPUT) => (read_all(io::stdin()), "standard input".to_owned()),
        _ => (File::open(file).and_then(read_all), file.display().to_string()),
    };
    let text = read.map_err(|error| Usage(format!("{named}: {error}")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_all(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(BYTES_MAX).read_to_string(&mut text).map(|_| text)
}

fn ask(what: &str) -> anyhow::Result<String> {
    if !io::stdin().is_terminal() {
        return Err(Usage("there is no terminal to ask for a password: give --password-file".to_owned()).into());
    }
    ask_on_terminal(what).context("the terminal")
}

fn ask_on_terminal(what: &str) -> io::Result<String> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    restore_at_signals()?;
    let silence = Silence::of(&terminal)?;
    write!(&terminal, "{what}: ")?;
    let mut line = String::new();
    BufReader::new((&terminal).take(BYTES_MAX)).read_line(&mut line)?;
    drop(silence);
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Terminal whose echo is off, and its previous settings.
static SILENT: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Guard that turns the echo of the terminal off; the end of the line is still shown.
struct Silence;

impl Silence {
    fn of(terminal: &File) -> io::Result<Silence> {
        let mut silent = lock();
        let before = tcgetattr(terminal)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO);
        modes.local_modes.insert(LocalModes::ECHONL);
        *silent = Some((terminal.try_clone()?, before));
        tcsetattr(terminal, OptionalActions::Now, &modes)?;
        Ok(Silence)
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        show_again(&mut lock());
    }
}

fn lock() -> MutexGuard<'static, Option<(File, Termios)>> {
    SILENT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn show_again(silent: &mut Option<(File, Termios)>) {
    if let Some((terminal, before)) = silent.take() {
        let _ = tcsetattr(&terminal, OptionalActions::Now, &before);
    }
}

/// Restores the terminal when a signal ends the process. The thread lives as long as the process: once it listens for a
/// signal, that signal has no other effect.
fn restore_at_signals() -> io::Result<()> {
    static STARTED: OnceLock<()> = OnceLock::new();
    if STARTED.set(()).is_err() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
    let within = runtime.enter();
    let signals = kinds.map(|kind| signal(kind).map(|signal| (kind, signal)));
    let signals = signals.into_iter().collect::<io::Result<Vec<_>>>()?;
    drop(within);
    thuban_tasks::thread("signals", move || {
        let first = signals.into_iter().map(|(kind, mut signal)| {
            Box::pin(async move {
                signal.recv().await;
                kind
            })
        });
        let (kind, ..) = runtime.block_on(select_all(first));
        // Held to the end, so that echo is not turned off again.
        let mut silent = lock();
        if let Some((terminal, _)) = silent.as_ref() {
            let _ = writeln!(&*terminal);
        }
        show_again(&mut silent);
        std::process::exit(EXIT_OF_SIGNALS + kind.as_raw_value());
    })?;
    Ok(())
}
