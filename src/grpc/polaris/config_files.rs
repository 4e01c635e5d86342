//! Reads of config files for SDKs.
//!
//! The version of a file is its notification id: it grows with every change of what any client gets, also with a
//! rollback, the end of a gray release, and a deletion. SDKs ignore whatever has a lower version than they know.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Failure, Sdk};
use crate::catalog::Catalog;
use crate::catalog::configs::md5_of;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigKey, ConfigRelease};
use crate::model::config_lookup::{CLIENT_ADDRESS_LABEL, ClientLabels, Lookup, Released};
use crate::model::signature::Target;
use crate::model::{limits, name};
use crate::operations::Operations;
use crate::polaris::config::{ReleasedFile, file};
use crate::polaris::{revision, v1};
use crate::reads::{
    Asker, ConfigReads, ConfigSource, FileNews, HoldEnd, KnownFile, LocalView, ReadRefusal, Reader, ReaderCredentials,
};

/// Time for which a watch is held. SDKs watch a file that they first read meanwhile only after it.
const HOLD: Duration = Duration::from_secs(30);
/// Reads of a file until no change came between its number and its content.
const READS_MAX: usize = 3;

/// Parts of a node that read config files.
#[derive(Clone)]
pub(super) struct ConfigFiles {
    pub(super) operations: Arc<Operations>,
    pub(super) reads: ConfigReads<LocalView>,
}

/// Names of a file.
pub(super) struct FilePlace {
    namespace: String,
    group: String,
    file: String,
}

impl FilePlace {
    fn of(asked: &v1::ClientConfigFileInfo) -> Result<FilePlace, Failure> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let place =
            FilePlace { namespace: text(&asked.namespace), group: text(&asked.group), file: text(&asked.file_name) };
        let names = [("namespace", &place.namespace), ("group", &place.group), ("file_name", &place.file)];
        if let Some((field, _)) = names.into_iter().find(|(_, name)| name.is_empty()) {
            return Err(Refusal::new(Code::BadRequest, format!("{field} is needed")).into());
        }
        ConfigKey::new(&*place.namespace, &*place.group, &*place.file).check()?;
        Ok(place)
    }

    /// Returns the namespace and the group that a question names.
    pub(super) fn of_group(asked: &v1::ClientConfigFileInfo) -> (String, String) {
        (asked.namespace.clone().unwrap_or_default(), asked.group.clone().unwrap_or_default())
    }
}

/// Client of a read.
struct ReadBy {
    client: ClientLabels,
    /// True if the client names its address.
    is_named: bool,
}

impl ReadBy {
    /// Takes the address that the client names in its labels, else that of its connection.
    fn of(sdk: &Sdk, mut labels: BTreeMap<String, String>) -> Result<ReadBy, Failure> {
        name::check_metadata(&labels)?;
        let named = labels.remove(CLIENT_ADDRESS_LABEL).filter(|address| !address.is_empty());
        let is_named = named.is_some();
        let seen = || sdk.visitor.address.map(|address| address.to_string()).unwrap_or_default();
        let client = ClientLabels { address: named.unwrap_or_else(seen), labels: labels.into_iter().collect() };
        Ok(ReadBy { client, is_named })
    }

    fn reader<'a>(&self, sdk: &'a Sdk, hold: Duration) -> Reader<'a> {
        Reader {
            agent: &sdk.agent,
            origin: sdk.visitor.origin,
            hold,
            connection: sdk.visitor.address,
            is_named: self.is_named,
            is_polaris: true,
        }
    }
}

fn asker(sdk: &Sdk) -> Asker<'_> {
    Asker {
        credentials: &ReaderCredentials::Anonymous,
        certificate: None,
        address: sdk.visitor.address,
        target: Target { path: "", query: "" },
    }
}

fn identity(sdk: &Sdk) -> Option<&crate::catalog::Credential> {
    sdk.visitor.caller.as_ref().map(|caller| &caller.credential)
}

