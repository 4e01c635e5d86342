//! Contracts of releases that a rollout would give to all clients by itself.

use super::rules::JudgedRule;
use super::{ContractVerdict, JudgedFile};
use crate::catalog::Credential;
use crate::catalog::history::Thing;
use crate::catalog::releases::LiveRollout;
use crate::model::code::Refusal;
use crate::model::grant::Grants;
use crate::operations::{Caller, Operations};

impl Operations {
    /// The reason why contracts refuse the last step of a rollout; `None` if they do not, `Err` if they could not be
    /// judged. It is read by everybody who sees the release, so nothing is told of a content that is kept encrypted.
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

/// The author of a release, who may see nothing more than everybody.
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
