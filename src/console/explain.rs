//! "Which rule takes this request, and why?": evaluates a sample request against released and saved rules, side by
//! side.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;

use super::Console;
use super::families::{Tab, family_of, tabs};
use super::fields::Fields;
use super::frame::{Frame, Section, page, page_refused};
use super::releases::called;
use super::session::SessionUser;
use super::texts::Texts;
use crate::model::code::{Code, Refusal};
use crate::model::explain::{Explanation, Gray, GrayState, Part, ReleaseBrief, Sketch, Verdict};
use crate::sentences::{self, Language};

/// A rule with its verdict.
struct JudgedRule {
    id: String,
    name: String,
    release: String,
    verdict: Verdict,
    info: String,
    parts: Vec<JudgedPart>,
    /// Kinds of xDS clients that enforce it, in one line.
    enforced: String,
}

struct JudgedPart {
    /// Position, from 1.
    number: usize,
    name: String,
    verdict: Verdict,
    share: String,
    info: String,
    /// Conditions: whether each is met, and why.
    conditions: Vec<(bool, String)>,
    /// Settings in JSON.
    effect: String,
}

/// A gray release with its effect on the client.
struct JudgedGray {
    rule_id: String,
    rule_name: String,
    release: String,
    state: GrayState,
    info: String,
    /// Conditions on the client: whether each is met, and why.
    conditions: Vec<(bool, String)>,
}

/// Result of one side: released rules, or saved rules.
struct Judgement {
    /// Sentences on what happens to the request.
    effect: Vec<String>,
    info: String,
    rules: Vec<JudgedRule>,
    /// Gray releases, if some clients get a different rule.
    grays: Vec<JudgedGray>,
}

impl Judgement {
    fn of(language: Language, explanation: &Explanation<'_>) -> Judgement {
        let rules = explanation.candidates.iter().map(|judged| JudgedRule {
            id: judged.rule_id.to_owned(),
            name: judged.rule_name.to_owned(),
            release: judged.release.map(release_label).unwrap_or_default(),
            verdict: judged.verdict,
            info: judged.info.clone(),
            parts: judged.rules.iter().map(part).collect(),
            enforced: sentences::enforced(language, &judged.carried_out_by),
        });
        let grays = explanation.grays.iter().map(gray).collect();
        let effect = sentences::effect(language, explanation);
        Judgement { effect, info: explanation.info.clone(), rules: rules.collect(), grays }
    }
}

fn release_label(release: &ReleaseBrief) -> String {
    called(&release.release_name, release.version)
}

fn gray(gray: &Gray<'_>) -> JudgedGray {
    JudgedGray {
        rule_id: gray.rule_id.to_owned(),
        rule_name: gray.rule_name.to_owned(),
        release: release_label(&gray.release),
        state: gray.state,
        info: gray.info.clone(),
        conditions: gray.findings().map(|(matched, info)| (matched, info.to_owned())).collect(),
    }
}

fn part(part: &Part<'_>) -> JudgedPart {
    let apis = part.apis.iter().map(|api| (api.matched, format!("API {} {}", api.api.protocol, api.api.method)));
    let arguments = part.arguments.iter().map(|finding| (finding.matched, finding.info.clone()));
    JudgedPart {
        number: part.index + 1,
        name: part.name.to_owned(),
        verdict: part.verdict,
        share: serde_json::to_value(part.share).map(|share| share.to_string()).unwrap_or_default(),
        info: part.info.clone(),
        conditions: apis.chain(arguments).collect(),
        effect: serde_json::to_string_pretty(&part.effect).unwrap_or_default(),
    }
}

/// Returns the colour class of a verdict.
fn badge(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Applies => "good",
        Verdict::Shadowed | Verdict::Empty => "warn",
        Verdict::Disabled | Verdict::NotMatched => "",
    }
}

fn word(verdict: &Verdict, t: &Texts) -> &'static str {
    match verdict {
        Verdict::Applies => t.applies,
        Verdict::Shadowed => t.shadowed,
        Verdict::Empty => t.empty_rule,
        Verdict::Disabled => t.disabled,
        Verdict::NotMatched => t.not_matched,
    }
}

