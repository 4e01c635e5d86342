//! `thuban audit`: the audit trail.

use clap::Args;
use thuban_model::limits;
use url::form_urlencoded;

use super::kinds::Kind;
use super::remote::{CallArgs, Paging};
use super::tables::{Column, OutputFormat, short, table, text};
use super::telling::say;

const SHOWN_DEFAULT: usize = 50;

#[derive(Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    call: CallArgs,
    /// User; * matches any part
    #[arg(long)]
    user: Option<String>,
    /// Kind of objects: service, ratelimit, configfile, user, …
    #[arg(long)]
    kind: Option<String>,
    /// Namespace; * matches any part
    #[arg(short, long)]
    namespace: Option<String>,
    /// Name of objects; * matches any part
    #[arg(long)]
    name: Option<String>,
    /// Result code, e.g. 401001
    #[arg(long)]
    code: Option<u32>,
    /// Start time: YYYY-MM-DD HH:MM:SS in UTC, or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// End time, exclusive
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Maximum number of rows, newest first
    #[arg(long, default_value_t = SHOWN_DEFAULT)]
    limit: usize,
    /// Show instead the drafts and releases of rules that would be refused to their authors now
    #[arg(long, conflicts_with_all = ["user", "kind", "namespace", "name", "code", "since", "until"])]
    would_refuse: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

const COLUMNS: &[Column] = &[
    ("time (UTC)", |row| text(&row["time"])),
    ("user", |row| short(&text(&row["user"]))),
    ("address", |row| text(&row["address"])),
    ("action", |row| text(&row["action"])),
    ("kind", |row| text(&row["kind"])),
    ("namespace", |row| text(&row["namespace"])),
    ("name", |row| short(&text(&row["name"]))),
    ("code", |row| text(&row["code"])),
    ("count", |row| text(&row["count"])),
];

const WOULD_REFUSE_COLUMNS: &[Column] = &[
    ("kind", |row| text(&row["kind"])),
    ("namespace", |row| text(&row["namespace"])),
    ("name", |row| short(&text(&row["name"]))),
    ("release", |row| short(&text(&row["release_name"]))),
    ("user", |row| short(&text(&row["user"]))),
    ("lacks", |row| text(&row["verb"])),
    ("at", |row| text(&row["at"])),
];

pub(super) async fn run(args: AuditArgs) -> anyhow::Result<()> {
    let code = args.code.map(|code| code.to_string());
    let kind = args.kind.as_deref().map(Kind::api_word);
    let filters = [
        ("user", &args.user),
        ("kind", &kind),
        ("namespace", &args.namespace),
        ("name", &args.name),
        ("code", &code),
        ("since", &args.since),
        ("until", &args.until),
    ];
    let path = |paging: &Paging| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, value) in filters.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            query.append_pair(key, value);
        }
        paging.ask(&mut query);
        let route = if args.would_refuse { "/admin/v1/audit/wouldrefuse" } else { "/admin/v1/audit" };
        format!("{route}?{}", query.finish())
    };
    let columns = if args.would_refuse { WOULD_REFUSE_COLUMNS } else { COLUMNS };
    let (all, _) = args.call.remote()?.pages("data", (limits::PAGE_ROWS_MAX, args.limit), path).await?;
    match args.output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(&all)?),
        OutputFormat::Table => table(&all, columns).iter().for_each(|line| say(line)),
    }
    Ok(())
}
