//! The pages of limits and of error codes repeat the tables of the code: values, codes and texts are equal.

use regex::Regex;
use thuban::model::code::Code;
use thuban::model::limits as of;

use super::text;

/// Rows of docs/limits.md by their first cell, in order.
fn limits() -> Vec<(&'static str, String)> {
    let of_files = of::BODY_BYTES_MAX + of::BODY_BYTES_PER_CHARACTER * of::CONFIG_CONTENT_CHARS_MAX;
    let claims = format!("{}, {} values", bytes(of::CLAIMS_BYTES_MAX as u64), number(of::CLAIM_VALUES_MAX as u64));
    let days = |seconds: u64| format!("{} days", number(seconds / 86_400));
    vec![
        ("request body", bytes(of::BODY_BYTES_MAX as u64)),
        ("request body with contents of config files", bytes(of_files as u64)),
        ("request line and headers", bytes(of::REQUEST_HEAD_BYTES_MAX as u64)),
        ("body of a login", bytes(of::LOGIN_BODY_BYTES_MAX as u64)),
        ("body with tokens of a provider", bytes(of::SSO_BODY_BYTES_MAX as u64)),
        ("items of a batch", number(of::BATCH_ITEMS_MAX as u64)),
        ("rows of a page", number(of::PAGE_ROWS_MAX as u64)),
        ("an answer with rows", bytes(of::ANSWER_BYTES_MAX as u64)),
        ("nesting of JSON", number(of::JSON_DEPTH_MAX as u64)),
        ("time of a management request", seconds(of::REQUEST_TIMEOUT_SECONDS)),
        ("hold of a discovery", seconds(of::DISCOVER_HOLD_MS_MAX / 1000)),
        ("wait of a drain", seconds(of::DRAIN_WAIT_MAX.as_secs())),
        ("namespaces of one poll", number(of::POLL_NAMESPACES_MAX as u64)),
        ("a packed archive to import", bytes(of::IMPORT_BODY_BYTES_MAX as u64)),
        ("files of an imported archive", number(of::IMPORT_FILES_MAX as u64)),
        ("contents of an imported archive", bytes(of::IMPORT_BYTES_MAX)),
        ("files of an export or a copy", number(of::EXPORT_FILES_MAX as u64)),
        ("contents of an export or a copy", bytes(of::EXPORT_BYTES_MAX as u64)),
        ("name of a service, group, rule, release or file", characters(of::NAME_CHARS_MAX)),
        ("name of a namespace", characters(of::NAMESPACE_CHARS_MAX)),
        ("comment, description", characters(of::COMMENT_CHARS_MAX)),
        ("owners, department and CMDB fields of a service", characters(of::SERVICE_TEXT_CHARS_MAX)),
        ("business of a service or group", characters(of::BUSINESS_CHARS_MAX)),
        ("ports of a service", characters(of::PORTS_CHARS_MAX)),
        ("host of an instance", characters(of::HOST_CHARS_MAX)),
        ("protocol, version of an instance", characters(of::PROTOCOL_CHARS_MAX)),
        ("interval of heartbeats", seconds(of::HEARTBEAT_TTL_SECONDS_MAX.into())),
        ("entries of metadata or tags", number(of::METADATA_ENTRIES_MAX as u64)),
        ("key of metadata", characters(of::METADATA_KEY_CHARS_MAX)),
        ("value of metadata", characters(of::METADATA_VALUE_CHARS_MAX)),
        ("content of a config file", characters(of::CONFIG_CONTENT_CHARS_MAX)),
        ("content of a template", characters(of::CONFIG_TEMPLATE_CHARS_MAX)),
        ("regular expression", bytes(of::REGEX_BYTES_MAX as u64)),
        ("the same, compiled", bytes(of::REGEX_COMPILED_BYTES_MAX as u64)),
        ("user name, password", characters(of::CREDENTIAL_CHARS_MAX)),
        ("shortest password", characters(of::PASSWORD_CHARS_MIN)),
        ("users", number(of::ACCOUNTS_MAX as u64)),
        ("service tokens", number(of::ACCOUNTS_MAX as u64)),
        ("grants of a user or token", number(of::GRANTS_MAX as u64)),
        ("networks of a token", number(of::TOKEN_NETWORKS_MAX as u64)),
        ("life of a login", days(of::TOKEN_LIFETIME_MS / 1000)),
        ("logins of one user", number(of::TOKENS_PER_USER_MAX as u64)),
        ("identity providers", number(of::PROVIDERS_MAX as u64)),
        ("bindings of a provider", number(of::BINDINGS_MAX as u64)),
        ("conditions of a binding", number(of::BINDING_CONDITIONS_MAX as u64)),
        ("people of providers that have signed in", number(of::IDENTITIES_MAX as u64)),
        ("names of one of them, earlier ones included", number(of::IDENTITY_NAMES_MAX as u64)),
        ("sessions of one of them", number(of::SSO_SESSIONS_PER_PERSON_MAX as u64)),
        ("claims of a token of a provider", claims),
        ("claims of all sessions", bytes(of::SSO_CLAIMS_BYTES_MAX as u64)),
        ("ID and logout tokens of providers within 15 minutes", number(of::TAKEN_TOKENS_MAX as u64)),
        ("access keys", number(of::ACCESS_KEYS_MAX as u64)),
        ("access keys of one app", number(of::ACCESS_KEYS_PER_APP_MAX as u64)),
        ("webhooks", number(of::WEBHOOKS_MAX as u64)),
        ("events that wait for a webhook", number(of::WEBHOOK_EVENTS_MAX as u64)),
        ("policies", number(of::POLICIES_MAX as u64)),
        ("approvals of a policy", number(of::APPROVALS_MAX.into())),
        ("freezes of a policy", number(of::FREEZES_MAX as u64)),
        ("requests for approval that wait", number(of::REQUESTS_PENDING_MAX as u64)),
        ("the same of one person", number(of::REQUESTS_OF_ONE_MAX as u64)),
        ("actions of one request", number(of::REQUEST_SET_ACTS_MAX as u64)),
        ("contracts", number(of::CONTRACTS_MAX as u64)),
        ("templates of config files", number(of::CONFIG_TEMPLATES_MAX as u64)),
        ("active canaries of a rule or file", number(of::ACTIVE_GRAYS_MAX as u64)),
        ("labels of a canary", number(of::CLIENT_LABELS_MAX as u64)),
        ("scheduled releases of a rule or file", number(of::SCHEDULED_RELEASES_MAX as u64)),
        ("time ahead of a scheduled release", days(of::SCHEDULED_AHEAD_MS_MAX / 1000)),
        ("steps of a rollout", number(of::ROLLOUT_STEPS_MAX as u64)),
        ("guards of a rollout", number(of::ROLLOUT_GUARDS_MAX as u64)),
        ("hold of a step", days(of::ROLLOUT_HOLD_S_MAX)),
        ("history of a rule or file", number(of::HISTORY_EVENTS_MAX as u64)),
        ("held polls and discoveries", number(of::POLL_WAITERS_MAX as u64)),
        ("clients with their releases", number(of::SUBSCRIPTIONS_MAX as u64)),
        ("the same in one answer, of each node", number(of::SUBSCRIPTIONS_TOLD_MAX as u64)),
        ("gRPC streams", number(of::GRPC_STREAMS_MAX as u64)),
        ("names of an xDS stream", number(of::XDS_NAMES_MAX as u64)),
        ("labels of an xDS client", number(of::XDS_LABELS_MAX as u64)),
        ("an xDS response to gRPC", bytes(of::XDS_RESPONSE_BYTES_MAX as u64)),
        ("backups at a time", number(of::BACKUPS_AT_ONCE as u64)),
        ("password checks in a second", number(of::PASSWORD_CHECKS_PER_SECOND)),
        ("waiting logins", number(of::LOGINS_WAITING_MAX as u64)),
        ("the same from one address", number(of::LOGINS_WAITING_PER_ADDRESS as u64)),
        ("failed logins of a user from one address in a minute", number(of::LOGIN_FAILURES_PER_MINUTE.into())),
        ("the same from all addresses", number(of::LOGIN_FAILURES_PER_USER_AND_MINUTE.into())),
        ("failed sign-ins at a provider from one address in a minute", number(of::SSO_FAILURES_PER_MINUTE.into())),
    ]
}

