//! "Which rule takes this request, and why?": evaluates a sample request by the rules of all families, as released, for
//! the clients of canaries, and as saved, side by side.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;

use super::Console;
use super::curl;
use super::families::{IN_ORDER, family_of};
use super::fields::Fields;
use super::flash::to_result;
use super::form::Form;
use super::frame::{Frame, Section, page, page_refused};
use super::releases::called;
use super::session::SessionUser;
use super::texts::{self, Texts};
use crate::model::code::{Code, Refusal};
use crate::model::explain::{Explanation, Gray, GrayState, Part, ReleaseBrief, Sketch, Verdict};
use crate::model::rule::Family;
use crate::operations::Sides;
use crate::sentences::{self, Language};

pub(super) const PATH: &str = "/ui/explain";

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
    /// Sub-rules that apply, each with its rule, share and settings: what sides differ in.
    outcome: Vec<(String, usize, String, String)>,
    /// True if the client gets a gray release.
    is_in_canary: bool,
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
            info: in_english(language, &judged.info),
            parts: judged.rules.iter().map(|one| part(language, one)).collect(),
            enforced: sentences::enforced(language, &judged.carried_out_by),
        });
        let rules: Vec<_> = rules.collect();
        let outcome = |rule: &JudgedRule| {
            let applies = rule.parts.iter().filter(|part| part.verdict == Verdict::Applies);
            let of = |part: &JudgedPart| (rule.id.clone(), part.number, part.share.clone(), part.effect.clone());
            applies.map(of).collect::<Vec<_>>()
        };
        Judgement {
            effect: sentences::effect(language, explanation),
            outcome: rules.iter().flat_map(outcome).collect(),
            is_in_canary: explanation.grays.iter().any(|gray| gray.state == GrayState::InForce),
            info: in_english(language, &explanation.info),
            rules,
            grays: explanation.grays.iter().map(|one| gray(language, one)).collect(),
        }
    }
}

fn release_label(release: &ReleaseBrief) -> String {
    called(&release.release_name, release.version)
}

/// Returns a text that is in English only; readers of another language have the conditions.
fn in_english(language: Language, text: &str) -> String {
    if language == Language::English { text.to_owned() } else { String::new() }
}

fn gray(language: Language, gray: &Gray<'_>) -> JudgedGray {
    JudgedGray {
        rule_id: gray.rule_id.to_owned(),
        rule_name: gray.rule_name.to_owned(),
        release: release_label(&gray.release),
        state: gray.state,
        info: in_english(language, &gray.info),
        conditions: sentences::of_gray(language, gray),
    }
}

