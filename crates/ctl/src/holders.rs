//! Holders of grants on the command line: local users, and people of identity providers.

use clap::Args;
use serde_json::{Value, json};

/// Holder of grants: a local user, or a person of an identity provider, whom `thuban identity list` shows.
#[derive(Args)]
pub(super) struct HolderArgs {
    #[arg(required_unless_present = "provider")]
    name: Option<String>,
    /// Identity provider of a person, instead of a name
    #[arg(long, value_name = "PROVIDER", requires = "sub", conflicts_with = "name")]
    provider: Option<String>,
    /// Subject: the id of the person at the provider
    #[arg(long, requires = "provider")]
    sub: Option<String>,
}

impl HolderArgs {
    pub(super) fn is_local(&self) -> bool {
        self.provider.is_none()
    }

    /// Returns the members of an item that name the holder, and words for people.
    pub(super) fn read(self) -> (Value, String) {
        match (self.name, self.provider, self.sub) {
            (None, Some(provider), Some(sub)) => {
                let words = format!("identity {provider}/{sub}");
                (json!({ "provider": provider, "sub": sub }), words)
            }
            (name, ..) => {
                let name = name.unwrap_or_default();
                (json!({ "name": name }), format!("user {name}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_for_a_user_or_a_person() {
        let of = |name: Option<&str>, person: Option<(&str, &str)>| {
            let (provider, sub) = person.unzip();
            let own = |text: Option<&str>| text.map(str::to_owned);
            HolderArgs { name: own(name), provider: own(provider), sub: own(sub) }.read()
        };
        assert_eq!(of(Some("ann"), None), (json!({ "name": "ann" }), "user ann".to_owned()));
        let person = (json!({ "provider": "corp", "sub": "a/1" }), "identity corp/a/1".to_owned());
        assert_eq!(of(None, Some(("corp", "a/1"))), person);
    }
}
