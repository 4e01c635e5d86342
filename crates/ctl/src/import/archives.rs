//! Archives of other systems, read into files.
//!
//! | source | contents |
//! |---|---|
//! | Nacos | `group/data id`, and `.metadata.yml` with type and description of each |
//! | Nacos, older | the same with `.meta.yml`, which is ignored |
//! | Apollo's portal | `…/env/app id+cluster+namespace`, with the suffix `.properties` for a properties namespace |
//! | Polaris | `group/file`, and `META` |
//!
//! The content of an Apollo file is the text of the namespace, or since Apollo 2.0 a JSON list of its items.

use std::collections::{BTreeMap, BTreeSet};

use saphyr_parser::{Event, Parser};
use serde::Deserialize;
use thuban_model::config_file::{ConfigKey, Format, PROPERTIES_SUFFIX, Tag};
use thuban_model::properties::{self, Pairs};
use thuban_validate::bundle::{self, ArchivedFile, Bundled, Limits};

use super::{FoundFile, ImportSource, Usage};

/// Limits for a local file, which the caller chose.
const LIMITS: Limits = Limits { entries: 100_000, bytes: 1024 * 1024 * 1024, entry_bytes: 8 * 1024 * 1024 };
const NACOS_METADATA: &str = ".metadata.yml";
const NACOS_METADATA_BEFORE: &str = ".meta.yml";

/// Nacos' metadata of a file, by field name.
type ItemFields = BTreeMap<String, String>;

pub(super) fn nacos(archive: &[u8], to_namespace: &str) -> anyhow::Result<ImportSource> {
    let mut source = ImportSource::default();
    let mut entries = source.entries(archive)?;
    let metadata = match entries.iter().position(|entry| entry.path == NACOS_METADATA) {
        Some(at) => metadata_of(&entries.remove(at)).map_err(Usage)?,
        None => BTreeMap::new(),
    };
    for ArchivedFile { path, text } in entries.into_iter().filter(|entry| entry.path != NACOS_METADATA_BEFORE) {
        let (Some((group, data_id)), Ok(text)) = (path.split_once('/'), &text) else {
            source.leave_out(&path, text.err().map_or("not group/data id".to_owned(), |why| why.to_string()));
            continue;
        };
        let fields = metadata.get(&(group.to_owned(), data_id.to_owned()));
        let field = |key: &str| fields.and_then(|fields| fields.get(key)).cloned().unwrap_or_default();
        let format = Format::of_word(&field("type")).ok().or_else(|| Format::of_suffix(data_id));
        let app = Some(field("appName")).filter(|app| !app.is_empty());
        source.files.push(FoundFile {
            format: Some(format.unwrap_or_default()),
            comment: field("desc"),
            tags: app.map(|value| Tag { key: "appName".to_owned(), value }).into_iter().collect(),
            ..FoundFile::new(ConfigKey::new(to_namespace, group, data_id), text.clone())
        });
    }
    Ok(source)
}

/// Parses the metadata of each file, by group and data id: a list of flat mappings.
fn metadata_of(entry: &ArchivedFile) -> Result<BTreeMap<(String, String), ItemFields>, String> {
    let refuse = |why: String| format!("{NACOS_METADATA}: {why}");
    let text = entry.text.as_ref().map_err(|why| refuse(why.to_string()))?;
    let (mut all, mut fields, mut key): (_, ItemFields, Option<String>) = (BTreeMap::new(), ItemFields::new(), None);
    for event in Parser::new_from_str(text) {
        match event.map_err(|error| refuse(error.to_string()))?.0 {
            Event::MappingStart(..) => (fields, key) = (ItemFields::new(), None),
            Event::Scalar(text, ..) => match key.take() {
                None => key = Some(text.into_owned()),
                Some(name) => drop(fields.insert(name, if text == "null" { String::new() } else { text.into_owned() })),
            },
            Event::MappingEnd => {
                let mut fields = std::mem::take(&mut fields);
                if let (Some(group), Some(data_id)) = (fields.remove("group"), fields.remove("dataId")) {
                    all.insert((group, data_id), fields);
                }
            }
            _ => {}
        }
    }
    Ok(all)
}