/// A whole number with commas between thousands.
fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn bytes(value: u64) -> String {
    match value {
        value if value % (1 << 20) == 0 => format!("{} MiB", number(value >> 20)),
        value if value % (1 << 10) == 0 => format!("{} KiB", number(value >> 10)),
        value => format!("{} bytes", number(value)),
    }
}

fn seconds(value: u64) -> String {
    format!("{} s", number(value))
}

fn characters(value: usize) -> String {
    format!("{} characters", number(value as u64))
}

#[test]
fn the_page_of_limits_has_the_values_of_the_code() {
    let page = text("docs/limits.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Limit |"));
    let rows: Vec<_> = rows.filter_map(|line| line.strip_prefix("| ")?.split_once(" | ")).collect();
    let shown: Vec<_> = rows.iter().map(|(name, rest)| (*name, rest.split(" | ").next().unwrap_or_default())).collect();
    let limits = limits();
    let expected: Vec<_> = limits.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(shown, expected, "rows of docs/limits.md, and crates/model/src/limits.rs");
}

/// Each code has a heading, its text, a cause and a remedy.
#[test]
fn the_pages_of_error_codes_have_all_codes() {
    let page = text("docs/error-codes.md") + &text("docs/error-codes-objects.md");
    let entry = Regex::new(r"^(\d{6}) \*(.+?)\.\* .+ \*\*Do:\*\* .+").expect("an expression");
    let entries = page.split("\n### ").skip(1).map(|entry| entry.split_whitespace().collect::<Vec<_>>().join(" "));
    let read = |flat: String| {
        let found = entry.captures(&flat).unwrap_or_else(|| panic!("code, text, cause and Do: {flat}"));
        (found[1].to_owned(), found[2].to_owned())
    };
    let mut shown: Vec<_> = entries.map(read).collect();
    shown.sort_unstable();
    let all: Vec<_> = Code::ALL.iter().map(|code| (code.number().to_string(), code.info().to_owned())).collect();
    assert_eq!(shown, all, "entries of the pages, and crates/model/src/code.rs");
}
