//! Instances that register themselves, and reports of clients.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{Failure, PolarisDoor};
use crate::catalog::{Command, Entity, Op};
use crate::model::code::Code;
use crate::model::instance::Location;
use crate::operations::one;
use crate::polaris::naming::{draft, location, named};
use crate::polaris::v1;
use crate::proto::polaris::polaris_grpc_server::PolarisGrpc;
use crate::proto::polaris::polaris_service_contract_grpc_server::PolarisServiceContractGrpc;

type Unary = Result<Response<v1::Response>, Status>;

#[async_trait]
impl PolarisGrpc for PolarisDoor {
    type DiscoverStream = Pin<Box<dyn Stream<Item = Result<v1::DiscoverResponse, Status>> + Send>>;

    async fn report_client(&self, request: Request<v1::Client>) -> Unary {
        let client = self.report(&request);
        answer(client, |client| v1::Response { client: Some(client), ..v1::Response::default() }, None)
    }

    async fn register_instance(&self, request: Request<v1::Instance>) -> Unary {
        let done = self.register(&request).await;
        of_instance(done, request.into_inner())
    }

    async fn deregister_instance(&self, request: Request<v1::Instance>) -> Unary {
        let done = self.deregister(&request).await;
        of_instance(done, request.into_inner())
    }

    async fn heartbeat(&self, request: Request<v1::Instance>) -> Unary {
        let done = self.beat(&request).await;
        of_instance(done, request.into_inner())
    }

    async fn discover(
        &self,
        request: Request<Streaming<v1::DiscoverRequest>>,
    ) -> Result<Response<Self::DiscoverStream>, Status> {
        let (sdk, door) = (self.sdk(&request), self.shared());
        // A stream has no message for a refusal of the whole client.
        let sdk = sdk.map_err(|failure| match failure {
            Failure::Status(status) => status,
            Failure::Refusal(refusal) => Status::unauthenticated(refusal.info()),
        })?;
        Ok(Response::new(door.answers(sdk, request.into_inner())))
    }
}

/// Contracts of services are accepted, and nothing keeps them.
#[async_trait]
impl PolarisServiceContractGrpc for PolarisDoor {
    async fn report_service_contract(&self, request: Request<v1::ServiceContract>) -> Unary {
        answer(self.sdk(&request).map(drop), |()| v1::Response::default(), None)
    }

    async fn get_service_contract(&self, request: Request<v1::ServiceContract>) -> Unary {
        answer(self.sdk(&request).map(drop), |()| v1::Response::default(), None)
    }
}

/// Returns the answer with the instance: the registered one, or that of the request.
fn of_instance(done: Result<String, Failure>, asked: v1::Instance) -> Unary {
    let whole = v1::Instance { service_token: None, ..asked.clone() };
    let of_id = |id| v1::Response { instance: Some(named(&asked, id)), ..v1::Response::default() };
    answer(done, of_id, Some(whole))
}

fn answer<T>(done: Result<T, Failure>, make: impl FnOnce(T) -> v1::Response, failed: Option<v1::Instance>) -> Unary {
    let success = || (Code::ExecuteSuccess.number(), Code::ExecuteSuccess.info().to_owned());
    let (response, (code, info)) = match done {
        Ok(done) => (make(done), success()),
        Err(failure) => (v1::Response { instance: failed, ..v1::Response::default() }, failure.coded()?),
    };
    Ok(Response::new(v1::Response { code: Some(code), info: Some(info), ..response }))
}

impl PolarisDoor {
    /// Registers an instance, or replaces it. Returns its id.
    async fn register(&self, request: &Request<v1::Instance>) -> Result<String, Failure> {
        let (caller, draft) = (self.caller(request)?, draft(request.get_ref()));
        draft.check_new()?;
        let id = draft.instance_id();
        let command = |items| Command::Instances(Op::Create, items);
        let outcome = one(self.operations.write_of_itself(&caller, vec![Ok(draft)], command).await)?;
        Ok(if let Entity::Instance(instance) = outcome.entity { instance.id.clone() } else { id })
    }

    /// Deletes an instance; one that is not there is success.
    async fn deregister(&self, request: &Request<v1::Instance>) -> Result<String, Failure> {
        let (caller, draft) = (self.caller(request)?, draft(request.get_ref()));
        draft.check_named()?;
        let id = draft.instance_id();
        let command = |items| Command::Instances(Op::Delete, items);
        one(self.operations.write_of_itself(&caller, vec![Ok(draft)], command).await)?;
        Ok(id)
    }

    /// Takes a heartbeat. An instance without health checks needs none, and its beats are success all the same.
    async fn beat(&self, request: &Request<v1::Instance>) -> Result<String, Failure> {
        let (caller, draft) = (self.caller(request)?, draft(request.get_ref()));
        draft.check_named()?;
        let id = draft.instance_id();
        let beats = self.operations.expecting_beats(&caller, vec![Ok(id.clone())]).await?;
        match beats.into_iter().next() {
            Some(Err(refusal)) if refusal.code == Code::HealthCheckNotOpen => {}
            Some(Err(refusal)) => return Err(refusal.into()),
            Some(Ok(id)) => {
                let beat = self.operations.node().member().beat([id]).await;
                beat.map_err(|error| Failure::Refusal(error.into()))?;
            }
            None => {}
        }
        Ok(id)
    }

    /// Notes the version of an SDK. Returns the client with the location of the instance on its host: SDKs that get
    /// none ask again and again.
    fn report(&self, request: &Request<v1::Client>) -> Result<v1::Client, Failure> {
        let (sdk, client) = (self.sdk(request)?, request.get_ref());
        let user_agent = request.metadata().get("user-agent").and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        if let Some(version) = client.version.as_deref().filter(|version| !version.is_empty()) {
            self.sdks.report(sdk.visitor.address, user_agent, version);
        }
        let host = client.host.clone().unwrap_or_default();
        let catalog = self.operations.node().state().catalog();
        let known = catalog.instances.on_host(&host).map(|instance| &instance.location);
        let known = known.filter(|known| **known != Location::default()).map(location).next();
        let location = known.or_else(|| client.location.clone()).unwrap_or_else(|| location(&Location::default()));
        Ok(v1::Client { host: Some(host), location: Some(location), ..v1::Client::default() })
    }

    fn shared(&self) -> Arc<super::discover::Answering> {
        Arc::new(super::discover::Answering { operations: self.operations.clone(), health: self.health.clone() })
    }
}
