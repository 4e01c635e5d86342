//! The table of routes of the management surface: method, path, handler, documentation.

use axum::Extension;
use axum::extract::State;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::admin::{audit, backup, clients, cluster, health, resealing, settings, time, webhooks, xds};
use super::approval::{contracts, policies, requests};
use super::auth::{access_keys, identities, login, oneself, providers, sso, tokens, users};
use super::config::{bundles, diff, encryption, files, groups, releases, subscribers, templates};
use super::http::route::{self, Access, METRICS, Terms};
use super::http::{ApiResult, App, Arguments, Caller, Doc, Inputs, reference};
use super::naming::{aliases, drain, heartbeats, instances, lists, namespaces, services, targets};
use super::{discover, rules};
use crate::catalog::Op;
use crate::model::approval::RequestOp;
use crate::model::grant::Verb::{self, Manage, Operate};
use crate::model::release::ReleaseOp;
use crate::model::rule::Family;
use crate::openapi::Port;

const GET: Method = Method::GET;
const POST: Method = Method::POST;
const PUT: Method = Method::PUT;
const DELETE: Method = Method::DELETE;

/// One row of the table of routes.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) terms: Terms,
    pub(super) port: Port,
    pub(super) handler: MethodRouter<App>,
    /// Description derived from the arguments of the handler.
    pub(super) inputs: Inputs,
    /// Documentation that is not derived from the arguments.
    pub(super) doc: Doc,
}

fn open<H, T>(method: Method, path: impl Into<String>, handler: H, doc: Doc) -> Route
where
    H: Handler<T, App>,
    T: Arguments + 'static,
{
    let filter = MethodFilter::try_from(method.clone()).expect("the table holds standard methods");
    let (path, handler, inputs) = (path.into(), on(filter, handler), T::describe as Inputs);
    let terms = Terms { access: Access::Anyone, is_held: false, is_always: false };
    Route { method, path, terms, port: Port::Management, handler, inputs, doc }
}

fn guarded<H, T>(method: Method, path: impl Into<String>, handler: H, doc: Doc) -> Route
where
    H: Handler<T, App>,
    T: Arguments + 'static,
{
    admitting(Access::TokenHolder, open(method, path, handler, doc))
}

/// Returns the handler of a write by this operation.
fn by<O, B, F>(
    op: O,
    write: impl Fn(O, State<App>, Caller, B) -> F + Copy,
) -> impl Fn(State<App>, Caller, B) -> F + Copy
where
    O: Copy,
    F: Future<Output = ApiResult> + Send,
{
    move |app, caller, body| write(op, app, caller, body)
}

/// Creates a route for holders of the verb on everything.
fn whole<H, T>(verb: Verb, method: Method, path: impl Into<String>, handler: H, doc: Doc) -> Route
where
    H: Handler<T, App>,
    T: Arguments + 'static,
{
    admitting(Access::Everywhere(verb), open(method, path, handler, doc))
}

/// Creates an open route that the config clients' port serves too.
fn shared<H, T>(method: Method, path: impl Into<String>, handler: H, doc: Doc) -> Route
where
    H: Handler<T, App>,
    T: Arguments + 'static,
{
    Route { port: Port::Both, ..always(open(method, path, handler, doc)) }
}

fn admitting(access: Access, route: Route) -> Route {
    Route { terms: Terms { access, ..route.terms }, ..route }
}

/// Marks a route that operators need even on a node that is out of service.
fn always(route: Route) -> Route {
    Route { terms: Terms { is_always: true, ..route.terms }, ..route }
}

/// Marks a route that holds requests, within limits of its own.
fn held(route: Route) -> Route {
    Route { terms: Terms { is_held: true, ..route.terms }, ..route }
}

/// Returns every route of the surface.
pub(super) fn routes() -> Vec<Route> {
    let rules = Family::ALL.iter().flat_map(|family| rule_routes(*family));
    fixed_routes().into_iter().chain(rules).collect()
}

