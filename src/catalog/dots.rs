//! Names that paths have no room for. Whoever sends a request takes `.` and `..` out of its path, so that a config
//! client never asks for what is called so. Nothing new gets such a name, from [`Level::CUSTODY`] on; what has one
//! stays, and is read, changed and deleted as anything else.

use super::Catalog;
use super::asked::{Aim, Place};
use crate::format::level::Level;
use crate::model::code::{Code, Refusal};

fn is_dots(name: &str) -> bool {
    name == "." || name == ".."
}

impl Catalog {
    /// Why something is not made where it is to go.
    pub(super) fn refuse_dots(&self, aim: &Aim) -> Option<Refusal> {
        let is_checked = self.level() >= Level::CUSTODY;
        aim.goes.iter().filter(|_| is_checked).find_map(|place| self.refuse_dots_in(aim.kind, place))
    }

    fn refuse_dots_in(&self, kind: &str, place: &Place) -> Option<Refusal> {
        let refuse = |code, field| Some(Refusal::new(code, format!("{field} may not be . or ..")));
        let (namespace, name) = match place {
            Place::Thing { namespace, name } => (namespace, name.as_str()),
            Place::Namespace(namespace) => (namespace, ""),
            Place::Cluster => return None,
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
