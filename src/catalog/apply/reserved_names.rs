//! Reserved names. HTTP clients take `.` and `..` out of a path, so a config client can never ask for a thing of that
//! name. Nothing new gets one.

use super::scope::{AuthTarget, ResourceScope};
use crate::catalog::Catalog;
use crate::model::code::{Code, Refusal};

fn is_dots(name: &str) -> bool {
    name == "." || name == ".."
}

impl Catalog {
    /// Reason why something is not made where it is to go; `None` if it may be made there.
    pub(super) fn refuse_dots(&self, target: &AuthTarget) -> Option<Refusal> {
        target.goes.iter().find_map(|place| self.refuse_dots_in(target.kind, place))
    }

    fn refuse_dots_in(&self, kind: &str, place: &ResourceScope) -> Option<Refusal> {
        let refuse = |code, field| Some(Refusal::new(code, format!("{field} may not be . or ..")));
        let (namespace, name) = match place {
            ResourceScope::Thing { namespace, name } => (namespace, name.as_str()),
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
