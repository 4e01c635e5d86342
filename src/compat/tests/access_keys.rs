//! Access keys: accepted and refused requests, on every path that reads.

use tokio::time::Instant;

use super::readers::PATHS;
use super::*;
use crate::model::signature::{AppKeys, SigningKey, Target};

pub(super) const NOW: u64 = 1_576_478_257_344;
const SKEW_MS: u64 = 60_000;

/// Keys of `app` on the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keys {
    None,
    Observed(&'static [&'static str]),
    Enforced(&'static [&'static str]),
    /// Enforced, but unreadable on this node.
    Unreadable,
}

pub(super) const ONE: &[&str] = &["one"];
const TWO: &[&str] = &["one", "two"];

pub(super) fn serving(keys: Keys, auth_required: bool) -> Served {
    let served = Served::with(Hub::new(10), |settings| settings.auth_required = auth_required);
    served.source.publish("default", "application", "a=1");
    served.source.0.now.store(NOW, Ordering::Relaxed);
    served.set_keys(keys);
    served
}

impl Served {
    fn set_keys(&self, keys: Keys) {
        let signing = |secrets: &[&str]| secrets.iter().map(|secret| SigningKey::new(secret.as_bytes())).collect();
        let keys = match keys {
            Keys::None => None,
            Keys::Observed(secrets) => Some(AppKeys { keys: signing(secrets), ..AppKeys::default() }),
            Keys::Enforced(secrets) => {
                Some(AppKeys { keys: signing(secrets), is_enforced: true, ..AppKeys::default() })
            }
            Keys::Unreadable => Some(AppKeys { is_enforced: true, has_unreadable: true, ..AppKeys::default() }),
        };
        match keys {
            Some(keys) => drop(self.source.0.keys.lock().insert("app".to_owned(), keys)),
            None => drop(self.source.0.keys.lock().remove("app")),
        }
    }

    fn observed(&self) -> u64 {
        self.metrics.access_key_would_refuse.with_label_values(&["app"]).get()
    }
}

