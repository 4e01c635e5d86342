//! Refusals by a node as plain sentences: the reason, the next step, and the code in brackets.

use std::fmt;

use serde_json::Value;
use thuban_model::code::Code;

use super::errors::Usage;

/// Code for an act that now awaits approval.
const REQUEST_ACCEPTED: u64 = 202_000;
/// Code for a missing leader: nothing was changed, and another node may have one.
pub(super) const NO_LEADER: u64 = 503_001;
/// Lowest code of a fault of the server; smaller ones describe the request.
pub(super) const SERVER_FAULTS: u64 = 500_000;

/// Refusal by a node.
#[derive(Debug)]
pub struct Refused {
    pub code: u64,
    info: String,
    /// Next step that replaces the general one for the code.
    hint: Option<String>,
}

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { code, info, hint } = self;
        let sentence = sentence(*code, info);
        match hint {
            Some(hint) => write!(f, "{sentence}: {hint} ({code})"),
            None => write!(f, "{sentence}{} ({code})", advice(*code, info)),
        }
    }
}

impl Refused {
    pub(super) fn new(code: u64, info: &str) -> Self {
        Refused { code, info: info.to_owned(), hint: None }
    }

    /// Replaces the general next step.
    pub(super) fn with_hint(self, hint: impl Into<String>) -> Self {
        Refused { hint: Some(hint.into()), ..self }
    }

    /// Returns the error for a batch in which some of `all` items were refused, each already reported.
    pub(super) fn some(count: usize, all: usize) -> Self {
        let info = match all.saturating_sub(count) {
            0 if all == 1 => "it was refused, nothing was changed".to_owned(),
            0 => format!("all {all} were refused, nothing was changed"),
            1 => format!("{count} of {all} were refused, the other one is done"),
            done => format!("{count} of {all} were refused, the other {done} are done"),
        };
        Refused::new(400_000, &info)
    }

    /// Returns the error for a named object that does not exist.
    pub(super) fn missing(what: &str) -> Self {
        Refused::new(400_202, &format!("there is no {what}"))
    }

    /// Returns the refusal of one item of a batch, if it was refused.
    pub(super) fn of(item: &Value) -> Option<Self> {
        let code = item["code"].as_u64().unwrap_or_default();
        (!is_done(code)).then(|| Refused::new(code, item["info"].as_str().unwrap_or("refused")))
    }
}

/// Reports whether a code means that the change is made, was made before, or awaits approval.
pub(super) fn is_done(code: u64) -> bool {
    (200_000..201_000).contains(&code) || code == REQUEST_ACCEPTED
}

/// Reports whether a repetition would end in the same way: the request is wrong, or a node refused it for another
/// reason than its load.
pub(super) fn is_final(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<Refused>().map(|refused| refused.code);
    error.is::<Usage>() || code.is_some_and(|code| code < SERVER_FAULTS && code / 1000 != 429)
}

/// Returns the reason as a sentence. A node's text begins with that of its code, which is left out if the rest is a
/// sentence of its own.
fn sentence(code: u64, info: &str) -> String {
    let general = u32::try_from(code).ok().and_then(Code::of_number).map(Code::info);
    let detail = general.and_then(|general| info.strip_prefix(general)?.strip_prefix(": "));
    match (code, detail) {
        (401_001, Some(detail)) if detail.contains("password") => detail.to_owned(),
        (401_001, Some(detail)) => format!("not permitted: {detail}"),
        (401_001, None) if general == Some(info) => "not permitted".to_owned(),
        (401_002, None) => "the request had no token".to_owned(),
        (401_004, None) => "the token is unknown, expired or revoked".to_owned(),
        (409_001, Some(detail)) => format!("approval is required: {detail}"),
        (409_002, Some(detail)) => format!("frozen {detail}"),
        (400_201, None) if general == Some(info) => "there is an object of this name".to_owned(),
        (400_201 | 400_203 | 400_204 | 400_210 | 400_219 | 400_220, Some(detail)) => detail.to_owned(),
        (400_000 | 400_103 | 400_202 | 400_301 | 400_303 | 400_304 | 409_000, Some(detail)) => detail.to_owned(),
        (401_004 | 503_007, Some(detail)) => detail.to_owned(),
        _ => info.to_owned(),
    }
}

