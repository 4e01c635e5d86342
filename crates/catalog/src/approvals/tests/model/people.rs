//! Accounts of the model, by incarnation: an account created again under a name is another one. A secret belongs to the
//! person who was given it, whichever account it opens.

use super::*;
use crate::model::service_token::{Rotation, ServiceTokenChange, ServiceTokenDraft};

/// A role on a scope, as the model understands it.
pub(super) type Right = (Role, &'static str, &'static str);

const MAKER: &[&[Right]] = &[
    &[(Role::Releaser, "*", "*"), (Role::Editor, "*", "*")],
    &[(Role::Releaser, "*", "*"), (Role::Editor, "*", "*")],
    &[(Role::Releaser, "prod", "*"), (Role::Editor, "prod", "*")],
    &[(Role::Releaser, "*", "*")],
];
const APPROVER: &[&[Right]] = &[
    &[(Role::Approver, "*", "*")],
    &[(Role::Approver, "*", "*")],
    &[(Role::Approver, "prod", "*"), (Role::Reader, "*", "*")],
    &[(Role::Approver, "prod", "pay/eu"), (Role::Approver, "prod", "x"), (Role::Reader, "*", "*")],
    &[(Role::Approver, "te*", "*"), (Role::Approver, "prod", "pay")],
];
const BOTH: &[&[Right]] = &[&[(Role::Releaser, "*", "*"), (Role::Editor, "*", "*"), (Role::Approver, "*", "*")]];
const ADMIN: &[&[Right]] = &[&[(Role::Admin, "*", "*")]];
const USERS: [(&str, &[&[Right]]); 8] = [
    ("rita", MAKER),
    ("rick", MAKER),
    ("eva", BOTH),
    ("abe", APPROVER),
    ("bea", APPROVER),
    ("pam", APPROVER),
    ("ann", ADMIN),
    ("cy", ADMIN),
];
const TOKENS: [&str; 3] = ["t0", "t1", "t2"];

#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) name: String,
    /// Secrets of the account, each with the person who was given it.
    pub(super) secrets: Vec<(String, usize)>,
    rights: Vec<Right>,
    is_disabled: bool,
    pub(super) is_gone: bool,
}

impl Account {
    /// Reports whether its holder can authenticate.
    pub(super) fn is_open(&self) -> bool {
        !self.is_disabled && !self.is_gone
    }

    fn is_token(&self) -> bool {
        self.name.starts_with("token:")
    }

    /// Reports whether its holder has a verb at a place, by the table of roles in the documentation.
    pub(super) fn may(&self, verb: Verb, namespace: &str, name: &str) -> bool {
        let gives = |role: Role| match role {
            Role::Admin => true,
            Role::Releaser => matches!(verb, Verb::Read | Verb::Release),
            Role::Editor => matches!(verb, Verb::Read | Verb::Edit),
            Role::Approver => matches!(verb, Verb::Read | Verb::Approve),
            _ => verb == Verb::Read,
        };
        self.rights.iter().any(|(role, at, of)| gives(*role) && is_covered(at, namespace) && is_covered(of, name))
    }

    pub(super) fn may_all(&self, verb: Verb, scopes: &[Scope]) -> bool {
        scopes.iter().all(|(namespace, name)| self.may(verb, namespace, name))
    }
}

fn grants(rights: &[Right]) -> Grants {
    let grant =
        |(role, namespace, name): &Right| Grant { role: *role, namespace: (*namespace).into(), name: (*name).into() };
    Grants::new(rights.iter().map(grant).collect::<Vec<_>>())
}

impl World {
    pub(super) fn hire_all(&mut self) {
        for (name, menu) in USERS {
            self.hire(name, menu);
        }
    }

    fn hire(&mut self, name: &'static str, menu: &[&[Right]]) {
        let rights = menu.choose(&mut self.random).expect("some").to_vec();
        self.pass(1);
        let (password_hash, grants) = (Some(PasswordHash(name.into())), Some(grants(&rights)));
        let user = UserDraft { name: name.into(), password_hash, grants, ..UserDraft::default() };
        assert_eq!(self.by_cluster(Command::Users(Op::Create, vec![user])), [200_000]);
        self.persons += 1;
        let secrets = vec![(name.to_owned(), self.persons)];
        self.accounts.push(Account { name: name.into(), secrets, rights, is_disabled: false, is_gone: false });
        self.sign_in(name);
    }

    fn sign_in(&mut self, name: &str) {
        let user_id = self.bench.catalog.access.user_named(name).expect("made").id.clone();
        let (hash, password) = (TokenHash(name.into()), PasswordHash(name.into()));
        self.by_cluster(Command::SignIn { hash, user_id, password, from: Default::default() });
    }

    /// Logs all users in again, as logins expire after some days.
    pub(super) fn sign_in_again(&mut self) {
        let open: Vec<_> = self.accounts.iter().filter(|one| one.is_open() && !one.is_token()).collect();
        let names: Vec<_> = open.into_iter().map(|one| one.name.clone()).collect();
        names.iter().for_each(|name| self.sign_in(name));
    }

