//! Engines of contracts: schemas and expressions that check contents and the bodies of rules.
//!
//! They run where a request is received, as `well_formed` does, and never during apply: another version of an engine
//! may decide differently, so no replicated state depends on it.
//!
//! All contracts of one object together have 50 ms of processor time. Both engines check at every step whether they may
//! go on ([`fuel`]), so no thread continues after the limit. The depth of their recursion is checked when a contract is
//! saved, and they run on a stack that is large enough for it ([`on_own_stack`]).

mod cel;
mod content;
mod fuel;
#[cfg(any(test, feature = "test-support"))]
pub mod fuzzing;
mod schema;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::model::code::{Code, Refusal};
use crate::model::config_file::Format;
use crate::model::contract::{Contract, ContractMode, Violation};
use crate::model::limits;
use crate::model::policy::PolicyKind;
use crate::well_formed::Fault;
use content::Located;
use fuel::Fuel;
use schema::Schema;
use thuban_base::threads;

/// Stack of a thread that evaluates contracts: values of 64 levels, each checked by up to 32 nested subschemas.
const STACK_BYTES: usize = 32 * 1024 * 1024;
/// Characters of an engine's description of a fault.
const DETAIL_CHARS_MAX: usize = 300;
/// Message of a contract that exceeded its time.
const TOO_LONG: &str = "took too long";
/// Message in place of faults that only editors may see.
const HIDDEN: &str = "the fault is shown only to editors";
/// JSON Pointer of the whole document, as answers write it.
const WHOLE: &str = "/";

/// A contract with its engine.
pub struct Compiled {
    pub contract: Arc<Contract>,
    engine: Engine,
    /// Estimated bytes in memory.
    pub weight: usize,
}

enum Engine {
    Schema(Schema),
    Rules(Vec<cel::Program>),
    /// Accepted by another version, and not valid for this one.
    Unreadable(String),
}

/// Content or body that contracts check.
pub enum ContractDocument {
    File { format: Format, text: String, is_sealed: bool },
    Rule(Value),
}

/// Object as it would be published.
pub struct ValidationSubject {
    pub kind: PolicyKind,
    pub namespace: String,
    /// Name; `group/file` for a config file.
    pub name: String,
    /// Name of the caller.
    pub user: String,
    pub new: ContractDocument,
    /// The version that is in force for all clients; `None` if there is none.
    pub old: Option<ContractDocument>,
    /// True if the caller may read the content of an encrypted file.
    pub may_see: bool,
}

/// Fault that an engine reports, with its JSON Pointer.
struct PlacedFault {
    path: String,
    message: String,
}

/// Compiles a contract; the refusal gives the place of the fault.
pub fn compile(contract: Arc<Contract>) -> Result<Compiled, Refusal> {
    on_own_stack(|| compiled(contract))
}

fn compiled(contract: Arc<Contract>) -> Result<Compiled, Refusal> {
    let refuse = |why: String| Refusal::new(Code::InvalidParameter, why);
    if !contract.schema.is_empty() {
        let schema: Value = serde_json::from_str(&contract.schema).map_err(|error| refuse(error.to_string()))?;
        let weight = schema::weight(&schema, contract.schema.len());
        let compiled = Schema::compile(&schema).map_err(refuse)?;
        return Ok(Compiled { engine: Engine::Schema(compiled), weight, contract });
    }
    let mut programs = Vec::new();
    for (index, rule) in contract.rules.iter().enumerate() {
        programs.push(cel::Program::compile(&rule.expression).map_err(|why| {
            let why = shortened(&why, DETAIL_CHARS_MAX);
            refuse(format!("rules[{index}].expression: {why}"))
        })?);
    }
    let weight = contract.rules.iter().map(|rule| rule.expression.len() * 64).sum();
    Ok(Compiled { engine: Engine::Rules(programs), weight, contract })
}

/// Compiles a stored contract on the stack of the current evaluation. A contract that this version cannot read stays in
/// force: it reports a fault for every content.
pub fn compile_kept(contract: Arc<Contract>) -> Compiled {
    let unreadable = |refusal: Refusal| Engine::Unreadable(refusal.detail);
    let kept = contract.clone();
    compiled(contract).unwrap_or_else(|refusal| Compiled { engine: unreadable(refusal), weight: 0, contract: kept })
}

/// Returns the places at which an object breaks its contracts, in order of their lines. Each contract is compiled when
/// its turn comes, so that memory holds only the cached ones and the current one.
pub fn judge(
    contracts: &[Arc<Contract>],
    compiled: &(impl Fn(&Arc<Contract>) -> Arc<Compiled> + Sync),
    subject: &ValidationSubject,
) -> Vec<Violation> {
    if contracts.is_empty() {
        return Vec::new();
    }
    on_own_stack(|| judged(contracts, compiled, subject))
}

