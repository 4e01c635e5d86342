//! Zip archives of config files: read within limits from any producer, and written in Polaris' layout.
//!
//! Nothing is unpacked to a disk: an entry is a path and a text. The sizes that an archive declares are not trusted: it
//! is read up to a limit and refused beyond it, so that a small archive cannot expand into a large one.
//!
//! | in the archive | is |
//! |---|---|
//! | `group/file` | a file; `file` alone if the request names one group for all files |
//! | `META` | JSON: per path of a file `tags` (an object), `comment`, `format`; for a sealed text `sealed_for` |
//!
//! `format` and `sealed_for` are additions of this project; `sealed_for` is the file for which the text was sealed. A
//! slash in the name of a group is written `%2F`, since no group contains a percent sign. A name that would mean
//! something else as a path is stored in `META` as `group` and `name`, under a generated path.
//!
//! Files that operating systems add to archives ([`is_of_system`]) are omitted.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io::{Cursor, Read, Write};

use serde::{Deserialize, Serialize};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::model::config_file::{ConfigKey, Format, Tag};

/// Limits of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub entries: usize,
    /// Bytes of all texts together.
    pub bytes: u64,
    /// Bytes of each text.
    pub entry_bytes: u64,
}

/// Highest ratio of the texts to the size of the archive. A text of one repeated letter reaches a thousand.
const RATIO_MAX: u64 = 200;
/// Bytes of texts that an archive of any size may hold.
const BYTES_FREE: u64 = 4 * 1024 * 1024;

/// Bytes from which a text is compressed.
const PACKED_BYTES_MIN: usize = 128;

/// Entry of an archive: its path and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedFile {
    pub path: String,
    pub text: Result<String, Unreadable>,
}

/// Reason why an entry has no text; the other entries are still read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    TooLarge { bytes_max: u64 },
    NotText,
    Damaged,
    Encrypted,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::TooLarge { bytes_max } => write!(f, "more than {bytes_max} bytes"),
            Unreadable::NotText => f.write_str("not a text in UTF-8"),
            Unreadable::Damaged => f.write_str("damaged, or compressed by another method than deflate"),
            Unreadable::Encrypted => f.write_str("encrypted"),
        }
    }
}

/// Reason why an archive is refused as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("not a zip archive, or a damaged one: {0}")]
    Damaged(String),
    #[error("{0} entries, at most {1}: split it")]
    TooMany(usize, usize),
    #[error("its texts have more than {0} bytes, or {RATIO_MAX} times its own size: split it")]
    TooLarge(u64),
    #[error("{0:?} occurs twice in it")]
    Twice(String),
    #[error("its META is invalid: {0}")]
    Meta(String),
}

/// Returns the files of an archive in their order, without directories.
pub fn read(bytes: &[u8], limits: Limits) -> Result<Vec<ArchivedFile>, Refused> {
    let damaged = |error: zip::result::ZipError| Refused::Damaged(error.to_string());
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
    if archive.len() > limits.entries {
        return Err(Refused::TooMany(archive.len(), limits.entries));
    }
    let by_ratio = (bytes.len() as u64).saturating_mul(RATIO_MAX).max(BYTES_FREE);
    let mut room = limits.bytes.min(by_ratio);
    let mut seen = HashSet::new();
    let mut entries = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let file = archive.by_index_raw(index).map_err(damaged)?;
        let path = file.name().map_err(damaged)?.into_owned();
        if file.is_dir() {
            continue;
        }
        let text = if file.encrypted() {
            Err(Unreadable::Encrypted)
        } else {
            drop(file);
            match archive.by_index(index) {
                Ok(mut file) => read_text(&mut file, limits.entry_bytes, &mut room)?,
                Err(_) => Err(Unreadable::Damaged),
            }
        };
        if !seen.insert(path.clone()) {
            return Err(Refused::Twice(path));
        }
        entries.push(ArchivedFile { path, text });
    }
    Ok(entries)
}

