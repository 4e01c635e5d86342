//! Config files of SDKs: reads, watches and writes.

use std::time::{Duration, Instant};

use thuban::polaris::v1;

use super::{text, with_token};
use crate::grpc::client;
use crate::harness::{Cluster, GrpcClient};
use crate::polls::await_held;

const CONFIG: &str = "/v1.PolarisConfigGRPC";

pub(super) fn file(version: u64) -> v1::ClientConfigFileInfo {
    v1::ClientConfigFileInfo {
        namespace: text("shop"),
        group: text("g"),
        file_name: text("a.yaml"),
        version: Some(version),
        ..v1::ClientConfigFileInfo::default()
    }
}

pub(super) async fn get(client: &GrpcClient, asked: &v1::ClientConfigFileInfo) -> v1::ConfigClientResponse {
    client.call(&format!("{CONFIG}/GetConfigFile"), asked).await.expect("an answer")
}

pub(super) fn watch(
    client: &GrpcClient,
    files: Vec<v1::ClientConfigFileInfo>,
) -> tokio::task::JoinHandle<v1::ConfigClientResponse> {
    let request = v1::ClientWatchConfigFileRequest { watch_files: files, ..Default::default() };
    let client = client.clone();
    tokio::spawn(async move {
        let mut call = client.open(&format!("{CONFIG}/WatchConfigFiles"));
        call.send(&request).await;
        call.finish();
        call.next().await.expect("an answer")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn config_files_are_read_watched_and_written() {
    let cluster = Cluster::start(1).await;
    let (api, sdk) = (cluster.api(1), with_token(&cluster).await);
    assert_eq!(get(&sdk, &file(0)).await.code, Some(400_202));
    assert_eq!(get(&sdk, &v1::ClientConfigFileInfo::default()).await.code, Some(400_000));
    let held = watch(&sdk, vec![file(0)]);
    await_held(&api, 1).await;
    let began = Instant::now();
    api.publish("shop", "g", "a.yaml", "a: 1").await.expect_code(200_000);
    let news = held.await.expect("no panic");
    let told = news.config_file.expect("a file");
    assert_eq!((news.code, told.file_name.clone(), told.group), (Some(200_000), text("a.yaml"), text("g")));
    assert!(began.elapsed() < Duration::from_secs(5));
    let found = get(&sdk, &file(told.version.expect("a version"))).await;
    let content = found.config_file.expect("a file");
    assert_eq!((found.code, content.content.as_deref()), (Some(200_000), Some("a: 1")));
    assert_eq!((content.version, content.encrypted, &content.md5), (told.version, Some(false), &told.md5));
    assert_eq!(content.md5.as_ref().map(String::len), Some(32));
    // Also an earlier content has a greater number.
    let mut known = content.version.expect("a version");
    for content in ["a: 2", "a: 3", "a: 1"] {
        api.publish("shop", "g", "a.yaml", content).await.expect_code(200_000);
        let news = watch(&sdk, vec![file(known)]).await.expect("no panic").config_file.expect("a file");
        let version = news.version.expect("a version");
        assert!(version > known, "{version} after {known}");
        known = version;
    }
    let empty = v1::ClientWatchConfigFileRequest::default();
    let answer: v1::ConfigClientResponse =
        sdk.call(&format!("{CONFIG}/WatchConfigFiles"), &empty).await.expect("an answer");
    assert_eq!(answer.code, Some(400_000));
    // Writes.
    let draft = |content: &str| v1::ConfigFile {
        namespace: text("shop"),
        group: text("g"),
        name: text("b.json"),
        content: text(content),
        format: text("json"),
        ..v1::ConfigFile::default()
    };
    let write = async |client: &GrpcClient, method: &str, draft: &v1::ConfigFile| {
        let path = format!("{CONFIG}/{method}");
        client.call::<v1::ConfigClientResponse>(&path, draft).await.expect("an answer").code
    };
    assert_eq!(write(&client(&cluster).await, "CreateConfigFile", &draft("{}")).await, Some(401_002));
    assert_eq!(write(&sdk, "CreateConfigFile", &draft("{}")).await, Some(200_000));
    assert_eq!(write(&sdk, "CreateConfigFile", &draft("{}")).await, Some(400_201));
    assert_eq!(write(&sdk, "UpdateConfigFile", &draft("{\"a\": 1}")).await, Some(200_000));
    let release = v1::ConfigFileRelease {
        namespace: text("shop"),
        group: text("g"),
        file_name: text("b.json"),
        ..v1::ConfigFileRelease::default()
    };
    let path = format!("{CONFIG}/PublishConfigFile");
    let published: v1::ConfigClientResponse = sdk.call(&path, &release).await.expect("an answer");
    let published = (published.code, published.config_file.and_then(|file| file.version));
    assert!(published.0 == Some(200_000) && published.1 > Some(0), "{published:?}");
    for content in ["{\"a\": 2}", "{\"a\": 3}"] {
        let info = v1::ConfigFilePublishInfo {
            namespace: text("shop"),
            group: text("g"),
            file_name: text("b.json"),
            content: text(content),
            format: text("json"),
            ..v1::ConfigFilePublishInfo::default()
        };
        let path = format!("{CONFIG}/UpsertAndPublishConfigFile");
        let answer: v1::ConfigClientResponse = sdk.call(&path, &info).await.expect("an answer");
        assert_eq!(answer.code, Some(200_000), "{answer:?}");
        let asked = v1::ClientConfigFileInfo { file_name: text("b.json"), ..file(0) };
        let found = get(&sdk, &asked).await.config_file.expect("a file");
        assert_eq!(found.content.as_deref(), Some(content));
        // SDKs send the MD5 of the new content.
        let again = v1::ConfigFilePublishInfo { md5: found.md5.clone(), ..info.clone() };
        let answer: v1::ConfigClientResponse = sdk.call(&path, &again).await.expect("an answer");
        assert_eq!(answer.code, Some(200_000), "{answer:?}");
    }
    let group = v1::ConfigFileGroup { namespace: text("shop"), name: text("g") };
    let asked = |revision: &str| v1::ConfigFileGroupRequest {
        revision: text(revision),
        config_file_group: Some(group.clone()),
        ..Default::default()
    };
    let path = format!("{CONFIG}/GetConfigFileMetadataList");
    let list: v1::ConfigClientListResponse = sdk.call(&path, &asked("")).await.expect("an answer");
    assert_eq!((list.code, list.namespace.as_str(), list.group.as_str()), (Some(200_000), "shop", "g"));
    let info = list.config_file_infos.iter().find(|info| info.file_name == text("b.json")).expect("a row");
    let at = info.release_time.as_deref().expect("a time");
    assert!(at.len() == 19 && at.as_bytes()[10] == b' ', "{at}");
    let known = list.revision.expect("a revision");
    let same: v1::ConfigClientListResponse = sdk.call(&path, &asked(&known)).await.expect("an answer");
    assert_eq!((same.code, same.config_file_infos.len()), (Some(200_001), 0));
}