fn gray_badge(state: &GrayState) -> &'static str {
    match state {
        GrayState::InForce => "good",
        GrayState::Shadowed => "warn",
        GrayState::NotMatched => "",
    }
}

fn gray_word(state: &GrayState, t: &Texts) -> &'static str {
    match state {
        GrayState::InForce => t.in_force,
        GrayState::Shadowed => t.shadowed,
        GrayState::NotMatched => t.not_matched,
    }
}

#[derive(Template)]
#[template(path = "explain.html")]
struct ExplainPage {
    frame: Frame,
    tabs: Vec<Tab>,
    kind: &'static str,
    query: Fields,
    /// Both sides: released, then saved rules; for an approval request the active release, then the requested one.
    sides: Vec<(&'static str, Judgement)>,
}

pub(super) async fn show(
    State(console): State<Console>,
    visitor: SessionUser,
    Path(kind): Path<String>,
    query: Fields,
) -> Response {
    let Some(family) = family_of(&kind) else { return visitor.nowhere() };
    let frame = visitor.frame(Section::Rules);
    let mut shown = ExplainPage { tabs: tabs(frame.t, family), kind: family.kind(), frame, query, sides: Vec::new() };
    if !shown.query.is_set("service") {
        return page(&shown);
    }
    let sketch = match sketch(&shown.query) {
        Ok(sketch) => sketch,
        Err(refusal) => return refused(shown, &refusal),
    };
    let language = shown.frame.t.language();
    let of = move |explanation: &Explanation<'_>| Judgement::of(language, explanation);
    if let Some(id) = shown.query.given("request") {
        let about = (family, sketch);
        return match console.operations.explain_request(&visitor.caller, &id, about, of).await {
            Ok([now, then]) => {
                shown.sides = vec![(shown.frame.t.in_force, now), (shown.frame.t.with_request, then)];
                page(&shown)
            }
            Err(refusal) => refused(shown, &refusal),
        };
    }
    for (name, draft) in [(shown.frame.t.released, false), (shown.frame.t.saved, true)] {
        match console.operations.explain(&visitor.caller, family, Sketch { draft, ..sketch.clone() }, of).await {
            Ok(side) => shown.sides.push((name, side)),
            Err(refusal) => return refused(shown, &refusal),
        }
    }
    page(&shown)
}

fn refused(shown: ExplainPage, refusal: &Refusal) -> Response {
    page_refused(refusal.code, &ExplainPage { frame: shown.frame.refused(refusal), ..shown })
}

/// Parses a sample request; headers and the like are one per line.
fn sketch(query: &Fields) -> Result<Sketch, Refusal> {
    let lines = |key: &str| query.get(key).lines().map(|line| pair(key, line)).collect::<Result<_, _>>();
    Ok(Sketch {
        service: query.get("service").to_owned(),
        namespace: query.get("namespace").to_owned(),
        protocol: query.given("protocol"),
        method: query.given("method"),
        path: query.given("path"),
        headers: lines("headers")?,
        query: lines("query")?,
        cookies: lines("cookies")?,
        labels: lines("labels")?,
        caller_ip: query.given("caller_ip"),
        caller_service: query.given("caller_service"),
        caller_namespace: query.given("caller_namespace"),
        caller_metadata: lines("caller_metadata")?,
        client_labels: lines("client_labels")?,
        ..Sketch::default()
    })
}

fn pair(key: &str, line: &str) -> Result<(String, String), Refusal> {
    let why = || Refusal::new(Code::InvalidParameter, format!("{key}: {line:?} has to be name=value, a line for each"));
    let (name, value) = line.split_once('=').ok_or_else(why)?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_sketched_in_lines() {
        let sketch = sketch(&Fields::parse(b"service=pay&namespace=shop&headers=x%3D1%0Ay+%3D+a%3Db&method=GET"));
        let sketch = sketch.expect("a sketch");
        assert_eq!((sketch.headers["x"].as_str(), sketch.headers["y"].as_str()), ("1", "a=b"));
        assert_eq!((sketch.method.as_deref(), sketch.path), (Some("GET"), None));
        assert!(super::sketch(&Fields::parse(b"headers=x")).is_err());
    }
}
