//! Objects with a form and no page of their own, from namespaces to settings. [`ResourceKind`] has a row for each kind;
//! forms are derived from the input types of the operations ([`super::sheet`]).

use std::sync::OnceLock;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Console;
use super::contracts::{self, ContractForm};
use super::fields::Fields;
use super::flash::{Flash, on_to};
use super::form::Form;
use super::frame::{Frame, Section, page, page_refused};
use super::kinds::ResourceKind;
use super::links;
use super::policies;
use super::session::SessionUser;
use super::sheet::FieldKind;
use super::sheet::edit::edited;
use super::sheet::read::Sent;
use super::sheet::show::{Control, FormRenderer};
use crate::catalog::{Op, Outcome};
use crate::model::access_key::AccessKeyRequest;
use crate::model::alias::AliasDraft;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::ConfigGroupDraft;
use crate::model::config_template::ConfigTemplateDraft;
use crate::model::grant::Verb;
use crate::model::namespace::NamespaceDraft;
use crate::model::policy::PolicyDraft;
use crate::model::rule::matching::ALL;
use crate::model::service::ServiceDraft;
use crate::model::service_token::ServiceTokenRequest;
use crate::model::settings::{REVISION, Settings, SettingsChange};
use crate::model::sso::ProviderRequest;
use crate::model::webhook::WebhookRequest;
use crate::model::wire::Words;
use crate::operations::accounts::UserRequest;
use crate::operations::{Items, one, one_drawn};

impl ResourceKind {
    /// Refuses a visitor who may not edit the object of a form; a new object is named by the submitted fields. A form
    /// without a name is left to the operation to refuse.
    fn check_place(self, visitor: &SessionUser, fields: &Fields) -> Result<(), Refusal> {
        let of = |key: &str| fields.given(key).or_else(|| fields.given(&format!("/{key}")));
        match (self, of("namespace"), of("name")) {
            (ResourceKind::Services | ResourceKind::Groups, Some(namespace), Some(name)) => {
                visitor.check(Verb::Edit, &namespace, &name)
            }
            (ResourceKind::Namespaces, _, Some(name)) => visitor.check(Verb::Edit, &name, ALL),
            _ => Ok(()),
        }
    }

