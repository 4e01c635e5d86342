//! `thuban identity`: people that have signed in by identity providers, and the names that they hold.

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Value, json};

use super::accounts::{self, ListArgs};
use super::kinds_of_access::IDENTITY;
use super::remote::{CallArgs, call};
use super::tables::words;
use super::telling::say;

#[derive(Subcommand)]
pub(super) enum IdentityCommand {
    /// List the people that have signed in, with their names and the last sign-in
    List(ListArgs),
    /// Delete a person, end its logins and free its name; success also if it does not exist
    Delete {
        /// Name of the provider
        provider: String,
        /// Subject: the id of the person at the provider
        sub: String,
        #[command(flatten)]
        call: CallArgs,
        /// Also end the service tokens of the person
        #[arg(long)]
        tokens: bool,
    },
}

pub(super) async fn run(command: IdentityCommand) -> anyhow::Result<()> {
    match command {
        IdentityCommand::List(args) => accounts::list(&args, IDENTITY.list, IDENTITY.columns).await,
        IdentityCommand::Delete { provider, sub, call: to, tokens } => {
            let query = if tokens { "?tokens=true" } else { "" };
            let body = json!([{ "provider": provider, "sub": sub }]);
            let answer = call(&to, Method::POST, &format!("{}/delete{query}", IDENTITY.list), Some(&body)).await?;
            accounts::tell(&answer, &format!("identity {provider}/{sub}"), "deleted")?;
            tokens_of(&answer["responses"][0]["identity"]).iter().for_each(|line| say(line));
            Ok(())
        }
    }
}

/// Returns the line about the service tokens of a deleted person; none if it has none.
fn tokens_of(freed: &Value) -> Option<String> {
    let names = Some(words(&freed["tokens"])).filter(|names| names != "-")?;
    Some(match freed["tokens_ended"] == true {
        true => format!("its service tokens have ended: {names}"),
        false => format!("its service tokens go on: {names}; --tokens ends them, as does `thuban token delete`"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_a_deleted_person_are_named() {
        let freed = |tokens: &[&str], ended: bool| tokens_of(&json!({ "tokens": tokens, "tokens_ended": ended }));
        assert_eq!(freed(&[], false), None);
        assert_eq!(tokens_of(&Value::Null), None);
        let goes_on = freed(&["ci", "deploy"], false).expect("tokens");
        assert!(goes_on.contains("go on: ci deploy") && goes_on.contains("--tokens"), "{goes_on}");
        assert_eq!(freed(&["ci"], true).as_deref(), Some("its service tokens have ended: ci"));
    }
}
