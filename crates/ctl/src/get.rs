//! `thuban get`, `thuban export` and `thuban watch`: output of objects for people, for tools and for `thuban apply`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::documents::{Document, status_of_row};
use super::errors::Usage;
use super::find::{InArgs, absent, in_force, rows};
use super::kinds::{KINDS, Key, Kind, KindFilter, Nature, display_name, read_key};
use super::remote::{Refused, Remote};
use super::tables::{Output, lay_out, table};
use super::telling::{say, say_document};
use super::yaml;

/// Selection of objects of any kinds.
#[derive(Args)]
pub(super) struct MeantArgs {
    /// KIND, KIND/NAME, or KIND and names; kinds have short names (rl for ratelimits), and names may contain *
    #[arg(required = true, value_name = "KIND[/NAME]")]
    what: Vec<String>,
    #[command(flatten)]
    at: InArgs,
    /// All namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Group of the config files
    #[arg(long)]
    group: Option<String>,
    /// Only instances and rules of this service
    #[arg(long)]
    service: Option<String>,
}

#[derive(Args)]
pub(super) struct GetArgs {
    #[command(flatten)]
    meant: MeantArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

/// Selection of objects of one kind.
struct Meant {
    kind: &'static Kind,
    wanted: KindFilter,
    /// True for an exact name: it is an error if the object does not exist.
    named: bool,
}

pub(super) async fn get(args: GetArgs) -> anyhow::Result<()> {
    let (remote, namespace) = args.meant.at.remote()?;
    let mut found = Vec::new();
    for meant in meant(&args.meant, &namespace)? {
        let rows = rows(&remote, meant.kind, &meant.wanted).await?;
        if rows.is_empty() && meant.named {
            let KindFilter { namespace, group, name, service: _ } = meant.wanted;
            let is_anywhere = meant.kind.is_placed() && namespace.is_none();
            let key = Key { namespace: namespace.unwrap_or_default(), group, name: name.unwrap_or_default() };
            if is_anywhere || args.meant.service.is_some() {
                let place = if is_anywhere { "any namespace" } else { &key.namespace };
                let service = args.meant.service.map(|service| format!(" for service {service}")).unwrap_or_default();
                let what = format!("{}{service} in {place}", display_name(meant.kind, &key));
                return Err(Refused::missing(&what).into());
            }
            return Err(absent(&remote, meant.kind, &key).await);
        }
        found.push((meant.kind, rows));
    }
    show(&remote, found, args.output).await
}

/// Prints all objects of a kind in the namespace, or in all namespaces, of one service if it is given.
pub(super) async fn list(
    kind: &'static Kind,
    at: &InArgs,
    (all_namespaces, service): (bool, Option<String>),
    output: Output,
) -> anyhow::Result<()> {
    let (remote, namespace) = at.remote()?;
    let namespace = (!all_namespaces).then_some(namespace);
    let rows = rows(&remote, kind, &KindFilter { namespace, service, ..KindFilter::default() }).await?;
    show(&remote, vec![(kind, rows)], output).await
}

fn meant(args: &MeantArgs, namespace: &str) -> anyhow::Result<Vec<Meant>> {
    let (kind, names) = match args.what.split_first() {
        Some((first, names)) if !first.contains('/') => (Some(Kind::of_word(first)?), names),
        _ => (None, args.what.as_slice()),
    };
    let place = (!args.all_namespaces).then(|| namespace.to_owned());
    let of = |kind: &'static Kind, name: Option<&str>| -> Result<Meant, Usage> {
        let mut wanted =
            KindFilter { namespace: place.clone(), service: args.service.clone(), ..KindFilter::default() };
        wanted.group.clone_from(&args.group);
        if let Some(name) = name {
            let key = read_key(kind, namespace, args.group.as_deref(), name)?;
            wanted.group = key.group;
            wanted.name = Some(key.name);
        }
        if !kind.is_placed() {
            wanted.namespace = None;
        }
        let named = name.is_some_and(|name| !name.contains('*'));
        Ok(Meant { kind, wanted, named })
    };
    let all = match kind {
        Some(kind) if names.is_empty() => vec![of(kind, None)?],
        Some(kind) => names.iter().map(|name| of(kind, Some(name))).collect::<Result<_, _>>()?,
        None => {
            let one = |word: &String| {
                let (kind, name) = word.split_once('/').ok_or_else(|| Usage(format!("{word:?} is not KIND/NAME")))?;
                of(Kind::of_word(kind)?, Some(name))
            };
            names.iter().map(one).collect::<Result<_, _>>()?
        }
    };
    Ok(all)
}

