//! Explanation of the rules that apply to a request.

use std::collections::BTreeMap;

use super::reach::on_service;
use super::rules::instances_of;
use super::{Caller, FAR, Operations};
use crate::catalog::Catalog;
use crate::catalog::approvals::FailedAction;
use crate::catalog::page::Page;
use crate::catalog::rules::RuleFilter;
use crate::model::code::{Code, Refusal};
use crate::model::explain::{Candidate, Explanation, Rollout, Sketch, explain as judge};
use crate::model::grant::ReadScope;
use crate::model::mesh::warning::Warning;
use crate::model::mesh::{beside, callee};
use crate::model::rule::{Family, Rule};
use crate::model::text::NameFilter;
use crate::polaris::carried::SdkExtent;
use crate::sentences::{self, Language};

impl Operations {
    /// Evaluates the rules of a service in order against a sketched request, and makes the answer on the same thread.
    /// Uses the rules that clients with the sketch's labels see, or the saved ones if `draft` is set.
    pub async fn explain<A: Send + 'static>(
        &self,
        caller: &Caller,
        family: Family,
        sketch: Sketch,
        answer: impl FnOnce(&Explanation<'_>) -> A + Send + 'static,
    ) -> Result<A, Refusal> {
        sketch.check()?;
        let read_scope = caller.read_scope();
        let find = move |catalog: &Catalog| ExplainInput::of(catalog, family, sketch, &read_scope);
        // A rule may have many expressions to compile.
        self.scan(FAR, find, move |question| question.answer(answer)).await
    }

    /// Explains a request by each of these families, for all clients that may get different rules, and by saved rules.
    pub async fn explain_sides<A: Send + 'static>(
        &self,
        caller: &Caller,
        families: Vec<Family>,
        sketch: Sketch,
        answer: impl Fn(&Explanation<'_>) -> A + Send + 'static,
    ) -> Result<Vec<Sides<A>>, Refusal> {
        sketch.check()?;
        let read_scope = caller.read_scope();
        let find = move |catalog: &Catalog| {
            let sides = |family: &Family| SidesInput::of(catalog, *family, &sketch, &read_scope);
            families.iter().map(sides).collect::<Vec<_>>()
        };
        let judge = move |found: Vec<SidesInput>| found.iter().map(|sides| sides.answer(&answer)).collect();
        self.scan(FAR, find, judge).await
    }

    /// Explains both the present rules and those that would be in force once a request for approval is carried out.
    pub async fn explain_request<A: Send + 'static>(
        &self,
        caller: &Caller,
        id: &str,
        (family, sketch): (Family, Sketch),
        answer: impl Fn(&Explanation<'_>) -> A + Send + 'static,
    ) -> Result<[A; 2], Refusal> {
        sketch.check()?;
        let (read_scope, id, now) = (caller.read_scope(), id.to_owned(), self.node.state().catalog().clock());
        let find = move |catalog: &Catalog| {
            let found = catalog.approvals.get(&id).filter(|request| request.state.is_pending());
            let seen = found.filter(|request| request.is_seen_by(&read_scope));
            let request = seen.ok_or_else(|| Refusal::new(Code::NotFoundResource, "no request of this id waits"))?;
            let undone = |FailedAction { id, why }| {
                let act = catalog.approvals.get(&id).filter(|one| one.is_seen_by(&read_scope));
                let why = act.map(|one| format!("{} of {}/{}: {why}", one.act.word(), one.namespace, one.name));
                Refusal::new(
                    Code::DataConflict,
                    why.unwrap_or_else(|| "the request could not be carried out".to_owned()),
                )
            };
            let then = catalog.with_request(request, now).map_err(undone)?;
            Ok([catalog, &then].map(|catalog| ExplainInput::of(catalog, family, sketch.clone(), &read_scope)))
        };
        let judge =
            move |found: Result<[ExplainInput; 2], Refusal>| Ok(found?.map(|question| question.answer(&answer)));
        self.scan(FAR, find, judge).await?
    }
}

