//! Every limit of the product as a named constant; those that an operator may move are settings in
//! `config` with these as defaults. Lengths count characters, not bytes, unless the name says so.

/// Bytes of a request body on the management surface; beyond it 413000.
pub const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes that a body with contents of config files may have beyond that, for each character that a content may have:
/// any of the basic plane is at most so long, written as it is or as `\uXXXX`. One beyond it (an emoji) is 4 bytes
/// as it is and 12 as a pair of escapes.
pub const BODY_BYTES_PER_CHARACTER: usize = 6;
/// Default of `--snapshot-bytes` and of `--log-bytes-kept`.
pub const LOG_BYTES: u64 = 256 * 1024 * 1024;
/// Default of `--render-cache-bytes`.
pub const RENDER_CACHE_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes from which on an answer is compressed for who accepts it: less is one packet of a network as it is.
pub const COMPRESSED_FROM_BYTES: usize = 1024;
/// Level of zlib for what is compressed once and sent for as long as a release is in force.
pub const COMPRESSION_THOROUGH: u32 = 6;
/// Level of zlib for answers that are soon others.
pub const COMPRESSION_FAST: u32 = 1;
/// Compressed answers to discoveries that are remembered, all together.
pub const COMPRESSED_ANSWERS_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes that each of them counts more than its own.
pub const COMPRESSED_ANSWER_OVERHEAD_BYTES: u64 = 128;
/// Default of `--disk-reserve-bytes`: this share of the filesystem, and at most so many bytes.
pub const DISK_RESERVE_DIVISOR: u64 = 10;
pub const DISK_RESERVE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Default of `--quota-bytes`: this share of the memory limit,
pub const STATE_MEMORY_DIVISOR: u64 = 2;
/// divided by the bytes of memory that a byte of state costs (measured, see docs/operating.md).
pub const MEMORY_PER_STATE_BYTE: u64 = 6;
/// Percent of the memory limit above which memory is short, and below which it is not any more.
pub const MEMORY_SHORT_PERCENT: u64 = 85;
pub const MEMORY_ENOUGH_PERCENT: u64 = 75;
/// This share of the memory limit may be bodies and large answers under way; beyond it 429003.
pub const UNDER_WAY_MEMORY_DIVISOR: usize = 8;
/// This share of it one client may have, and at least so many bytes: the largest answer and the largest body.
pub const UNDER_WAY_ORIGIN_DIVISOR: usize = 4;
pub const UNDER_WAY_PER_ORIGIN_MIN: usize = 16 * 1024 * 1024;
/// This share of the memory limit may be what open streams keep, and this share of it what those of one client do.
pub const STREAMS_MEMORY_DIVISOR: usize = 4;
pub const STREAMS_ORIGIN_DIVISOR: usize = 3;
/// Bytes of a body, and of an answer, that are not counted.
pub const BODY_BYTES_FREE: usize = 4 * 1024;
pub const ANSWER_BYTES_FREE: usize = 64 * 1024;
/// Default of `--connections-per-address`.
pub const CONNECTIONS_PER_ADDRESS: usize = 10_000;

/// Bytes of the request line and headers.
pub const REQUEST_HEAD_BYTES_MAX: usize = 48 * 1024;
/// Bytes of a head that costs nobody anything before it has come whole; what is more is taken from
pub const HEAD_BYTES_FREE: usize = 4 * 1024;
/// the room that all heads share, and those of one address.
pub const HEAD_BYTES_PENDING_MAX: usize = 128 * 1024 * 1024;
pub const HEAD_BYTES_PENDING_PER_ADDRESS: usize = 16 * 1024 * 1024;
/// Items of a write batch; beyond it 400003.
pub const BATCH_ITEMS_MAX: usize = 100;
/// Fields of an item that nothing reads, of which its answer tells.
pub const UNKNOWN_FIELDS_TOLD_MAX: usize = 64;
/// Rows of a page: a larger `limit` is cut down to it.
pub const PAGE_ROWS_MAX: usize = 100;
/// Bytes of a list, of an answer to a discovering client and of one to a batch; beyond it 413002, or less is told.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Releases of one file that are listed for who asks for no page.
pub const VERSIONS_UNPAGED_MAX: usize = 1000;
/// Depth of nesting in a JSON body; beyond it 400001.
pub const JSON_DEPTH_MAX: usize = 64;
/// Seconds for which a node that hears of its removal goes on refusing requests by that reason, before it ends.
pub const REMOVED_SECONDS: u64 = 10;
/// Seconds that a management request may take, whatever it waits for.
pub const REQUEST_TIMEOUT_SECONDS: u64 = 10;
/// Things that a request may walk where it is served; a longer walk is made on a blocking thread.
pub const SCAN_INLINE_MAX: usize = 1000;
/// Long walks at a time on a small machine; a larger one makes as many as it has half its processors.
pub const SCANS_AT_ONCE_MIN: usize = 2;