/// Returns a hint for the next step.
fn advice(code: u64, info: &str) -> &'static str {
    match code {
        // A wrong password is not a missing grant.
        401_001 if info.contains("password") => "",
        401_001 if info.contains("no binding") => {
            ": an administrator adds a binding to the identity provider, or a grant"
        }
        401_002 | 401_004 => ": log in, `thuban login --save` keeps the token in the context",
        401_001 => ": it takes a grant, `thuban role list` shows the roles",
        400_202 if info.contains("release") => ": `thuban history` lists the releases, -n selects the namespace",
        400_202 if info.contains("no request") => ": `thuban requests` lists those that wait",
        400_202 if info.contains("no user/") => ": `thuban user list` lists the users",
        400_202 if info.contains("no token/") => ": `thuban token list` lists the tokens",
        400_202 if info.contains("no provider/") => ": `thuban get providers` lists the identity providers",
        400_202 if info.contains("no identity/") => ": `thuban identity list` lists the people",
        400_202 => ": `thuban get` lists what there is, -n selects the namespace",
        409_000 => ": look at it as it is now (`thuban get`, `thuban diff`), and try again",
        409_001 => ": --request WHY asks for it, `thuban policy list` shows who asks for what",
        409_002 => ": try again after that, or --request WHY has it ready by then",
        // The message already names /readyz, and the members were the subject of the call.
        NO_LEADER if info.contains("/readyz") => "",
        NO_LEADER => ": nothing happened; `thuban cluster status` shows the members, try again",
        503_003 => ": nothing happened; upgrade the member first",
        503_007 => ": nothing happened, try again",
        504_001 => ": look whether it happened before you try again",
        507_001 => ": nothing happened; free disk, memory or quota, `thuban cluster status` shows the alarm",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_final_unless_it_is_for_load() {
        let refused = |code| anyhow::Error::from(Refused::new(code, ""));
        for (error, expected) in [
            (refused(401_001), true),
            (refused(400_140), true),
            (refused(429_003), false),
            (refused(503_001), false),
            (Usage("wrong".to_owned()).into(), true),
            (anyhow::anyhow!("connection refused"), false),
        ] {
            assert_eq!(is_final(&error), expected, "{error}");
        }
    }

    #[test]
    fn a_refusal_is_a_sentence_with_its_code_at_the_end() {
        for (code, info, begin) in [
            (400_202, "not found resource: there is no ratelimit a in namespace b", "there is no ratelimit a in"),
            (400_202, "not found resource", "not found resource"),
            (400_103, "invalid parameter: name is required", "name is required"),
            (400_201, "existed resource", "there is an object of this name"),
            (400_201, "existed resource: user/ann exists already", "user/ann exists already (400201)"),
            (400_203, "some services existed in namespace: namespace/a still has services", "namespace/a still has"),
            (400_813, "config file content does not match its format: line 2", "config file content does not match"),
            (401_001, "access is not approved: this needs edit on shop / pay", "not permitted: this needs edit"),
            (401_001, "access is not approved: name or password is wrong", "name or password is wrong (401001)"),
            (401_001, "access is not approved", "not permitted: it takes a grant"),
            (
                401_001,
                "access is not approved: signed in as corp:ann, but no binding gives it a right",
                "not permitted: signed in as corp:ann, but no binding gives it a right: an administrator",
            ),
            (401_004, "token not existed", "the token is unknown, expired or revoked: log in"),
            (409_000, "data is conflict: another by now", "another by now: look at it"),
            (409_001, "approval is required, nothing was changed: p asks for 1", "approval is required: p asks for 1"),
            (409_002, "frozen, nothing was changed: by p until t: c", "frozen by p until t: c: try again"),
            (
                503_007,
                "an identity provider is out of reach, nothing was changed, it is safe to retry: identity provider \
                 corp does not answer: no answer",
                "identity provider corp does not answer: no answer: nothing happened",
            ),
            (401_004, "token not existed: `aud` names others", "`aud` names others: log in"),
            (299_000, "of a later version", "of a later version (299000)"),
        ] {
            let told = Refused::new(code, info).to_string();
            assert!(told.starts_with(begin) && told.ends_with(&format!(" ({code})")), "{told}");
        }
    }

    #[test]
    fn a_hint_replaces_the_general_advice() {
        let refused = Refused::new(409_002, "frozen, nothing was changed: by p until t").with_hint("run it then");
        assert_eq!(refused.to_string(), "frozen by p until t: run it then (409002)");
    }

    #[test]
    fn the_advice_lists_objects_of_the_kind() {
        for (what, command) in [
            ("ratelimit/a in b", "`thuban get`"),
            ("earlier release of ratelimit/a in b", "`thuban history`"),
            ("request 0123", "`thuban requests`"),
            ("user/ann", "`thuban user list`"),
            ("token/ci", "`thuban token list`"),
            ("provider/corp", "`thuban get providers`"),
            ("identity/corp/1", "`thuban identity list`"),
        ] {
            let told = Refused::missing(what).to_string();
            assert!(told.contains(&format!("there is no {what}: {command} lists")), "{told}");
        }
    }

    #[test]
    fn refusals_of_a_batch_are_counted() {
        for (refused, all, words) in [
            (1, 1, "it was refused, nothing was changed"),
            (3, 3, "all 3 were refused, nothing was changed"),
            (1, 2, "1 of 2 were refused, the other one is done"),
            (2, 5, "2 of 5 were refused, the other 3 are done"),
        ] {
            assert_eq!(Refused::some(refused, all).to_string(), format!("{words} (400000)"));
        }
    }

    #[test]
    fn an_item_that_is_done_is_no_refusal() {
        assert!(Refused::of(&json!({ "code": 200_000 })).is_none());
        let stale = Refused::of(&json!({ "code": 409_000, "info": "another by now" })).expect("refused");
        assert_eq!(stale.to_string(), format!("another by now{} (409000)", advice(409_000, "")));
    }
}
