//! `thuban context`: named clusters with their credentials, in a file that only its owner can read.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::errors::Usage;
use super::telling::say;

/// Heading of the options that select a cluster and a login, in help. Options under a heading follow all others.
pub const CONNECTION: &str = "Connection";
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
const OTHERS: u32 = 0o077;
/// Name of the context for a login without a named or current context.
const FIRST: &str = "default";
/// Maximum size of the file, far above any real one.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A cluster's addresses and credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Saved {
    pub(super) servers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ca_file: Option<PathBuf>,
    /// Default namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    /// Identity provider of the sign-in that gave the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sso: Option<String>,
}

impl Saved {
    /// Returns the token and forgets it.
    fn take_token(&mut self) -> Option<String> {
        self.sso = None;
        self.token.take()
    }
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Contexts {
    /// Name of the current context.
    current: Option<String>,
    contexts: BTreeMap<String, Saved>,
}

#[derive(Args)]
pub(super) struct ContextArgs {
    /// Context of the cluster [default: the current one]
    #[arg(long, env = "THUBAN_CONTEXT", value_name = "NAME", help_heading = CONNECTION)]
    context: Option<String>,

    /// File of the contexts [default: thuban/contexts.json in $XDG_CONFIG_HOME or ~/.config]
    #[arg(long, env = "THUBAN_CONTEXTS_FILE", value_name = "FILE", hide_short_help = true, help_heading = CONNECTION)]
    contexts_file: Option<PathBuf>,
}

impl ContextArgs {
    /// Returns the named context, else the current one; `None` if there is neither.
    pub(super) fn read(&self) -> anyhow::Result<Option<Saved>> {
        let mut all = self.open()?.1;
        let Some(name) = self.context.clone().or(all.current.take()) else { return Ok(None) };
        let found = all.contexts.remove(&name);
        found.map(Some).ok_or_else(|| no_context(&name, &all).into())
    }

    /// Returns the command that signs in again at this provider.
    pub(super) fn way_back(&self, sso: Option<&str>) -> Option<String> {
        let context = self.context.as_ref().map(|name| format!(" --context {name}")).unwrap_or_default();
        sso.map(|provider| format!("thuban login --sso {provider}{context}"))
    }

    /// Saves a token in the named, else the current context, and creates a missing one. `sso` is the identity provider
    /// of a single sign-on. Returns the name of the context.
    pub(super) fn keep_token(&self, endpoints: &[String], token: &str, sso: Option<&str>) -> anyhow::Result<String> {
        let (path, mut all) = self.open()?;
        let name = self.context.clone().or(all.current.clone()).unwrap_or_else(|| FIRST.to_owned());
        let saved = all.contexts.entry(name.clone()).or_default();
        endpoints.clone_into(&mut saved.servers);
        saved.token = Some(token.to_owned());
        saved.sso = sso.map(str::to_owned);
        all.current.get_or_insert_with(|| name.clone());
        write(&path, &all)?;
        Ok(name)
    }

    /// Removes the token from the named, else the current context. Returns the name of the context if it had one.
    pub(super) fn remove_token(&self) -> anyhow::Result<Option<String>> {
        let (path, mut all) = self.open()?;
        let Some(name) = self.context.clone().or(all.current.clone()) else { return Ok(None) };
        if all.contexts.get_mut(&name).and_then(Saved::take_token).is_none() {
            return Ok(None);
        }
        write(&path, &all)?;
        Ok(Some(name))
    }

    fn open(&self) -> anyhow::Result<(PathBuf, Contexts)> {
        let path = match &self.contexts_file {
            Some(path) => path.clone(),
            None => match usual_folder(|name| std::env::var_os(name).map(PathBuf::from)) {
                Some(folder) => folder.join("thuban").join("contexts.json"),
                None => return Ok((PathBuf::new(), Contexts::default())),
            },
        };
        let all = read(&path)?;
        Ok((path, all))
    }
}

/// Returns the folder for the user's configuration.
fn usual_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))
}

fn no_context(name: &str, all: &Contexts) -> Usage {
    let known: Vec<_> = all.contexts.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "there is none".to_owned() } else { format!("there are {}", known.join(", ")) };
    Usage(format!("no context is called {name:?}, {known}; `thuban context set {name} --server URL` makes it"))
}

