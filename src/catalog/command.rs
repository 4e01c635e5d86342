//! Commands: what a log entry asks of the catalog. One variant per kind of change, a whole request
//! batch inside; items were checked by the node that took the request as far as that is possible
//! without state.
//!
//! The encoding (variant and field names in MessagePack) is pinned by golden bytes in the tests:
//! a stored log has to be read by every later version. Variants may be added, never renamed.

use serde::{Deserialize, Serialize};

use super::nodes::NodeRecord;
use crate::model::access::{TokenHash, User};
use crate::model::alias::AliasDraft;
use crate::model::config_file::{ConfigFileDraft, ConfigGroupDraft, ConfigPublish, ConfigReleaseDraft};
use crate::model::instance::InstanceDraft;
use crate::model::namespace::NamespaceDraft;
use crate::model::release::ReleaseOp;
use crate::model::rule::release::RuleReleaseDraft;
use crate::model::rule::{Family, RuleDraft};
use crate::model::service::ServiceDraft;

/// What to do with each item of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    Create,
    Update,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Names the cluster and makes its administrator; the first one counts.
    Bootstrap {
        cluster_id: String,
        admin: User,
    },
    /// A node tells who it is and where clients reach it.
    Announce(NodeRecord),
    /// A removed member is forgotten; its id may not come back.
    Forget {
        node_id: u64,
    },
    SignIn {
        hash: TokenHash,
        user_id: String,
    },
    SignOut {
        hash: TokenHash,
    },
    Namespaces(Op, Vec<NamespaceDraft>),
    Services(Op, Vec<ServiceDraft>),
    ConfigGroups(Op, Vec<ConfigGroupDraft>),
    ConfigFiles(Op, Vec<ConfigFileDraft>),
    ConfigPublish(Vec<ConfigReleaseDraft>),
    ConfigCreateAndPublish(Vec<ConfigPublish>),
    ConfigRollback(Vec<ConfigReleaseDraft>),
    ConfigDeleteReleases(Vec<ConfigReleaseDraft>),
    Aliases(Op, Vec<AliasDraft>),
    Rules(Op, Vec<RuleDraft>),
    PublishRules(Family, Vec<RuleReleaseDraft>),
    ConfigStopGray(Vec<ConfigReleaseDraft>),
    RuleReleases(Family, ReleaseOp, Vec<RuleReleaseDraft>),
    /// A create is a registration: it replaces what is there.
    Instances(Op, Vec<InstanceDraft>),
    /// All instances of a service on a host.
    InstancesDeleteHost(Vec<InstanceDraft>),
    InstancesIsolateHost(Vec<InstanceDraft>),
    /// What the leader found out by heartbeats, or by their absence.
    InstanceHealth(Vec<InstanceHealth>),
}

/// An instance whose health has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceHealth {
    pub id: String,
    pub healthy: bool,
}