/// Returns the two headers of a client of `app_id` that requests `target` at `time`.
pub(super) fn signed(secret: &str, app_id: &str, target: &str, time: u64) -> [(&'static str, String); 2] {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let time = time.to_string();
    let header = SigningKey::new(secret.as_bytes()).sign(app_id, Target { path, query }, &time);
    [("authorization", header), ("timestamp", time)]
}

pub(super) async fn get(served: &Served, target: &str, headers: &[(&'static str, String)]) -> Got {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    served.get_with(target, &headers).await
}

#[tokio::test(start_paused = true)]
async fn signatures_are_judged_on_every_path_that_reads() {
    use Keys::{Enforced, None, Observed, Unreadable};
    const IN: u16 = 200;
    /// Secret, app id and clock of the client.
    type Client = Option<(&'static str, &'static str, u64)>;
    let own: Client = Some(("one", "app", NOW));
    let second: Client = Some(("two", "app", NOW));
    let empty: Client = Some(("", "app", NOW));
    let of_other: Client = Some(("one", "other", NOW));
    let (early, late): (Client, Client) = (Some(("one", "app", NOW + SKEW_MS)), Some(("one", "app", NOW - SKEW_MS)));
    let (nearly_early, nearly_late) =
        (Some(("one", "app", NOW + SKEW_MS - 1)), Some(("one", "app", NOW - SKEW_MS + 1)));
    // Statuses without and with required authentication.
    let table: &[(Keys, Client, u16, u16)] = &[
        (None, Option::None, IN, 401),
        (None, own, IN, 401),
        (None, empty, IN, 401),
        (Enforced(ONE), own, IN, IN),
        (Enforced(ONE), Option::None, 401, 401),
        (Enforced(ONE), empty, 401, 401),
        (Enforced(ONE), second, 401, 401),
        (Enforced(ONE), of_other, 401, 401),
        (Enforced(ONE), early, 401, 401),
        (Enforced(ONE), late, 401, 401),
        (Enforced(ONE), nearly_early, IN, IN),
        (Enforced(ONE), nearly_late, IN, IN),
        (Enforced(TWO), own, IN, IN),
        (Enforced(TWO), second, IN, IN),
        (Enforced(TWO), empty, 401, 401),
        (Observed(ONE), own, IN, IN),
        (Observed(ONE), Option::None, IN, 401),
        (Observed(ONE), second, IN, 401),
        (Observed(ONE), early, IN, 401),
        (Unreadable, own, 503, 503),
        (Unreadable, Option::None, 401, 401),
    ];
    for (keys, client, status, status_if_required) in table {
        for (auth_required, expected) in [(false, *status), (true, *status_if_required)] {
            let served = serving(*keys, auth_required);
            let mut would_refuse = 0;
            for path in PATHS {
                let headers = client.map(|(secret, app_id, time)| signed(secret, app_id, path, time));
                let asked = Instant::now();
                let got = get(&served, path, headers.as_ref().map_or(&[], |headers| headers)).await;
                assert_eq!(got.status.as_u16(), expected, "{path} {keys:?} {client:?} {auth_required}");
                let is_delayed = asked.elapsed() >= Duration::from_secs(1);
                assert_eq!(is_delayed, expected != IN && path.starts_with("/notifications"), "{path}");
                let has_body = !got.body.is_empty();
                assert_eq!(has_body, expected == IN || !path.starts_with("/configfiles"), "{path} {expected}");
                let is_observed = matches!(keys, Observed(_)) && *client != own && expected == IN;
                would_refuse += u64::from(is_observed);
                assert_eq!(served.observed(), would_refuse, "{path} {keys:?} {client:?} {auth_required}");
            }
            assert_eq!(get(&served, "/services/config", &[]).await.status, StatusCode::OK);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_is_written_down_once_a_minute() {
    let served = serving(Keys::Enforced(ONE), false);
    let told = || served.source.0.refused.lock().len();
    for path in PATHS {
        get(&served, path, &signed("one", "app", path, NOW)).await;
    }
    assert_eq!(told(), 0, "let in");
    for path in PATHS {
        get(&served, path, &[]).await;
    }
    assert_eq!(*served.source.0.refused.lock(), ["app"]);
    served.set_keys(Keys::Unreadable);
    tokio::time::advance(Duration::from_secs(60)).await;
    get(&served, PATHS[0], &signed("one", "app", PATHS[0], NOW)).await;
    assert_eq!(told(), 1, "that the node cannot read a key is not the reader's fault");
    get(&served, PATHS[0], &[]).await;
    assert_eq!(told(), 2);
}

#[tokio::test(start_paused = true)]
async fn head_is_judged_as_get_is() {
    let served = serving(Keys::Enforced(ONE), false);
    for path in PATHS {
        for (secret, expected) in [("one", StatusCode::OK), ("two", StatusCode::UNAUTHORIZED)] {
            let headers = signed(secret, "app", path, NOW);
            let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
            let got = served.ask(Method::HEAD, path, &headers, SocketAddr::from(([192, 0, 2, 1], 1))).await;
            assert_eq!((got.status, got.body.len()), (expected, 0), "{path} {secret}");
        }
    }
}

/// The signature covers the target as received, in any spelling.
#[tokio::test(start_paused = true)]
async fn what_is_signed_is_what_was_sent() {
    let served = serving(Keys::Enforced(ONE), false);
    served.source.publish("default", "dir/a b", "b=1");
    let targets = [
        "/configs/app/default/%61pplication?ip=10.0.0.1&label=a+b%2Cc&releaseKey=",
        "/configs/%61pp/default/application",
        "/configs/app/default/application?&ip=10.0.0.1",
        "/configs/app/default/application?messages=%7B%22details%22%3A%7B%7D%7D&ip=",
        "/configs/app/default/dir%2Fa%20b",
        "/configs/app/default/dir/a%20b?ip=[::1]",
    ];
    for target in targets {
        let got = get(&served, target, &signed("one", "app", target, NOW)).await;
        assert_eq!(got.status, StatusCode::OK, "{target}");
        let other = target.replace("%61", "a").replace("%2F", "/").replace('+', "%20").replace("?&", "?");
        let other = if other == target { format!("{target}&x=1") } else { other };
        let got = get(&served, &other, &signed("one", "app", target, NOW)).await;
        assert_eq!(got.status, StatusCode::UNAUTHORIZED, "{target} signed, {other} sent");
    }
    let no_query = "/configs/app/default/application";
    let got = get(&served, &format!("{no_query}?"), &signed("one", "app", no_query, NOW)).await;
    assert_eq!(got.status, StatusCode::OK, "an empty query is none");
}

/// The app whose files are read is the app whose keys apply, in every form of the request.
#[tokio::test(start_paused = true)]
async fn nobody_is_judged_by_the_keys_of_another_app() {
    let served = serving(Keys::Enforced(ONE), false);
    let poll = |app_ids: &str| {
        format!("/notifications/v2?{app_ids}&cluster=default&notifications=[{{%22namespaceName%22:%22application%22}}]")
    };
    for target in [
        poll("appId=app&appId=open"),
        poll("%61ppId=app&appId=open"),
        poll("appId=%61pp"),
        "/configs/app/default/application?appId=open".to_owned(),
        "/configs/%61pp/open/application".to_owned(),
        "/configfiles/json/app/default/application".to_owned(),
    ] {
        assert_eq!(get(&served, &target, &[]).await.status, StatusCode::UNAUTHORIZED, "{target}");
        let as_other = signed("one", "open", &target, NOW);
        assert_eq!(get(&served, &target, &as_other).await.status, StatusCode::UNAUTHORIZED, "{target}");
        let as_app = signed("one", "app", &target, NOW);
        assert_eq!(get(&served, &target, &as_app).await.status, StatusCode::OK, "{target}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_opens_what_a_key_shuts_and_two_headers_open_nothing() {
    let served = serving(Keys::Enforced(ONE), false);
    for path in PATHS {
        let token = [("authorization", TOKEN.to_owned())];
        assert_eq!(get(&served, path, &token).await.status, StatusCode::OK, "{path}");
        let [authorization, timestamp] = signed("one", "app", path, NOW);
        let several = [
            vec![authorization.clone(), authorization.clone(), timestamp.clone()],
            vec![authorization.clone(), ("authorization", TOKEN.to_owned()), timestamp.clone()],
            vec![authorization.clone(), timestamp.clone(), timestamp],
            vec![authorization],
        ];
        for headers in several {
            assert_eq!(get(&served, path, &headers).await.status, StatusCode::UNAUTHORIZED, "{path} {headers:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_why() {
    let served = serving(Keys::Enforced(ONE), false);
    let path = "/configs/app/default/application";
    for (headers, word) in [
        (vec![], "has to be signed"),
        (signed("two", "app", path, NOW).to_vec(), "no access key"),
        (signed("one", "app", path, NOW + SKEW_MS).to_vec(), "clock"),
        (signed("one", "other", path, NOW).to_vec(), "another app"),
    ] {
        let body = get(&served, path, &headers).await.json();
        assert_eq!((&body["status"], &body["error"]), (&401.into(), &"Unauthorized".into()), "{body}");
        assert!(body["message"].as_str().is_some_and(|message| message.contains(word)), "{body}");
    }
    let poll = poll_target(&list(&[("application", -1)]), "&cluster=default");
    let body = get(&served, &poll, &[]).await.json();
    assert_eq!((&body["status"], &body["exception"]), (&401.into(), &"UnauthorizedException".into()), "{body}");
}

/// A held poll is authenticated again before it is answered; the age of its signature does not count then.
#[tokio::test(start_paused = true)]
async fn a_held_poll_ends_where_its_key_is_gone() {
    use Keys::{Enforced, None, Observed};
    let rows = [
        (Enforced(ONE), Enforced(TWO), true),
        (Enforced(ONE), Enforced(&["two"]), false),
        (Enforced(ONE), Keys::Unreadable, false),
        (Enforced(ONE), Observed(&["two"]), true),
        (Enforced(ONE), None, true),
        // It may be unsigned: the client retries and is authenticated.
        (None, Enforced(ONE), false),
        (None, Enforced(&["two"]), false),
    ];
    for (before, after, is_told) in rows {
        let served = serving(before, false);
        let target = poll_target(&list(&[("application", 1)]), "&cluster=default");
        let (router, headers) = (served.router.clone(), signed("one", "app", &target, NOW));
        let peer = SocketAddr::from(([192, 0, 2, 1], 1));
        let poll = tokio::spawn(async move {
            let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
            ask(router, Method::GET, &target, &headers, peer).await
        });
        while served.source.hub().waiters() == 0 {
            assert!(!poll.is_finished(), "the poll was answered at once");
            tokio::task::yield_now().await;
        }
        served.set_keys(after);
        served.source.0.now.fetch_add(2 * SKEW_MS, Ordering::Relaxed);
        served.source.publish("default", "application", "a=2");
        let got = poll.await.expect("the poll ends");
        assert_eq!(got.status == StatusCode::OK, is_told, "{before:?} then {after:?}");
        assert_eq!((served.ended("changed"), served.ended("refused")), (u64::from(is_told), u64::from(!is_told)));
        assert_eq!(served.observed(), 0, "what is judged again is not counted again");
    }
}
