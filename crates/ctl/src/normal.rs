//! Normal form of an API body: defaults filled in, alternative spellings unified, fields that are not compared left
//! out.
//!
//! Two bodies are equivalent if their normal forms are equal. The node's own checks are used, so that most errors are
//! found before anything is sent.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use thuban_documents::{folded, parse_noting, parse_rule};
use thuban_model::alias::AliasDraft;
use thuban_model::code::Refusal;
use thuban_model::config_file::{ConfigFileDraft, ConfigGroupDraft, Format};
use thuban_model::contract::{Contract, ContractDraft};
use thuban_model::namespace::NamespaceDraft;
use thuban_model::policy::{Policy, PolicyDraft};
use thuban_model::rule::{Family, RuleDraft};
use thuban_model::service::ServiceDraft;
use thuban_model::sso::{Provider, ProviderRequest};
use thuban_model::stamp::Stamp;
use thuban_model::webhook::WebhookRequest;

use super::documents::says_nothing;
use super::kinds::{Key, Kind, Nature};

/// Identifying fields and write-only fields, which are not compared.
const NOT_COMPARED: [&str; 5] = ["id", "revision", "token", "service_token", "type"];
/// Secrets that a document may set and no answer shows.
pub(super) const SECRETS: [&str; 2] = ["secret", "client_secret"];
/// Fields of a fault detection that are not part of its older form.
const STAYS_WITH_RULES: [&str; 4] = ["description", "metadata", "target_service", "service"];
const PRIORITY: &str = "priority";
const ENCRYPTED: &str = "encrypted";
/// Fields of a config file that stay as they are if a document omits them.
const ENCRYPTION: [&str; 2] = [ENCRYPTED, "encryptAlgo"];

/// Returns the normal form of a spec, or all its faults.
pub(super) fn normal(kind: &Kind, key: &Key, spec: &Map<String, Value>) -> Result<Map<String, Value>, Vec<String>> {
    let body = body(kind, key, spec);
    let text = Value::Object(body).to_string();
    let mut fields = match kind.nature {
        Nature::Namespace => read(&text, NamespaceDraft::check)?,
        Nature::Service => read(&text, ServiceDraft::check_new)?,
        Nature::Group => read(&text, ConfigGroupDraft::check)?,
        Nature::Alias => read(&text, AliasDraft::check_new)?,
        // The maximum length of a content is a setting of the node, unknown here.
        Nature::File => read(&text, |draft: &ConfigFileDraft| draft.check(usize::MAX))?,
        Nature::Rule(family) => return of_rule(family, &text),
        Nature::Webhook => of_webhook(&text)?,
        Nature::Policy => of_policy(&text)?,
        Nature::Contract => of_contract(&text)?,
        Nature::Provider => of_provider(&text)?,
        Nature::Instance | Nature::Identity => return Err(vec![format!("{} are not applied", kind.many)]),
    };
    if kind.nature == Nature::File {
        let given = fields.get("format").and_then(Value::as_str).and_then(|word| Format::of_word(word).ok());
        let format = Format::of_suffix(&key.name).or(given);
        fields.insert("format".to_owned(), json!(format.unwrap_or(Format::Properties).word()));
        fields.entry("content").or_insert_with(|| json!(""));
        // `false` is the default; an omitted field leaves the file as it is.
        if fields.get(ENCRYPTED) == Some(&json!(false)) {
            fields.remove(ENCRYPTED);
        }
    }
    let named = kind.named(key);
    let is_named = |field: &String| named.contains_key(field);
    fields.retain(|field, value| {
        let is_compared = !NOT_COMPARED.contains(&field.as_str());
        is_compared && !is_named(field) && (field == "content" || !says_nothing(value))
    });
    Ok(fields)
}

/// Returns the body of a create.
pub(super) fn body(kind: &Kind, key: &Key, spec: &Map<String, Value>) -> Map<String, Value> {
    let mut body = spec.clone();
    body.extend(kind.named(key));
    if kind.nature == Nature::Alias {
        // The service is in the same namespace unless the document names another.
        body.entry("namespace").or_insert_with(|| json!(key.namespace));
    }
    body
}