    /// Returns the schema of the form, derived once.
    fn kind(self) -> &'static FieldKind {
        static KINDS: [OnceLock<FieldKind>; ResourceKind::ALL.len()] =
            [const { OnceLock::new() }; ResourceKind::ALL.len()];
        KINDS[self as usize].get_or_init(|| {
            let kind = match self {
                ResourceKind::Namespaces => FieldKind::of::<NamespaceDraft>(),
                ResourceKind::Services => FieldKind::of::<ServiceDraft>(),
                ResourceKind::Aliases => FieldKind::of::<AliasDraft>(),
                ResourceKind::Groups => FieldKind::of::<ConfigGroupDraft>(),
                ResourceKind::Templates => FieldKind::of::<ConfigTemplateDraft>(),
                ResourceKind::Users => FieldKind::of::<UserRequest>(),
                ResourceKind::Tokens => FieldKind::of::<ServiceTokenRequest>(),
                ResourceKind::AccessKeys => FieldKind::of::<AccessKeyRequest>(),
                ResourceKind::Providers => FieldKind::of::<ProviderRequest>(),
                ResourceKind::Webhooks => FieldKind::of::<WebhookRequest>(),
                ResourceKind::Policies => FieldKind::of::<PolicyDraft>(),
                ResourceKind::Contracts => FieldKind::of::<ContractForm>(),
                ResourceKind::Settings => FieldKind::of::<Settings>(),
            };
            kind.without(|field| matches!(field, "id" | REVISION | "token"))
        })
    }

    /// Returns an existing object by its name fields; `None` if there is none that the visitor sees.
    fn there(self, console: &Console, visitor: &SessionUser, named: &Fields) -> Option<Value> {
        const SECRETS: [&str; 7] =
            ["client_secret", "secret", "password", "password_hash", "hash", "previous", "service_token"];
        let name = named.get("name");
        let catalog = console.node().state().view();
        let namespace = named.get("namespace");
        let read_scope = visitor.caller.read_scope();
        let is_seen = read_scope.sees(namespace, name);
        let there = match self {
            ResourceKind::Namespaces => {
                serde_json::to_value(catalog.namespaces.get(name).filter(|_| read_scope.sees_namespace(name))?)
            }
            ResourceKind::Services => serde_json::to_value(catalog.services.get(namespace, name).filter(|_| is_seen)?),
            ResourceKind::Groups => serde_json::to_value(catalog.configs.group(namespace, name).filter(|_| is_seen)?),
            ResourceKind::Aliases => {
                let alias = catalog.aliases.get(named.get("alias_namespace"), named.get("alias"))?;
                serde_json::to_value(Some(alias).filter(|alias| read_scope.sees(&alias.namespace, &alias.service))?)
            }
            ResourceKind::Templates => serde_json::to_value(catalog.templates.get(name)?),
            ResourceKind::Users => serde_json::to_value(catalog.access.user_named(name)?),
            ResourceKind::Tokens => serde_json::to_value(catalog.access.service_token(name)?),
            ResourceKind::AccessKeys => serde_json::to_value(catalog.access_keys.get(named.get("app_id"), name)?),
            ResourceKind::Providers => serde_json::to_value(catalog.access.sso().provider(name)?),
            ResourceKind::Webhooks => serde_json::to_value(catalog.webhooks.get(name)?),
            ResourceKind::Policies => serde_json::to_value(catalog.policies.get(name)?),
            ResourceKind::Contracts => {
                let contract = catalog.contracts.get(name)?;
                let meets = |name: &str| read_scope.meets(&contract.namespace, name);
                serde_json::to_value(Some(contract).filter(|contract| contract.scopes().into_iter().any(meets))?)
            }
            ResourceKind::Settings => serde_json::to_value(&catalog.settings),
        };
        let mut there = there.ok()?;
        there.as_object_mut()?.retain(|field, _| !SECRETS.contains(&field.as_str()));
        Some(there)
    }
}

/// Context of a form.
struct Subject {
    sort: ResourceKind,
    /// Fields that name the object; empty for a new one.
    named: Vec<(&'static str, String)>,
    /// Schema of the form; without the name fields of an existing object, which cannot be changed.
    kind: FieldKind,
    /// Revision when the form was made: a concurrent change is not overwritten.
    revision: String,
}

impl Subject {
    /// Reads the context from a query or a form.
    fn of(sort: ResourceKind, fields: &Fields) -> Subject {
        let named: Vec<_> = sort.key().iter().filter_map(|key| Some((*key, fields.given(key)?))).collect();
        let is_whole = named.len() == sort.key().len();
        let named = if is_whole { named } else { Vec::new() };
        let kind = sort.kind().clone().without(|field| named.iter().any(|(key, _)| *key == field));
        Subject { sort, named, kind, revision: fields.get(REVISION).to_owned() }
    }

    /// Returns the path of the next page: that of the saved object, if it has one.
    fn page_after(&self, op: Op) -> String {
        match (self.sort, self.named.as_slice()) {
            (ResourceKind::Services, [(_, namespace), (_, name)]) if op == Op::Update => {
                links::service(namespace, name)
            }
            _ => self.sort.home().1.to_owned(),
        }
    }

