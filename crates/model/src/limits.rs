//! All limits as named constants. Those that an operator can change are defaults of settings in `config`. Lengths are
//! in characters unless the name names another unit.

/// Bytes of a request body on the management surface; a larger one is refused with 413000.
pub const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Additional bytes of a body with contents of config files, per character that a content may have: enough for any
/// character of the basic plane, directly or as `\uXXXX`. A character beyond it (an emoji) has 4 bytes directly and 12
/// as a pair of escapes.
pub const BODY_BYTES_PER_CHARACTER: usize = 6;
/// Default of `--snapshot-bytes` and of `--log-bytes-kept`.
pub const LOG_BYTES: u64 = 256 * 1024 * 1024;
/// Default of `--render-cache-bytes`.
pub const RENDER_CACHE_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes from which an answer is compressed for clients that accept it: a smaller one fits into one packet.
pub const COMPRESSED_FROM_BYTES: usize = 1024;
/// Compression level of zlib for answers that are compressed once and sent while a release is in force.
pub const COMPRESSION_THOROUGH: u32 = 6;
/// Compression level of zlib for short-lived answers.
pub const COMPRESSION_FAST: u32 = 1;
/// Bytes of all cached compressed answers to discoveries.
pub const COMPRESSED_ANSWERS_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes that each of them counts in addition to its own.
pub const COMPRESSED_ANSWER_OVERHEAD_BYTES: u64 = 128;
/// Default of `--disk-reserve-bytes`: this share of the filesystem, up to the number of bytes below.
pub const DISK_RESERVE_DIVISOR: u64 = 10;
pub const DISK_RESERVE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Default of `--quota-bytes`: this share of the memory limit, divided by the number below.
pub const STATE_MEMORY_DIVISOR: u64 = 2;
/// Bytes of memory per byte of state (measured, see docs/capacity.md).
pub const MEMORY_PER_STATE_BYTE: u64 = 6;
/// Percentages of the memory limit at which memory becomes short, and below which it is sufficient again.
pub const MEMORY_SHORT_PERCENT: u64 = 85;
pub const MEMORY_ENOUGH_PERCENT: u64 = 75;
/// Share of the memory limit for request bodies and large answers in progress; beyond it 429003.
pub const UNDER_WAY_MEMORY_DIVISOR: usize = 8;
/// Share of that for one client, but at least the bytes below: the largest answer and the largest body.
pub const UNDER_WAY_ORIGIN_DIVISOR: usize = 4;
pub const UNDER_WAY_PER_ORIGIN_MIN: usize = 16 * 1024 * 1024;
/// Share of the memory limit for the state of open streams; below, the share of that for one client.
pub const STREAMS_MEMORY_DIVISOR: usize = 4;
pub const STREAMS_ORIGIN_DIVISOR: usize = 3;
/// Bytes of a body that are not counted; below, of an answer.
pub const BODY_BYTES_FREE: usize = 4 * 1024;
pub const ANSWER_BYTES_FREE: usize = 64 * 1024;
/// Default of `--connections-per-address`.
pub const CONNECTIONS_PER_ADDRESS: usize = 10_000;

