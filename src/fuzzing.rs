//! Entries of the fuzzer, one per decoder of external bytes, by the names of the targets in `fuzz/`. Compiled for tests
//! and with the feature `fuzzing`; not a part of the library's API.
//!
//! An entry gets any input and reports whether it *accepted* it: decoded it completely and found it meaningful. It
//! panics if the library does, and if accepted input violates an invariant: encoding and decoding again gives the same
//! value, applied changes equal the rows, and sizes are within their limits. Entries for private decoders are in
//! modules `fuzzing` next to them.
//!
//! `scripts/fuzz` runs them. The test below runs each entry with its seeds, `fuzz/seeds/TARGET/*`. Seeds named
//! `refused*` must be refused and all others accepted, so that they continue to reach the code they were made for.

use bytes::Bytes;

use crate::api::fuzzing::Desk;
use crate::catalog::fuzzing::read_row;
use crate::catalog::{Ctx, RequestId};
use crate::compat::fuzzing::Counter;
use crate::contracts::fuzzing::judge_input;
use crate::model::config_file::Format;
use crate::model::config_lookup::Released;
use crate::model::properties;
use crate::model::signature::{AppKeys, Flaw, Signature, SigningKey, Target as SignedTarget};
use crate::model::time::Timestamp;
use crate::offline::fuzzing::read_archive;
use crate::oidc::fuzzing::{read_discovery, read_key_set, read_logout_token, read_token};
use crate::peer::fuzzing::{Door, read_frame};
use crate::raft::proposal::{Draft, open, stamp};
use crate::well_formed;
use crate::xds::fuzzing::serve_stream;

/// Function that returns true if an input was accepted.
pub type FuzzEntry = Box<dyn Fn(&[u8]) -> bool>;

/// One target.
pub struct FuzzTarget {
    /// Name of `fuzz/targets/NAME.rs` and `fuzz/seeds/NAME`.
    pub name: &'static str,
    /// Constructor of the entry, called once per process.
    pub entry: fn() -> FuzzEntry,
    /// Maximum memory for an input of any content: bytes per input byte, and constant bytes.
    pub memory: (usize, usize),
}

const MIB: usize = 1024 * 1024;

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[
    // Bodies of the management API, queries, discovery; see `api::fuzzing`. A regular expression compiles to 1 MiB.
    FuzzTarget { name: "bodies", entry: bodies, memory: (4096, 16 * MIB) },
    // Rules with their releases, and explanations.
    FuzzTarget { name: "rules", entry: bodies, memory: (4096, 64 * MIB) },
    // Requests of config clients.
    FuzzTarget { name: "clients", entry: clients, memory: (4096, 4 * MIB) },
    FuzzTarget { name: "properties", entry: || Box::new(read_properties), memory: (64, MIB) },
    // Schemas and expressions, compiled and evaluated: patterns of 64 KiB, and 4 MiB of values from expressions.
    FuzzTarget { name: "contracts", entry: || Box::new(judge_input), memory: (65_536, 64 * MIB) },
    FuzzTarget { name: "signature", entry: || Box::new(read_signature), memory: (64, MIB) },
    // Messages of peers. An authenticated peer may announce a frame of 64 MiB.
    FuzzTarget { name: "frames", entry: || Box::new(read_frame), memory: (256, 66 * MIB) },
    // Messages of unauthenticated clients at the peer port.
    FuzzTarget { name: "handshake", entry: handshake, memory: (64, MIB) },
    // Commands as forwarded by members and as stored in the log.
    FuzzTarget { name: "commands", entry: commands, memory: (4096, 16 * MIB) },
    FuzzTarget { name: "rows", entry: || Box::new(read_row), memory: (256, MIB) },
    // Requests of xDS clients. Each missing name is reported in a sentence.
    FuzzTarget { name: "streams", entry: || Box::new(serve_stream), memory: (1024, 16 * MIB) },
    // Tokens of any caller, and documents of identity providers.
    FuzzTarget { name: "jwt", entry: || Box::new(read_token), memory: (256, MIB) },
    FuzzTarget { name: "logout", entry: || Box::new(read_logout_token), memory: (256, MIB) },
    FuzzTarget { name: "jwks", entry: || Box::new(read_key_set), memory: (256, MIB) },
    FuzzTarget { name: "discovery", entry: || Box::new(read_discovery), memory: (256, MIB) },
    FuzzTarget { name: "archive", entry: || Box::new(read_archive), memory: (256, 2 * MIB) },
];

/// Returns the entry of a target, ready for use.
pub fn entry(name: &str) -> Option<(FuzzEntry, &'static FuzzTarget)> {
    let target = TARGETS.iter().find(|target| target.name == name)?;
    Some(((target.entry)(), target))
}

fn bodies() -> FuzzEntry {
    let desk = Desk::prepared();
    Box::new(move |input| desk.serve_all(input))
}

fn clients() -> FuzzEntry {
    let counter = Counter::over(Desk::prepared().into_bench().catalog);
    Box::new(move |input| counter.serve(input))
}

fn handshake() -> FuzzEntry {
    let door = Door::open();
    Box::new(move |input| door.meet(input))
}

