//! `thuban wait`: ends once a release is live, or once a share of its clients have it.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;
use thuban_model::limits;
use tokio::time::sleep;

use super::drain::read_time;
use super::errors;
use super::find::{OneArgs, release_name};
use super::kinds::{Nature, placed};
use super::refusals::is_final;
use super::release_outcome::is_of_type;
use super::releases::{self, One, read};
use super::requests::listed;
use super::tables::text;
use super::telling::say;
use super::under_way::progress;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(super) struct WaitArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Name of the release; one that does not exist yet is waited for [default: the release that changed last]
    #[arg(long, value_name = "RELEASE")]
    release: Option<String>,
    /// Percentage of its clients that have to have it and not to have refused it, e.g. 90%; without clients the wait
    /// goes on [default: wait until it is live]
    #[arg(long, value_name = "PERCENT", value_parser = read_percent)]
    clients: Option<u64>,
    /// Longest wait: 30s, 10m
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = read_time)]
    timeout: Duration,
}

fn read_percent(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end().parse().ok();
    number.filter(|percent| (1..=100).contains(percent)).ok_or_else(|| "a percentage is needed: 90%".to_owned())
}

/// The wait ended without its event.
#[derive(Debug, thiserror::Error)]
#[error("not within {limit}: {state}")]
pub(super) struct TimedOut {
    limit: String,
    state: String,
}

/// The event cannot happen any more.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Lost(String);

/// State of what is waited for, with a sentence.
#[derive(Debug, PartialEq)]
enum WaitState {
    Reached(String),
    Waits(String),
    Lost(String),
}

pub(super) async fn run(args: WaitArgs) -> anyhow::Result<()> {
    let one = read(&args.one)?;
    let what = placed(one.kind, &one.key);
    let until = Instant::now() + args.timeout;
    let (mut wanted, mut told) = (args.release.clone(), String::new());
    loop {
        let found = look(&one, &mut wanted, args.clients).await;
        let is_over = Instant::now() + LOOK > until;
        let state = match found {
            Ok(WaitState::Reached(state)) => {
                say(&format!("{what}: {state}"));
                return Ok(());
            }
            Ok(WaitState::Lost(state)) => return Err(Lost(format!("{what}: {state}")).into()),
            Ok(WaitState::Waits(state)) => state,
            // A node that restarts answers again.
            Err(error) if is_over || is_final(&error) => return Err(error),
            Err(error) => errors::in_words(&error),
        };
        if is_over {
            let limit = format!("{} s", args.timeout.as_secs());
            return Err(TimedOut { limit, state: format!("{what}: {state}") }.into());
        }
        if state != told {
            say(&format!("{what}: {state}"));
            told = state;
        }
        sleep(LOOK).await;
    }
}

/// Looks at the release once; sets `wanted` to its name at the first look.
async fn look(one: &One, wanted: &mut Option<String>, share: Option<u64>) -> anyhow::Result<WaitState> {
    let rows = one.releases().await?;
    let rows: Vec<&Value> = rows.iter().filter(|row| row["namespace"] == one.key.namespace.as_str()).collect();
    let found = match wanted.as_deref() {
        Some(name) => rows.iter().find(|row| release_name(row) == name),
        None => rows.iter().max_by_key(|row| (changed_at(row), row["version"].as_u64())),
    };
    let Some(release) = found else {
        return match wanted {
            Some(name) => absent(one, name).await,
            None => Err(one.lacking("release").await),
        };
    };
    *wanted = Some(release_name(release));
    let normal = rows.iter().find(|row| row["state"] == "active" && is_of_type(row, "normal"));
    match (standing(release), share) {
        (Standing::Lost(why), _) => Ok(WaitState::Lost(why)),
        (Standing::Waits(why), _) => Ok(WaitState::Waits(why)),
        (Standing::Live, None) => Ok(WaitState::Reached(format!("{} is live", release_name(release)))),
        (Standing::Rolling(course), None) => Ok(WaitState::Waits(format!("{} {course}", release_name(release)))),
        (Standing::Live | Standing::Rolling(_), Some(share)) => {
            // A promoted canary lives on in the normal release.
            let is_promoted = release["rollout"]["state"] == "done";
            let live = if is_promoted { normal.unwrap_or(release) } else { release };
            let path = match one.kind.nature {
                Nature::File => "/config/v1/configfiles/subscribers".to_owned(),
                _ => format!("{}/subscribers", one.kind.list),
            };
            let page = |paging: &super::remote::Paging| releases::page(&path, one.kind, &one.key, paging);
            let (clients, last) = one.remote.pages("data", (limits::PAGE_ROWS_MAX, usize::MAX), page).await?;
            let silent = last["silent_nodes"].as_array().map_or(0, Vec::len);
            Ok(held(&release_name(live), live["version"].as_u64().unwrap_or_default(), &clients, silent, share))
        }
    }
}

