//! `thuban release`, `rollback`, `promote`, `stop`, `withdraw` and `diff`: releases of a rule or of a config file.

use clap::Args;
use reqwest::Method;
use serde_json::{Map, Value, json};
use thuban_model::limits;
use url::form_urlencoded;

use super::errors::{Differences, Usage};
use super::find::{InForce, OneArgs, in_force, lacking, or_absent, read_name, release_name, releases_path};
use super::kinds::{Key, Kind, KindFilter, Nature, display_name, placed};
use super::release_outcome::{is_of_type, outcome};
use super::remote::{Paging, Remote, is_done};
use super::requests::ApprovalArgs;
use super::rollout_plan::PlanArgs;
use super::tables::{OutputFormat, text};
use super::telling::say;

/// An object with releases.
pub(super) struct One {
    pub(super) remote: Remote,
    pub(super) kind: &'static Kind,
    pub(super) key: Key,
}

pub(super) fn read(args: &OneArgs) -> anyhow::Result<One> {
    let (remote, kind, key) = args.read()?;
    check_released(kind)?;
    Ok(One { remote, kind, key })
}

/// Checks that objects of the kind have releases.
pub(super) fn check_released(kind: &Kind) -> Result<(), Usage> {
    if kind.is_released() {
        return Ok(());
    }
    Err(Usage(format!("there are releases of rules and of config files, not of {}", kind.many)))
}

impl One {
    /// Returns the members that name the object in queries and bodies about releases.
    pub(super) fn named(&self) -> Map<String, Value> {
        named(self.kind, &self.key)
    }

    /// Returns the error for a release that does not exist, or for an object that does not.
    pub(super) async fn lacking(&self, what: &str) -> anyhow::Error {
        lacking(&self.remote, self.kind, &self.key, what).await
    }

    async fn in_force(&self) -> anyhow::Result<InForce> {
        let mut all = in_force(&self.remote, self.kind, &KindFilter::of(&self.key)).await?;
        Ok(all.remove(&self.key).unwrap_or_default())
    }

    /// Returns the named gray release, or the only active one.
    pub(super) async fn gray(&self, named: Option<String>) -> anyhow::Result<String> {
        if let Some(name) = named {
            return Ok(name);
        }
        let what = placed(self.kind, &self.key);
        match self.in_force().await?.grays.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(self.lacking("active gray release").await),
            several => Err(Usage(format!("{what} has several gray releases, name one: {}", several.join(", "))).into()),
        }
    }

    async fn active(&self) -> anyhow::Result<String> {
        match self.in_force().await?.normal {
            Some(found) => Ok(release_name(&found)),
            None => Err(self.lacking("live release").await),
        }
    }

    pub(super) async fn releases(&self) -> anyhow::Result<Vec<Value>> {
        let (path, element) = match self.kind.nature {
            Nature::File => ("/config/v1/configfiles/release/versions".to_owned(), "configFileReleases"),
            _ => (releases_path(self.kind), "data"),
        };
        let bounds = (limits::PAGE_ROWS_MAX, usize::MAX);
        Ok(self.remote.pages(element, bounds, |paging| self.page(&path, paging)).await?.0)
    }

    /// Returns the previous normal release: the inactive one with the highest version.
    async fn previous(&self) -> anyhow::Result<String> {
        let rows = self.releases().await?;
        match rows.iter().filter(|row| self.is_before(row)).max_by_key(|row| row["version"].as_u64()) {
            Some(found) => Ok(release_name(found)),
            None => Err(self.lacking("earlier release").await),
        }
    }

    fn is_before(&self, row: &Value) -> bool {
        is_of_type(row, "normal") && row["state"] == "inactive" && row["namespace"] == self.key.namespace.as_str()
    }

    /// Performs an act on a release and prints the outcome: true if it is done, false if it awaits approval.
    async fn order(&self, verb: &str, release: &str, approval: &ApprovalArgs, more: Value) -> anyhow::Result<bool> {
        self.tell(&self.send(verb, release, approval, more).await?)
    }

    /// Performs an act on a release.
    pub(super) async fn send(
        &self,
        verb: &str,
        release: &str,
        approval: &ApprovalArgs,
        more: Value,
    ) -> anyhow::Result<Value> {
        let mut item = self.named();
        approval.put_into(&mut item);
        item.insert("release_name".to_owned(), json!(release));
        item.extend(more.as_object().cloned().unwrap_or_default());
        let path = format!("{}/{verb}?unknown=refuse", releases_path(self.kind));
        self.call(Method::PUT, &path, &json!([item])).await
    }

    /// Makes one call about the object.
    pub(super) async fn call(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        match self.remote.call(method, path, Some(body)).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(or_absent(&self.remote, self.kind, &self.key, error).await),
        }
    }

    pub(super) fn tell(&self, answer: &Value) -> anyhow::Result<bool> {
        let item = &answer["responses"][0];
        let is_item = item["code"].as_u64().is_some_and(is_done);
        let item = if is_item { item } else { answer };
        let release = [&item["ruleRelease"], &item["configFileRelease"]].into_iter().find(|one| one.is_object());
        let what = placed(self.kind, &self.key);
        if let Some(id) = item["request"]["id"].as_str() {
            say(&format!("{what}: approval is asked for, nothing changes before others run: thuban approve {id}"));
            return Ok(false);
        }
        match release {
            Some(one) => {
                say(&format!("{what}: {}", outcome(one)));
            }
            None => say(&format!("{what}: {}", text(&item["info"]))),
        }
        for warning in item["warnings"].as_array().into_iter().flatten() {
            say(&format!("warning   {}", text(warning)));
        }
        Ok(true)
    }

    pub(super) fn page(&self, path: &str, paging: &Paging) -> String {
        page(path, self.kind, &self.key, paging)
    }
}

