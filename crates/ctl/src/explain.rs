//! `thuban explain`: which rule would apply to a request, with the verdict of every condition.

use std::collections::BTreeMap;

use clap::Args;
use reqwest::Method;
use serde_json::{Value, json};
use thuban_model::rule::Family;

use super::errors::Usage;
use super::find::{InArgs, row, suggestion};
use super::kinds::{Key, Kind, Nature, placed};
use super::remote::Remote;
use super::tables::{OutputFormat, text};
use super::telling::say;

/// Help text, with the words of the output.
pub(super) const LONG_ABOUT: &str = "\
Show which rule would apply to a request, and why

The first lines are the effect: what happens to the request, by which rule and release. Then each rule for the called
service follows, with a word for itself and for each of its sub-rules, and yes or no for each condition.

  applies      it matches, and acts on the request
  not_matched  a condition marked `no` does not match
  shadowed     it matches, but an earlier rule takes all such requests
  empty        it matches, but has nothing to do
  disabled     it is switched off

`enforced by` names the clients that enforce the rule: an Envoy sidecar, an Envoy gateway, gRPC without a proxy. The
reason follows where one of them does not, with its code (see docs/xds-rules.md). `warning` lines are about instances
that such clients cannot call as they are registered (W1 to W3).

`gray releases` are canaries: they are live only for clients with certain labels, or for a percentage of them. A canary
is in_force if this client is one of them, not_matched if not, and shadowed if it gets a newer canary of the same rule.
A client has a fixed number from 0 to 99; it is in a percentage that is greater than its number.";

#[derive(Args)]
pub(super) struct ExplainArgs {
    #[arg(help = format!("Kind of rules: {}", words_of_families(" or ")))]
    kind: String,
    #[command(flatten)]
    at: InArgs,
    /// Called service: NAMESPACE/NAME, or its name in the default namespace
    #[arg(long)]
    service: String,
    /// Protocol of the request: HTTP, gRPC or another word of the rules
    #[arg(long)]
    protocol: Option<String>,
    /// Method of the request: an HTTP verb, or the name of a gRPC method
    #[arg(long)]
    method: Option<String>,
    /// Path of the request
    #[arg(long)]
    path: Option<String>,
    /// Header of the request; may be repeated, like the following ones
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = read_pair)]
    headers: Vec<(String, String)>,
    /// Query parameter
    #[arg(long = "query", value_name = "NAME=VALUE", value_parser = read_pair)]
    query: Vec<(String, String)>,
    /// Cookie
    #[arg(long = "cookie", value_name = "NAME=VALUE", value_parser = read_pair)]
    cookies: Vec<(String, String)>,
    /// Value for conditions of the type CUSTOM
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = read_pair)]
    labels: Vec<(String, String)>,
    /// Address of the caller
    #[arg(long)]
    caller_ip: Option<String>,
    /// Calling service: NAMESPACE/NAME, or its name in the namespace of the called one
    #[arg(long)]
    caller: Option<String>,
    /// Label of the calling instance
    #[arg(long = "caller-label", value_name = "NAME=VALUE", value_parser = read_pair)]
    caller_labels: Vec<(String, String)>,
    /// Label of the client that requests rules: selects gray releases
    #[arg(long = "client-label", value_name = "NAME=VALUE", value_parser = read_pair)]
    client_labels: Vec<(String, String)>,
    /// Evaluate saved rules instead of released ones
    #[arg(long)]
    draft: bool,
    /// Also show the difference if all saved rules were released
    #[arg(long)]
    diff: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

pub(super) fn read_pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Returns the kinds of rules, with `last` before the last one.
fn words_of_families(last: &str) -> String {
    let [first @ .., end] = Family::LISTED.map(Family::word);
    first.join(", ") + last + end
}

