//! Write timeout: the writes of a stream fail if its other end reads no byte for too long.
//!
//! It is below TLS, which buffers what is written: only here it is visible which bytes were sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use super::hooked_stream::{HookedStream, Hooks, WriteResult};

/// Time without a byte read after which an answer is given up.
pub(super) const UNREAD_MAX: Duration = Duration::from_secs(60);

pub(super) type WriteTimeoutStream<S> = HookedStream<S, WriteTimeout>;

#[derive(Default)]
pub(super) struct WriteTimeout {
    since: Option<Instant>,
    alarm: Alarm,
}

impl<S> WriteTimeoutStream<S> {
    pub(super) fn new(stream: S) -> Self {
        HookedStream { stream, hooks: WriteTimeout::default() }
    }
}

impl Hooks for WriteTimeout {
    fn written(&mut self, cx: &mut Context<'_>, written: WriteResult) -> WriteResult {
        if written.is_ready() {
            self.since = None;
            return written;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        ready!(self.alarm.poll(cx, since + UNREAD_MAX));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the answer was not read")))
    }
}

/// A timer that is reset only when it would be too late, or was too early: deadlines that move with every byte cost
/// nothing.
#[derive(Default)]
pub(super) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Completes when `deadline` is reached, and wakes the task then.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if deadline < sleep.deadline() {
            sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::tls::Ephemeral;

    const SECOND: Duration = Duration::from_secs(1);
    const PIPE_BYTES: usize = 64;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_is_given_up() {
        let (near, mut far) = duplex(PIPE_BYTES);
        let mut stream = WriteTimeoutStream::new(near);
        stream.write_all(&[1; PIPE_BYTES]).await.expect("the pipe takes as much");
        let began = Instant::now();
        let reader = tokio::spawn(async move {
            // One byte now and then counts as progress; then it stops.
            for _ in 0..3 {
                tokio::time::sleep(UNREAD_MAX - SECOND).await;
                far.read_u8().await.expect("there is one");
            }
            far
        });
        let error = stream.write_all(&[2; PIPE_BYTES]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), (3 * (UNREAD_MAX - SECOND) + UNREAD_MAX).as_secs());
        drop(reader.await.expect("no panic"));
    }

    /// TLS has buffered the whole answer and could not send it.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_waits_in_tls_is_given_up_too() {
        let (near, far) = duplex(PIPE_BYTES);
        let tls = Ephemeral::generate().expect("a certificate");
        let (served, _asking) = tokio::join!(tls.accept(WriteTimeoutStream::new(near)), tls.connect(far));
        let (mut served, began) = (served.expect("a handshake"), Instant::now());
        served.write_all(&[1; 8 * PIPE_BYTES]).await.expect("TLS takes it");
        let error = served.flush().await.expect_err("nobody reads");
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, UNREAD_MAX.as_secs()));
    }
}
