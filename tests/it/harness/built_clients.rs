//! Apollo's clients in Java and Go as testers: programs under tests/clients that print what their client holds.

use std::path::Path;

use tempfile::TempDir;
use tokio::process::Command;

use super::clients::{RealClient, driven};
use super::programs::{asked_client, program};

/// A program on a client of Apollo's, in one of the variants that tests/clients/programs lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BuiltClient {
    pub(crate) language: &'static str,
    pub(crate) program: &'static str,
    pub(crate) variant: &'static str,
}

/// Settings of a client.
#[derive(Clone, Copy, Default)]
pub(crate) struct ClientSettings<'a> {
    /// Secret of an access key.
    pub(crate) secret: Option<&'a str>,
    /// File with the authority that it trusts.
    pub(crate) ca: Option<&'a Path>,
    /// Label for gray releases.
    pub(crate) label: Option<&'a str>,
    /// True if the client connects to the nodes that the address lists; false if it uses only the address.
    pub(crate) by_meta: bool,
}

impl BuiltClient {
    /// Returns the newest version of each client, and the earlier one that `scripts/clients` selects.
    pub(crate) fn of_apollo() -> Vec<BuiltClient> {
        let all = [
            ("java", "apollo", "newest"),
            ("java", "spring", "newest"),
            ("go", "apollo", "newest"),
            ("java", "apollo", "2.0"),
            ("java", "apollo", "1.9"),
            ("go", "apollo", "4"),
        ];
        let all = all.into_iter().map(|(language, program, variant)| BuiltClient { language, program, variant });
        let asked = asked_client();
        let is_asked = |one: &BuiltClient| match &asked {
            Some(asked) => *asked == format!("{}/{}/{}", one.language, one.program, one.variant),
            None => one.variant == "newest",
        };
        all.filter(is_asked).collect()
    }

    /// The Java client has labels since 2.0.
    pub(crate) fn sends_labels(self) -> bool {
        self.variant != "1.9"
    }
}

impl RealClient {
    /// A client as it is published; nothing where its language or its registry is not there.
    pub(crate) async fn start_built(
        built: BuiltClient,
        url: &str,
        app: &str,
        namespace: &str,
        settings: &ClientSettings<'_>,
    ) -> Option<RealClient> {
        let cache = TempDir::new().expect("a temporary directory can be made");
        let mut command = Command::new(program(built.language, built.program, built.variant).await?);
        command.args([url, app, "default", namespace]).arg(cache.path()).args(settings.secret);
        for (name, value) in [("THUBAN_CA", settings.ca), ("SSL_CERT_FILE", settings.ca)] {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        if let Some(label) = settings.label {
            command.env("THUBAN_LABEL", label);
        }
        if settings.by_meta {
            command.env("THUBAN_META", "1");
        }
        if built.variant == "1.9" {
            // Predates Java modules.
            command.env("THUBAN_JAVA_OPTIONS", "--add-opens=java.base/java.lang=ALL-UNNAMED");
        }
        Some(driven(command, cache))
    }
}
