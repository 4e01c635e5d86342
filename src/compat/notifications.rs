//! `/notifications/v2`: the held poll.
//!
//! The order is what makes it safe: watch the whole chain of every file, THEN read, then wait, and
//! read again at every wake-up. Nothing is answered at once but news: no 304, no error, because
//! several clients come back the moment they get one. To a client that names an id of another cluster,
//! newer than anything here, all is news.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{sleep, timeout, timeout_at};

use super::{
    CATCH_UP_LIMIT, ConfigSource, FAR, Surface,
    answer::{self, Refusal},
    ask::Ask,
    auth::Admitted,
    doc::{self, Doc},
    floor::{FLOOR, Mark},
    lookup::is_app_id,
    wanted::{self, Wanted},
};
use crate::{
    connections::Parking,
    metrics::Held,
    model::{
        config_lookup::{ClientLabels, Lookup, chain},
        limits,
    },
    openapi::{Param, Security, schema_of},
    origin::Origin,
    watch::{Wake, Watch, WatchKey},
};

/// Share of the hold that is taken off at random, so that polls which began together, as after a
/// restart, do not end together for ever.
const JITTER_MAX: f64 = 0.05;

const APP_ID: &str = "appId";

/// The id of a client that has been told nothing.
const NOTHING_KNOWN: i64 = -1;

pub(super) const POLL: Doc = Doc {
    summary: "Waits for a change of any of these files, 55 seconds unless the operator set another time.",
    path: &[],
    query: &[
        Param::text("appId", "App id of the client: the group of the files.").example("app").required(),
        Param::text("cluster", "Cluster of the client.").example("default").required(),
        Param::text(
            "notifications",
            "JSON in text: at most 200 files, each with the id that the client was told last.",
        )
        .example(r#"[{"namespaceName":"application","notificationId":-1}]"#)
        .required(),
        doc::DATA_CENTER,
    ],
    security: Security::Reader,
    replies: |schemas| {
        let news = doc::success("What is newer.", schema_of::<Vec<News>>()(schemas));
        [news, doc::unchanged()].into_iter().chain(doc::poll_refusals(schemas)).collect()
    },
};

pub(super) async fn poll<S: ConfigSource>(State(surface): State<Surface<S>>, ask: Ask) -> Response {
    match surface.begin(&ask) {
        Ok((poll, watch)) => {
            // Kept as its mark alone: the text of thousands of held polls would be most of their memory.
            let request = surface.floor.mark(&(ask.address, ask.query().raw()));
            let parking = ask.parking;
            drop((ask.uri, ask.credentials));
            surface.hold(request, poll, &watch, parking).await
        }
        Err(refusal) => {
            surface.metrics.polls_ended.with_label_values(&["refused"]).inc();
            // What is refused must not be kept while it waits to be told so.
            drop(ask);
            sleep(FLOOR).await;
            refusal.for_poll()
        }
    }
}

impl<S: ConfigSource> Surface<S> {
    fn begin(&self, ask: &Ask) -> Result<(Poll, Watch), Refusal> {
        let admitted = self.admit(ask, app_id(ask).as_deref())?;
        let poll = Poll::read(ask, admitted)?;
        let watch = self.source.hub().watch(Origin::of_any(ask.address), poll.keys(), poll.bytes())?;
        Ok((poll, watch))
    }

    /// Who names an id that no node of this cluster has given out has it from elsewhere, and would wait
    /// for years until ours are as high. Where nobody can say, the poll is held as it is.
    async fn forget_foreign_ids(&self, poll: &mut Poll) {
        let Some(newest) = poll.newest_known().filter(|known| *known > self.newest_id()) else { return };
        let is_far = newest - self.newest_id() > FAR as i64 && self.source.was_at_horizon_lately();
        // Boxed, as hardly any poll comes here, and each would have room for it as long as it is held.
        if is_far || Box::pin(self.source.await_horizon(CATCH_UP_LIMIT)).await {
            let foreign = poll.forget_above(self.newest_id());
            self.metrics.foreign_ids.inc_by(foreign);
        }
    }

    fn newest_id(&self) -> i64 {
        self.source.newest_id().into()
    }

    async fn hold(&self, request: Mark, mut poll: Poll, watch: &Watch, parking: Option<Parking>) -> Response {
        let mut held = Held::begin(&self.metrics);
        let deadline = held.began() + jittered(self.settings.hold);
        let mut waited = false;
        self.forget_foreign_ids(&mut poll).await;
        loop {
            let news = poll.news(&self.source);
            let wake = if news.is_empty() {
                parking.iter().for_each(Parking::park);
                timeout_at(deadline, watch.changed()).await.inspect(|_| waited = true)
            } else {
                let answer = serde_json::to_string(&news).expect("a list of news is JSON");
                match self.floor.delay(request, &answer) {
                    // A change during this second makes another answer, which goes out at once.
                    Some(delay) if !waited => timeout(delay, watch.changed()).await.or(Ok(Wake::Changed)),
                    _ => {
                        if let Err(refusal) = self.admits_still(&poll.admitted, &poll.app) {
                            held.outcome = "refused";
                            return refusal.for_poll();
                        }
                        self.floor.given(request, &answer);
                        held.outcome = "changed";
                        return ([(header::CONTENT_TYPE, answer::JSON)], answer).into_response();
                    }
                }
            };
            match wake {
                Ok(Wake::Changed) => {}
                Ok(Wake::Closed) => {
                    held.outcome = "shutdown";
                    return closing(answer::not_modified());
                }
                Err(_) => {
                    held.outcome = "unchanged";
                    return answer::not_modified();
                }
            }
        }
    }
}

fn jittered(hold: Duration) -> Duration {
    hold.mul_f64(1.0 - JITTER_MAX * rand::random::<f64>())
}

/// The client should go on with another node, not with this connection.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The app whose files are asked for, and whose keys judge who asks.
fn app_id(ask: &Ask) -> Option<Cow<'_, str>> {
    ask.query().filled(APP_ID)
}

