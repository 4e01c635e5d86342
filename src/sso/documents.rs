//! Documents of one provider and the limits on fetching them.
//!
//! A document is fetched when it is first needed and again after an hour. Callers at the same time share one fetch,
//! which goes on if they leave. A fetch that failed is not repeated within a second; meanwhile, and for as long as the
//! provider is away, an older document is used.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;

use super::client::{HttpAnswer, ProviderClient};
use super::{count, read_keys};
use crate::metrics::Metrics;
use crate::model::sso::Provider;
use crate::oidc::{KeySet, Metadata, discovery_address};
use crate::tasks;

/// Age from which a document is fetched again.
const FRESH_FOR: Duration = Duration::from_secs(3600);
/// Time for which a failure is remembered.
const FAILURE_LASTS: Duration = Duration::from_secs(1);
/// Interval between fetches for keys that are unknown.
const NEWER_KEYS_PAUSE: Duration = Duration::from_secs(30);

type Elapsed = Arc<dyn Fn() -> Duration + Send + Sync>;
type Fetched<T> = Result<Arc<T>, Arc<str>>;
type Flight<T> = Shared<BoxFuture<'static, Fetched<T>>>;
type Fetch<T> = BoxFuture<'static, Result<T, String>>;

/// Result of asking for keys that are newer than those at hand.
pub(super) enum Newer {
    Keys(Arc<KeySet>),
    /// The keys were fetched within the last 30 seconds for this reason.
    TooEarly,
    Away(Arc<str>),
}

/// The documents of one provider.
pub(super) struct ProviderDocuments {
    issuer: String,
    source: Arc<DocumentSource>,
    last_used: Mutex<Duration>,
}

/// Origin of the documents, shared with the tasks that fetch them.
struct DocumentSource {
    name: String,
    issuer: String,
    client: Arc<ProviderClient>,
    metrics: Arc<Metrics>,
    metadata: DocumentSlot<Metadata>,
    keys: DocumentSlot<KeySet>,
}

/// One document and the state of its fetches.
struct DocumentSlot<T> {
    elapsed: Elapsed,
    state: Mutex<SlotState<T>>,
}

struct SlotState<T> {
    document: Option<(Arc<T>, Duration)>,
    /// Last failure, if it is newer than the document.
    failure: Option<(Arc<str>, Duration)>,
    flight: Option<Flight<T>>,
    /// Time of the last fetch that a caller forced.
    forced: Option<Duration>,
}

impl ProviderDocuments {
    pub(super) fn new(
        provider: &Provider,
        client: Arc<ProviderClient>,
        metrics: Arc<Metrics>,
        elapsed: Elapsed,
    ) -> ProviderDocuments {
        let (name, issuer) = (provider.name.clone(), provider.issuer.clone());
        let (metadata, keys) = (DocumentSlot::new(elapsed.clone()), DocumentSlot::new(elapsed));
        let source = DocumentSource { name, issuer: issuer.clone(), client, metrics, metadata, keys };
        ProviderDocuments { issuer, source: Arc::new(source), last_used: Mutex::default() }
    }

    pub(super) fn is_of(&self, provider: &Provider) -> bool {
        self.issuer == provider.issuer
    }

    pub(super) fn used(&self, now: Duration) {
        *self.last_used.lock() = now;
    }

    pub(super) fn last_used(&self) -> Duration {
        *self.last_used.lock()
    }

    pub(super) async fn metadata(&self) -> Fetched<Metadata> {
        self.source.metadata().await
    }

    pub(super) async fn keys(&self) -> Fetched<KeySet> {
        self.source.current(|source| &source.keys, DocumentSource::fetch_keys).await
    }

    /// Returns keys that are newer than `known`, which lack the key of a token.
    pub(super) async fn newer_keys(&self, known: &Arc<KeySet>) -> Newer {
        let flight = {
            let slot = &self.source.keys;
            let now = (slot.elapsed)();
            let mut state = slot.state.lock();
            if let Some((document, _)) = state.document.as_ref().filter(|(document, _)| !Arc::ptr_eq(document, known)) {
                return Newer::Keys(document.clone());
            }
            if let Some(why) = state.recent_failure(now) {
                return Newer::Away(why);
            }
            match &state.flight {
                Some(flight) => flight.clone(),
                None if state.forced.is_some_and(|forced| now < forced + NEWER_KEYS_PAUSE) => return Newer::TooEarly,
                None => {
                    state.forced = Some(now);
                    self.source.begin(&mut state, |source| &source.keys, DocumentSource::fetch_keys)
                }
            }
        };
        match flight.await {
            Ok(keys) => Newer::Keys(keys),
            Err(why) => Newer::Away(why),
        }
    }

    /// Replaces both documents by those that a diagnosis fetched.
    pub(super) fn store(&self, metadata: Arc<Metadata>, keys: Arc<KeySet>) {
        self.source.metadata.store(metadata);
        self.source.keys.store(keys);
    }
}