/// Returns the routes of one family of rules; the family is an extension of the request.
fn rule_routes(family: Family) -> Vec<Route> {
    let path = |rest: &str| format!("/naming/v1/{}{rest}", family.kind());
    let change = |op| by((family, op), rules::releases::change);
    let routes = vec![
        guarded(GET, path(""), rules::drafts::list, rules::docs::list(family)),
        guarded(GET, path("/detail"), rules::drafts::detail, rules::docs::detail(family)),
        guarded(POST, path(""), by(Op::Create, rules::drafts::save), rules::docs::create(family)),
        guarded(PUT, path(""), by(Op::Update, rules::drafts::save), rules::docs::update(family)),
        guarded(POST, path("/delete"), rules::drafts::delete, rules::docs::delete(family)),
        guarded(POST, path(route::EXPLAIN), rules::explain::explain, rules::docs::explain(family)),
        guarded(POST, path("/releases"), rules::releases::publish, rules::docs::publish(family)),
        guarded(GET, path("/releases"), rules::releases::list_releases, rules::docs::list_releases(family)),
        guarded(PUT, path("/releases/rollback"), change(ReleaseOp::Rollback), rules::docs::roll_back(family)),
        guarded(PUT, path("/releases/stopbeta"), change(ReleaseOp::StopGray), rules::docs::stop_gray(family)),
        guarded(PUT, path("/releases/promote"), change(ReleaseOp::Promote), rules::docs::promote(family)),
        guarded(PUT, path("/releases/withdraw"), change(ReleaseOp::Withdraw), rules::docs::withdraw(family)),
        guarded(PUT, path("/releases/rollout"), change(ReleaseOp::Rollout), rules::docs::rollout(family)),
        guarded(POST, path("/releases/signal"), change(ReleaseOp::Signal), rules::docs::signal(family)),
        guarded(GET, path("/releases/history"), rules::releases::history, rules::docs::history(family)),
        guarded(GET, path("/subscribers"), rules::releases::subscribers, rules::docs::subscribers(family)),
        guarded(GET, path("/releases/diff"), rules::releases::diff, rules::docs::diff(family)),
        guarded(POST, path("/releases/delete"), change(ReleaseOp::Delete), rules::docs::delete_releases(family)),
    ];
    let of_family = |route: Route| Route { handler: route.handler.layer(Extension(family)), ..route };
    routes.into_iter().map(of_family).collect()
}

