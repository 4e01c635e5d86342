//! Services of Polaris: naming, discovery of services and rules, and config files, for its SDKs.
//!
//! This module translates messages to [`Operations`] and [`ConfigReads`] and back; `crate::polaris` maps the content.
//! Each call is answered with a code in its message, as SDKs expect it. A status of gRPC is the answer where another
//! node or a later call may succeed, and at the end of a stream.
//!
//! | call | for |
//! |---|---|
//! | RegisterInstance, DeregisterInstance, Heartbeat | role `client` or `editor` on the service |
//! | Discover | readers, as on the ports of other clients; one answer for each question |
//! | ReportClient | everybody admitted; answered with the location of the instance on the client's host |
//! | GetConfigFile, WatchConfigFiles, GetConfigFileMetadataList | readers |
//! | the other calls on config files | the rights of the same operations over HTTP |

mod config;
mod config_files;
mod discover;
mod naming;
mod sdks;

use std::sync::Arc;

use axum::http::Extensions;
use tonic::service::Routes;
use tonic::{Request, Status};

use super::HealthWatch;
use super::admission::{CredentialFault, Visitor};
use super::ads::check;
use super::paths::content_bytes_max;
use crate::model::code::{Code, Refusal};
use crate::operations::{Caller, Operations};
use crate::polaris::codes::{self, CodeOrStatus};
use crate::proto::polaris::polaris_config_grpc_server::PolarisConfigGrpcServer;
use crate::proto::polaris::polaris_grpc_server::PolarisGrpcServer;
use crate::proto::polaris::polaris_service_contract_grpc_server::PolarisServiceContractGrpcServer;
use crate::reads::{ConfigReads, LocalView, ReadRefusal};
use sdks::Sdks;

/// Parts of a node that the services use.
pub(super) struct PolarisDoor {
    pub(super) operations: Arc<Operations>,
    pub(super) reads: ConfigReads<LocalView>,
    pub(super) health: HealthWatch,
    sdks: Sdks,
}

/// Sender of a call.
struct Sdk {
    visitor: Visitor,
    /// Program of the client, with the version that it reported.
    agent: String,
}

impl PolarisDoor {
    pub(super) fn new(operations: Arc<Operations>, reads: ConfigReads<LocalView>, health: HealthWatch) -> Self {
        PolarisDoor { operations, reads, health, sdks: Sdks::default() }
    }

    /// Adds the services to the routes.
    pub(super) fn add_to(self, routes: Routes) -> Routes {
        let bytes_max = content_bytes_max(&self.operations);
        let door = Arc::new(self);
        let config = PolarisConfigGrpcServer::from_arc(door.clone()).max_decoding_message_size(bytes_max);
        routes
            .add_service(PolarisGrpcServer::from_arc(door.clone()))
            .add_service(PolarisServiceContractGrpcServer::from_arc(door))
            .add_service(config.max_encoding_message_size(usize::MAX))
    }

    /// Returns the sender of a call, if the node serves it.
    fn sdk<T>(&self, request: &Request<T>) -> Result<Sdk, Failure> {
        check(&self.health)?;
        let visitor = admitted(request.extensions())?;
        let agent = request.metadata().get("user-agent").and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let agent = self.sdks.agent(visitor.address, agent);
        Ok(Sdk { visitor, agent })
    }

    /// Returns the caller of a write, which is never anonymous.
    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Failure> {
        check(&self.health)?;
        admitted(request.extensions())?.caller.ok_or_else(|| Code::EmptyAuthToken.into())
    }
}

/// Returns the sender that was admitted, or the reason why it was not.
fn admitted(extensions: &Extensions) -> Result<Visitor, Failure> {
    match extensions.get::<CredentialFault>() {
        Some(fault) => Err(fault.clone().into()),
        None => Ok(Visitor::of(extensions)?),
    }
}

/// Reason why a call fails.
enum Failure {
    /// Code in the answer, or the status for it.
    Refusal(Refusal),
    Status(Status),
}

impl Failure {
    /// Returns the code and the text of the answer.
    fn coded(self) -> Result<(u32, String), Status> {
        let refusal = match self {
            Failure::Refusal(refusal) => refusal,
            Failure::Status(status) => return Err(status),
        };
        match codes::answer(refusal.code) {
            CodeOrStatus::Code(number) => Ok((number, refusal.info())),
            CodeOrStatus::Unavailable => Err(Status::unavailable(refusal.info())),
            CodeOrStatus::Exhausted => Err(Status::resource_exhausted(refusal.info())),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Refusal(refusal)
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Failure::Refusal(code.into())
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Failure::Status(status)
    }
}

/// A wrong or missing token is a code in the answer; a limit, or a node that cannot know, is a status.
impl From<CredentialFault> for Failure {
    fn from(CredentialFault { code, status }: CredentialFault) -> Self {
        match status.code() {
            tonic::Code::Unauthenticated => Failure::Refusal(Refusal::new(code, status.message())),
            _ => Failure::Status(status),
        }
    }
}

impl From<ReadRefusal> for Failure {
    fn from(refusal: ReadRefusal) -> Self {
        let text = refusal.to_string();
        let code = match refusal {
            ReadRefusal::BadRequest(_) => Code::BadRequest,
            // A client without a token was refused at its admission.
            ReadRefusal::Unauthorized | ReadRefusal::Token(_) => Code::TokenNotExisted,
            ReadRefusal::Unsigned(_) | ReadRefusal::Withheld => Code::NotAllowedAccess,
            ReadRefusal::NotFound => Code::NotFoundResource,
            ReadRefusal::Damaged(_) | ReadRefusal::Sealed | ReadRefusal::Failed => Code::ExecuteException,
            ReadRefusal::Behind | ReadRefusal::OutOfService(_) => return Failure::Status(Status::unavailable(text)),
            ReadRefusal::Full(_) => return Failure::Status(Status::resource_exhausted(text)),
        };
        Failure::Refusal(Refusal::new(code, text))
    }
}