fn changed_at(row: &Value) -> &str {
    [&row["mtime"], &row["modifyTime"]].into_iter().find_map(Value::as_str).unwrap_or_default()
}

/// State of a release by itself.
#[derive(Debug, PartialEq)]
enum Standing {
    Live,
    /// Canary on its way, with its course.
    Rolling(String),
    Waits(String),
    Lost(String),
}

fn standing(release: &Value) -> Standing {
    let (name, state) = (release_name(release), release["state"].as_str().unwrap_or_default());
    let rollout = &release["rollout"];
    match (state, rollout["state"].as_str()) {
        (_, Some("done")) => Standing::Live,
        (_, Some("stopped")) => {
            let reason = rollout["reason"].as_str().filter(|reason| !reason.is_empty());
            let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            Standing::Lost(format!("the rollout of {name} was stopped{reason}"))
        }
        ("active", Some(_)) => Standing::Rolling(progress(rollout)),
        ("active", None) => Standing::Live,
        ("scheduled", _) => {
            Standing::Waits(format!("{name} is to be published at {} UTC", text(&release["publish_at"])))
        }
        ("failed", _) => {
            Standing::Lost(format!("{name} could not be published at {} UTC", text(&release["publish_at"])))
        }
        _ if is_of_type(release, "gray") => Standing::Lost(format!("the canary {name} is not active any more")),
        _ => Standing::Lost(format!("{name} is not live any more: it was replaced, rolled back or withdrawn")),
    }
}

/// Judges the clients of a release: `clients` has all that have or should have a release of the object.
fn held(name: &str, version: u64, clients: &[Value], silent: usize, share: u64) -> WaitState {
    let refuses = |row: &&Value| row["version"] == version && row["applied"] == "refused";
    let refused = clients.iter().filter(refuses).count() as u64;
    let has = |row: &&Value| row["version"] == version && row["current"] == true && row["applied"] != "refused";
    let having = clients.iter().filter(has).count() as u64;
    let lacking = clients.iter().filter(|row| row["current"] != true && !refuses(row)).count() as u64;
    let all = having + lacking + refused;
    let counted = format!("{having} of {all} clients have {name}");
    if silent > 0 {
        return WaitState::Waits(format!("{counted}, {silent} nodes could not be asked"));
    }
    if all == 0 {
        return WaitState::Waits(format!("{name} has no clients"));
    }
    if (all - refused) * 100 < share * all {
        let reason = clients.iter().filter(refuses).find_map(|row| row["message"].as_str());
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        return WaitState::Lost(format!("{counted}, {refused} refused it{reason}"));
    }
    if having * 100 >= share * all { WaitState::Reached(counted) } else { WaitState::Waits(counted) }
}

