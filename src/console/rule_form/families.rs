//! The sentences of the four families, with slots for what is set most.

use super::line::{FormBlock, FormBuilder, FormLine, FormPiece};
use crate::model::rule::Family;

const SERVICES: &str = "offer-services";
const NAMESPACES: &str = "offer-namespaces";

/// Adds the lines of a rule of one family, after its head.
type AddLines = fn(&mut FormBuilder<'_>, Vec<FormPiece>);

/// Families with sentences; the form of any other has its fields only.
const SENTENCES: [(Family, AddLines); 4] = [
    (Family::RateLimit, limits),
    (Family::Routing, routes),
    (Family::CircuitBreaker, breakers),
    (Family::FaultDetect, probes),
];

/// Adds the lines of a rule; what they do not have is left to the rest of the form.
pub(super) fn tell(form: &mut FormBuilder<'_>, family: Family) {
    let f = &form.t.form;
    let name = ("name", form.text("/name", ""));
    let namespace = ("namespace", form.text("/namespace", NAMESPACES));
    let enable = ("enable", form.switch("/enable"));
    let head = form.phrase(f.head, vec![name, namespace, enable]);
    match SENTENCES.iter().find(|(of, _)| *of == family) {
        Some((_, lines)) => lines(form, head),
        None => form.block(vec![head]),
    }
}

/// Returns the slot of a service, after that of its namespace if it has one of its own.
fn service(form: &mut FormBuilder<'_>, at: &str) -> Vec<FormPiece> {
    let namespace = format!("{at}/namespace");
    let own = form.text_at(&namespace);
    let mut pieces = Vec::new();
    if !own.is_empty() && own != form.text_at("/namespace") {
        pieces.push(form.text(&namespace, NAMESPACES));
        pieces.push(FormPiece::Words("/".to_owned()));
    }
    pieces.push(form.text(&format!("{at}/service"), SERVICES));
    pieces
}

/// Fills a phrase whose slots are services.
fn calls(form: &mut FormBuilder<'_>, phrase: &str, slots: &[(&str, &str)]) -> Vec<FormPiece> {
    let mut pieces = Vec::new();
    let mut rest = phrase;
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(one, two)| Some((one, two.split_once('}')?)))
    {
        pieces.extend(form.phrase(before, Vec::new()));
        if let Some((_, at)) = slots.iter().find(|(known, _)| *known == name) {
            pieces.extend(service(form, at));
        }
        rest = after;
    }
    pieces.extend(form.phrase(rest, Vec::new()));
    pieces
}

fn line(id: &str, pieces: Vec<FormPiece>) -> FormLine {
    FormLine { id: id.to_owned(), pieces }
}

fn limits(form: &mut FormBuilder<'_>, head: Vec<FormPiece>) {
    let f = &form.t.form;
    // Both fields name the service: only the one in use is offered.
    let at = if form.at("/callee").is_object() { "/callee" } else { "" };
    let to = match at {
        "" => {
            let slot = form.text("/service", SERVICES);
            form.phrase(f.calls_to, vec![("service", slot)])
        }
        _ => calls(form, f.calls_to, &[("service", at)]),
    };
    if at.is_empty() {
        form.shown.slots.insert("/callee".to_owned());
    }
    form.block(vec![head, to]);
    form.sub_rules("/rules", f.a_limit, |form, item| {
        let f = &form.t.form;
        let mut lines = Vec::new();
        form.conditions(&mut lines, &format!("{item}/arguments"), (f.when, f.and));
        let resource = form.choice(&format!("{item}/resource"), true);
        lines.push(line("", form.phrase(f.limit, vec![("resource", resource)])));
        if form.text_at(&format!("{item}/resource")) == "CONCURRENCY" {
            let most = form.number(&format!("{item}/concurrency_amount/max_amount"));
            lines.push(line("", form.phrase(f.at_once, vec![("most", most)])));
            return lines;
        }
        let list = format!("{item}/amounts");
        form.shown.rows.insert(list.clone());
        form.shown.touched.insert(list.clone());
        for index in 0..form.len(&list) {
            let amount = format!("{list}/{index}");
            let most = form.number(&format!("{amount}/maxAmount"));
            let period = form.short(&format!("{amount}/validDuration"));
            let mut pieces = form.phrase(f.per, vec![("most", most), ("period", period)]);
            pieces.push(form.remove(&amount));
            lines.push(line(&amount, pieces));
        }
        let add = form.add(f.amount, &list);
        lines.push(line(&list, vec![add]));
        lines
    });
}

