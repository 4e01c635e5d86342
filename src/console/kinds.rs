//! Kinds of objects that the console edits by forms.

use super::frame::Section;
use super::session::SessionUser;
use super::texts::Texts;
use crate::model::code::{Code, Refusal};
use crate::model::grant::Verb;
use crate::model::wire::{Words, word_enum};

word_enum! {
    /// Kinds of objects, by their name in paths.
    pub(super) enum ResourceKind {
        Namespaces = "namespaces",
        Services = "services",
        Aliases = "aliases",
        Groups = "groups",
        Templates = "templates",
        Users = "users",
        Tokens = "tokens",
        AccessKeys = "accesskeys",
        Providers = "providers",
        Webhooks = "webhooks",
        Policies = "policies",
        Contracts = "contracts",
        Settings = "settings",
    }
}

impl ResourceKind {
    pub(super) fn title(self, t: &Texts) -> &'static str {
        match self {
            ResourceKind::Namespaces => t.namespaces,
            ResourceKind::Services => t.services,
            ResourceKind::Aliases => t.aliases,
            ResourceKind::Groups => t.groups,
            ResourceKind::Templates => t.templates,
            ResourceKind::Users => t.users,
            ResourceKind::Tokens => t.tokens,
            ResourceKind::AccessKeys => t.access_keys,
            ResourceKind::Providers => t.sso.providers,
            ResourceKind::Webhooks => t.webhooks,
            ResourceKind::Policies => t.policies,
            ResourceKind::Contracts => t.contracts,
            ResourceKind::Settings => t.settings,
        }
    }

    /// Returns the section of the console, and the page of the list.
    pub(super) fn home(self) -> (Section, &'static str) {
        match self {
            ResourceKind::Namespaces => (Section::Setup, "/ui/namespaces"),
            ResourceKind::Services | ResourceKind::Aliases => (Section::Services, "/ui/services"),
            ResourceKind::Groups => (Section::Config, "/ui/config"),
            ResourceKind::Templates => (Section::Setup, "/ui/templates"),
            ResourceKind::Users | ResourceKind::Tokens | ResourceKind::AccessKeys => (Section::Setup, "/ui/accounts"),
            ResourceKind::Providers => (Section::Setup, "/ui/providers"),
            ResourceKind::Webhooks => (Section::Setup, "/ui/webhooks"),
            ResourceKind::Policies => (Section::Setup, "/ui/policies"),
            ResourceKind::Contracts => (Section::Setup, "/ui/contracts"),
            ResourceKind::Settings => (Section::Setup, "/ui/cluster"),
        }
    }

    /// Returns a sentence on the purpose of these objects.
    pub(super) fn about(self, t: &Texts) -> &'static str {
        match self {
            ResourceKind::Namespaces => t.help.namespaces_about,
            ResourceKind::Templates => t.help.templates_about,
            ResourceKind::Webhooks => t.help.webhooks_about,
            ResourceKind::Policies => t.help.policies_about,
            ResourceKind::Contracts => t.help.contracts_about,
            _ => "",
        }
    }

    /// Returns a command that creates such an object; empty if forms are the usual way.
    pub(super) fn command(self) -> &'static str {
        match self {
            ResourceKind::Policies => "thuban policy set two --for-namespace production --approvals 1",
            ResourceKind::Namespaces => "thuban apply -f - <<'EOF'\nkind: namespace\nname: production\nspec: {}\nEOF",
            _ => "",
        }
    }

    /// Returns the verb needed everywhere to see objects of this kind; `None` if each object is checked separately.
    pub(super) fn verb(self) -> Option<Verb> {
        match self {
            ResourceKind::Namespaces | ResourceKind::Services | ResourceKind::Aliases | ResourceKind::Groups => None,
            ResourceKind::Templates | ResourceKind::Contracts => None,
            ResourceKind::Users | ResourceKind::Tokens | ResourceKind::AccessKeys => Some(Verb::Manage),
            ResourceKind::Providers | ResourceKind::Policies => Some(Verb::Manage),
            ResourceKind::Webhooks | ResourceKind::Settings => Some(Verb::Operate),
        }
    }

    /// Returns the fields that name an object; they cannot be changed.
    pub(super) fn key(self) -> &'static [&'static str] {
        match self {
            ResourceKind::Services | ResourceKind::Groups => &["namespace", "name"],
            ResourceKind::Aliases => &["alias_namespace", "alias"],
            ResourceKind::AccessKeys => &["app_id", "name"],
            ResourceKind::Settings => &[],
            _ => &["name"],
        }
    }

    /// Returns the kind with this name, if the visitor may see any of its objects.
    pub(super) fn seen_by(visitor: &SessionUser, word: &str) -> Result<ResourceKind, Refusal> {
        let kind = ResourceKind::of_word(word).ok_or(Code::NotFoundResource)?;
        kind.verb().map_or(Ok(()), |verb| visitor.caller.check_everywhere(verb)).map(|()| kind)
    }
}