/// Bytes of the request line and headers.
pub const REQUEST_HEAD_BYTES_MAX: usize = 48 * 1024;
/// Bytes of an incomplete head that are not counted.
pub const HEAD_BYTES_FREE: usize = 4 * 1024;
/// Bytes of all incomplete heads beyond that; below, of those from one address.
pub const HEAD_BYTES_PENDING_MAX: usize = 128 * 1024 * 1024;
pub const HEAD_BYTES_PENDING_PER_ADDRESS: usize = 16 * 1024 * 1024;
/// Items of a write batch; beyond it 400003.
pub const BATCH_ITEMS_MAX: usize = 100;
/// Unknown fields of an item that its answer names.
pub const UNKNOWN_FIELDS_TOLD_MAX: usize = 64;
/// Rows of a page; a larger `limit` is reduced to it.
pub const PAGE_ROWS_MAX: usize = 100;
/// Bytes of a list, of an answer to a discovery, and of an answer to a batch; beyond it 413002 or a shorter answer.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Releases of one file in a list without paging.
pub const VERSIONS_UNPAGED_MAX: usize = 1000;
/// Depth of nesting in a JSON body; beyond it 400001.
pub const JSON_DEPTH_MAX: usize = 64;
/// Seconds during which a node that learns of its removal refuses requests with that reason before it ends.
pub const REMOVED_SECONDS: u64 = 10;
/// Seconds after which a management request is answered, whatever it waits for.
pub const REQUEST_TIMEOUT_SECONDS: u64 = 10;
/// Objects that a request may scan in place; a longer scan runs on a blocking thread.
pub const SCAN_INLINE_MAX: usize = 1000;
/// Smallest number of concurrent long scans; a larger machine runs half as many as it has processors.
pub const SCANS_AT_ONCE_MIN: usize = 2;

/// Concurrent backups of one node.
pub const BACKUPS_AT_ONCE: usize = 2;
/// Seconds after which a backup is aborted if its reader accepts no data.
pub const BACKUP_STALL_SECONDS: u64 = 60;
/// Seconds after which a backup is aborted if it is incomplete: the data that the node retains for it grows with every
/// write.
pub const BACKUP_SECONDS_MAX: u64 = 3600;

/// Characters of names of services, groups, rules, releases and config files.
pub const NAME_CHARS_MAX: usize = 128;
/// Characters of names of namespaces.
pub const NAMESPACE_CHARS_MAX: usize = 64;
/// Characters of comments and descriptions.
pub const COMMENT_CHARS_MAX: usize = 1024;
/// Characters of owners, department and the three CMDB fields of a service.
pub const SERVICE_TEXT_CHARS_MAX: usize = 1024;
/// Characters of the business of a service or config group.
pub const BUSINESS_CHARS_MAX: usize = 128;
/// Characters of the ports of a service.
pub const PORTS_CHARS_MAX: usize = 8192;
/// Characters of the token of a service.
pub const SERVICE_TOKEN_CHARS_MAX: usize = 2048;
/// Characters of the host of an instance.
pub const HOST_CHARS_MAX: usize = 128;
/// Characters of protocol and version of an instance.
pub const PROTOCOL_CHARS_MAX: usize = 32;
/// Characters of logic set, VPC and each part of the location of an instance.
pub const PLACE_CHARS_MAX: usize = 128;
/// Default heartbeat interval of an instance, in seconds; also replaces one that is out of range.
pub const HEARTBEAT_TTL_SECONDS: u32 = 5;
/// Longest heartbeat interval, in seconds.
pub const HEARTBEAT_TTL_SECONDS_MAX: u32 = 60;
/// Heartbeat intervals without a heartbeat after which an instance is unhealthy.
pub const HEARTBEATS_MISSED_MAX: u32 = 3;
/// Longest delay before a dead instance is removed, in seconds: a year.
pub const DEAD_INSTANCES_REMOVED_AFTER_S_MAX: u64 = 31_536_000;
/// Characters of an identifier that a caller gives.
pub const ID_CHARS_MAX: usize = 128;
/// Entries of a metadata map, of an export list and of the tags of a config file.
pub const METADATA_ENTRIES_MAX: usize = 64;
/// Characters of a key of a metadata map; below, of a value.
pub const METADATA_KEY_CHARS_MAX: usize = 128;
pub const METADATA_VALUE_CHARS_MAX: usize = 4096;