    fn is_new(&self) -> bool {
        self.named.is_empty() && self.sort != ResourceKind::Settings
    }
}

#[derive(Template)]
#[template(path = "thing.html")]
struct ThingPage {
    frame: Frame,
    subject: Subject,
    controls: Vec<Control>,
    /// Generated secret, shown once.
    secret: Option<String>,
}

impl ThingPage {
    fn of(visitor: &SessionUser, subject: Subject, value: &Value, refusal: Option<&Refusal>) -> ThingPage {
        let frame = visitor.frame(subject.sort.home().0);
        let frame = match refusal {
            Some(refusal) => frame.refused(refusal),
            None => frame,
        };
        let drawing = FormRenderer::plain(frame.t, frame.detail.as_deref());
        ThingPage { controls: drawing.controls(&subject.kind, value), frame, subject, secret: None }
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    visitor: SessionUser,
    Path(word): Path<String>,
    query: Fields,
) -> Response {
    let sort = match ResourceKind::seen_by(&visitor, &word) {
        Ok(sort) => sort,
        Err(refusal) => return visitor.failed(&refusal),
    };
    let mut subject = Subject::of(sort, &query);
    let value = if subject.is_new() {
        Some(begun(&subject.kind, &query))
    } else {
        sort.there(&console, &visitor, &query).map(|there| {
            subject.revision = there[REVISION].as_str().unwrap_or_default().to_owned();
            subject.kind.opened(there)
        })
    };
    match value {
        Some(value) => page(&ThingPage::of(&visitor, subject, &value, None)),
        None => visitor.failed(&Refusal::new(Code::NotFoundResource, "there is none of this name")),
    }
}

/// Returns the initial value of a form, with the fields from the link.
fn begun(kind: &FieldKind, query: &Fields) -> Value {
    let mut value = kind.blank();
    let FieldKind::Object(fields) = kind else { return value };
    for field in fields.iter().filter(|field| field.kind == FieldKind::Text) {
        if let Some(text) = query.given(&field.name) {
            value[&field.name] = Value::from(text);
        }
    }
    value
}

/// Saves the submitted object or deletes it; a button within the form only changes the form.
pub(super) async fn save(State(console): State<Console>, Path(word): Path<String>, form: Form) -> Response {
    let Form { visitor, fields } = form;
    let sort = match ResourceKind::seen_by(&visitor, &word) {
        Ok(sort) => sort,
        Err(refusal) => return visitor.undone(&refusal),
    };
    if let Err(refusal) = sort.check_place(&visitor, &fields) {
        return visitor.barred(&console, &refusal);
    }
    let subject = Subject::of(sort, &fields);
    let mut value = Sent::of(&fields).value(&subject.kind);
    if let Some(asked) = fields.given("edit") {
        value = edited(&subject.kind, value, &asked);
        return page(&ThingPage::of(&visitor, subject, &value, None));
    }
    let op = match fields.get("change") {
        "delete" => Op::Delete,
        _ if subject.is_new() => Op::Create,
        _ => Op::Update,
    };
    let done = match subject.kind.closed(value.clone()) {
        Ok(Value::Object(mut given)) => {
            given.extend(subject.named.iter().map(|(field, name)| ((*field).to_owned(), Value::from(name.as_str()))));
            if !subject.revision.is_empty() {
                given.insert(REVISION.to_owned(), Value::from(subject.revision.as_str()));
            }
            write(&console, &visitor, sort, op, given).await
        }
        Ok(_) => Err(Code::ParseException.into()),
        Err(refusal) => Err(refusal),
    };
    match done {
        Ok(Written::Reported(flash)) => on_to(&subject.page_after(op), flash),
        Ok(Written::Drawn(secret)) => {
            page(&ThingPage { secret: Some(secret), ..ThingPage::of(&visitor, subject, &value, None) })
        }
        Err(refusal) => page_refused(refusal.code, &ThingPage::of(&visitor, subject, &value, Some(&refusal))),
    }
}

/// Converts the submitted fields to the input of an operation.
fn read<T: DeserializeOwned>(mut given: Map<String, Value>) -> Items<T> {
    // An empty secret is unchanged, or generated.
    given.retain(|field, value| !(matches!(field.as_str(), "secret" | "client_secret" | "password") && *value == ""));
    let read = serde_path_to_error::deserialize(Value::Object(given));
    vec![read.map_err(|error| Refusal::new(Code::ParseException, format!("{}: {}", error.path(), error.inner())))]
}

/// Result of a write.
enum Written {
    Reported(Flash),
    /// Generated secret, to be shown once.
    Drawn(String),
}

/// Writes the object.
async fn write(
    console: &Console,
    visitor: &SessionUser,
    sort: ResourceKind,
    op: Op,
    given: Map<String, Value>,
) -> Result<Written, Refusal> {
    let done = match op {
        Op::Create => Flash::Created,
        Op::Update => Flash::Saved,
        Op::Delete => Flash::Deleted,
    };
    let reported = |outcome: Outcome| Written::Reported(Flash::of(&outcome, done));
    let drawn = |secret: Option<String>| secret.map_or(Written::Reported(done), Written::Drawn);
    let caller = &visitor.caller;
    let outcomes = match (sort, op) {
        (ResourceKind::Namespaces, op) => console.operations.namespaces(caller, op, read(given)).await,
        (ResourceKind::Aliases, op) => console.operations.aliases(caller, op, read(given)).await,
        (ResourceKind::Groups, op) => console.operations.config_groups(caller, op, read(given)).await,
        (ResourceKind::Services, op) => console.operations.services(caller, op, read::<ServiceDraft>(given)).await,
        (ResourceKind::Templates, op) => {
            console.operations.config_templates(caller, op, read(given)).await.map(|(outcomes, _)| outcomes)
        }
        (ResourceKind::Users, op) => console.operations.users(caller, op, read(given)).await,
        (ResourceKind::Tokens, Op::Create) => {
            return one_drawn(console.operations.create_tokens(caller, read(given)).await).map(drawn);
        }
        (ResourceKind::Tokens, Op::Update) => console.operations.update_tokens(caller, read(given)).await,
        (ResourceKind::Tokens, Op::Delete) => console.operations.delete_tokens(caller, read(given)).await,
        (ResourceKind::AccessKeys, op) => {
            return one_drawn(console.operations.access_keys(caller, op, read(given)).await).map(drawn);
        }
        (ResourceKind::Providers, op) => console.operations.providers(caller, op, read(given)).await,
        (ResourceKind::Webhooks, op) => {
            return one_drawn(console.operations.webhooks(caller, op, read(given)).await).map(drawn);
        }
        (ResourceKind::Policies, op) => console.operations.policies(caller, op, read(policies::typed(op, given))).await,
        (ResourceKind::Contracts, op) => console.operations.contracts(caller, op, read(contracts::typed(given)?)).await,
        (ResourceKind::Settings, _) => {
            return console
                .operations
                .change_settings(caller, SettingsChange::read(&given)?)
                .await
                .map(|_| Written::Reported(done));
        }
    };
    one(outcomes).map(reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sort_has_a_form_that_names_it() {
        for (sort, word) in ResourceKind::ALL {
            assert_eq!(ResourceKind::of_word(word), Some(*sort));
            let FieldKind::Object(fields) = sort.kind() else { panic!("{word} is no object") };
            for key in sort.key() {
                assert!(fields.iter().any(|field| field.name == *key), "{word} {key}");
            }
        }
    }

    #[test]
    fn a_link_says_what_one_begins_with() {
        let query = Fields::parse(b"namespace=shop&service=pay&type=CL5SID&id=1");
        let subject = Subject::of(ResourceKind::Aliases, &query);
        let begun = begun(&subject.kind, &query);
        assert_eq!((&begun["namespace"], &begun["service"]), (&Value::from("shop"), &Value::from("pay")));
        assert!(begun.get("id").is_none() && begun.get("type").is_none_or(|word| *word != "CL5SID"));
    }

    #[test]
    fn what_names_a_thing_is_not_changed() {
        let subject = Subject::of(ResourceKind::AccessKeys, &Fields::parse(b"app_id=shop&name=first"));
        assert!(!subject.is_new() && subject.kind.blank().get("name").is_none());
        let subject = Subject::of(ResourceKind::AccessKeys, &Fields::parse(b"app_id=shop"));
        assert!(subject.is_new() && subject.kind.blank().get("app_id").is_some());
    }
}
