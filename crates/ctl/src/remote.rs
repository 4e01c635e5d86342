//! Calls to a running cluster: the order in which nodes are tried, and the interpretation of their answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use url::form_urlencoded;

use super::contexts::{CONNECTION, ContextArgs};
use super::errors::Usage;
pub use super::refusals::Refused;
pub(super) use super::refusals::{NO_LEADER, is_done};

pub(super) const WITHIN: Duration = Duration::from_secs(15);
/// Shorter connect time-out while there is another node to try.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:8090";
const ADVICE: &str = "is the node running, and the address that of its management API? --endpoint or `thuban context` \
                      name another";
/// Code for a page that exceeds the maximum size; a page of fewer rows fits.
const TOO_LONG: u64 = 413_002;
/// Code for a token that is unknown, expired or revoked.
pub(super) const TOKEN_ENDED: u64 = 401_004;

#[derive(Args)]
pub(super) struct EndpointArgs {
    /// Base URL of the management API of any node, http:// or https://; several, separated by commas, are tried
    /// in order [default: those of the context, else http://127.0.0.1:8090]
    #[arg(long, env = "THUBAN_ENDPOINT", value_name = "URL", value_delimiter = ',', help_heading = CONNECTION)]
    endpoint: Vec<String>,

    /// File with the trusted authorities of an https:// endpoint (PEM) [default: that of the context, else
    /// those of the system]
    #[arg(long, env = "THUBAN_CA_FILE", value_name = "FILE", help_heading = CONNECTION)]
    ca_file: Option<PathBuf>,

    #[command(flatten)]
    pub(super) context: ContextArgs,
}

impl EndpointArgs {
    /// Returns the selected nodes, without credentials.
    pub(super) fn remote(&self) -> anyhow::Result<Remote> {
        let context = self.context.read()?.unwrap_or_default();
        let plain = |url: &str| url.trim().trim_end_matches('/').to_owned();
        let is_own = |url: &String| context.servers.iter().any(|server| plain(server) == plain(url));
        let is_context = self.endpoint.iter().all(is_own);
        let endpoints = match (self.endpoint.is_empty(), context.servers.is_empty()) {
            (false, _) => self.endpoint.clone(),
            (true, false) => context.servers,
            (true, true) => vec![DEFAULT_ENDPOINT.to_owned()],
        };
        // Values of a context are sent only to its own servers.
        let of_context = |value: Option<String>| value.filter(|_| is_context);
        Ok(Remote {
            endpoints: endpoints.iter().map(|one| plain(one)).collect(),
            ca_file: self.ca_file.clone().or(context.ca_file.filter(|_| is_context)),
            is_withheld: context.token.is_some() && !is_context,
            way_back: self.context.way_back(context.sso.as_deref()).filter(|_| is_context),
            token: of_context(context.token),
            namespace: of_context(context.namespace),
            built: None,
        })
    }
}

#[derive(Args)]
pub struct CallArgs {
    #[command(flatten)]
    pub(super) endpoint: EndpointArgs,
    /// Token from `thuban login` [default: that of the context]
    #[arg(long, env = "THUBAN_TOKEN", hide_env_values = true, help_heading = CONNECTION)]
    token: Option<String>,
}

impl CallArgs {
    /// Returns the selected nodes, with credentials.
    pub fn remote(&self) -> anyhow::Result<Remote> {
        let mut remote = self.endpoint.remote()?;
        if self.token.is_some() {
            remote = remote.with_token_of(self.token.clone());
        }
        if remote.token.is_none() {
            let why = match remote.is_withheld {
                true => {
                    "there is no token for these servers, that of the context goes to its own alone: `thuban login` \
                     with the same --endpoint prints one, --token and THUBAN_TOKEN give it"
                }
                false => {
                    "there is no token: `thuban login --save` or `thuban login --sso` keeps one in the context, \
                     --token and THUBAN_TOKEN give one"
                }
            };
            return Err(Usage(why.to_owned()).into());
        }
        let builder = http_client(&remote.endpoints, remote.ca_file.as_deref())?;
        let client = builder.connect_timeout(CONNECT_WITHIN).timeout(WITHIN).build()?;
        Ok(Remote { built: Some(client), ..remote })
    }
}

