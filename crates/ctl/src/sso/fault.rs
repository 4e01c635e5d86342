//! Sign-ins that ended without a token.

/// Reason why a sign-in at an identity provider ended without a token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignInFault {
    /// The provider cannot be reached, or its answer is of no use.
    #[error("identity provider {provider} does not answer: {why}")]
    Silent { provider: String, why: String },
    #[error("identity provider {provider} refused: {why}")]
    Refused { provider: String, why: String },
    /// Time limit of the provider's code or of the wait for a browser.
    #[error("nobody signed in at {provider} in time: the command begins again with a new code")]
    TooLate { provider: String },
    #[error("interrupted: nobody was logged in")]
    Interrupted,
}
