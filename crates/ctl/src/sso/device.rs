//! Device flow (RFC 8628): the person signs in with a code in a browser on any machine, and the command asks for the
//! tokens until they are there.

use std::time::{Duration, Instant};

use thuban_oidc::{CodeVerifier, DevicePoll, DeviceStart, device_form, device_token_form};
use thuban_oidc::{read_device_poll, read_device_start};

use super::fault::SignInFault;
use super::provider::{IdentityProvider, ProviderTokens, is_passing};

/// Time by which the pause between two requests grows, for good, if the provider wants fewer of them.
const SLOWER: Duration = Duration::from_secs(5);

/// Time that a sign-in waits by.
pub(super) trait Clock {
    fn now(&self) -> Duration;
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// Clock of the machine, from the moment of its creation.
pub(super) struct SystemClock(Instant);

impl SystemClock {
    pub(super) fn new() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// Returns the tokens once the person has signed in. `print` shows a line.
pub(super) async fn sign_in(
    provider: &IdentityProvider,
    clock: &impl Clock,
    print: impl Fn(&str),
) -> Result<ProviderTokens, SignInFault> {
    let verifier = CodeVerifier::new(&rand::random());
    let (metadata, account) = (&provider.metadata, provider.account());
    let unusable = |fault| provider.unusable(&fault);
    let form = device_form(metadata, account, &provider.scope, &verifier.challenge()).map_err(unusable)?;
    let begun = clock.now();
    let (status, body) = provider.send(form).await.map_err(|why| provider.silent(why))?;
    let start = read_device_start(status, &body).map_err(unusable)?.map_err(|refusal| provider.refusal(&refusal))?;
    announce(provider, &start, print);
    let until = begun + Duration::from_secs(start.expires_s);
    let mut pause = Duration::from_secs(start.interval_s);
    let mut away = None;
    loop {
        clock.sleep(pause.min(until.saturating_sub(clock.now()))).await;
        if clock.now() >= until {
            return Err(away.map_or_else(|| provider.too_late(), |why| provider.silent(why)));
        }
        away = None;
        let form = device_token_form(metadata, account, &start.device_code, &verifier).map_err(unusable)?;
        let why = match provider.send(form).await {
            Ok((status, body)) => match read_device_poll(status, &body).map_err(unusable)? {
                DevicePoll::Tokens(tokens) => return provider.issued(tokens),
                DevicePoll::Pending => continue,
                DevicePoll::SlowDown => None,
                DevicePoll::Refused(refusal) if is_passing(&refusal) => Some(refusal.to_string()),
                DevicePoll::Refused(refusal) if refusal.error == "expired_token" => return Err(provider.too_late()),
                DevicePoll::Refused(refusal) => return Err(provider.refusal(&refusal)),
            },
            Err(why) => Some(why),
        };
        // A provider that does not answer is called less often too, as the standard requires.
        pause += SLOWER;
        away = why;
    }
}

fn announce(provider: &IdentityProvider, start: &DeviceStart, print: impl Fn(&str)) {
    let DeviceStart { user_code, verification_uri, verification_uri_complete, expires_s, .. } = start;
    print(&format!("To sign in at {}, open this address in a browser on any machine:", provider.name));
    match verification_uri_complete {
        Some(complete) => {
            print(&format!("  {complete}"));
            print(&format!("It shows the code {user_code}"));
        }
        None => {
            print(&format!("  {verification_uri}"));
            print(&format!("and enter the code {user_code}"));
        }
    }
    print(&format!("Waiting for at most {} minutes; Ctrl-C gives up", expires_s.div_ceil(60)));
}