/// Reads the text of one entry. The bytes read are taken from `room` even if the entry is refused.
fn read_text(file: &mut impl Read, bytes_max: u64, room: &mut u64) -> Result<Result<String, Unreadable>, Refused> {
    let mut bytes = Vec::new();
    let (all, limit) = (*room, bytes_max.min(*room));
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    let length = bytes.len() as u64;
    if length > limit && limit == all {
        return Err(Refused::TooLarge(all));
    }
    *room = room.saturating_sub(length);
    if read.is_err() {
        return Ok(Err(Unreadable::Damaged));
    }
    if length > bytes_max {
        return Ok(Err(Unreadable::TooLarge { bytes_max }));
    }
    Ok(String::from_utf8(bytes).map_err(|_| Unreadable::NotText))
}

/// Writes an archive of these paths and texts.
pub fn write<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> std::io::Result<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, text) in files {
        let method =
            if text.len() < PACKED_BYTES_MIN { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        writer.start_file(path, SimpleFileOptions::default().compression_method(method))?;
        writer.write_all(text.as_bytes())?;
    }
    Ok(writer.finish()?.into_inner())
}

/// Path of the entry that describes the files in Polaris' archives.
const META: &str = "META";
/// Escape for a slash in the name of a group.
const SLASH: &str = "%2F";
const OF_MACS: &str = "__MACOSX";

/// Reports whether macOS adds files with this path to archives.
fn is_of_system(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == ".DS_Store" || name.starts_with("._") || path.split('/').next() == Some(OF_MACS)
}

