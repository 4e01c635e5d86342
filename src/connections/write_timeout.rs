//! Write timeout: the writes of a stream fail if its other end reads no byte for too long.
//!
//! It is below TLS, which buffers what is written: only here it is visible which bytes were sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use super::timeout_stream::{Alarm, TimeoutStream, WriteJudge, Written};

/// Time without a byte read after which an answer is given up.
pub(super) const UNREAD_MAX: Duration = Duration::from_secs(60);

pub(super) type WriteTimeoutStream<S> = TimeoutStream<S, WriteTimeout>;

#[derive(Default)]
pub(super) struct WriteTimeout {
    since: Option<Instant>,
    alarm: Alarm,
}

impl<S> WriteTimeoutStream<S> {
    pub(super) fn new(stream: S) -> Self {
        TimeoutStream { stream, timeout: WriteTimeout::default() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl WriteJudge for WriteTimeout {
    fn judge(&mut self, cx: &mut Context<'_>, written: Written) -> Written {
        if written.is_ready() {
            self.since = None;
            return written;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        ready!(self.alarm.poll(cx, since + UNREAD_MAX));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the answer was not read")))
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
