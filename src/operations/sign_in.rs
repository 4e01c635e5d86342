//! Login and logout.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::passwords::NotChecked;
use super::{Caller, Operations, token_hash};
use crate::catalog::{AuthorizedCommand, Command, Credential};
use crate::model::access::{User, Whence};
use crate::model::code::{Code, Refusal};
use crate::model::limits;
use crate::origin::Sender;

/// User who is logging in.
pub struct Applicant {
    pub name: String,
    pub password: String,
    pub sender: Sender,
    /// Name of the program, as it reports itself.
    pub agent: String,
    /// Id of the request.
    pub request: String,
    /// New token of the login.
    pub token: String,
}

/// A user who has logged in, and the new token.
pub struct SignedIn {
    pub user: Arc<User>,
    pub token: String,
}

/// Reason why a user is not logged in.
#[derive(Debug)]
pub enum NotSignedIn {
    /// Not possible now; to be retried after this time.
    Later(Duration, Refusal),
    Refused(Refusal),
}

impl NotSignedIn {
    /// Returns the refusal, and the seconds after which to retry, if that helps.
    pub fn into_parts(self) -> (Refusal, Option<u64>) {
        match self {
            NotSignedIn::Later(wait, refusal) => (refusal, Some(wait.as_secs().max(1))),
            NotSignedIn::Refused(refusal) => (refusal, None),
        }
    }
}

impl<T: Into<Refusal>> From<T> for NotSignedIn {
    fn from(refusal: T) -> Self {
        NotSignedIn::Refused(refusal.into())
    }
}

/// Wraps a command that a proof other than a token permits: a password, or a token of a provider.
pub(super) fn before_login(address: Option<IpAddr>, request: &str, command: Command) -> AuthorizedCommand {
    AuthorizedCommand {
        credential: Credential::Login,
        address,
        request: request.to_owned(),
        self_registration: false,
        mutes_refusals: false,
        command,
    }
}

impl Operations {
    /// Logs a user in. A wrong name and a wrong password get the same answer.
    pub async fn sign_in(&self, applicant: Applicant) -> Result<SignedIn, NotSignedIn> {
        let Applicant { name, password, sender, agent, request, token } = applicant;
        let address = sender.address;
        let is_too_long = |text: &str| text.chars().count() > limits::CREDENTIAL_CHARS_MAX;
        let wrong = || {
            self.node.metrics().login_failures.with_label_values(&["credentials"]).inc();
            self.note_login(&name, address, &request, Code::NotAllowedAccess);
            NotSignedIn::Refused(wrong())
        };
        if is_too_long(&name) {
            // No user has so long a name: nothing is hashed or remembered.
            return Err(wrong());
        }
        // The user may have been created, or the password changed, a moment ago on another node. The login needs the
        // leader anyway; without one, the hash would be wasted.
        self.node.await_linearizable().await?;
        let user = self.node.state().catalog().access.user_named(&name);
        let (password, hash) = match &user {
            Some(user) if !is_too_long(&password) && !user.disabled => (password, Some(user.password_hash.clone())),
            _ => (String::new(), None),
        };
        let is_right = match self.passwords.check(&name, sender.guesser(), password, hash).await {
            Ok(is_right) => is_right,
            Err(not_checked) => {
                self.note_login(&name, address, &request, Code::TooManyLogins);
                return Err(self.later(not_checked));
            }
        };
        let user = user.filter(|_| is_right).ok_or_else(wrong)?;
        let password = user.password_hash.clone();
        let from = Whence { address, agent };
        let command = Command::SignIn { hash: token_hash(&token), user_id: user.id.clone(), password, from };
        let outcomes = self.ask(&user.name, before_login(address, &request, command)).await?;
        match outcomes.first() {
            // The password was right, so its user may know what else is missing.
            Some(outcome) if outcome.code == Code::NotAllowedAccess && !outcome.detail.is_empty() => {
                Err(Refusal::new(outcome.code, outcome.detail.clone()).into())
            }
            Some(outcome) if !outcome.code.is_success() => Err(self::wrong().into()),
            _ => Ok(SignedIn { user, token }),
        }
    }

    pub(super) fn later(&self, not_checked: NotChecked) -> NotSignedIn {
        let (reason, wait, why) = match not_checked {
            NotChecked::Throttled(wait) => ("throttled", wait + Duration::from_secs(1), "too many failed logins"),
            NotChecked::Busy => ("busy", Duration::from_secs(1), "too many logins are waiting"),
        };
        self.node.metrics().login_failures.with_label_values(&[reason]).inc();
        NotSignedIn::Later(wait, Refusal::new(Code::TooManyLogins, why))
    }

    /// Revokes the token of the caller, on every node.
    pub async fn sign_out(&self, caller: &Caller) -> Result<(), Refusal> {
        if let Credential::Token(hash) = &caller.credential {
            self.ask(&caller.name, caller.asks(Command::SignOut { hash: hash.clone() })).await?;
        }
        Ok(())
    }
}

/// Text of the refusal of a wrong name or password.
pub const WRONG: &str = "name or password is wrong";

fn wrong() -> Refusal {
    Refusal::new(Code::NotAllowedAccess, WRONG)
}
