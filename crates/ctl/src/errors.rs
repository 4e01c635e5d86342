//! Errors of the command line that are not answers of a node, and error messages.

/// A command was used incorrectly.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// The cluster differs from the documents.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Differences(pub(super) String);

impl Differences {
    pub(super) fn to_do(count: usize) -> Self {
        Differences(format!("{count} to do: `thuban apply` does it"))
    }

    pub(super) fn to_bring_in() -> Self {
        Differences("nothing was done: --yes does it".to_owned())
    }

    pub(super) fn between(from: &str, to: &str) -> Self {
        Differences(format!("{from} and {to} differ: `thuban release` puts a draft in force"))
    }
}

/// Documents that every node would refuse.
#[derive(Debug, thiserror::Error)]
#[error("{0} faults, nothing was changed: mend the documents")]
pub(super) struct NothingDone(pub(super) usize);

/// Formats an error with its causes, each once: many errors repeat their cause in their own text.
pub(super) fn in_words(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        if text.is_empty() {
            cause
        } else if text.contains(&cause) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::{Context, anyhow};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("LOCK: {source}")]
    struct Told {
        source: io::Error,
    }

    #[test]
    fn a_cause_is_printed_once() {
        let denied = || io::Error::from_raw_os_error(13);
        for (error, text) in [
            (anyhow!("alone"), "alone"),
            (anyhow::Error::from(Told { source: denied() }), "LOCK: Permission denied (os error 13)"),
            (anyhow::Error::from(denied()).context("a.json"), "a.json: Permission denied (os error 13)"),
            (
                anyhow::Error::from(Told { source: denied() }).context("the data directory"),
                "the data directory: LOCK: Permission denied (os error 13)",
            ),
        ] {
            assert_eq!(in_words(&error), text);
        }
        let nothing: Result<(), anyhow::Error> = Err(denied()).context("one").context("two");
        assert_eq!(in_words(&nothing.expect_err("denied")), "two: one: Permission denied (os error 13)");
    }
}