/// Returns the body of an update that turns the existing object into the wanted one, unless it changes meanwhile.
pub(super) fn update(
    kind: &Kind,
    key: &Key,
    there: &Map<String, Value>,
    wanted: &Map<String, Value>,
    spec: &Map<String, Value>,
    revision: &str,
) -> Map<String, Value> {
    let mut body = wanted.clone();
    // An omitted field would stay as it is, so a field to remove is sent empty. The node drops the older form of a
    // fault detection itself when `rules` are sent.
    let has_rules = wanted.get("rules").is_some_and(|rules| !says_nothing(rules));
    let goes_by_itself = |field: &str| {
        kind.nature == Nature::Rule(Family::FaultDetect) && has_rules && !STAYS_WITH_RULES.contains(&field)
    };
    let stays = |field: &str| match kind.nature {
        Nature::File => ENCRYPTION.contains(&field),
        // A contract has either a schema or rules; one replaces the other.
        Nature::Contract => ["schema", "rules"].contains(&field),
        _ => false,
    };
    for (field, value) in there.iter().filter(|(field, _)| !goes_by_itself(field) && !stays(field)) {
        if !body.contains_key(field) {
            body.insert(field.clone(), nothing_like(value));
        }
    }
    for secret in SECRETS.into_iter().chain(["token", "service_token"]) {
        body.extend(spec.get(secret).map(|value| (secret.to_owned(), value.clone())));
    }
    body.extend(kind.named(key));
    if !revision.is_empty() {
        body.insert("revision".to_owned(), json!(revision));
    }
    body
}

fn nothing_like(value: &Value) -> Value {
    match value {
        Value::Object(_) => json!({}),
        Value::Array(_) => json!([]),
        Value::String(_) => json!(""),
        Value::Number(_) => json!(0),
        Value::Bool(_) => json!(false),
        Value::Null => Value::Null,
    }
}

fn read<T>(text: &str, check: impl FnOnce(&T) -> Result<(), Refusal>) -> Result<Map<String, Value>, Vec<String>>
where
    T: DeserializeOwned + Serialize,
{
    let draft = read_draft(text)?;
    check(&draft).map_err(of_refusal)?;
    fields_of(&draft)
}

fn read_draft<T: DeserializeOwned>(text: &str) -> Result<T, Vec<String>> {
    let (draft, unknown) = parse_noting(PhantomData::<T>, &raw(text)?);
    without_unknown(draft, unknown)
}

/// Returns the normal form of a webhook. Its secret is sent and never compared.
fn of_webhook(text: &str) -> Result<Map<String, Value>, Vec<String>> {
    let request: WebhookRequest = read_draft(text)?;
    request.check_new().map_err(of_refusal)?;
    let mut fields = fields_of(&request.into_draft(None))?;
    for switch in ["allow_private", "disabled"] {
        fields.entry(switch).or_insert(json!(false));
    }
    fields.entry("format").or_insert(json!("json"));
    Ok(fields)
}

/// Returns the normal form of a policy, with the defaults of a new one.
fn of_policy(text: &str) -> Result<Map<String, Value>, Vec<String>> {
    let draft: PolicyDraft = read_draft(text)?;
    draft.check().map_err(of_refusal)?;
    let mut policy = Policy::new(&draft.name);
    draft.lay_over(&mut policy);
    let Policy { namespace, names, kinds, approvals, gates, freezes, comment, .. } = policy;
    fields_of(&json!({
        "namespace": namespace, "names": names, "kinds": kinds, "approvals": approvals, "gates": gates,
        "freezes": freezes, "comment": comment,
    }))
}

