//! Rules and their releases in the management API and in discovery.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::history::StateView;
use super::rollout::RolloutView;
use crate::model::audience::{ClientLabel, ClientPercent};
use crate::model::release::ReleaseType;
use crate::model::rule::release::RuleRelease;
use crate::model::rule::{Fields, Rule, RuleType};
use crate::model::time::Timestamp;

/// Fields that the rules of all families have.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rule")]
pub(crate) struct RuleView<'a> {
    #[serde(skip)]
    pub(crate) element: &'static str,
    id: &'a str,
    name: &'a str,
    namespace: &'a str,
    enable: bool,
    /// The opposite of `enable`.
    disable: bool,
    description: &'a str,
    /// Priority; 0 is the highest.
    priority: u32,
    metadata: &'a BTreeMap<String, String>, // bound: request
    /// Fields of the family, described by the family.
    #[serde(flatten)]
    #[schemars(skip)]
    fields: Option<Fields<'a>>,
    /// Empty fields of the family, described with the others.
    #[serde(flatten)]
    #[schemars(skip)]
    unset: Option<Unset>,
    revision: &'a str,
    ctime: String,
    mtime: String,
    /// Time at which the rule was last enabled; empty if never.
    etime: String,
    editable: bool,
    deleteable: bool,
}

/// Names of empty fields, which an answer includes.
struct Unset(Vec<&'static str>);

impl Serialize for Unset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|field| (field, ())))
    }
}

impl<'a> RuleView<'a> {
    pub(crate) fn new(rule: &'a Rule, with_body: bool) -> Self {
        RuleView {
            element: rule.family().element(),
            id: &rule.id,
            name: &rule.name,
            namespace: &rule.namespace,
            enable: rule.enable,
            disable: !rule.enable,
            description: &rule.description,
            priority: rule.priority,
            metadata: &rule.metadata,
            fields: with_body.then(|| rule.body.fields()),
            unset: with_body.then(|| Unset(rule.body.unset())),
            revision: &rule.revision,
            ctime: rule.created.time.text(),
            mtime: rule.modified.time.text(),
            etime: rule.enabled_at.map(Timestamp::text).unwrap_or_default(),
            editable: true,
            deleteable: true,
        }
    }
}

/// An immutable copy of a rule, made by a publish.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RuleRelease")]
pub(crate) struct RuleReleaseView<'a> {
    id: &'a str,
    rule_id: &'a str,
    rule_name: &'a str,
    namespace: &'a str,
    release_name: &'a str,
    description: &'a str,
    release_type: ReleaseType,
    client_labels: &'a [ClientLabel],
    /// Share of the clients of a gray release.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_percent: Option<&'a ClientPercent>,
    /// Rollout of a gray release that was published with a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    rollout: Option<RolloutView<'a>>,
    /// Number of the release of this rule, counting rollbacks; never reused.
    version: u64,
    resource: RuleType,
    active: bool,
    state: StateView,
    /// Time of a planned publish, even if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    publish_at: Option<String>,
    ctime: String,
    create_by: &'a str,
    mtime: String,
    modify_by: &'a str,
    /// The released rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<RuleView<'a>>,
}

impl<'a> RuleReleaseView<'a> {
    pub(crate) fn new(release: &'a RuleRelease, with_rule: bool) -> Self {
        RuleReleaseView {
            id: &release.id,
            rule_id: &release.rule.id,
            rule_name: &release.rule.name,
            namespace: &release.rule.namespace,
            release_name: &release.name,
            description: &release.description,
            release_type: release.release_type,
            client_labels: &release.client_labels,
            client_percent: release.client_percent.as_ref(),
            rollout: release.rollout.as_deref().map(RolloutView::new),
            version: release.version,
            resource: release.rule.family().resource(),
            active: release.active,
            state: release.state().into(),
            publish_at: release.plan.as_ref().map(|plan| plan.at.text()),
            ctime: release.created.time.text(),
            create_by: &release.created.by,
            mtime: release.modified.time.text(),
            modify_by: &release.modified.by,
            rule: with_rule.then(|| RuleView::new(&release.rule, true)),
        }
    }
}
