//! The share of a request in the budget for bodies and answers ([`crate::budget`]): an extension of requests that
//! [`super::layers::track`] adds, and the refusal of a request that gets none.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;

use super::error::ApiError;
use crate::budget::{self, Budget, Held};
use crate::model::code::Code;
use crate::model::limits;
use crate::origin::{Origin, Short};

/// The origin of a request, and the bytes of its body that are held until it is answered.
#[derive(Clone)]
pub(crate) struct Carried {
    budget: Budget,
    origin: Origin,
    /// Nothing is done, so nothing is left undone where there is no room for the answer.
    is_read: bool,
    body: Arc<Mutex<Vec<Held>>>, // bound: bodies
}

impl Carried {
    pub(crate) fn new(budget: &Budget, origin: Origin, is_read: bool) -> Carried {
        Carried { budget: budget.clone(), origin, is_read, body: Arc::default() }
    }

    pub(crate) fn of(request: &Request) -> Option<Carried> {
        request.extensions().get::<Carried>().cloned()
    }

    /// Room for a body of so many bytes; small ones need none.
    pub(crate) async fn wait_for(&self, bytes: usize) -> Result<Held, ApiError> {
        if bytes <= limits::BODY_BYTES_FREE {
            return Ok(self.budget.nothing(self.origin));
        }
        self.budget.wait(self.origin, bytes).await.map_err(too_much)
    }

    /// Keeps what a body takes until the request is answered.
    pub(crate) fn keep(&self, held: Held) {
        self.body.lock().push(held);
    }

    /// Gives back what is held of the body: its request waits, and does not need it any more.
    pub(crate) fn let_go(&self) {
        self.body.lock().clear();
    }

    /// The answer, which counts until it is sent where it is large; or a refusal, where there is no room for it.
    pub(crate) fn counted(&self, response: Response) -> Response {
        let Some(bytes) = budget::counted(&response) else { return response };
        if !self.is_read || !response.status().is_success() {
            return budget::hold(response, self.budget.charge(self.origin, bytes));
        }
        match self.budget.take(self.origin, bytes) {
            Ok(held) => budget::hold(response, held),
            Err(short) => too_much(short).into_response(),
        }
    }
}

pub(crate) fn too_much(short: Short) -> ApiError {
    let whose = match short {
        Short::Origin => "of one address",
        Short::Total => "of all clients",
    };
    ApiError::new(Code::TooMuchUnderWay, format!("bodies and answers {whose} take as much memory as they may"))
}
