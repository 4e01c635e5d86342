//! Contents of config files at their limits, over real HTTP.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Api, Cluster};

const CHARACTERS_MAX: usize = 1024 * 1024;
const PUBLISH: &str = "/config/v1/configfiles/createandpub";

/// What is not ASCII as `\uXXXX`, as some clients write all of it.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

async fn publish(api: &Api, name: &str, content: &str) -> Answer {
    let body = format!(
        "{{\"namespace\":\"default\",\"group\":\"app\",\"file_name\":\"{name}\",\"format\":\"text\",\"content\":\"{content}\"}}"
    );
    Answer::read(api.request(Method::POST, PUBLISH).body(body)).await.expect("an answer")
}

/// The limit counts characters: as many may be sent in any script, to any node, and come back the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_content_of_as_many_characters_as_there_may_be_is_taken_in_any_script() {
    let cluster = Cluster::start(3).await;
    let follower = cluster.followers().await[0];
    let api = cluster.api(follower);
    let rows = [
        ("ascii", "a", false),
        ("cjk", "字", false),
        ("cjk-escaped", "字", true),
        ("emoji", "🌟", false),
        ("controls", "\u{1}", true),
    ];
    for (name, character, is_escaped) in rows {
        let content = character.repeat(CHARACTERS_MAX);
        let sent = if is_escaped { escaped(&content) } else { content.clone() };
        publish(&api, name, &sent).await.expect_code(200_000);
        let more = format!("{sent}{}", if is_escaped { escaped(character) } else { character.to_owned() });
        publish(&api, name, &more).await.expect_code(400_803);
        let pulled = cluster.apollo(follower).get(&format!("/configfiles/raw/app/default/{name}")).await;
        assert_eq!((pulled.status, pulled.text.len()), (200, content.len()), "{name}");
        assert!(pulled.text == content, "{name} came back as another text");
    }
    // A pair of escapes for each takes twice as many bytes as any other character, and has no room.
    publish(&api, "emoji", &escaped(&"🌟".repeat(CHARACTERS_MAX))).await.expect_code(413_000);
    let small = api.post("/config/v1/configfiles/release", &json!({"file_name": "a".repeat(3_000_000)})).await;
    small.expect_code(413_000);
    cluster.expect_equal_state().await;
}