/// Explanations of a request by the rules of one family, side by side.
pub struct Sides<A> {
    pub family: Family,
    /// Explanation by the released rules that the client of the sketch gets.
    pub own: A,
    /// Explanations for clients outside of every canary, and for clients within them; `None` without a canary.
    pub audiences: Option<[A; 2]>,
    pub saved: A,
}

struct SidesInput {
    own: ExplainInput,
    audiences: Option<[ExplainInput; 2]>,
    saved: ExplainInput,
}

impl SidesInput {
    fn of(catalog: &Catalog, family: Family, sketch: &Sketch, read_scope: &ReadScope) -> SidesInput {
        let input = |sketch: Sketch| ExplainInput::of(catalog, family, sketch, read_scope);
        let own = input(Sketch { draft: false, ..sketch.clone() });
        let audiences = (!own.rollouts.is_empty()).then(|| {
            let outside = || input(Sketch { draft: false, client_labels: BTreeMap::new(), ..sketch.clone() });
            let (live, mut canary) = (outside(), outside());
            canary.judged = in_canaries(canary.judged, &canary.rollouts);
            canary.crowded = crowded(catalog, &canary.judged);
            [live, canary]
        });
        SidesInput { own, audiences, saved: input(Sketch { draft: true, ..sketch.clone() }) }
    }

    fn answer<A>(&self, answer: &impl Fn(&Explanation<'_>) -> A) -> Sides<A> {
        Sides {
            family: self.own.family,
            own: self.own.answer(answer),
            audiences: self.audiences.as_ref().map(|both| both.each_ref().map(|one| one.answer(answer))),
            saved: self.saved.answer(answer),
        }
    }
}

/// Returns the rules of a client that is within every canary: the newest one of each rule.
fn in_canaries(mut live: Vec<Candidate>, rollouts: &[Rollout]) -> Vec<Candidate> {
    for gray in rollouts.iter().filter_map(|rollout| rollout.grays.first()) {
        live.retain(|candidate| candidate.rule.id != gray.rule.id);
        live.push(Candidate::released(gray));
    }
    live
}

/// Input of an explanation.
struct ExplainInput {
    family: Family,
    sketch: Sketch,
    judged: Vec<Candidate>,
    /// Saved rules, if the sketch requests a comparison with them.
    saved: Option<Vec<Candidate>>,
    rollouts: Vec<Rollout>,
    crowded: Vec<(String, Vec<Warning>)>,
    of_service: Vec<String>,
}

impl ExplainInput {
    fn of(catalog: &Catalog, family: Family, sketch: Sketch, read_scope: &ReadScope) -> ExplainInput {
        let mut sketch = resolved(catalog, sketch, read_scope);
        sketch.is_grpc_called = calls_grpc(catalog, family, &sketch);
        let judged = candidates(catalog, family, &sketch, sketch.draft, read_scope);
        let saved = sketch.diff.then(|| candidates(catalog, family, &sketch, true, read_scope));
        let rollouts = rollouts(catalog, family, &sketch, read_scope);
        let crowded = crowded(catalog, &judged);
        let of_service = on_service(catalog, &sketch.namespace, &sketch.service, read_scope);
        ExplainInput { family, sketch, judged, saved, rollouts, crowded, of_service }
    }

