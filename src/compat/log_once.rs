//! Log once: each client of an app is written into the log or the audit trail once a minute.

use std::{collections::HashSet, net::IpAddr, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which a client is not logged again.
const QUIET: Duration = Duration::from_secs(60);
/// Clients told of in that time; the metrics count the rest.
const TOLD_MAX: usize = 1000;

/// App ids and addresses of the last minute.
#[derive(Default)]
pub(super) struct LogOnce(Mutex<Clients>);

#[derive(Default)]
struct Clients {
    since: Option<Instant>,
    clients: HashSet<(String, Option<IpAddr>)>,
}

impl LogOnce {
    /// True if this client is to be logged now.
    pub(super) fn is_news(&self, app_id: &str, address: Option<IpAddr>) -> bool {
        let (mut told, now) = (self.0.lock(), Instant::now());
        if told.since.is_none_or(|since| now - since >= QUIET) {
            *told = Clients { since: Some(now), clients: HashSet::new() };
        }
        told.clients.len() < TOLD_MAX && told.clients.insert((app_id.to_owned(), address))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_client_is_told_of_once_a_minute() {
        let told = LogOnce::default();
        let address = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        for expected in [true, false] {
            assert_eq!(told.is_news("a", address(1)), expected);
            assert_eq!(told.is_news("a", address(2)), expected);
            assert_eq!(told.is_news("b", address(1)), expected);
            assert_eq!(told.is_news("a", None), expected);
        }
        advance(QUIET).await;
        assert!(told.is_news("a", address(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_remembered_than_there_is_room_for() {
        let told = LogOnce::default();
        let news = (0..2 * TOLD_MAX).filter(|app| told.is_news(&app.to_string(), None)).count();
        assert_eq!(news, TOLD_MAX);
    }
}
