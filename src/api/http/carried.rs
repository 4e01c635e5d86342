//! Share of a request in the budget of bodies and answers ([`crate::budget`]): an extension of requests that
//! [`super::layers::track`] adds, and the refusal of requests without room.

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

/// Origin of a request, and the bytes of its body, held until it is answered.
#[derive(Clone)]
pub(crate) struct Carried {
    budget: Budget,
    /// True for reads: their answer may be refused for lack of room, because nothing was changed.
    is_read: bool,
    share: Arc<Mutex<Charge>>,
}

struct Charge {
    /// Origin by address, and by user once the caller is known.
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

    /// Counts for the caller from here on; must be called before anything is held.
    pub(crate) fn count_for(&self, caller: &Caller) {
        self.share.lock().origin = caller.origin();
    }

    fn origin(&self) -> Origin {
        self.share.lock().origin
    }

    /// Waits for room for a body of `bytes` bytes; small ones need none.
    pub(crate) async fn wait_for(&self, bytes: usize) -> Result<Held, ApiError> {
        if bytes <= limits::BODY_BYTES_FREE {
            return Ok(self.budget.nothing(self.origin()));
        }
        self.budget.wait(self.origin(), bytes).await.map_err(too_much)
    }

    /// Holds the room of a body until the request is answered.
    pub(crate) fn keep(&self, held: Held) {
        self.share.lock().body.push(held);
    }

    /// Releases the room of the body, for a waiting request that no longer needs it.
    pub(crate) fn let_go(&self) {
        self.share.lock().body.clear();
    }

    /// Counts a large answer until it is sent; returns a refusal if a read finds no room.
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