async fn show(remote: &Remote, found: Vec<(&'static Kind, Vec<Value>)>, output: Output) -> anyhow::Result<()> {
    // Rows of one kind form one table.
    let mut merged: Vec<(&'static Kind, Vec<Value>)> = Vec::new();
    for (kind, rows) in found {
        match merged.iter_mut().find(|(one, _)| one.nature == kind.nature) {
            Some((_, all)) => all.extend(rows),
            None => merged.push((kind, rows)),
        }
    }
    if output == Output::Json {
        let document = |kind: &'static Kind, row: &Value| {
            let mut document = Document::of_row(kind, row).value();
            document["status"] = status_of_row(row);
            document
        };
        let all: Vec<_> = merged.iter().flat_map(|(kind, rows)| rows.iter().map(|row| document(kind, row))).collect();
        say(&serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    for (index, (kind, mut rows)) in merged.into_iter().enumerate() {
        rows.sort_by_cached_key(|row| kind.key_of(row));
        match output {
            Output::Name => rows.iter().for_each(|row| say(&display_name(kind, &kind.key_of(row)))),
            Output::Yaml => {
                for row in &rows {
                    say_document(yaml::write(&Document::of_row(kind, row).value())?.trim_end_matches('\n'));
                }
            }
            _ => {
                if output == Output::Wide && matches!(kind.nature, Nature::Rule(_)) {
                    lay_in_force(remote, kind, &mut rows).await?;
                }
                if index > 0 {
                    say("");
                }
                table(&rows, &kind.columns(output == Output::Wide)).iter().for_each(|line| say(line));
            }
        }
    }
    Ok(())
}

/// Adds to each row its active releases.
async fn lay_in_force(remote: &Remote, kind: &Kind, rows: &mut [Value]) -> anyhow::Result<()> {
    let released = in_force(remote, kind, &KindFilter::default()).await?;
    for row in rows {
        let found = released.get(&kind.key_of(row)).cloned().unwrap_or_default();
        let normal = found.normal.map(|one| format!("{} (v{})", super::find::release_name(&one), one["version"]));
        let grays = found.grays.iter().map(|name| format!("gray {name}"));
        let words: Vec<_> = normal.into_iter().chain(grays).collect();
        row["in_force"] = json!(words.join(", "));
    }
    Ok(())
}

#[derive(Args)]
pub(super) struct ExportArgs {
    /// Kinds [default: all that can be applied]
    #[arg(value_name = "KIND")]
    kinds: Vec<String>,
    #[command(flatten)]
    at: InArgs,
    /// All namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Folder for NAMESPACE/KIND.yaml; existing files are overwritten [default: one stream on
    /// standard output]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

/// Prints or writes all objects as documents that `thuban apply` reads.
pub(super) async fn export(args: ExportArgs) -> anyhow::Result<()> {
    let (remote, namespace) = args.at.remote()?;
    let kinds: Vec<&'static Kind> = if args.kinds.is_empty() {
        // Objects of the cluster as a whole require grants of their own, and are exported only if named.
        KINDS.iter().filter(|kind| kind.is_documented() && !kind.is_of_cluster()).collect()
    } else {
        args.kinds.iter().map(|word| Kind::of_word(word)).collect::<Result<_, _>>()?
    };
    if let Some(kind) = kinds.iter().find(|kind| !kind.is_documented()) {
        let (origin, command) = kind.origin();
        let why = format!("{} {origin}: there are no documents of them, see {command}", kind.many);
        return Err(Usage(why).into());
    }
    let mut count = 0;
    for kind in kinds {
        let mut wanted = KindFilter { namespace: Some(namespace.clone()), ..KindFilter::default() };
        if args.all_namespaces {
            wanted.namespace = None;
        } else if kind.nature == Nature::Namespace {
            wanted = KindFilter { name: wanted.namespace, ..KindFilter::default() };
        }
        let mut rows = rows(&remote, kind, &wanted).await?;
        rows.sort_by_cached_key(|row| kind.key_of(row));
        count += rows.len();
        let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
        for row in &rows {
            let text = yaml::write(&Document::of_row(kind, row).value())?;
            let key = kind.key_of(row);
            match &args.dir {
                None => say(text.trim_end_matches('\n')),
                Some(folder) => {
                    let place = if kind.nature == Nature::Namespace { &key.name } else { &key.namespace };
                    files
                        .entry(folder.join(file_name(place)).join(format!("{}.yaml", kind.many)))
                        .or_default()
                        .push_str(&text);
                }
            }
        }
        files.iter().try_for_each(|(path, text)| write(path, text))?;
    }
    if let Some(folder) = &args.dir {
        say(&format!(
            "{count} documents in {}; `thuban diff -f {}` finds them equal",
            folder.display(),
            folder.display()
        ));
    }
    Ok(())
}

/// Returns a file name for a namespace, which may contain a slash or be a dot.
fn file_name(namespace: &str) -> String {
    let name = namespace.replace('/', "%2F");
    match name.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => name,
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .with_context(|| path.display().to_string())
}

#[derive(Args)]
pub(super) struct WatchArgs {
    #[command(flatten)]
    meant: MeantArgs,
    /// Seconds between two polls
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// End after this number of changes
    #[arg(long, value_name = "COUNT")]
    changes: Option<usize>,
}

/// Prints each object, then a line for each creation, change and deletion, until it is interrupted.
pub(super) async fn watch(args: WatchArgs) -> anyhow::Result<()> {
    let WatchArgs { meant: args, every, changes } = args;
    let (remote, namespace) = args.at.remote()?;
    let mut before = BTreeMap::new();
    let mut told = 0;
    let mut is_first = true;
    loop {
        let mut now = BTreeMap::new();
        for meant in meant(&args, &namespace)? {
            let rows = rows(&remote, meant.kind, &meant.wanted).await?;
            now.extend(rows.into_iter().map(|row| ((meant.kind.order(), meant.kind.key_of(&row)), row)));
        }
        for (word, kind, row) in changed(&before, &now) {
            let word = if is_first { "there" } else { word };
            let cells: Vec<String> = kind.columns(false).iter().map(|(_, cell)| cell(row)).collect();
            let line = [vec![word.to_owned(), kind.one.to_owned()], cells].concat();
            lay_out(vec![line]).iter().for_each(|line| say(line));
            told += usize::from(!is_first);
            if changes.is_some_and(|most| told >= most) {
                return Ok(());
            }
        }
        (before, is_first) = (now, false);
        tokio::time::sleep(Duration::from_secs(every)).await;
    }
}

type SeenRows = BTreeMap<(usize, Key), Value>;

/// Returns the rows that were created, changed and deleted.
fn changed<'a>(before: &'a SeenRows, now: &'a SeenRows) -> Vec<(&'static str, &'static Kind, &'a Value)> {
    let mut changes = Vec::new();
    for (name, row) in now {
        match before.get(name) {
            None => changes.push(("added", &KINDS[name.0], row)),
            Some(old) if old != row => changes.push(("changed", &KINDS[name.0], row)),
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|(name, _)| !now.contains_key(*name));
    changes.extend(gone.map(|(name, row)| ("gone", &KINDS[name.0], row)));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_what_came_what_is_another_and_what_went() {
        let seen = |pairs: &[(&str, &str)]| -> SeenRows {
            pairs
                .iter()
                .map(|(name, revision)| ((1, Key { name: (*name).into(), ..Key::default() }), json!(revision)))
                .collect()
        };
        let (before, now) = (seen(&[("a", "1"), ("b", "1"), ("c", "1")]), seen(&[("a", "1"), ("b", "2"), ("d", "1")]));
        let told: Vec<_> = changed(&before, &now).into_iter().map(|(word, kind, _)| (word, kind.one)).collect();
        assert_eq!(told, [("changed", "service"), ("added", "service"), ("gone", "service")]);
    }

    #[test]
    fn a_namespace_is_one_folder() {
        assert_eq!(
            (file_name("a/b"), file_name(".."), file_name("shop")),
            ("a%2Fb".into(), "%2E.".into(), "shop".into())
        );
    }
}
