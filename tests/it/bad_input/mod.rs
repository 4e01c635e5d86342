//! Everything a caller should not send: refused with the code it gets, on leader and follower alike,
//! and without a trace in the state.
//!
//! All 45 cases of the checklist. A name is a module next to this one, of `tests/it`, or of the sources
//! (`api::tests`); partial coverage is noted.
//!
//! | case | tested in |
//! |---|---|
//! | S01 credentials that are none | `requests`, `api::tests` (every route) |
//! | S02 tricks with the path | `requests` |
//! | S03 methods | `requests`, `compat::tests::readers` |
//! | S04 starts without a good secret | `start::a_cluster_does_not_start_without_a_good_secret` |
//! | S05, S06 strangers at the peer port, peers at the client port | `sockets`, `peer::tests::doors` |
//! | S07 logins: odd ones, timing, 10 000 guesses, at the same time, long passwords | `secrets`, `exhaustion::logins` |
//! | S08 pages | `requests`, `rules::lists` |
//! | S09 every route by everybody who may not | `api::tests::matrix`, `compat::tests::matrix` |
//! | S10 what only apply can refuse | `rules::writes`, `rules::values`, `names` |
//! | S11 what is of a namespace that one may not see | `api::tests::matrix`, `catalog::tests::trust` |
//! | S12, S13, S14 names and paths of config clients | `names`, `compat::tests::{pulls, readers}` |
//! | S15 releases by ids of others | rules: `rules::releases`, `api::tests::matrix`; config releases go by name |
//! | S16 names that look alike | `names` |
//! | S17 another name in the query than in the body: the body counts | `requests::the_query_of_a_write_names_nothing` |
//! | S18 addresses inside of rules | `names`, `rules::edges` |
//! | S19 slow requests, 1000 idle connections (more by `THUBAN_IT_IDLE`) | `sockets`, `connections` |
//! | S19 answers that are read slowly or not at all | `connections::idle_timeout` of the sources, `scripts/attacks` |
//! | S19 handshakes of TLS that stop half way | `tls` |
//! | S20 endless and huge requests | `sockets`; heads that do not come whole: `exhaustion::surfaces` |
//! | S21 malformed bodies | `bodies`, `api::extract` |
//! | S22, S41 text that would be markup, a header or a line of the log | `names`, `secrets`, `exhaustion::surfaces` |
//! | S23 names that walk directories | `names`, `model::name` |
//! | S24 one bad item among a hundred | `rules::writes`; one that is not permitted: `catalog::tests::trust`, `users` |
//! | S25 a poll of a file that one may not read | access keys are for an app, as a poll is: `access_keys` |
//! | S26 lists in polls | `compat::{tests::polls, notifications_param}`, `config_surface`, `names`, `exhaustion` |
//! | S27 to S31 conditions, ranges, words, policies of rules | `rules::values`, `rules::fields`, `rules::views` |
//! | S32 ids | `rules::writes` |
//! | S33 aliases | `names`, `aliases` |
//! | S34 one create through two nodes | `names`, `rules::writes` |
//! | S35 one command twice | `catalog::tests`, `names`; callers have no key of their own for it |
//! | S36 signatures that are old, skewed or of another path | `model::signature`, `compat::tests`, `access_keys` |
//! | S37, S38 secrets and names in logs and metrics | `secrets` |
//! | S39 verbs | `requests` |
//! | S40 backups: who may read the file; torn and foreign ones | `exhaustion::surfaces`, `backup`, `offline::tests` |
//! | S42 numbers beyond their type | `rules::values`, `bodies` |
//! | S43 a token revoked on another node | `secrets`; on a node that is cut off: `users` |
//! | S44 the last administrator | `catalog::tests::trust` |
//! | S45 made-up requests | from the description of both surfaces: `openapi` (10 examples an operation) |

mod bodies;
mod names;
mod requests;
mod secrets;
mod sockets;

use serde_json::Value;

use crate::harness::Api;

const LISTS: [&str; 8] = [
    "/naming/v1/namespaces",
    "/naming/v1/services",
    "/naming/v1/service/aliases",
    "/naming/v1/faultdetectors",
    "/naming/v1/ratelimits",
    "/naming/v1/routings",
    "/config/v1/configfilegroups",
    "/config/v1/configfiles/search",
];

/// All that can be listed, to compare before and after.
async fn everything(api: &Api) -> Vec<Value> {
    let mut all = Vec::new();
    for list in LISTS {
        all.push(api.get(list).await.expect_code(200_000).body);
    }
    all
}