impl ConfigFiles {
    /// Returns the file that is in force for a client, with its content in the clear.
    pub(super) async fn file(
        &self,
        sdk: &Sdk,
        asked: &v1::ClientConfigFileInfo,
    ) -> Result<v1::ClientConfigFileInfo, Failure> {
        let place = FilePlace::of(asked)?;
        let tag =
            |tag: &v1::ConfigFileTag| (tag.key.clone().unwrap_or_default(), tag.value.clone().unwrap_or_default());
        let by = ReadBy::of(sdk, asked.tags.iter().map(tag).collect())?;
        let admitted = self.reads.admit_to_group(identity(sdk), asker(sdk), (&place.namespace, &place.group))?;
        let known = u32::try_from(asked.version.unwrap_or_default()).unwrap_or(u32::MAX);
        let lookup = || Lookup {
            group: place.group.clone(),
            namespaces: vec![place.namespace.clone()],
            file: place.file.clone(),
            client: by.client.clone(),
        };
        let (reader, number) =
            (by.reader(sdk, Duration::ZERO), || self.reads.source().notification_id(&lookup()).unwrap_or_default());
        let mut released = self.reads.pull(&admitted, &mut lookup(), known, None, reader).await?;
        let mut id = number();
        for _ in 1..READS_MAX {
            // A change after the read has a newer number: its content belongs to it.
            released = self.reads.pull(&admitted, &mut lookup(), 0, None, reader).await?;
            let now = number();
            if std::mem::replace(&mut id, now) == now {
                break;
            }
        }
        let clear = self.reads.clear(&released).map_err(ReadRefusal::from)?;
        let content = String::from_utf8_lossy(&clear).into_owned();
        let release = self.release_of(&released);
        let info = info(&place, &released, release.as_deref(), id);
        let md5 = if released.encrypted { Some(md5_of(&content)) } else { info.md5 };
        Ok(v1::ClientConfigFileInfo { content: Some(content), md5, ..info })
    }

    /// Waits for a newer version of one of the files. Returns `None` if none comes in time, or the node stops.
    pub(super) async fn news(
        &self,
        sdk: &Sdk,
        asked: v1::ClientWatchConfigFileRequest,
    ) -> Result<Option<v1::ClientConfigFileInfo>, Failure> {
        if asked.watch_files.is_empty() || asked.watch_files.len() > limits::POLL_NAMESPACES_MAX {
            let why = format!("a watch is for 1 to {} files", limits::POLL_NAMESPACES_MAX);
            return Err(Refusal::new(Code::BadRequest, why).into());
        }
        let places = asked.watch_files.iter().map(FilePlace::of).collect::<Result<Vec<_>, _>>()?;
        let known = |(place, file): (&FilePlace, &v1::ClientConfigFileInfo)| KnownFile {
            namespace: place.namespace.clone(),
            group: place.group.clone(),
            file: place.file.clone(),
            known_id: file.version.unwrap_or_default(),
        };
        let files = places.iter().zip(&asked.watch_files).map(known).collect();
        let labels = asked.client_ip.map(|address| (CLIENT_ADDRESS_LABEL.to_owned(), address));
        drop(asked.watch_files);
        let by = ReadBy::of(sdk, labels.into_iter().collect())?;
        let reader = by.reader(sdk, HOLD);
        let mut hold = self.reads.watch(identity(sdk), asker(sdk), files, (reader, &by.client.address), HOLD)?;
        hold.query.forget_foreign_ids().await;
        let end = match hold.look().await? {
            Some(news) => HoldEnd::News(news),
            None => hold.wait().await?,
        };
        let HoldEnd::News(FileNews { position, id }) = end else { return Ok(None) };
        let place = &places[position];
        let lookup = Lookup {
            group: place.group.clone(),
            namespaces: vec![place.namespace.clone()],
            file: place.file.clone(),
            client: by.client,
        };
        let info = match self.reads.source().resolve(&lookup) {
            Some(released) => info(place, &released, self.release_of(&released).as_deref(), id),
            None => file(&ReleasedFile {
                namespace: &place.namespace,
                group: &place.group,
                file: &place.file,
                version: id.into(),
                ..ReleasedFile::default()
            }),
        };
        Ok(Some(info))
    }

