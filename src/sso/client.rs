//! Requests to a provider, each within limits of time and bytes.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap};
use reqwest::{Client, RequestBuilder, Response};
use tokio::time::timeout;
use url::Url;

use crate::oidc::{DOCUMENT_BYTES_MAX, FormRequest, is_safe_address};
use crate::outbound;
use crate::tasks;

const AGENT: &str = concat!("thuban/", env!("CARGO_PKG_VERSION"));

/// Client of all providers.
pub(super) struct ProviderClient {
    ca_file: Option<PathBuf>,
    within: Duration,
}

/// An answer with any status.
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) media_type: String,
    /// Header `Date`, the clock of the provider.
    pub(super) date: Option<String>,
    pub(super) body: Vec<u8>,
}

impl ProviderClient {
    pub(super) fn new(ca_file: Option<PathBuf>, within: Duration) -> ProviderClient {
        ProviderClient { ca_file, within }
    }

    /// Fetches a document. Redirects are followed within the origin of the address. The error is short.
    pub(super) async fn get(&self, address: &Url) -> Result<HttpAnswer, String> {
        let ask = async {
            let client = self.client(address).await?;
            read(outbound::get_json(&client, address.clone()).await?).await
        };
        let answer = self.limited(ask).await?;
        match answer.status {
            200 => Ok(answer),
            status => Err(format!("{address} answers {status}")),
        }
    }

    /// Fetches with an access token. Redirects are not followed.
    pub(super) async fn get_as(&self, address: &Url, access_token: &str) -> Result<HttpAnswer, String> {
        let ask = async {
            let request = self.client(address).await?.get(address.clone()).header(ACCEPT, "application/json");
            send(request.bearer_auth(access_token)).await
        };
        self.limited(ask).await
    }

    /// Posts a form. Redirects are not followed.
    pub(super) async fn post(&self, form: FormRequest) -> Result<HttpAnswer, String> {
        let FormRequest { address, authorization, body } = form;
        let ask = async {
            let mut request = self.client(&address).await?.post(address.clone()).body(body);
            request = request.header(ACCEPT, "application/json");
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
            if let Some(authorization) = authorization {
                request = request.header(AUTHORIZATION, authorization);
            }
            send(request).await
        };
        self.limited(ask).await
    }

    async fn limited<T>(&self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let done = timeout(self.within, work).await;
        done.unwrap_or_else(|_| Err(format!("no answer within {} s", self.within.as_secs_f32())))
    }

    /// Creates a client for an address. Authorities are read from the disk each time: fetches are rare.
    async fn client(&self, address: &Url) -> Result<Client, String> {
        if !is_safe_address(address) {
            return Err(format!("{address} is neither https nor on this machine"));
        }
        let (is_secure, ca_file) = (address.scheme() == "https", self.ca_file.clone());
        let made = tasks::blocking_errand(move || outbound::client(is_secure, ca_file.as_deref())).await;
        let made = made.map_err(|error| error.to_string())?;
        let mut builder = made.map_err(|error| format!("TLS cannot be set up: {error}"))?;
        if !is_secure {
            // A proxy would ask its own machine.
            builder = builder.no_proxy();
        }
        builder.user_agent(AGENT).build().map_err(|error| outbound::in_words(&error))
    }
}

async fn send(request: RequestBuilder) -> Result<HttpAnswer, String> {
    read(request.send().await.map_err(|error| outbound::in_words(&error))?).await
}

async fn read(response: Response) -> Result<HttpAnswer, String> {
    let status = response.status().as_u16();
    let text = |headers: &HeaderMap, name| {
        headers.get(name).and_then(|value: &reqwest::header::HeaderValue| value.to_str().ok()).map(str::to_owned)
    };
    let headers = response.headers();
    let date = text(headers, DATE);
    let media_type = text(headers, CONTENT_TYPE).unwrap_or_default();
    let body = outbound::read_limited(response, DOCUMENT_BYTES_MAX).await;
    let body = body.map_err(|error| outbound::in_words(&error))?;
    let body = body.ok_or_else(|| "the answer is larger than 1 MiB".to_owned())?;
    Ok(HttpAnswer { status, media_type, date, body })
}
