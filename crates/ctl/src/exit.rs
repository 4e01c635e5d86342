//! Exit codes: how commands end, and how they report why.

use std::process::ExitCode;

use super::errors::{self, Differences, NothingDone, Usage};
use super::refusals::{Refused, SERVER_FAULTS};
use super::remote::Stranger;
use super::sso::SignInFault;
use super::telling::say_error;
use super::waiting::{Lost, TimedOut};

/// Differences exist, or changes remain to be made.
const EXIT_DIFFERENT: u8 = 1;
/// Bad configuration.
pub const EXIT_CONFIG: u8 = 2;
const EXIT_REFUSED: u8 = 3;
const EXIT_NO_ANSWER: u8 = 4;
/// A release was not where `wait` waited for it in time.
const EXIT_TIMED_OUT: u8 = 7;
/// Ctrl-C, as shells report it for SIGINT.
const EXIT_INTERRUPTED: u8 = 128 + 2;
/// The event that `wait` waited for cannot happen any more.
const EXIT_LOST: u8 = 8;

/// Reports an error on stderr. Returns 0, or 1 after an error.
pub fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&format!("thuban: {}", errors::in_words(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Reports like [`report`], with an exit code for the kind of failure: 1 for differences, 2 for wrong usage, 3 for a
/// refusal by the node, 4 for no answer.
pub fn report_by_kind(result: anyhow::Result<()>) -> ExitCode {
    let kind = result.as_ref().err().and_then(kind_of);
    let code = report(result);
    kind.map_or(code, ExitCode::from)
}

/// Reports like [`report_by_kind`] for pipelines, in which 1 means differences and nothing else.
pub fn report_to_pipelines(result: anyhow::Result<()>) -> ExitCode {
    let kind = result.as_ref().err().map(|error| kind_of(error).unwrap_or(EXIT_CONFIG));
    let code = report(result);
    kind.map_or(code, ExitCode::from)
}

fn kind_of(error: &anyhow::Error) -> Option<u8> {
    match error.downcast_ref::<Refused>() {
        Some(refused) if refused.code < SERVER_FAULTS => Some(EXIT_REFUSED),
        Some(_) => Some(EXIT_NO_ANSWER),
        None if error.is::<Usage>() => Some(EXIT_CONFIG),
        None if error.is::<NothingDone>() => Some(EXIT_REFUSED),
        None if error.is::<Differences>() => Some(EXIT_DIFFERENT),
        None if error.is::<TimedOut>() => Some(EXIT_TIMED_OUT),
        None if error.is::<Lost>() => Some(EXIT_LOST),
        None if error.is::<Stranger>() => Some(EXIT_NO_ANSWER),
        None if error.is::<SignInFault>() => error.downcast_ref::<SignInFault>().map(of_sign_in),
        None => error.is::<reqwest::Error>().then_some(EXIT_NO_ANSWER),
    }
}

fn of_sign_in(fault: &SignInFault) -> u8 {
    match fault {
        SignInFault::Silent { .. } => EXIT_NO_ANSWER,
        SignInFault::Refused { .. } | SignInFault::TooLate { .. } => EXIT_REFUSED,
        SignInFault::Interrupted => EXIT_INTERRUPTED,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endings_say_what_went_wrong() {
        let refused = |code: u64| anyhow::Error::from(Refused::of(&json!({ "code": code })).expect("refused"));
        for (error, kind) in [
            (Differences::to_do(1).into(), Some(EXIT_DIFFERENT)),
            (Usage("wrong".to_owned()).into(), Some(EXIT_CONFIG)),
            (anyhow::Error::from(Usage("wrong".to_owned())).context("line 1"), Some(EXIT_CONFIG)),
            (NothingDone(1).into(), Some(EXIT_REFUSED)),
            (refused(409_000), Some(EXIT_REFUSED)),
            (refused(503_001), Some(EXIT_NO_ANSWER)),
            (Stranger.into(), Some(EXIT_NO_ANSWER)),
            (SignInFault::Silent { provider: "corp".to_owned(), why: "away".to_owned() }.into(), Some(EXIT_NO_ANSWER)),
            (SignInFault::TooLate { provider: "corp".to_owned() }.into(), Some(EXIT_REFUSED)),
            (SignInFault::Interrupted.into(), Some(EXIT_INTERRUPTED)),
            (anyhow::anyhow!("a disk is full"), None),
        ] {
            assert_eq!(kind_of(&error), kind, "{error:#}");
        }
    }
}
