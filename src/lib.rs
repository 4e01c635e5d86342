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
//! api      compat        the two public surfaces: management (8090), config clients (8890)
//! view                   reads of config clients, from what this node has applied
//! operations             authorization, checks, one command out of a batch, an outcome for each item
//! config                 flags and environment of `thuban serve`
//! offline                directories of stopped nodes: restore, recover, reset, inspect
//! webhooks               events sent by HTTP to receivers, by the leader
//! raft                   consensus: Node (propose, read), state machine, background tasks
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
//! tls                    certificates of listeners; encryption between nodes
//! data_key               encryption of secrets at rest
//! budget                 bytes of request bodies and large answers under way
//! metrics                counters and gauges of `/metrics`
//! address                a client's address behind proxies
//! well_formed            syntax checks of JSON, XML, YAML, TOML; never called by apply
//! model                  vocabulary: rules, config files, grants, codes, limits
//! hosts                  host names that a listener answers to
//! descriptors            shares of the process' file descriptors
//! format                 ids, entries, votes; their bytes and levels
//! memory                 memory limit and use of the process
//! origin                 the prefix of an address that limits count as one client
//! uptime                 time since the machine started
//! ```
//!
//! [`model`] and [`catalog`] know no I/O, clock, randomness, HTTP or Raft; [`store`] keeps bytes and
//! never imports `model`; [`api`] and [`compat`] know neither each other nor `store`; openraft is
//! named in [`raft`], [`peer`], `store` and [`mod@format`] alone. `tests/it/tidy.rs` holds the same
//! list in order and fails on a name that points up.
//!
//! # The path of a write
//!
//! `POST /naming/v1/services` on any node: [`api::track`] gives it an id and a time; the guard of its route
//! (`api::layers`) has the token looked up (one place, [`operations::caller`]); `api::extract::Batch` parses each item on
//! its own, and [`operations`] checks it as far as that is possible without state. What is acceptable becomes ONE
//! [`catalog::Command`] (`operations::write`) and goes to [`raft::node::Node::propose`]. The leader stamps time and seed
//! on it and appends it, with what else came during a round trip (`raft::batching`), and only while a
//! majority has acknowledged it lately (`raft::lease`); another node sends it to the leader, one hop.
//! Appends are grouped under one fsync (`store::flush`) while they travel to the followers. Once a majority
//! has it on disk, which the followers are told with the entries that come next, or at once where none do
//! (`peer::append`), every node notes how far that is (`store::commit_marker`), and its [`raft::machine`] applies it:
//! the catalog, locked for that moment, returns outcomes, changed rows and changes; then readers, the waiting request
//! and watchers are told, in that order. So the node that took a write answers after it has applied it itself, whoever leads, and a reply
//! never crosses the wire. The rows follow, those of many entries in one batch with the applied index, the
//! membership and the state hash that they are true for (`store::rows`); what a crash takes of them is
//! applied again from the log, and who reads rows has the waiting ones written first.
//!
//! A command carries a request id that the catalog remembers for a minute: after a lost leader the
//! node sends the same command again, and it is applied once.
//!
//! # The path of a read
//!
//! Management reads are linearizable on any node: the leader confirms with a majority that it leads
//! (ReadIndex, no clock is trusted), the node waits until it has applied as far, and answers from
//! memory. Readers that come while a question is on its way share the next one. With
//! `?consistency=local` the node answers from what it has. A look-up reads the catalog where it stands;
//! a walk over many things goes over a view of it on a blocking thread ([`operations::scan`]), when it is its
//! caller's turn (`operations::turns`): the catalog's maps are persistent ones, so a view is made in no time and keeps
//! nobody waiting. A walk whose client has gone stops. Lists search texts that lie side by side (`catalog::list_index`) and
//! touch the things of their page alone; a page by key begins in the sorted map behind the row that the one before
//! ended with ([`catalog::page`]). What is shown of a row is made as it is written, up to a bound of the whole answer
//! (`api::bounded`). Config clients always read the node's own state; what keeps them from stepping back are the ids
//! they bring along.
//!
//! # How fresh a node is
//!
//! One measure (`raft::freshness`): `as_of`, the latest moment of which a node knows that everything committed by then is
//! applied here. It moves with each append of the leader, an empty one too, whose committed index is applied. Readiness,
//! the trust in tokens, the age that `/admin/v1/cluster` and `/metrics` tell, and whether a client may know what this
//! node does not, are comparisons of that moment with a limit. Who leads is decided by silence (`raft::election`), for
//! which any byte of an append counts, against a time-out that follows the round trip to the peers; what the members say
//! of themselves is asked in one round for all who want to know (`raft::poll`).
//!
//! # The path of a long poll
//!
//! [`compat`] registers a [`watch::Watch`] on every key the answer can depend on (custom cluster,
//! data centre, default), THEN reads, then waits: a publish in between is a kept permit, not a lost
//! wake-up. Apply wakes the keys it changed; an installed snapshot and a shutdown wake all. Woken, the
//! poll reads again and answers only what is newer than what its client holds. One that has to wait answers with a
//! promise ([`connections::later`]): layers and protocol are done with it, of its connection there is the stream
//! alone, the answer is written as it is, and HTTP begins anew with the next request.
//!
//! A discovery (`POST /v1/Discover`) is held in the same way: it watches the services and rules that
//! its answer can depend on, compares revisions, and is parked alike.
//!
//! Whatever is held watches the credential too that it was let in by: one look every 400 ms (`raft::vigil`) serves all
//! held requests, and wakes those whose token has ended or may see something else.
//!
//! # The path of "who has what"
//!
//! Every pull, and every discovery of rules, writes down on its node what its client was given ([`subscribers`], a
//! bounded register in memory, of which one [`origin`] has a quarter); a poll says that the client is still there. Who
//! asks has every member asked (`raft::subscribers`), each of which judges its own clients by what its catalog says
//! that they should have; of very many a node tells some and marks the rest, so that each client counts once, where it
//! was heard of last.
//!
//! # The path of an access key
//!
//! The clients of an app may sign what they ask for ([`model::signature`]) with a secret that they share with
//! the cluster. [`operations::accounts`] takes or makes the secret and shows it in that one answer; the [`keyring`]
//! seals it under the data key of the nodes ([`data_key`]) before it is proposed, so that log, rows, snapshots and
//! backups hold nothing in clear. `compat::auth` judges a request by the keys of the very app whose files are
//! then looked up; what is made of a secret is kept beside its row, and a pull costs one HMAC. A held poll is
//! judged again before it is told anything.
//!
//! # The path of a rule to its clients
//!
//! A rule is a head that all rules have and a body of its family ([`model::rule`]: one table of
//! families, one trait for what a family says of itself). Saving it changes a draft. Publishing makes
//! a copy, a release; what may become of it is the table in [`model::release`], and how that comes about
//! `catalog::releases`, for rules and config files alike; what came about is in [`catalog::history`]. What is to be
//! published later waits as a release that is planned: the leader looks for those whose time has come
//! (`raft::schedule`), and apply publishes each once. `catalog::active` keeps the releases in force by the services that they are about; a
//! discovery chooses among them by the client's labels, and [`model::explain`] says which of them
//! would apply to a request. A further family is a type with its `Shape`, a row in the table of
//! families, and an arm where only the family itself can answer (explaining it).
//!
//! # The path of a backup
//!
//! `GET /admin/v1/backup` on any node: once the node has applied all that was acknowledged before, a
//! thread walks one RocksDB view and hands the layout of a snapshot to the answer, piece by piece
//! (`raft::backup`); nothing is written on the node, and writes go on. `thuban restore` makes it into a new cluster
//! ([`offline`]), once, on one node: what is drawn for that cluster is in the file that is left there, and a directory of
//! each of its nodes is made from that file. The state goes through [`catalog::rekey`] on the way: sessions and nodes
//! are left behind, versions and the log index go up, and release keys and notification ids are those of this cluster
//! alone, also where another one is made of the same backup. `thuban recover` goes the same way from the directory of
//! the node that is left. What clients name that no node of their cluster knows (`raft::read_barrier`) is as if it were not
//! named.
//!
//! # The path of a heartbeat
//!
//! `POST /v1/Heartbeat` on any node, of one instance or of each of a batch: the node gathers what its clients send
//! for 30 ms and hands it to the leader in one call; the client is answered when the leader has it. There it stays
//! in memory (`raft::heartbeats`) and never reaches the log. Twice a second the leader looks at those who might have been
//! silent for three times their ttl by now, each of whom has a place on an agenda; only who became unhealthy, or has
//! beaten again, is proposed, many in one command. Where very many change at once, as a zone dies or comes back,
//! the rest of them is waited for, six seconds at most, and they are one entry. Who stays away for as long as it
//! says itself, or its service, or the settings, is removed by one as well. From there on it is a write like any
//! other, and wakes those who watch the service; one so large is applied beside what readers see.
//!
//! # The path of a config file to its clients
//!
//! Saving a file changes a draft; publishing makes a copy of it. The node that takes a publish judges the content by
//! its format ([`well_formed`]), for what is in the request as for a draft that it reads, and proposes what it
//! found together with what it looked at: apply publishes that very content and format, or answers that it has changed
//! (409000), and the node looks again. So no parser of others decides what the state becomes.
//!
//! What clients read is rendered for the first who asks for that form of it (`compat::renderings`), and kept within
//! a bound for all files, beside the catalog. A release that is in force no more leaves its content to the row alone
//! (`catalog::contents`), which is read for who looks at it (`raft::contents`); one that comes into force again has it
//! read when its entry is applied, before anybody is told.
//!
//! # The path of an encrypted file
//!
//! A file may be kept encrypted ([`model::sealing`]). The node that takes a draft looks, in a state that no node is
//! ahead of, whether it is, and has the [`keyring`] seal the content before it is proposed ([`operations::sealing`]): a sealed
//! content is a content like any other to everything below. Equal ones of a file are sealed alike ([`data_key`]), so apply
//! can tell that nothing has changed; and apply refuses what was made for another state of the file, clear or
//! sealed (409000). A publish is judged by what the content says, on the node. It is opened again where a client pulls
//! it ([`compat`]), where what it says is not kept from an earlier pull, and where one file is read by who may edit it. A node may have two
//! data keys while one takes the place of the other: what the earlier one sealed is sealed again by ordinary updates
//! (`operations::resealing`), but for releases, which never change.
//!
//! # The path of a document
//!
//! `thuban apply` reads a tree of documents (`cli::documents`; `cli::kinds` is the table of kinds), and brings each, and what
//! the cluster has of it, into one form with all defaults by what judges bodies on a node (`cli::normal`). What differs
//! is a plan (`cli::plan`, which asks nobody), told first and then carried out in the order in which kinds need each
//! other. An update names the revision that was compared, so nobody's change is written over.
//!
//! # The path of a permission
//!
//! A caller is what its token, or its certificate, stands for: a user or a service token, with grants
//! ([`model::grant`]: a role on a scope, and a role is a set of verbs). [`operations::caller`] looks that up once a
//! request, and believes no token while the node has not been as fresh as `--token-trust-ms` asks for. A write
//! goes on as [`catalog::authorization::AuthorizedCommand`]: the command, and who asked for it. Apply judges each item by the
//! grants of that moment, where its ids and names are resolved; what the caller does not see is as if it
//! were missing. What nobody asked for is the cluster's own and is not judged. Reads carry a
//! [`model::grant::ReadScope`] into the catalog, which leaves out what it does not show: lists, counts,
//! details, releases, explain and discovery. What belongs to the cluster as a whole (members, settings,
//! users, backups) is a verb in the row of its route.
//!
//! # The path of a lost password
//!
//! `thuban reset-password` on a stopped node changes no row: what one node has by itself would make its state
//! differ. It leaves an order with the hash in the directory (`store::order`), and the node, once it has a
//! leader, proposes it as the cluster's own (`raft::password_reset`). The order names the hash that it replaces, so it
//! takes effect once and undoes nothing.
//!
//! # The path of an audit row
//!
//! A request's command carries who asked (`catalog::authorization`); each item that apply judged is a deed, and the deeds
//! of an entry are one stored row ([`catalog::audit`]), in the batch of the change itself. What is no command, a
//! failed login say, waits as a note on its node (`raft::audit_buffer`) and is proposed with others, once a second at
//! most. Of the rows memory holds only how many items each has, so that apply can prune; a list walks them in the
//! store, newest first, on a blocking thread (`raft::audit_reader`).
//!
//! # The path of a page
//!
//! A browser shows a cookie of the console's own; [`console`] makes a caller of it ([`operations::caller`]), and who has
//! none is asked to sign in. A page reads the catalog within what its caller may read, as a list of the API does; a form carries
//! a token that only its page knew and ends in the same operation as a request of the API: checked, judged and audited
//! there. So a button may be shown in vain, but nothing is done that the caller may not do. What the form of a rule or of
//! a smaller thing asks for comes from the schema that its route is described with (`console::sheet`), so that nothing
//! can be said to one of them and not to the other.
//!
//! # The path of a webhook
//!
//! Somebody who may manage the cluster says whom to tell of what (`operations::webhooks`); the secret that it is signed with
//! is sealed as those of access keys are. Apply collects what became of releases, and whose health changed
//! (`catalog::change::Journal`), and at the end of the entry makes an event of it for the webhooks that want it
//! ([`catalog::webhooks`]): a row while one of them waits, and of those that wait for one the newest thousand. So an
//! event is there exactly if the write is, on every node, and nothing is kept where nobody is told. The leader's
//! [`webhooks`] has a task for each, which posts what waits in its order, one at a time, until it is taken; how far each
//! came is one entry for all, once a second at most. The leader that comes next goes on behind that: some events are told
//! twice, under ids that go up, and none is left out. A URL is the choice of a user: its name is resolved here, the
//! addresses are judged ([`model::remote`]), and the connection goes to one of those and nowhere else. A cluster that
//! is restored from a backup has its webhooks switched off, as the first one may still be there.
//!
//! # The path of a trace
//!
//! With `--otlp-endpoint` a request is a span, which [`api::track`] begins; its id is the id of the trace, unless the caller
//! names a trace, whose id then is that of the request. What it waits for are spans in it: the proposal, the leader's part
//! in it, the read index. The leader knows of which trace the draft of another node is by the id of the HTTP request
//! that apply writes into the audit trail ([`catalog::authorization`]), and of which span by the id of the draft itself
//! (`traces::span_id`): so the formats know nothing of traces. Ended spans wait in a bounded queue for one task
//! (`traces::shipping`) that posts them; where there is no room, they are counted and forgotten. Whom it trusts there, and
//! what token it shows, it reads from files (`traces::collector`), again and again.
//!
//! # The path of a level
//!
//! Everything stored or sent belongs to a level ([`format::level`]). Every handshake between nodes says what
//! each binary reads; the leader raises the cluster's level by an entry of the log when every member, on an
//! open connection, reads the next one (`raft::levels`). A command says its level
//! ([`catalog::Command::level`]); it is refused (503003) where the request comes in and again on the leader,
//! which reads every draft before it appends it, while the cluster is below. What apply means depends on
//! the level in force at that index and on nothing else. A data directory is marked before the first thing of
//! a level is written to it (`store::identity`), so that a binary which cannot read it refuses at the door.
//!
//! # The path of a connection
//!
//! To a surface: a place ([`connections`]), a TLS handshake if there are certificates ([`tls::Listening`], which
//! follows its files), then requests; who showed a certificate is in each of them
//! ([`connections::PeerCertificate`]), until it expires or the authorities of the files do not vouch for it any more.
//!
//! Between nodes: TLS 1.3 with a certificate of this start that nobody verifies ([`tls::Ephemeral`]), and
//! within it the mutual proof of the cluster secret, over a value that only the two ends of that connection
//! know (`peer::handshake`): a relay that ends TLS cannot pass the proof on. A node takes two secrets and shows
//! one, so they are exchanged node by node. A node from before TLS is spoken to without it while the cluster's
//! level is one that such a node can read; two nodes that speak TLS never meet without.
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
//! * Nothing is proposed, written or sent that a member cannot read; below a level, rows and hashes are what
//!   the version before would have made.
//! * Nothing crosses between nodes readable, but with a node from before TLS, below level 3.
//! * Of the inactive releases of a rule or a config file the newest stay, as many as the replicated
//!   settings say ([`model::settings`]); an active one never goes.
//! * A content is one row, however many drafts and releases have it, and one text in memory while one of them is a draft
//!   or in force. Of what is in memory, apply looks at drafts alone.
//! * A node id belongs to one data directory. One that lost its directory lost its votes, and may
//!   not come back under its id; and no majority of such nodes founds a cluster (`raft::formation`).
//! * Nodes that were started with different lists found no cluster together (`raft::lists`), and members that
//!   disagree on who they are do not have the same hash.
//! * Nothing about a start has a deadline: without a majority a node serves what it has for as long as it
//!   takes, and is not ready.
//! * No change of the membership is begun after which the voters that answer could not go on
//!   (`raft::members`).
//! * A node whose state hash is not that of the others stops serving, for good (`raft::consistency_check`).
//! * `enable_leader_restore` stays off: a restarted leader is elected anew (see
//!   `store::power_loss_test` for what happens otherwise).
//! * Every wait, queue and body has a limit; they are in [`model::limits`], [`config`] and
//!   `peer::limits`.
//! * Stamps never run backwards, and never ahead of the time that has passed by more than a hundredth of
//!   it, whatever the wall clock of the leader shows (`raft::clock`).
//! * A new leader stamps nothing before it has asked who is in reach what time it is; who follows takes the time from its
//!   leader, and an entry that is applied late turns no clock back.
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
//! | who may do what | users and service tokens with grants of six roles; not permitted is 401001, not seen is not there |
//! | times | `YYYY-MM-DD HH:MM:SS`, UTC, stamped by the leader with the time of the cluster |
//! | ids and revisions | 32 hex digits drawn from the leader's seed; numbers of config objects from the log index |
//! | publishing of config | the Polaris paths under `/config/v1` |
//! | body of `/notifications/v2` | Apollo's bare array; ids are one counter of visible changes below 2^31 |
//! | hold of the long poll | 55 s, at most 5 % less; no answer without a change comes faster than once a second |
//! | transitions of releases | the table in [`model::release`] |
//! | discovery of the rules in force | `POST /v1/Discover` of the Polaris family; what is switched off is not sent |
//! | fields of `routing_config` | those of its policy; a field of another policy is 400103 |
//! | fields that nothing reads | ignored; of rules and releases told of in `warnings`, or 400001 with `?unknown=refuse` |
//! | format of a file without suffix | properties, as Apollo's clients leave the suffix out |
//! | filters by instance | host, port and metadata may each be true of another instance of the service |
//! | instances | the Polaris paths under `/naming/v1/instances`, and `/v1/RegisterInstance`, `/v1/DeregisterInstance`, `/v1/Heartbeat` |
//! | health of an instance | by heartbeats, where it asks for that; unhealthy after three times its ttl |
//! | names in paths | nothing new is called `.` or `..` |
//! | lists and what was released | rules are listed whole, unless `brief=true`; releases without what they are of and config files without their contents, unless `brief=false`; an answer with rows has 16 MiB at most |
//! | releases that are too many | the oldest inactive ones go; lists of one thing's releases say up to which version |

mod address;
pub mod api;
pub mod budget;
pub mod bundle;
pub mod catalog;
pub mod cli;
pub mod compat;
pub mod config;
pub mod connections;
pub mod console;
pub mod data_key;
pub mod descriptors;
pub mod format;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod hosts;
pub mod keyring;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod offline;
pub mod openapi;
pub mod operations;
pub mod origin;
pub mod peer;
pub mod raft;
mod request_id;
pub mod server;
pub mod store;
pub mod subscribers;
pub mod tls;
pub mod traces;
mod uptime;
pub mod view;
pub mod watch;
pub mod webhooks;
pub mod well_formed;