fn routes(form: &mut FormBuilder<'_>, head: Vec<FormPiece>) {
    let f = &form.t.form;
    let policy = form.choice("/route_policy", true);
    let by = form.phrase(f.route_by, vec![("policy", policy)]);
    let config = "/routing_config";
    match form.text_at("/route_policy").as_str() {
        "NearbyPolicy" => {
            let to = calls(form, f.calls_to, &[("service", config)]);
            let level = form.choice("/routing_config/match_level", false);
            let most = form.choice("/routing_config/max_match_level", false);
            let near = form.phrase(f.nearest, vec![("level", level), ("most", most)]);
            form.block(vec![head, by, to, near]);
            hide(form, &["caller", "callee", "rules", "labels", "failover"]);
        }
        "MetadataPolicy" => {
            let to = calls(form, f.calls_to, &[("service", config)]);
            form.block(vec![head, by, to]);
            let mut lines = Vec::new();
            let labels = "/routing_config/labels";
            form.labels(&mut lines, labels, f.with_label, false);
            form.blocks.push(FormBlock { id: String::new(), number: 0, lines, advanced: Vec::new() });
            hide(form, &["caller", "callee", "rules", "match_level", "max_match_level", "strict_nearby"]);
        }
        _ => {
            let slots = [("service", "/routing_config/callee"), ("caller", "/routing_config/caller")];
            let to = calls(form, f.calls_between, &slots);
            form.block(vec![head, by, to]);
            form.sub_rules("/routing_config/rules", f.a_route, route);
            hide(
                form,
                &["service", "namespace", "labels", "failover", "match_level", "max_match_level", "strict_nearby"],
            );
        }
    }
}

/// Leaves out fields of another policy, if they are empty.
fn hide(form: &mut FormBuilder<'_>, fields: &[&str]) {
    for field in fields {
        let pointer = format!("/routing_config/{field}");
        if form.at(&pointer).is_null() {
            form.shown.slots.insert(pointer);
        }
    }
}

fn route(form: &mut FormBuilder<'_>, item: &str) -> Vec<FormLine> {
    let f = &form.t.form;
    let mut lines = Vec::new();
    let conditions = format!("{item}/arguments/arguments");
    let mode = format!("{item}/arguments/matchMode");
    let is_any = form.text_at(&mode) == "OR";
    if form.len(&conditions) > 1 || is_any {
        let slot = form.choice(&mode, true);
        lines.push(line("", form.phrase(f.when_mode, vec![("mode", slot)])));
    }
    form.conditions(&mut lines, &conditions, (f.when, if is_any { f.or } else { f.and }));
    let percent = form.number(&format!("{item}/arguments/random_percent"));
    lines.push(line("", form.phrase(f.take, vec![("percent", percent)])));
    let list = format!("{item}/destinations");
    form.shown.rows.insert(list.clone());
    form.shown.touched.insert(list.clone());
    for index in 0..form.len(&list) {
        let group = format!("{list}/{index}");
        form.shown.touched.insert(group.clone());
        let weight = form.number(&format!("{group}/weight"));
        let mut pieces = form.phrase(f.send, vec![("weight", weight)]);
        pieces.push(form.remove(&group));
        lines.push(line(&group, pieces));
        form.labels(&mut lines, &format!("{group}/labels"), f.with_label, true);
    }
    let add = form.add(f.destination, &list);
    lines.push(line(&list, vec![add]));
    lines
}

fn breakers(form: &mut FormBuilder<'_>, head: Vec<FormPiece>) {
    let f = &form.t.form;
    let slots = [("service", "/rule_matcher/destination"), ("caller", "/rule_matcher/source")];
    let to = calls(form, f.calls_between, &slots);
    let level = form.choice("/level", false);
    let cut = form.phrase(f.cut_off, vec![("level", level)]);
    form.block(vec![head, to, cut]);
    let is_older = form.len("/error_conditions") + form.len("/trigger_condition") > 0;
    if is_older {
        let lines = breaks(form, "/error_conditions", "/trigger_condition");
        form.blocks.push(FormBlock { id: String::new(), number: 0, lines, advanced: Vec::new() });
    } else {
        form.shown.slots.extend(["/error_conditions".to_owned(), "/trigger_condition".to_owned()]);
    }
    form.sub_rules("/block_configs", f.a_block, |form, item| {
        breaks(form, &format!("{item}/error_conditions"), &format!("{item}/trigger_conditions"))
    });
    let window = form.number("/recover_condition/sleep_window");
    let good = form.number("/recover_condition/consecutive_success");
    let again = form.phrase(f.try_again, vec![("window", window), ("good", good)]);
    let most = form.number("/max_ejection_percent");
    let share = form.phrase(f.at_most_cut, vec![("most", most)]);
    form.block(vec![again, share]);
}

