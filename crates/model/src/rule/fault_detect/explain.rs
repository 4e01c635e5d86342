//! Explanation of fault detection: which probes watch the instances that the request may reach.
//!
//! Each matching probe watches them. A request without method and path concerns the whole service, so the API of a
//! probe is not compared.

use super::{FaultDetect, FaultDetectSubRule};
use crate::model::explain::{ApiFinding, Applied, Explained, Part, Share, Sketch, Taken, Verdict, is_met, refusal};
use crate::model::rule::traffic::Api;
use crate::model::rule::{Body, Rule, SubRuleEffect};

impl Explained for FaultDetect {
    fn parts<'a>(&'a self, rule: &'a Rule, sketch: &'a Sketch, _: &mut Taken) -> Vec<Part<'a>> {
        let probes = match &rule.as_clients_see().body {
            Body::FaultDetect(seen) => seen.rules.clone(),
            _ => Vec::new(),
        };
        let numbered = probes.into_iter().enumerate();
        numbered.map(|(index, probe)| part(rule.enable, index, probe, self, sketch)).collect()
    }

    fn summary(applies: &[Applied<'_>], _: &Taken) -> String {
        match applies.len() {
            0 => "no probe watches the instances of the service".into(),
            1 => "one probe watches the instances of the service".into(),
            count => format!("{count} probes watch the instances of the service"),
        }
    }
}

fn part<'a>(
    rule_is_on: bool,
    index: usize,
    probe: FaultDetectSubRule,
    body: &'a FaultDetect,
    sketch: &Sketch,
) -> Part<'a> {
    let apis: Vec<ApiFinding> = api_of(body).map(|api| ApiFinding::of(api, sketch)).into_iter().collect();
    let verdict = Verdict::of(rule_is_on && !probe.disable, is_watched(body, &apis, sketch), true);
    let objection = "the probe is for another interface of the service";
    let info = refusal(verdict, Some(objection.into())).unwrap_or_else(|| summary(&probe));
    let share = if verdict == Verdict::Applies { Share::ALL } else { Share::NONE };
    let effect = SubRuleEffect::Probe(Box::new(probe));
    Part { index, name: "", verdict, share, info, apis, arguments: Vec::new(), effect }
}

fn api_of(body: &FaultDetect) -> Option<&Api> {
    body.target_service.as_ref()?.api.as_ref()
}

/// Reports whether the request is for the interface of the rule. A request without method and path concerns the whole
/// service with all its interfaces.
fn is_watched(body: &FaultDetect, apis: &[ApiFinding<'_>], sketch: &Sketch) -> bool {
    let method = body.target_service.as_ref().and_then(|target| target.method.as_ref());
    let is_whole = sketch.method.is_none() && sketch.path.is_none();
    is_whole || (apis.iter().all(|api| api.matched) && is_met(method, sketch.method.as_deref()))
}

fn summary(probe: &FaultDetectSubRule) -> String {
    use crate::model::wire::Words;
    let port = match probe.port.0 {
        0 => "the port of each instance".to_owned(),
        port => format!("port {port}"),
    };
    format!("probes {port} by {} every {} s", probe.protocol.word(), probe.interval.0)
}