/// Returns the normal form of a contract, with the defaults of a new one.
fn of_contract(text: &str) -> Result<Map<String, Value>, Vec<String>> {
    let draft: ContractDraft = read_draft(text)?;
    draft.check_new().map_err(of_refusal)?;
    let mut contract = Contract::new(&draft.name);
    draft.lay_over(&mut contract);
    let Contract { namespace, names, kinds, mode, rules, comment, .. } = contract;
    let mut fields = json!({
        "namespace": namespace, "names": names, "kinds": kinds, "mode": mode, "rules": rules, "comment": comment,
    });
    if let Some(schema) = draft.schema {
        fields["schema"] = schema;
    }
    fields_of(&fields)
}

/// Returns the normal form of a provider, with the defaults of a new one. Its secret is sent and never compared.
fn of_provider(text: &str) -> Result<Map<String, Value>, Vec<String>> {
    let request: ProviderRequest = read_draft(text)?;
    request.check_new().map_err(of_refusal)?;
    let mut provider = Provider::new("", request.name.clone(), Stamp::default());
    request.into_draft(None).lay_over(&mut provider);
    let Provider { issuer, client_id, cli_client_id, scopes, username_claim, groups_claim, .. } = &provider;
    let Provider { bindings, required_claims, bearer, audiences, leeway_s, session_s, disabled, comment, .. } =
        &provider;
    fields_of(&json!({
        "issuer": issuer, "client_id": client_id, "cli_client_id": cli_client_id, "scopes": scopes,
        "username_claim": username_claim, "groups_claim": groups_claim, "bindings": bindings,
        "required_claims": required_claims, "bearer": bearer, "audiences": audiences, "leeway_s": leeway_s,
        "session_s": session_s, "disabled": disabled, "comment": comment,
    }))
}

fn fields_of(draft: &impl Serialize) -> Result<Map<String, Value>, Vec<String>> {
    match serde_json::to_value(draft) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(vec!["it cannot be written".to_owned()]),
    }
}

fn raw(text: &str) -> Result<Box<RawValue>, Vec<String>> {
    RawValue::from_string(text.to_owned()).map_err(|error| vec![error.to_string()])
}

fn of_refusal(refusal: Refusal) -> Vec<String> {
    vec![refusal.info()]
}

fn without_unknown<T>(read: Result<T, Refusal>, unknown: Vec<String>) -> Result<T, Vec<String>> {
    let read = read.map_err(of_refusal)?;
    if unknown.is_empty() {
        Ok(read)
    } else {
        Err(unknown.iter().map(|field| format!("{field} is not known")).collect())
    }
}