    /// Returns an existing account with this verb somewhere, and one of its secrets.
    pub(super) fn somebody(&mut self, verb: Verb) -> Option<(usize, usize)> {
        let has_shut = self.chance(40);
        let may = |one: &Account| one.may(verb, "prod", "pay") || one.may(verb, "prod", "pay/eu");
        let fits = |(_, one): &(usize, &Account)| !one.is_gone && may(one) && (has_shut || !one.is_disabled);
        let found: Vec<_> = self.accounts.iter().enumerate().filter(fits).map(|(number, _)| number).collect();
        let account = *found.choose(&mut self.random)?;
        Some((account, self.random.random_range(0..self.accounts[account].secrets.len())))
    }

    pub(super) fn change_people(&mut self) {
        let (name, menu) = *USERS.choose(&mut self.random).expect("some");
        let Some(number) = self.accounts.iter().position(|one| one.name == name && !one.is_gone) else {
            self.saw("hired again");
            return self.hire(name, menu);
        };
        let draft = UserDraft { name: name.into(), ..UserDraft::default() };
        if self.chance(3) {
            assert_eq!(self.by_cluster(Command::Users(Op::Delete, vec![draft])), [200_000]);
            self.accounts[number].is_gone = true;
            return self.saw("dismissed");
        }
        if self.accounts[number].is_disabled || self.chance(3) {
            let is_disabled = !self.accounts[number].is_disabled;
            let draft = UserDraft { disabled: Some(is_disabled), ..draft };
            assert_eq!(self.by_cluster(Command::Users(Op::Update, vec![draft])), [200_000]);
            self.accounts[number].is_disabled = is_disabled;
            if !is_disabled {
                self.sign_in(name);
            }
            return self.saw("disabled");
        }
        let rights = menu.choose(&mut self.random).expect("some").to_vec();
        let draft = UserDraft { grants: Some(grants(&rights)), ..draft };
        let codes = self.by_cluster(Command::Users(Op::Update, vec![draft]));
        assert!(codes == [200_000] || codes == [200_002], "{codes:?}");
        self.accounts[number].rights = rights;
        self.saw("rights changed");
    }

    /// Creates a token, by a person or by a token of one, or changes, rotates or deletes one.
    pub(super) fn change_tokens(&mut self) {
        let admins = |one: &Account| one.is_open() && one.may(Verb::Manage, "", "");
        let admins: Vec<_> = (0..self.accounts.len()).filter(|at| admins(&self.accounts[*at])).collect();
        let Some(by) = admins.choose(&mut self.random).copied() else { return };
        let secret = self.random.random_range(0..self.accounts[by].secrets.len());
        let person = self.accounts[by].secrets[secret].1;
        let own = *TOKENS.choose(&mut self.random).expect("some");
        let name = format!("token:{own}");
        let number = self.accounts.iter().position(|one| one.name == name && !one.is_gone);
        let hash = format!("secret {}", self.index);
        let Some(number) = number else {
            let menu = *[MAKER, APPROVER, APPROVER, BOTH, ADMIN, ADMIN].choose(&mut self.random).expect("some");
            let rights = menu.choose(&mut self.random).expect("some").to_vec();
            let draft = ServiceTokenDraft {
                name: own.into(),
                hash: TokenHash(hash.clone()),
                grants: grants(&rights),
                ..ServiceTokenDraft::default()
            };
            self.pass(1);
            let of_token = self.accounts[by].is_token();
            let outcomes = self.ask((by, secret), Command::ServiceTokens(Op::Create, vec![draft]));
            assert_eq!(outcomes[0].code.number(), 200_000);
            self.saw(if of_token { "token of a token" } else { "token" });
            let secrets = vec![(hash, person)];
            return self.accounts.push(Account { name, secrets, rights, is_disabled: false, is_gone: false });
        };
        let change =
            |change: ServiceTokenChange| Command::ChangeTokens(vec![ServiceTokenChange { name: own.into(), ..change }]);
        let mut secrets = self.accounts[number].secrets.clone();
        let (command, word) = match self.random.random_range(0..4) {
            0 => {
                let draft = ServiceTokenDraft { name: own.into(), ..ServiceTokenDraft::default() };
                (Command::ServiceTokens(Op::Delete, vec![draft]), "token deleted")
            }
            1 => {
                let overlap_s = if self.chance(2) { 1_000_000 } else { 0 };
                secrets.truncate(usize::from(overlap_s > 0));
                secrets.insert(0, (hash.clone(), person));
                let rotation = Some(Rotation { hash: TokenHash(hash), overlap_s });
                (change(ServiceTokenChange { rotation, ..ServiceTokenChange::default() }), "token rotated")
            }
            _ => {
                let disabled = Some(!self.accounts[number].is_disabled);
                (change(ServiceTokenChange { disabled, ..ServiceTokenChange::default() }), "token disabled")
            }
        };
        let outcomes = self.ask((by, secret), command);
        assert_eq!(outcomes[0].code.number(), 200_000, "{word}");
        let account = &mut self.accounts[number];
        account.secrets = secrets;
        match word {
            "token deleted" => account.is_gone = true,
            "token disabled" => account.is_disabled = !account.is_disabled,
            _ => {}
        }
        self.saw(word);
    }

    /// Creates missing users again that are needed for progress.
    pub(super) fn keep_house(&mut self) {
        for (name, menu) in [USERS[0], USERS[2], USERS[3], USERS[6]] {
            if !self.accounts.iter().any(|one| one.name == name && !one.is_gone) {
                self.hire(name, menu);
            }
        }
    }
}