/// Bytes of a regular expression in a rule; below, of its compiled form.
pub const REGEX_BYTES_MAX: usize = 4096;
pub const REGEX_COMPILED_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of the compiled expressions of one gray release.
pub const AUDIENCE_PROGRAM_BYTES_MAX: usize = 768 * 1024;
/// Bytes of the working memory of the expressions of one gray release.
pub const AUDIENCE_IDLE_BYTES_MAX: usize = 256 * 1024;
/// Bytes of the compiled expressions in conditions on callers, over all rules.
pub const MATCHERS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Policies of a cluster.
pub const POLICIES_MAX: usize = 1000;
/// Patterns of names in a policy; below, its freezes.
pub const POLICY_NAMES_MAX: usize = 64;
pub const FREEZES_MAX: usize = 64;
/// Consecutive freezes that are followed to find the end of the last one.
pub const FREEZES_IN_A_ROW_MAX: usize = 64;
/// Approvals that a policy may require.
pub const APPROVALS_MAX: u8 = 5;
/// Steps of a rollout.
pub const ROLLOUT_STEPS_MAX: usize = 20;
/// Guards of a rollout.
pub const ROLLOUT_GUARDS_MAX: usize = 10;
/// Longest duration of a rollout step, in seconds: 30 days.
pub const ROLLOUT_HOLD_S_MAX: u64 = 30 * 24 * 3600;
/// Characters of a Prometheus query.
pub const ROLLOUT_QUERY_CHARS_MAX: usize = 2048;
/// Contracts of a cluster.
pub const CONTRACTS_MAX: usize = 256;
/// Bytes of a contract's schema, as compact JSON.
pub const CONTRACT_SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Rules of a contract; below, bytes of an expression.
pub const CONTRACT_RULES_MAX: usize = 64;
pub const CONTRACT_EXPRESSION_BYTES_MAX: usize = 4096;
/// Processor time that all contracts of one object may take.
pub const CONTRACT_TIME: std::time::Duration = std::time::Duration::from_millis(50);
/// Bytes that expressions may create in that time.
pub const CONTRACT_MADE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of a content that contracts check; below, its values.
pub const CONTRACT_CONTENT_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const CONTRACT_VALUES_MAX: usize = 100_000;
/// Bytes of the parsed values of a content; more than any content without aliases takes within the limits above.
pub const CONTRACT_READ_BYTES_MAX: usize = 40 * 1024 * 1024;
/// Faults that a schema may produce for one object, most of which are not reported.
pub const CONTRACT_FAULTS_MADE_MAX: usize = 65_536;
/// Bytes of a pattern in a contract.
pub const CONTRACT_PATTERN_BYTES_MAX: usize = 4096;
/// Processor time for compiling those contracts of one object that are not cached.
pub const CONTRACT_COMPILE_TIME: std::time::Duration = std::time::Duration::from_secs(1);
/// Faults of one object that are reported.
pub const CONTRACT_FAULTS_MAX: usize = 16;
/// Pending requests for approval; below, their bytes.
pub const REQUESTS_PENDING_MAX: usize = 20_000;
pub const REQUESTS_PENDING_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Pending requests of one person, over all their service tokens; below, their bytes.
pub const REQUESTS_OF_ONE_MAX: usize = 2_000;
pub const REQUESTS_OF_ONE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Closed requests that are retained; below, their bytes. Beyond it the oldest ones of the person with the most are
/// removed.
pub const REQUESTS_CLOSED_MAX: usize = 10_000;
pub const REQUESTS_CLOSED_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Acts in one set of requests.
pub const REQUEST_SET_ACTS_MAX: usize = 100;
/// Characters of the name of a set.
pub const REQUEST_SET_CHARS_MAX: usize = 64;
/// Smallest number of characters in the reason of an emergency.
pub const EMERGENCY_CHARS_MIN: usize = 8;
/// Longest time that a request for approval waits, in seconds: a year.
pub const REQUESTS_EXPIRE_S_MAX: u64 = 31_536_000;
/// Active gray releases of one rule or config file.
pub const ACTIVE_GRAYS_MAX: usize = 16;
/// Clients that a node remembers with their releases, about 400 bytes each.
pub const SUBSCRIPTIONS_MAX: usize = 200_000;
/// Bytes of memory of all of them.
pub const SUBSCRIPTIONS_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Limits of the data stored per client: bytes of the address, number of labels, bytes of a key or value, bytes of all
/// labels.
pub const SUBSCRIPTION_ADDRESS_BYTES_MAX: usize = 64;
pub const SUBSCRIPTION_LABELS_MAX: usize = 16;
pub const SUBSCRIPTION_LABEL_BYTES_MAX: usize = 128;
pub const SUBSCRIPTION_LABELS_BYTES_MAX: usize = 512;
/// Bytes of the stored reason why a client could not apply a release.
pub const APPLIED_MESSAGE_BYTES_MAX: usize = 1024;
/// Fields of a form of the console.
pub const FORM_PAIRS_MAX: usize = 1_000;
/// Clients in one answer to another node or to a caller.
pub const SUBSCRIPTIONS_TOLD_MAX: usize = 10_000;
/// Clients that one node reports to the leader as numbers, for guards of rollouts: more than a node remembers, so that
/// the rest can be streams of xDS. A guard is not evaluated if there are more.
pub const HOLDERS_TOLD_MAX: usize = 2 * SUBSCRIPTIONS_MAX;
/// Clients with lists of instances that one node reports for the map of services.
pub const LIST_HOLDERS_TOLD_MAX: usize = 20_000;
/// Maximum number of clients, each with its releases, in one node's answer.
pub const CLIENTS_TOLD_MAX: usize = 2_000;
/// Services on the map of services; the others are omitted.
pub const MAP_SERVICES_MAX: usize = 10_000;
/// Bytes of a stored user agent.
pub const AGENT_BYTES_MAX: usize = 128;
/// Client labels of a gray release.
pub const CLIENT_LABELS_MAX: usize = 64;
/// Planned releases of one rule or config file.
pub const SCHEDULED_RELEASES_MAX: usize = 10;
/// Longest time in advance for planning a release, in milliseconds: a year.
pub const SCHEDULED_AHEAD_MS_MAX: u64 = 366 * 24 * 3_600_000;
/// Rows in the history of one rule or config file; beyond it the oldest are removed.
pub const HISTORY_EVENTS_MAX: usize = 200;

