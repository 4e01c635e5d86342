//! For [`crate::fuzzing`]: what the surface does with a body or a query, without HTTP in front of it and with a
//! catalog instead of a cluster behind it.
//!
//! Each row of [`ROUTES`] does what the handlers of a route do: read, check, make a command, apply it, answer.

use std::fmt::Debug;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::admin::cluster::{Addition, Member, Nothing, Successor};
use super::auth::login;
use super::config::releases::PublishBody;
use super::discover;
use super::http::envelope::{self, Item};
use super::http::{ApiError, Batch, Query, parse_item, parse_object};
use super::rules::drafts::parse_rule;
use crate::catalog::fuzzing::{asked, check, founded};
use crate::catalog::services::ServiceFilter;
use crate::catalog::testing::Bench;
use crate::catalog::{Command, Op, RequestId};
use crate::data_key::DataKey;
use crate::format::level::Level;
use crate::keyring::Keyring;
use crate::model::access::{PasswordHash, UserDraft};
use crate::model::access_key::{AccessKeyDraft, AccessKeyRequest};
use crate::model::alias::AliasDraft;
use crate::model::code::{Code, Refusal};
use crate::model::config_file::{ConfigFileDraft, ConfigGroupDraft, ConfigPublish, ConfigReleaseDraft};
use crate::model::config_template::ConfigTemplateDraft;
use crate::model::explain::{Sketch, explain};
use crate::model::grant::{Grant, Grants, ReadScope, Role, Verb};
use crate::model::instance::InstanceDraft;
use crate::model::limits::{BATCH_ITEMS_MAX, PAGE_ROWS_MAX};
use crate::model::namespace::NamespaceDraft;
use crate::model::release::ReleaseOp;
use crate::model::rule::Family;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::service::ServiceDraft;
use crate::model::service_token::{ServiceTokenDraft, ServiceTokenRequest};
use crate::model::settings::SettingsChange;
use crate::model::time::Timestamp;
use crate::operations::accounts::{PasswordRequest, UserRequest};
use crate::operations::explain::{candidates, resolved, rollouts};
use crate::operations::{SplitBatch, token_hash};
use crate::raft::proposal::{Draft, open, stamp};

/// Characters of a config file, few enough that an input may have more.
const CONTENT_CHARS_MAX: usize = 1000;

type Answer = Result<Response, ApiError>;

/// Function that handles a body.
type Handler = fn(&mut Desk, &[u8]) -> Answer;

/// The surface before a catalog.
#[derive(Clone)]
pub(crate) struct Desk {
    bench: Bench,
    read_scope: ReadScope,
}

impl Desk {
    /// Before a catalog with something of every kind in it.
    pub(crate) fn prepared() -> Desk {
        let administrator = Grants::new([Grant::of(Role::Admin)]);
        let mut desk =
            Desk { bench: founded(Level::NEWEST), read_scope: ReadScope::new(&administrator, &[Verb::Read]) };
        for (number, request) in PREPARED.iter().enumerate() {
            assert!(desk.serve(request.as_bytes()), "request {number} of the preparation is refused: {request}");
        }
        check(&desk.bench);
        desk
    }

    pub(crate) fn into_bench(self) -> Bench {
        self.bench
    }

    /// Requests with a NUL between them: whether the last of them was answered with success.
    pub(crate) fn serve_all(mut self, requests: &[u8]) -> bool {
        let mut done = false;
        for request in requests.split(|byte| *byte == 0) {
            done = self.serve(request);
        }
        check(&self.bench);
        done
    }