/// Hint for encrypted files.
const BY_NODES: &str = "send the archive to POST /config/v1/configfiles/import";

pub(super) fn polaris(archive: &[u8], to_namespace: &str, group: Option<&str>) -> anyhow::Result<ImportSource> {
    let mut source = ImportSource::default();
    let (files, of_system) = bundle::read_polaris(archive, group, LIMITS)?;
    source.leave_out_of_system(of_system);
    for Bundled { group, name, text, sealed_for, comment, tags, format } in files {
        match text {
            Err(why) => source.leave_out(&format!("{group}/{name}"), why.to_string()),
            // Only nodes have the data key that opens it.
            Ok(_) if sealed_for.is_some() => {
                source.leave_out(&format!("{group}/{name}"), format!("kept encrypted: {BY_NODES}"));
            }
            Ok(_) if group.is_empty() => source.leave_out(&name, "no group: name one with --group".to_owned()),
            Ok(text) => source.files.push(FoundFile {
                comment: comment.unwrap_or_default(),
                tags: tags.unwrap_or_default(),
                format,
                ..FoundFile::new(ConfigKey::new(to_namespace, group, name), text)
            }),
        }
    }
    Ok(source)
}

pub(super) fn plain(archive: &[u8]) -> anyhow::Result<ImportSource> {
    let mut source = ImportSource::default();
    for ArchivedFile { path, text } in source.entries(archive)? {
        let mut parts = path.splitn(3, '/');
        match (parts.next(), parts.next(), parts.next(), text) {
            (Some(namespace), Some(group), Some(file), Ok(text)) => {
                source.files.push(FoundFile::new(ConfigKey::new(namespace, group, file), text));
            }
            (.., Err(why)) => source.leave_out(&path, why.to_string()),
            (.., Ok(_)) => source.leave_out(&path, "not namespace/group/file".to_owned()),
        }
    }
    Ok(source)
}

/// Reads the files of one environment; `env` is required if the archive has several.
pub(super) fn apollo(archive: &[u8], env: Option<&str>) -> anyhow::Result<ImportSource> {
    let mut source = ImportSource { is_by_namespace: true, ..ImportSource::default() };
    let mut by_env = BTreeMap::<String, Vec<FoundFile>>::new();
    for ArchivedFile { path, text } in source.entries(archive)? {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let mut parts = name.splitn(3, '+');
        let (Some(app), Some(cluster), Some(namespace)) = (parts.next(), parts.next(), parts.next()) else {
            source.leave_out(&path, "no namespace of an app".to_owned());
            continue;
        };
        match text {
            Err(why) => source.leave_out(&path, why.to_string()),
            Ok(text) => {
                let env = folder.rsplit('/').next().unwrap_or_default();
                let mut found = of_apollo(cluster, app, namespace, text);
                found.content = text_of_items(found.format, found.content);
                by_env.entry(env.to_owned()).or_default().push(found);
            }
        }
    }
    let envs: BTreeSet<_> = by_env.keys().cloned().collect();
    source.files = match (env, by_env.len()) {
        (Some(env), _) => by_env.remove(env).unwrap_or_default(),
        (None, 0 | 1) => by_env.into_values().flatten().collect(),
        (None, _) => {
            let envs = Vec::from_iter(envs).join(", ");
            return Err(Usage(format!("the archive is of several environments, choose one with --env: {envs}")).into());
        }
    };
    Ok(source)
}

/// Converts an Apollo namespace: one without a known suffix is in properties format.
pub(super) fn of_apollo(cluster: &str, app: &str, namespace: &str, content: String) -> FoundFile {
    let name = namespace.strip_suffix(PROPERTIES_SUFFIX).unwrap_or(namespace);
    let format = Format::of_suffix(name).unwrap_or(Format::Properties);
    FoundFile { format: Some(format), ..FoundFile::new(ConfigKey::new(cluster, app, name), content) }
}

