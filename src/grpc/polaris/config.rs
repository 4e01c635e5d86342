//! Config files: reads and watches of clients, and writes of SDKs.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream::StreamExt;
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::config_files::{ConfigFiles, FilePlace};
use super::{Failure, PolarisDoor};
use crate::catalog::Op;
use crate::catalog::configs::md5_of;
use crate::model::code::Code;
use crate::model::config_file::ConfigKey;
use crate::operations::one;
use crate::polaris::config::{file_draft, publish_draft, release_draft};
use crate::polaris::v1;
use crate::proto::polaris::polaris_config_grpc_server::PolarisConfigGrpc;

type Unary = Result<Response<v1::ConfigClientResponse>, Status>;

/// Kinds of questions on the stream of the Rust SDK: a file, and the names of the files of a group.
const FILE: i32 = 1;
const NAMES: i32 = 2;

#[async_trait]
impl PolarisConfigGrpc for PolarisDoor {
    type DiscoverStream = Pin<Box<dyn Stream<Item = Result<v1::ConfigDiscoverResponse, Status>> + Send>>;

    async fn get_config_file(&self, request: Request<v1::ClientConfigFileInfo>) -> Unary {
        let found = match self.sdk(&request) {
            Ok(sdk) => self.files().file(&sdk, request.get_ref()).await,
            Err(failure) => Err(failure),
        };
        answer(found.map(Some), Some(named(request.into_inner())))
    }

    async fn watch_config_files(&self, request: Request<v1::ClientWatchConfigFileRequest>) -> Unary {
        let news = match self.sdk(&request) {
            Ok(sdk) => self.files().news(&sdk, request.into_inner()).await,
            Err(failure) => Err(failure),
        };
        match news {
            Ok(Some(file)) => answer(Ok(Some(file)), None),
            Ok(None) => Ok(Response::new(coded(Code::DataNoChange))),
            Err(failure) => answer(Err(failure), None),
        }
    }

    async fn get_config_file_metadata_list(
        &self,
        request: Request<v1::ConfigFileGroupRequest>,
    ) -> Result<Response<v1::ConfigClientListResponse>, Status> {
        let (asked, sdk) = (request.get_ref(), self.sdk(&request));
        let group = asked.config_file_group.clone().unwrap_or_default();
        let (namespace, name) = (group.namespace.unwrap_or_default(), group.name.unwrap_or_default());
        let listed = match sdk {
            Ok(sdk) => self.files().list(&sdk, (&namespace, &name), &asked.client_labels).await,
            Err(failure) => Err(failure),
        };
        let known = asked.revision.as_deref().unwrap_or_default();
        let list = |code: Code| v1::ConfigClientListResponse {
            code: Some(code.number()),
            info: Some(code.info().to_owned()),
            namespace: namespace.clone(),
            group: name.clone(),
            ..v1::ConfigClientListResponse::default()
        };
        let response = match listed {
            Ok((_, infos)) if infos.is_empty() => list(Code::ExecuteSuccess),
            Ok((revision, _)) if revision == known => {
                v1::ConfigClientListResponse { revision: Some(revision), ..list(Code::DataNoChange) }
            }
            Ok((revision, infos)) => v1::ConfigClientListResponse {
                revision: Some(revision),
                config_file_infos: infos,
                ..list(Code::ExecuteSuccess)
            },
            Err(failure) => {
                let (code, info) = failure.coded()?;
                v1::ConfigClientListResponse { code: Some(code), info: Some(info), ..list(Code::ExecuteException) }
            }
        };
        Ok(Response::new(response))
    }

    async fn create_config_file(&self, request: Request<v1::ConfigFile>) -> Unary {
        self.write_file(Op::Create, request).await
    }

    async fn update_config_file(&self, request: Request<v1::ConfigFile>) -> Unary {
        self.write_file(Op::Update, request).await
    }

    async fn publish_config_file(&self, request: Request<v1::ConfigFileRelease>) -> Unary {
        let draft = release_draft(request.get_ref());
        let key = draft.key();
        let done = async {
            let caller = self.caller(&request)?;
            let (outcomes, _) = self.operations.publish_files(&caller, vec![Ok(draft)], false).await?;
            one(Ok(outcomes))?;
            Ok(())
        };
        let done: Result<(), Failure> = done.await;
        answer(done.map(|()| Some(self.files().published(&key))), Some(of_key(&key)))
    }

    async fn upsert_and_publish_config_file(&self, request: Request<v1::ConfigFilePublishInfo>) -> Unary {
        let draft = publish_draft(request.get_ref(), |md5, content| md5.eq_ignore_ascii_case(&md5_of(content)));
        let key = draft.file.key();
        let done = async {
            let caller = self.caller(&request)?;
            let (outcomes, _) = self.operations.create_and_publish_files(&caller, vec![Ok(draft)], false).await?;
            one(Ok(outcomes))?;
            Ok(())
        };
        let done: Result<(), Failure> = done.await;
        answer(done.map(|()| Some(self.files().published(&key))), Some(of_key(&key)))
    }

