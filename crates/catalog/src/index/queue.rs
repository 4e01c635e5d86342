//! A queue of chunks. Unlike a ring buffer, it never copies its content to grow, and does not allocate twice what it
//! needs.

use std::collections::VecDeque;
use std::ops::Index;

/// Things per chunk.
const PIECE: usize = 1024;

#[derive(Clone, Debug)]
pub(crate) struct ChunkedQueue<T> {
    /// Chunks; all but the last are full.
    pieces: VecDeque<Vec<T>>,
    /// Number of removed things in the first chunk.
    gone: usize,
}

impl<T> Default for ChunkedQueue<T> {
    fn default() -> Self {
        ChunkedQueue { pieces: VecDeque::new(), gone: 0 }
    }
}

impl<T: Copy> ChunkedQueue<T> {
    pub(crate) fn len(&self) -> usize {
        self.pieces.back().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len() - self.gone)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn push_back(&mut self, thing: T) {
        match self.pieces.back_mut() {
            Some(last) if last.len() < PIECE => last.push(thing),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(thing);
                self.pieces.push_back(piece);
            }
        }
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let first = self.pieces.front()?;
        let thing = first[self.gone];
        self.gone += 1;
        if self.gone == first.len() {
            self.pieces.pop_front();
            self.gone = 0;
        }
        Some(thing)
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.pieces.front_mut().map(|first| &mut first[self.gone])
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten().skip(self.gone)
    }
}

/// Compares the things, not their division into chunks.
impl<T: Copy + PartialEq> PartialEq for ChunkedQueue<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T> Index<usize> for ChunkedQueue<T> {
    type Output = T;

    fn index(&self, place: usize) -> &T {
        let place = self.gone + place;
        &self.pieces[place / PIECE][place % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push(usize),
        Pop(usize),
        Change,
    }

    fn step() -> impl Strategy<Value = Step> {
        let many = 0..2 * PIECE + 2;
        prop_oneof![3 => many.clone().prop_map(Step::Push), 2 => many.prop_map(Step::Pop), 1 => Just(Step::Change)]
    }

    proptest! {
        #![proptest_config(crate::test_seed::cases(64))]

        #[test]
        fn it_does_what_a_ring_does(steps in prop::collection::vec(step(), 0..40)) {
            let (mut queue, mut ring, mut next) = (ChunkedQueue::default(), VecDeque::new(), 0u32);
            for step in steps {
                match step {
                    Step::Push(count) => for _ in 0..count {
                        next += 1;
                        queue.push_back(next);
                        ring.push_back(next);
                    },
                    Step::Pop(count) => for _ in 0..count {
                        prop_assert_eq!(queue.pop_front(), ring.pop_front());
                    },
                    Step::Change => {
                        let both = [queue.front_mut(), ring.front_mut()];
                        both.into_iter().flatten().for_each(|first| *first += 1_000_000);
                    }
                }
                prop_assert_eq!((queue.len(), queue.is_empty()), (ring.len(), ring.is_empty()));
                prop_assert!((0..ring.len()).all(|place| queue[place] == ring[place]));
            }
            let mut anew = ChunkedQueue::default();
            ring.iter().for_each(|thing| anew.push_back(*thing));
            prop_assert!(queue == anew, "equal, wherever the pieces begin");
            anew.push_back(0);
            prop_assert!(queue != anew);
        }
    }
}
