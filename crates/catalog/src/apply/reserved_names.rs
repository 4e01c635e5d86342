//! Reserved names. HTTP clients remove `.` and `..` from paths, so a config client could never request a thing of that
//! name. No new thing may have one.

use super::scope::{AuthTarget, ResourceScope};
use crate::catalog::Catalog;
use crate::model::code::{Code, Refusal};

fn is_dots(name: &str) -> bool {
    name == "." || name == ".."
}

impl Catalog {
    /// Returns the refusal of a reserved name in the target scopes; `None` if there is none.
    pub(super) fn refuse_dots(&self, target: &AuthTarget) -> Option<Refusal> {
        target.destinations.iter().find_map(|place| self.refuse_dots_in(target.kind, place))
    }

    fn refuse_dots_in(&self, kind: &str, place: &ResourceScope) -> Option<Refusal> {
        let refuse = |code, field| Some(Refusal::new(code, format!("{field} may not be . or ..")));
        let (namespace, name) = match place {
            ResourceScope::Object { namespace, name } => (namespace, name.as_str()),
            ResourceScope::Namespace(namespace) => (namespace, ""),
            ResourceScope::Cluster => return None,
        };
        if is_dots(namespace) && self.namespaces.get(namespace).is_none() {
            return refuse(Code::InvalidNamespaceName, "namespace");
        }
        if !is_dots(name) {
            return None;
        }
        let is_service = self.services.get(namespace, name).is_some();
        match kind {
            "service" | "instance" if !is_service => refuse(Code::InvalidServiceName, "the name of a service"),
            "alias" if !is_service && self.aliases.get(namespace, name).is_none() => {
                refuse(Code::InvalidServiceAlias, "alias")
            }
            "configgroup" | "configfile" if self.configs.group(namespace, name).is_none() => {
                refuse(Code::InvalidConfigFileGroupName, "group")
            }
            _ => None,
        }
    }
}