/// Backups that are taken from one node at a time.
pub const BACKUPS_AT_ONCE: usize = 2;
/// Seconds after which a backup is ended whose reader takes nothing.
pub const BACKUP_STALL_SECONDS: u64 = 60;
/// Seconds after which a backup is ended that has not come to its end: what the node holds back for it grows with what
/// is written meanwhile.
pub const BACKUP_SECONDS_MAX: u64 = 3600;

/// Names of services, groups, rules, releases and config files.
pub const NAME_CHARS_MAX: usize = 128;
/// Names of namespaces.
pub const NAMESPACE_CHARS_MAX: usize = 64;
/// Comments and descriptions.
pub const COMMENT_CHARS_MAX: usize = 1024;
/// Owners, department and the three CMDB fields of a service.
pub const SERVICE_TEXT_CHARS_MAX: usize = 1024;
/// Business of a service or of a config group.
pub const BUSINESS_CHARS_MAX: usize = 128;
/// Ports of a service.
pub const PORTS_CHARS_MAX: usize = 8192;
/// Token of a service.
pub const SERVICE_TOKEN_CHARS_MAX: usize = 2048;
/// Host of an instance.
pub const HOST_CHARS_MAX: usize = 128;
/// Protocol and version of an instance.
pub const PROTOCOL_CHARS_MAX: usize = 32;
/// Logic set, VPC and each part of the location of an instance.
pub const PLACE_CHARS_MAX: usize = 128;
/// Seconds between two heartbeats of an instance that gives none, or none in range,
pub const HEARTBEAT_TTL_SECONDS: u32 = 5;
/// and the longest that one may give.
pub const HEARTBEAT_TTL_SECONDS_MAX: u32 = 60;
/// Times the ttl without a heartbeat before an instance counts as unhealthy.
pub const HEARTBEATS_MISSED_MAX: u32 = 3;
/// Seconds after which a dead instance is removed, at most: a year.
pub const DEAD_INSTANCES_REMOVED_AFTER_S_MAX: u64 = 31_536_000;
/// Identifiers that a caller gives.
pub const ID_CHARS_MAX: usize = 128;
/// Entries of a metadata map, of an export list, of the tags of a config file.
pub const METADATA_ENTRIES_MAX: usize = 64;
/// Keys and values of a metadata map.
pub const METADATA_KEY_CHARS_MAX: usize = 128;
pub const METADATA_VALUE_CHARS_MAX: usize = 4096;

