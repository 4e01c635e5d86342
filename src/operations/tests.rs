//! Operations over a catalog in memory, without a node, a log or an API.

use std::sync::Arc;
use std::time::Duration;

use super::sign_in::{Applicant, SignedIn};
use super::testing::InMemory;
use super::*;
use crate::catalog::testing::Bench;
use crate::catalog::{Catalog, Command, Credential, Op, Outcome};
use crate::data_key::DataKey;
use crate::format::level::Level;
use crate::keyring::Keyring;
use crate::model::access::{ADMIN, Founder};
use crate::model::code::{Code, Refusal};
use crate::model::grant::{Grants, Role};
use crate::model::namespace::NamespaceDraft;
use crate::model::settings::SettingsChange;
use crate::model::time::Timestamp;
use crate::origin::Sender;

const PASSWORD: &str = "a long password";
const TOKEN: &str = "a token that was drawn";
const SENDER: Sender = Sender { address: None, is_local: true };

/// Builds operations over a cluster whose administrator has a password.
async fn founded() -> Arc<Operations> {
    let bounds = Bounds {
        config_content_chars_max: 100,
        token_trust: Duration::from_secs(30),
        webhook_networks: Vec::new(),
        sso_ca_file: None,
    };
    let keyring = || Keyring::new(DataKey::of_hex(&"a".repeat(64)));
    let over = |bench| Operations::in_memory(Arc::new(InMemory::new(bench, keyring())), bounds.clone());
    let hash = over(Bench::default()).passwords.hash(PASSWORD.to_owned()).await.expect("a hash");
    let admin = Founder::administrator("u", hash.0, Timestamp(0));
    let mut bench = Bench::default();
    bench.codes(Command::Bootstrap { cluster_id: "c".into(), admin, level: Level::NEWEST });
    over(bench)
}

/// Logs the administrator in.
async fn admin(operations: &Operations) -> Caller {
    let applicant = Applicant {
        name: ADMIN.into(),
        password: PASSWORD.into(),
        sender: SENDER,
        agent: "a test".into(),
        request: "r".into(),
        token: TOKEN.into(),
    };
    let Ok(SignedIn { token, .. }) = operations.sign_in(applicant).await else { panic!("the password is right") };
    let credential = Credential::Token(token_hash(&token));
    operations.identify(credential, SENDER, "r".into()).await.expect("who has logged in is known")
}

fn codes(outcomes: &[Outcome]) -> Vec<Code> {
    outcomes.iter().map(|outcome| outcome.code).collect()
}

/// Returns the present state.
fn catalog(operations: &Operations) -> Catalog {
    operations.node.state().view()
}

#[tokio::test(start_paused = true)]
async fn a_token_holds_from_login_to_logout() {
    let operations = founded().await;
    let caller = admin(&operations).await;
    assert_eq!(caller.again(&operations).expect("still logged in").name, ADMIN);

    operations.sign_out(&caller).await.expect("a token to retire");
    assert_eq!(caller.again(&operations).expect_err("logged out").code, Code::TokenNotExisted);
}

/// A refused draft never becomes part of the command; the other items are carried out.
#[tokio::test(start_paused = true)]
async fn each_item_has_its_outcome_where_it_stood() {
    let operations = founded().await;
    let caller = admin(&operations).await;
    let draft = |name: &str| Ok(NamespaceDraft { name: name.into(), ..NamespaceDraft::default() });
    let unread = Err(Refusal::new(Code::ParseException, "no object"));

    let items = vec![draft("first"), draft("not a name"), unread, draft("second"), draft("first")];
    let outcomes = operations.namespaces(&caller, Op::Create, items).await.expect("a batch");

    let expected = [
        Code::ExecuteSuccess,
        Code::InvalidNamespaceName,
        Code::ParseException,
        Code::ExecuteSuccess,
        Code::ExistedResource,
    ];
    assert_eq!(codes(&outcomes), expected);
    let names = ["first", "second", "not a name"].map(|name| catalog(&operations).namespaces.get(name).is_some());
    assert_eq!(names, [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn an_operator_does_not_decide_what_is_recorded_of_people() {
    let operations = founded().await;
    let caller = admin(&operations).await;
    let operator = Caller { grants: Grants::all(Role::Operator), ..caller.clone() };
    let change = SettingsChange { audit_kept_days: Some(7), ..SettingsChange::default() };

    let refused = operations.change_settings(&operator, change.clone()).await.expect_err("it is for who manages");
    assert_eq!(refused.code, Code::NotAllowedAccess);
    assert_ne!(catalog(&operations).settings.audit_kept_days, 7);

    operations.change_settings(&caller, change).await.expect("an administrator manages everything");
    assert_eq!(catalog(&operations).settings.audit_kept_days, 7);
}