    /// Returns the files of a group that a client may get, without contents, and the revision of the list.
    pub(super) async fn list(
        &self,
        sdk: &Sdk,
        (namespace, group): (&str, &str),
        labels: &BTreeMap<String, String>,
    ) -> Result<(String, Vec<v1::ClientConfigFileInfo>), Failure> {
        name::check_namespace(namespace)?;
        name::check_config_group(group)?;
        let by = ReadBy::of(sdk, labels.clone())?;
        self.reads.admit_to_group(identity(sdk), asker(sdk), (namespace, group))?;
        let sees = |caller: &crate::operations::Caller| caller.client_sight().sees(namespace, group);
        if !sdk.visitor.caller.as_ref().is_none_or(sees) {
            return Ok((String::new(), Vec::new()));
        }
        let reach = {
            let catalog = self.operations.node().state().catalog();
            catalog.configs.group(namespace, group).map_or(0, |group| catalog.configs.file_count_in(group))
        };
        let (namespace, group) = (namespace.to_owned(), group.to_owned());
        let find = move |catalog: &Catalog| {
            let files = catalog.configs.files_in_group(&namespace, &group);
            let infos = files.filter_map(|draft| {
                let found = catalog.configs.find(&namespace, &group, &draft.key.file, &by.client)?;
                // A lookup also finds a file of a similar name, which has a row of its own.
                if found.file != draft.key.file {
                    return None;
                }
                let place =
                    FilePlace { namespace: namespace.clone(), group: group.clone(), file: draft.key.file.clone() };
                let id = catalog.configs.notification_id(&namespace, &group, &draft.key.file)?;
                Some(info(&place, found, release_of(catalog, found).as_deref(), id))
            });
            infos.collect::<Vec<_>>()
        };
        let infos = self.operations.scan(reach, find, |infos| infos).await?;
        Ok((revision::of_files(&infos), infos))
    }

    /// Returns the file after its publication.
    pub(super) fn published(&self, key: &ConfigKey) -> v1::ClientConfigFileInfo {
        let place = FilePlace { namespace: key.namespace.clone(), group: key.group.clone(), file: key.file.clone() };
        let catalog = self.operations.node().state().catalog();
        let id = catalog.configs.notification_id(&key.namespace, &key.group, &key.file).unwrap_or_default();
        let release = catalog.configs.active_release(key);
        let md5 = release.map(|release| release.md5.as_str()).unwrap_or_default();
        of_release(&place, release.map(|release| &**release), md5, id)
    }

    fn release_of(&self, released: &Released) -> Option<Arc<ConfigRelease>> {
        release_of(&self.operations.node().state().catalog(), released)
    }
}

fn release_of(catalog: &Catalog, released: &Released) -> Option<Arc<ConfigRelease>> {
    let key = ConfigKey::new(&*released.namespace, &*released.group, &*released.file);
    catalog.configs.versions_of(&key).into_iter().find(|release| release.version == released.version)
}

/// Returns a file under the name in the request, by which the client recognizes it.
fn info(place: &FilePlace, released: &Released, release: Option<&ConfigRelease>, id: u32) -> v1::ClientConfigFileInfo {
    let md5 = release.filter(|_| !released.encrypted).map(|release| release.md5.as_str()).unwrap_or_default();
    of_release(place, release, md5, id)
}

fn of_release(place: &FilePlace, release: Option<&ConfigRelease>, md5: &str, id: u32) -> v1::ClientConfigFileInfo {
    file(&ReleasedFile {
        namespace: &place.namespace,
        group: &place.group,
        file: &place.file,
        version: id.into(),
        release: release.map(|release| release.name.as_str()).unwrap_or_default(),
        md5,
        released_at: release.map(|release| release.modified.time.text()).unwrap_or_default(),
        tags: release.map(|release| &release.tags[..]).unwrap_or_default(),
    })
}
