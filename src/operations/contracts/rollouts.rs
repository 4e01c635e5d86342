//! Contracts of releases that a rollout would give to all clients.

use super::rules::JudgedRule;
use super::{ContractVerdict, JudgedFile};
use crate::catalog::Credential;
use crate::catalog::history::Thing;
use crate::catalog::releases::LiveRollout;
use crate::model::code::Refusal;
use crate::model::grant::Grants;
use crate::operations::{Caller, Operations};

impl Operations {
    /// Returns the reason why contracts refuse the last step of a rollout, `None` if they do not. Fails if the release
    /// could not be validated. All who see the release can read the reason, so it reveals nothing of an encrypted
    /// content.
    pub async fn refused_last_step(&self, live: LiveRollout) -> Result<Option<String>, Refusal> {
        let (node, engines) = (self.node().clone(), self.engines.clone());
        let judge = move || {
            let catalog = node.state().view();
            let broken = match &live.thing {
                Thing::File(key) => {
                    let Some(release) = catalog.configs.release(key, &live.release_name).cloned() else {
                        return Ok(None);
                    };
                    let file = JudgedFile::of(&catalog, key, &in_the_name_of(&release.created.by));
                    file.map_or_else(|| Ok(Vec::new()), |file| file.broken_by(&engines, node.keyring(), &release))
                }
                Thing::Rule(family, id) => {
                    let Some(release) = catalog.rules.of(*family).release(id, &live.release_name).cloned() else {
                        return Ok(None);
                    };
                    let in_force = catalog.rule_in_force_of(&release.rule);
                    let author = in_the_name_of(&release.created.by);
                    let rule = JudgedRule::of(&catalog, (release.rule.clone(), in_force), &author);
                    Ok(rule.map_or_else(Vec::new, |rule| rule.broken(&engines)))
                }
            };
            Ok(ContractVerdict::of(broken?).refusal().map(|outcome| outcome.detail))
        };
        if self.node().state().catalog().contracts.is_empty() {
            return Ok(None);
        }
        self.on_turn(&self.turns.judgements, judge).await?
    }
}

/// Returns a caller with the name of a release's author and no rights.
fn in_the_name_of(author: &str) -> Caller {
    Caller {
        name: author.to_owned(),
        credential: Credential::Login,
        grants: Grants::default(),
        address: None,
        is_local: false,
        request: String::new(),
    }
}
