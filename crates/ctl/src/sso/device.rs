//! Device flow (RFC 8628): the person signs in with a code in a browser on any machine, and the command asks for the
//! tokens until they are there.

use std::time::{Duration, Instant};

use url::Url;

use super::fault::SignInFault;
use super::pkce::{CHALLENGE_METHOD, CodeVerifier};
use super::provider::{IdentityProvider, SignInTokens, Unserved, printable, seconds};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Pause between two requests if the provider names none.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Time by which the pause grows, for good, if the provider wants fewer requests.
const SLOWER: Duration = Duration::from_secs(5);
/// Life of a code if the provider names none, and the longest one.
const LIFE: Duration = Duration::from_secs(600);
const LIFE_MAX: Duration = Duration::from_secs(3600);

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
    endpoint: &Url,
    clock: &impl Clock,
    print: impl Fn(&str),
) -> Result<SignInTokens, SignInFault> {
    let verifier = CodeVerifier::new();
    let form = [
        ("scope", provider.scope.as_str()),
        ("code_challenge", &verifier.challenge()),
        ("code_challenge_method", CHALLENGE_METHOD),
    ];
    let begun = clock.now();
    let answer = provider.post(endpoint, &form).await.map_err(|unserved| provider.unserved(unserved))?;
    let text = |member: &str| answer[member].as_str().filter(|text| !text.is_empty());
    let address = text("verification_uri").or(text("verification_url"));
    let (Some(device_code), Some(user_code), Some(address)) = (text("device_code"), text("user_code"), address) else {
        return Err(provider.refused("its answer has no code, or no address to enter it at"));
    };
    let life = seconds(&answer["expires_in"]).unwrap_or(LIFE).min(LIFE_MAX);
    let mut pause = seconds(&answer["interval"]).unwrap_or(PAUSE).max(PAUSE_MIN);
    announce(provider, (address, text("verification_uri_complete")), user_code, life, print);
    let form = [("grant_type", GRANT), ("device_code", device_code), ("code_verifier", verifier.secret())];
    let until = begun + life;
    let mut away = None;
    loop {
        clock.sleep(pause.min(until.saturating_sub(clock.now()))).await;
        if clock.now() >= until {
            return Err(away.map_or_else(|| provider.too_late(), |why| provider.unserved(Unserved::Away(why))));
        }
        away = None;
        match provider.tokens(&form).await {
            Ok(tokens) => return Ok(tokens),
            Err(Unserved::Error { code, why }) => match code.as_str() {
                "authorization_pending" => {}
                "slow_down" => pause += SLOWER,
                "expired_token" => return Err(provider.too_late()),
                _ => return Err(provider.refused(why)),
            },
            Err(Unserved::Away(why)) => {
                pause += SLOWER;
                away = Some(why);
            }
        }
    }
}

fn announce(
    provider: &IdentityProvider,
    (address, complete): (&str, Option<&str>),
    code: &str,
    life: Duration,
    print: impl Fn(&str),
) {
    print(&format!("To sign in at {}, open this address in a browser on any machine:", provider.name));
    print(&format!("  {}", printable(complete.unwrap_or(address))));
    match complete {
        Some(_) => print(&format!("It shows the code {}", printable(code))),
        None => print(&format!("and enter the code {}", printable(code))),
    }
    print(&format!("Waiting for at most {} minutes; Ctrl-C gives up", life.as_secs().div_ceil(60)));
}