/// Bytes of a regular expression in a rule, and of its compiled form.
pub const REGEX_BYTES_MAX: usize = 4096;
pub const REGEX_COMPILED_BYTES_MAX: usize = 1024 * 1024;
/// Bytes that the compiled expressions of one gray release take together,
pub const AUDIENCE_PROGRAM_BYTES_MAX: usize = 768 * 1024;
/// and what they work with: 1 MiB in all.
pub const AUDIENCE_IDLE_BYTES_MAX: usize = 256 * 1024;
/// Bytes of compiled expressions of conditions on callers, of all rules together.
pub const MATCHERS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Policies,
pub const POLICIES_MAX: usize = 1000;
/// patterns of names and freezes of one,
pub const POLICY_NAMES_MAX: usize = 64;
pub const FREEZES_MAX: usize = 64;
/// freezes that follow each other and are walked to say when none holds any more,
pub const FREEZES_IN_A_ROW_MAX: usize = 64;
/// and approvals that one may ask for.
pub const APPROVALS_MAX: u8 = 5;
/// Steps of a rollout,
pub const ROLLOUT_STEPS_MAX: usize = 20;
/// guards of it,
pub const ROLLOUT_GUARDS_MAX: usize = 10;
/// seconds that a step may hold: 30 days,
pub const ROLLOUT_HOLD_S_MAX: u64 = 30 * 24 * 3600;
/// and characters of a query of Prometheus.
pub const ROLLOUT_QUERY_CHARS_MAX: usize = 2048;
/// Contracts,
pub const CONTRACTS_MAX: usize = 256;
/// bytes of the schema of one, as compact JSON,
pub const CONTRACT_SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// its rules, and bytes of the expression of one.
pub const CONTRACT_RULES_MAX: usize = 64;
pub const CONTRACT_EXPRESSION_BYTES_MAX: usize = 4096;
/// Time of a processor that all contracts of one thing may take together,
pub const CONTRACT_TIME: std::time::Duration = std::time::Duration::from_millis(50);
/// bytes that expressions may make in that time,
pub const CONTRACT_MADE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// and bytes and values of a content that is judged by them.
pub const CONTRACT_CONTENT_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const CONTRACT_VALUES_MAX: usize = 100_000;
/// Bytes of the values that a content is read into: more than one without aliases takes within those limits.
pub const CONTRACT_READ_BYTES_MAX: usize = 40 * 1024 * 1024;
/// Faults that a schema may make of a thing, of which few are told,
pub const CONTRACT_FAULTS_MADE_MAX: usize = 65_536;
/// bytes of a pattern that contracts match with, and
pub const CONTRACT_PATTERN_BYTES_MAX: usize = 4096;
/// time of a processor in which the contracts of one thing are compiled that are not kept compiled.
pub const CONTRACT_COMPILE_TIME: std::time::Duration = std::time::Duration::from_secs(1);
/// Faults of a thing that are told.
pub const CONTRACT_FAULTS_MAX: usize = 16;
/// Requests for approval that wait, and bytes that are kept of them,
pub const REQUESTS_PENDING_MAX: usize = 20_000;
pub const REQUESTS_PENDING_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// those that one person may have waiting, by all of their service tokens,
pub const REQUESTS_OF_ONE_MAX: usize = 2_000;
pub const REQUESTS_OF_ONE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// and those that stay of the ones that have ended: beyond it the oldest go of whoever has most.
pub const REQUESTS_CLOSED_MAX: usize = 10_000;
pub const REQUESTS_CLOSED_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Acts of one set, a request that several share,
pub const REQUEST_SET_ACTS_MAX: usize = 100;
/// and characters of the word that they share.
pub const REQUEST_SET_CHARS_MAX: usize = 64;
/// Characters of the reason of an emergency, at least.
pub const EMERGENCY_CHARS_MIN: usize = 8;
/// Seconds that a request for approval waits, at most: a year.
pub const REQUESTS_EXPIRE_S_MAX: u64 = 31_536_000;
/// Active gray releases of one rule or config file.
pub const ACTIVE_GRAYS_MAX: usize = 16;
/// Clients with what they have that a node remembers, about 400 bytes each.
pub const SUBSCRIPTIONS_MAX: usize = 200_000;
/// Bytes of memory that they may take together.
pub const SUBSCRIPTIONS_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Limits of what is kept of such a client: bytes of its address, number of labels, bytes of a key or a value, and
/// bytes of all of them.
pub const SUBSCRIPTION_ADDRESS_BYTES_MAX: usize = 64;
pub const SUBSCRIPTION_LABELS_MAX: usize = 16;
pub const SUBSCRIPTION_LABEL_BYTES_MAX: usize = 128;
pub const SUBSCRIPTION_LABELS_BYTES_MAX: usize = 512;
/// Bytes that are kept of the reasons for which a client could not apply what it was given.
pub const APPLIED_MESSAGE_BYTES_MAX: usize = 1024;
/// Fields of a form of the console.
pub const FORM_PAIRS_MAX: usize = 1_000;
/// Of these, that an answer of one node to another or to a caller holds.
pub const SUBSCRIPTIONS_TOLD_MAX: usize = 10_000;
/// Clients that one node reports to the leader as numbers, for guards of rollouts: more than a node keeps, so that what
/// is beyond is streams of xDS. A guard is not measured where there are more.
pub const HOLDERS_TOLD_MAX: usize = 2 * SUBSCRIPTIONS_MAX;
/// Clients with lists of instances that one node tells of for the map of services.
pub const LIST_HOLDERS_TOLD_MAX: usize = 20_000;
/// Services on the map of services; the others are left out.
pub const MAP_SERVICES_MAX: usize = 10_000;
/// Bytes that are kept of a client's user agent.
pub const AGENT_BYTES_MAX: usize = 128;
/// Client labels of a gray release.
pub const CLIENT_LABELS_MAX: usize = 64;
/// Releases of one rule or config file that are to be published later.
pub const SCHEDULED_RELEASES_MAX: usize = 10;
/// Milliseconds ahead of which a release may be planned: a year.
pub const SCHEDULED_AHEAD_MS_MAX: u64 = 366 * 24 * 3_600_000;
/// Rows in the history of one rule or config file; beyond that the oldest go.
pub const HISTORY_EVENTS_MAX: usize = 200;

