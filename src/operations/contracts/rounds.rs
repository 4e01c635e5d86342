//! Rounds of a batch: an item is validated again if the state it was compared with has changed before apply.

use crate::catalog::Outcome;
use crate::model::code::Refusal;
use crate::model::limits;
use crate::model::release::Pin;
use crate::operations::Items;

/// A batch, from its first round to its outcomes.
pub(super) struct Rounds<T> {
    /// Items of the next round, each with its position in the batch.
    under_way: Vec<(usize, Result<T, Refusal>)>,
    outcomes: Vec<Outcome>,
    round: usize,
}

/// Items of one round.
pub(super) struct Round<T> {
    pub(super) items: Items<T>,
    places: Vec<usize>,
    is_last: bool,
}

impl<T: Clone> Rounds<T> {
    pub(super) fn new(items: Items<T>) -> Rounds<T> {
        let outcomes = vec![Outcome::default(); items.len()];
        Rounds { under_way: items.into_iter().enumerate().collect(), outcomes, round: 0 }
    }

    /// Returns the next round, or `None` once each item has its outcome.
    pub(super) fn next(&mut self) -> Option<Round<T>> {
        if self.under_way.is_empty() {
            return None;
        }
        self.round += 1;
        let (places, items) = std::mem::take(&mut self.under_way).into_iter().unzip();
        Some(Round { items, places, is_last: self.round >= limits::PUBLISH_ROUNDS_MAX })
    }

    /// Stores the outcomes of a round. Overtaken items go into another round.
    pub(super) fn take(&mut self, round: Round<T>, outcomes: Vec<Outcome>) {
        for ((item, place), outcome) in round.items.into_iter().zip(round.places).zip(outcomes) {
            if outcome.overtaken && !round.is_last {
                self.under_way.push((place, item));
            }
            self.outcomes[place] = outcome;
        }
    }

    pub(super) fn outcomes(self) -> Vec<Outcome> {
        self.outcomes
    }
}

impl<T: Clone> Round<T> {
    /// Returns the items, each with its pin.
    pub(super) fn pinned(&self, pins: Vec<Option<Pin>>, set: impl Fn(&mut T, Option<Pin>)) -> Items<T> {
        let comes_again = !self.is_last;
        let pinned = |(item, pin): (&Result<T, Refusal>, Option<Pin>)| {
            let mut item = item.clone()?;
            set(&mut item, pin.map(|pin| Pin { comes_again, ..pin }));
            Ok(item)
        };
        self.items.iter().zip(pins).map(pinned).collect()
    }
}
