//! State that the handlers share.

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

/// Response of a handler, or its refusal.
pub(crate) type ApiResult = Result<Response, ApiError>;

/// Settings of the surface.
pub struct ApiSettings {
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Of bodies and large answers under way; none where they are not counted.
    pub budget: Option<Budget>,
    /// The names that the listener answers to.
    pub hosts: Hosts,
    /// `/metrics` has a listener of its own, see [`crate::api::metrics_router`].
    pub metrics_elsewhere: bool,
    /// Response to `/openapi.json`.
    pub document: LazyDocument,
}

/// State that the handlers share; cheap to clone.
#[derive(Clone)]
pub struct App {
    pub(crate) operations: Arc<Operations>,
    pub(crate) settings: Arc<ApiSettings>,
    /// Answers that were compressed, for the next who get the same.
    pub(crate) compressed: Arc<CompressedAnswers>,
}

impl App {
    pub fn new(operations: Arc<Operations>, settings: ApiSettings) -> Self {
        App { operations, settings: Arc::new(settings), compressed: Arc::default() }
    }

    pub(crate) fn node(&self) -> &Arc<dyn Replica> {
        self.operations.node()
    }

    /// [`Operations::scan`], refused in this surface's form.
    pub(crate) async fn scan<T, A: Send + 'static>(
        &self,
        reach: usize,
        find: impl FnOnce(&Catalog) -> T + Send + 'static,
        answer: impl FnOnce(T) -> A + Send + 'static,
    ) -> Result<A, ApiError> {
        Ok(self.operations.scan(reach, find, answer).await?)
    }
}