/// Removes the entries that the operating system added, and returns their paths.
pub fn take_of_system(entries: &mut Vec<ArchivedFile>) -> Vec<String> {
    let (of_system, files): (Vec<_>, Vec<_>) = entries.drain(..).partition(|entry| is_of_system(&entry.path));
    *entries = files;
    of_system.into_iter().map(|entry| entry.path).collect()
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Meta {
    tags: Option<BTreeMap<String, String>>,
    comment: Option<String>,
    /// Additional to Polaris, which ignores it.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
    /// Additional to Polaris: the file for whose content the text is sealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed_for: Option<ConfigKey>,
    /// Group, if the path does not give it.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// A file of an archive in Polaris' layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundled {
    /// Empty if the archive names none.
    pub group: String,
    pub name: String,
    pub text: Result<String, Unreadable>,
    /// File for whose content the text is sealed; `None` if the text is not sealed.
    pub sealed_for: Option<ConfigKey>,
    pub comment: Option<String>,
    pub tags: Option<Vec<Tag>>,
    /// `None` if the name implies it.
    pub format: Option<Format>,
}

impl Bundled {
    /// Returns a path that gives group and name; `None` if no path can.
    fn path(&self) -> Option<String> {
        let path = match self.group.as_str() {
            "" => self.name.clone(),
            group => format!("{}/{}", group.replace('/', SLASH), self.name),
        };
        let is_plain = path != META && !path.contains('\\') && !is_of_system(&path);
        is_plain.then_some(path)
    }
}

/// Files of an archive in Polaris' layout, and the paths that the operating system added to it.
pub type Unpacked = (Vec<Bundled>, Vec<String>);

/// Reads Polaris' layout. Every path begins with a group, unless the caller names one group for all files.
pub fn read_polaris(bytes: &[u8], group: Option<&str>, limits: Limits) -> Result<Unpacked, Refused> {
    let mut entries = read(bytes, limits)?;
    let of_system = take_of_system(&mut entries);
    let mut metas = BTreeMap::<String, Meta>::new();
    if let Some(at) = entries.iter().position(|entry| entry.path == META) {
        let text = entries.remove(at).text.map_err(|why| Refused::Meta(why.to_string()))?;
        let text = if text.trim().is_empty() { "{}" } else { &text };
        metas = serde_json::from_str(text).map_err(|error| Refused::Meta(error.to_string()))?;
    }
    let bundled = entries.into_iter().map(|ArchivedFile { path, text }| {
        let meta = metas.remove(&path);
        let Meta { tags, comment, format, sealed_for, group: own_group, name: own_name } = meta.unwrap_or_default();
        let (path_group, name) = match (group, &own_name) {
            (Some(_), _) | (None, Some(_)) => ("", path.as_str()),
            (None, None) => path.split_once('/').unwrap_or(("", path.as_str())),
        };
        let given = group.map(str::to_owned).or(own_group);
        let group = given.unwrap_or_else(|| path_group.replace(SLASH, "/"));
        let name = own_name.unwrap_or_else(|| name.to_owned());
        let tag = |(key, value): (String, String)| Tag { key, value };
        let tags = tags.map(|tags| tags.into_iter().map(tag).collect());
        let format = format.or_else(|| format_of(&name));
        Bundled { group, name, text, sealed_for, comment, tags, format }
    });
    Ok((bundled.collect(), of_system))
}

/// Returns `Text` for names without a known suffix, which is Polaris' default; `None` if the name implies a format.
fn format_of(name: &str) -> Option<Format> {
    let says_nothing = Format::of_suffix(name).is_none() && Format::of_new(name) == Format::Properties;
    says_nothing.then_some(Format::Text)
}

/// Writes Polaris' layout; files without a text are omitted.
pub fn write_polaris(files: &[Bundled]) -> std::io::Result<Vec<u8>> {
    let mut taken: BTreeSet<String> = files.iter().filter_map(Bundled::path).collect();
    let mut made = (1..).map(|number| format!("named-in-{META}/{number}"));
    let mut path_of = |file: &Bundled| {
        file.path()
            .unwrap_or_else(|| made.find(|path| taken.insert(path.clone())).expect("there is always another one"))
    };
    let paths: Vec<String> = files.iter().map(&mut path_of).collect();
    let meta = |(file, path): (&Bundled, &String)| {
        let tags = file.tags.iter().flatten().map(|tag| (tag.key.clone(), tag.value.clone())).collect();
        let is_in_meta = file.path().is_none();
        let meta = Meta {
            tags: Some(tags),
            comment: Some(file.comment.clone().unwrap_or_default()),
            format: file.format,
            sealed_for: file.sealed_for.clone(),
            group: Some(file.group.clone()).filter(|group| is_in_meta && !group.is_empty()),
            name: is_in_meta.then(|| file.name.clone()),
        };
        (path.clone(), meta)
    };
    let metas: BTreeMap<_, _> = files.iter().zip(&paths).map(meta).collect();
    let metas = serde_json::to_string_pretty(&metas)?;
    let texts = files.iter().zip(&paths).filter_map(|(file, path)| Some((path.as_str(), file.text.as_deref().ok()?)));
    write(texts.chain([(META, metas.as_str())]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { entries: 10, bytes: 8 * 1024 * 1024, entry_bytes: 1024 * 1024 };

    fn bundled(group: &str, name: &str, text: &str) -> Bundled {
        let tags = Some(vec![Tag { key: "k".into(), value: "v".into() }]);
        let (comment, format) = (Some("c".into()), Some(Format::Properties));
        Bundled {
            group: group.into(),
            name: name.into(),
            text: Ok(text.into()),
            sealed_for: None,
            comment,
            tags,
            format,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let files =
            [bundled("app", "one.yaml", "a: 1"), bundled("app", "dir/two", "字"), bundled("other", "one.yaml", "")];
        let archive = write_polaris(&files).expect("written");
        assert_eq!(read_polaris(&archive, None, LIMITS).expect("read"), (files.to_vec(), Vec::new()));
        let bare = [bundled("", "one.yaml", "a: 1"), bundled("", "dir/two", "2")];
        let archive = write_polaris(&bare).expect("written");
        let (read, _) = read_polaris(&archive, Some("app"), LIMITS).expect("read");
        assert_eq!(read, [bundled("app", "one.yaml", "a: 1"), bundled("app", "dir/two", "2")]);
    }

    #[test]
    fn whatever_names_hold_is_read_as_it_was_written() {
        let names = [
            ("pay", "eu/app.properties"),
            ("pay/eu", "app.properties"),
            ("pay/eu", "dir/app%2Fb.yaml"),
            ("__MACOSX", "a"),
            ("g", ".DS_Store"),
            ("g", "._x"),
            ("named-in-META", "1"),
            ("..", "a b\\c ü"),
        ];
        let files = names.map(|(group, name)| bundled(group, name, &format!("{group} {name}")));
        let archive = write_polaris(&files).expect("written");
        assert_eq!(read_polaris(&archive, None, LIMITS).expect("read"), (files.to_vec(), Vec::new()));
        let bare = ["META", "._x", ".DS_Store", "__MACOSX/a", "a/b"].map(|name| bundled("", name, name));
        let archive = write_polaris(&bare).expect("written");
        let (read, left_out) = read_polaris(&archive, Some("g"), LIMITS).expect("read");
        assert_eq!(read, bare.map(|file| Bundled { group: "g".into(), ..file }));
        assert!(left_out.is_empty());
    }

    #[test]
    fn what_a_mac_packs_is_left_out() {
        let files = [("g/app.yaml", "a: 1"), ("g/.DS_Store", ""), ("__MACOSX/g/._app.yaml", ""), ("g/.env", "a=1")];
        let (read, left_out) = read_polaris(&write(files.into_iter()).expect("written"), None, LIMITS).expect("read");
        assert_eq!(read.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["app.yaml", ".env"]);
        assert_eq!(left_out, ["g/.DS_Store", "__MACOSX/g/._app.yaml"]);
    }

    #[test]
    fn what_an_archive_does_not_say_is_said_by_the_name() {
        let meta = "{\"g/a.yaml\":{\"tags\":null,\"comment\":\"c\"},\"gone\":{}}";
        let files = [("g/a.yaml", "a: 1"), ("g/a.toml", "a = 1"), ("g/nginx.conf", ""), (META, meta)];
        let (read, _) = read_polaris(&write(files.into_iter()).expect("written"), None, LIMITS).expect("read");
        let said: Vec<_> = read.iter().map(|file| (file.format, file.comment.as_deref())).collect();
        assert_eq!(said, [(None, Some("c")), (None, None), (Some(Format::Text), None)]);
    }

    #[test]
    fn archives_beyond_the_limits_are_refused() {
        let large = "0".repeat(1024 * 1024 + 1);
        let told = |files: &[(&str, &str)]| {
            let archive = write(files.iter().copied()).expect("written");
            match read(&archive, LIMITS) {
                Ok(entries) => entries
                    .iter()
                    .map(|entry| entry.text.clone().map_or_else(|why| why.to_string(), |_| String::new()))
                    .collect(),
                Err(refused) => refused.to_string(),
            }
        };
        let names: Vec<String> = (0..11).map(|n| n.to_string()).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(told(&many), "11 entries, at most 10: split it");
        assert_eq!(told(&[("a", "1"), ("b", &large)]), "more than 1048576 bytes", "one of them alone");
        let some = &large[1..];
        let bomb: Vec<_> = names.iter().take(6).map(|name| (name.as_str(), some)).collect();
        assert!(told(&bomb).contains("200 times its own size"), "{}", told(&bomb));
        assert!(read(b"PK no archive", LIMITS).is_err());
        let mut damaged = write([("a", large.as_str())].into_iter()).expect("written");
        damaged.truncate(200);
        assert!(read(&damaged, LIMITS).is_err());
        let meta = write([("META", "{\"a\":3}"), ("a", "1")].into_iter()).expect("written");
        assert!(matches!(read_polaris(&meta, None, LIMITS), Err(Refused::Meta(_))));
    }
}
