//! Every kind of caller.

use serde_json::{Value, json};

use super::things::{HOME, SCOPE};
use super::{Bench, OTHER_NAMESPACE};
use crate::catalog::{Command, Op};
use crate::model::access::{PasswordHash, UserDraft};
use crate::model::grant::{Grant, Grants, Role};
use crate::operations::token_hash;

/// Addresses of the bench's clients, and the network that service tokens may be used from.
pub(super) const NEAR: &str = "192.0.2.1";
const NETWORK: &str = "192.0.2.0/24";
const FAR: &str = "198.51.100.1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Everything,
    /// The namespace of the things, and namespaces with the same prefix.
    Namespace,
    /// The things.
    Thing,
    OtherNamespace,
    /// Another name in the namespace of the things.
    OtherName,
}

impl Scope {
    const ALL: [Scope; 5] =
        [Scope::Everything, Scope::Namespace, Scope::Thing, Scope::OtherNamespace, Scope::OtherName];

    fn grant(self, role: Role) -> Grant {
        let (namespace, name) = match self {
            Scope::Everything => ("*".to_owned(), "*".to_owned()),
            Scope::Namespace => (format!("{HOME}*"), "*".to_owned()),
            Scope::Thing => (HOME.to_owned(), format!("{SCOPE}*")),
            Scope::OtherNamespace => (OTHER_NAMESPACE.to_owned(), "*".to_owned()),
            Scope::OtherName => (HOME.to_owned(), "other*".to_owned()),
        };
        Grant { role, namespace, name }
    }
}

/// Credentials of a caller.
pub(super) enum Standing {
    /// No credentials.
    Silent,
    /// Invalid token: unknown, ended, or not valid from this address.
    Unknown,
    Holds(Vec<(Role, Scope)>),
}

pub(super) struct Caller {
    pub(super) title: String,
    pub(super) token: Option<String>,
    pub(super) address: &'static str,
    pub(super) standing: Standing,
    /// User of a login.
    user_id: Option<String>,
}

impl Caller {
    fn new(title: impl Into<String>, token: Option<&str>, standing: Standing) -> Caller {
        let token = token.map(str::to_owned);
        Caller { title: title.into(), token, address: NEAR, standing, user_id: None }
    }

    fn unknown(title: &str, token: &str) -> Caller {
        Caller::new(title, Some(token), Standing::Unknown)
    }

    pub(super) async fn log_in_again(&self, bench: &Bench) {
        if let (Some(token), Some(user_id)) = (&self.token, &self.user_id) {
            sign_in(bench, user_id, token).await;
        }
    }
}

/// Logs a user in without hashing a password: hundreds of hashes would take minutes.
async fn sign_in(bench: &Bench, user_id: &str, token: &str) {
    let (hash, user_id) = (token_hash(token), user_id.to_owned());
    let command = Command::SignIn { hash, user_id, password: PasswordHash::default(), from: Default::default() };
    let outcomes = bench.node.propose("test", command).await.expect("proposed");
    assert!(outcomes[0].code.is_success(), "{outcomes:?}");
}

async fn user(bench: &Bench, name: &str, grants: &[(Role, Scope)]) -> Caller {
    let draft = UserDraft {
        name: name.to_owned(),
        password_hash: Some(PasswordHash("no password has this hash".to_owned())),
        grants: Some(Grants::new(grants.iter().map(|(role, scope)| scope.grant(*role)).collect::<Vec<_>>())),
        ..UserDraft::default()
    };
    change_user(bench, Op::Create, draft).await;
    let user_id = bench.node.state().catalog().access.user_named(name).expect("made").id.clone();
    let token = format!("login of {name}");
    sign_in(bench, &user_id, &token).await;
    Caller { user_id: Some(user_id), ..Caller::new(name, Some(&token), Standing::Holds(grants.to_vec())) }
}

async fn change_user(bench: &Bench, op: Op, draft: UserDraft) {
    let outcomes = bench.node.propose("test", Command::Users(op, vec![draft])).await.expect("proposed");
    assert!(outcomes[0].code.is_success(), "{outcomes:?}");
}