/// Bytes of an imported archive; below, the bytes and the number of its texts.
pub const IMPORT_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
pub const IMPORT_BYTES_MAX: u64 = 32 * 1024 * 1024;
pub const IMPORT_FILES_MAX: usize = 1000;
/// Config files in one export or copy; below, the bytes of their contents.
pub const EXPORT_FILES_MAX: usize = 1000;
pub const EXPORT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of a text that is checked in place; a longer one is checked on a blocking thread.
pub const JUDGED_INLINE_BYTES_MAX: usize = 16 * 1024;
/// Attempts to publish a file that is changed concurrently.
pub const PUBLISH_ROUNDS_MAX: usize = 8;
/// Default of `--config-content-max`, characters of one config file.
pub const CONFIG_CONTENT_CHARS_MAX: usize = 1024 * 1024;
/// Templates of config files.
pub const CONFIG_TEMPLATES_MAX: usize = 1000;
/// Characters of the content of a template.
pub const CONFIG_TEMPLATE_CHARS_MAX: usize = 65_536;
/// Namespaces that one long poll may watch.
pub const POLL_NAMESPACES_MAX: usize = 200;
/// Longest hold of a discovery in milliseconds, the same as the default of a config client's poll.
pub const DISCOVER_HOLD_MS_MAX: u64 = 55_000;
/// Longest wait for the clients of a draining instance.
pub const DRAIN_WAIT_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// Concurrent long polls of one node.
pub const POLL_WAITERS_MAX: usize = 100_000;