    /// The requests by which it is prepared.
    #[cfg(test)]
    pub(super) fn preparation() -> &'static [&'static str] {
        PREPARED
    }

    /// Answers a request.
    #[cfg(test)]
    pub(super) fn answer(&mut self, request: &[u8]) -> Value {
        self.answered(request).map(read).expect("a route")
    }

    /// The letter of a route, then what it is sent.
    fn serve(&mut self, request: &[u8]) -> bool {
        self.answered(request).is_some_and(is_success)
    }

    fn answered(&mut self, request: &[u8]) -> Option<Response> {
        let (letter, body) = request.split_first()?;
        let family = letter.checked_sub(b'0').and_then(|number| Family::ALL.get(usize::from(number)));
        let answer = match (family, body.split_first()) {
            (Some(family), Some((operation, body))) => self.serve_rules(*family, *operation, body),
            _ => match ROUTES.iter().find(|(known, _)| known == letter) {
                Some((_, serve)) => serve(self, body),
                None => return None,
            },
        };
        Some(answer.unwrap_or_else(IntoResponse::into_response))
    }

    fn serve_rules(&mut self, family: Family, operation: u8, body: &[u8]) -> Answer {
        let rules = || Batch::parse_noting(body, |raw| parse_rule(family, raw));
        let op = |op| move |items| Command::Rules(op, items);
        let change = |op| move |items| Command::RuleReleases(family, op, items);
        match operation {
            b'c' => self.write(rules()?.checked(|rule| rule.check_new()), op(Op::Create)),
            b'u' => self.write(rules()?.checked(|rule| rule.check_update()), op(Op::Update)),
            b'd' => self.write(rules()?.checked(|rule| rule.check_named()), op(Op::Delete)),
            b'p' => self.batch(
                body,
                |draft: &RuleReleaseDraft| draft.check_publish(family),
                |items| Command::PublishRules(family, items),
            ),
            b'r' => self.batch(body, |draft: &RuleReleaseDraft| draft.check_named(family), change(ReleaseOp::Rollback)),
            b's' => self.batch(body, |draft: &RuleReleaseDraft| draft.check_named(family), change(ReleaseOp::StopGray)),
            b'x' => self.batch(body, |draft: &RuleReleaseDraft| draft.check_named(family), change(ReleaseOp::Delete)),
            b'o' => self.batch(body, |draft: &RuleReleaseDraft| draft.check_named(family), change(ReleaseOp::Promote)),
            b'w' => self.batch(body, |draft: &RuleReleaseDraft| draft.check_named(family), change(ReleaseOp::Withdraw)),
            b'e' => {
                let sketch: Sketch = parse_object(body)?;
                sketch.check()?;
                let sketch = resolved(&self.bench.catalog, sketch, &self.read_scope);
                let candidates = candidates(&self.bench.catalog, family, &sketch, sketch.draft, &self.read_scope);
                let rollouts = rollouts(&self.bench.catalog, family, &sketch, &self.read_scope);
                let explanation = explain(family, &sketch, &candidates).with_grays(&sketch, &rollouts);
                Ok(envelope::single("explanation", &explanation))
            }
            _ => Err(Code::UnknownRoute.into()),
        }
    }

    /// A write of items that are kept in the log as they came.
    fn batch<T>(
        &mut self,
        body: &[u8],
        check: impl Fn(&T) -> Result<(), Refusal>,
        command: impl FnOnce(Vec<T>) -> Command,
    ) -> Answer
    where
        T: DeserializeOwned + Serialize + PartialEq + Debug,
    {
        let batch = Batch::parse(body)?;
        batch.items.iter().flatten().for_each(check_round_trip);
        self.write(batch.checked(check), command)
    }

    /// Does the work of `Write`, with the catalog at hand.
    fn write<T>(&mut self, batch: Batch<T>, command: impl FnOnce(Vec<T>) -> Command) -> Answer {
        let count = batch.items.len();
        assert!((1..=BATCH_ITEMS_MAX).contains(&count), "a batch of {count}");
        let (accepted, parted) = SplitBatch::of(batch.items);
        let applied = if accepted.is_empty() { Vec::new() } else { self.apply(command(accepted), false) };
        let outcomes = parted.whole(applied);
        assert_eq!(outcomes.len(), count, "an outcome for each item");
        let items: Vec<_> = outcomes.into_iter().map(|outcome| Item::new(outcome, &self.bench.catalog)).collect();
        Ok(envelope::batch(&items))
    }

    /// Through the bytes in which the log has it.
    fn apply(&mut self, command: Command, itself: bool) -> Vec<crate::catalog::Outcome> {
        let command = asked(command, itself);
        let draft = Draft::new(RequestId(7), "admin", &command);
        assert_eq!(Draft::read(draft.bytes.clone()).as_ref(), Ok(&draft), "the leader reads what a member forwards");
        let (_, logged) = open(1, &stamp(Timestamp(1), [0; 16], &draft)).expect("a proposal that was made here");
        assert_eq!(logged, command, "what is logged is what was accepted");
        self.bench.apply(logged).outcomes
    }

    fn users(&mut self, op: Op, batch: Batch<UserRequest>) -> Answer {
        let hashed = |request: UserRequest| {
            let password_hash = (op != Op::Delete).then(|| PasswordHash("another hash".into()));
            Ok(UserDraft { password_hash, ..request.draft() })
        };
        self.write(batch.made(hashed), |items| Command::Users(op, items))
    }

    fn files(&mut self, op: Op, body: &[u8]) -> Answer {
        let batch = Batch::<ConfigFileDraft>::parse(body)?.checked(|draft| draft.check(CONTENT_CHARS_MAX));
        batch.items.iter().flatten().for_each(check_round_trip);
        let catalog = &self.bench.catalog;
        let sealed = batch.made(|draft| {
            let there = catalog.configs.file(&draft.key()).cloned();
            keyring().seal_file(draft, there.as_deref(), true)
        });
        self.write(sealed, |items| Command::ConfigFiles(op, items))
    }
}

