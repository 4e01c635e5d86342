//! `thuban history`: the releases of a rule or of a config file in their order.

use clap::Args;
use thuban_model::limits;

use super::find::{OneArgs, absent, or_absent, releases_path, row};
use super::kinds::Nature;
use super::releases::read;
use super::tables::{Column, OutputFormat, short, table, text};
use super::telling::say;

#[derive(Args)]
pub(super) struct HistoryArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

pub(super) async fn run(args: HistoryArgs) -> anyhow::Result<()> {
    const COLUMNS: &[Column] = &[
        ("time (UTC)", |row| text(&row["time"])),
        ("user", |row| text(&row["user"])),
        ("action", |row| text(&row["action"])),
        ("release", |row| short(&text(&row["release_name"]))),
        ("version", |row| text(&row["version"])),
        ("before", |row| if row["from_version"] == 0 { "-".to_owned() } else { text(&row["from_version"]) }),
        ("comment", |row| short(&text(&row["comment"]))),
    ];
    let one = read(&args.one)?;
    let path = match one.kind.nature {
        Nature::File => "/config/v1/configfiles/releasehistory".to_owned(),
        _ => format!("{}/history", releases_path(one.kind)),
    };
    let bounds = (limits::PAGE_ROWS_MAX, usize::MAX);
    let (all, _) = match one.remote.pages("data", bounds, |paging| one.page(&path, paging)).await {
        Ok(found) => found,
        Err(error) => return Err(or_absent(&one.remote, one.kind, &one.key, error).await),
    };
    // The history of a deleted config file remains, so an empty one is of a file that was never there.
    if all.is_empty() && row(&one.remote, one.kind, &one.key).await?.is_none() {
        return Err(absent(&one.remote, one.kind, &one.key).await);
    }
    match args.output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(&all)?),
        OutputFormat::Table => table(&all, COLUMNS).iter().for_each(|line| say(line)),
    }
    Ok(())
}
