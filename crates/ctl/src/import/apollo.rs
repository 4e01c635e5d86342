//! Apollo as a source: a running config service, as its clients see it, or an archive of its portal.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::StatusCode;
use serde_json::Value;
use thuban_model::config_file::Format;
use thuban_model::properties::{self, Pairs};
use thuban_model::signature::{SigningKey, Target};
use url::Url;

use super::super::remote::http_client;
use super::super::secret;
use super::{ImportSource, IntoArgs, Usage, archives, read};

/// Maximum concurrent requests.
const AT_ONCE: usize = 16;
const FORM: &str = "content";

#[derive(Args)]
pub(crate) struct ApolloArgs {
    /// Base URL of a config service, http:// or https://
    #[arg(long, value_name = "URL", required_unless_present = "file", conflicts_with = "file")]
    config_service: Option<String>,
    /// App whose namespaces are imported
    #[arg(long, requires = "config_service", required_unless_present = "file")]
    app_id: Option<String>,
    /// Cluster to import; may be repeated
    #[arg(long = "cluster", value_name = "CLUSTER", default_value = "default")]
    clusters: Vec<String>,
    /// Namespaces, separated by commas; may be repeated. A config service cannot list them
    #[arg(long = "namespaces", value_name = "NAMES", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// File with one namespace per line
    #[arg(long, value_name = "FILE")]
    namespaces_file: Option<PathBuf>,
    /// File with the secret of an access key of the app, if it has one
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// File with the authorities trusted for an https:// config service (PEM) [default: those the system trusts]
    #[arg(long, value_name = "FILE")]
    config_service_ca_file: Option<PathBuf>,
    /// An archive of Apollo's portal instead of a config service
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Environment of the archive, if it has several
    #[arg(long, requires = "file")]
    env: Option<String>,
    #[command(flatten)]
    into: IntoArgs,
}

impl ApolloArgs {
    pub(super) async fn read(self) -> anyhow::Result<(ImportSource, IntoArgs)> {
        if let Some(file) = &self.file {
            return Ok((archives::apollo(&read(file)?, self.env.as_deref())?, self.into));
        }
        let (base, app) = (self.config_service.context("--config-service")?, self.app_id.context("--app-id")?);
        let mut namespaces = self.namespaces;
        if let Some(file) = &self.namespaces_file {
            let text = String::from_utf8(read(file)?).context("the file with the namespaces is not a text")?;
            namespaces.extend(text.lines().map(|line| line.trim().to_owned()));
        }
        namespaces.retain(|name| !name.is_empty());
        if namespaces.is_empty() {
            let why = "a config service has no list of namespaces: name them with --namespaces or --namespaces-file";
            return Err(Usage(why.to_owned()).into());
        }
        let key = match self.secret_file {
            Some(file) => Some(SigningKey::new(secret::read(Some(&file), "Secret")?.as_bytes())),
            None => None,
        };
        let service = ConfigService {
            http: http_client(std::slice::from_ref(&base), self.config_service_ca_file.as_deref())?
                .timeout(super::super::remote::WITHIN)
                .build()?,
            base: Url::parse(&base).map_err(|error| Usage(format!("--config-service: {error}")))?,
            app,
            key,
        };
        let wanted: Vec<_> =
            self.clusters.iter().flat_map(|cluster| namespaces.iter().map(move |name| (cluster, name))).collect();
        let asks = wanted.into_iter().map(|(cluster, name)| service.pull(cluster, name));
        let pulled: Vec<_> = stream::iter(asks).buffered(AT_ONCE).try_collect().await?;
        let mut source = ImportSource { is_by_namespace: true, ..ImportSource::default() };
        for pulled in pulled {
            match pulled {
                // Two clusters may both fall back to a third one.
                Ok(found) if source.files.iter().any(|other| other.key == found.key) => {}
                Ok(found) => source.files.push(found),
                Err(missing) => source.left_out.push(missing),
            }
        }
        Ok((source, self.into))
    }
}

struct ConfigService {
    http: reqwest::Client,
    base: Url,
    app: String,
    key: Option<SigningKey>,
}

impl ConfigService {
    /// Fetches a namespace as clients get it; the inner error means that it does not exist.
    async fn pull(&self, cluster: &str, namespace: &str) -> anyhow::Result<Result<super::FoundFile, String>> {
        let mut url = self.base.clone();
        let cannot = || Usage(format!("{} is not the address of a config service", self.base));
        url.path_segments_mut()
            .map_err(|()| cannot())?
            .pop_if_empty()
            .extend(["configs", &self.app, cluster, namespace]);
        let mut request = self.http.get(url.clone());
        if let Some(key) = &self.key {
            // The signature covers the path that arrives behind a proxy which strips a prefix.
            let path = url.path().strip_prefix(self.base.path().trim_end_matches('/')).unwrap_or(url.path());
            #[expect(
                clippy::disallowed_methods,
                reason = "no log is written: another system is told what time it is here"
            )]
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis().to_string();
            let signature = key.sign(&self.app, Target { path, query: "" }, &now);
            request = request.header("Authorization", signature).header("Timestamp", now);
        }
        let response = request.send().await?;
        let status = response.status();
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                return Ok(Err(format!("{cluster}/{}/{namespace}: nothing is released", self.app)));
            }
            StatusCode::UNAUTHORIZED => {
                bail!(
                    "{url} answers 401: the app has an access key, give its secret with --secret-file, and check the \
                     clock"
                )
            }
            _ => bail!("{url} answers {status}"),
        }
        let answer: Value = response.json().await.with_context(|| format!("{url} does not answer as Apollo does"))?;
        let pairs: Pairs = serde_json::from_value(answer["configurations"].clone())
            .with_context(|| format!("{url} does not answer as Apollo does"))?;
        let is_properties = Format::of_suffix(namespace).is_none_or(|format| format == Format::Properties);
        let content = match pairs.get(FORM).filter(|_| !is_properties) {
            Some(content) => content.clone(),
            None => properties::write(&pairs),
        };
        // The answer may come from the default cluster, and is imported for that one.
        let cluster = answer["cluster"].as_str().unwrap_or(cluster);
        Ok(Ok(archives::of_apollo(cluster, &self.app, namespace, content)))
    }
}
