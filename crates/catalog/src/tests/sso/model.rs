//! Random histories of a provider and its people, compared with a model that knows no index.

use proptest::prelude::*;

use super::*;

const GROUPS: [&str; 3] = ["dev", "ops", "qa"];
const SUBS: usize = 3;
const SESSIONS: usize = 5;

#[derive(Clone, Debug)]
enum Step {
    /// Sign-in of a person under a name, with the groups of a mask.
    SignIn {
        session: usize,
        sub: usize,
        name: usize,
        groups: usize,
    },
    SignOut(usize),
    /// Bindings for the groups of a mask.
    Bind(usize),
    Disable(bool),
    /// Rights by hand, given or taken.
    ByHand(usize, bool),
    Free(usize),
    LogOut(usize),
    /// The provider is deleted and created again, with bindings for all groups.
    Renew,
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..SESSIONS, 0..SUBS, 0..3_usize, 0..8_usize)
            .prop_map(|(session, sub, name, groups)| Step::SignIn { session, sub, name, groups }),
        1 => (0..SESSIONS).prop_map(Step::SignOut),
        2 => (0..8_usize).prop_map(Step::Bind),
        1 => any::<bool>().prop_map(Step::Disable),
        2 => (0..SUBS, any::<bool>()).prop_map(|(sub, on)| Step::ByHand(sub, on)),
        1 => (0..SUBS).prop_map(Step::Free),
        1 => (0..SUBS).prop_map(Step::LogOut),
        1 => Just(Step::Renew),
    ]
}

/// State of the provider in plain lists.
#[derive(Default)]
struct Model {
    bound: usize,
    is_disabled: bool,
    by_hand: [bool; SUBS],
    /// Owner of each name.
    names: [Option<usize>; 3],
    /// Person and groups of each session.
    sessions: [Option<(usize, usize)>; SESSIONS],
}

impl Model {
    fn has_rights(&self, sub: usize, groups: usize) -> bool {
        !self.is_disabled && (self.by_hand[sub] || self.bound & groups != 0)
    }

    fn is_in(&self, session: usize) -> bool {
        self.sessions[session].is_some_and(|(sub, groups)| self.has_rights(sub, groups))
    }

    /// Ends the sessions of a person, or all of them.
    fn end(&mut self, sub: Option<usize>) {
        let is_over = |(of, _): &(usize, usize)| sub.is_none_or(|sub| sub == *of);
        self.sessions.iter_mut().for_each(|session| *session = session.filter(|session| !is_over(session)));
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::SignIn { session, sub, name, groups } => {
                let is_theirs = self.names[name].is_none_or(|owner| owner == sub);
                if is_theirs && self.has_rights(sub, groups) {
                    self.names[name] = Some(sub);
                    self.sessions[session] = Some((sub, groups));
                }
            }
            Step::SignOut(session) => self.sessions[session] = None,
            Step::Bind(mask) => self.bound = mask,
            Step::Disable(is_disabled) => {
                self.is_disabled = is_disabled;
                if is_disabled {
                    self.end(None);
                }
            }
            Step::ByHand(sub, true) => self.by_hand[sub] = true,
            Step::ByHand(sub, false) => {
                if std::mem::take(&mut self.by_hand[sub]) {
                    self.end(Some(sub));
                }
            }
            Step::Free(sub) => {
                if self.names.contains(&Some(sub)) {
                    self.end(Some(sub));
                }
                self.names.iter_mut().for_each(|owner| *owner = owner.filter(|owner| *owner != sub));
            }
            Step::LogOut(sub) => self.end(Some(sub)),
            Step::Renew => *self = Model { bound: 7, ..Model::default() },
        }
    }
}

fn groups_of(mask: usize) -> Vec<&'static str> {
    (0..).zip(GROUPS).filter(|(bit, _)| mask & (1 << bit) != 0).map(|(_, group)| group).collect()
}

fn bindings_of(mask: usize) -> Vec<Binding> {
    groups_of(mask).into_iter().map(|group| binding(group, Role::Reader, "*")).collect()
}

impl Bench {
    fn take(&mut self, number: usize, step: &Step) {
        let sub = |sub: usize| format!("sub{sub}");
        match *step {
            Step::SignIn { session, sub: of, name, groups } => {
                let name = ["ann", "bob", "eve"][name];
                drop(self.sso(&format!("s{session}"), &claims_of(&sub(of), name, &groups_of(groups))));
            }
            Step::SignOut(session) => {
                drop(self.apply(Command::SignOut { hash: token_of(&format!("s{session}")) }));
            }
            Step::Bind(mask) => {
                drop(self.by("admin", changed(|draft| draft.bindings = Some(bindings_of(mask)))));
            }
            Step::Disable(is_disabled) => {
                drop(self.by("admin", changed(|draft| draft.disabled = Some(is_disabled))));
            }
            Step::ByHand(of, on) => {
                let draft = UserDraft {
                    identity: Some(identity(&sub(of))),
                    grants: Some(Grants::all(Role::Editor)),
                    ..UserDraft::default()
                };
                let op = if on { Op::Create } else { Op::Delete };
                drop(self.by("admin", Command::Users(op, vec![draft])));
            }
            Step::Free(of) => {
                let items = vec![identity(&sub(of))];
                drop(self.by("admin", Command::FreeIdentities { items, tokens: false }));
            }
            Step::LogOut(of) => {
                self.log_out_by(None, Some(&sub(of)), &number.to_string());
            }
            Step::Renew => {
                drop(self.by("admin", Command::Providers(Op::Delete, vec![named(PROVIDER)])));
                let draft = ProviderDraft { bindings: Some(bindings_of(7)), ..provider() };
                assert_eq!(self.by("admin", Command::Providers(Op::Create, vec![draft])), [200000]);
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::test_seed::cases(128))]

    #[test]
    fn who_is_in_has_a_right_now_and_a_name_of_its_own(steps in prop::collection::vec(some_step(), 1..40)) {
        let mut bench = Bench::trusting();
        let mut model = Model::default();
        for (number, step) in [Step::Renew].into_iter().chain(steps).enumerate() {
            bench.take(number, &step);
            model.take(&step);
            for session in 0..SESSIONS {
                let is_in = bench.is_in(&format!("s{session}"));
                prop_assert_eq!(is_in, model.is_in(session), "session {} after {:?}", session, step);
            }
            let owned = model.names.iter().filter(|owner| owner.is_some()).count();
            let kept: usize = bench.catalog.access.sso()
                .list_identities(|_| true, &crate::catalog::page::Page::ALL).rows.iter()
                .map(|identity| identity.usernames().count()).sum();
            prop_assert_eq!(kept, owned);
        }
        prop_assert_eq!(bench.reloaded(), bench.catalog);
    }
}