    fn answer<A>(&self, answer: impl FnOnce(&Explanation<'_>) -> A) -> A {
        let ExplainInput { family, sketch, judged, rollouts, .. } = self;
        let mut explanation = judge(*family, sketch, judged).with_grays(sketch, rollouts);
        explanation.warnings.clone_from(&self.of_service);
        add_surroundings(&mut explanation, judged, &self.crowded);
        explanation.effect = sentences::effect(Language::English, &explanation);
        for candidate in &mut explanation.candidates {
            candidate.enforced_by = sentences::enforced(Language::English, &candidate.carried_out_by);
        }
        answer(&match &self.saved {
            Some(saved) => explanation.beside(&judge(*family, sketch, saved)),
            None => explanation,
        })
    }
}

/// Returns the warnings caused by the instances of each rule's services, with the rule's id.
fn crowded(catalog: &Catalog, judged: &[Candidate]) -> Vec<(String, Vec<Warning>)> {
    let of = |candidate: &Candidate| beside::crowded(&candidate.rule, &|service| instances_of(catalog, service));
    let all = judged.iter().map(|candidate| (candidate.rule.id.clone(), of(candidate)));
    all.filter(|(_, warnings)| !warnings.is_empty()).collect()
}

/// Adds to each rule the warnings caused by instances and by other rules.
fn add_surroundings(explanation: &mut Explanation<'_>, judged: &[Candidate], crowded: &[(String, Vec<Warning>)]) {
    let rules: Vec<&Rule> = explanation
        .candidates
        .iter()
        .filter_map(|one| judged.iter().map(|candidate| &*candidate.rule).find(|rule| rule.id == one.rule_id))
        .collect();
    let displaced = beside::displaced(rules);
    for candidate in &mut explanation.candidates {
        SdkExtent::of(candidate.rule).add_to(&mut candidate.carried_out_by);
        let of_instances = crowded.iter().filter(|(id, _)| id == candidate.rule_id).flat_map(|(_, warnings)| warnings);
        of_instances.for_each(|warning| candidate.carried_out_by.add(warning));
        if let Some((first, _)) = displaced.iter().find(|(_, behind)| behind.id == candidate.rule_id) {
            candidate.carried_out_by.add(&beside::second_probe(first));
        }
    }
}

/// Reports whether the call is a gRPC call: most instances of the service speak gRPC, or the client does. Limits are
/// carried out by the proxies of the instances, so for them only the instances count.
fn calls_grpc(catalog: &Catalog, family: Family, sketch: &Sketch) -> bool {
    let is_asked = || sketch.protocol.as_deref().is_some_and(callee::is_grpc);
    let instances = catalog.instances.all_of(&sketch.namespace, &sketch.service).map(|instance| &**instance);
    callee::speaks_grpc(instances) || (family == Family::Routing && is_asked())
}

/// Replaces an alias by the name of its service, as rules do not know aliases. An alias of a service that the caller
/// does not see counts as absent.
fn resolved(catalog: &Catalog, mut sketch: Sketch, read_scope: &ReadScope) -> Sketch {
    let alias = catalog.aliases.get(&sketch.namespace, &sketch.service);
    if let Some(alias) = alias.filter(|alias| read_scope.sees(&alias.namespace, &alias.service)) {
        (sketch.namespace, sketch.service) = (alias.namespace.clone(), alias.service.clone());
    }
    sketch
}

/// Returns the rules that may concern the called service: the saved ones, or those that its clients see.
fn candidates(
    catalog: &Catalog,
    family: Family,
    sketch: &Sketch,
    as_saved: bool,
    read_scope: &ReadScope,
) -> Vec<Candidate> {
    let book = catalog.rules.of(family);
    if as_saved {
        let service = Some(NameFilter::Exact(sketch.service.clone()));
        let saved =
            book.list(&RuleFilter { service, read_scope: read_scope.clone(), ..RuleFilter::default() }, &Page::ALL);
        return saved.rows.into_iter().map(Candidate::saved).collect();
    }
    let seen = book.active().of_service(&sketch.namespace, &sketch.service, |key| sketch.client_label(key));
    let seen = seen.iter().filter(|release| book.is_seen(&release.rule, read_scope));
    seen.map(|release| Candidate::released(release)).collect()
}

/// Returns the gray releases of the service that only some of its clients get. Empty for saved rules.
fn rollouts(catalog: &Catalog, family: Family, sketch: &Sketch, read_scope: &ReadScope) -> Vec<Rollout> {
    if sketch.draft {
        return Vec::new();
    }
    let book = catalog.rules.of(family);
    let mut rollouts = book.active().rollouts(&sketch.namespace, &sketch.service);
    rollouts.retain(|rollout| rollout.grays.iter().all(|release| book.is_seen(&release.rule, read_scope)));
    rollouts
}
