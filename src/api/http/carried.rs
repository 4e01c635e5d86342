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
use crate::operations::Caller;
use crate::origin::{Origin, Short};

/// The origin of a request, and the bytes of its body that are held until it is answered.
#[derive(Clone)]
pub(crate) struct Carried {
    budget: Budget,
    /// Nothing is done, so nothing is left undone where there is no room for the answer.
    is_read: bool,
    share: Arc<Mutex<Charge>>,
}

struct Charge {
    /// The address, and once the caller is known the user of its token.
    origin: Origin,
    body: Vec<Held>, // bound: bodies
}

impl Carried {
    pub(crate) fn new(budget: &Budget, origin: Origin, is_read: bool) -> Carried {
        let share = Arc::new(Mutex::new(Charge { origin, body: Vec::new() }));
        Carried { budget: budget.clone(), is_read, share }
    }

    pub(crate) fn of(request: &Request) -> Option<Carried> {
        request.extensions().get::<Carried>().cloned()
    }

    /// Counts for a caller from here on: to be called before anything is held.
    pub(crate) fn count_for(&self, caller: &Caller) {
        self.share.lock().origin = caller.origin();
    }

    fn origin(&self) -> Origin {
        self.share.lock().origin
    }

    /// Room for a body of so many bytes; small ones need none.
    pub(crate) async fn wait_for(&self, bytes: usize) -> Result<Held, ApiError> {
        if bytes <= limits::BODY_BYTES_FREE {
            return Ok(self.budget.nothing(self.origin()));
        }
        self.budget.wait(self.origin(), bytes).await.map_err(too_much)
    }

    /// Keeps what a body takes until the request is answered.
    pub(crate) fn keep(&self, held: Held) {
        self.share.lock().body.push(held);
    }

    /// Gives back what is held of the body: its request waits, and does not need it any more.
    pub(crate) fn let_go(&self) {
        self.share.lock().body.clear();
    }

    /// The answer, which counts until it is sent where it is large; or a refusal, where there is no room for it.
    pub(crate) fn counted(&self, response: Response) -> Response {
        let Some(bytes) = budget::counted(&response) else { return response };
        if !self.is_read || !response.status().is_success() {
            return budget::hold(response, self.budget.charge(self.origin(), bytes));
        }
        match self.budget.take(self.origin(), bytes) {
            Ok(held) => budget::hold(response, held),
            Err(short) => too_much(short).into_response(),
        }
    }
}

pub(crate) fn too_much(short: Short) -> ApiError {
    let whose = match short {
        Short::Origin => "of one client",
        Short::Total => "of all clients",
    };
    ApiError::new(Code::TooMuchUnderWay, format!("bodies and answers {whose} take as much memory as they may"))
}