fn part(language: Language, part: &Part<'_>) -> JudgedPart {
    let apis = part.apis.iter().map(|api| (api.matched, format!("API {} {}", api.api.protocol, api.api.method)));
    let arguments = part.arguments.iter().map(|finding| (finding.matched, sentences::finding(language, finding)));
    JudgedPart {
        number: part.index + 1,
        name: part.name.to_owned(),
        verdict: part.verdict,
        share: serde_json::to_value(part.share).map(|share| share.to_string()).unwrap_or_default(),
        info: in_english(language, &part.info),
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

/// Link to the page for one family, or for all.
struct FamilyTab {
    name: &'static str,
    link: String,
    is_current: bool,
}

/// Results of one family.
struct Results {
    name: &'static str,
    kind: &'static str,
    /// Sentences on what happens to the request of this client now.
    effect: Vec<String>,
    /// Clients that get the rules that this one gets, if clients get different ones.
    audience: Option<&'static str>,
    /// True if the last side differs from those before it.
    differs: bool,
    sides: Vec<(&'static str, Judgement)>,
    grays: Vec<JudgedGray>,
    /// True if no rule of the family is for the service, released or saved.
    is_empty: bool,
}

impl Results {
    fn of(t: &'static Texts, found: Sides<Judgement>) -> Results {
        let Sides { family, mut own, audiences, saved } = found;
        let (effect, grays) = (std::mem::take(&mut own.effect), std::mem::take(&mut own.grays));
        let is_in_canary = own.is_in_canary;
        let mut results = match audiences {
            Some([live, canary]) => {
                let sides = vec![(t.explain.live, live), (t.explain.canary, canary), (t.saved, saved)];
                Results::beside(t, family, (effect, grays), sides)
            }
            None => {
                own.effect.clone_from(&effect);
                Results::beside(t, family, (effect, grays), vec![(t.released, own), (t.saved, saved)])
            }
        };
        if !results.grays.is_empty() {
            results.audience = Some(if is_in_canary { t.explain.gets_canary } else { t.explain.gets_live });
        }
        results
    }

    fn beside(
        t: &'static Texts,
        family: Family,
        (effect, grays): (Vec<String>, Vec<JudgedGray>),
        sides: Vec<(&'static str, Judgement)>,
    ) -> Results {
        let last = sides.last().map(|(_, side)| &side.outcome);
        Results {
            name: texts::family(t, family),
            kind: family.kind(),
            audience: None,
            differs: sides.iter().any(|(_, side)| Some(&side.outcome) != last),
            is_empty: grays.is_empty() && sides.iter().all(|(_, side)| side.rules.is_empty()),
            effect,
            grays,
            sides,
        }
    }
}

#[derive(Template)]
#[template(path = "explain.html")]
struct ExplainPage {
    frame: Frame,
    tabs: Vec<FamilyTab>,
    /// Address of the form's answer.
    path: String,
    /// The only family, or none for all.
    family: Option<Family>,
    query: Fields,
    results: Vec<Results>,
    /// Command that could not be read.
    command: String,
}

impl ExplainPage {
    fn of(frame: Frame, family: Option<Family>, query: Fields) -> ExplainPage {
        let tab = |one: Option<Family>| FamilyTab {
            name: one.map_or(frame.t.explain.all_families, |one| texts::family(frame.t, one)),
            link: query.with(&path_of(one), &[("request", "")]),
            is_current: one == family,
        };
        let tabs = [None].into_iter().chain(IN_ORDER.map(Some)).map(tab).collect();
        let (path, command) = (path_of(family), String::new());
        ExplainPage { frame, tabs, path, family, query, results: Vec::new(), command }
    }

    /// Returns the number of families whose saved rules would change this request.
    fn differing(&self) -> usize {
        self.results.iter().filter(|results| results.differs).count()
    }

    /// Returns the names of the families without a rule for the service.
    fn without_rules(&self) -> String {
        let names: Vec<_> = self.results.iter().filter(|one| one.is_empty).map(|one| one.name).collect();
        names.join(if self.frame.t.language() == Language::Chinese { "、" } else { ", " })
    }

    fn is_of_request(&self) -> bool {
        self.query.is_set("request")
    }
}

fn path_of(family: Option<Family>) -> String {
    family.map_or_else(|| PATH.to_owned(), |family| format!("/ui/rules/{}/explain", family.kind()))
}

pub(super) async fn show(State(console): State<Console>, visitor: SessionUser, query: Fields) -> Response {
    explained(&console, &visitor, None, query).await
}

pub(super) async fn show_family(
    State(console): State<Console>,
    visitor: SessionUser,
    Path(kind): Path<String>,
    query: Fields,
) -> Response {
    match family_of(&kind) {
        Some(family) => explained(&console, &visitor, Some(family), query).await,
        None => visitor.nowhere(),
    }
}

/// Reads a curl command into the fields. It is sent as a form, because it may hold secrets, which no address may have.
pub(super) async fn read_command(form: Form) -> Response {
    let Form { visitor, fields } = form;
    let family = family_of(fields.get("family"));
    let command = fields.raw("curl").to_owned();
    match curl::fields(&command, &fields) {
        Some(read) => to_result(&read.with(&path_of(family), &[("family", "")])),
        None => {
            let refusal = Refusal::new(Code::InvalidParameter, "curl: no URL is in the command");
            let shown = ExplainPage::of(visitor.frame(Section::Rules), family, fields);
            refused(ExplainPage { command, ..shown }, &refusal)
        }
    }
}

async fn explained(console: &Console, visitor: &SessionUser, family: Option<Family>, query: Fields) -> Response {
    let mut shown = ExplainPage::of(visitor.frame(Section::Rules), family, query);
    if !shown.query.is_set("service") {
        return page(&shown);
    }
    let sketch = match sketch(&shown.query) {
        Ok(sketch) => sketch,
        Err(refusal) => return refused(shown, &refusal),
    };
    let t = shown.frame.t;
    let language = t.language();
    let of = move |explanation: &Explanation<'_>| Judgement::of(language, explanation);
    if let (Some(id), Some(family)) = (shown.query.given("request"), family) {
        return match console.operations.explain_request(&visitor.caller, &id, (family, sketch), of).await {
            Ok([mut now, then]) => {
                let said = (now.effect.clone(), std::mem::take(&mut now.grays));
                let sides = vec![(t.in_force, now), (t.with_request, then)];
                shown.results = vec![Results::beside(t, family, said, sides)];
                page(&shown)
            }
            Err(refusal) => refused(shown, &refusal),
        };
    }
    let families = family.map_or_else(|| IN_ORDER.to_vec(), |family| vec![family]);
    match console.operations.explain_sides(&visitor.caller, families, sketch, of).await {
        Ok(found) => {
            shown.results = found.into_iter().map(|sides| Results::of(t, sides)).collect();
            page(&shown)
        }
        Err(refusal) => refused(shown, &refusal),
    }
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