/// Characters of a user name and of a password.
pub const CREDENTIAL_CHARS_MAX: usize = 128;
/// Smallest number of characters in a new password.
pub const PASSWORD_CHARS_MIN: usize = 8;
/// Grants of one user or service token.
pub const GRANTS_MAX: usize = 100;
/// Networks of a service token.
pub const TOKEN_NETWORKS_MAX: usize = 64;
/// Longest lifetime of a service token with an expiry: ten years.
pub const SERVICE_TOKEN_SECONDS_MAX: u64 = 10 * 366 * 24 * 3600;
/// Longest time for which the previous secret of a rotated service token is accepted: 30 days.
pub const TOKEN_OVERLAP_SECONDS_MAX: u64 = 30 * 24 * 3600;
/// Users of a cluster, and also service tokens.
pub const ACCOUNTS_MAX: usize = 10_000;
/// Failed logins of one user from one address in a minute before 429002.
pub const LOGIN_FAILURES_PER_MINUTE: u32 = 5;
/// Failed logins of one user from all addresses in a minute before 429002, except for addresses from which this user
/// has logged in within a day.
pub const LOGIN_FAILURES_PER_USER_AND_MINUTE: u32 = 50;
/// Password checks of a node per second.
pub const PASSWORD_CHECKS_PER_SECOND: u64 = 20;
/// Failed sign-ins at one identity provider from one address in a minute before 429002. An office may share an address.
pub const SSO_FAILURES_PER_MINUTE: u32 = 30;
/// Logins that wait for a check; below, those from one address. More are refused with 429002.
pub const LOGINS_WAITING_MAX: usize = 64;
pub const LOGINS_WAITING_PER_ADDRESS: usize = 16;
/// Bytes of the body of a login; beyond it 413000.
pub const LOGIN_BODY_BYTES_MAX: usize = 4 * 1024;
/// Bytes of the body of a request with tokens of an identity provider; beyond it 413000.
pub const SSO_BODY_BYTES_MAX: usize = 40 * 1024;
/// Lifetime of a login token in milliseconds.
pub const TOKEN_LIFETIME_MS: u64 = 7 * 24 * 3600 * 1000;
/// Valid tokens of one user; a further login revokes the oldest.
pub const TOKENS_PER_USER_MAX: usize = 1000;

/// Access keys of one app. Checking an unsigned request costs one HMAC per key.
pub const ACCESS_KEYS_PER_APP_MAX: usize = 5;
/// Access keys in all; also the number of apps with metric series of their own.
pub const ACCESS_KEYS_MAX: usize = 10_000;
/// Smallest number of characters in the secret of an access key; below, the largest.
pub const ACCESS_KEY_SECRET_CHARS_MIN: usize = 16;
pub const ACCESS_KEY_SECRET_CHARS_MAX: usize = 128;
/// Milliseconds by which the clock of a signing client may differ from the cluster's; the difference must be smaller.
pub const ACCESS_KEY_SKEW_MS: u64 = 60_000;

/// Webhooks of a cluster.
pub const WEBHOOKS_MAX: usize = 20;
/// Identity providers of a cluster.
pub const PROVIDERS_MAX: usize = 100;
/// Characters of the name of a provider, of its issuer, and of a client id or an audience.
pub const PROVIDER_NAME_CHARS_MAX: usize = 32;
pub const ISSUER_CHARS_MAX: usize = 512;
pub const CLIENT_ID_CHARS_MAX: usize = 256;
/// Bytes of the secret of a client at its provider.
pub const CLIENT_SECRET_BYTES_MAX: usize = 1024;
/// Scopes, audiences, and required claims of a provider.
pub const SCOPES_MAX: usize = 32;
pub const AUDIENCES_MAX: usize = 16;
pub const REQUIRED_CLAIMS_MAX: usize = 16;
/// Bindings of a provider; below, conditions of one.
pub const BINDINGS_MAX: usize = 100;
pub const BINDING_CONDITIONS_MAX: usize = 8;
/// Characters of the name of a claim; below, of the pattern of its value.
pub const CLAIM_NAME_CHARS_MAX: usize = 128;
pub const CLAIM_PATTERN_CHARS_MAX: usize = 256;
/// Bytes of the claims of a token, as JSON; below, values in them, lists and objects included.
pub const CLAIMS_BYTES_MAX: usize = 16 * 1024;
pub const CLAIM_VALUES_MAX: usize = 1000;
/// Bytes of a `sub`; below, of the whole name `PROVIDER:USERNAME`.
pub const SUB_BYTES_MAX: usize = 255;
pub const HOLDER_BYTES_MAX: usize = 128;
/// Largest leeway for the clock of a provider, in seconds.
pub const LEEWAY_SECONDS_MAX: u32 = 300;
/// People of all providers that have signed in; below, names that one of them may have had, the present one included.
pub const IDENTITIES_MAX: usize = 10_000;
pub const IDENTITY_NAMES_MAX: usize = 8;
/// Valid sessions of one person of a provider; a further sign-in ends the oldest.
pub const SSO_SESSIONS_PER_PERSON_MAX: usize = 20;
/// Bytes of the claims of all sessions.
pub const SSO_CLAIMS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// ID and logout tokens that are remembered, so that each is taken once; below, for how long in milliseconds: longer
/// than any of them is accepted.
pub const TAKEN_TOKENS_MAX: usize = 100_000;
pub const TAKEN_TOKEN_MS: u64 = 15 * 60 * 1000;
/// Longest time for which a logout token is remembered.
pub const TAKEN_LOGOUT_MS_MAX: u64 = 24 * 3600 * 1000;
/// Shortest and longest session of a person of a provider, in seconds.
pub const SSO_SESSION_SECONDS_MIN: u32 = 300;
pub const SSO_SESSION_SECONDS_MAX: u32 = 30 * 24 * 3600;