    /// Answers each question of a stream, and keeps a silent one open: the Rust SDK opens one at its start, and cannot
    /// open another.
    async fn discover(
        &self,
        request: Request<Streaming<v1::ConfigDiscoverRequest>>,
    ) -> Result<Response<Self::DiscoverStream>, Status> {
        let sdk = match self.sdk(&request) {
            Ok(sdk) => Arc::new(sdk),
            Err(Failure::Status(status)) => return Err(status),
            Err(Failure::Refusal(refusal)) => return Err(Status::unauthenticated(refusal.info())),
        };
        let files = self.files();
        let answers = request.into_inner().then(move |asked| {
            let (files, sdk) = (files.clone(), sdk.clone());
            async move { files.discovered(&sdk, asked?).await }
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

fn coded(code: Code) -> v1::ConfigClientResponse {
    v1::ConfigClientResponse { code: Some(code.number()), info: Some(code.info().to_owned()), config_file: None }
}

/// Returns the answer with a file; `failed` is that of a failure.
fn answer(done: Result<Option<v1::ClientConfigFileInfo>, Failure>, failed: Option<v1::ClientConfigFileInfo>) -> Unary {
    let response = match done {
        Ok(config_file) => v1::ConfigClientResponse { config_file, ..coded(Code::ExecuteSuccess) },
        Err(failure) => {
            let (code, info) = failure.coded()?;
            v1::ConfigClientResponse { code: Some(code), info: Some(info), config_file: failed }
        }
    };
    Ok(Response::new(response))
}

/// Returns the names of a file alone.
fn named(asked: v1::ClientConfigFileInfo) -> v1::ClientConfigFileInfo {
    let v1::ClientConfigFileInfo { namespace, group, file_name, .. } = asked;
    v1::ClientConfigFileInfo { namespace, group, file_name, ..v1::ClientConfigFileInfo::default() }
}

fn of_key(key: &ConfigKey) -> v1::ClientConfigFileInfo {
    v1::ClientConfigFileInfo {
        namespace: Some(key.namespace.clone()),
        group: Some(key.group.clone()),
        file_name: Some(key.file.clone()),
        ..v1::ClientConfigFileInfo::default()
    }
}

impl PolarisDoor {
    fn files(&self) -> ConfigFiles {
        ConfigFiles { operations: self.operations.clone(), reads: self.reads.clone() }
    }

    async fn write_file(&self, op: Op, request: Request<v1::ConfigFile>) -> Unary {
        let draft = file_draft(request.get_ref());
        let key = draft.key();
        let done = async {
            let caller = self.caller(&request)?;
            let (outcomes, _) = self.operations.config_files(&caller, op, vec![Ok(draft)]).await?;
            one(Ok(outcomes))?;
            Ok(())
        };
        let done: Result<(), Failure> = done.await;
        answer(done.map(|()| Some(of_key(&key))), Some(of_key(&key)))
    }
}

impl ConfigFiles {
    async fn discovered(
        &self,
        sdk: &super::Sdk,
        asked: v1::ConfigDiscoverRequest,
    ) -> Result<v1::ConfigDiscoverResponse, Status> {
        let file = asked.config_file.unwrap_or_default();
        let empty = v1::ConfigDiscoverResponse {
            code: Code::ExecuteSuccess.number(),
            info: Code::ExecuteSuccess.info().to_owned(),
            r#type: asked.r#type,
            ..v1::ConfigDiscoverResponse::default()
        };
        let answered = match asked.r#type {
            FILE => self.file(sdk, &file).await.map(|found| v1::ConfigDiscoverResponse {
                revision: found.version.unwrap_or_default().to_string(),
                config_file: Some(found),
                ..empty.clone()
            }),
            NAMES => {
                let place = FilePlace::of_group(&file);
                let listed = self.list(sdk, (&place.0, &place.1), &Default::default()).await;
                listed.map(|(revision, infos)| v1::ConfigDiscoverResponse {
                    code: if revision == asked.revision { Code::DataNoChange.number() } else { empty.code },
                    config_file_names: if revision == asked.revision { Vec::new() } else { infos },
                    revision,
                    ..empty.clone()
                })
            }
            _ => Err(Code::BadRequest.into()),
        };
        match answered {
            Ok(answer) => Ok(answer),
            Err(failure) => {
                let (code, info) = failure.coded()?;
                Ok(v1::ConfigDiscoverResponse { code, info, ..empty })
            }
        }
    }
}