/// Judges a release that does not exist: it may be asked for, or may come yet.
async fn absent(one: &One, name: &str) -> anyhow::Result<WaitState> {
    let thing = match &one.key.group {
        Some(group) => format!("{group}/{}", one.key.name),
        None => one.key.name.clone(),
    };
    let filters =
        [("kind", Some(one.kind.one)), ("namespace", Some(one.key.namespace.as_str())), ("name", Some(&*thing))];
    let requests = listed(&one.remote, &filters).await?;
    let asked = requests.iter().find(|request| request["release_name"] == name);
    Ok(match asked {
        Some(request) => WaitState::Waits(format!("the request for {name}: {}", text(&request["standing"]))),
        None => WaitState::Waits(format!("there is no release {name} yet")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_are_read_with_and_without_their_sign() {
        for (text, expected) in [("90%", Ok(90)), ("1", Ok(1)), ("100 %", Ok(100))] {
            assert_eq!(read_percent(text), expected, "{text}");
        }
        for bad in ["", "%", "0", "101%", "-1", "9.5"] {
            assert!(read_percent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn releases_are_live_wait_or_are_lost() {
        let of = |kind: &str, state: &str, rollout: Option<&str>| {
            let mut row = json!({ "release_name": "v2", "release_type": kind, "state": state, "publish_at": "t" });
            if let Some(rollout) = rollout {
                row["rollout"] = json!({ "state": rollout, "percent": 5, "step": 1, "steps": [{}], "reason": "why" });
            }
            standing(&row)
        };
        assert_eq!(of("normal", "active", None), Standing::Live);
        assert_eq!(of("gray", "active", None), Standing::Live);
        assert_eq!(of("gray", "inactive", Some("done")), Standing::Live);
        assert_eq!(of("gray", "active", Some("paused")), Standing::Rolling("5 %, step 1 of 1, paused: why".to_owned()));
        assert_eq!(of("normal", "scheduled", None), Standing::Waits("v2 is to be published at t UTC".to_owned()));
        for (kind, state, rollout, words) in [
            ("gray", "inactive", Some("stopped"), "the rollout of v2 was stopped: why"),
            ("gray", "inactive", None, "the canary v2 is not active any more"),
            ("normal", "inactive", None, "v2 is not live any more"),
            ("normal", "failed", None, "v2 could not be published at t UTC"),
        ] {
            assert!(matches!(of(kind, state, rollout), Standing::Lost(why) if why.starts_with(words)), "{words}");
        }
    }

    #[test]
    fn clients_count_that_have_it_or_should() {
        let client = |version: u64, current: bool, applied: Option<&str>| {
            let mut row = json!({ "version": version, "current": current });
            if let Some(applied) = applied {
                row["applied"] = json!(applied);
                row["message"] = json!("no such bean");
            }
            row
        };
        let (has, old, other) = (client(2, true, None), client(1, false, None), client(1, true, None));
        let refuses = client(2, true, Some("refused"));
        let judged = |clients: &[&Value], silent: usize, share: u64| {
            held("v2", 2, &clients.iter().map(|one| (*one).clone()).collect::<Vec<_>>(), silent, share)
        };
        // Clients that should have another release are not its clients.
        assert_eq!(judged(&[&has, &other, &other], 0, 100), WaitState::Reached("1 of 1 clients have v2".to_owned()));
        assert_eq!(judged(&[&has, &has, &old], 0, 60), WaitState::Reached("2 of 3 clients have v2".to_owned()));
        assert_eq!(judged(&[&has, &has, &old], 0, 67), WaitState::Waits("2 of 3 clients have v2".to_owned()));
        assert!(matches!(judged(&[&has], 1, 1), WaitState::Waits(why) if why.contains("1 nodes could not")));
        assert_eq!(judged(&[&other], 0, 1), WaitState::Waits("v2 has no clients".to_owned()));
        let lost = "1 of 2 clients have v2, 1 refused it: no such bean";
        assert_eq!(judged(&[&has, &refuses], 0, 51), WaitState::Lost(lost.to_owned()));
        assert_eq!(judged(&[&has, &refuses], 0, 50), WaitState::Reached("1 of 2 clients have v2".to_owned()));
    }
}
