//! Rights that a form needs, by its path. They are checked before the form is read. The objects that it names are
//! checked by the operation, and by [`SessionUser::check`] if a handler acts before.

use super::kinds::ResourceKind;
use super::session::SessionUser;
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::model::wire::Words;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// A signed-in visitor.
    Nothing,
    /// The verb on at least one object.
    Somewhere(Verb),
    Everywhere(Verb),
}

pub(super) fn check(visitor: &SessionUser, path: &str) -> Result<(), Refusal> {
    match need(path) {
        Need::Nothing => Ok(()),
        Need::Everywhere(verb) => visitor.caller.check_everywhere(verb),
        Need::Somewhere(verb) if visitor.may_somewhere(verb) => Ok(()),
        Need::Somewhere(verb) => Err(Refusal::new(Code::NotAllowedAccess, format!("this needs {}", verb.word()))),
    }
}

fn need(path: &str) -> Need {
    let parts: Vec<_> = path.split('/').skip(2).collect();
    match parts.as_slice() {
        ["account" | "sign-out" | "language" | "explain"] => Need::Nothing,
        // Approvers need no edit right, and a requester may withdraw: the operation checks which applies.
        ["requests", _] => Need::Nothing,
        ["accounts" | "identities" | "sessions"] | ["providers", _] => Need::Everywhere(Verb::Manage),
        ["cluster"] | ["cluster", "backup"] => Need::Everywhere(Verb::Operate),
        ["edit", word] => ResourceKind::of_word(word).map_or(Need::Somewhere(Verb::Edit), |sort| match sort.verb() {
            Some(verb) => Need::Everywhere(verb),
            // Templates have no namespace.
            None if sort == ResourceKind::Templates => Need::Everywhere(Verb::Edit),
            None => Need::Somewhere(Verb::Edit),
        }),
        ["rules", _, _, "release" | "change"] | ["config", "file", "release" | "change"] => {
            Need::Somewhere(Verb::Release)
        }
        _ => Need::Somewhere(Verb::Edit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_a_form_has_its_need() {
        let (edit, release) = (Need::Somewhere(Verb::Edit), Need::Somewhere(Verb::Release));
        let rows = [
            ("/ui/language", Need::Nothing),
            ("/ui/account", Need::Nothing),
            ("/ui/explain", Need::Nothing),
            ("/ui/requests/1", Need::Nothing),
            ("/ui/accounts", Need::Everywhere(Verb::Manage)),
            ("/ui/identities", Need::Everywhere(Verb::Manage)),
            ("/ui/sessions", Need::Everywhere(Verb::Manage)),
            ("/ui/providers/company", Need::Everywhere(Verb::Manage)),
            ("/ui/edit/providers", Need::Everywhere(Verb::Manage)),
            ("/ui/cluster", Need::Everywhere(Verb::Operate)),
            ("/ui/services", edit),
            ("/ui/service/instance", edit),
            ("/ui/rules/routings/new", edit),
            ("/ui/rules/routings/change", edit),
            ("/ui/rules/routings/1/delete", edit),
            ("/ui/rules/routings/1/release", release),
            ("/ui/config/file", edit),
            ("/ui/config/file/change", release),
            ("/ui/edit/users", Need::Everywhere(Verb::Manage)),
            ("/ui/edit/webhooks", Need::Everywhere(Verb::Operate)),
            ("/ui/edit/templates", Need::Everywhere(Verb::Edit)),
            ("/ui/edit/groups", edit),
            ("/ui/edit/none", edit),
        ];
        for (path, expected) in rows {
            assert_eq!(need(path), expected, "{path}");
        }
    }
}
