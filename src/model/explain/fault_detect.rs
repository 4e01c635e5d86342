//! Fault detection: which probes watch the instances that the request may reach.

use super::finding::{ApiFinding, is_met};
use super::sketch::Sketch;
use super::{Effect, Part, Share, Verdict, refusal};
use crate::model::rule::fault_detect::{FaultDetect, FaultDetectSubRule};
use crate::model::rule::traffic::Api;
use crate::model::rule::{Body, Rule};

pub(super) fn parts<'a>(rule: &'a Rule, body: &'a FaultDetect, sketch: &'a Sketch) -> Vec<Part<'a>> {
    let probes = match &rule.as_clients_see().body {
        Body::FaultDetect(seen) => seen.rules.clone(),
        _ => Vec::new(),
    };
    let numbered = probes.into_iter().enumerate();
    numbered.map(|(index, probe)| part(rule.enable, index, probe, body, sketch)).collect()
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
    let info = refusal(verdict, Some(objection.into())).unwrap_or_else(|| shown(&probe));
    let share = if verdict == Verdict::Applies { Share::ALL } else { Share::NONE };
    Part { index, name: "", verdict, share, info, apis, arguments: Vec::new(), effect: Effect::Probe(Box::new(probe)) }
}

fn api_of(body: &FaultDetect) -> Option<&Api> {
    body.target_service.as_ref()?.api.as_ref()
}

/// True if the request is for the interface that the rule is for. A request without method and path
/// is about the service as a whole, all interfaces included.
fn is_watched(body: &FaultDetect, apis: &[ApiFinding<'_>], sketch: &Sketch) -> bool {
    let method = body.target_service.as_ref().and_then(|target| target.method.as_ref());
    let is_whole = sketch.method.is_none() && sketch.path.is_none();
    is_whole || (apis.iter().all(|api| api.matched) && is_met(method, sketch.method.as_deref()))
}

fn shown(probe: &FaultDetectSubRule) -> String {
    use crate::model::wire::Words;
    let port = match probe.port.0 {
        0 => "the port of each instance".to_owned(),
        port => format!("port {port}"),
    };
    format!("probes {port} by {} every {} s", probe.protocol.word(), probe.interval.0)
}

pub(super) fn summary(count: usize) -> String {
    match count {
        0 => "no probe watches the instances of the service".into(),
        1 => "one probe watches the instances of the service".into(),
        _ => format!("{count} probes watch the instances of the service"),
    }
}