/// What one poll asks for.
struct Poll {
    app: String,
    cluster: String,
    /// In the order of the lookup, the same for every file.
    namespaces: Vec<String>,
    files: Vec<Wanted>,
    admitted: Admitted,
}

/// A file that has changed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct News<'a> {
    /// As the client wrote it.
    namespace_name: &'a str,
    /// One count of all changes, below 2^31, which never goes down.
    notification_id: u32,
    messages: Messages,
}

/// There is a client that drops entries without details.
#[derive(Serialize, JsonSchema)]
struct Messages {
    /// Ids by `appId+cluster+namespace` as asked, at least one.
    details: BTreeMap<String, u32>,
}

impl Poll {
    fn read(ask: &Ask, admitted: Admitted) -> Result<Poll, Refusal> {
        let missing = |name: &str| Refusal::BadRequest(format!("the parameter {name} is needed"));
        let needed = |name: &str| ask.query().filled(name).ok_or_else(|| missing(name));
        let (app, cluster) = (app_id(ask).ok_or_else(|| missing(APP_ID))?, needed("cluster")?);
        if !is_app_id(&app) {
            return Err(Refusal::BadRequest("the parameter appId is not an app id".to_owned()));
        }
        let data_center = ask.query().get("dataCenter");
        let names = [(APP_ID, Some(&app)), ("cluster", Some(&cluster)), ("dataCenter", data_center.as_ref())];
        for (parameter, name) in names {
            if name.is_some_and(|name| name.chars().count() > limits::NAME_CHARS_MAX) {
                let why = format!("the parameter {parameter} has more than {} characters", limits::NAME_CHARS_MAX);
                return Err(Refusal::BadRequest(why));
            }
        }
        let files = wanted::parse(&needed("notifications")?).map_err(Refusal::BadRequest)?;
        let mut namespaces = chain(&cluster, data_center.as_deref());
        admitted.keep_seen(&mut namespaces, &app);
        Ok(Poll { app: app.into_owned(), cluster: cluster.into_owned(), namespaces, files, admitted })
    }

    /// What the poll holds in memory while it waits, its keys aside.
    fn bytes(&self) -> usize {
        let names = self.files.iter().map(|wanted| size_of::<Wanted>() + wanted.name.len());
        size_of::<Poll>() + self.app.len() + 2 * self.cluster.len() + names.sum::<usize>()
    }

    /// Room for the questions of this poll, one after the other.
    fn lookup(&self) -> Lookup {
        let (group, namespaces) = (self.app.clone(), self.namespaces.clone());
        // Whom a gray release is for is judged when it is pulled: a poll brings no labels.
        Lookup { group, namespaces, file: String::new(), client: ClientLabels::default() }
    }

    fn newest_known(&self) -> Option<i64> {
        self.files.iter().map(|wanted| wanted.known_id).max()
    }

    /// Takes higher ids for none; returns how many there were.
    fn forget_above(&mut self, newest: i64) -> u64 {
        let foreign = self.files.iter_mut().filter(|wanted| wanted.known_id > newest);
        foreign.map(|wanted| wanted.known_id = NOTHING_KNOWN).count() as u64
    }

    /// The whole chain of every file, whether anything is there or not.
    fn keys(&self) -> Vec<WatchKey> {
        let of_file = |wanted: &Wanted| {
            let key = |namespace: &String| WatchKey::config(namespace, &self.app, &wanted.name);
            self.namespaces.iter().map(key).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(of_file).collect()
    }

    /// Everything that is newer than what the client has.
    fn news(&self, source: &impl ConfigSource) -> Vec<News<'_>> {
        let mut lookup = self.lookup();
        let mut news = Vec::new();
        for wanted in &self.files {
            lookup.file.clone_from(&wanted.name);
            news.extend(source.notification_id(&lookup).and_then(|id| self.news_of(wanted, id)));
        }
        news
    }

    fn news_of<'a>(&self, wanted: &'a Wanted, id: u32) -> Option<News<'a>> {
        let details = || BTreeMap::from([(format!("{}+{}+{}", self.app, self.cluster, wanted.name), id)]);
        (i64::from(id) > wanted.known_id).then(|| News {
            namespace_name: &wanted.name,
            notification_id: id,
            messages: Messages { details: details() },
        })
    }
}