/// Characters of the URL of a webhook.
pub const WEBHOOK_URL_CHARS_MAX: usize = 2048;
/// Pending events of one webhook; beyond it the oldest are dropped.
pub const WEBHOOK_EVENTS_MAX: usize = 1000;
/// Pending refusals of clients among them. One refusal per release, node and second is reported.
pub const WEBHOOK_REFUSALS_MAX: usize = 100;
/// Milliseconds after which an undelivered event is dropped.
pub const WEBHOOK_EVENT_AGE_MS_MAX: u64 = 24 * 3600 * 1000;
/// Instances that one event names; below, characters of a release's comment in it.
pub const WEBHOOK_INSTANCES_MAX: usize = 20;
pub const WEBHOOK_COMMENT_CHARS_MAX: usize = 300;
/// Characters of the stored reason of a failed delivery.
pub const WEBHOOK_FAILURE_CHARS_MAX: usize = 200;
/// Milliseconds for one delivery, including the connection and the head of the answer.
pub const WEBHOOK_TRY_MS_MAX: u64 = 10_000;
/// Bytes that are read of the answer to a delivery; a longer one closes the connection.
pub const WEBHOOK_ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Milliseconds of log time for which the state machine remembers a request id: seven times as long as a node retries a
/// command.
pub const REQUEST_MEMORY_MS: u64 = 60_000;
/// Request ids that the state machine remembers, unless more than that are younger than [`REQUEST_AGE_MS_MIN`].
pub const REQUEST_MEMORY_MAX: usize = 262_144;
/// Milliseconds of log time for which every request id is remembered: twice as long as a node retries a command.
pub const REQUEST_AGE_MS_MIN: u64 = 16_000;

/// Objects in one command that removes surplus releases.
pub const PRUNED_THINGS_MAX: usize = 100;
/// Surplus releases that one log entry removes.
pub const PRUNED_RELEASES_MAX: usize = 1000;

/// Items in one row of the audit trail.
pub const AUDIT_ROW_ITEMS_MAX: usize = 100;
/// Characters of a text in the audit trail; the rest is cut off.
pub const AUDIT_TEXT_CHARS_MAX: usize = 300;
/// Rows of the audit trail that one log entry removes.
pub const AUDIT_PRUNED_PER_ENTRY_MAX: usize = 128;
/// Rows of the audit trail that one request scans.
pub const AUDIT_WALK_MAX: u64 = 1_000_000;
/// Highest age of a node's audit note, in milliseconds; an older note is recorded with this age.
pub const AUDIT_NOTE_LATE_MS_MAX: u32 = 600_000;
/// Audit notes in one command.
pub const AUDIT_NOTES_MAX: usize = 64;

