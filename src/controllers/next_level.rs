//! Command of the level that exists in tests: proposes it once the cluster has that level, and asks every member by its
//! call, see [`crate::format::level`].

use std::time::Duration;

use super::Controller;
use crate::catalog::Command;
use crate::catalog::next_level::NextLevel;
use crate::format::level::Level;
use crate::raft::Lead;

const ROUND: Duration = Duration::from_millis(200);
const ASK_WITHIN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct NextLevels {
    is_done: bool,
}

impl Controller for NextLevels {
    async fn act(&mut self, lead: &Lead) -> Duration {
        let (level, has_row) = {
            let catalog = lead.catalog();
            (catalog.level(), catalog.next_level.is_some())
        };
        if level < Level::NEXT || self.is_done {
            return ROUND;
        }
        if !has_row {
            // A failed proposal is repeated in the next round.
            let _ = lead.propose("the row of level 2", Command::NextLevel(NextLevel { text: "2".to_owned() })).await;
            return ROUND;
        }
        let node = lead.node();
        for id in node.member_ids().into_iter().filter(|id| *id != node.id()) {
            if node.peers().has_next_level(id, ASK_WITHIN).await != Ok(true) {
                return ROUND;
            }
        }
        self.is_done = true;
        tracing::info!("every member has the row of level 2");
        ROUND
    }
}
