//! Rules that would apply to a request, for doors that ask.

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

impl Operations {
    /// The rules of the service in order, each with the verdict of its conditions, made into an answer where they were
    /// judged. Judges what clients with the sketch's labels see, with `draft` what is saved; changes nothing.
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
        // Many rules have many expressions to compile.
        self.scan(FAR, find, move |question| question.answer(answer)).await
    }

    /// The same of what clients see now, and of what they would see once a request for approval is carried out.
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

/// All that is needed to judge a sketch.
struct ExplainInput {
    family: Family,
    sketch: Sketch,
    judged: Vec<Candidate>,
    /// As they are saved, to be compared.
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
        tell_of_surroundings(&mut explanation, judged, &self.crowded);
        answer(&match &self.saved {
            Some(saved) => explanation.beside(&judge(*family, sketch, saved)),
            None => explanation,
        })
    }
}

/// Warnings that the instances of services give rise to, beside the id of each rule.
fn crowded(catalog: &Catalog, judged: &[Candidate]) -> Vec<(String, Vec<Warning>)> {
    let of = |candidate: &Candidate| beside::crowded(&candidate.rule, &|service| instances_of(catalog, service));
    let all = judged.iter().map(|candidate| (candidate.rule.id.clone(), of(candidate)));
    all.filter(|(_, warnings)| !warnings.is_empty()).collect()
}

/// Tells of each rule what is not carried of it for what there is beside it.
fn tell_of_surroundings(explanation: &mut Explanation<'_>, judged: &[Candidate], crowded: &[(String, Vec<Warning>)]) {
    let rules: Vec<&Rule> = explanation
        .candidates
        .iter()
        .filter_map(|one| judged.iter().map(|candidate| &*candidate.rule).find(|rule| rule.id == one.rule_id))
        .collect();
    let displaced = beside::displaced(rules);
    for candidate in &mut explanation.candidates {
        let of_instances = crowded.iter().filter(|(id, _)| id == candidate.rule_id).flat_map(|(_, warnings)| warnings);
        of_instances.for_each(|warning| candidate.carried_out_by.add(warning));
        if let Some((first, _)) = displaced.iter().find(|(_, behind)| behind.id == candidate.rule_id) {
            candidate.carried_out_by.add(&beside::second_probe(first));
        }
    }
}

/// True for calls of gRPC: of a service most of whose instances speak it, or of a client that does. Proxies beside the
/// instances, which carry out limits, go by the instances.
fn calls_grpc(catalog: &Catalog, family: Family, sketch: &Sketch) -> bool {
    let is_asked = || sketch.protocol.as_deref().is_some_and(callee::is_grpc);
    let instances = catalog.instances.all_of(&sketch.namespace, &sketch.service).map(|instance| &**instance);
    callee::speaks_grpc(instances) || (family == Family::Routing && is_asked())
}

/// One called by its alias is called by its name from here on, as rules know no aliases. An alias of a service that the
/// caller does not see is as if it were not there.
fn resolved(catalog: &Catalog, mut sketch: Sketch, read_scope: &ReadScope) -> Sketch {
    let alias = catalog.aliases.get(&sketch.namespace, &sketch.service);
    if let Some(alias) = alias.filter(|alias| read_scope.sees(&alias.namespace, &alias.service)) {
        (sketch.namespace, sketch.service) = (alias.namespace.clone(), alias.service.clone());
    }
    sketch
}

/// The rules that may be about the service that is called: as they are saved, or as its clients see them.
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

/// Rollouts that some clients of the service see and others do not. Empty for what is saved: no client sees that.
fn rollouts(catalog: &Catalog, family: Family, sketch: &Sketch, read_scope: &ReadScope) -> Vec<Rollout> {
    if sketch.draft {
        return Vec::new();
    }
    let book = catalog.rules.of(family);
    let mut rollouts = book.active().rollouts(&sketch.namespace, &sketch.service);
    rollouts.retain(|rollout| rollout.grays.iter().all(|release| book.is_seen(&release.rule, read_scope)));
    rollouts
}
