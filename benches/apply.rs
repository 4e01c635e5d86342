//! Cost of applying one entry: decoded, applied in memory, hashed, its rows written to a database in a directory of
//! this run. No consensus, no fsync, no socket, one thread.
//!
//! `scripts/bench-apply` runs it. `THUBAN_BENCH_ENTRIES` (100,000) updates of `THUBAN_BENCH_SERVICES` (1,000) services
//! with a comment of 200 bytes, in groups of `THUBAN_BENCH_GROUP` (32) entries, by an administrator's token. Three
//! cases in turn: an instance of the service updates itself, which adds no row to the audit trail; another caller does;
//! and the same with as many audit rows pruned as added. The smallest of five rounds of each is reported.
//!
//! Also a login and a logout, with `THUBAN_BENCH_TOKENS` (50,000) existing logins, 1000 of each user: a login ends the
//! oldest of its user.
//!
//! Also a publish of one of `THUBAN_BENCH_FILES` (10,000) files: without policies, among 100 policies that gate other
//! acts or other files, and under one that gates it, as an emergency; and a request for approval and its approval, with
//! `THUBAN_BENCH_REQUESTS` (10,000) open requests.

#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream;
use openraft::EntryPayload;
use openraft::storage::RaftStateMachine;
use thuban::catalog::approvals::RequestFilter;
use thuban::catalog::page::Page;
use thuban::catalog::{AuthorizedCommand, Command, Credential, Op, RequestId};
use thuban::format::level::{Level, LevelRange};
use thuban::format::types::{CommittedLeaderId, Entry, LogId};
use thuban::metrics::Metrics;
use thuban::model::access::{Founder, PasswordHash, TokenHash, UserDraft};
use thuban::model::approval::{RequestDraft, RequestOp};
use thuban::model::config_file::{ConfigFileDraft, ConfigPublish, ConfigReleaseDraft};
use thuban::model::grant::{Grant, Grants, ReadScope, Role};
use thuban::model::limits::TOKENS_PER_USER_MAX;
use thuban::model::policy::{Gate, PolicyDraft};
use thuban::model::service::ServiceDraft;
use thuban::model::settings::SettingsChange;
use thuban::model::time::Timestamp;
use thuban::raft::machine::Machine;
use thuban::raft::proposal::{Draft, stamp};
use thuban::store::Store;
use thuban::watch::Hub;

/// The program's.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ROUNDS: usize = 5;
const COMMENT_BYTES: usize = 200;
const WAITERS_MAX: usize = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let sizes = Sizes {
        entries: setting("THUBAN_BENCH_ENTRIES", 100_000),
        services: setting("THUBAN_BENCH_SERVICES", 1_000),
        group: setting("THUBAN_BENCH_GROUP", 32),
    };
    let cases = [
        ("without a row of the audit trail", true, None),
        ("with one", false, None),
        ("with one, and an old one goes", false, Some(1_000)),
    ];
    let mut best = [Duration::MAX; 3];
    for _ in 0..ROUNDS {
        for (best, (_, itself, kept)) in best.iter_mut().zip(cases) {
            *best = (*best).min(measured(&sizes, itself, kept)?);
        }
    }
    println!("{} updates of {} services, {} a group:", sizes.entries, sizes.services, sizes.group);
    for (best, (name, ..)) in best.iter().zip(cases) {
        println!("  {name}: {:.2} us an entry", best.as_secs_f64() * 1e6 / sizes.entries as f64);
    }
    let tokens = setting("THUBAN_BENCH_TOKENS", 50_000);
    let [login, logout] = logins(tokens)?;
    println!("among {tokens} logins: {login:.2} us a login, {logout:.2} us a logout");
    let files = setting("THUBAN_BENCH_FILES", 10_000);
    let cases = [("without policies", Gating::None), ("among 100 policies", Gating::Others), ("gated", Gating::Itself)];
    let mut best = [f64::MAX; 3];
    for _ in 0..ROUNDS {
        for (best, (_, gating)) in best.iter_mut().zip(cases) {
            *best = best.min(publishes(files, gating)?);
        }
    }
    println!("a publish of one of {files} files:");
    for (best, (name, _)) in best.iter().zip(cases) {
        println!("  {name}: {best:.2} us an entry");
    }
    let waiting = setting("THUBAN_BENCH_REQUESTS", 10_000);
    let [ask, approve] = approvals(waiting)?;
    println!("with {waiting} requests that wait: {ask:.2} us to ask, {approve:.2} us to approve and publish");
    Ok(())
}

