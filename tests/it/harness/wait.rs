//! Waiting on facts, and telling what was measured.

use std::fmt::Display;
use std::io::Write;
use std::str::FromStr;
use std::time::{Duration, Instant};

const PROBE_PAUSE: Duration = Duration::from_millis(10);

/// Factor for the limits of waits. They end a test that hangs and do not measure this machine, which may be busy with
/// other work.
const PATIENCE: u32 = 4;

/// Returns the time after which a wait is given up.
pub(crate) fn patient(limit: Duration) -> Duration {
    limit.saturating_mul(PATIENCE)
}

/// Asks `probe` until it gives `Ok`; past [`patient`] `limit` fails with the last thing that was wrong.
pub(crate) async fn eventually<T, F>(limit: Duration, what: &str, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let (start, limit) = (Instant::now(), patient(limit));
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if start.elapsed() > limit => panic!("not within {limit:?}: {what}; last seen: {seen}"),
            Err(_) => tokio::time::sleep(PROBE_PAUSE).await,
        }
    }
}

/// Prints a measured figure past the capture of the test runner: figures are wanted of green runs.
pub(crate) fn report(text: impl Display) {
    writeln!(std::io::stderr(), "    measured: {text}").expect("stderr is open");
}

/// Returns the size of a scenario: `default`, or the value of the environment variable.
pub(crate) fn setting<T: FromStr>(variable: &str, default: T) -> T {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text:?} is not a number")),
        Err(_) => default,
    }
}

/// The value below which `share` (0 to 1) of the sorted samples lie, nearest rank.
pub(crate) fn percentile(samples: &mut [Duration], share: f64) -> Duration {
    assert!(!samples.is_empty(), "a percentile needs samples");
    samples.sort_unstable();
    let rank = (share * samples.len() as f64).ceil() as usize;
    samples[rank.clamp(1, samples.len()) - 1]
}