/// Bytes of an archive that is imported, of the texts in it, and how many they are.
pub const IMPORT_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
pub const IMPORT_BYTES_MAX: u64 = 32 * 1024 * 1024;
pub const IMPORT_FILES_MAX: usize = 1000;
/// Config files that are exported or copied at once, and bytes of their contents.
pub const EXPORT_FILES_MAX: usize = 1000;
pub const EXPORT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of a text that are looked at where the request is served; a longer one is, on a blocking thread.
pub const JUDGED_INLINE_BYTES_MAX: usize = 16 * 1024;
/// Times that a publish is tried whose file is changed meanwhile.
pub const PUBLISH_ROUNDS_MAX: usize = 8;
/// Default of `--config-content-max`, characters of one config file.
pub const CONFIG_CONTENT_CHARS_MAX: usize = 1024 * 1024;
/// Templates of config files,
pub const CONFIG_TEMPLATES_MAX: usize = 1000;
/// and characters of the content of one.
pub const CONFIG_TEMPLATE_CHARS_MAX: usize = 65_536;
/// Namespaces that one long poll may watch.
pub const POLL_NAMESPACES_MAX: usize = 200;
/// Milliseconds that a discovery is held at most, as the poll of a config client is by default.
pub const DISCOVER_HOLD_MS_MAX: u64 = 55_000;
/// The longest wait for the clients of an instance that is drained.
pub const DRAIN_WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// Long polls that one node holds at a time.
pub const POLL_WAITERS_MAX: usize = 100_000;

/// Characters of a user name and of a password.
pub const CREDENTIAL_CHARS_MAX: usize = 128;
/// Least characters of a new password.
pub const PASSWORD_CHARS_MIN: usize = 8;
/// Grants of one user or service token.
pub const GRANTS_MAX: usize = 100;
/// Networks that a service token is bound to.
pub const TOKEN_NETWORKS_MAX: usize = 64;
/// Longest life of a service token that has an end: ten years.
pub const SERVICE_TOKEN_SECONDS_MAX: u64 = 10 * 366 * 24 * 3600;
/// Longest time for which a service token that was rotated lets in as well: 30 days.
pub const TOKEN_OVERLAP_SECONDS_MAX: u64 = 30 * 24 * 3600;
/// Users, and service tokens, of a cluster.
pub const ACCOUNTS_MAX: usize = 10_000;
/// Failed logins of one user from one address in a minute before 429002.
pub const LOGIN_FAILURES_PER_MINUTE: u32 = 5;
/// Failed logins of one user from all addresses in a minute before 429002 for addresses from which nobody
/// has logged in as this user for a day.
pub const LOGIN_FAILURES_PER_USER_AND_MINUTE: u32 = 50;
/// Passwords that a node checks a second,
pub const PASSWORD_CHECKS_PER_SECOND: u64 = 20;
/// logins that wait for it, and those of one address among them; more are 429002.
pub const LOGINS_WAITING_MAX: usize = 64;
pub const LOGINS_WAITING_PER_ADDRESS: usize = 16;
/// Bytes of the body of a login; beyond it 413000.
pub const LOGIN_BODY_BYTES_MAX: usize = 4 * 1024;
/// Milliseconds that a login token is valid.
pub const TOKEN_LIFETIME_MS: u64 = 7 * 24 * 3600 * 1000;
/// Live tokens of one user; a further login retires the oldest.
pub const TOKENS_PER_USER_MAX: usize = 1000;

