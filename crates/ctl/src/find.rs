//! Objects of the cluster: paged lists and selection.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::{Value, json};
use thuban_model::limits;
use url::form_urlencoded;

use super::documents::Document;
use super::errors::Usage;
use super::kinds::{Key, Kind, KindFilter, Nature, display_name, placed, read_key};
use super::remote::{CallArgs, Paging, Refused, Remote};
use super::sealed;

/// Rows per page of files, which include their contents.
const PAGE_FILES: usize = 50;
/// Maximum number of objects requested one by one; above it, the kind and namespace are listed.
const ONE_BY_ONE_MAX: usize = 10;
const FALLBACK_NAMESPACE: &str = "default";
/// Code for an object that does not exist.
const NOT_FOUND: u64 = 400_202;
/// Characters that a similar name has in common with the wrong one.
const NEAR_PREFIX: usize = 2;
/// Maximum number of namespaces or similar names in an error, and the least similarity of a name.
const NEAR_NAMES: usize = 3;
const NEAR_CUTOFF: f32 = 0.7;

/// Connection and namespace of a search.
#[derive(Args)]
pub(super) struct InArgs {
    #[command(flatten)]
    pub(super) call: CallArgs,
    /// Namespace of the named objects [default: that of the context, else default]
    #[arg(short, long, env = "THUBAN_NAMESPACE")]
    pub(super) namespace: Option<String>,
}

impl InArgs {
    pub(super) fn remote(&self) -> anyhow::Result<(Remote, String)> {
        let remote = self.call.remote()?;
        let namespace = self.namespace.clone().or(remote.namespace.clone());
        Ok((remote, namespace.unwrap_or_else(|| FALLBACK_NAMESPACE.to_owned())))
    }
}

/// Name of one object.
#[derive(Args)]
pub(super) struct OneArgs {
    /// KIND/NAME: ratelimits/NAME, configfile/GROUP/FILE
    #[arg(required = true, value_name = "KIND/NAME")]
    what: Vec<String>,
    #[command(flatten)]
    pub(super) at: InArgs,
    /// Group of the config file
    #[arg(long)]
    group: Option<String>,
}

impl OneArgs {
    pub(super) fn read(&self) -> anyhow::Result<(Remote, &'static Kind, Key)> {
        let (remote, namespace) = self.at.remote()?;
        let (kind, key) = read_name(&self.what, &namespace, self.group.as_deref())?;
        Ok((remote, kind, key))
    }
}

/// Parses names: KIND/NAME, several of these, or KIND NAME NAME.
pub(super) fn read_names(
    words: &[String],
    namespace: &str,
    group: Option<&str>,
) -> Result<Vec<(&'static Kind, Key)>, Usage> {
    let (kind, names) = match words.split_first() {
        Some((first, names)) if !first.contains('/') => (Some(Kind::of_word(first)?), names),
        _ => (None, words),
    };
    if names.is_empty() {
        let first = words.first().map_or("KIND", String::as_str);
        return Err(Usage(format!("which one? give its name: {first}/NAME")));
    }
    let read = |word: &String| match kind {
        Some(kind) => Ok((kind, read_key(kind, namespace, group, word)?)),
        None => {
            let (kind, name) = word.split_once('/').ok_or_else(|| Usage(format!("{word:?} is not KIND/NAME")))?;
            let kind = Kind::of_word(kind)?;
            Ok((kind, read_key(kind, namespace, group, name)?))
        }
    };
    names.iter().map(read).collect()
}

/// Parses exactly one name.
pub(super) fn read_name(words: &[String], namespace: &str, group: Option<&str>) -> Result<(&'static Kind, Key), Usage> {
    match read_names(words, namespace, group)?.as_slice() {
        [one] => Ok((one.0, one.1.clone())),
        _ => Err(Usage("this is for one at a time".to_owned())),
    }
}

