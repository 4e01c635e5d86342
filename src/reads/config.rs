//! Pulls of config files, and the reasons of their refusal.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::admission::Admitted;
use super::catch_up::{Newest, Reached};
use super::config_source::{ConfigSource, Reader};
use super::renderings::{RenderedForm, Renderings};
use super::repeat_limiter::RepeatLimiter;
use crate::compression::{self, Accepted, Coding};
use crate::log_once::LogOnce;
use crate::metrics::Metrics;
use crate::model::code::Refusal;
use crate::model::config_lookup::{Lookup, Released, Rendering, Unreadable};
use crate::model::limits;
use crate::model::signature::Flaw;
use crate::origin::Origin;
use crate::subscribers::{Applied, Word};
use crate::watch::HubFull;

/// Pause between two log lines, and between two audit notes, of one reader.
const QUIET: Duration = Duration::from_secs(60);

/// Reason why a read is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadRefusal {
    #[error("{0}")]
    BadRequest(String),
    #[error("a valid token is needed")]
    Unauthorized,
    /// The bearer token of a provider is wrong, as the text says.
    #[error("{0}")]
    Token(String),
    #[error(transparent)]
    Unsigned(#[from] Flaw),
    #[error("nothing is released under this name")]
    NotFound,
    #[error("this node has not yet applied the version that the client names")]
    Behind,
    #[error("the released file cannot be read: {0}")]
    Damaged(String),
    #[error("the file is kept encrypted, and this node does not have the data key to read it")]
    Sealed,
    #[error("the file is kept encrypted, and this token is neither a client's nor one that may edit it")]
    Withheld,
    #[error("too many polls: {0}")]
    Full(#[from] HubFull),
    #[error("{0}")]
    OutOfService(String),
    #[error("this node has failed at the request, which is a defect: its log says where")]
    Failed,
}

impl ReadRefusal {
    /// Returns the refusal of a bearer token: it is wrong, or its provider does not answer now.
    pub(super) fn of_bearer(refusal: &Refusal) -> ReadRefusal {
        match refusal.code.status() {
            401 => ReadRefusal::Token(refusal.info()),
            _ => ReadRefusal::OutOfService(refusal.info()),
        }
    }

    /// Reports whether the refusal is due to the reader, not to the request or the state of this node.
    pub fn is_of_the_reader(&self) -> bool {
        match self {
            ReadRefusal::Unauthorized | ReadRefusal::Token(_) => true,
            // Another node may be able to read the key.
            ReadRefusal::Unsigned(flaw) => *flaw != Flaw::Unreadable,
            _ => false,
        }
    }
}

impl From<Unreadable> for ReadRefusal {
    /// Converts to an error, on which clients keep what they have. A guess at the pairs could remove settings.
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::Damaged(error) => ReadRefusal::Damaged(error.to_string()),
            Unreadable::Sealed => ReadRefusal::Sealed,
            Unreadable::Absent => ReadRefusal::OutOfService(error.to_string()),
        }
    }
}

/// App id and address of a client.
type ReaderKey = (String, Option<IpAddr>);

/// Reads of config clients, shared by all APIs; cheap to clone.
#[derive(Clone)]
pub struct ConfigReads<S>(pub(super) Arc<Shared<S>>);

pub(super) struct Shared<S> {
    pub source: S,
    pub metrics: Arc<Metrics>,
    /// True to refuse readers that have neither a token nor the signature of an access key.
    pub auth_required: bool,
    pub repeats: RepeatLimiter,
    pub observed: LogOnce<ReaderKey>,
    pub refused: LogOnce<ReaderKey>,
    renderings: Renderings,
}

impl<S: ConfigSource> ConfigReads<S> {
    /// Creates the reads, with a cache of up to `render_cache_bytes` of renderings.
    pub fn new(source: S, metrics: Arc<Metrics>, auth_required: bool, render_cache_bytes: u64) -> Self {
        let renderings = Renderings::new(render_cache_bytes, metrics.clone());
        let repeats = RepeatLimiter::default();
        let (observed, refused) = (LogOnce::every(QUIET), LogOnce::every(QUIET));
        ConfigReads(Arc::new(Shared { source, metrics, auth_required, repeats, observed, refused, renderings }))
    }