/// Access keys of one app: each costs a request that none of them has signed an HMAC.
pub const ACCESS_KEYS_PER_APP_MAX: usize = 5;
/// Access keys in all; as many apps may have a series of their own in the metrics.
pub const ACCESS_KEYS_MAX: usize = 10_000;
/// Characters of the secret of an access key.
pub const ACCESS_KEY_SECRET_CHARS_MIN: usize = 16;
pub const ACCESS_KEY_SECRET_CHARS_MAX: usize = 128;
/// Milliseconds by which the clock of a client that signs may differ from the cluster's: less than this.
pub const ACCESS_KEY_SKEW_MS: u64 = 60_000;

/// Webhooks of a cluster.
pub const WEBHOOKS_MAX: usize = 20;
/// Characters of the URL of a webhook.
pub const WEBHOOK_URL_CHARS_MAX: usize = 2048;
/// Events that wait for one webhook; beyond that the oldest are dropped.
pub const WEBHOOK_EVENTS_MAX: usize = 1000;
/// Those of them that are refusals of clients, of which one is told for each release, node and second.
pub const WEBHOOK_REFUSALS_MAX: usize = 100;
/// Milliseconds after which an event that cannot be delivered is given up.
pub const WEBHOOK_EVENT_AGE_MS_MAX: u64 = 24 * 3600 * 1000;
/// Instances that one event names, and characters of the comment of a release in it.
pub const WEBHOOK_INSTANCES_MAX: usize = 20;
pub const WEBHOOK_COMMENT_CHARS_MAX: usize = 300;
/// Characters that are kept of why a delivery failed.
pub const WEBHOOK_FAILURE_CHARS_MAX: usize = 200;
/// Milliseconds that one delivery may take, its connection and the head of its answer included.
pub const WEBHOOK_TRY_MS_MAX: u64 = 10_000;
/// Bytes that are read of the body of an answer to a webhook; with a longer one the connection ends.
pub const WEBHOOK_ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Milliseconds of log time for which the state machine remembers a request id: seven times the time for which a
/// node goes on retrying a command.
pub const REQUEST_MEMORY_MS: u64 = 60_000;
/// Request ids that the state machine remembers, unless more than that are younger than [`REQUEST_AGE_MS_MIN`].
pub const REQUEST_MEMORY_MAX: usize = 262_144;
/// Milliseconds of log time for which a request id is remembered however many there are: twice the time for which a
/// node goes on retrying a command.
pub const REQUEST_AGE_MS_MIN: u64 = 16_000;

/// Things named by one command that removes surplus releases.
pub const PRUNED_THINGS_MAX: usize = 100;
/// Releases that one entry of the log removes because newer ones are there.
pub const PRUNED_RELEASES_MAX: usize = 1000;

/// Items in one stored row of the audit trail.
pub const AUDIT_ROW_ITEMS_MAX: usize = 100;
/// Characters of a text in the audit trail; the rest is cut off.
pub const AUDIT_TEXT_CHARS_MAX: usize = 300;
/// Stored rows of the audit trail that one entry of the log removes.
pub const AUDIT_PRUNED_PER_ENTRY_MAX: usize = 128;
/// Stored rows of the audit trail that one request looks at.
pub const AUDIT_WALK_MAX: u64 = 1_000_000;
/// Age of a note of a node at most, in milliseconds: one that could not be written for longer gets this age.
pub const AUDIT_NOTE_LATE_MS_MAX: u32 = 600_000;
/// Notes of one command.
pub const AUDIT_NOTES_MAX: usize = 64;