/// Row of a namespace as the portal exports it; the required fields distinguish it from a content that happens to be a
/// list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PortalItem {
    line_num: i64,
    #[expect(dead_code, reason = "it is there in every row")]
    namespace_id: i64,
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    comment: String,
}

/// Returns the text of a namespace that is exported as items; any other content unchanged. A properties namespace has
/// one item per key, and items without a key for comment lines; others have one item with the whole text.
fn text_of_items(format: Option<Format>, content: String) -> String {
    let Ok(mut items) = serde_json::from_str::<Vec<PortalItem>>(&content) else { return content };
    if format != Some(Format::Properties) {
        return items.pop().map_or(content, |item| item.value);
    }
    items.sort_by_key(|item| item.line_num);
    let mut text = String::new();
    for item in items {
        for line in item.comment.lines() {
            let mark = if line.starts_with(['#', '!']) { "" } else { "# " };
            text.extend([mark, line, "\n"]);
        }
        if !item.key.is_empty() {
            text += &properties::write(&Pairs::from_iter([(item.key, item.value)]));
        }
    }
    text
}

impl ImportSource {
    /// Reads the entries of an archive without those that an operating system added.
    fn entries(&mut self, archive: &[u8]) -> anyhow::Result<Vec<ArchivedFile>> {
        let mut entries = bundle::read(archive, LIMITS)?;
        self.leave_out_of_system(bundle::take_of_system(&mut entries));
        Ok(entries)
    }

    fn leave_out_of_system(&mut self, paths: Vec<String>) {
        for path in paths {
            self.leave_out(&path, "of the system that packed the archive".to_owned());
        }
    }