pub(super) async fn run(args: ExplainArgs) -> anyhow::Result<()> {
    let (remote, namespace) = args.at.remote()?;
    let kind = Kind::of_word(&args.kind)?;
    if !matches!(kind.nature, Nature::Rule(_)) {
        return Err(Usage(format!("rules are explained, not {}: {}", kind.many, words_of_families(", "))).into());
    }
    let answer = remote.call(Method::POST, &format!("{}/explain", kind.list), Some(&sketch(&args, &namespace))).await?;
    let explanation = &answer["explanation"];
    match args.output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(explanation)?),
        OutputFormat::Table => {
            lines(explanation).iter().for_each(|line| say(line));
            if each(&explanation["candidates"]).is_empty() {
                unregistered(&remote, explanation).await?.iter().for_each(|line| say(line));
            }
        }
    }
    Ok(())
}

/// Returns a warning if the called service is not registered: then its name may be misspelt.
async fn unregistered(remote: &Remote, explanation: &Value) -> anyhow::Result<Option<String>> {
    let (namespace, name) = (text(&explanation["namespace"]), text(&explanation["service"]));
    let (kind, key) = (Kind::of_word("service")?, Key { namespace, group: None, name });
    if row(remote, kind, &key).await?.is_some() {
        return Ok(None);
    }
    let hint = suggestion(remote, kind, &key).await?.map(|hint| format!(": {hint}")).unwrap_or_default();
    Ok(Some(format!("warning   {} is not registered{hint}", placed(kind, &key))))
}

fn sketch(args: &ExplainArgs, namespace: &str) -> Value {
    let placed = |name: &str, namespace: &str| match name.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
        None => (namespace.to_owned(), name.to_owned()),
    };
    let map = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<BTreeMap<_, _>>();
    let (namespace, service) = placed(&args.service, namespace);
    let mut sketch = json!({
        "service": service, "namespace": namespace, "protocol": args.protocol, "method": args.method, "path": args.path,
        "headers": map(&args.headers), "query": map(&args.query), "cookies": map(&args.cookies),
        "labels": map(&args.labels), "caller_ip": args.caller_ip, "caller_metadata": map(&args.caller_labels),
        "client_labels": map(&args.client_labels), "draft": args.draft, "diff": args.diff,
    });
    if let Some(caller) = &args.caller {
        let (namespace, caller) = placed(caller, &namespace);
        sketch["caller_namespace"] = json!(namespace);
        sketch["caller_service"] = json!(caller);
    }
    sketch
}

/// Formats the explanation, from the result down to each condition.
fn lines(explanation: &Value) -> Vec<String> {
    let which = if explanation["draft"] == true { "as they are saved" } else { "as they are released" };
    let mut lines: Vec<String> = each(&explanation["effect"]).iter().map(text).collect();
    lines.push(format!("{}/{}, rules {which}", text(&explanation["namespace"]), text(&explanation["service"])));
    lines.push(text(&explanation["info"]));
    for rule in each(&explanation["candidates"]) {
        lines.push(String::new());
        lines.push(format!("{}  {}", named(&rule), text(&rule["verdict"])));
        for part in each(&rule["rules"]) {
            let name = part["name"].as_str().filter(|name| !name.is_empty()).map(|name| format!(" {name}"));
            let number = part["index"].as_u64().unwrap_or_default() + 1;
            let verdict = text(&part["verdict"]);
            lines.push(format!("  {number}{}  {verdict}: {}", name.unwrap_or_default(), text(&part["info"])));
            lines.extend(each(&part["arguments"]).iter().map(finding));
        }
        lines.push(format!("  enforced by: {}", text(&rule["enforced_by"])));
    }
    lines.extend(each(&explanation["warnings"]).iter().map(|warning| format!("warning   {}", text(warning))));
    let grays = each(&explanation["grays"]);
    if !grays.is_empty() {
        lines.push(String::new());
        lines.push("gray releases, each for some clients only:".to_owned());
    }
    for gray in &grays {
        lines.push(format!("  {}  {}: {}", named(gray), text(&gray["state"]), text(&gray["info"])));
        let share = gray.get("client_percent");
        lines.extend(each(&gray["client_labels"]).iter().chain(share).map(finding));
    }
    if let Some(changes) = explanation["changes"].as_array() {
        lines.push(String::new());
        lines.push(match changes.len() {
            0 => "nothing would be different if all that is saved were released".to_owned(),
            count => format!("{count} differences if all that is saved were released:"),
        });
        for change in changes {
            let path = text(&change["path"]);
            lines.extend(change.get("before").map(|value| format!("  - {path}: {value}")));
            lines.extend(change.get("after").map(|value| format!("  + {path}: {value}")));
        }
    }
    lines
}

