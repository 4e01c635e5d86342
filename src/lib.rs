//! Thuban: a replicated registry of services and of their governance rules, and a configuration
//! store that unmodified Apollo clients pull and long-poll, in one binary.
//!
//! This page is the map. Every module opens with what it is for and what it must not know.
//!
//! # Layers
//!
//! From the top down; a room names those below it alone.
//!
//! ```text
//! cli, server            command line and start-up: settings to a running node and back down
//! console                pages for people, on the management port; of api it knows how rules are written as JSON
//! grpc                   services of gRPC (8091, 15010): xDS, its status, health, reflection
//! api      compat        the two public surfaces: management (8090), config clients (8890)
//! xds                    resources for proxies and gRPC clients, and the state of their streams
//! reads                  what clients read of what this node has applied: catching up, held reads, discovery, config
//! operations             authorization, checks, one command out of a batch, an outcome for each item
//! config                 flags and environment of `thuban serve`
//! offline                directories of stopped nodes: restore, recover, reset, inspect
//! webhooks               events sent by HTTP to receivers, by the leader
//! controllers            what a node proposes unasked: heartbeats, planned releases, rollouts, levels, audit notes
//! raft                   consensus: Node (propose, read), Lead, state machine
//! peer                   the wire between nodes (8190): handshake, calls, append, snapshots
//! keyring                access keys and encrypted config files, opened and sealed
//! subscribers            register of clients: which release each has, as far as this node served it
//! catalog                all replicated state as plain maps, changed by apply alone
//! watch                  wake-ups of everything that is held open until a change
//! store                  RocksDB: log, rows, snapshots
//! request_id             X-Request-Id
//! connections            listeners: limits for connections, idle time, parked requests
//! openapi                the description of both surfaces: each row of their route tables adds its own
//! bundle                 zip archives of config files, read within limits
//! traces                 spans and their exporter
//! outbound               clients for HTTP to others
//! tls                    certificates of listeners; encryption between nodes
//! data_key               encryption of secrets at rest
//! compression            gzip for clients that accept it, made once for all that are sent the same
//! budget                 bytes of request bodies and large answers under way
//! logging                lines for stdout and stderr: no task waits for them, and none ends because of them
//! metrics                counters and gauges of `/metrics`
//! address                a client's address behind proxies
//! contracts              schemas and expressions that config files and rules have to keep; never called by apply
//! well_formed            syntax checks of JSON, XML, YAML, TOML; never called by apply
//! model                  vocabulary: rules, config files, grants, codes, limits
//! hosts                  host names that a listener answers to
//! log_once               log lines that would repeat
//! descriptors            shares of the process' file descriptors
//! format                 ids, entries, votes; their bytes and levels
//! memory                 memory limit and use of the process
//! brief_places           places that are needed for moments, where one more pushes another one out
//! origin                 the prefix of an address that limits count as one client
//! uptime                 time since the machine started
//! tasks                  tasks and threads, and what the panic of one does
//! proto                  messages and services of gRPC, generated
//! ```
//!
//! [`model`] and [`catalog`] know no I/O, clock, randomness, HTTP or Raft; [`store`] keeps bytes and
//! never imports `model`; [`api`] and [`compat`] know neither each other nor `store`; openraft is
//! named in [`raft`], [`peer`], `store` and [`mod@format`] alone; tonic in [`grpc`] alone. `tests/it/tidy.rs` holds the
//! same list in order and fails on a name that points up.
//!
//! # Paths
//!
//! `docs/internals/paths.md` follows each of them through the rooms, `docs/internals/layers.md` draws them,
//! `docs/internals/glossary.md` has the words, `docs/internals/decisions.md` the reasons.
//!
//! | path | in one sentence |
//! |---|---|
//! | write | a batch is checked, becomes one command, is appended by the leader, applied on every node and answered |
//! | read | the leader confirms its lead with a majority, and the node answers from memory once it has applied as far |
//! | freshness | everything committed up to `as_of` is applied here; readiness and trust compare it with a limit |
//! | xDS stream | resources are made of the catalog once and shared; a stream sends what differs from what it sent |
//! | long poll | a watch on every key comes before the read, so a change in between is kept and not lost |
//! | subscribers | each node keeps a register of the clients it served, and a query returns those of all members |
//! | access key | the secret is sealed before it is proposed, and a pull costs one HMAC |
//! | rule | a draft is published as an immutable release; a discovery selects among those in force by labels |
//! | backup | one view of the rows is streamed, and a restore rekeys it for a new cluster |
//! | heartbeat | the leader keeps heartbeats in memory, and proposes changes of health alone |
//! | config file | the node judges the content, and apply publishes exactly what was judged |
//! | encrypted file | the node seals a content before it is proposed and opens it for who may read it |
//! | document | `thuban apply` compares normal forms, plans, and updates by revision |
//! | permission | apply judges each item by the grants of that moment |
//! | approval | apply judges an act by the policies of its moment: done, refused, or kept as a request or part of one |
//! | rollout | the leader measures guards and proposes steps, and apply takes each once, as rights and policies let |
//! | contract | the node judges a content before it is proposed, within bounds of time and memory |
//! | lost password | an order in the data directory goes through the log |
//! | audit row | the audited items of an entry are one row, in the batch of the change |
//! | console page | a form ends in the same operation as a request of the API |
//! | webhook | apply makes events, and the leader delivers them in order, at least once |
//! | trace | spans wait in a bounded queue and are never waited for |
//! | level | whatever is stored or sent has a level, which the leader raises once every member reads it |
//! | connection | limits, TLS, then requests; between nodes the proof of the cluster secret is bound to it |
//!
//! # Invariants
//!
//! * Apply is a pure function of the log: equal index, equal catalog, equal rows, equal hash.
//! * Rows are the truth, the catalog is the read view: one rebuilt from rows is equal to the one in
//!   memory (a property test holds it).
//! * Nothing is acknowledged before a majority has it on disk and this node can show it. Its rows are
//!   written a moment later; until then it stays in the log, from where it is applied again.
//! * Who serves requests waits for no disk: the catalog's lock is never held across a write, and
//!   consensus, which writes where it stands, has threads of its own (`raft::threads`).
//! * A check against state happens in apply, never in a handler; so does the judgement of who may write.
//! * There is always an enabled administrator of everything. Whoever is disabled or gets another password
//!   is out with that entry of the log, on every node.
//! * Secrets are told once: passwords and tokens are kept as hashes, and no list, log or audit shows one.
//! * Saving a rule or a config file never changes what clients see; releasing it does.
//! * Versions of a rule, of a config file and notification ids never go down and are never used twice, not even
//!   after the file was deleted. A release key never names two contents, not even of two clusters made of one state.
//! * Nothing is proposed, written or sent that a member cannot read.
//! * Nothing crosses between nodes readable.
//! * Of the inactive releases of a rule or a config file the newest stay, as many as the replicated
//!   settings say ([`model::settings`]); an active one never goes.
//! * A content is one row, however many drafts and releases have it, and one text in memory while one of them is a
//!   draft or in force. Of what is in memory, apply looks at drafts alone.
//! * A node id belongs to one data directory. One that lost its directory lost its votes, and may
//!   not come back under its id; and no majority of such nodes founds a cluster (`raft::formation`).
//! * Nodes that were started with different lists found no cluster together (`raft::initial_cluster`), and members that
//!   disagree on who they are do not have the same hash.
//! * Nothing about a start has a deadline: without a majority a node serves what it has for as long as it
//!   takes, and is not ready.
//! * No change of the membership is begun after which the voters that answer could not go on
//!   (`raft::members`).
//! * A node whose state hash is not that of the others stops serving, for good (`raft::consistency_check`).
//! * `enable_leader_restore` stays off: a restarted leader is elected anew (see
//!   `store::tests::power_loss` for what happens otherwise).
//! * Every wait, queue and body has a limit; they are in [`model::limits`], [`config`] and
//!   `peer::limits`.
//! * Stamps never run backwards, but where an administrator sets the time, and never ahead of the time that has passed
//!   by more than a hundredth of it, whatever the wall clock of the leader shows (`raft::clock`).
//! * What cannot be undone is decided by the sure time, which no step of the stamps moves before the members' clocks or
//!   an administrator have confirmed it (`catalog::time`).
//! * A new leader stamps nothing before it has asked who is in reach what time it is; who follows takes the time from
//!   its leader, and an entry that is applied late turns no clock back.
//! * A peer that is away costs a try a second and two lines of log, however long it is away.
//! * A peer is waited for while a byte moves: any entry passes a link of 64 KiB/s. Raft's own calls wait for no other
//!   ones, and a large forward for nobody (`peer::limits`).
//! * The log is not larger than four times what makes a snapshot due and what is kept behind one: a peer that needs
//!   more of it gets a snapshot (`raft::compaction`).
//! * Nobody is declared unhealthy before its whole window has passed under the present leader, and none
//!   of it while that leader was stalled or cut off; a verdict is proposed in the term in which it was
//!   found, or not at all.
//! * What runs short is refused before it is used up, and for as long as it is short only: disk, memory and quota
//!   (`raft::capacity`), the log's past (`raft::compaction`), places for connections ([`connections`]). None of
//!   them ends a node.
//! * No secret of an access key is proposed, written or logged in clear; a node that cannot read a key takes it for one
//!   that nobody has signed with.
//! * Nor is any content of a file that is encrypted; no list, search or export shows one, and a node that cannot read
//!   it answers its clients with an error.
//! * No client can take what all need: connections, bodies and large answers under way ([`budget`]), held requests with
//!   their keys and bytes, heads that have not come whole, logins that wait and strangers at the peer port are counted
//!   by [`origin`] too, before anything is known of who it is. What is begun for a client and cannot be stopped keeps
//!   its place when the client is gone ([`operations::passwords`]).
//! * A receiver that is slow or away delays no other one, and takes no more than its thousand events.
//! * Nobody waits for the collector of traces, but for the end of the process, for three seconds.
//! * There is no global state: two nodes live in one test process.
//!
//! # How the gaps of the specification are filled
//!
//! | open in the specification | here |
//! |---|---|
//! | business codes, HTTP status | [`model::code`]; the status is the code's first three digits |
//! | login, token, lifetime | `POST /auth/v1/user/login`; 256 random bits, kept as SHA-256, 7 days |
//! | permissions | grants of six roles to users and service tokens; not permitted is 401001, not seen is not there |
//! | times | `YYYY-MM-DD HH:MM:SS`, UTC, stamped by the leader with the time of the cluster |
//! | ids and revisions | 32 hex digits drawn from the leader's seed; numbers of config objects from the log index |
//! | publishing of config | the Polaris paths under `/config/v1` |
//! | body of `/notifications/v2` | Apollo's bare array; ids are one counter of visible changes below 2^31 |
//! | hold of the long poll | 55 s, at most 5 % less; no answer without a change comes faster than once a second |
//! | transitions of releases | the table in [`model::release`] |
//! | discovery of the rules in force | `POST /v1/Discover` of the Polaris family; what is switched off is not sent |
//! | fields of `routing_config` | those of its policy; a field of another policy is 400103 |
//! | unknown fields | ignored; in rules and releases reported in `warnings`, or 400001 with `?unknown=refuse` |
//! | format of a file without suffix | properties, as Apollo's clients leave the suffix out |
//! | filters by instance | host, port and metadata may each be true of another instance of the service |
//! | instances | the Polaris paths under `/naming/v1/instances` and those of self-registration and heartbeats |
//! | health of an instance | by heartbeats, where it asks for that; unhealthy after three times its ttl |
//! | names in paths | nothing new is called `.` or `..` |
//! | long answers | rules without bodies by `brief=true`, files with contents by `brief=false`; at most 16 MiB |
//! | releases that are too many | the oldest inactive ones go; lists of one thing's releases say up to which version |

mod address;
pub mod api;
pub mod brief_places;
pub mod budget;
pub mod bundle;
pub mod catalog;
pub mod cli;
pub mod compat;
pub mod compression;
pub mod config;
pub mod connections;
pub mod console;
pub mod contracts;
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
pub mod model;
pub mod offline;
pub mod openapi;
pub mod operations;
pub mod origin;
mod outbound;
pub mod peer;
pub mod proto;
pub mod raft;
pub mod reads;
mod request_id;
pub mod server;
pub mod store;
pub mod subscribers;
pub mod tasks;
#[cfg(test)]
mod test_seed;
pub mod tls;
pub mod traces;
mod uptime;
pub mod watch;
pub mod webhooks;
pub mod well_formed;
pub mod xds;