    pub fn source(&self) -> &S {
        &self.0.source
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// Finds the release of a file for an admitted reader. A client that names the notification id or release key that
    /// it knows gets nothing older.
    pub async fn pull(
        &self,
        admitted: &Admitted,
        lookup: &mut Lookup,
        notified_id: u32,
        release_key: Option<&str>,
        reader: Reader<'_>,
    ) -> Result<Arc<Released>, ReadRefusal> {
        self.keep_seen(admitted, &mut lookup.namespaces, &lookup.group);
        let release = release_key.and_then(|key| lookup.named_release(key)).map(|named| (&*lookup, named));
        let reader = admitted.counted(reader);
        self.catch_up(Newest { source: self.source(), id: notified_id, release }, reader.origin).await?;
        let released = self.source().resolve(lookup).ok_or(ReadRefusal::NotFound)?;
        if released.encrypted {
            self.admit_to_sealed(admitted, &released)?;
            self.clear(&released)?;
        }
        self.source().note_pulled(reader, lookup, &released);
        Ok(released)
    }

    /// Records the report of an admitted reader on whether it could apply the release with this key, and why not.
    pub fn applied(
        &self,
        admitted: &Admitted,
        mut lookup: Lookup,
        release_key: &str,
        (is_ok, message): (bool, &str),
        reader: Reader<'_>,
    ) {
        self.keep_seen(admitted, &mut lookup.namespaces, &lookup.group);
        let applied = if is_ok { Applied::Yes } else { Applied::Refused };
        let word = Word { applied, message, at: self.source().now() };
        // A reader that may not read a file has none of its releases.
        let may_have = |one: &Arc<Released>| !one.encrypted || self.admit_to_sealed(admitted, one).is_ok();
        let in_force = self.source().named_in_force(&lookup, release_key).filter(may_have);
        self.source().note_applied(admitted.counted(reader), &lookup, (release_key, in_force.as_deref()), word);
    }

    async fn catch_up(&self, newest: Newest<'_, S>, origin: Origin) -> Result<(), ReadRefusal> {
        let reached = match newest.place() {
            Some(reached) => reached,
            None => {
                // Counted as a held request, so that ids of the far future use up only the quota of their own origin.
                let _place = self.source().hub().watch(origin, Vec::new(), 0)?;
                // Boxed to keep the future of ordinary pulls small.
                Box::pin(newest.reach()).await
            }
        };
        match reached {
            Reached::Here => {}
            Reached::Elsewhere => self.0.metrics.foreign_ids.inc(),
            Reached::Unknown => {
                self.0.metrics.pulls_behind.inc();
                return Err(ReadRefusal::Behind);
            }
        }
        Ok(())
    }

    /// Returns the text of a file. The decrypted text of an encrypted file is cached.
    pub fn clear(&self, released: &Released) -> Rendering {
        let read = || Ok(Bytes::from_owner(SharedText(self.source().text(released)?)));
        if released.encrypted {
            self.0.renderings.of(released, RenderedForm::Clear, Coding::Identity, read)
        } else {
            read()
        }
    }

    /// Returns a form of a file from the cache, or renders it from the text.
    pub fn rendered(
        &self,
        released: &Released,
        form: RenderedForm,
        render: impl FnOnce(&str) -> Rendering,
    ) -> Rendering {
        self.0.renderings.of(released, form, Coding::Identity, || {
            let clear = self.clear(released)?;
            render(str::from_utf8(&clear).expect("the bytes of a text"))
        })
    }

    /// Returns a form of a file in the best coding that the client accepts. Compression is done once and cached.
    pub fn encoded(
        &self,
        released: &Released,
        form: RenderedForm,
        accepted: Accepted,
        plain: impl FnOnce() -> Rendering,
    ) -> Result<(Bytes, Coding), Unreadable> {
        let coding = self.0.renderings.coding(released, accepted);
        let bytes = match coding {
            Coding::Identity => plain(),
            Coding::Gzip => self
                .0
                .renderings
                .of(released, form, coding, || Ok(compression::gzip(&plain()?, limits::COMPRESSION_THOROUGH))),
        };
        Ok((bytes?, coding))
    }
}

/// A text as shared bytes.
struct SharedText(Arc<str>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