/// Letter and handler of each route that takes a body, rules aside, and of queries.
#[rustfmt::skip] // one row a route
const ROUTES: &[(u8, Handler)] = &[
    (b'A', |desk, body| desk.batch(body, NamespaceDraft::check, |items| Command::Namespaces(Op::Create, items))),
    (b'B', |desk, body| desk.batch(body, NamespaceDraft::check, |items| Command::Namespaces(Op::Update, items))),
    (b'C', |desk, body| desk.batch(body, |draft: &NamespaceDraft| crate::model::name::check_namespace(&draft.name), |items| Command::Namespaces(Op::Delete, items))),
    (b'D', |desk, body| desk.batch(body, ServiceDraft::check_new, |items| Command::Services(Op::Create, items))),
    (b'E', |desk, body| desk.batch(body, ServiceDraft::check, |items| Command::Services(Op::Update, items))),
    (b'F', |desk, body| desk.batch(body, ServiceDraft::check_name, |items| Command::Services(Op::Delete, items))),
    (b'G', |desk, body| desk.batch(body, AliasDraft::check_new, |items| Command::Aliases(Op::Create, items))),
    (b'H', |desk, body| desk.batch(body, AliasDraft::check_update, |items| Command::Aliases(Op::Update, items))),
    (b'I', |desk, body| desk.batch(body, AliasDraft::check_named, |items| Command::Aliases(Op::Delete, items))),
    (b'J', |desk, body| desk.batch(body, InstanceDraft::check_new, |items| Command::Instances(Op::Create, items))),
    (b'K', |desk, body| desk.batch(body, InstanceDraft::check_update, |items| Command::Instances(Op::Update, items))),
    (b'L', |desk, body| desk.batch(body, InstanceDraft::check_named, |items| Command::Instances(Op::Delete, items))),
    (b'M', |desk, body| desk.batch(body, InstanceDraft::check_host, Command::InstancesDeleteHost)),
    (b'N', |desk, body| desk.batch(body, InstanceDraft::check_isolate_host, Command::InstancesIsolateHost)),
    (b'O', |_, body| parse_object(body).and_then(|draft: InstanceDraft| Ok(draft.check_named()?)).map(|()| done())),
    (b'P', |desk, body| desk.batch(body, ConfigGroupDraft::check, |items| Command::ConfigGroups(Op::Create, items))),
    (b'Q', |desk, body| desk.batch(body, ConfigGroupDraft::check, |items| Command::ConfigGroups(Op::Update, items))),
    (b'R', |desk, body| desk.batch(body, ConfigGroupDraft::check, |items| Command::ConfigGroups(Op::Delete, items))),
    (b'S', |desk, body| desk.files(Op::Create, body)),
    (b'T', |desk, body| desk.files(Op::Update, body)),
    (b'U', |desk, body| desk.batch(body, |draft: &ConfigFileDraft| draft.key().check(), |items| Command::ConfigFiles(Op::Delete, items))),
    (b'V', |desk, body| desk.batch(body, ConfigReleaseDraft::check, Command::ConfigPublish)),
    (b'W', |desk, body| {
        let batch = Batch::<PublishBody>::parse(body)?.made(|body| Ok(ConfigPublish::from(body)));
        let checked = batch.checked(|publish| publish.file.check(CONTENT_CHARS_MAX).and_then(|()| publish.release.check()));
        desk.write(checked, Command::ConfigCreateAndPublish)
    }),
    (b'X', |desk, body| desk.batch(body, ConfigReleaseDraft::check_named, Command::ConfigRollback)),
    (b'Y', |desk, body| desk.batch(body, ConfigReleaseDraft::check_named, Command::ConfigStopGray)),
    (b'Z', |desk, body| desk.batch(body, ConfigReleaseDraft::check_named, Command::ConfigDeleteReleases)),
    (b'a', |desk, body| desk.users(Op::Create, Batch::parse(body)?.checked(UserRequest::check_new))),
    (b'b', |desk, body| desk.users(Op::Update, Batch::parse(body)?.checked(UserRequest::check))),
    (b'c', |desk, body| desk.users(Op::Delete, Batch::parse(body)?.checked(UserRequest::check))),
    (b'd', |desk, body| {
        let read = |request: ServiceTokenRequest| request.read(token_hash(&request.name));
        desk.write(Batch::parse(body)?.made(read), |items: Vec<ServiceTokenDraft>| Command::ServiceTokens(Op::Create, items))
    }),
    (b'e', |desk, body| {
        let sealed = Batch::parse(body)?.checked(AccessKeyRequest::check).made(|request| keyring().seal_new(request));
        desk.write(sealed.made(|(draft, _)| Ok(draft)), |items: Vec<AccessKeyDraft>| Command::AccessKeys(Op::Create, items))
    }),
    (b'f', |desk, body| {
        let sealed = Batch::parse(body)?.checked(AccessKeyRequest::check).made(|request| keyring().seal(request));
        desk.write(sealed, |items| Command::AccessKeys(Op::Update, items))
    }),
    (b'g', |desk, body| {
        let given: Map<String, Value> = parse_object(body)?;
        let outcomes = desk.apply(Command::Settings(SettingsChange::read(&given)?), false);
        Ok(envelope::single_as(outcomes[0].code, "settings", &desk.bench.catalog.settings))
    }),
    (b'h', |_, body| parse_object::<PasswordRequest>(body).map(|_| done())),
    (b'i', |_, body| parse_object::<login::LoginRequest>(body).map(|_| done())),
    (b'j', |_, body| parse_object::<Addition>(body).map(|_| done())),
    (b'k', |_, body| parse_object::<Member>(body).map(|_| done())),
    (b'l', |_, body| parse_object::<Successor>(body).map(|_| done())),
    (b'm', |_, body| parse_object::<Nothing>(body).map(|_| done())),
    (b'n', |desk, body| {
        let request: discover::DiscoverRequest = parse_object(body)?;
        discover::answer_of(&desk.bench.catalog, request, desk.read_scope.clone())
    }),
    (b'o', |desk, query| {
        let query = Query::parse(&String::from_utf8_lossy(query));
        let page = query.page()?;
        assert!(page.limit <= PAGE_ROWS_MAX);
        let (_, _) = (query.ports("port")?, query.flag("healthy")?);
        let metadata = query.pairs("keys", "values")?;
        let filter = ServiceFilter { name: query.name("name"), metadata, read_scope: desk.read_scope.clone(), ..ServiceFilter::default() };
        let listed = desk.bench.catalog.services.list(&filter, &desk.bench.catalog.instances, &page);
        assert!(listed.rows.len() <= page.limit && listed.rows.len() <= listed.amount);
        Ok(done())
    }),
    (b'p', |desk, body| desk.batch(body, ConfigReleaseDraft::check_named, |items| Command::ConfigReleases(ReleaseOp::Promote, items))),
    (b'r', |desk, body| desk.batch(body, ConfigTemplateDraft::check, |items| Command::ConfigTemplates(Op::Create, items))),
    (b's', |desk, body| desk.batch(body, ConfigTemplateDraft::check, |items| Command::ConfigTemplates(Op::Update, items))),
    (b't', |desk, body| desk.batch(body, ConfigTemplateDraft::check_named, |items| Command::ConfigTemplates(Op::Delete, items))),
    (b'q', |desk, body| desk.batch(body, ConfigReleaseDraft::check_named, |items| Command::ConfigReleases(ReleaseOp::Withdraw, items))),
];