/// Returns the path of a page of releases of one object.
pub(super) fn page(path: &str, kind: &Kind, key: &Key, paging: &Paging) -> String {
    let mut query = query(kind, key);
    paging.ask(&mut query);
    format!("{path}?{}", query.finish())
}

fn named(kind: &Kind, key: &Key) -> Map<String, Value> {
    let named = match kind.nature {
        Nature::File => json!({ "namespace": key.namespace, "group": key.group, "file_name": key.name }),
        _ => json!({ "namespace": key.namespace, "rule_name": key.name }),
    };
    named.as_object().cloned().unwrap_or_default()
}

fn query(kind: &Kind, key: &Key) -> form_urlencoded::Serializer<'static, String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (member, value) in named(kind, key) {
        query.append_pair(&member, value.as_str().unwrap_or_default());
    }
    query
}

#[derive(Args)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    one: OneArgs,
    #[command(flatten)]
    approval_options: ApprovalArgs,
    /// Only clients with this label: zone=a, zone=a,b (one of them), zone!=a, version~^2\. (expression); may be
    /// repeated, all have to match
    #[arg(long, value_name = "LABEL", value_parser = read_label)]
    gray: Vec<Value>,
    /// Only this percentage of the clients, 1 to 100
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    percent: Option<u32>,
    /// Label that identifies a client for the share or the plan: CLIENT_IP or another key
    #[arg(long, value_name = "KEY", default_value = "CLIENT_IP")]
    by: String,
    #[command(flatten)]
    steps: PlanArgs,
    /// Time of publishing: RFC 3339, or YYYY-MM-DD HH:MM:SS in UTC [default: now]
    #[arg(long = "at", value_name = "TIME")]
    at_time: Option<String>,
    /// Name of the release [default: generated]
    #[arg(long)]
    name: Option<String>,
    /// Comment for the history
    #[arg(long)]
    comment: Option<String>,
    /// Publish a config file even if it is malformed
    #[arg(long)]
    force: bool,
}

