//! For `fuzzing` of the package `thuban`: every contract ends in time on every content.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{ContractDocument, ValidationSubject, compile, judge};
use crate::model::config_file::Format;
use crate::model::contract::{Contract, ContractDraft, ContractRule};
use crate::model::limits;
use crate::model::policy::PolicyKind;

/// Time limit for compiling a contract and for checking a content, on any machine.
const LIMIT: Duration = Duration::from_secs(5);

/// Returns true if the contract in the input is valid. The input is a letter for the format, a schema or an expression,
/// a NUL and a content.
pub fn judge_input(input: &[u8]) -> bool {
    let Some((letter, rest)) = input.split_first() else { return false };
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let (Some(contract), Some(content)) = (parts.next(), parts.next()) else { return false };
    let (Ok(contract), Ok(content)) = (str::from_utf8(contract), str::from_utf8(content)) else { return false };
    let format = match letter {
        b'j' => Format::Json,
        b'y' => Format::Yaml,
        b't' => Format::Toml,
        b'p' => Format::Properties,
        _ => Format::Text,
    };
    let draft = match serde_json::from_str(contract) {
        Ok(schema) => ContractDraft { schema: Some(schema), ..ContractDraft::default() },
        Err(_) => {
            let rule = ContractRule { expression: contract.to_owned(), message: String::new() };
            ContractDraft { rules: Some(vec![rule]), ..ContractDraft::default() }
        }
    };
    let draft = ContractDraft { name: "c".to_owned(), ..draft };
    if draft.check_new().is_err() {
        return false;
    }
    let mut kept = Contract::new("c");
    draft.lay_over(&mut kept);
    let begun = Instant::now();
    let compiled = compile(Arc::new(kept));
    assert!(begun.elapsed() < LIMIT, "it took {:?} to read the contract", begun.elapsed());
    let Ok(compiled) = compiled else { return false };
    let document = |text: &str| ContractDocument::File { format, text: text.to_owned(), is_sealed: false };
    let subject = ValidationSubject {
        kind: PolicyKind::ConfigFile,
        namespace: "n".to_owned(),
        name: "g/f".to_owned(),
        user: "u".to_owned(),
        new: document(content),
        old: Some(document("{}")),
        may_see: true,
    };
    let begun = Instant::now();
    let compiled = Arc::new(compiled);
    let broken = judge(std::slice::from_ref(&compiled.contract), &|_| compiled.clone(), &subject);
    assert!(begun.elapsed() < LIMIT, "it took {:?} to judge the content", begun.elapsed());
    assert!(broken.len() <= limits::CONTRACT_FAULTS_MAX && broken.iter().all(|one| one.path.starts_with('/')));
    true
}
