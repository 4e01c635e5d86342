//! Lists of requests for approval.

use serde_json::Value;
use url::form_urlencoded;

use super::remote::{Paging, Remote};
use crate::model::limits;

/// Path of requests.
pub(super) const REQUESTS: &str = "/admin/v1/requests";

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