struct Sizes {
    entries: u64,
    services: u64,
    group: usize,
}

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Returns a state machine in a directory of its own, which is deleted with the return value.
fn empty_machine() -> Result<(tempfile::TempDir, Machine), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let metrics = Arc::new(Metrics::new()?);
    let store = Store::open(directory.path(), 1, LevelRange::OWN, metrics.clone())?;
    let machine = Machine::load(store, Hub::new(WAITERS_MAX), metrics)?;
    Ok((directory, machine))
}

/// Duration of the updates, on a machine of their own.
fn measured(sizes: &Sizes, itself: bool, kept: Option<u64>) -> Result<Duration, Box<dyn Error>> {
    let (_directory, mut machine) = empty_machine()?;
    let mut log = Writer { index: 0 };
    let admin = Founder::administrator("u", "h", Timestamp(0));
    let level = Level::NEWEST;
    let settings = SettingsChange { audit_kept_rows: kept.or(Some(1_000_000)), ..SettingsChange::default() };
    let service = |number: u64, comment: Option<String>| ServiceDraft {
        namespace: Some("production".to_owned()),
        name: Some(format!("service-{number}")),
        comment,
        ..ServiceDraft::default()
    };
    let create = |number| asked(false, Command::Services(Op::Create, vec![service(number, None)]));
    let mut first = vec![
        log.entry(&Command::Bootstrap { cluster_id: "c".to_owned(), admin, level }),
        log.entry(&Command::SignIn {
            hash: token(),
            user_id: "u".to_owned(),
            password: PasswordHash("h".to_owned()),
            from: Default::default(),
        }),
        log.entry(&asked(false, Command::Settings(settings))),
    ];
    first.extend((0..sizes.services).map(|number| log.entry(&create(number))));
    apply(&mut machine, first, sizes.group)?;
    let update = |number: u64| {
        let comment = format!("{number:>COMMENT_BYTES$}");
        asked(itself, Command::Services(Op::Update, vec![service(number % sizes.services, Some(comment))]))
    };
    let updates = (0..sizes.entries).map(|number| log.entry(&update(number))).collect();
    let began = Instant::now();
    apply(&mut machine, updates, sizes.group)?;
    let took = began.elapsed();
    let applied = machine.state().applied().index;
    assert_eq!(applied, log.index, "everything was applied");
    let newest = machine.state().catalog().services.get("production", "service-0").map(|one| one.comment.len());
    assert_eq!(newest, Some(COMMENT_BYTES), "and did something");
    Ok(took)
}

/// Returns the microseconds of a login and a logout with `tokens` existing logins.
fn logins(tokens: u64) -> Result<[f64; 2], Box<dyn Error>> {
    const MEASURED: u64 = 1000;
    let (_directory, mut machine) = empty_machine()?;
    let mut log = Writer { index: 0 };
    let admin = Founder::administrator("u", "h", Timestamp(0));
    let count = tokens.div_ceil(TOKENS_PER_USER_MAX as u64);
    let named = |number: u64| format!("user-{number}");
    let user = |number| UserDraft {
        name: named(number),
        password_hash: Some(PasswordHash("h".to_owned())),
        ..UserDraft::default()
    };
    let first = vec![
        log.entry(&Command::Bootstrap { cluster_id: "c".to_owned(), admin, level: Level::NEWEST }),
        log.entry(&Command::Users(Op::Create, (0..count).map(user).collect())),
    ];
    apply(&mut machine, first, 1)?;
    let ids: Vec<String> = {
        let catalog = machine.state().catalog();
        (0..count).filter_map(|number| catalog.access.user_named(&named(number)).map(|user| user.id.clone())).collect()
    };
    let hash = |number: u64| TokenHash(format!("{:064x}", u128::from(number).wrapping_mul(SPREAD)));
    let sign_in = |number: u64| Command::SignIn {
        hash: hash(number),
        user_id: ids[(number % count) as usize].clone(),
        password: PasswordHash::default(),
        from: Default::default(),
    };
    let entries = (0..tokens).map(|number| log.entry(&sign_in(number))).collect();
    apply(&mut machine, entries, 32)?;
    let mut took = |commands: Vec<Command>, left: u64| -> Result<f64, Box<dyn Error>> {
        let entries = commands.iter().map(|command| log.entry(command)).collect();
        let began = Instant::now();
        apply(&mut machine, entries, 1)?;
        let took = began.elapsed();
        assert_eq!(machine.state().catalog().access.token_count() as u64, left, "the logins that are there");
        Ok(took.as_secs_f64() * 1e6 / MEASURED as f64)
    };
    let login = took((tokens..tokens + MEASURED).map(sign_in).collect(), tokens)?;
    let sign_out = |number| Command::SignOut { hash: hash(number) };
    let logout = took((tokens..tokens + MEASURED).map(sign_out).collect(), tokens - MEASURED)?;
    Ok([login, logout])
}