/// Parses a condition on a client label.
fn read_label(text: &str) -> Result<Value, String> {
    let (at, kind, width) = [("!=", "NOT_EQUALS"), ("~", "REGEX"), ("=", "EXACT")]
        .into_iter()
        .filter_map(|(mark, kind)| Some((text.find(mark)?, kind, mark.len())))
        .min_by_key(|(at, _, _)| *at)
        .ok_or_else(|| format!("{text:?} is no label: zone=a, zone=a,b, zone!=a or zone~EXPRESSION"))?;
    let (key, value) = (&text[..at], &text[at + width..]);
    if key.is_empty() {
        return Err(format!("{text:?} has no key: zone=a"));
    }
    let kind = if kind == "EXACT" && value.contains(',') { "IN" } else { kind };
    Ok(json!({ "key": key, "value": { "type": kind, "value": value } }))
}

pub(super) async fn release(args: ReleaseArgs) -> anyhow::Result<()> {
    let one = read(&args.one)?;
    let mut item = one.named();
    let mut give = |member: &str, value: Option<Value>| {
        if let Some(value) = value {
            item.insert(member.to_owned(), value);
        }
    };
    let approval_options = args.approval_options;
    let plan = args.steps.plan(&args.by);
    let is_gray = !args.gray.is_empty() || args.percent.is_some() || plan.is_some();
    let description = if one.kind.nature == Nature::File { "release_description" } else { "description" };
    give("release_type", is_gray.then(|| json!("gray")));
    give("client_labels", (!args.gray.is_empty()).then(|| json!(args.gray)));
    give("client_percent", args.percent.map(|percent| json!({ "by": args.by, "percent": percent })));
    give("plan", plan);
    give("publish_at", args.at_time.map(Value::from));
    give("release_name", args.name.map(Value::from));
    give(description, args.comment.map(Value::from));
    approval_options.put_into(&mut item);
    let path = match one.kind.nature {
        Nature::File => format!("/config/v1/configfiles/release?unknown=refuse&force={}", args.force),
        _ => format!("{}?unknown=refuse", releases_path(one.kind)),
    };
    let answer = one.call(Method::POST, &path, &json!([item])).await?;
    one.tell(&answer).map(drop)
}

#[derive(Args)]
pub(super) struct RollbackArgs {
    #[command(flatten)]
    one: OneArgs,
    #[command(flatten)]
    approval_options: ApprovalArgs,
    /// Name of the release [default: the previous normal one]
    #[arg(long, value_name = "RELEASE")]
    to: Option<String>,
}

pub(super) async fn roll_back(args: RollbackArgs) -> anyhow::Result<()> {
    let one = read(&args.one)?;
    let to = match args.to {
        Some(name) => name,
        None => one.previous().await?,
    };
    if one.order("rollback", &to, &args.approval_options, json!({})).await? {
        let what = format!("{} -n {}", display_name(one.kind, &one.key), one.key.namespace);
        say(&format!("it is live; your draft is unchanged, `thuban draft reset {what}` makes it what is live"));
    }
    Ok(())
}

/// An active gray release, and options for acts on it that a policy may gate.
#[derive(Args)]
pub(super) struct GrayArgs {
    #[command(flatten)]
    pub(super) one: OneArgs,
    #[command(flatten)]
    pub(super) approval_options: ApprovalArgs,
    /// Name of the gray release [default: the only active one]
    #[arg(long, value_name = "RELEASE")]
    pub(super) gray: Option<String>,
}

impl GrayArgs {
    /// Performs an act on the release and prints the outcome.
    pub(super) async fn order(self, verb: &str, more: Value) -> anyhow::Result<()> {
        let one = read(&self.one)?;
        let gray = one.gray(self.gray).await?;
        one.order(verb, &gray, &self.approval_options, more).await.map(drop)
    }
}

#[derive(Args)]
pub(super) struct PromoteArgs {
    #[command(flatten)]
    gray: GrayArgs,
    /// Name of the new normal release [default: generated]
    #[arg(long)]
    name: Option<String>,
}

pub(super) async fn promote(args: PromoteArgs) -> anyhow::Result<()> {
    let more = args.name.map_or_else(|| json!({}), |name| json!({ "new_release_name": name }));
    args.gray.order("promote", more).await
}

pub(super) async fn stop(args: GrayArgs) -> anyhow::Result<()> {
    args.order("stopbeta", json!({})).await
}