fn fixed_routes() -> Vec<Route> {
    let change = |op| by(op, releases::change);
    vec![
        shared(GET, route::LIVE, health::live, health::LIVE),
        shared(GET, route::READY, health::ready, health::READY),
        shared(GET, "/openapi.json", reference::document, reference::DOCUMENT),
        shared(GET, "/docs", reference::page, reference::PAGE),
        always(open(GET, METRICS, health::metrics, health::METRICS)),
        open(POST, "/auth/v1/user/login", login::log_in, login::LOG_IN),
        open(POST, "/core/v1/user/login", login::log_in, login::LOG_IN),
        guarded(POST, "/auth/v1/user/logout", login::log_out, login::LOG_OUT),
        guarded(POST, "/core/v1/user/logout", login::log_out, login::LOG_OUT),
        whole(Manage, GET, "/auth/v1/providers", providers::list, providers::LIST),
        whole(Manage, POST, "/auth/v1/providers", by(Op::Create, providers::write), providers::CREATE),
        whole(Manage, PUT, "/auth/v1/providers", by(Op::Update, providers::write), providers::UPDATE),
        whole(Manage, POST, "/auth/v1/providers/delete", by(Op::Delete, providers::write), providers::DELETE),
        whole(Manage, GET, "/auth/v1/identities", identities::list, identities::LIST),
        whole(Manage, POST, "/auth/v1/identities/delete", identities::delete, identities::DELETE),
        open(GET, "/auth/v1/sso", sso::list, sso::LIST),
        open(GET, "/auth/v1/sso/{name}", sso::show, sso::SHOW),
        open(POST, "/auth/v1/sso/{name}/login", sso::log_in, sso::LOG_IN),
        open(POST, "/auth/v1/sso/{name}/logout", sso::log_out, sso::LOG_OUT),
        whole(Manage, POST, "/auth/v1/sso/{name}/test", sso::test, sso::TEST),
        whole(Manage, GET, "/auth/v1/users", users::list, users::LIST),
        whole(Manage, POST, "/auth/v1/users", by(Op::Create, users::write), users::CREATE),
        whole(Manage, PUT, "/auth/v1/users", by(Op::Update, users::write), users::UPDATE),
        whole(Manage, POST, "/auth/v1/users/delete", by(Op::Delete, users::write), users::DELETE),
        guarded(GET, "/auth/v1/user", oneself::show, oneself::SHOW),
        guarded(GET, "/auth/v1/sessions", oneself::sessions, oneself::SESSIONS),
        guarded(POST, "/auth/v1/sessions/delete", oneself::end_sessions, oneself::END_SESSIONS),
        guarded(PUT, "/auth/v1/user/password", users::change_password, users::PASSWORD),
        guarded(GET, "/auth/v1/roles", users::roles, users::ROLES),
        whole(Manage, GET, "/auth/v1/tokens", tokens::list, tokens::LIST),
        whole(Manage, POST, "/auth/v1/tokens", tokens::create, tokens::CREATE),
        whole(Manage, PUT, "/auth/v1/tokens", tokens::update, tokens::UPDATE),
        whole(Manage, POST, "/auth/v1/tokens/rotate", tokens::rotate, tokens::ROTATE),
        whole(Manage, POST, "/auth/v1/tokens/delete", tokens::delete, tokens::DELETE),
        whole(Manage, GET, "/auth/v1/accesskeys", access_keys::list, access_keys::LIST),
        whole(Manage, POST, "/auth/v1/accesskeys", by(Op::Create, access_keys::write), access_keys::CREATE),
        whole(Manage, PUT, "/auth/v1/accesskeys", by(Op::Update, access_keys::write), access_keys::UPDATE),
        whole(Manage, POST, "/auth/v1/accesskeys/delete", by(Op::Delete, access_keys::write), access_keys::DELETE),
        guarded(GET, "/naming/v1/namespaces", namespaces::list, namespaces::LIST),
        guarded(POST, "/naming/v1/namespaces", by(Op::Create, namespaces::write), namespaces::CREATE),
        guarded(PUT, "/naming/v1/namespaces", by(Op::Update, namespaces::write), namespaces::UPDATE),
        guarded(POST, "/naming/v1/namespaces/delete", by(Op::Delete, namespaces::write), namespaces::DELETE),
        guarded(GET, "/core/v1/namespaces", namespaces::list, namespaces::LIST),
        guarded(POST, "/core/v1/namespaces", by(Op::Create, namespaces::write), namespaces::CREATE),
        guarded(PUT, "/core/v1/namespaces", by(Op::Update, namespaces::write), namespaces::UPDATE),
        guarded(POST, "/core/v1/namespaces/delete", by(Op::Delete, namespaces::write), namespaces::DELETE),
        guarded(GET, "/naming/v1/services", services::list, services::LIST),
        guarded(POST, "/naming/v1/services", by(Op::Create, services::write), services::CREATE),
        guarded(PUT, "/naming/v1/services", by(Op::Update, services::write), services::UPDATE),
        guarded(POST, "/naming/v1/services/delete", by(Op::Delete, services::write), services::DELETE),
        guarded(GET, "/naming/v1/services/all", services::all, services::ALL),
        guarded(GET, "/naming/v1/services/count", services::count, services::COUNT),
        guarded(GET, "/naming/v1/service/aliases", aliases::list, aliases::LIST),
        guarded(POST, "/naming/v1/service/alias", by(Op::Create, aliases::write), aliases::CREATE),
        guarded(PUT, "/naming/v1/service/alias", by(Op::Update, aliases::write), aliases::UPDATE),
        guarded(POST, "/naming/v1/service/aliases/delete", by(Op::Delete, aliases::write), aliases::DELETE),
        guarded(GET, "/naming/v1/instances", instances::list, instances::LIST),
        guarded(POST, "/naming/v1/instances", by(Op::Create, instances::save), instances::REGISTER),
        guarded(PUT, "/naming/v1/instances", by(Op::Update, instances::save), instances::UPDATE),
        guarded(POST, "/naming/v1/instances/delete", instances::delete, instances::DELETE),
        guarded(POST, "/naming/v1/instances/delete/host", instances::delete_host, instances::DELETE_HOST),
        guarded(PUT, "/naming/v1/instances/isolate/host", instances::isolate_host, instances::ISOLATE_HOST),
        guarded(GET, "/naming/v1/instances/count", instances::count, instances::COUNT),
        guarded(GET, "/naming/v1/instances/labels", instances::labels, instances::LABELS),
        guarded(GET, "/naming/v1/instances/subscribers", lists::subscribers, lists::SUBSCRIBERS),
        held(guarded(POST, route::DRAIN, drain::drain, drain::DRAIN)),
        guarded(GET, route::TARGETS, targets::targets, targets::TARGETS),
        guarded(POST, "/v1/RegisterInstance", instances::register_one, instances::REGISTER_ONE),
        guarded(POST, "/v1/DeregisterInstance", instances::deregister_one, instances::DEREGISTER_ONE),
        guarded(POST, "/v1/Heartbeat", heartbeats::heartbeat, heartbeats::HEARTBEAT),
        held(guarded(POST, route::DISCOVER, discover::discover, discover::DISCOVER)),
        guarded(POST, route::APPLIED, discover::applied::applied, discover::applied::APPLIED),
        guarded(GET, "/config/v1/configfilegroups", groups::list, groups::LIST),
        guarded(POST, "/config/v1/configfilegroups", by(Op::Create, groups::write), groups::CREATE),
        guarded(PUT, "/config/v1/configfilegroups", by(Op::Update, groups::write), groups::UPDATE),
        guarded(DELETE, "/config/v1/configfilegroups", groups::delete_one, groups::DELETE_ONE),
        guarded(POST, "/config/v1/configfilegroups/delete", by(Op::Delete, groups::write), groups::DELETE),
        guarded(GET, "/config/v1/configfiles", files::get, files::GET),
        guarded(POST, "/config/v1/configfiles", by(Op::Create, files::save), files::CREATE),
        guarded(PUT, "/config/v1/configfiles", by(Op::Update, files::save), files::UPDATE),
        guarded(DELETE, "/config/v1/configfiles", files::delete_one, files::DELETE_ONE),
        guarded(POST, "/config/v1/configfiles/delete", by(Op::Delete, files::write), files::DELETE),
        guarded(POST, "/config/v1/configfiles/batchdelete", by(Op::Delete, files::write), files::DELETE),
        guarded(GET, "/config/v1/configfiles/search", files::list, files::LIST),
        guarded(GET, "/config/v1/configfiles/by-group", files::list, files::LIST),
        guarded(GET, "/config/v1/configfiles/encryptalgorithm", encryption::algorithms, encryption::ALGORITHMS),
        guarded(GET, "/config/v1/configfiletemplates", templates::list, templates::LIST),
        guarded(POST, "/config/v1/configfiletemplates", by(Op::Create, templates::write), templates::CREATE),
        guarded(PUT, "/config/v1/configfiletemplates", by(Op::Update, templates::write), templates::UPDATE),
        guarded(POST, "/config/v1/configfiletemplates/delete", by(Op::Delete, templates::write), templates::DELETE),
        guarded(POST, route::EXPORT, bundles::export, bundles::EXPORT),
        guarded(POST, route::IMPORT, bundles::import, bundles::IMPORT),
        guarded(POST, "/config/v1/configfiles/copy", bundles::copy, bundles::COPY),
        guarded(
            POST,
            "/config/v1/configfiles/createandpub",
            releases::create_and_publish,
            releases::CREATE_AND_PUBLISH,
        ),
        guarded(POST, "/config/v1/configfiles/release", releases::publish, releases::PUBLISH),
        guarded(GET, "/config/v1/configfiles/release", releases::get, releases::GET),
        guarded(GET, "/config/v1/configfiles/releases", releases::list, releases::LIST),
        guarded(GET, "/config/v1/configfiles/release/versions", releases::versions, releases::VERSIONS),
        guarded(PUT, "/config/v1/configfiles/releases/rollback", change(ReleaseOp::Rollback), releases::ROLL_BACK),
        guarded(POST, "/config/v1/configfiles/releases/stopbeta", change(ReleaseOp::StopGray), releases::STOP_GRAY),
        guarded(PUT, "/config/v1/configfiles/releases/stopbeta", change(ReleaseOp::StopGray), releases::STOP_GRAY),
        guarded(PUT, "/config/v1/configfiles/releases/promote", change(ReleaseOp::Promote), releases::PROMOTE),
        guarded(PUT, "/config/v1/configfiles/releases/withdraw", change(ReleaseOp::Withdraw), releases::WITHDRAW),
        guarded(PUT, "/config/v1/configfiles/releases/rollout", change(ReleaseOp::Rollout), releases::ROLLOUT),
        guarded(POST, "/config/v1/configfiles/releases/signal", change(ReleaseOp::Signal), releases::SIGNAL),
        guarded(GET, "/config/v1/configfiles/releasehistory", releases::history, releases::HISTORY),
        guarded(GET, "/config/v1/configfiles/subscribers", subscribers::subscribers, subscribers::SUBSCRIBERS),
        guarded(GET, "/config/v1/configfiles/release/diff", diff::diff, diff::DIFF),
        guarded(POST, "/config/v1/configfiles/releases/delete", change(ReleaseOp::Delete), releases::DELETE),
        guarded(DELETE, "/config/v1/configfiles/releases", releases::delete_one, releases::DELETE_ONE),
        whole(Manage, GET, "/admin/v1/audit", audit::list, audit::LIST),
        whole(Manage, GET, "/admin/v1/audit/wouldrefuse", audit::would_refuse, audit::WOULD_REFUSE),
        whole(Operate, GET, "/admin/v1/settings", settings::show, settings::SHOW),
        whole(Operate, PUT, "/admin/v1/settings", settings::change, settings::CHANGE),
        whole(Operate, GET, "/admin/v1/webhooks", webhooks::list, webhooks::LIST),
        whole(Operate, POST, "/admin/v1/webhooks", by(Op::Create, webhooks::write), webhooks::CREATE),
        whole(Operate, PUT, "/admin/v1/webhooks", by(Op::Update, webhooks::write), webhooks::UPDATE),
        whole(Operate, POST, "/admin/v1/webhooks/delete", by(Op::Delete, webhooks::write), webhooks::DELETE),
        whole(Manage, GET, "/admin/v1/policies", policies::list, policies::LIST),
        whole(Manage, POST, "/admin/v1/policies", by(Op::Create, policies::write), policies::CREATE),
        whole(Manage, PUT, "/admin/v1/policies", by(Op::Update, policies::write), policies::UPDATE),
        whole(Manage, POST, "/admin/v1/policies/delete", by(Op::Delete, policies::write), policies::DELETE),
        guarded(GET, "/admin/v1/contracts", contracts::list, contracts::LIST),
        guarded(POST, "/admin/v1/contracts", by(Op::Create, contracts::write), contracts::CREATE),
        guarded(PUT, "/admin/v1/contracts", by(Op::Update, contracts::write), contracts::UPDATE),
        guarded(POST, "/admin/v1/contracts/delete", by(Op::Delete, contracts::write), contracts::DELETE),
        guarded(POST, "/admin/v1/contracts/test", contracts::test, contracts::TEST),
        guarded(GET, "/admin/v1/requests", requests::list, requests::LIST),
        guarded(GET, "/admin/v1/requests/diff", requests::diff, requests::DIFF),
        guarded(POST, "/admin/v1/requests/approve", by(RequestOp::Approve, requests::decide), requests::APPROVE),
        guarded(POST, "/admin/v1/requests/refuse", by(RequestOp::Refuse, requests::decide), requests::REFUSE),
        guarded(POST, "/admin/v1/requests/withdraw", by(RequestOp::Withdraw, requests::decide), requests::WITHDRAW),
        guarded(POST, "/admin/v1/requests/run", by(RequestOp::Run, requests::decide), requests::RUN),
        guarded(GET, "/admin/v1/clients", clients::releases, clients::RELEASES),
        whole(Operate, GET, "/admin/v1/xds/clients", xds::clients, xds::CLIENTS),
        whole(Operate, GET, "/admin/v1/xds/dump", xds::dump, xds::DUMP),
        whole(Manage, POST, "/admin/v1/datakey/reseal", resealing::reseal, resealing::RESEAL),
        always(whole(Operate, GET, "/admin/v1/cluster", cluster::status, cluster::STATUS)),
        whole(Operate, POST, "/admin/v1/cluster/add", cluster::add, cluster::ADD),
        whole(Operate, POST, "/admin/v1/cluster/promote", cluster::promote, cluster::PROMOTE),
        whole(Operate, POST, "/admin/v1/cluster/remove", cluster::remove, cluster::REMOVE),
        whole(Operate, POST, "/admin/v1/cluster/transfer", cluster::transfer, cluster::TRANSFER),
        whole(Operate, POST, "/admin/v1/cluster/snapshot", cluster::snapshot, cluster::SNAPSHOT),
        always(whole(Operate, GET, "/admin/v1/cluster/time", time::show, time::SHOW)),
        whole(Manage, POST, "/admin/v1/cluster/time/confirm", time::confirm, time::CONFIRM),
        held(whole(Operate, GET, route::BACKUP, backup::backup, backup::BACKUP)),
    ]
}
