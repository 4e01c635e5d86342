//! Agents that send heartbeats for many instances each, over one persistent connection, with hand-written HTTP: a
//! client library would cost this process more than a heartbeat costs the nodes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

/// Limit of one burst before the agent turns to the next node.
const BURST_LIMIT: Duration = Duration::from_secs(4);
/// Requests that an agent writes at once; they are answered one after the other.
const BURST_REQUESTS_MAX: usize = 10;
const READ_BYTES: usize = 16 * 1024;
const SUCCESS: &[u8] = b"{\"code\":200000,";

/// Addresses of the nodes, and the user that calls them.
#[derive(Clone)]
pub(crate) struct Surface {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) token: String,
}

impl Surface {
    /// Returns a request as sent on the wire.
    pub(crate) fn post(&self, path: &str, body: &str) -> Vec<u8> {
        let length = body.len();
        let token = &self.token;
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: {token}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\n\r\n", self.token).into_bytes()
    }

    fn turned(&self, turn: usize) -> Surface {
        let mut turned = self.clone();
        turned.addresses.rotate_left(turn % self.addresses.len());
        turned
    }
}

/// A persistent connection.
pub(crate) struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Option<Connection> {
        let stream = TcpStream::connect(address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Connection { stream, read: Vec::with_capacity(READ_BYTES) })
    }

    /// Writes `requests` at once and counts the answers that are a success; none if the connection ends.
    async fn burst(&mut self, requests: &[u8], count: usize) -> Option<usize> {
        self.stream.write_all(requests).await.ok()?;
        let mut taken = 0;
        for _ in 0..count {
            taken += usize::from(self.answer().await?.starts_with(SUCCESS));
        }
        Some(taken)
    }

    /// The body of the answer to one request; none if the connection ends.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Option<Vec<u8>> {
        self.stream.write_all(request).await.ok()?;
        self.answer().await
    }

    async fn answer(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some((start, end)) = whole(&self.read) {
                let body = self.read[start..end].to_vec();
                self.read.drain(..end);
                return Some(body);
            }
            let count = self.stream.read_buf(&mut self.read).await.ok()?;
            if count == 0 {
                return None;
            }
        }
    }
}

/// Range of the body of the first answer, once all of it is there.
fn whole(bytes: &[u8]) -> Option<(usize, usize)> {
    let start = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let named = memmem::find(&bytes[..start], b"content-length: ")?;
    let digits = bytes[named + b"content-length: ".len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    (bytes.len() >= start + length).then_some((start, start + length))
}

/// Agents of one zone, beating until this is dropped.
pub(crate) struct Zone {
    _agents: JoinSet<()>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    taken: AtomicUsize,
    missed: AtomicUsize,
    is_silent: AtomicBool,
}

impl Zone {
    /// Starts `agents` agents for `ids`: each instance has a heartbeat every `pace`, `per_request` of them in one
    /// request.
    pub(crate) fn start(surface: &Surface, ids: &[String], agents: usize, per_request: usize, pace: Duration) -> Zone {
        let (mut tasks, counts) = (JoinSet::new(), Arc::new(Counts::default()));
        let share = ids.len().div_ceil(agents);
        let agents = ids.len().div_ceil(share);
        for (number, ids) in ids.chunks(share).enumerate() {
            let agent = Agent {
                surface: surface.turned(number),
                bursts: bursts(surface, ids, per_request),
                counts: counts.clone(),
            };
            // Spread over the pace, as a fleet is.
            let begin = Instant::now() + pace.mul_f64(number as f64 / agents as f64);
            tasks.spawn(agent.run(begin, pace));
        }
        Zone { _agents: tasks, counts }
    }

    /// Stops or resumes the heartbeats, each at its own time.
    pub(crate) fn silence(&self, is_silent: bool) {
        self.counts.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Heartbeats that were taken so far, and requests that were not answered with a success.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.counts.taken.load(Ordering::Relaxed), self.counts.missed.load(Ordering::Relaxed))
    }
}

/// Requests that are written together.
struct Burst {
    bytes: Vec<u8>,
    requests: usize,
    instances: usize,
}

fn bursts(surface: &Surface, ids: &[String], per_request: usize) -> Vec<Burst> {
    let request = |ids: &[String]| {
        let items: Vec<String> = ids.iter().map(|id| format!("{{\"id\":\"{id}\"}}")).collect();
        let body = if per_request == 1 { items.concat() } else { format!("[{}]", items.join(",")) };
        surface.post("/v1/Heartbeat", &body)
    };
    let burst = |ids: &[String]| {
        let requests: Vec<Vec<u8>> = ids.chunks(per_request).map(request).collect();
        Burst { bytes: requests.concat(), requests: requests.len(), instances: ids.len() }
    };
    ids.chunks(per_request * BURST_REQUESTS_MAX).map(burst).collect()
}

struct Agent {
    surface: Surface,
    bursts: Vec<Burst>,
    counts: Arc<Counts>,
}

impl Agent {
    async fn run(mut self, begin: Instant, pace: Duration) {
        let count = u32::try_from(self.bursts.len()).expect("few");
        let mut ticks = interval_at(begin, pace / count);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut connection, mut turn) = (None, 0);
        loop {
            ticks.tick().await;
            if !self.counts.is_silent.load(Ordering::Relaxed) {
                let burst = turn % self.bursts.len();
                connection = self.beat(connection.take(), burst).await;
            }
            turn += 1;
        }
    }

    /// Sends a burst and returns the connection if it still works; without one the next burst goes to another node.
    async fn beat(&mut self, connection: Option<Connection>, burst: usize) -> Option<Connection> {
        let burst = &self.bursts[burst];
        let spoken = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => Connection::open(self.surface.addresses[0]).await?,
            };
            let taken = connection.burst(&burst.bytes, burst.requests).await?;
            Some((connection, taken))
        };
        let Ok(Some((connection, taken))) = timeout(BURST_LIMIT, spoken).await else {
            self.counts.missed.fetch_add(burst.requests, Ordering::Relaxed);
            self.surface.addresses.rotate_left(1);
            return None;
        };
        let instances = burst.instances * taken / burst.requests;
        self.counts.taken.fetch_add(instances, Ordering::Relaxed);
        self.counts.missed.fetch_add(burst.requests - taken, Ordering::Relaxed);
        Some(connection)
    }
}