impl KindFilter {
    pub(super) fn of(key: &Key) -> KindFilter {
        KindFilter {
            namespace: Some(key.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            group: key.group.clone(),
            name: Some(key.name.clone()),
            service: None,
        }
    }
}

/// Returns all rows of a kind that match the filter.
pub(super) async fn rows(remote: &Remote, kind: &Kind, wanted: &KindFilter) -> anyhow::Result<Vec<Value>> {
    let limit = if kind.nature == Nature::File { PAGE_FILES } else { limits::PAGE_ROWS_MAX };
    Ok(remote.pages(kind.rows, (limit, usize::MAX), |paging| kind.page(wanted, paging)).await?.0)
}

/// Returns the row with exactly this name.
pub(super) async fn row(remote: &Remote, kind: &Kind, key: &Key) -> anyhow::Result<Option<Value>> {
    let found = rows(remote, kind, &KindFilter::of(key)).await?;
    Ok(found.into_iter().find(|row| kind.key_of(row) == *key))
}

/// Returns the error for an object that does not exist: with the namespaces that have one of this name, else with
/// similar names.
pub(super) async fn absent(remote: &Remote, kind: &Kind, key: &Key) -> anyhow::Error {
    let refused = Refused::missing(&placed(kind, key));
    match suggestion(remote, kind, key).await {
        Ok(Some(hint)) => refused.with_hint(hint).into(),
        // The hint is an extra: without it the error is the same.
        Ok(None) | Err(_) => refused.into(),
    }
}

/// Returns the error for something about an object that does not exist, or about one that lacks it.
pub(super) async fn lacking(remote: &Remote, kind: &Kind, key: &Key, what: &str) -> anyhow::Error {
    match row(remote, kind, key).await {
        Ok(None) => absent(remote, kind, key).await,
        Ok(Some(_)) => Refused::missing(&format!("{what} of {}", placed(kind, key))).into(),
        Err(error) => error,
    }
}

/// Replaces a node's refusal for a missing thing if the object itself is missing.
pub(super) async fn or_absent(remote: &Remote, kind: &Kind, key: &Key, error: anyhow::Error) -> anyhow::Error {
    if error.downcast_ref::<Refused>().is_none_or(|refused| refused.code != NOT_FOUND) {
        return error;
    }
    match row(remote, kind, key).await {
        Ok(None) => absent(remote, kind, key).await,
        Ok(Some(_)) | Err(_) => error,
    }
}

/// Returns the namespaces that have an object of this name, else similar names in its own.
pub(super) async fn suggestion(remote: &Remote, kind: &Kind, key: &Key) -> anyhow::Result<Option<String>> {
    if kind.is_placed() {
        let wanted = KindFilter { namespace: None, ..KindFilter::of(key) };
        let elsewhere = first_rows(remote, kind, &wanted).await?;
        let has_name = |found: &Key| found.name == key.name && found.group == key.group;
        let places: BTreeSet<String> =
            elsewhere.iter().filter(|found| has_name(found)).map(|found| found.namespace.clone()).collect();
        if let Some(first) = places.first() {
            let named: Vec<&str> = places.iter().map(String::as_str).take(NEAR_NAMES).collect();
            let more = match places.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            return Ok(Some(format!("there is one in {}{more}, -n {first} selects it", named.join(", "))));
        }
    }
    // The first page may not reach them, so names with the same beginning are listed too.
    let begin: String = key.name.chars().take(NEAR_PREFIX).collect();
    let mut near = first_rows(remote, kind, &KindFilter { name: None, ..KindFilter::of(key) }).await?;
    near.extend(
        first_rows(remote, kind, &KindFilter { name: Some(format!("{begin}*")), ..KindFilter::of(key) }).await?,
    );
    let names: BTreeSet<&str> = near.iter().map(|found| found.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let near = similar::get_close_matches(key.name.as_str(), &names, NEAR_NAMES, NEAR_CUTOFF);
    let near: Vec<_> =
        near.into_iter().map(|name| display_name(kind, &Key { name: name.to_owned(), ..key.clone() })).collect();
    Ok((!near.is_empty()).then(|| format!("is it {}?", near.join(" or "))))
}

/// Returns the names on the first page of a list.
async fn first_rows(remote: &Remote, kind: &Kind, wanted: &KindFilter) -> anyhow::Result<Vec<Key>> {
    let limit = if kind.nature == Nature::File { PAGE_FILES } else { limits::PAGE_ROWS_MAX };
    let (rows, _) = remote.pages(kind.rows, (limit, limit), |paging| kind.page(wanted, paging)).await?;
    Ok(rows.iter().map(|row| kind.key_of(row)).collect())
}

/// Returns the objects that these documents describe.
pub(super) async fn rows_of(remote: &Remote, documents: &[Document]) -> anyhow::Result<BTreeMap<(usize, Key), Value>> {
    let mut places: BTreeMap<(usize, &str, Option<&str>), Vec<&Document>> = BTreeMap::new();
    for document in documents {
        let place = (document.kind.order(), document.key.namespace.as_str(), document.key.group.as_deref());
        places.entry(place).or_default().push(document);
    }
    let mut all = BTreeMap::new();
    for ((order, namespace, group), documents) in places {
        let kind = documents[0].kind;
        let found = if documents.len() <= ONE_BY_ONE_MAX {
            let mut found = Vec::new();
            for document in &documents {
                found.extend(row(remote, kind, &document.key).await?);
            }
            found
        } else {
            let namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
            let wanted = KindFilter { namespace, group: group.map(str::to_owned), ..KindFilter::default() };
            rows(remote, kind, &wanted).await?
        };
        let names: BTreeSet<_> = documents.iter().map(|document| &document.key).collect();
        for mut row in found.into_iter().filter(|row| names.contains(&kind.key_of(row))) {
            if kind.nature == Nature::File {
                sealed::open(remote, &mut row).await?;
            }
            all.insert((order, kind.key_of(&row)), row);
        }
    }
    Ok(all)
}

/// Active releases of an object: the normal one, and the names of gray ones.
#[derive(Clone, Debug, Default)]
pub(super) struct InForce {
    pub(super) normal: Option<Value>,
    pub(super) grays: Vec<String>,
}

/// Returns the path of the releases of a kind.
pub(super) fn releases_path(kind: &Kind) -> String {
    match kind.nature {
        Nature::File => "/config/v1/configfiles/releases".to_owned(),
        _ => format!("{}/releases", kind.list),
    }
}

/// Returns the active releases of all objects or of the named ones, with their contents.
pub(super) async fn in_force(
    remote: &Remote,
    kind: &Kind,
    wanted: &KindFilter,
) -> anyhow::Result<BTreeMap<Key, InForce>> {
    let is_file = kind.nature == Nature::File;
    let (name, element) = if is_file { ("file_name", "configFileReleases") } else { ("rule_name", "data") };
    let limit = if is_file { PAGE_FILES } else { limits::PAGE_ROWS_MAX };
    let path = |paging: &Paging| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, value) in [("namespace", &wanted.namespace), ("group", &wanted.group), (name, &wanted.name)] {
            if let Some(value) = value {
                query.append_pair(key, value);
            }
        }
        query.append_pair("only_active", "true").append_pair("brief", "false");
        paging.ask(&mut query);
        format!("{}?{}", releases_path(kind), query.finish())
    };
    let mut all: BTreeMap<Key, InForce> = BTreeMap::new();
    for row in remote.pages(element, (limit, usize::MAX), path).await?.0 {
        let of = |member: &str| row[member].as_str().unwrap_or_default().to_owned();
        let key = Key {
            namespace: of("namespace"),
            group: is_file.then(|| of("group")),
            name: of(if is_file { "fileName" } else { "rule_name" }),
        };
        let found = all.entry(key).or_default();
        if [&row["release_type"], &row["releaseType"]].contains(&&json!("gray")) {
            found.grays.push(release_name(&row));
        } else {
            found.normal = Some(row);
        }
    }
    Ok(all)
}

pub(super) fn release_name(row: &Value) -> String {
    [&row["release_name"], &row["name"]].into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Vec<String>, Usage> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let found = read_names(&words, "ns", None)?;
        Ok(found.iter().map(|(kind, key)| super::super::kinds::display_name(kind, key)).collect())
    }

    #[test]
    fn names_are_typed_in_two_ways() {
        assert_eq!(read(&["ratelimits/a"]).ok(), Some(vec!["ratelimit/a".to_owned()]));
        assert_eq!(read(&["rl", "a", "b/c"]).ok(), Some(vec!["ratelimit/a".to_owned(), "ratelimit/b/c".to_owned()]));
        assert_eq!(read(&["rl/a", "cf/g/f"]).ok(), Some(vec!["ratelimit/a".to_owned(), "configfile/g/f".to_owned()]));
        for (words, told) in [
            (&["rl"][..], "rl/NAME"),
            (&["rl/a", "b"], "is not KIND/NAME"),
            (&["pods/a"], "is no kind"),
            (&["cf/a"], "says no group"),
            (&[], "KIND/NAME"),
        ] {
            let usage = read(words).expect_err("refused");
            assert!(usage.0.contains(told), "{words:?}: {usage}");
        }
    }
}