/// Connection options for a command that writes a file for another program, where --ca-file has another meaning.
#[derive(Args)]
pub(super) struct AsideArgs {
    /// Base URL of the management API of any node, as for other commands
    #[arg(long, env = "THUBAN_ENDPOINT", value_name = "URL", value_delimiter = ',', hide_short_help = true)]
    #[arg(help_heading = CONNECTION)]
    endpoint: Vec<String>,
    /// File with the trusted authorities of an https:// endpoint (PEM)
    #[arg(long, env = "THUBAN_CA_FILE", value_name = "FILE", hide_short_help = true, help_heading = CONNECTION)]
    endpoint_ca_file: Option<PathBuf>,
    #[command(flatten)]
    context: ContextArgs,
    /// Token from `thuban login`, for the management API [default: that of the context]
    #[arg(long, env = "THUBAN_TOKEN", hide_env_values = true, hide_short_help = true, help_heading = CONNECTION)]
    token: Option<String>,
}

impl From<AsideArgs> for CallArgs {
    fn from(aside: AsideArgs) -> Self {
        let AsideArgs { endpoint, endpoint_ca_file, context, token } = aside;
        CallArgs { endpoint: EndpointArgs { endpoint, ca_file: endpoint_ca_file, context }, token }
    }
}

/// Connection options for a command whose --token is a token to look at, not that of the caller.
#[derive(Args)]
pub(super) struct JudgedTokenArgs {
    #[command(flatten)]
    endpoint: EndpointArgs,
    /// Token from `thuban login`, for the management API [default: that of the context]
    #[arg(long, env = "THUBAN_TOKEN", value_name = "TOKEN", hide_env_values = true, help_heading = CONNECTION)]
    api_token: Option<String>,
}

impl From<JudgedTokenArgs> for CallArgs {
    fn from(JudgedTokenArgs { endpoint, api_token }: JudgedTokenArgs) -> Self {
        CallArgs { endpoint, token: api_token }
    }
}

/// Builds a client for requests to these URLs only.
pub fn http_client(urls: &[String], ca_file: Option<&Path>) -> anyhow::Result<ClientBuilder> {
    let is_secure = urls.iter().any(|url| url.starts_with("https://"));
    Ok(thuban_outbound::client(is_secure, ca_file)?)
}

/// Nodes of a cluster, with the credentials of a command.
#[derive(Clone)]
pub struct Remote {
    pub(super) endpoints: Vec<String>,
    ca_file: Option<PathBuf>,
    token: Option<String>,
    /// True if the context has a token that belongs to other servers.
    pub(super) is_withheld: bool,
    /// Command that logs in again, if the token is that of a context and came of single sign-on.
    way_back: Option<String>,
    /// Namespace of the context.
    pub(super) namespace: Option<String>,
    built: Option<Client>,
}

impl Remote {
    /// Creates the caller of one node, without a context.
    pub fn at(endpoint: &str, token: Option<String>, client: Client) -> Remote {
        Remote {
            endpoints: vec![endpoint.to_owned()],
            ca_file: None,
            token,
            is_withheld: false,
            way_back: None,
            namespace: None,
            built: Some(client),
        }
    }

    /// Returns the same nodes for calls that need no token.
    pub(super) fn without_token(self) -> Remote {
        self.with_token_of(None)
    }

    /// Returns the same nodes with a token that is in no context yet.
    pub(super) fn with_token(&self, token: &str) -> Remote {
        self.clone().with_token_of(Some(token.to_owned()))
    }

    fn with_token_of(self, token: Option<String>) -> Remote {
        Remote { token, way_back: None, ..self }
    }

    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Returns a client builder, for requests that need other time limits.
    pub fn builder(&self) -> anyhow::Result<ClientBuilder> {
        http_client(&self.endpoints, self.ca_file.as_deref())
    }

    pub(super) fn client(&self) -> anyhow::Result<Client> {
        match &self.built {
            Some(client) => Ok(client.clone()),
            None => Ok(self.builder()?.connect_timeout(CONNECT_WITHIN).timeout(WITHIN).build()?),
        }
    }

    /// Returns each node by itself.
    pub(super) fn each(&self) -> impl Iterator<Item = Remote> {
        self.endpoints.iter().map(|endpoint| Remote { endpoints: vec![endpoint.clone()], ..self.clone() })
    }

