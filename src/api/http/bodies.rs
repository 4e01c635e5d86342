//! Bodies of requests, read within limits of size, time and the budget of bytes in flight.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::CONTENT_ENCODING;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::Instant;

use super::carried::{Carried, too_much};
use super::error::ApiError;
use crate::budget;
use crate::model::code::Code;
use crate::model::limits;
use crate::tasks;

/// Time limit for a body.
const BODY_WITHIN: Duration = Duration::from_secs(5);
/// Time and bytes for which the rest of a refused body is still read.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);
const REFUSED_BYTES_MAX: usize = 8 * limits::BODY_BYTES_MAX;

/// Reads a body within [`limits::BODY_BYTES_MAX`]; a larger announced length is refused at once.
pub(crate) async fn read_body(request: Request) -> Result<Bytes, ApiError> {
    read_body_within(request, limits::BODY_BYTES_MAX).await
}

pub(crate) async fn read_body_within(request: Request, bytes_max: usize) -> Result<Bytes, ApiError> {
    let carried = Carried::of(&request);
    let encoding = request.headers().get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity").cloned();
    let mut body = request.into_body();
    if let Some(encoding) = encoding {
        let why = format!("a body with Content-Encoding {encoding:?} is not read, send it as it is");
        return Err(refused(body, ApiError::new(Code::ParseException, why)));
    }
    let announced = body.size_hint().lower();
    let is_announced = body.size_hint().exact().is_some();
    // Small bodies are not counted in the budget.
    let carried = carried.filter(|_| !is_announced || announced > limits::BODY_BYTES_FREE as u64);
    if announced > bytes_max as u64 {
        return Err(too_large(body, bytes_max));
    }
    let until = Instant::now() + BODY_WITHIN;
    let mut held = match &carried {
        Some(carried) => match carried.wait_for(usize::try_from(announced).unwrap_or(usize::MAX)).await {
            Ok(held) => Some(held),
            Err(error) => return Err(refused(body, error)),
        },
        None => None,
    };
    let limited = Limited::new(&mut body, bytes_max);
    let collect = async {
        match held.as_mut().filter(|_| !is_announced) {
            Some(held) => budget::collect(limited, held).await,
            None => Ok(Ok(limited.collect().await?.to_bytes())),
        }
    };
    match tokio::time::timeout_at(until, collect).await {
        Ok(Ok(Ok(bytes))) => {
            if let Some((carried, held)) = carried.zip(held) {
                carried.keep(held);
            }
            Ok(bytes)
        }
        Ok(Ok(Err(short))) => Err(refused(body, too_much(short))),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(body, bytes_max)),
        Ok(Err(error)) => Err(ApiError::new(Code::ParseException, error.to_string())),
        Err(_) => Err(ApiError::new(Code::ParseException, "the body did not arrive in time")),
    }
}

fn too_large(body: Body, bytes_max: usize) -> ApiError {
    refused(body, ApiError::new(Code::RequestTooLarge, format!("at most {bytes_max} bytes")))
}

/// Reads and drops the rest of the body while the answer is sent: a client whose connection is closed while it sends
/// sees an error instead of the answer.
fn refused(body: Body, error: ApiError) -> ApiError {
    tasks::errand(tokio::time::timeout(REFUSED_WITHIN, async move {
        let mut rest = Limited::new(body, REFUSED_BYTES_MAX);
        while let Some(Ok(_)) = rest.frame().await {}
    }));
    error
}
