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
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    CATCH_UP_LIMIT, FAR, Surface,
    answer::{self, Refusal},
    auth::{self, Admitted},
    client_request::ClientRequest,
    doc::{self, Doc},
    lookup::{address_of, is_app_id, named_address},
    notifications_param::{self, Wanted},
    repeat_limiter::{FLOOR, Mark},
};
use crate::connections::later;
use crate::metrics::Held;
use crate::model::{
    config_lookup::{ClientLabels, Lookup, chain},
    limits,
};
use crate::openapi::{Param, Security, schema_of};
use crate::origin::Origin;
use crate::view::{ConfigSource, Reader};
use crate::watch::{Wake, Watch, WatchKey};

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
            "JSON in text: at most 200 files, each with the last id that the client received.",
        )
        .example(r#"[{"namespaceName":"application","notificationId":-1}]"#)
        .required(),
        doc::DATA_CENTER,
        doc::IP,
    ],
    security: Security::Reader,
    replies: |schemas| {
        let news = doc::success("What is newer.", schema_of::<Vec<News>>()(schemas));
        [news, doc::unchanged()].into_iter().chain(doc::poll_refusals(schemas)).collect()
    },
};

pub(super) async fn poll<S: ConfigSource>(State(surface): State<Surface<S>>, ask: ClientRequest) -> Response {
    let (parking, begun) = (ask.parking, surface.begin(&ask));
    // Kept as its mark alone: the text of thousands of held polls would be most of their memory.
    drop(ask);
    match begun {
        Ok(mut hold) => {
            hold.forget_foreign_ids().await;
            match hold.look() {
                Look::Answer(answer) => answer,
                Look::Wait(delayed) => later(parking, hold.wait(delayed)).await,
            }
        }
        Err(refusal) => {
            surface.metrics.polls_ended.with_label_values(&["refused"]).inc();
            later(parking, async move {
                sleep(FLOOR).await;
                refusal.for_poll()
            })
            .await
        }
    }
}

/// Namespaces in which files are looked for; empty if the request names no cluster.
fn namespaces(ask: &ClientRequest) -> Vec<String> {
    let data_center = ask.query().get("dataCenter");
    ask.query().filled("cluster").map(|cluster| chain(&cluster, data_center.as_deref())).unwrap_or_default()
}

impl<S: ConfigSource> Surface<S> {
    fn begin(&self, ask: &ClientRequest) -> Result<Hold<S>, Refusal> {
        let (app, namespaces) = (app_id(ask), namespaces(ask));
        let admitted = self.admit(ask, app.as_deref().map(|app| (app, namespaces.as_slice())))?;
        let mut poll = Poll::read(ask, admitted, namespaces)?;
        self.keep_seen(&poll.admitted, &mut poll.namespaces, &poll.app);
        let (mut keys, mut guard) = (poll.keys(), None);
        if let Admitted::Named { proof, .. } = &poll.admitted {
            let (key, guards) = self.source.guard(proof);
            keys.push(key);
            guard = Some(guards);
        }
        let watch = self.source.hub().watch(Origin::of_any(ask.address), keys, poll.bytes())?;
        self.note(ask.reader(self.settings.hold), ask, &poll);
        let held = Held::begin(&self.metrics);
        let deadline = held.began() + jittered(self.settings.hold);
        let request = self.floor.mark(&(ask.address, ask.query().raw()));
        Ok(Hold { surface: self.clone(), request, poll, watch, guard, held, deadline, waited: false })
    }
}

impl<S: ConfigSource> Surface<S> {
    /// Remembers that a client is there. One that another node has told of the newest change, and that comes here now,
    /// has what is found for it: who is told of a change pulls at once. Its poll has to name its address: some clients
    /// name one in their pulls alone, and would be known under two.
    fn note(&self, reader: Reader<'_>, ask: &ClientRequest, poll: &Poll) {
        let mut lookup = poll.lookup();
        lookup.client.address = address_of(ask);
        let is_named = named_address(ask).is_some();
        for wanted in &poll.files {
            lookup.file.clone_from(&wanted.name);
            if self.source.note_polled(reader, &lookup) {
                continue;
            }
            if is_named
                && self.source.notification_id(&lookup).map(i64::from) == Some(wanted.known_id)
                && let Some(released) = self.source.resolve_by_address(&lookup)
                && (!released.encrypted || self.admit_to_sealed(&poll.admitted, &released).is_ok())
            {
                self.source.note_pulled(reader, &lookup, &released);
            }
        }
    }
}

