//! Existing drafts and releases that their authors could not make now: they are older than the authorization of rules
//! by their effects, or their authors have lost a right. They stay in force and are reported to administrators.

use super::scope::refused_at;
use crate::catalog::Catalog;
use crate::catalog::page::{ListKey, Listed, Page, Placed, place_of};
use crate::catalog::rules::{ReleaseFilter, RuleFilter};
use crate::model::access::CLUSTER;
use crate::model::grant::{Grants, Verb};
use crate::model::rule::{Effect, Family, Rule};
use crate::model::service_token::TOKEN_HOLDER;
use crate::model::sso::SEPARATOR;
use crate::model::stamp::Stamp;
use crate::model::time::Timestamp;

/// A draft or release that would be refused now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WouldRefuse {
    /// Kind as in the audit trail.
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// Name of the release; empty for a draft.
    pub release_name: String,
    pub user: String,
    /// Verb that the author lacks, and the place where it is missing.
    pub verb: Verb,
    pub at: String,
}

impl Placed for WouldRefuse {
    fn place(&self) -> ListKey<'_> {
        place_of([self.kind, &self.namespace, &self.name, &self.release_name])
    }
}

impl Catalog {
    /// Lists drafts and releases that would be refused, by kind and name. `now` decides which tokens have expired.
    pub fn would_refuse(&self, now: Timestamp, page: &Page) -> Listed<WouldRefuse> {
        let mut found: Vec<_> = Family::ALL.iter().flat_map(|family| self.would_refuse_of(*family, now)).collect();
        found.sort();
        Listed::cut(found.iter(), page)
    }

    fn would_refuse_of(&self, family: Family, now: Timestamp) -> Vec<WouldRefuse> {
        let book = self.rules.of(family);
        let every = RuleFilter::default();
        let drafts = book.list(&every, &Page::ALL).rows.into_iter();
        let drafts = drafts.filter_map(|rule| self.lacking(&rule, &rule, Verb::Edit, &rule.modified, now));
        let releases = book.list_releases(&ReleaseFilter::default(), &Page::ALL).rows.into_iter();
        let releases = releases.filter(|release| release.state().is_in_force_or_planned()).filter_map(|release| {
            let rule = self.rule_of(&release);
            let row = self.lacking(rule, &release.rule, Verb::Release, &release.created, now)?;
            Some(WouldRefuse { release_name: release.name.clone(), ..row })
        });
        drafts.chain(releases).collect()
    }

    /// Returns the verb that the author lacks at the rule, or at a service that `judged` acts on; `None` if none is
    /// missing.
    fn lacking(&self, rule: &Rule, judged: &Rule, verb: Verb, author: &Stamp, now: Timestamp) -> Option<WouldRefuse> {
        // The claims of people and programs of identity providers are known only while they act.
        let is_of_provider = author.by.contains(SEPARATOR) && !author.by.starts_with(TOKEN_HOLDER);
        if author.by.is_empty() || author.by == CLUSTER || is_of_provider {
            return None;
        }
        let grants: Grants = self.access.grants_of(author.into(), now).unwrap_or_default();
        let effects: Vec<Effect> = self.effects([judged]);
        let at = match grants.may(verb, &rule.namespace, &rule.name) {
            false => format!("{}/{}", rule.namespace, rule.name),
            true => format!("{:?}", refused_at(&grants, &[verb], &effects)?),
        };
        Some(WouldRefuse {
            kind: rule.family().word(),
            namespace: rule.namespace.clone(),
            name: rule.name.clone(),
            release_name: String::new(),
            user: author.by.clone(),
            verb,
            at,
        })
    }
}
