//! State shared by the handlers.

use std::sync::Arc;

use axum::response::Response;
use ipnet::IpNet;

use super::error::ApiError;
use crate::budget::Budget;
use crate::catalog::Catalog;
use crate::compression::CompressedAnswers;
use crate::hosts::Hosts;
use crate::openapi::LazyDocument;
use crate::operations::Operations;
use crate::operations::replica::Replica;
use crate::sso::IdentityProviders;

/// Response of a handler, or its refusal.
pub(crate) type ApiResult = Result<Response, ApiError>;

/// Settings of the surface.
pub struct ApiSettings {
    /// Networks of proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Budget of bodies and large responses in flight; `None` if they are not counted.
    pub budget: Option<Budget>,
    /// Host names that the listener answers to.
    pub hosts: Hosts,
    /// True if `/metrics` has its own listener, see [`crate::api::metrics_router`].
    pub metrics_elsewhere: bool,
    /// Response to `/openapi.json`.
    pub document: LazyDocument,
}

/// State shared by the handlers; cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) operations: Arc<Operations>,
    pub(crate) settings: Arc<ApiSettings>,
    /// Cache of compressed answers, shared by clients that get the same answer.
    pub(crate) compressed: Arc<CompressedAnswers>,
}

impl App {
    pub fn new(operations: Arc<Operations>, settings: ApiSettings) -> Self {
        App { operations, settings: Arc::new(settings), compressed: Arc::default() }
    }

    pub(crate) fn node(&self) -> &Arc<dyn Replica> {
        self.operations.node()
    }

    /// Returns the identity providers as this node knows them, for the surface of config clients.
    pub fn identity_providers(&self) -> &Arc<IdentityProviders> {
        self.operations.identity_providers()
    }

    /// Calls [`Operations::scan`]; refusals have this surface's form.
    pub(crate) async fn scan<T, A: Send + 'static>(
        &self,
        reach: usize,
        find: impl FnOnce(&Catalog) -> T + Send + 'static,
        answer: impl FnOnce(T) -> A + Send + 'static,
    ) -> Result<A, ApiError> {
        Ok(self.operations.scan(reach, find, answer).await?)
    }
}
