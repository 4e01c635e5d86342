//! Requests for approval: the options that make them, and their lists.

use clap::Args;
use serde_json::{Map, Value, json};
use thuban_model::limits;
use url::form_urlencoded;

use super::remote::{Paging, Remote};

/// Path of requests.
pub(super) const REQUESTS: &str = "/admin/v1/requests";

/// Options for acts that a policy may gate.
#[derive(Args, Clone)]
pub(super) struct ApprovalArgs {
    /// Request approval, with this comment, if a policy requires it
    #[arg(long, value_name = "WHY", conflicts_with = "emergency")]
    request: Option<String>,
    /// Wait, once a --request is approved, for `thuban requests --run ID`
    #[arg(long, requires = "request")]
    hold: bool,
    /// Do it without approval and despite a freeze, for this reason of 8 characters or more; requires releaser and
    /// approver
    #[arg(long, value_name = "WHY")]
    emergency: Option<String>,
}

impl ApprovalArgs {
    /// Adds the options to the body of an act.
    pub(super) fn put_into(&self, item: &mut Map<String, Value>) {
        if let Some(request) = &self.request {
            item.insert("request".to_owned(), json!(request));
        }
        if self.hold {
            item.insert("hold".to_owned(), json!(true));
        }
        if let Some(reason) = &self.emergency {
            item.insert("emergency".to_owned(), json!(reason));
        }
    }
}

/// Returns all requests that match these filters.
pub(super) async fn listed(remote: &Remote, filters: &[(&str, Option<&str>)]) -> anyhow::Result<Vec<Value>> {
    let path = |paging: &Paging| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        paging.ask(&mut query);
        query.extend_pairs(filters.iter().filter_map(|(key, value)| Some((key, (*value)?))));
        format!("{REQUESTS}?{}", query.finish())
    };
    Ok(remote.pages("data", (limits::PAGE_ROWS_MAX, usize::MAX), path).await?.0)
}