/// Creates a service token through the surface.
async fn service_token(bench: &Bench, admin: &str, name: &str, request: Value) -> String {
    let mut item = json!({ "name": name });
    for (key, value) in request.as_object().expect("an object") {
        item[key] = value.clone();
    }
    let (_, answer) = bench.send("POST", "/auth/v1/tokens", Some(admin), item).await;
    answer["responses"][0]["token"]["secret"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

pub(super) async fn all(bench: &Bench) -> Vec<Caller> {
    let admin = bench.log_in().await;
    let mut callers = vec![
        Caller::new("nobody", None, Standing::Silent),
        Caller::new("an empty token", Some(""), Standing::Silent),
        Caller::unknown("a wrong token", "guess"),
        ended(bench, &admin, "disabled").await,
        ended(bench, &admin, "deleted").await,
        ended(bench, &admin, "with a new password").await,
        ended(bench, &admin, "logged out").await,
        user(bench, "without-grants", &[]).await,
        user(bench, "editor-and-releaser", &[(Role::Editor, Scope::Thing), (Role::Releaser, Scope::Thing)]).await,
        user(bench, "editor-here-reader-there", &[(Role::Editor, Scope::Thing), (Role::Reader, Scope::OtherNamespace)])
            .await,
    ];
    let everything = json!({ "grants": [{ "role": "admin", "namespace": "*" }] });
    let mut brief = everything.clone();
    brief["expires_in_s"] = json!(1);
    let expired = service_token(bench, &admin, "brief", brief).await;
    let retired = service_token(bench, &admin, "retired", everything.clone()).await;
    let (_, answer) = bench.send("POST", "/auth/v1/tokens/delete", Some(&admin), json!({ "name": "retired" })).await;
    assert_eq!(answer["code"], 200_000, "{answer}");
    callers.push(Caller::unknown("a service token that was deleted", &retired));
    for role in Role::ALL {
        for scope in Scope::ALL {
            callers.push(user(bench, &format!("{}-{scope:?}", role.word()), &[(role, scope)]).await);
        }
        let request = json!({ "grants": [Scope::Thing.grant(role)], "networks": [NETWORK] });
        let token = service_token(bench, &admin, role.word(), request).await;
        let title = format!("the service token {}", role.word());
        callers.push(Caller::new(&title, Some(&token), Standing::Holds(vec![(role, Scope::Thing)])));
        callers.push(Caller { address: FAR, ..Caller::unknown(&format!("{title} from elsewhere"), &token) });
    }
    let token = service_token(bench, &admin, "all", everything).await;
    callers.push(Caller::new(
        "a service token on everything",
        Some(&token),
        Standing::Holds(vec![(Role::Admin, Scope::Everything)]),
    ));
    // It expires by the clock of the cluster.
    let expires = bench.node.state().catalog().access.service_token("brief").expect("kept").expires.expect("a time");
    while bench.node.now() <= expires {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    callers.push(Caller::unknown("an expired service token", &expired));
    callers
}

/// Returns the holder of a login that was ended in the given way.
async fn ended(bench: &Bench, admin: &str, how: &str) -> Caller {
    let name = format!("former-{}", how.replace(' ', "-"));
    let former = user(bench, &name, &[(Role::Admin, Scope::Everything)]).await;
    let draft = UserDraft { name, ..UserDraft::default() };
    match how {
        "disabled" => change_user(bench, Op::Update, UserDraft { disabled: Some(true), ..draft }).await,
        "deleted" => change_user(bench, Op::Delete, draft).await,
        "with a new password" => {
            let body = json!({ "name": draft.name, "new_password": "another password" });
            let (_, answer) = bench.send("PUT", "/auth/v1/user/password", Some(admin), body).await;
            assert_eq!(answer["code"], 200_000, "{answer}");
        }
        _ => {
            let (_, answer) = bench.send("POST", "/auth/v1/user/logout", former.token.as_deref(), Value::Null).await;
            assert_eq!(answer["code"], 200_000, "{answer}");
        }
    }
    Caller { title: format!("an administrator {how}"), standing: Standing::Unknown, user_id: None, ..former }
}