    fn leave_out(&mut self, what: &str, why: String) {
        self.left_out.push(format!("{what}: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_texts(source: &ImportSource) -> Vec<String> {
        let show = |found: &FoundFile| {
            let format = found.format.map_or("-", Format::word);
            format!("{} {format} {:?} {}", found.display_name(), found.content, found.comment)
        };
        source.files.iter().map(show).collect()
    }

    fn zip(files: &[(&str, &str)]) -> Vec<u8> {
        bundle::write(files.iter().copied()).expect("written")
    }

    #[test]
    fn archives_of_nacos() {
        let metadata = "metadata:\n- appName: shop\n  dataId: app.yaml\n  desc: 'the app'\n  group: G\n  type: yaml\n\
                        - appName: null\n  dataId: plain\n  desc: ''\n  group: G\n  type: properties\n";
        let archive = zip(&[
            ("G/app.yaml", "a: 1"),
            ("G/plain", "a=1"),
            ("H/other.json", "{}"),
            ("H/none", "x"),
            ("README", ""),
            (".metadata.yml", metadata),
        ]);
        let source = nacos(&archive, "prod").expect("read");
        assert_eq!(
            found_texts(&source),
            [
                "prod/G/app.yaml yaml \"a: 1\" the app",
                "prod/G/plain properties \"a=1\" ",
                "prod/H/other.json json \"{}\" ",
                "prod/H/none text \"x\" ",
            ]
        );
        assert_eq!(source.files[0].tags, [Tag { key: "appName".into(), value: "shop".into() }]);
        assert!(source.files[1].tags.is_empty());
        assert_eq!(source.left_out, ["README: not group/data id"]);
        assert!(nacos(&zip(&[(".metadata.yml", "a: [")]), "prod").is_err());
    }

    #[test]
    fn archives_of_apollos_portal() {
        let files = [
            ("me/shop/DEV/shop+default+application.properties", "a = 1"),
            ("me/shop/DEV/shop+blue+app.yml", "a: 1"),
            ("me/shop/PRO/shop+default+application.properties", "a = 2"),
            ("me/shop/shop.metadata", "{}"),
        ];
        assert!(apollo(&zip(&files), None).expect_err("several").to_string().contains("DEV, PRO"));
        let dev = apollo(&zip(&files), Some("DEV")).expect("read");
        assert_eq!(
            found_texts(&dev),
            ["default/shop/application properties \"a = 1\" ", "blue/shop/app.yml yaml \"a: 1\" "]
        );
        assert_eq!(dev.left_out, ["me/shop/shop.metadata: no namespace of an app"]);
        assert_eq!(found_texts(&apollo(&zip(&files[..2]), None).expect("read")).len(), 2, "there is only one");
    }

    #[test]
    fn archives_of_a_portal_since_apollo_2_0() {
        let items = r##"[{"id":0,"namespaceId":0,"key":"b","value":"two words","lineNum":3,"type":0,"comment":"why"},
            {"id":0,"namespaceId":0,"key":"","value":"","comment":"# first","lineNum":1,"type":0},
            {"id":0,"namespaceId":0,"key":"a","value":"1\n2","lineNum":2,"type":0}]"##;
        let yaml = r#"[{"id":0,"namespaceId":0,"key":"content","value":"a: 1\n","lineNum":1,"type":0}]"#;
        let list = r#"[{"key":"content","value":"no item of a portal"}]"#;
        let archive = zip(&[
            ("me/shop/DEV/shop+default+application.properties", items),
            ("me/shop/DEV/shop+default+app.yml", yaml),
            ("me/shop/DEV/shop+default+list.json", list),
            ("me/shop/DEV/shop+default+empty.properties", "[]"),
            ("me/shop/DEV/shop+default+empty.json", "[]"),
        ]);
        let source = apollo(&archive, None).expect("read");
        let contents: Vec<_> = source.files.iter().map(|found| found.content.as_str()).collect();
        assert_eq!(contents, ["# first\na=1\\n2\n# why\nb=two words\n", "a: 1\n", list, "", "[]"]);
    }

    #[test]
    fn what_a_mac_packs_is_left_out_and_named() {
        let strangers = [("DEFAULT_GROUP/.DS_Store", ""), ("__MACOSX/G/._app.yaml", ""), (".DS_Store", "")];
        let with = |files: &[(&str, &str)]| zip(&[files, &strangers].concat());
        let nacos = nacos(&with(&[("G/app.yaml", "a: 1"), (".metadata.yml", "metadata: []")]), "n").expect("read");
        let plain = plain(&with(&[("n/g/app.yaml", "a: 1"), ("n/g/.env", "a=1")])).expect("read");
        let polaris = polaris(&with(&[("g/app.yaml", "a: 1")]), "n", None).expect("read");
        let apollo = apollo(&with(&[("me/a/DEV/a+b+c.yml", ""), ("me/a/DEV/._a+b+c.yml", "")]), None).expect("read");
        let count = |source: &ImportSource| (source.files.len(), source.left_out.len());
        assert_eq!([&nacos, &plain, &polaris, &apollo].map(count), [(1, 3), (2, 3), (1, 3), (1, 4)]);
        assert_eq!(nacos.left_out[0], "DEFAULT_GROUP/.DS_Store: of the system that packed the archive");
    }

    #[test]
    fn archives_of_polaris_and_plain_ones() {
        let source = polaris(&zip(&[("g/a.yaml", "a: 1"), ("alone", "")]), "prod", None).expect("read");
        assert_eq!(found_texts(&source), ["prod/g/a.yaml - \"a: 1\" "]);
        assert_eq!(source.left_out, ["alone: no group: name one with --group"]);
        let source = plain(&zip(&[("n/g/dir/a", "1"), ("g/a", "2")])).expect("read");
        assert_eq!((found_texts(&source), source.left_out.len()), (vec!["n/g/dir/a - \"1\" ".to_owned()], 1));
    }
}
