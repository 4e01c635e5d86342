//! What stands around handlers.
//!
//! A layer made of a function, as axum has it, copies and boxes all that lies below it, for every request and at
//! every layer. This one is put around a handler before that becomes a route, several at a time, and costs a
//! request three small boxes.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::Response;
use tower::{Layer, Service};

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;
/// One type for all handlers: what stands around them is compiled once.
type Handler = Box<dyn FnOnce(Request) -> Answer + Send>;

/// What is done before a handler is asked, and with its answer.
pub trait Around: Clone + Send + Sync + 'static {
    /// `next` is what it stands around.
    fn serve<F>(
        self,
        request: Request,
        next: impl FnOnce(Request) -> F + Send,
    ) -> impl Future<Output = Response> + Send
    where
        F: Future<Output = Response> + Send;
}

/// The first one stands around the second.
impl<A: Around, B: Around> Around for (A, B) {
    fn serve<F>(self, request: Request, next: impl FnOnce(Request) -> F + Send) -> impl Future<Output = Response> + Send
    where
        F: Future<Output = Response> + Send,
    {
        let (outer, inner) = self;
        outer.serve(request, |request| inner.serve(request, next))
    }
}

/// Nothing, where there is nothing.
impl<A: Around> Around for Option<A> {
    async fn serve<F>(self, request: Request, next: impl FnOnce(Request) -> F + Send) -> Response
    where
        F: Future<Output = Response> + Send,
    {
        match self {
            Some(around) => around.serve(request, next).await,
            None => next(request).await,
        }
    }
}

/// [`Around`] as a layer.
#[derive(Clone)]
pub(crate) struct Surrounded<A>(pub A);

impl<A: Around, S> Layer<S> for Surrounded<A> {
    type Service = Surrounding<A, S>;

    fn layer(&self, inner: S) -> Self::Service {
        Surrounding { around: self.0.clone(), inner }
    }
}

/// A handler, and what stands around it.
#[derive(Clone)]
pub(crate) struct Surrounding<A, S> {
    around: A,
    inner: S,
}

impl<A, S> Service<Request> for Surrounding<A, S>
where
    A: Around,
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let mut inner = self.inner.clone();
        // Handlers and routes are always ready.
        let handler: Handler = Box::new(move |request| {
            let answer = inner.call(request);
            Box::pin(async move { answer.await.unwrap_or_else(|never| match never {}) })
        });
        let around = self.around.clone();
        Box::pin(async move { Ok(around.serve(request, handler).await) })
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::extract::State;
    use axum::handler::Handler;
    use axum::http::HeaderValue;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    /// Says what it was, on the way in and on the way out.
    #[derive(Clone)]
    struct Names(&'static str);

    impl Around for Names {
        async fn serve<F>(self, mut request: Request, next: impl FnOnce(Request) -> F + Send) -> Response
        where
            F: Future<Output = Response> + Send,
        {
            request.headers_mut().append("in", HeaderValue::from_static(self.0));
            let mut response = next(request).await;
            response.headers_mut().append("out", HeaderValue::from_static(self.0));
            response
        }
    }

    fn said<'a>(headers: &'a axum::http::HeaderMap, name: &str) -> Vec<&'a str> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
    }

    #[tokio::test]
    async fn each_stands_around_the_next_one_and_around_the_handler() {
        let handler = async |State(state): State<&'static str>, request: Request| {
            format!("{state} {}", said(request.headers(), "in").join(" "))
        };
        let router = Router::new()
            .route("/", get(handler.layer(Surrounded((Names("first"), Names("second"))))))
            .layer(Surrounded(Names("zeroth")))
            .with_state("state");
        for _ in 0..2 {
            let request = Request::builder().uri("/").body(Body::empty()).expect("a request");
            let response = router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
            assert_eq!(said(response.headers(), "out"), ["second", "first", "zeroth"]);
            let body = axum::body::to_bytes(response.into_body(), 100).await.expect("whole");
            assert_eq!(&body[..], b"state zeroth first second");
        }
    }
}
