//! Everything a caller should not send: refused with the code it gets, on leader and follower alike,
//! and without a trace in the state.
//!
//! | case | tested in |
//! |---|---|
//! | S01 credentials that are none | `requests`, `api::tests` (every route) |
//! | S02 tricks with the path | `requests` |
//! | S03 methods | `requests`, `compat::tests::readers` |
//! | S04 starts without a good secret | `start` |
//! | S05, S06 strangers at the peer port, peers at the client port | `sockets`, `raft::peer::tests::doors` |
//! | S07 logins | `secrets`, `envelope`, `api::tests` |
//! | S08 pages | `requests`, `rules::lists` |
//! | S10 what only apply can refuse | `rules::writes`, `rules::values`, `names` |
//! | S12, S13, S14 names and paths of config clients | `names`, `compat::tests::{pulls, readers}` |
//! | S15 releases by ids of others | `rules::releases` |
//! | S16 names that look alike | `names` |
//! | S18 addresses inside of rules | `names`, `rules::edges` |
//! | S19, S20 slow, endless and huge requests | `sockets` |
//! | S21 malformed bodies | `bodies`, `api::extract` |
//! | S22, S41 text that would be markup, a header or a line of the log | `names`, `secrets` |
//! | S23 names that walk directories | `names`, `model::name` |
//! | S24 one bad item among a hundred | `rules::writes` |
//! | S26 lists of a poll | `compat::tests::polls`, `config_surface`, `names` |
//! | S27 to S31 conditions, ranges, words, policies of rules | `rules::values`, `rules::fields`, `rules::views` |
//! | S32 ids | `rules::writes` |
//! | S33 aliases | `names`, `aliases` |
//! | S34 one create through two nodes | `names`, `rules::writes` |
//! | S35 one command twice | `catalog::tests`, `names` |
//! | S37, S38 secrets and names in logs and metrics | `secrets` |
//! | S39 verbs | `requests` |
//! | S42 numbers beyond their type | `rules::values`, `bodies` |
//! | S43 a token revoked on another node | `secrets` |

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