/// Checks that written pairs are read back as the same pairs, in every form that clients get. For every other format
/// the text must be accepted or refused with a short error.
fn read_properties(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else { return false };
    for format in Format::ALL {
        let told = well_formed::check(format, text).map_or_else(|fault| fault.to_string(), |()| String::new());
        assert!(told.len() < 1000, "a fault is told in a line: {told}");
    }
    let read = properties::parse(text);
    for format in [Format::Properties, Format::Text] {
        let released = Released::new("n", "g", "f", 1, format, text.into());
        let (json, written) = (released.configurations(text), released.properties_text(text));
        assert_eq!(json.is_err(), written.is_err(), "both are made of the same pairs");
        if let (Ok(json), Ok(written)) = (json, written) {
            let pairs: properties::Pairs = serde_json::from_slice(&json).expect("pairs");
            let written = str::from_utf8(&written).expect("text");
            assert_eq!(properties::parse(written).as_ref(), Ok(&pairs));
            assert!(format != Format::Properties || read.as_ref() == Ok(&pairs));
        }
    }
    read.is_ok()
}

/// Reads five lines: a secret, the two headers, path and query. A signature that is accepted can be produced by
/// signing, and only the holder of the key is authorized.
fn read_signature(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else { return false };
    let mut lines = text.splitn(5, '\n');
    let [Some(secret), Some(authorization), Some(timestamp), Some(path), Some(query)] =
        std::array::from_fn(|_| lines.next())
    else {
        return false;
    };
    let (key, target) = (SigningKey::new(secret.as_bytes()), SignedTarget { path, query });
    let keys = AppKeys { keys: vec![key.clone()], ..AppKeys::default() };
    let signature = Signature::read(authorization, timestamp);
    let Some(read) = &signature else {
        assert_eq!(keys.judge("app", None, target, Timestamp(0)).err(), Some(Flaw::Unsigned));
        return false;
    };
    let now = Timestamp(timestamp.trim().parse().expect("digits"));
    assert!(read.is_of_this_time(now) && authorization.contains(read.app_id));
    let signed = key.sign(read.app_id, target, timestamp.trim());
    let again = Signature::read(&signed, timestamp).expect("what a client writes");
    assert!(key.has_signed(target, &again) && again.app_id == read.app_id);
    assert!(keys.judge(again.app_id, Some(&again), target, now).is_ok());
    let judged = keys.judge(read.app_id, Some(read), target, now);
    assert_eq!(judged.is_ok(), *read == again, "who has not signed is not let in");
    true
}

/// Reads a draft. What the leader accepts must be readable and apply equally on every node.
fn commands() -> FuzzEntry {
    let prepared = Desk::prepared().into_bench();
    Box::new(move |draft| {
        let mut bench = prepared.clone();
        let Ok(draft) = Draft::read(Bytes::copy_from_slice(draft)) else { return false };
        let proposal = stamp(Timestamp(2_000_000), 0, [7; 16], &draft);
        assert_eq!(proposal.level(), draft.level);
        let is_known = crate::format::level::LevelRange::OWN.contains(draft.level);
        let opened = open(100, &proposal);
        assert_eq!(opened.is_ok(), is_known, "a member reads what a leader takes");
        let Ok((ctx, command)) = opened else { return false };
        let again = Draft::new(ctx.request, &ctx.by, &command);
        let read_again = Draft::read(again.bytes.clone()).expect("just written");
        assert_eq!(read_again, again);
        // A draft for a higher level waits on the leader, which appends nothing above the level of the cluster.
        if draft.level > bench.catalog.level() && !draft.sets_level {
            return false;
        }
        let ctx = Ctx::new(100, ctx.time, ctx.seed, RequestId(u128::MAX), ctx.by);
        bench.apply_as(&ctx, command);
        true
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(name)
    }

    fn names_in(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let path = |entry: fs::DirEntry| entry.path();
        let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
        entries.map(|entry| stem(path(entry.expect("an entry")))).collect()
    }

    #[test]
    fn every_target_is_known_by_one_name() {
        let known: BTreeSet<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
        assert_eq!(known.len(), TARGETS.len());
        assert_eq!(names_in(&folder("targets")), known);
        assert_eq!(names_in(&folder("seeds")), known);
    }

    /// Every seed must reach the code that it was made for.
    #[test]
    fn every_entry_takes_its_seeds() {
        let mut wrong = Vec::new();
        for target in TARGETS {
            let entry = (target.entry)();
            let folder = folder("seeds").join(target.name);
            let mut taken = 0;
            for seed in fs::read_dir(&folder).expect("a folder of seeds") {
                let path = seed.expect("an entry").path();
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                // Printed for the case that the entry panics.
                eprintln!("{}", path.display());
                let is_taken = entry(&fs::read(&path).expect("a seed"));
                if is_taken == name.starts_with("refused") {
                    wrong.push(path);
                }
                taken += usize::from(is_taken);
            }
            assert!(taken > 0, "{} takes nothing", target.name);
        }
        assert!(wrong.is_empty(), "not as their names say: {wrong:#?}");
    }
}