/// Names that one stream of xDS may subscribe to, and their bytes.
pub const XDS_NAMES_MAX: usize = 10_000;
pub const XDS_NAMES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Names from which on a stream is told of in the log.
pub const XDS_NAMES_MANY: usize = 8_000;
/// Bytes that a stream counts for whatever it asks for: its task, its share of a connection, and so much of its names
/// and labels.
pub const XDS_STREAM_BYTES: usize = 20 * 1024;
/// Bytes of names and labels in it.
pub const XDS_STREAM_NAMES_BYTES: usize = 4 * 1024;
/// Labels of a client of xDS, characters of a key and of a value, and bytes of all; what is more is cut off.
pub const XDS_LABELS_MAX: usize = 64;
pub const XDS_LABEL_KEY_CHARS_MAX: usize = 128;
pub const XDS_LABEL_VALUE_CHARS_MAX: usize = 4096;
pub const XDS_LABELS_BYTES_MAX: usize = 64 * 1024;
/// Namespaces that the metadata of a client of xDS may name.
pub const XDS_NAMESPACES_MAX: usize = 1000;
/// Bytes of a response that a gRPC client takes, and of one that could be made shorter.
pub const XDS_RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const XDS_RESPONSE_BYTES_TARGET: usize = 3 * 1024 * 1024;
/// Bytes of a client's identity that are told to who asks for clients of xDS, and names of its resources.
pub const XDS_NODE_ID_BYTES_TOLD: usize = 256;
pub const XDS_NAMES_TOLD: usize = 10;
/// Bytes of a client's resources that are told in all, and of those in one answer between nodes.
pub const XDS_DUMP_BYTES_MAX: usize = 16 * 1024 * 1024;
pub const XDS_DUMP_PART_BYTES_MAX: usize = 1024 * 1024;
/// Bytes that are kept of the text of a refusal, and that are searched for names.
pub const XDS_REFUSAL_BYTES_MAX: usize = 4 * 1024;
pub const XDS_REFUSAL_BYTES_READ: usize = 64 * 1024;
/// Milliseconds that routes wait at most until a proxy has the clusters that they name.
pub const XDS_ORDER_WAIT_MS: u64 = 5_000;
/// Milliseconds that routes wait at most until a client that comes back has named its clusters, which it does at once.
pub const XDS_NAMES_WAIT_MS: u64 = 500;
/// Places of callers that the names of endpoints of one stream may have: its own, as rules cut it, and a handful.
pub const XDS_PLACES_MAX: usize = 16;
/// Bytes of resources, and of the maps and routes made of them, that a node keeps though no stream has them.
pub const XDS_KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Types that are not served and answered with nothing, once each.
pub const XDS_UNKNOWN_TYPES_MAX: usize = 16;

/// Streams of gRPC that a node has open at a time.
pub const GRPC_STREAMS_MAX: usize = POLL_WAITERS_MAX;
/// Bytes of a request, and of one of an Envoy, which names all that it has.
pub const GRPC_REQUEST_BYTES_MAX: usize = 1024 * 1024;
pub const XDS_REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Names, and versions, in one request of an Envoy. Others have at most as many as a stream may ask for.
pub const XDS_PROXY_ENTRIES_MAX: usize = 100_000;
/// Bytes of the description of a client, and of the reason of a refusal, in one request.
pub const XDS_NODE_BYTES_MAX: usize = GRPC_REQUEST_BYTES_MAX;
pub const XDS_ERROR_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a request to the other services of gRPC, which ask for a name.
pub const GRPC_QUESTION_BYTES_MAX: usize = 64 * 1024;
/// Seconds for a body to come whole, and bytes for which it has a second more.
pub const GRPC_REQUEST_SECONDS: u64 = 10;
pub const GRPC_REQUEST_BYTES_PER_SECOND: usize = 64 * 1024;

/// Bytes of log lines that wait for a reader that does not read, or a disk that is slow.
pub const LOG_QUEUE_BYTES_MAX: usize = 1024 * 1024;
