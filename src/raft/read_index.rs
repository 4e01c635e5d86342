//! Read indexes shared by reads that arrive together.
//!
//! A read may use any read index that was requested after the read arrived. So while one request is in flight, all
//! reads that arrive wait for the next one, which serves them all: under thousands of reads a follower sends the leader
//! one request at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// The last answer and the round of its request.
#[derive(Default)]
pub(super) struct ReadIndexes {
    /// Number of rounds begun.
    begun: AtomicU64,
    /// Held by the reader whose request is in flight.
    asking: Mutex<Option<Answered>>,
}

#[derive(Clone, Copy)]
struct Answered {
    round: u64,
    index: u64,
}

impl ReadIndexes {
    /// Returns an index that was requested after this call began, by `ask` or by another reader.
    pub(super) async fn get<F: Future<Output = Option<u64>>>(&self, ask: impl FnOnce() -> F) -> Option<u64> {
        let arrived = self.begun.load(Ordering::SeqCst);
        let mut asking = self.asking.lock().await;
        // A round that began after this reader arrived serves it too.
        if let Some(answered) = *asking
            && answered.round > arrived
        {
            return Some(answered.index);
        }
        let round = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let index = ask().await?;
        *asking = Some(Answered { round, index });
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use tokio::sync::Notify;

    use super::*;

    /// Reader 1 asks; 2 and 3 arrive meanwhile and share a second request.
    #[tokio::test]
    async fn readers_share_a_question_that_began_after_they_came() {
        let indexes = Arc::new(ReadIndexes::default());
        let questions = Arc::new(AtomicU64::new(0));
        let answer = Arc::new(Notify::new());
        let read = || {
            let (indexes, questions, answer) = (indexes.clone(), questions.clone(), answer.clone());
            async move {
                let ask = || async {
                    let number = questions.fetch_add(1, Ordering::SeqCst) + 1;
                    answer.notified().await;
                    Some(number)
                };
                indexes.get(ask).await
            }
        };
        let first = tokio::spawn(read());
        while questions.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let (mut second, mut third) = (tokio_test_poll(read()), tokio_test_poll(read()));
        second.poke().await;
        third.poke().await;
        answer.notify_one();
        assert_eq!(first.await.expect("no panic"), Some(1));
        answer.notify_one();
        assert_eq!((second.finish().await, third.finish().await), (Some(2), Some(2)));
        assert_eq!(questions.load(Ordering::SeqCst), 2);
    }

    /// A future that can be polled once, so that it arrives, before it is awaited.
    struct Poked<F>(std::pin::Pin<Box<F>>);

    fn tokio_test_poll<F: Future>(future: F) -> Poked<F> {
        Poked(Box::pin(future))
    }

    impl<F: Future> Poked<F> {
        async fn poke(&mut self) {
            let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(self.0.as_mut().poll(cx).is_ready())).await;
            assert!(!polled, "nothing was answered yet");
        }

        async fn finish(self) -> F::Output {
            self.0.await
        }
    }
}