fn read(path: &Path) -> anyhow::Result<Contexts> {
    let shown = path.display();
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Contexts::default()),
        Err(error) => return Err(error).with_context(|| shown.to_string()),
    };
    if found.mode() & OTHERS != 0 {
        let why = format!("{shown} holds tokens, and others can read it: chmod 600 {shown}");
        return Err(Usage(why).into());
    }
    if found.len() > FILE_BYTES_MAX {
        bail!("{shown} is larger than any file of contexts");
    }
    let text = fs::read_to_string(path).with_context(|| shown.to_string())?;
    serde_json::from_str(&text).map_err(|error| Usage(format!("{shown} is no file of contexts: {error}")).into())
}

/// Writes the file atomically, readable by its owner alone.
fn write(path: &Path, all: &Contexts) -> anyhow::Result<()> {
    let Some(folder) = path.parent().filter(|_| path.file_name().is_some()) else {
        return Err(Usage("there is no place for contexts: set HOME, or give --contexts-file".to_owned()).into());
    };
    let make = || {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        let part = path.with_extension(format!("part-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(FILE_MODE).open(&part)?;
        let written = file.write_all(&serde_json::to_vec_pretty(all)?).and_then(|()| file.sync_all());
        written.and_then(|()| fs::rename(&part, path)).inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })
    };
    make().with_context(|| path.display().to_string())
}

#[derive(Subcommand)]
pub(super) enum ContextCommand {
    /// List the contexts, the current one with a star
    List {
        #[command(flatten)]
        at: ContextArgs,
    },
    /// Make a context the current one
    Use {
        name: String,
        #[command(flatten)]
        at: ContextArgs,
    },
    /// Create a context, or change its given fields
    Set {
        name: String,
        #[command(flatten)]
        at: ContextArgs,
        /// Base URL of a node's management API; may be repeated, tried in order
        #[arg(long = "server", value_name = "URL", value_delimiter = ',')]
        servers: Vec<String>,
        /// File with the trusted authorities of the servers (PEM)
        #[arg(long, value_name = "FILE")]
        ca_file: Option<PathBuf>,
        /// Default namespace
        #[arg(short, long)]
        namespace: Option<String>,
        /// File with a token, `-` for standard input
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,
    },
    /// Delete a context with its token
    Delete {
        name: String,
        #[command(flatten)]
        at: ContextArgs,
    },
}

pub(super) fn run(command: ContextCommand) -> anyhow::Result<()> {
    match command {
        ContextCommand::List { at } => list(&at.open()?.1),
        ContextCommand::Use { name, at } => {
            let (path, mut all) = at.open()?;
            if !all.contexts.contains_key(&name) {
                return Err(no_context(&name, &all).into());
            }
            all.current = Some(name);
            write(&path, &all)
        }
        ContextCommand::Set { name, at, servers, ca_file, namespace, token_file } => {
            let (path, mut all) = at.open()?;
            let saved = all.contexts.entry(name.clone()).or_default();
            if !servers.is_empty() {
                if let Some(wrong) =
                    servers.iter().find(|one| !one.starts_with("http://") && !one.starts_with("https://"))
                {
                    return Err(Usage(format!("{wrong:?} is no URL: it begins with http:// or https://")).into());
                }
                // A token is valid only for the servers that issued it.
                if servers != saved.servers {
                    saved.take_token();
                }
                saved.servers = servers;
            }
            if saved.servers.is_empty() {
                return Err(Usage(format!("{name:?} needs a --server")).into());
            }
            saved.ca_file = ca_file.map(std::path::absolute).transpose()?.or(saved.ca_file.take());
            saved.namespace = namespace.or(saved.namespace.take());
            if let Some(file) = token_file {
                saved.take_token();
                saved.token = Some(super::secret::read_file(&file)?);
            }
            let hint = not_in_use(all.current.get_or_insert_with(|| name.clone()), &name);
            write(&path, &all)?;
            hint.iter().for_each(|hint| say(hint));
            Ok(())
        }
        ContextCommand::Delete { name, at } => {
            let (path, mut all) = at.open()?;
            if all.contexts.remove(&name).is_none() {
                return Ok(());
            }
            all.current = all.current.filter(|current| *current != name);
            write(&path, &all)
        }
    }
}