    /// Sends the request to the first node that can be reached, and to the next one if a node has no leader. A request
    /// that may have taken effect is not repeated: once connected, only reads go on to the next node.
    pub async fn ask(
        &self,
        client: &Client,
        (method, path): (Method, &str),
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> anyhow::Result<Response> {
        let mut endpoints = self.endpoints.iter().peekable();
        // The answer of a node without a leader says more than the fault of one that cannot be reached.
        let mut unavailable = None;
        while let Some(endpoint) = endpoints.next() {
            let mut request = client.request(method.clone(), format!("{endpoint}{path}"));
            if let Some(token) = &self.token {
                request = request.header("Authorization", token);
            }
            let answer = fill(request).send().await;
            let is_last = endpoints.peek().is_none();
            match answer {
                Ok(answer) if is_last || answer.status().as_u16() != 503 => return Ok(answer),
                Err(error) if is_last || !(error.is_connect() || method == Method::GET) => {
                    if let Some(answer) = unavailable {
                        return Ok(answer);
                    }
                    let known = self.endpoints.join(", ");
                    return Err(error).with_context(|| format!("no answer from {known} ({ADVICE})"));
                }
                Ok(answer) => unavailable = Some(answer),
                Err(_) => {}
            }
        }
        bail!("there is no address to ask: give --endpoint")
    }

    /// Returns the body of an answer, whatever its code.
    async fn body(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let fill = |request: RequestBuilder| match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = self.ask(&self.client()?, (method, path), fill).await?;
        answer.json().await.context("the answer is not of a thuban node")
    }

    /// Makes one call and returns the body; a refusal is an error.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        self.judged(self.body(method, path, body).await?)
    }

    /// Returns the body of an answer; a refusal is an error. The refusal of a token from single sign-on names the
    /// command that logs in again.
    pub fn judged(&self, body: Value) -> anyhow::Result<Value> {
        judged(body).map_err(|error| match (error.downcast::<Refused>(), &self.way_back) {
            (Ok(refused), Some(command)) if refused.code == TOKEN_ENDED => {
                refused.with_hint(format!("log in again, `{command}`")).into()
            }
            (Ok(refused), _) => refused.into(),
            (Err(error), _) => error,
        })
    }

    /// Logs in by a password; returns the token.
    pub async fn log_in(&self, name: &str, password: &str) -> anyhow::Result<String> {
        let body = json!({ "name": name, "password": password });
        let answer = self.call(Method::POST, "/auth/v1/user/login", Some(&body)).await?;
        Ok(answer["loginResponse"]["token"].as_str().context("no token in the answer")?.to_owned())
    }

    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::GET, path, None).await
    }

    /// Returns the rows of a list, page by page, up to `most`, and the other members of the last page.
    pub(super) async fn pages(
        &self,
        element: &str,
        (page_rows, most): (usize, usize),
        path: impl Fn(&Paging) -> String,
    ) -> anyhow::Result<(Vec<Value>, Value)> {
        let (mut page_rows, mut all) = (page_rows, Vec::new());
        let mut after: Option<String> = None;
        loop {
            let limit = page_rows.min(most - all.len());
            let paging = Paging { limit, offset: all.len(), after: after.clone() };
            let mut answer = self.body(Method::GET, &path(&paging), None).await?;
            if let Some(fitting) = fitting_rows(&answer, limit) {
                page_rows = fitting;
                continue;
            }
            answer = self.judged(answer)?;
            let rows = match answer[element].take() {
                Value::Array(rows) => rows,
                _ => Vec::new(),
            };
            let is_last = rows.len() < limit;
            all.extend(rows);
            after = answer["after"].as_str().map(str::to_owned);
            if is_last || all.len() >= most {
                return Ok((all, answer));
            }
        }
    }

    /// Sends a batch and returns the outcome of each item, refusals included.
    pub(super) async fn batch(&self, method: Method, path: &str, items: &Value) -> anyhow::Result<Vec<Value>> {
        let answer = self.body(method, path, Some(items)).await?;
        match answer["responses"].as_array() {
            Some(responses) => Ok(responses.clone()),
            None => self.judged(answer).map(|answer| vec![answer]),
        }
    }
}

/// Position in a list by key: concurrent changes neither skip nor repeat a row.
pub(super) struct Paging {
    limit: usize,
    offset: usize,
    /// Key at the end of the previous page. A node of an older version pages by offset only.
    after: Option<String>,
}

