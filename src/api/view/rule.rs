//! Rules and their releases in the management API and in discovery.

use schemars::JsonSchema;
use serde::Serialize;
use thuban_documents::RuleView;

use super::history::StateView;
use super::rollout::RolloutView;
use crate::model::audience::{ClientLabel, ClientPercent};
use crate::model::release::ReleaseType;
use crate::model::rule::RuleType;
use crate::model::rule::release::RuleRelease;

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
