//! Config files.

use crate::model::config_file::{ConfigFileDraft, ConfigPublish, ConfigReleaseDraft, Tag};
use crate::v1;

/// Prefix of the tags by which SDKs decrypt a content. Contents are sent in the clear, so no answer has one.
const INTERNAL: &str = "internal-";

/// A released file, as an answer has it.
#[derive(Clone, Debug, Default)]
pub struct ReleasedFile<'a> {
    pub namespace: &'a str,
    pub group: &'a str,
    /// Name of the file as the client wrote it, by which it recognizes the answer.
    pub file: &'a str,
    /// Number that grows with every change of what clients get.
    pub version: u64,
    pub release: &'a str,
    pub md5: &'a str,
    /// Time of the release, `YYYY-MM-DD HH:MM:SS`: SDKs refuse a list with any other form.
    pub released_at: String,
    pub tags: &'a [Tag],
}

/// Maps a released file without its content.
pub fn file(released: &ReleasedFile<'_>) -> v1::ClientConfigFileInfo {
    let text = |text: &str| Some(text.to_owned());
    let tag = |tag: &Tag| v1::ConfigFileTag { key: text(&tag.key), value: text(&tag.value) };
    v1::ClientConfigFileInfo {
        namespace: text(released.namespace),
        group: text(released.group),
        file_name: text(released.file),
        content: None,
        version: Some(released.version),
        md5: text(released.md5),
        tags: released.tags.iter().filter(|tag| !tag.key.starts_with(INTERNAL)).map(tag).collect(),
        encrypted: Some(false),
        name: text(released.release),
        release_time: Some(released.released_at.clone()),
    }
}

fn given(text: &Option<String>) -> String {
    text.clone().unwrap_or_default()
}

fn tags(tags: &[v1::ConfigFileTag]) -> Option<Vec<Tag>> {
    let read = |tag: &v1::ConfigFileTag| Tag { key: given(&tag.key), value: given(&tag.value) };
    (!tags.is_empty()).then(|| tags.iter().map(read).collect())
}

/// Reads a file to be created or updated.
pub fn file_draft(file: &v1::ConfigFile) -> ConfigFileDraft {
    ConfigFileDraft {
        namespace: given(&file.namespace),
        group: given(&file.group),
        name: given(&file.name),
        content: file.content.clone(),
        encrypted: file.encrypted.filter(|encrypted| *encrypted),
        format: file.format.clone().filter(|format| !format.is_empty()),
        comment: file.comment.clone(),
        tags: tags(&file.tags),
        ..ConfigFileDraft::default()
    }
}

/// Reads a publication.
pub fn release_draft(release: &v1::ConfigFileRelease) -> ConfigReleaseDraft {
    ConfigReleaseDraft {
        name: release.name.clone().filter(|name| !name.is_empty()),
        namespace: given(&release.namespace),
        group: given(&release.group),
        file_name: given(&release.file_name),
        release_description: release.release_description.clone().or_else(|| release.comment.clone()),
        md5: release.md5.clone().filter(|md5| !md5.is_empty()),
        ..ConfigReleaseDraft::default()
    }
}

/// Reads a file to be written and published. The MD5 that SDKs send is that of the new content, so it is compared with
/// that alone: `is_of_content` reports whether they are equal.
pub fn publish_draft(info: &v1::ConfigFilePublishInfo, is_of_content: impl Fn(&str, &str) -> bool) -> ConfigPublish {
    let content = info.content.as_deref().unwrap_or_default();
    let md5 = info.md5.clone().filter(|md5| !md5.is_empty() && !is_of_content(md5, content));
    let (namespace, group, name) = (given(&info.namespace), given(&info.group), given(&info.file_name));
    let file = ConfigFileDraft {
        namespace: namespace.clone(),
        group: group.clone(),
        name: name.clone(),
        content: Some(content.to_owned()),
        encrypted: info.encrypted.filter(|encrypted| *encrypted),
        format: info.format.clone().filter(|format| !format.is_empty()),
        comment: info.comment.clone(),
        tags: tags(&info.tags),
        ..ConfigFileDraft::default()
    };
    let release = ConfigReleaseDraft {
        name: info.release_name.clone().filter(|name| !name.is_empty()),
        namespace,
        group,
        file_name: name,
        release_description: info.release_description.clone(),
        ..ConfigReleaseDraft::default()
    };
    ConfigPublish { file, release, md5 }
}

#[cfg(test)]
mod tests;