impl Paging {
    #[cfg(test)]
    pub(super) fn first(limit: usize) -> Paging {
        Paging { limit, offset: 0, after: None }
    }

    pub(super) fn ask(&self, query: &mut form_urlencoded::Serializer<'_, String>) {
        query.append_pair("order", "key").append_pair("limit", &self.limit.to_string());
        match &self.after {
            Some(after) => query.append_pair("after", after),
            None => query.append_pair("offset", &self.offset.to_string()),
        };
    }
}

/// Returns the number of rows that fit, if the page would be too long.
fn fitting_rows(answer: &Value, asked: usize) -> Option<usize> {
    let fitting = (answer["code"] == TOO_LONG).then(|| answer["limit"].as_u64())??;
    usize::try_from(fitting).ok().filter(|fitting| (1..asked).contains(fitting))
}

fn judged(body: Value) -> anyhow::Result<Value> {
    match body["code"].as_u64() {
        Some(code) if is_done(code) => Ok(body),
        Some(code) => {
            // For a batch of one, the item has the better message.
            let info = body["responses"][0]["info"].as_str().or(body["info"].as_str()).unwrap_or("refused");
            Err(Refused::new(code, info).into())
        }
        None => Err(Stranger.into()),
    }
}

/// The answer does not come from a Thuban node.
#[derive(Debug, thiserror::Error)]
#[error("the answer is not of a thuban node: does --endpoint or the context name a management API?")]
pub(super) struct Stranger;

/// Sends a batch and returns the body of the answer, even if items were refused.
pub(super) async fn answer_of(to: &CallArgs, method: Method, path: &str, batch: &Value) -> anyhow::Result<Value> {
    let remote = to.remote()?;
    let body = remote.body(method, path, Some(batch)).await?;
    if body["responses"].is_array() { Ok(body) } else { remote.judged(body) }
}

/// Makes one call with a token and returns the body of the answer.
pub(super) async fn call(to: &CallArgs, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
    to.remote()?.call(method, path, body).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_too_long_is_asked_for_again_with_fewer_rows() {
        let too_long = |limit: u64| json!({ "code": TOO_LONG, "info": "too long", "limit": limit });
        for (answer, expected) in [
            (too_long(7), Some(7)),
            (too_long(49), Some(49)),
            (too_long(50), None),
            (too_long(0), None),
            (json!({ "code": TOO_LONG }), None),
            (json!({ "code": 200_000, "limit": 7 }), None),
        ] {
            assert_eq!(fitting_rows(&answer, 50), expected, "{answer}");
        }
    }

    #[test]
    fn answers_are_judged_by_code_and_say_what_to_do_next() {
        assert!(judged(json!({ "code": 200_002, "info": "no need" })).is_ok());
        let batch = json!({ "code": 400_202, "info": "of all", "responses": [{ "info": "no such rule" }] });
        let refused = judged(batch).expect_err("refused").to_string();
        assert!(refused.starts_with("no such rule: ") && refused.contains("thuban get"), "{refused}");
        assert!(refused.ends_with("(400202)"), "{refused}");
        assert!(judged(json!({ "hello": 1 })).expect_err("a stranger").to_string().contains("not of a thuban node"));
        let remote = |way_back: Option<&str>| Remote {
            endpoints: Vec::new(),
            ca_file: None,
            token: Some("token".to_owned()),
            is_withheld: false,
            way_back: way_back.map(str::to_owned),
            namespace: None,
            built: None,
        };
        let ended = |way_back: Option<&str>, code: u64| {
            let answer = json!({ "code": code, "info": "of the node" });
            remote(way_back).judged(answer).expect_err("refused").to_string()
        };
        let way_back = Some("thuban login --sso corp");
        assert!(ended(way_back, TOKEN_ENDED).ends_with(": log in again, `thuban login --sso corp` (401004)"));
        assert!(ended(None, TOKEN_ENDED).contains("thuban login --save"));
        assert!(!ended(way_back, 400_000).contains("log in"));
        let refused = |info: &str| judged(json!({ "code": 401_001, "info": info })).expect_err("refused").to_string();
        assert!(refused("access is not approved: this needs edit on shop / pay").contains("takes a grant"));
        assert!(!refused("access is not approved: name or password is wrong").contains("grant"));
    }
}
