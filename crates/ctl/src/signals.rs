//! Signals of a node: those that end it in order, and those that are only logged.
//!
//! Most signals end a process at once by default. A closed terminal or a log rotation is no order to leave the cluster,
//! and no signal but SIGKILL ends the node before it has handed over leadership.

use std::io;

use futures_util::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that end a node in order.
const ENDING: [(SignalKind, &str); 3] =
    [(SignalKind::terminate(), "SIGTERM"), (SignalKind::interrupt(), "SIGINT"), (SignalKind::quit(), "SIGQUIT")];
/// Ignored signals. SIGXFSZ is sent when a file exceeds a limit; the write fails as well.
const IGNORED: [(SignalKind, &str); 4] = [
    (SignalKind::user_defined1(), "SIGUSR1"),
    (SignalKind::user_defined2(), "SIGUSR2"),
    (SignalKind::alarm(), "SIGALRM"),
    (SignalKind::from_raw(SIGXFSZ), "SIGXFSZ"),
];
const HANGUP: (SignalKind, &str) = (SignalKind::hangup(), "SIGHUP");
const SIGXFSZ: i32 = 25;

/// Effect of SIGHUP, which is sent when a terminal is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hangup {
    Ignored,
    /// SIGHUP ends a node that runs in a terminal, unless `nohup` started it.
    Ends,
}

/// Returns a future that completes at the first signal that ends a node. Called before anything is started; the
/// handlers stay for the life of the process.
pub fn stop(hangup: Hangup) -> io::Result<impl Future<Output = ()>> {
    let is_ended_by_hangup = hangup == Hangup::Ends && !is_hangup_ignored();
    let of_hangup = [(HANGUP, is_ended_by_hangup)];
    let all = ENDING.map(|one| (one, true)).into_iter().chain(of_hangup).chain(IGNORED.map(|one| (one, false)));
    let mut all = all
        .map(|((kind, name), ends)| Ok((signal(kind)?, name, ends)))
        .collect::<io::Result<Vec<(Signal, &str, bool)>>>()?;
    Ok(async move {
        loop {
            let next = all.iter_mut().map(|(signal, name, ends)| {
                Box::pin(async move {
                    signal.recv().await;
                    (*name, *ends)
                })
            });
            match select_all(next).await.0 {
                (name, true) => {
                    tracing::info!(signal = name, "received a signal to stop");
                    return;
                }
                ("SIGHUP", false) => tracing::info!(
                    "SIGHUP has no effect: certificates are read again when their files change, settings at a restart"
                ),
                (name, false) => tracing::info!(signal = name, "a signal has no effect"),
            }
        }
    })
}

/// Reports whether this process was started with SIGHUP ignored, as by `nohup`.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, HANGUP.0)
}

fn ignores(status: &str, kind: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_found_in_the_status_of_a_process() {
        let status = |mask: &str| format!("Name:\tthuban\nSigBlk:\tffffffffffffffff\nSigIgn:\t{mask}\nSigCgt:\t1\n");
        for (mask, hangup, pipe) in
            [("0000000000001000", false, true), ("0000000000001001", true, true), ("0000000000000000", false, false)]
        {
            let status = status(mask);
            assert_eq!(ignores(&status, SignalKind::hangup()), hangup, "{mask}");
            assert_eq!(ignores(&status, SignalKind::pipe()), pipe, "{mask}");
        }
        assert!(!ignores("", SignalKind::hangup()));
    }
}
