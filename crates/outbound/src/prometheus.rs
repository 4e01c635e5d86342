//! Prometheus client for the instant queries of rollout guards.

use std::time::Duration;

use reqwest::Client;
use serde::Deserialize;
use tokio::time::timeout;
use url::Url;

use super::{in_words, posting_client, read_limited};

/// Time limit of a query. Queries run once a second.
const QUERY_WITHIN: Duration = Duration::from_millis(900);
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Maximum characters of an error message.
const ERROR_CHARS_MAX: usize = 200;

/// A Prometheus server at the address from the operator.
pub struct Prometheus {
    client: Client,
    url: Url,
}

#[derive(Deserialize)]
struct QueryAnswer {
    status: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    data: Option<Data>,
}

/// Result of an instant query by type.
#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Series>),
    Scalar((f64, String)),
    /// A matrix or a string is not a number at one moment.
    Matrix(serde::de::IgnoredAny),
    String(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Series {
    value: (f64, String),
}

impl Prometheus {
    /// Creates a client of the server at this URL. Blocks on the disk.
    pub fn new(url: &Url) -> Result<Prometheus, String> {
        let client = posting_client(url.scheme() == "https", None)?;
        let client = client.build().map_err(|error| in_words(&error))?;
        let mut url = url.clone();
        let path = format!("{}/api/v1/query", url.path().trim_end_matches('/'));
        url.set_path(&path);
        Ok(Prometheus { client, url })
    }

    /// Returns the current values of a query's series, without NaN.
    pub async fn query(&self, query: &str) -> Result<Vec<f64>, String> {
        let asked = timeout(QUERY_WITHIN, self.ask(query)).await;
        asked.unwrap_or_else(|_| Err(format!("no answer within {} ms", QUERY_WITHIN.as_millis())))
    }

    async fn ask(&self, query: &str) -> Result<Vec<f64>, String> {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair("query", query);
        let answer = self.client.get(url).send().await.map_err(|error| in_words(&error))?;
        let status = answer.status();
        let body = read_limited(answer, ANSWER_BYTES_MAX).await.map_err(|error| in_words(&error))?;
        let samples = samples(&body.ok_or(format!("the answer is larger than {ANSWER_BYTES_MAX} bytes"))?)?;
        // Prometheus explains refused queries. Samples in an error response are ignored.
        match status.is_success() {
            true => Ok(samples),
            false => Err(format!("the answer has the status {status}")),
        }
    }
}

fn samples(body: &[u8]) -> Result<Vec<f64>, String> {
    let answer: QueryAnswer =
        serde_json::from_slice(body).map_err(|_| "the answer is not one of Prometheus".to_owned())?;
    if answer.status != "success" {
        return Err(answer.error.chars().take(ERROR_CHARS_MAX).collect());
    }
    let texts = match answer.data.ok_or("the answer has no data")? {
        Data::Vector(series) => series.into_iter().map(|series| series.value.1).collect(),
        Data::Scalar((_, text)) => vec![text],
        Data::Matrix(_) | Data::String(_) => return Err("the query gives no number".to_owned()),
    };
    let numbers = texts.iter().filter_map(|text| text.parse::<f64>().ok());
    Ok(numbers.filter(|number| !number.is_nan()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Responses recorded from a server of version 2.53.
    #[test]
    fn answers_are_read_by_their_type() {
        let of = |json: &str| samples(json.as_bytes());
        let vector = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"up"},"value":[1435781451.781,"1"]},
            {"metric":{},"value":[1435781451.781,"+Inf"]}]}}"#;
        assert_eq!(of(vector), Ok(vec![1.0, f64::INFINITY]));
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1435781451.781,"0.5"]}}"#;
        assert_eq!(of(scalar), Ok(vec![0.5]));
        assert_eq!(of(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#), Ok(vec![]));
        let nan = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"NaN"]}]}}"#;
        assert_eq!(of(nan), Ok(vec![]), "no sample");
        let refused = r#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end of input"}"#;
        assert_eq!(of(refused), Err("parse error: unexpected end of input".to_owned()));
        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
        assert_eq!(of(matrix), Err("the query gives no number".to_owned()));
        assert!(of("<html>").is_err());
    }
}