/// Policies of the measured publishes.
#[derive(Clone, Copy)]
enum Gating {
    None,
    /// A hundred, none of which asks anything.
    Others,
    /// The same and one that gates each publish: they are emergencies.
    Itself,
}

fn policy(name: String, names: Option<Vec<String>>, gates: Vec<Gate>) -> PolicyDraft {
    PolicyDraft { name, names, gates: Some(gates), ..PolicyDraft::default() }
}

fn publish(number: u64, request: Option<String>, emergency: Option<String>) -> Command {
    let (namespace, group) = ("production".to_owned(), format!("group-{}", number % 100));
    let file_name = format!("file-{number}.properties");
    let content = Some(format!("key={number:>COMMENT_BYTES$}"));
    let format = Some("properties".to_owned());
    let (name, key) = (file_name.clone(), (namespace.clone(), group.clone()));
    let file = ConfigFileDraft { namespace, group, name, content, format, sealing: None, ..ConfigFileDraft::default() };
    let (namespace, group) = key;
    let release =
        ConfigReleaseDraft { namespace, group, file_name, request, emergency, ..ConfigReleaseDraft::default() };
    asked(false, Command::ConfigCreateAndPublish(vec![ConfigPublish { file, release, md5: None }]))
}

/// A machine with an administrator and these policies.
fn under(log: &mut Writer, policies: Vec<PolicyDraft>) -> Result<(tempfile::TempDir, Machine), Box<dyn Error>> {
    let (directory, mut machine) = empty_machine()?;
    let admin = Founder::administrator("u", "h", Timestamp(0));
    let sign_in = Command::SignIn {
        hash: token(),
        user_id: "u".to_owned(),
        password: PasswordHash("h".to_owned()),
        from: Default::default(),
    };
    let mut first = vec![
        log.entry(&Command::Bootstrap { cluster_id: "c".to_owned(), admin, level: Level::NEWEST }),
        log.entry(&sign_in),
    ];
    first.extend(policies.into_iter().map(|policy| log.entry(&Command::Policies(Op::Create, vec![policy]))));
    apply(&mut machine, first, 1)?;
    Ok((directory, machine))
}

/// Returns the microseconds of a publish.
fn publishes(files: u64, gating: Gating) -> Result<f64, Box<dyn Error>> {
    let mut log = Writer { index: 0 };
    let of_others = |number| match number % 2 {
        0 => policy(format!("p{number}"), None, vec![Gate::Stop]),
        _ => policy(format!("p{number}"), Some(vec![format!("other-{number}*")]), Gate::USUAL.to_vec()),
    };
    let mut policies = Vec::new();
    if !matches!(gating, Gating::None) {
        policies.extend((0..100).map(of_others));
    }
    let emergency = matches!(gating, Gating::Itself).then(|| "measured here".to_owned());
    if emergency.is_some() {
        policies.push(policy("gate".to_owned(), None, vec![Gate::Publish]));
    }
    let (_directory, mut machine) = under(&mut log, policies)?;
    let entries = (0..files).map(|number| log.entry(&publish(number, None, emergency.clone()))).collect();
    let began = Instant::now();
    apply(&mut machine, entries, 32)?;
    let took = began.elapsed();
    let released = machine.state().catalog().configs.release_count() as u64;
    assert_eq!(released, files, "each was published");
    Ok(took.as_secs_f64() * 1e6 / files as f64)
}