/// Requests that fill the catalog before the input comes.
const PREPARED: &[&str] = &[
    r#"A[{"name":"n","comment":"c","owners":"o"},{"name":"empty"}]"#,
    r#"D[{"name":"s","namespace":"n","ports":"80","metadata":{"k":"v"}},{"name":"t","namespace":"n"}]"#,
    r#"G[{"service":"s","namespace":"n","alias":"a","alias_namespace":"n"}]"#,
    r#"J[{"id":"i","service":"s","namespace":"n","host":"10.0.0.1","port":80,"metadata":{"k":"v"},"enable_health_check":true,"health_check":{"type":"HEARTBEAT","heartbeat":{"ttl":5}}}]"#,
    r#"P[{"name":"g","namespace":"n","comment":"c"}]"#,
    r#"S[{"name":"draft.yml","group":"g","namespace":"n","content":"k: v","format":"yaml","tags":[{"key":"k","value":"v"}]}]"#,
    r#"W[{"file_name":"f.properties","group":"g","namespace":"n","content":"a=1","release_name":"r1"}]"#,
    r#"W[{"file_name":"f.properties","group":"g","namespace":"n","content":"a=2","release_name":"r2"}]"#,
    r#"W[{"file_name":"application","group":"app","namespace":"default","content":"a=1\nb=\\u00e4","release_name":"r1"}]"#,
    r#"W[{"file_name":"f.properties","group":"g","namespace":"n","content":"a=3","release_name":"r3","release_type":"gray","betaLabels":[{"key":"zone","value":{"type":"IN","value":"a,b"}}]}]"#,
    r#"V[{"file_name":"f.properties","group":"g","namespace":"n","name":"r4","publish_at":"1970-06-01T00:00:00Z"}]"#,
    r#"V[{"file_name":"f.properties","group":"g","namespace":"n","name":"r5","release_type":"gray","client_percent":{"by":"CLIENT_IP","percent":10}}]"#,
    r#"S[{"name":"sealed.yml","group":"g","namespace":"n","content":"k: v","encrypted":true}]"#,
    r#"r[{"name":"t","content":"k: v","format":"yaml"}]"#,
    r#"W[{"file_name":"w.yml","group":"g","namespace":"n","content":"k: v","release_name":"r1"}]"#,
    r#"q[{"file_name":"w.yml","group":"g","namespace":"n","name":"r1"}]"#,
    r#"a[{"name":"eva","password":"password of eva","grants":[{"role":"editor","namespace":"n","name":"s*"}]}]"#,
    r#"d[{"name":"ci","grants":[{"role":"reader","namespace":"*"}],"networks":["10.0.0.0/8"],"expires_in_s":3600}]"#,
    r#"e[{"app_id":"app","name":"one","mode":"observe","secret":"0123456789abcdef"}]"#,
    r#"0c[{"name":"r","namespace":"n","target_service":{"namespace":"n","service":"s"},"interval":30}]"#,
    r#"0p[{"rule_name":"r","release_name":"r1"}]"#,
    r#"1c[{"name":"r","namespace":"n","callee":{"namespace":"n","service":"s"},"rules":[{"apis":[{"path":{"type":"EXACT","value":"/charge"}}],"amounts":[{"maxAmount":5,"validDuration":"1s"}]}]}]"#,
    r#"1p[{"rule_name":"r","release_name":"r1"}]"#,
    r#"1p[{"rule_name":"r","release_name":"g1","release_type":"gray","client_labels":[{"key":"zone","value":{"type":"IN","value":"a,b"}}]}]"#,
    r#"2c[{"name":"r","namespace":"n","route_policy":"RulePolicy","routing_config":{"rules":[{"name":"one","sources":[{"namespace":"n","service":"t","arguments":[]}],"destinations":[{"namespace":"n","service":"s","labels":{"k":{"type":"EXACT","value":"v"}},"weight":100}]}]}}]"#,
    r#"2p[{"rule_name":"r","release_name":"r1"}]"#,
    r#"3c[{"name":"r","namespace":"n","level":"METHOD","ruleMatcher":{"source":{"service":"*","namespace":"*"},"destination":{"namespace":"n","service":"s"}},"block_configs":[{"name":"b","api":{"path":{"type":"EXACT","value":"/charge"}},"error_conditions":[{"input_type":"DELAY","condition":{"value":"300"}}],"trigger_conditions":[{"trigger_type":"ERROR_RATE","error_percent":50,"interval":60,"minimum_request":10}]}],"recoverCondition":{"sleep_window":60}}]"#,
    r#"3p[{"rule_name":"r","release_name":"r1"}]"#,
];

/// A part of a command is read from the JSON that it writes, through the same door.
fn check_round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(item: &T) {
    let written = RawValue::from_string(serde_json::to_string(item).expect("a draft is JSON")).expect("just written");
    assert_eq!(parse_item::<T>(&written).as_ref(), Ok(item), "{written}");
}

fn keyring() -> Keyring {
    Keyring::new(DataKey::of_hex(&"a".repeat(64)))
}

fn done() -> Response {
    envelope::done()
}

/// Every answer is the envelope under its own status, and none says that something broke.
fn is_success(response: Response) -> bool {
    let status = response.status();
    let answer = read(response);
    let code = answer["code"].as_u64().expect("a code");
    assert_eq!(code / 1000, u64::from(status.as_u16()), "{answer}");
    assert!(answer["info"].is_string() && !status.is_server_error(), "{answer}");
    status.is_success()
}

fn read(response: Response) -> Value {
    let body: Bytes = response.into_body().collect().now_or_never().expect("at hand").expect("whole").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}