/// Names to which one xDS stream may subscribe; below, their bytes.
pub const XDS_NAMES_MAX: usize = 10_000;
pub const XDS_NAMES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Names from which a subscription is logged.
pub const XDS_NAMES_MANY: usize = 8_000;
/// Bytes that every stream counts: its task, its share of a connection, and the names and labels below.
pub const XDS_STREAM_BYTES: usize = 20 * 1024;
/// Bytes of names and labels included in that.
pub const XDS_STREAM_NAMES_BYTES: usize = 4 * 1024;
/// Labels of an xDS client; below, characters of a key and of a value, and bytes of all. The excess is cut off.
pub const XDS_LABELS_MAX: usize = 64;
pub const XDS_LABEL_KEY_CHARS_MAX: usize = 128;
pub const XDS_LABEL_VALUE_CHARS_MAX: usize = 4096;
pub const XDS_LABELS_BYTES_MAX: usize = 64 * 1024;
/// Namespaces that the metadata of a client of xDS may name.
pub const XDS_NAMESPACES_MAX: usize = 1000;
/// Bytes of a response that a gRPC client accepts; below, the target for a response that can be split.
pub const XDS_RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const XDS_RESPONSE_BYTES_TARGET: usize = 3 * 1024 * 1024;
/// Bytes of a client's identity in a list of xDS clients; below, names of its resources.
pub const XDS_NODE_ID_BYTES_TOLD: usize = 256;
pub const XDS_NAMES_TOLD: usize = 10;
/// Bytes of a dump of a client's resources; below, of the part in one answer between nodes.
pub const XDS_DUMP_BYTES_MAX: usize = 16 * 1024 * 1024;
pub const XDS_DUMP_PART_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of the stored text of a refusal; below, the bytes searched for names.
pub const XDS_REFUSAL_BYTES_MAX: usize = 4 * 1024;
pub const XDS_REFUSAL_BYTES_READ: usize = 64 * 1024;
/// Longest time in milliseconds that routes wait for a proxy to receive the clusters that they name.
pub const XDS_ORDER_WAIT_MS: u64 = 5_000;
/// Longest time in milliseconds that routes wait for a reconnected client to name its clusters, which it does at once.
pub const XDS_NAMES_WAIT_MS: u64 = 500;
/// Places of callers in the names of endpoints of one stream: its own, shortened by rules, and a few others.
pub const XDS_PLACES_MAX: usize = 16;
/// Bytes of cached resources, maps and routes that no stream uses.
pub const XDS_KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Unknown resource types that are answered with an empty response, once each.
pub const XDS_UNKNOWN_TYPES_MAX: usize = 16;

/// Concurrent gRPC streams of a node.
pub const GRPC_STREAMS_MAX: usize = POLL_WAITERS_MAX;
/// Bytes of a gRPC request; below, of a request of an Envoy, which names all its resources.
pub const GRPC_REQUEST_BYTES_MAX: usize = 1024 * 1024;
pub const XDS_REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Names, and also versions, in one request of an Envoy. Other clients may send as many as a stream may subscribe to.
pub const XDS_PROXY_ENTRIES_MAX: usize = 100_000;
/// Bytes of the description of a client in one request; below, of the reason of a refusal.
pub const XDS_NODE_BYTES_MAX: usize = GRPC_REQUEST_BYTES_MAX;
pub const XDS_ERROR_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a request to the other gRPC services, which look up a name.
pub const GRPC_QUESTION_BYTES_MAX: usize = 64 * 1024;
/// Seconds in which a request body must be complete; below, the bytes for which it gets another second.
pub const GRPC_REQUEST_SECONDS: u64 = 10;
pub const GRPC_REQUEST_BYTES_PER_SECOND: usize = 64 * 1024;

/// Bytes of queued log lines while their reader or disk is slow.
pub const LOG_QUEUE_BYTES_MAX: usize = 1024 * 1024;
/// Heartbeats of instances in one call between nodes; more are sent in several.
pub const BEATS_PER_CALL_MAX: usize = 4096;