/// Returns the microseconds of a request for approval and of an approval, with `waiting` open requests.
fn approvals(waiting: u64) -> Result<[f64; 2], Box<dyn Error>> {
    const MEASURED: u64 = 1000;
    let mut log = Writer { index: 0 };
    let (_directory, mut machine) = under(&mut log, vec![policy("gate".to_owned(), None, vec![Gate::Publish])])?;
    let grants = Some(Grants::new(vec![Grant::of(Role::Approver)]));
    let password_hash = Some(PasswordHash("h".to_owned()));
    let user = UserDraft { name: "abe".to_owned(), password_hash, grants, ..UserDraft::default() };
    apply(&mut machine, vec![log.entry(&Command::Users(Op::Create, vec![user]))], 1)?;
    let abe = machine.state().catalog().access.user_named("abe").map(|user| user.id.clone()).unwrap_or_default();
    let hash = TokenHash("6".repeat(64));
    let password = PasswordHash("h".to_owned());
    let sign_in = Command::SignIn { hash: hash.clone(), user_id: abe, password, from: Default::default() };
    apply(&mut machine, vec![log.entry(&sign_in)], 1)?;
    let ask = |number| publish(number, Some("please".to_owned()), None);
    let entries = (0..waiting).map(|number| log.entry(&ask(number))).collect();
    apply(&mut machine, entries, 32)?;
    let entries = (waiting..waiting + MEASURED).map(|number| log.entry(&ask(number))).collect();
    let began = Instant::now();
    apply(&mut machine, entries, 32)?;
    let asking = began.elapsed();
    let ids: Vec<String> = {
        let catalog = machine.state().catalog();
        let filter = RequestFilter { read_scope: ReadScope::Everything, ..RequestFilter::default() };
        let page = |number: u64| catalog.approvals.list(&filter, &Page::new(number as usize * 100, 100)).rows;
        (0..MEASURED / 100).flat_map(page).map(|request| request.id.clone()).collect()
    };
    let approve = |id: &String| {
        let draft = RequestDraft { id: id.clone(), ..RequestDraft::default() };
        Command::Authorized(Box::new(AuthorizedCommand {
            credential: Credential::Token(hash.clone()),
            address: None,
            request: String::new(),
            self_registration: false,
            mutes_refusals: false,
            command: Command::Requests(RequestOp::Approve, vec![draft]),
        }))
    };
    let entries = ids.iter().map(|id| log.entry(&approve(id))).collect();
    let began = Instant::now();
    apply(&mut machine, entries, 32)?;
    let approving = began.elapsed();
    let released = machine.state().catalog().configs.release_count() as u64;
    assert_eq!(released, MEASURED, "each was published");
    Ok([asking, approving].map(|took| took.as_secs_f64() * 1e6 / MEASURED as f64))
}

fn token() -> TokenHash {
    TokenHash("5".repeat(64))
}

fn asked(itself: bool, command: Command) -> Command {
    let request = "0123456789abcdef0123456789abcdef".to_owned();
    let address = Some([10, 0, 0, 1].into());
    Command::Authorized(Box::new(AuthorizedCommand {
        credential: Credential::Token(token()),
        address,
        request,
        self_registration: itself,
        mutes_refusals: false,
        command,
    }))
}

const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// Makes the entries of a log, a thousand a second by their stamps.
struct Writer {
    index: u64,
}

impl Writer {
    fn entry(&mut self, command: &Command) -> Entry {
        self.index += 1;
        // Spread as the ids are that nodes draw.
        let request = RequestId(u128::from(self.index).wrapping_mul(SPREAD));
        let draft = Draft::new(request, "admin", command);
        let seed = u128::from(self.index).to_be_bytes();
        let proposal = stamp(Timestamp(1_000_000 + self.index), 0, seed, &draft);
        let log_id = LogId::new(CommittedLeaderId::new(1), self.index);
        Entry { log_id, payload: EntryPayload::Normal(proposal) }
    }
}

/// Applies the entries in groups of this size, as consensus does.
fn apply(machine: &mut Machine, entries: Vec<Entry>, group: usize) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut entries = entries.into_iter().map(|entry| Ok((entry, None))).peekable();
    while entries.peek().is_some() {
        let group = stream::iter(entries.by_ref().take(group).collect::<Vec<_>>());
        runtime.block_on(machine.apply(group))?;
    }
    Ok(())
}
