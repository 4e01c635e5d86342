//! Thuban: a replicated registry of services and of their governance rules, and a configuration store for unmodified
//! Apollo clients, in one binary.
//!
//! This page is the map. Every module opens with its purpose and with the modules that it must not use.
//!
//! # Layers
//!
//! From the top down; a room uses only rooms below it.
//!
//! ```text
//! cli, server            command line: commands that run nodes or work on their data; start-up and shutdown of a node
//! console                web pages, on the management port; uses api only for the JSON form of rules
//! grpc                   gRPC services (8091, 8093, 15010): xDS, Polaris, client status, health, reflection
//! api      compat        the two public surfaces: management (8090), config clients (8890)
//! xds                    resources for proxies and gRPC clients, and the state of their streams
//! reads                  reads by clients from the applied state: read barrier, held reads, discovery, config
//! operations             authorization, checks, one command for each batch, one outcome for each item
//! config                 flags and environment of `thuban serve`
//! offline                directories of stopped nodes: restore, recover, reset, inspect
//! webhooks               delivery of events to HTTP receivers, by the leader
//! controllers            proposals without a request: heartbeats, planned releases, rollouts, levels, audit notes
//! raft                   consensus: Node (propose, read), Lead, state machine
//! peer                   the protocol between nodes (8190): handshake, calls, append, snapshots
//! sso                    identity providers: documents and keys that this node fetched, and tokens that it verified
//! keyring                sealing and opening of access keys and encrypted config files
//! subscribers            register of clients: the release that this node last served to each
//! watch                  wake-ups of requests that are held until a change
//! store                  RocksDB: log, rows, snapshots
//! request_id             X-Request-Id
//! connections            listeners: limits for connections, idle time, parked requests
//! openapi                the description of both surfaces, built from their route tables
//! traces                 spans and their exporter
//! tls                    certificates of listeners; encryption between nodes
//! data_key               encryption of secrets at rest
//! compression            gzip for clients that accept it, computed once for all receivers of the same bytes
//! budget                 limits on the bytes of request bodies and large responses in flight
//! logging                lines for stdout and stderr; writing blocks no task, and a failed write ends none
//! metrics                counters and gauges of `/metrics`
//! address                a client's address behind proxies
//! sentences              sentences for people: rules, their effect, requests for approval; both languages
//! hosts                  host names that a listener answers to
//! log_once               suppression of repeated log lines
//! descriptors            shares of the process' file descriptors
//! format                 ids, entries, votes; their bytes and levels
//! memory                 memory limit and use of the process
//! brief_places           bounded places for short work; when all are taken, a new entry evicts another one
//! origin                 the prefix of an address that limits count as one client
//! uptime                 time since the machine started
//! proto                  generated gRPC messages and services
//!
//! crates/ctl             the client half of the command line: commands that call a running cluster
//! crates/oidc            OpenID Connect without I/O: tokens, keys, documents, requests and responses of a provider
//! crates/outbound        HTTP clients for other services, and the authorities that they trust
//! crates/book            the pages of docs as HTML, rendered when the crate is compiled
//! crates/tasks           tasks and threads; ends the process after a panic
//! crates/catalog         all replicated state as plain maps, changed by apply alone
//! crates/documents       bodies of the management API as JSON: parsing, and the written form of rules
//! crates/polaris         messages of Polaris' gRPC, and the mapping of services, rules and config files to them
//! crates/validate        checks of received contents by parsers and engines of others
//!   bundle               zip archives of config files, read within limits
//!   contracts            validation of config files and rules by schemas and expressions; never called by apply
//!   well_formed          syntax checks of JSON, XML, YAML, TOML; never called by apply
//! crates/model           vocabulary: rules, config files, grants, codes, limits
//! crates/base            below all other crates
//!   sealed               the text form of sealed secrets
//!   level                one number for the version of all formats
//!   pack                 the byte form of rows and messages
//!   threads              threads with a deep stack, for one step
//! ```
//!
//! The last rows are crates of their own, with the same names here ([`catalog`], [`bundle`], [`contracts`],
//! [`well_formed`], [`model`], [`tasks`]; level, pack and sealed in [`mod@format`]). Cargo holds their order, and what
//! they must not know: none depends on RocksDB, openraft or axum, none below `tasks` on tokio, and `catalog` does not
//! depend on `validate`. The tests of one compile it and the crates below it: `cargo test -p thuban-model`.
//!
//! [`model`] and [`catalog`] know no I/O, clock, randomness, HTTP or Raft; [`store`] stores bytes and never imports
//! `model`; [`api`] and [`compat`] know neither each other nor `store`; openraft is named in [`raft`], [`peer`],
//! `store` and [`mod@format`] alone; tonic in [`grpc`] alone. `tests/it/tidy.rs` has the same list in order and fails
//! on a name that points up.
//!
//! # Paths
//!
//! `docs/internals/paths.md` follows each path through the rooms, `docs/internals/layers.md` draws them,
//! `docs/internals/glossary.md` explains our terms, `docs/internals/decisions.md` gives the reasons.
//!
//! | path | in one sentence |
//! |---|---|
//! | write | a batch is checked, becomes one command, is appended by the leader, applied on every node and answered |
//! | read | the leader confirms its lead with a majority; the node answers from memory once it has applied that far |
//! | freshness | all commits up to `as_of` are applied here; readiness and token trust compare its age with a limit |
//! | xDS stream | resources are built from the catalog once and shared; a stream sends only changed ones |
//! | long poll | a watch on every key is registered before the read, so no change in between is lost |
//! | subscribers | each node has a register of the clients it served, and a query merges the registers of all members |
//! | access key | the secret is sealed before it is proposed, and a pull costs one HMAC |
//! | rule | a draft is published as an immutable release; a discovery selects among the active ones by labels |
//! | backup | one view of the rows is streamed, and a restore rekeys it for a new cluster |
//! | heartbeat | the leader holds heartbeats in memory and proposes only changes of health |
//! | config file | the node validates the content, and apply publishes exactly the validated bytes |
//! | encrypted file | the node seals the content before it is proposed and opens it for readers with the permission |
//! | document | `thuban apply` compares normal forms, plans, and updates by revision |
//! | permission | apply checks each item against the grants at that log index |
//! | approval | apply checks an act against the policies at that log index: done, refused, or stored as a request |
//! | rollout | the leader measures guards and proposes steps; apply takes each step once, if permitted |
//! | contract | the node validates a content before it is proposed, within bounds of time and memory |
//! | lost password | an order in the data directory goes through the log |
//! | audit row | the audited items of an entry are one row, in the batch of the change |
//! | console page | a form runs the same operation as an API request |
//! | webhook | apply creates events, and the leader delivers them in order, at least once |
//! | trace | spans go through a bounded queue; no request waits for it |
//! | level | every stored or sent format has a level, which the leader raises once every member can read it |
//! | connection | limits, TLS, then requests; between nodes the proof of the cluster secret is bound to it |
//!
//! # Invariants
//!
//! * Apply is a pure function of the log: equal index, equal catalog, equal rows, equal hash.
//! * Rows are the truth, the catalog is the read view: a catalog rebuilt from rows equals the one in memory (a property
//!   test checks it).
//! * A write is acknowledged once a majority has it on disk and this node can show it. Its rows are written a moment
//!   later; until then it stays in the log, from where it is applied again.
//! * No request waits for a disk: the catalog's lock is never held across a write, and consensus, which writes
//!   synchronously, has its own threads (`raft::threads`).
//! * A check against state, authorization of a write included, happens in apply, never in a handler.
//! * There is always an enabled administrator of everything. Disabling users or changing their passwords ends their
//!   sessions with that log entry, on every node.
//! * Secrets are returned once, when they are created: passwords and tokens are stored as hashes, and no list, log or
//!   audit shows one.
//! * Saving a rule or a config file never changes what clients get; releasing it does.
//! * Versions of a rule, versions of a config file and notification ids never decrease and are never reused, not even
//!   after the file was deleted. A release key never names two contents, not even in two clusters restored from one
//!   state.
//! * Nothing is proposed, written or sent that a member cannot read.
//! * Nothing crosses between nodes unencrypted.
//! * The newest inactive releases of a rule or config file are retained, up to the number in the replicated settings
//!   ([`model::settings`]); an active one is never removed.
//! * A content is one row, however many drafts and releases have it, and one text in memory while one of them is a
//!   draft or active. Of the texts in memory, apply reads only drafts.
//! * A node id belongs to one data directory. A node that lost its directory lost its votes and may not return under
//!   the same id; a majority of such nodes cannot found a cluster (`raft::formation`).
//! * Nodes that were started with different lists do not found a cluster together (`raft::initial_cluster`), and
//!   members that disagree on the membership do not have the same hash.
//! * Nothing about a start has a deadline: without a majority a node serves the state that it has, without a time
//!   limit, and is not ready.
//! * A change of the membership is not begun if the voters that answer would then be no majority (`raft::members`).
//! * A node whose state hash differs from that of the others stops serving, for good (`raft::consistency_check`).
//! * `enable_leader_restore` stays off: a restarted leader must win an election (`store::tests::power_loss` shows the
//!   failure otherwise).
//! * Every wait, queue and body has a limit; the limits are in [`model::limits`], [`config`] and `peer::limits`.
//! * Stamps run backwards only when an administrator sets the time, and are never ahead of the elapsed time by more
//!   than a hundredth of it, whatever the wall clock of the leader shows (`raft::clock`).
//! * Acts that cannot be undone are decided by the sure time, which follows a step of the stamps only once the members'
//!   clocks or an administrator have confirmed it (`catalog::time`).
//! * A new leader stamps nothing before it has read the clocks of the members in reach. A follower takes the time from
//!   its leader, and an entry that is applied late turns no clock back.
//! * An unreachable peer costs one attempt a second and two log lines, however long it is away.
//! * A call to a peer continues while bytes move: any entry passes a link of 64 KiB/s. Raft's own calls wait for no
//!   other calls, and a large forward delays none (`peer::limits`).
//! * The log has at most four times the sum of the snapshot threshold and the bytes retained for peers: a peer that
//!   needs older entries gets a snapshot (`raft::compaction`).
//! * An instance becomes unhealthy only after its whole window has passed under the present leader, excluding time
//!   while that leader was stalled or cut off. The verdict is proposed in the term in which it was found, or not at
//!   all.
//! * Writes are refused before disk, memory or quota (`raft::capacity`), the log's past (`raft::compaction`) or
//!   connections ([`connections`]) are exhausted, and only while they are short. None of these shortages ends a node.
//! * No secret of an access key is proposed, written or logged in clear. To a node that cannot read a key, the key is
//!   one that no client has signed with.
//! * No content of an encrypted file is either; no list, search or export shows one, and a node that cannot read it
//!   answers its clients with an error.
//! * No client can exhaust shared resources: connections, bodies and large responses in flight ([`budget`]), held
//!   requests with their keys and bytes, incomplete request heads, waiting logins and unauthenticated connections to
//!   the peer port are limited by [`origin`] too, before the client is identified. Work for a client that cannot be
//!   cancelled holds its place after the client has disconnected ([`operations::passwords`]).
//! * A slow or unreachable webhook receiver delays no other receiver, and its queue has at most a thousand events.
//! * Only the end of the process waits for the collector of traces, for three seconds at most.
//! * There is no global state: two nodes live in one test process.
//!
//! # How the gaps of the specification are filled
//!
//! | open in the specification | here |
//! |---|---|
//! | business codes, HTTP status | [`model::code`]; the status is the code's first three digits |
//! | login, token, lifetime | `POST /auth/v1/user/login`; 256 random bits, stored as SHA-256, 7 days |
//! | permissions | grants of six roles to users and service tokens; 401001 without one; invisible objects seem absent |
//! | times | `YYYY-MM-DD HH:MM:SS`, UTC, stamped by the leader with the time of the cluster |
//! | ids and revisions | 32 hex digits drawn from the leader's seed; numbers of config objects from the log index |
//! | publishing of config | the Polaris paths under `/config/v1` |
//! | body of `/notifications/v2` | Apollo's bare array; ids are one counter of visible changes below 2^31 |
//! | hold of the long poll | 55 s, at most 5 % less; answers without a change are at least one second apart |
//! | transitions of releases | the table in [`model::release`] |
//! | discovery of the active rules | `POST /v1/Discover` of the Polaris family; disabled rules are left out |
//! | fields of `routing_config` | those of its policy; a field of another policy is 400103 |
//! | unknown fields | ignored; in rules and releases reported in `warnings`, or 400001 with `?unknown=refuse` |
//! | format of a file without suffix | properties, as Apollo's clients leave the suffix out |
//! | filters by instance | host, port and metadata may each match a different instance of the service |
//! | instances | the Polaris paths under `/naming/v1/instances` and those of self-registration and heartbeats |
//! | health of an instance | by heartbeats, if it enables them; unhealthy after three times its ttl |
//! | names in paths | no new object is named `.` or `..` |
//! | long answers | rules without bodies by `brief=true`, files with contents by `brief=false`; at most 16 MiB |
//! | too many releases | the oldest inactive ones are removed; a list of releases has the highest removed version |

// The futures of handlers nest deeply: held reads within scans within limits.
#![recursion_limit = "256"]

mod address;
pub mod api;
pub mod brief_places;
pub mod budget;
pub mod cli;
pub mod compat;
pub mod compression;
pub mod config;
pub mod connections;
pub mod console;
pub mod controllers;
pub mod data_key;
pub mod descriptors;
pub mod format;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod grpc;
pub mod hosts;
pub mod keyring;
mod log_once;
pub mod logging;
pub mod memory;
pub mod metrics;
pub mod offline;
pub mod openapi;
pub mod operations;
pub mod origin;
pub mod peer;
pub mod proto;
pub mod raft;
pub mod reads;
mod request_id;
mod sentences;
pub mod server;
pub mod sso;
pub mod store;
pub mod subscribers;
pub mod tls;
pub mod traces;
mod uptime;
pub mod watch;
pub mod webhooks;
pub mod xds;

#[cfg(test)]
use thuban_base::test_seed;
pub use thuban_catalog as catalog;
pub use thuban_model as model;
pub use thuban_oidc as oidc;
use thuban_outbound as outbound;
pub use thuban_polaris as polaris;
pub use thuban_tasks as tasks;
pub use thuban_validate::{bundle, contracts, well_formed};