/// A poll that is held.
struct Hold<S: ConfigSource> {
    surface: Surface<S>,
    request: Mark,
    poll: Poll,
    watch: Watch,
    /// Of one that a token let in.
    guard: Option<S::Guard>,
    held: Held,
    /// Time at which the answer is that nothing has changed.
    deadline: Instant,
    /// It has waited for news and was woken: what it is told is no repetition.
    waited: bool,
}

enum Look {
    Answer(Response),
    /// Nothing to be told; or something, but not before that.
    Wait(Option<Instant>),
}

impl<S: ConfigSource> Hold<S> {
    /// Forgets ids that no node of this cluster has given out. A client that names one has it from elsewhere, and would
    /// wait for years until ours are as high. Where no node can decide, the poll is held as it is.
    async fn forget_foreign_ids(&mut self) {
        let (source, newest_id) = (&self.surface.source, i64::from(self.surface.source.newest_id()));
        let Some(newest) = self.poll.newest_known().filter(|known| *known > newest_id) else { return };
        let is_far = newest - newest_id > FAR as i64 && source.was_at_horizon_lately();
        // Boxed, as hardly any poll comes here, and each would have room for it.
        if is_far || Box::pin(source.await_horizon(CATCH_UP_LIMIT)).await {
            let foreign = self.poll.forget_above(source.newest_id().into());
            self.surface.metrics.foreign_ids.inc_by(foreign);
        }
    }

    /// Looks for news to answer with now.
    fn look(&mut self) -> Look {
        let news = self.poll.news(&self.surface.source);
        if news.is_empty() {
            // Woken perhaps because its token has ended.
            let refused = if self.guard.is_some() { self.refused() } else { None };
            return refused.map_or(Look::Wait(None), Look::Answer);
        }
        let answer = serde_json::to_string(&news).expect("a list of news is JSON");
        // A change during this second makes another answer, which goes out at once.
        if let Some(delay) = self.surface.floor.delay(self.request, &answer).filter(|_| !self.waited) {
            return Look::Wait(Some(Instant::now() + delay));
        }
        if let Some(refused) = self.refused() {
            return Look::Answer(refused);
        }
        self.surface.floor.given(self.request, &answer);
        self.held.outcome = "changed";
        Look::Answer(([(header::CONTENT_TYPE, answer::JSON)], answer).into_response())
    }

    /// Refusal of a reader who was let in a while ago, and would not be now; `None` if the reader still would be.
    fn refused(&mut self) -> Option<Response> {
        let refusal = self.surface.admits_still(&self.poll.admitted, self.poll.wanted()).err()?;
        self.held.outcome = "refused";
        Some(refusal.for_poll())
    }

    async fn wait(mut self, mut delayed: Option<Instant>) -> Response {
        loop {
            match timeout_at(delayed.unwrap_or(self.deadline), self.watch.changed()).await {
                Ok(Wake::Changed) => self.waited |= delayed.is_none(),
                Ok(Wake::Closed) => {
                    self.held.outcome = "shutdown";
                    return closing(answer::not_modified());
                }
                Err(_) if delayed.is_none() => {
                    self.held.outcome = "unchanged";
                    return answer::not_modified();
                }
                Err(_) => {}
            }
            match self.look() {
                Look::Answer(answer) => return answer,
                Look::Wait(next) => delayed = next,
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
fn app_id(ask: &ClientRequest) -> Option<Cow<'_, str>> {
    ask.query().filled(APP_ID)
}

/// Request of one poll.
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
    fn read(ask: &ClientRequest, admitted: Admitted, namespaces: Vec<String>) -> Result<Poll, Refusal> {
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
        let files = notifications_param::parse(&needed("notifications")?).map_err(Refusal::BadRequest)?;
        Ok(Poll { app: app.into_owned(), cluster: cluster.into_owned(), namespaces, files, admitted })
    }

    /// By what it is judged.
    fn wanted(&self) -> auth::Wanted<'_> {
        (&self.app, &self.namespaces)
    }

    /// Bytes that the poll holds in memory while it waits, its keys aside.
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
