//! Error messages of the command line.

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