fn judged(
    contracts: &[Arc<Contract>],
    compiled: &impl Fn(&Arc<Contract>) -> Arc<Compiled>,
    subject: &ValidationSubject,
) -> Vec<Violation> {
    let is_sealed = matches!(subject.new, ContractDocument::File { is_sealed: true, .. });
    let mut fuel = Fuel::start(limits::CONTRACT_TIME, limits::CONTRACT_MADE_BYTES_MAX);
    let mut compile_time = Duration::ZERO;
    let new = read(&subject.new);
    let old = subject.old.as_ref().and_then(|old| read(old).ok());
    let mut all: Vec<Violation> = Vec::new();
    for contract in contracts {
        let whole = |message: &str| PlacedFault { path: String::new(), message: message.to_owned() };
        let broken = match &new {
            Ok(_) if compile_time > limits::CONTRACT_COMPILE_TIME => vec![(None, whole(TOO_LONG))],
            Ok(new) => {
                let (compiled, taken) = fuel.besides(|| compiled(contract));
                compile_time += taken;
                compiled.faults(subject, new, old.as_ref(), is_sealed, &fuel)
            }
            Err(fault) => vec![(Some(fault.line), whole(&fault.why))],
        };
        let told = broken.into_iter().map(|(line, judged)| broken_by(contract, line, judged));
        if is_sealed && !subject.may_see {
            all.extend(told.take(1).map(|one| {
                let (path, message) = (WHOLE.to_owned(), HIDDEN.to_owned());
                Violation { path, line: None, message, ..one }
            }));
        } else {
            all.extend(told);
        }
    }
    // Faults that refuse the object take precedence over warnings if the list is cut.
    all.sort_by_key(|broken| broken.mode != ContractMode::Refuse);
    all.truncate(limits::CONTRACT_FAULTS_MAX);
    all.sort_by_key(|broken| broken.line);
    all
}

fn broken_by(contract: &Contract, line: Option<usize>, judged: PlacedFault) -> Violation {
    let path = if judged.path.is_empty() { WHOLE.to_owned() } else { judged.path };
    Violation { contract: contract.name.clone(), mode: contract.mode, path, line, message: judged.message }
}

/// Content or body of a rule, as the engines read it.
struct Readable {
    value: Value,
    lines: Option<Located>,
}

fn read(document: &ContractDocument) -> Result<Readable, Fault> {
    match document {
        ContractDocument::Rule(body) => Ok(Readable { value: body.clone(), lines: None }),
        ContractDocument::File { format, text, .. } => {
            let located = content::read(*format, text)?;
            Ok(Readable { value: located.value(), lines: Some(located) })
        }
    }
}

impl Compiled {
    fn faults(
        &self,
        subject: &ValidationSubject,
        new: &Readable,
        old: Option<&Readable>,
        is_sealed: bool,
        fuel: &Fuel,
    ) -> Vec<(Option<usize>, PlacedFault)> {
        let judged = match &self.engine {
            Engine::Schema(schema) => schema.judge(&new.value, is_sealed, fuel),
            Engine::Rules(programs) => self.failed_rules(programs, subject, new, old, fuel),
            Engine::Unreadable(why) => vec![PlacedFault { path: String::new(), message: why.clone() }],
        };
        let judged = if fuel.is_out() {
            vec![PlacedFault { path: String::new(), message: TOO_LONG.to_owned() }]
        } else {
            judged
        };
        let line = |judged: &PlacedFault| new.lines.as_ref().map(|lines| lines.line_of(&judged.path));
        judged.into_iter().map(|judged| (line(&judged), judged)).collect()
    }

    fn failed_rules(
        &self,
        programs: &[cel::Program],
        subject: &ValidationSubject,
        new: &Readable,
        old: Option<&Readable>,
        fuel: &Fuel,
    ) -> Vec<PlacedFault> {
        let facts = cel::Facts {
            new: &new.value,
            old: old.map_or(&Value::Null, |old| &old.value),
            kind: subject.kind.word(),
            namespace: &subject.namespace,
            name: &subject.name,
            user: &subject.user,
        };
        let mut failed = Vec::new();
        for (program, rule) in programs.iter().zip(&self.contract.rules) {
            let why = match program.holds(&facts, fuel) {
                Ok(true) => continue,
                Ok(false) => String::new(),
                Err(cel::Stop::Failed(why)) => format!("the expression failed: {}", shortened(&why, DETAIL_CHARS_MAX)),
                Err(cel::Stop::Out) => format!("{TOO_LONG}, or made too much"),
            };
            let message = match (rule.message.is_empty(), why.is_empty()) {
                (false, true) => rule.message.clone(),
                (false, false) => format!("{} ({why})", rule.message),
                (true, false) => why,
                (true, true) => format!("not true: {}", shortened(&rule.expression, DETAIL_CHARS_MAX)),
            };
            failed.push(PlacedFault { path: String::new(), message });
        }
        failed
    }
}

/// Runs work on a thread of its own, whose stack is deep enough for every valid contract.
fn on_own_stack<A: Send>(work: impl FnOnce() -> A + Send) -> A {
    threads::on_thread("contract", STACK_BYTES, work)
}

/// Cuts a text after `chars_max` characters.
fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