impl DocumentSource {
    async fn metadata(self: &Arc<Self>) -> Fetched<Metadata> {
        self.current(|source| &source.metadata, DocumentSource::fetch_metadata).await
    }

    fn fetch_metadata(self: Arc<Self>) -> Fetch<Metadata> {
        async move {
            let fetched = fetch_metadata(&self.client, &self.issuer).await.map(|(metadata, _)| metadata);
            count(&self.metrics, &self.name, "discovery", fetched.is_ok());
            fetched
        }
        .boxed()
    }

    fn fetch_keys(self: Arc<Self>) -> Fetch<KeySet> {
        async move {
            let metadata = self.metadata().await.map_err(|why| why.to_string())?;
            let fetched = fetch_keys(&self.client, &metadata).await;
            count(&self.metrics, &self.name, "keys", fetched.is_ok());
            fetched
        }
        .boxed()
    }

    /// Returns a document: the one at hand if it is fresh, else a new one, else the old one.
    async fn current<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        slot: fn(&DocumentSource) -> &DocumentSlot<T>,
        fetch: fn(Arc<Self>) -> Fetch<T>,
    ) -> Fetched<T> {
        let (flight, old) = {
            let own = slot(self);
            let now = (own.elapsed)();
            let mut state = own.state.lock();
            let old = match &state.document {
                Some((document, fetched)) if now < *fetched + FRESH_FOR => return Ok(document.clone()),
                old => old.as_ref().map(|(document, _)| document.clone()),
            };
            if let Some(why) = state.recent_failure(now) {
                return old.ok_or(why);
            }
            let is_away = state.failure.is_some();
            let flight = match &state.flight {
                Some(flight) => flight.clone(),
                None => self.begin(&mut state, slot, fetch),
            };
            match old {
                // Nobody waits again for a provider that did not answer the last time.
                Some(old) if is_away => return Ok(old),
                old => (flight, old),
            }
        };
        flight.await.or_else(|why| old.ok_or(why))
    }

    /// Starts a fetch. It ends with its result in the slot, whether or not a caller still waits.
    fn begin<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        state: &mut SlotState<T>,
        slot: fn(&DocumentSource) -> &DocumentSlot<T>,
        fetch: fn(Arc<Self>) -> Fetch<T>,
    ) -> Flight<T> {
        let (source, work) = (self.clone(), fetch(self.clone()));
        let task = tasks::errand(async move {
            let fetched = tasks::caught(work).await.unwrap_or_else(|| Err("the fetch failed".to_owned()));
            slot(&source).finish(&source.name, fetched)
        });
        let flight = task.map(|ended| ended.unwrap_or_else(|_| Err("this node shuts down".into()))).boxed().shared();
        state.flight = Some(flight.clone());
        flight
    }
}

impl<T> DocumentSlot<T> {
    fn new(elapsed: Elapsed) -> DocumentSlot<T> {
        let state = SlotState { document: None, failure: None, flight: None, forced: None };
        DocumentSlot { elapsed, state: Mutex::new(state) }
    }

    fn finish(&self, provider: &str, fetched: Result<T, String>) -> Fetched<T> {
        let now = (self.elapsed)();
        let mut state = self.state.lock();
        state.flight = None;
        match fetched {
            Ok(document) => {
                if state.failure.take().is_some() {
                    tracing::info!(provider, "identity provider answers again");
                }
                let document = Arc::new(document);
                state.document = Some((document.clone(), now));
                Ok(document)
            }
            Err(why) => {
                if state.failure.is_none() {
                    tracing::warn!(provider, why, "identity provider does not answer, its last documents stay in use");
                }
                let why: Arc<str> = why.into();
                state.failure = Some((why.clone(), now));
                // What failed may be tried again before the pause is over.
                state.forced = None;
                Err(why)
            }
        }
    }

    fn store(&self, document: Arc<T>) {
        let now = (self.elapsed)();
        let mut state = self.state.lock();
        state.document = Some((document, now));
        state.failure = None;
    }
}

impl<T> SlotState<T> {
    fn recent_failure(&self, now: Duration) -> Option<Arc<str>> {
        let (why, at) = self.failure.as_ref()?;
        (now < *at + FAILURE_LASTS).then(|| why.clone())
    }
}

/// Fetches and reads the discovery document of an issuer.
pub(super) async fn fetch_metadata(client: &ProviderClient, issuer: &str) -> Result<(Metadata, HttpAnswer), String> {
    let address = discovery_address(issuer).map_err(|fault| fault.to_string())?;
    let answer = client.get(&address).await?;
    let metadata = Metadata::parse(issuer, &answer.body).map_err(|fault| fault.to_string())?;
    Ok((metadata, answer))
}

/// Fetches and reads the keys of a provider.
pub(super) async fn fetch_keys(client: &ProviderClient, metadata: &Metadata) -> Result<KeySet, String> {
    read_keys(&client.get(&metadata.jwks).await?.body)
}