/// Returns the lines of the errors and the thresholds.
fn breaks(form: &mut FormBuilder<'_>, errors: &str, thresholds: &str) -> Vec<FormLine> {
    let f = &form.t.form;
    let mut lines = Vec::new();
    for list in [errors, thresholds] {
        form.shown.rows.insert(list.to_owned());
        form.shown.touched.insert(list.to_owned());
    }
    for index in 0..form.len(errors) {
        let item = format!("{errors}/{index}");
        let input = form.choice(&format!("{item}/input_type"), false);
        let [comparison, value] = form.matched(&format!("{item}/condition"), "");
        let mut pieces = form.phrase(f.an_error, vec![("input", input), ("is", comparison), ("value", value)]);
        pieces.push(form.remove(&item));
        lines.push(line(&item, pieces));
    }
    let add = form.add(f.error, errors);
    lines.push(line(errors, vec![add]));
    for index in 0..form.len(thresholds) {
        let item = format!("{thresholds}/{index}");
        let kind = form.choice(&format!("{item}/trigger_type"), true);
        let mut slots = vec![("kind", kind)];
        let phrase = match form.text_at(&format!("{item}/trigger_type")).as_str() {
            "ERROR_RATE" => {
                slots.push(("percent", form.number(&format!("{item}/error_percent"))));
                slots.push(("calls", form.number(&format!("{item}/minimum_request"))));
                slots.push(("seconds", form.number(&format!("{item}/interval"))));
                f.open_at_rate
            }
            _ => {
                slots.push(("count", form.number(&format!("{item}/error_count"))));
                f.open_at_count
            }
        };
        let mut pieces = form.phrase(phrase, slots);
        pieces.push(form.remove(&item));
        lines.push(line(&item, pieces));
    }
    let add = form.add(f.threshold, thresholds);
    lines.push(line(thresholds, vec![add]));
    lines
}

fn probes(form: &mut FormBuilder<'_>, head: Vec<FormPiece>) {
    let f = &form.t.form;
    let is_short = form.at("/target_service").is_null() && !form.text_at("/service").is_empty();
    let to = match is_short {
        true => {
            let slot = form.text("/service", SERVICES);
            form.phrase(f.probe, vec![("service", slot)])
        }
        false => calls(form, f.probe, &[("service", "/target_service")]),
    };
    if !is_short && form.text_at("/service").is_empty() {
        form.shown.slots.insert("/service".to_owned());
    }
    form.block(vec![head, to]);
    let flat = ["interval", "timeout", "port", "protocol", "http_config", "tcp_config", "udp_config"];
    if flat.iter().any(|field| !form.at(&format!("/{field}")).is_null()) {
        let lines = probe(form, "");
        form.blocks.push(FormBlock { id: String::new(), number: 0, lines, advanced: Vec::new() });
    } else {
        form.shown.slots.extend(flat.map(|field| format!("/{field}")));
    }
    form.sub_rules("/rules", f.a_probe, probe);
}

fn probe(form: &mut FormBuilder<'_>, item: &str) -> Vec<FormLine> {
    let f = &form.t.form;
    let interval = form.number(&format!("{item}/interval"));
    let timeout = form.number(&format!("{item}/timeout"));
    let protocol = form.choice(&format!("{item}/protocol"), true);
    let port = form.number(&format!("{item}/port"));
    let slots = vec![("interval", interval), ("protocol", protocol), ("port", port), ("timeout", timeout)];
    let mut lines = vec![line("", form.phrase(f.probe_every, slots))];
    if form.text_at(&format!("{item}/protocol")) == "HTTP" {
        let method = form.short(&format!("{item}/http_config/method"));
        let url = form.text(&format!("{item}/http_config/url"), "");
        lines.push(line("", form.phrase(f.probe_http, vec![("method", method), ("url", url)])));
    }
    lines
}