fn of_rule(family: Family, text: &str) -> Result<Map<String, Value>, Vec<String>> {
    let text = folded(family, text).unwrap_or_else(|| text.to_owned());
    let (draft, unknown) = parse_rule(family, &raw(&text)?);
    let draft: RuleDraft = without_unknown(draft, unknown)?;
    draft.check_new().map_err(of_refusal)?;
    let rule = draft.rule(String::new(), String::new(), Stamp::default()).map_err(|fault| of_refusal(fault.into()))?;
    let mut fields = json!({ "enable": rule.enable, PRIORITY: rule.priority });
    let mut add = |field: &str, value: Value| {
        if !says_nothing(&value) {
            fields[field] = value;
        }
    };
    add("description", json!(rule.description));
    add("metadata", json!(rule.metadata));
    let Ok(Value::Object(body)) = serde_json::to_value(rule.body.fields()) else {
        return Err(vec!["it cannot be written".to_owned()]);
    };
    for (field, value) in body {
        // An empty field is equivalent to an absent one.
        if !is_default(family, &field, &value) {
            add(&field, value);
        }
    }
    match fields {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}

/// Reports whether a field of the family's body has its default value.
fn is_default(family: Family, field: &str, value: &Value) -> bool {
    let Ok(raw) = raw(&json!({ field: nothing_like(value) }).to_string()) else { return false };
    let (draft, _) = parse_rule(family, &raw);
    let Ok(rule) = draft.and_then(|draft| Ok(draft.rule(String::new(), String::new(), Stamp::default())?)) else {
        return false;
    };
    let given = serde_json::to_value(rule.body.fields()).ok();
    given.is_some_and(|fields| fields.get(field) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::super::documents::{Document, spec_of_row};
    use super::*;

    fn kind(word: &str) -> &'static Kind {
        Kind::of_word(word).expect("a kind")
    }

    fn key() -> Key {
        Key { namespace: "shop".into(), group: Some("g".into()), name: "a".into() }
    }

    fn of(word: &str, spec: Value) -> Result<Map<String, Value>, Vec<String>> {
        normal(kind(word), &key(), spec.as_object().expect("an object"))
    }

    #[test]
    fn what_is_left_out_is_what_it_would_be() {
        for (word, short, long) in [
            (
                "service",
                json!({"ports": "80"}),
                json!({"ports": "80", "comment": "", "metadata": {}, "token": "x", "id": "1"}),
            ),
            (
                "webhook",
                json!({"url": "https://h/", "events": ["gray", "publish"]}),
                json!({"url": "https://h/", "events": ["publish", "gray", "gray"], "namespace": "", "comment": "",
                    "allow_private": false, "disabled": false, "secret": "a-secret-of-some-length"}),
            ),
            (
                "provider",
                json!({"issuer": "https://id.example.com", "client_id": "thuban", "scopes": "openid groups",
                    "bindings": [{"claim": "groups", "value": "dev", "role": "reader", "namespace": "*"}]}),
                json!({"issuer": "https://id.example.com", "client_id": "thuban", "client_secret": "of the console",
                    "cli_client_id": "", "scopes": ["openid", "groups"], "username_claim": "", "groups_claim": "groups",
                    "bindings": [{"claim": "groups", "value": "dev", "role": "reader", "namespace": "*", "name": "*"}],
                    "required_claims": {}, "bearer": false, "audiences": [], "leeway_s": 60, "session_s": 28800,
                    "disabled": false, "comment": ""}),
            ),
            ("configfile", json!({"content": "a=1"}), json!({"content": "a=1", "encrypted": false, "encryptAlgo": ""})),
            ("alias", json!({"service": "pay"}), json!({"service": "pay", "namespace": "shop", "type": "DEFAULT"})),
            (
                "ratelimit",
                json!({
                    "callee": {"service": "pay"},
                    "rules": [{"amounts": [{"maxAmount": 1, "validDuration": "1s"}]}],
                }),
                json!({
                    "callee": {"service": "pay", "namespace": ""}, "enable": true, "priority": 0,
                    "cluster": {}, "report": null,
                    "rules": [{
                        "amounts": [{"max_amount": 1, "validDuration": "1s"}],
                        "failover": "FAILOVER_LOCAL", "disable": false,
                    }],
                }),
            ),
            (
                "routing",
                json!({"route_policy": "RulePolicy", "routing_config": {"rules": [{"name": "r"}]}}),
                json!({"routing_config": {"rules": [
                    {"name": "r", "arguments": {"random_percent": 100}, "destinations": []},
                ]}}),
            ),
        ] {
            assert_eq!(of(word, short), of(word, long), "{word}");
        }
    }

    #[test]
    fn a_document_that_says_nothing_of_it_leaves_an_encrypted_file_encrypted() {
        let there = of("configfile", json!({"encrypted": true, "encryptAlgo": "XChaCha20-Poly1305"})).expect("a file");
        let wanted = of("configfile", json!({"content": "a=2"})).expect("a file");
        let body = update(kind("configfile"), &key(), &there, &wanted, &Map::new(), "r");
        assert_eq!((body.get(ENCRYPTED), body.get("encryptAlgo")), (None, None));
        assert_eq!(body["content"], "a=2");
    }

    #[test]
    fn what_differs_is_told_apart() {
        let limit = |amount: u32| json!({"rules": [{"amounts": [{"maxAmount": amount, "validDuration": "1s"}]}]});
        assert_ne!(of("rl", limit(1)), of("rl", limit(2)));
        assert_ne!(of("rt", json!({"enable": false})), of("rt", json!({})));
        assert_ne!(of("rt", json!({"priority": 1})), of("rt", json!({})));
    }

    #[test]
    fn faults_are_told_by_their_field() {
        for (word, spec, words) in [
            ("service", json!({"port": "80"}), "port is not known"),
            ("service", json!({"ports": 80}), "ports"),
            ("rl", json!({"rules": [{"amount": []}]}), "rules[0].amount is not known"),
            ("rl", json!({"rules": [{"amounts": [{"maxAmount": 1, "validDuration": "0s"}]}]}), "validDuration"),
            ("rt", json!({"priority": -1}), "priority"),
            ("wh", json!({"url": "http://10.0.0.1/"}), "allow_private"),
            ("wh", json!({"url": "https://h/", "event": "gray"}), "event is not known"),
            ("provider", json!({"client_id": "thuban"}), "issuer is required"),
            ("idp", json!({"issuer": "http://id.example.com", "client_id": "thuban"}), "https://"),
            (
                "idp",
                json!({"issuer": "https://h/", "client_id": "c", "bindings": [{"claim": "a", "roles": 1}]}),
                "bindings[0]",
            ),
        ] {
            let told = of(word, spec.clone()).expect_err("refused").join("; ");
            assert!(told.contains(words), "{spec}: {told}");
        }
    }

    #[test]
    fn an_update_takes_away_what_is_not_wanted_any_more() {
        let there = of("service", json!({"ports": "80", "metadata": {"a": "b"}})).expect("good");
        let wanted = of("service", json!({"ports": "81"})).expect("good");
        let body = update(kind("service"), &key(), &there, &wanted, &Map::new(), "r1");
        assert_eq!(
            Value::Object(body),
            json!({"namespace": "shop", "name": "a", "ports": "81", "metadata": {}, "revision": "r1"})
        );
        let there = of("rl", json!({"cluster": {"service": "limiter"}})).expect("good");
        let body = update(kind("rl"), &key(), &there, &of("rl", json!({})).expect("good"), &Map::new(), "");
        assert_eq!(body["cluster"], json!({}));
        // A secret cannot be compared: it is sent with the fields that differ.
        let hook = |comment: &str| of("wh", json!({"url": "https://h/", "comment": comment})).expect("good");
        let spec = json!({"secret": "a-secret-of-some-length"}).as_object().expect("an object").clone();
        let body = update(kind("wh"), &key(), &hook("old"), &hook("new"), &spec, "");
        assert_eq!((&body["secret"], &body["comment"]), (&json!("a-secret-of-some-length"), &json!("new")));
    }

    #[test]
    fn a_file_without_a_suffix_is_properties() {
        let file = |name: &str, spec: Value| {
            let key = Key { namespace: "shop".into(), group: Some("g".into()), name: name.into() };
            normal(kind("cf"), &key, spec.as_object().expect("an object")).expect("good")["format"].clone()
        };
        assert_eq!(file("app", json!({})), "properties");
        assert_eq!(file("app.yaml", json!({"format": "text"})), "yaml");
        assert_eq!(file("app", json!({"format": "text"})), "text");
    }

    #[test]
    fn a_row_means_what_its_document_means() {
        let row = json!({
            "id": "1", "name": "a", "namespace": "shop", "enable": true, "disable": false, "description": "",
            "priority": 0, "metadata": {}, "type": "GLOBAL", "rules": [], "report": null, "cluster": null,
            "callee": null, "service": null,
            "revision": "r", "ctime": "", "mtime": "", "etime": "", "editable": true, "deleteable": true,
        });
        let document = Document::of_row(kind("rl"), &row);
        let of_row = normal(kind("rl"), &key(), &spec_of_row(kind("rl"), &row)).expect("good");
        assert_eq!(normal(kind("rl"), &document.key, &document.spec), Ok(of_row));
    }
}
