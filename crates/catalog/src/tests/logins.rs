//! Logins over time: entries write the same rows in the same order as a walk over all tokens would.

use proptest::prelude::*;

use super::*;
use crate::model::access::{Token, UserDraft};

/// Model of the tokens without an index.
#[derive(Default)]
struct Walked(BTreeMap<TokenHash, Token>);

impl Walked {
    /// Removes the tokens that `is_over` accepts, and returns them in order.
    fn end(&mut self, is_over: impl Fn(&Token) -> bool) -> Vec<TokenHash> {
        let over: Vec<_> = self.0.values().filter(|token| is_over(token)).map(|token| token.hash.clone()).collect();
        over.iter().for_each(|hash| drop(self.0.remove(hash)));
        over
    }

    fn sign_in(&mut self, token: Token) -> Vec<TokenHash> {
        let mut gone = self.end(|kept| kept.expires <= token.ctime);
        let mut held: Vec<_> = self.0.values().filter(|kept| kept.user_id == token.user_id).cloned().collect();
        held.sort_by(|a, b| (b.ctime, &b.hash).cmp(&(a.ctime, &a.hash)));
        for surplus in held.iter().skip(limits::TOKENS_PER_USER_MAX - 1) {
            gone.extend(self.end(|kept| kept.hash == surplus.hash));
        }
        self.0.insert(token.hash.clone(), token);
        gone
    }
}

/// Returns the tokens whose rows an entry removes, in order.
fn removed(applied: &Applied) -> Vec<TokenHash> {
    let key_of = |hash: &TokenHash| {
        Token {
            hash: hash.clone(),
            user_id: String::new(),
            ctime: Timestamp(0),
            expires: Timestamp(0),
            from: Default::default(),
            sso: None,
        }
        .key()
    };
    let gone = applied.edits.iter().filter(|edit| edit.value.is_none() && edit.key[0] == Table::Token as u8);
    let hash = |edit: &Edit| {
        let hash = TokenHash(String::from_utf8(edit.key[1..].to_vec()).expect("a hash"));
        assert_eq!(key_of(&hash), edit.key);
        hash
    };
    gone.map(hash).collect()
}

/// Returns a hash that is independent of the order of creation.
fn hash(number: u64) -> TokenHash {
    TokenHash(format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

#[derive(Clone, Debug)]
enum Step {
    SignIn { user: usize, hours: u64 },
    SignOut(u64),
    Password(usize),
    Leave(usize),
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_usize, 0..30_u64).prop_map(|(user, hours)| Step::SignIn { user, hours }),
        2 => (0..40_u64).prop_map(Step::SignOut),
        1 => (0..3_usize).prop_map(Step::Password),
        1 => (1..3_usize).prop_map(Step::Leave),
    ]
}

proptest! {
    #![proptest_config(crate::test_seed::cases(256))]

    #[test]
    fn logins_end_as_a_walk_over_all_of_them_would_end_them(steps in prop::collection::vec(some_step(), 1..60)) {
        let mut bench = Bench::founded();
        let draft = |name: &str| UserDraft { name: name.into(), password_hash: Some(PasswordHash("h".into())),
            ..UserDraft::default() };
        bench.codes(Command::Users(Op::Create, vec![draft("one"), draft("two")]));
        let names = ["admin", "one", "two"];
        let ids = names.map(|name| bench.catalog.access.user_named(name).expect("a user").id.clone());
        let (mut walked, mut now) = (Walked::default(), bench.catalog.clock().0);
        for (number, step) in (0..).zip(steps) {
            now += if let Step::SignIn { hours, .. } = step { hours * 3_600_000 } else { 0 };
            bench.pass_time_until(now);
            bench.index += 1;
            let ctx = Ctx::new(bench.index, Timestamp(now), [number as u8; 16], RequestId(bench.index.into()),
                "tester");
            let (command, expected) = match step {
                Step::SignIn { user, .. } => {
                    let (user_id, hash) = (ids[user].clone(), hash(number));
                    let is_there = bench.catalog.access.user_named(names[user]).is_some();
                    let expires = Timestamp(now).plus_ms(limits::TOKEN_LIFETIME_MS);
                    let token = Token { hash: hash.clone(), user_id: user_id.clone(), ctime: Timestamp(now), expires,
                        from: Default::default(), sso: None };
                    let expected = if is_there { walked.sign_in(token) } else { Vec::new() };
                    (Command::SignIn { hash, user_id, password: PasswordHash::default(), from: Default::default() },
                        expected)
                }
                Step::SignOut(number) => {
                    let hash = hash(number);
                    (Command::SignOut { hash: hash.clone() }, walked.end(|kept| kept.hash == hash))
                }
                Step::Password(user) => {
                    let password_hash = PasswordHash(format!("{number}"));
                    let gone = walked.end(|kept| kept.user_id == ids[user]);
                    (Command::ChangePassword { name: names[user].into(), password_hash, replaces: None }, gone)
                }
                Step::Leave(user) => {
                    let gone = walked.end(|kept| kept.user_id == ids[user]);
                    (Command::Users(Op::Delete, vec![draft(names[user])]), gone)
                }
            };
            prop_assert_eq!(removed(&bench.apply_as(&ctx, command)), expected);
            prop_assert_eq!(bench.catalog.access.token_count(), walked.0.len());
        }
        prop_assert_eq!(bench.reloaded(), bench.catalog);
    }
}

/// The login with the smallest hash is the first to be removed of those of the same time.
#[test]
fn one_login_too_many_ends_the_oldest() {
    let mut bench = Bench::founded();
    let sign_in = |number| Command::SignIn {
        hash: hash(number),
        user_id: "u".into(),
        password: PasswordHash::default(),
        from: Default::default(),
    };
    let mut walked = Walked::default();
    for number in 0..limits::TOKENS_PER_USER_MAX as u64 + 20 {
        bench.index += 1;
        let now = Timestamp(10_000_000 + number / 7);
        let ctx = Ctx::new(bench.index, now, [0; 16], RequestId(bench.index.into()), "tester");
        let expires = now.plus_ms(limits::TOKEN_LIFETIME_MS);
        let expected = walked.sign_in(Token {
            hash: hash(number),
            user_id: "u".into(),
            ctime: now,
            expires,
            from: Default::default(),
            sso: None,
        });
        assert_eq!(removed(&bench.apply_as(&ctx, sign_in(number))), expected, "login {number}");
    }
    assert_eq!(bench.catalog.access.token_count(), limits::TOKENS_PER_USER_MAX);
}
