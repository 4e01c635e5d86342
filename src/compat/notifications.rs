//! `/notifications/v2`: the long poll.
//!
//! Only news is answered at once, never 304 or an error, because several clients retry immediately.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::sleep;

use super::Surface;
use super::answer::{self, closing, not_modified};
use super::client_request::ClientRequest;
use super::doc::{self, Doc};
use super::lookup::{address_of, is_app_id};
use super::notifications_param;
use crate::connections::later;
use crate::model::config_lookup::{DEFAULT_NAMESPACE, chain};
use crate::model::limits;
use crate::openapi::{Param, Security, schema_of};
use crate::reads::repeat_limiter::FLOOR;
use crate::reads::{ConfigNews, ConfigPoll, ConfigSource, Hold, HoldEnd, PollRequest, PollingClient, ReadRefusal};
use crate::tasks;

const APP_ID: &str = "appId";

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
    body: None,
    security: Security::Reader,
    replies: |schemas| {
        let news = doc::success("What is newer.", schema_of::<Vec<ChangedFile>>()(schemas));
        [news, doc::unchanged()].into_iter().chain(doc::poll_refusals(schemas)).collect()
    },
};

pub(super) async fn poll<S: ConfigSource>(State(surface): State<Surface<S>>, ask: ClientRequest) -> Response {
    let (parking, begun) = (ask.parking, surface.begin(&ask));
    // Only a hash of the request is kept: the text of thousands of held polls would dominate their memory.
    drop(ask);
    match begun {
        Ok((cluster, mut hold)) => {
            hold.query.forget_foreign_ids().await;
            match hold.look().await {
                Ok(None) => {
                    let answer = async move {
                        let end = tasks::caught(hold.wait()).await.unwrap_or(Err(ReadRefusal::Failed));
                        end.map_or_else(|refusal| refusal.for_poll(), |end| ended(&hold.query.request, &cluster, end))
                    };
                    later(parking, answer).await
                }
                Ok(Some(news)) => poll_response(&hold.query.request, &cluster, &news),
                Err(refusal) => refusal.for_poll(),
            }
        }
        Err(refusal) => {
            surface.reads.metrics().polls_ended.with_label_values(&["refused"]).inc();
            later(parking, async move {
                sleep(FLOOR).await;
                refusal.for_poll()
            })
            .await
        }
    }
}

fn ended(request: &PollRequest, cluster: &str, end: HoldEnd<Vec<ConfigNews>>) -> Response {
    match end {
        HoldEnd::News(news) => poll_response(request, cluster, &news),
        HoldEnd::Unchanged => not_modified(),
        HoldEnd::Shutdown => closing(not_modified()),
    }
}

impl<S: ConfigSource> Surface<S> {
    /// Parses a poll and begins its hold; returns its cluster too.
    fn begin(&self, ask: &ClientRequest) -> Result<(String, Hold<ConfigPoll<S>>), ReadRefusal> {
        let (app, namespaces) = (app_id(ask), namespaces(ask));
        let wanted = app.as_deref().map(|app| (app, namespaces.as_slice()));
        let admitted = self.reads.admit(ask.asker(), wanted)?;
        let (cluster, request) = read(ask, namespaces)?;
        let client = PollingClient { reader: ask.reader(self.settings.hold), address: address_of(ask) };
        let hold = self.reads.poll(admitted, request, client, &(ask.address, ask.query().raw()))?;
        Ok((cluster, hold))
    }
}

/// Returns the namespaces in which files are looked up; none if the request has no cluster.
fn namespaces(ask: &ClientRequest) -> Vec<String> {
    let data_center = ask.query().get("dataCenter");
    cluster(ask).map(|cluster| chain(&cluster, data_center.as_deref())).unwrap_or_default()
}

/// Returns the cluster of a poll; an empty one is the default, as in Apollo.
fn cluster(ask: &ClientRequest) -> Option<Cow<'_, str>> {
    ask.query().get("cluster").map(|cluster| if cluster.is_empty() { DEFAULT_NAMESPACE.into() } else { cluster })
}

/// Returns the app whose files are requested, and whose keys authenticate the client.
fn app_id(ask: &ClientRequest) -> Option<Cow<'_, str>> {
    ask.query().filled(APP_ID)
}

/// Parses the cluster and the watched files of a poll.
fn read(ask: &ClientRequest, namespaces: Vec<String>) -> Result<(String, PollRequest), ReadRefusal> {
    let missing = |name: &str| ReadRefusal::BadRequest(format!("the parameter {name} is needed"));
    let needed = |name: &str| ask.query().filled(name).ok_or_else(|| missing(name));
    let app = app_id(ask).ok_or_else(|| missing(APP_ID))?;
    let cluster = cluster(ask).ok_or_else(|| missing("cluster"))?;
    if !is_app_id(&app) {
        return Err(ReadRefusal::BadRequest("the parameter appId is not an app id".to_owned()));
    }
    let data_center = ask.query().get("dataCenter");
    let names = [(APP_ID, Some(&app)), ("cluster", Some(&cluster)), ("dataCenter", data_center.as_ref())];
    for (parameter, name) in names {
        if name.is_some_and(|name| name.chars().count() > limits::NAME_CHARS_MAX) {
            let why = format!("the parameter {parameter} has more than {} characters", limits::NAME_CHARS_MAX);
            return Err(ReadRefusal::BadRequest(why));
        }
    }
    let files = notifications_param::parse(&needed("notifications")?).map_err(ReadRefusal::BadRequest)?;
    Ok((cluster.into_owned(), PollRequest { group: app.into_owned(), namespaces, files }))
}

fn poll_response(request: &PollRequest, cluster: &str, news: &[ConfigNews]) -> Response {
    let changed = news.iter().map(|ConfigNews { name, id }| {
        let details = BTreeMap::from([(format!("{}+{cluster}+{name}", request.group), *id)]);
        ChangedFile { namespace_name: name, notification_id: *id, messages: ChangeMessages { details } }
    });
    let answer = serde_json::to_string(&changed.collect::<Vec<_>>()).expect("a list of news is JSON");
    ([(header::CONTENT_TYPE, answer::JSON)], answer).into_response()
}

/// A changed file.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "News")]
struct ChangedFile<'a> {
    /// Name as in the request.
    namespace_name: &'a str,
    /// Notification id: one counter of all changes, below 2^31, which never decreases.
    notification_id: u32,
    messages: ChangeMessages,
}

/// Details of a change; some clients drop entries without them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Messages")]
struct ChangeMessages {
    /// Ids by `appId+cluster+namespace` as requested, at least one.
    details: BTreeMap<String, u32>, // bound: request
}
