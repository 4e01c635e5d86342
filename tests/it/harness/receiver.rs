//! A receiver of webhooks: records posts, and answers with a configurable status.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::eventually;

/// One post.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    pub(crate) body: Value,
}

impl Posted {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn id(&self) -> &str {
        self.header("X-Thuban-Event-Id")
    }
}

pub(crate) struct Receiver {
    pub(crate) url: String,
    posted: Arc<Mutex<Vec<Posted>>>,
    status: Arc<AtomicU16>,
    task: AbortHandle,
}

impl Receiver {
    pub(crate) async fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
        let (posted, status) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU16::new(200)));
        let (kept, answered) = (posted.clone(), status.clone());
        let take = move |headers: HeaderMap, bytes: Bytes| async move {
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            kept.lock().push(Posted { headers, bytes, body });
            StatusCode::from_u16(answered.load(Ordering::Relaxed)).expect("a status")
        };
        let served = async move { axum::serve(listener, Router::new().fallback(take)).await };
        Receiver { url, posted, status, task: tokio::spawn(served).abort_handle() }
    }

    pub(crate) fn answer(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// In the order in which they came.
    pub(crate) fn posted(&self) -> Vec<Posted> {
        self.posted.lock().clone()
    }

    /// Waits until this many events have arrived, each counted once.
    pub(crate) async fn wait_for(&self, count: usize, limit: Duration) -> Vec<Posted> {
        eventually(limit, &format!("{count} events are told"), || async {
            let mut firsts: Vec<Posted> = Vec::new();
            for posted in self.posted() {
                if firsts.iter().all(|first| first.id() != posted.id()) {
                    firsts.push(posted);
                }
            }
            if firsts.len() >= count { Ok(firsts) } else { Err(format!("{} events", firsts.len())) }
        })
        .await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}
