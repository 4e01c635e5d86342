//! Watches of config files of any namespaces and groups, for clients that name the last change of each file.

use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use super::admission::{Admitted, Asker};
use super::catch_up::{Newest, Reached};
use super::config::{ConfigReads, ReadRefusal};
use super::config_source::{ConfigSource, Reader};
use super::hold::{HeldQuery, Hold, ReadResult};
use super::repeat_limiter::RequestMark;
use crate::catalog::Credential;
use crate::model::config_lookup::{ClientLabels, Lookup};
use crate::origin::Origin;
use crate::watch::{Watch, WatchKey};

/// A watched file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KnownFile {
    pub namespace: String,
    pub group: String,
    /// Name as the client wrote it.
    pub file: String,
    /// Newest change that the client knows; 0 for none.
    pub known_id: u64,
}

/// A change of a watched file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileNews {
    /// Position of the file in the request.
    pub position: usize,
    pub id: u32,
}

/// A held watch.
pub struct ConfigWatch<S: ConfigSource> {
    reads: ConfigReads<S>,
    files: Vec<(KnownFile, Admitted)>,
    positions: Vec<usize>,
    credential: Option<Credential>,
    origin: Origin,
    /// Guard of a watch that a credential admitted.
    guard: Option<S::Guard>,
    mark: RequestMark,
}

impl KnownFile {
    fn lookup(&self, address: &str) -> Lookup {
        let client = ClientLabels { address: address.to_owned(), labels: Vec::new() };
        Lookup { group: self.group.clone(), namespaces: vec![self.namespace.clone()], file: self.file.clone(), client }
    }
}

impl<S: ConfigSource> ConfigReads<S> {
    /// Admits a reader to a group of a namespace: by its identity, else as its request says.
    pub fn admit_to_group(
        &self,
        identity: Option<&Credential>,
        asker: Asker<'_>,
        (namespace, group): (&str, &str),
    ) -> Result<Admitted, ReadRefusal> {
        match identity {
            Some(credential) => self.admit_identified(credential, asker.address),
            None => self.admit(asker, Some((group, &[namespace.to_owned()]))),
        }
    }

    /// Begins a watch. Files that the reader may not see never change for it; a reader that may see none is refused.
    pub fn watch(
        &self,
        identity: Option<&Credential>,
        asker: Asker<'_>,
        files: Vec<KnownFile>,
        (reader, address): (Reader<'_>, &str),
        hold: Duration,
    ) -> Result<Hold<ConfigWatch<S>>, ReadRefusal> {
        let mark = self.0.repeats.mark(&(address, &files));
        let (mut seen, mut positions, mut refused) = (Vec::new(), Vec::new(), None);
        for (position, file) in files.into_iter().enumerate() {
            match self.admit_to_group(identity, asker, (&file.namespace, &file.group)) {
                Ok(admitted) => {
                    positions.push(position);
                    seen.push((file, admitted));
                }
                Err(refusal) => refused = Some(refusal),
            }
        }
        if let Some(refusal) = refused.filter(|_| seen.is_empty()) {
            return Err(refusal);
        }
        let origin = seen.first().map_or(reader, |(_, admitted)| admitted.counted(reader)).origin;
        let credential = identity.cloned();
        let watch = ConfigWatch { reads: self.clone(), files: seen, positions, credential, origin, guard: None, mark };
        let hold = Hold::begin(watch, self.metrics(), hold)?;
        hold.query.note(Reader { origin, ..reader }, address);
        Ok(hold)
    }
}

impl<S: ConfigSource> ConfigWatch<S> {
    /// Records that the client is connected.
    fn note(&self, reader: Reader<'_>, address: &str) {
        for (file, _) in &self.files {
            self.reads.source().note_polled(reader, &file.lookup(address));
        }
    }

    /// Resets ids that no node of this cluster has issued, as polls do.
    pub async fn forget_foreign_ids(&mut self) {
        let source = self.reads.source();
        let newest_known = self.files.iter().map(|(file, _)| file.known_id).max().unwrap_or(0);
        let id = u32::try_from(newest_known).unwrap_or(u32::MAX);
        let newest = Newest { source, id, release: None };
        let reached = match newest.place() {
            Some(reached) => reached,
            None => Box::pin(newest.reach()).await,
        };
        if reached == Reached::Elsewhere {
            let newest_id = u64::from(source.newest_id());
            let foreign = self.files.iter_mut().filter(|(file, _)| file.known_id > newest_id);
            let foreign = foreign.map(|(file, _)| file.known_id = 0).count();
            self.reads.metrics().foreign_ids.inc_by(foreign as u64);
        }
    }

    /// Returns the first file with a newer change than the client knows.
    fn news(&self) -> Option<FileNews> {
        let source = self.reads.source();
        self.files.iter().zip(&self.positions).find_map(|((file, admitted), position)| {
            let mut lookup = file.lookup("");
            self.reads.keep_seen(admitted, &mut lookup.namespaces, &lookup.group);
            let id = source.notification_id(&lookup)?;
            (u64::from(id) > file.known_id).then_some(FileNews { position: *position, id })
        })
    }

    /// Refuses a reader that was admitted earlier and would not be admitted now.
    fn check_reader(&self) -> Result<(), ReadRefusal> {
        self.files.iter().try_for_each(|(file, admitted)| {
            self.reads.admits_still(admitted, (&file.group, std::slice::from_ref(&file.namespace)))
        })
    }

    /// Returns the bytes of memory that the watch holds while it waits, without its keys.
    fn bytes(&self) -> usize {
        let one = |(file, _): &(KnownFile, Admitted)| {
            size_of::<(KnownFile, Admitted)>() + file.namespace.len() + file.group.len() + file.file.len()
        };
        size_of::<Self>() + self.files.iter().map(one).sum::<usize>()
    }
}

impl<S: ConfigSource> HeldQuery for ConfigWatch<S> {
    type Answer = FileNews;
    type Refusal = ReadRefusal;

    fn watch(&mut self) -> Result<Watch, ReadRefusal> {
        let key = |(file, _): &(KnownFile, Admitted)| WatchKey::config(&file.namespace, &file.group, &file.file);
        let mut keys: Vec<_> = self.files.iter().map(key).collect();
        if let Some(credential) = &self.credential {
            let (key, guard) = self.reads.source().guard(credential);
            keys.push(key);
            self.guard = Some(guard);
        }
        Ok(self.reads.source().hub().watch(self.origin, keys, self.bytes())?)
    }

    async fn read(&mut self, _: &mut Watch, is_woken: bool) -> Result<ReadResult<FileNews>, ReadRefusal> {
        let Some(news) = self.news() else {
            // The wake-up may be the end of its credential.
            if self.guard.is_some() {
                self.check_reader()?;
            }
            return Ok(ReadResult::Unchanged);
        };
        let repeats = &self.reads.0.repeats;
        if let Some(delay) = repeats.delay(self.mark, &news).filter(|_| !is_woken) {
            return Ok(ReadResult::NotBefore(Instant::now() + delay));
        }
        self.check_reader()?;
        repeats.given(self.mark, &news);
        Ok(ReadResult::News(news))
    }
}