#[derive(Args)]
pub(super) struct WithdrawArgs {
    #[command(flatten)]
    one: OneArgs,
    #[command(flatten)]
    approval_options: ApprovalArgs,
    /// Reactivate the previous release instead of none
    #[arg(long)]
    to_previous: bool,
}

pub(super) async fn withdraw(args: WithdrawArgs) -> anyhow::Result<()> {
    let one = read(&args.one)?;
    let active = one.active().await?;
    one.order("withdraw", &active, &args.approval_options, json!({ "to_previous": args.to_previous })).await.map(drop)
}

#[derive(Args)]
pub(super) struct SideArgs {
    /// Left side: draft, active, or the name of a release
    #[arg(long, value_name = "SIDE", default_value = "active", requires = "what")]
    from: String,
    /// Right side, like --from
    #[arg(long, value_name = "SIDE", default_value = "draft", requires = "what")]
    to: String,
    /// Group of the config file
    #[arg(long, requires = "what")]
    group: Option<String>,
}

/// Prints the difference between the draft and the active release, or between two releases.
pub(super) async fn diff(
    remote: &Remote,
    what: &[String],
    namespace: &str,
    sides: &SideArgs,
    output: OutputFormat,
) -> anyhow::Result<()> {
    let (kind, key) = read_name(what, namespace, sides.group.as_deref())?;
    check_released(kind)?;
    let path = match kind.nature {
        Nature::File => "/config/v1/configfiles/release/diff".to_owned(),
        _ => format!("{}/diff", releases_path(kind)),
    };
    let mut query = query(kind, &key);
    query.append_pair("from", &sides.from).append_pair("to", &sides.to);
    let answer = match remote.get(&format!("{path}?{}", query.finish())).await {
        Ok(answer) => answer,
        Err(error) => return Err(or_absent(remote, kind, &key, error).await),
    };
    let lines = lines(&answer["diff"]);
    match output {
        OutputFormat::Json => say(&serde_json::to_string_pretty(&for_programs(&answer["diff"]))?),
        OutputFormat::Table if lines.is_empty() => {}
        OutputFormat::Table => {
            say(&placed(kind, &key));
            lines.iter().for_each(|line| say(line));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(Differences::between(&sides.from, &sides.to).into())
}

/// Returns the differences as JSON: by pointer, or by line for a text.
fn for_programs(diff: &Value) -> Value {
    match diff["changes"].as_array() {
        Some(changes) => json!(changes),
        None => json!({ "lines": diff["lines"] }),
    }
}

pub(super) fn lines(diff: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for change in diff["changes"].as_array().into_iter().flatten() {
        let path = text(&change["path"]);
        lines.extend(change.get("before").map(|value| format!("- {path}: {value}")));
        lines.extend(change.get("after").map(|value| format!("+ {path}: {value}")));
    }
    lines.extend(diff["lines"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_typed_as_they_are_said() {
        for (typed, key, kind, value) in [
            ("zone=a", "zone", "EXACT", "a"),
            ("zone=a,b", "zone", "IN", "a,b"),
            ("zone!=a", "zone", "NOT_EQUALS", "a"),
            ("version~^2\\.", "version", "REGEX", "^2\\."),
            ("url=a~b", "url", "EXACT", "a~b"),
            ("expr~a=b", "expr", "REGEX", "a=b"),
        ] {
            let expected = json!({ "key": key, "value": { "type": kind, "value": value } });
            assert_eq!(read_label(typed), Ok(expected), "{typed}");
        }
        assert!(read_label("zone").is_err() && read_label("=a").is_err());
    }

    #[test]
    fn a_difference_is_told_by_line() {
        let diff = json!({ "changes": [{ "path": "/a", "before": 1, "after": "x" }, { "path": "b", "after": null }] });
        assert_eq!(lines(&diff), ["- /a: 1", "+ /a: \"x\"", "+ b: null"]);
        assert_eq!(lines(&json!({ "lines": ["@@", "-a"] })), ["@@", "-a"]);
        assert_eq!(for_programs(&diff), diff["changes"]);
        assert_eq!(for_programs(&json!({ "to": "draft", "lines": ["@@"] })), json!({ "lines": ["@@"] }));
    }
}