fn list(all: &Contexts) -> anyhow::Result<()> {
    let dash = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
    let heads = ["", "name", "servers", "namespace", "login"].map(str::to_owned).to_vec();
    let row = |(name, saved): (&String, &Saved)| {
        let star = if all.current.as_ref() == Some(name) { "*" } else { "" };
        let login = match (&saved.token, &saved.sso) {
            (None, _) => "-".to_owned(),
            (Some(_), None) => "kept".to_owned(),
            (Some(_), Some(provider)) => format!("kept, by {provider}"),
        };
        let servers = dash(Some(&saved.servers.join(",")));
        vec![star.to_owned(), name.clone(), servers, dash(saved.namespace.as_deref()), login]
    };
    let lines = std::iter::once(heads).chain(all.contexts.iter().map(row)).collect();
    super::tables::lay_out(lines).iter().for_each(|line| say(line));
    Ok(())
}

/// Returns a hint if another context than the new one is current.
fn not_in_use(current: &str, name: &str) -> Option<String> {
    (current != name).then(|| format!("current context: {current}; switch with `thuban context use {name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: &Path, context: Option<&str>) -> ContextArgs {
        ContextArgs { context: context.map(str::to_owned), contexts_file: Some(file.to_owned()) }
    }

    fn set(file: &Path, name: &str, server: &str) -> anyhow::Result<()> {
        run(ContextCommand::Set {
            name: name.to_owned(),
            at: at(file, None),
            servers: vec![server.to_owned()],
            ca_file: None,
            namespace: None,
            token_file: None,
        })
    }

    #[test]
    fn contexts_are_kept_for_their_owner_alone() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("deep").join("contexts.json");
        assert_eq!(at(&file, None).read().expect("no file is no context"), None);
        set(&file, "prod", "http://a:1").expect("made");
        assert_eq!(at(&file, None).keep_token(&["http://a:1".to_owned()], "secret", None).expect("kept"), "prod");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, FILE_MODE);
        let found = at(&file, None).read().expect("readable").expect("in use");
        assert_eq!((found.servers, found.token), (vec!["http://a:1".to_owned()], Some("secret".to_owned())));

        set(&file, "prod", "http://b:1").expect("changed");
        let moved = at(&file, Some("prod")).read().expect("readable").expect("there");
        assert_eq!(moved.token, None, "a token goes to no other server");
        assert!(at(&file, Some("none")).read().expect_err("missing").to_string().contains("there are prod"));
        assert!(set(&file, "prod", "b:1").expect_err("no URL").is::<Usage>());
        set(&file, "test", "http://c:1").expect("made");
        assert!(at(&file, None).read().expect("readable").is_some_and(|found| found.servers == ["http://b:1"]));
        assert_eq!(not_in_use("prod", "prod"), None);
        assert!(not_in_use("prod", "test").is_some_and(|hint| hint.contains("context use test")));

        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("changed");
        assert!(at(&file, None).read().expect_err("open to others").to_string().contains("chmod 600"));
    }

    #[test]
    fn a_login_by_single_sign_on_is_known_until_another_one() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("contexts.json");
        let servers = ["http://a:1".to_owned()];
        let saved = || at(&file, None).read().expect("readable").expect("in use");
        assert_eq!(at(&file, None).remove_token().expect("no file"), None);
        at(&file, None).keep_token(&servers, "one", Some("corp")).expect("kept");
        assert_eq!((saved().token.as_deref(), saved().sso.as_deref()), (Some("one"), Some("corp")));
        let way_back = |context| at(&file, context).way_back(saved().sso.as_deref());
        assert_eq!(way_back(None).as_deref(), Some("thuban login --sso corp"));
        assert_eq!(way_back(Some("default")).as_deref(), Some("thuban login --sso corp --context default"));
        at(&file, None).keep_token(&servers, "two", None).expect("kept");
        assert_eq!((saved().token.as_deref(), saved().sso), (Some("two"), None));

        at(&file, None).keep_token(&servers, "three", Some("corp")).expect("kept");
        assert_eq!(at(&file, None).remove_token().expect("removed").as_deref(), Some("default"));
        assert_eq!((saved().token, saved().sso), (None, None));
        assert_eq!(at(&file, None).remove_token().expect("removed already"), None);
        assert_eq!(saved().servers, servers, "the context stays");
    }

    #[test]
    fn the_usual_folder_is_that_of_the_environment() {
        let of = |xdg: &str, home: &str| {
            usual_folder(|name| {
                let value = if name == "HOME" { home } else { xdg };
                (!value.is_empty()).then(|| PathBuf::from(value))
            })
        };
        assert_eq!(of("/x", "/home/ann"), Some("/x".into()));
        assert_eq!(of("relative", "/home/ann"), Some("/home/ann/.config".into()));
        assert_eq!(of("", ""), None);
    }
}