fn each(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}

/// Formats the name of a rule with its release.
fn named(rule: &Value) -> String {
    let name = format!("{}/{}", text(&rule["namespace"]), text(&rule["rule_name"]));
    match rule.get("release").filter(|release| release.is_object()) {
        Some(release) => format!("{name} ({} v{})", text(&release["release_name"]), release["version"]),
        None => name,
    }
}

fn finding(finding: &Value) -> String {
    let mark = if finding["matched"] == true { "yes" } else { "no " };
    format!("      {mark}  {}", text(&finding["info"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_explains_each_word_of_the_output() {
        use thuban_model::explain::{GrayState, Verdict};
        let word = |value: Value| value.as_str().expect("a word").to_owned();
        let verdicts = [Verdict::Disabled, Verdict::NotMatched, Verdict::Empty, Verdict::Shadowed, Verdict::Applies]
            .map(|one| json!(one));
        let states = [GrayState::InForce, GrayState::Shadowed, GrayState::NotMatched].map(|one| json!(one));
        for word in verdicts
            .into_iter()
            .chain(states)
            .map(word)
            .chain(["enforced by", "gray releases", "W1"].map(str::to_owned))
        {
            assert!(LONG_ABOUT.contains(&word), "{word}");
        }
    }

    #[test]
    fn every_condition_has_its_verdict() {
        let explanation = json!({
            "namespace": "shop", "service": "pay", "draft": false, "info": "1 limit counts it",
            "effect": ["zone=a → limit 50 per 1 s, shared by all callers (a v2, live)"],
            "candidates": [{
                "namespace": "shop", "rule_name": "a", "verdict": "applies",
                "release": { "release_name": "one", "version": 2 },
                "rules": [{ "index": 0, "name": "r", "verdict": "applies", "info": "all hold", "arguments": [
                    { "matched": true, "info": "header x is 1: meets EXACT 1" },
                    { "matched": false, "info": "no cookie" },
                ] }],
                "enforced_by": "Envoy sidecar and gateway yes; gRPC no (W4: rules[0]: no cookies)",
            }],
            "grays": [{
                "namespace": "shop", "rule_name": "a", "state": "not_matched", "info": "no zone",
                "release": { "release_name": "some", "version": 3 },
                "client_labels": [{ "matched": true, "info": "os is x" }, { "matched": false, "info": "no zone" }],
                "client_percent": { "matched": false, "info": "number 58 of 100" },
            }],
            "changes": [{ "path": "/0", "before": 1 }],
            "warnings": ["W3: instances speak different protocols: Envoy takes HTTP/2 for all"],
        });
        assert_eq!(
            lines(&explanation),
            [
                "zone=a → limit 50 per 1 s, shared by all callers (a v2, live)",
                "shop/pay, rules as they are released",
                "1 limit counts it",
                "",
                "shop/a (one v2)  applies",
                "  1 r  applies: all hold",
                "      yes  header x is 1: meets EXACT 1",
                "      no   no cookie",
                "  enforced by: Envoy sidecar and gateway yes; gRPC no (W4: rules[0]: no cookies)",
                "warning   W3: instances speak different protocols: Envoy takes HTTP/2 for all",
                "",
                "gray releases, each for some clients only:",
                "  shop/a (some v3)  not_matched: no zone",
                "      yes  os is x",
                "      no   no zone",
                "      no   number 58 of 100",
                "",
                "1 differences if all that is saved were released:",
                "  - /0: 1",
            ]
        );
    }
}
