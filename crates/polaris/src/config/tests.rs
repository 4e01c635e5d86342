use super::*;

#[test]
fn a_released_file_has_what_sdks_compare() {
    let tags = [("a", "b"), ("internal-datakey", "x")].map(|(key, value)| Tag { key: key.into(), value: value.into() });
    let sent = file(&ReleasedFile {
        namespace: "shop",
        group: "g",
        file: "f.yaml",
        version: 7,
        release: "r",
        md5: "m",
        released_at: "2026-01-02 03:04:05".into(),
        tags: &tags,
    });
    assert_eq!(
        (sent.namespace.as_deref(), sent.group.as_deref(), sent.file_name.as_deref()),
        (Some("shop"), Some("g"), Some("f.yaml"))
    );
    assert_eq!((sent.version, sent.name.as_deref(), sent.md5.as_deref()), (Some(7), Some("r"), Some("m")));
    assert_eq!((sent.encrypted, sent.tags.len(), sent.content), (Some(false), 1, None));
    assert_eq!(sent.release_time.as_deref(), Some("2026-01-02 03:04:05"));
}

#[test]
fn writes_are_read() {
    let text = |text: &str| Some(text.to_owned());
    let tag = v1::ConfigFileTag { key: text("k"), value: text("v") };
    let file = v1::ConfigFile {
        name: text("f"),
        namespace: text("shop"),
        group: text("g"),
        content: text("c"),
        format: text(""),
        comment: text("why"),
        tags: vec![tag.clone()],
        encrypted: Some(false),
    };
    let draft = file_draft(&file);
    assert_eq!((draft.namespace.as_str(), draft.group.as_str(), draft.name.as_str()), ("shop", "g", "f"));
    assert_eq!((draft.content.as_deref(), draft.format, draft.encrypted), (Some("c"), None, None));
    assert_eq!((draft.comment.as_deref(), draft.tags.map(|tags| tags.len())), (Some("why"), Some(1)));
    let release = v1::ConfigFileRelease {
        name: text(""),
        namespace: text("shop"),
        group: text("g"),
        file_name: text("f"),
        comment: text("said"),
        md5: text(""),
        release_description: None,
    };
    let draft = release_draft(&release);
    assert_eq!((draft.name, draft.md5, draft.release_description.as_deref()), (None, None, Some("said")));
    assert_eq!((draft.namespace.as_str(), draft.group.as_str(), draft.file_name.as_str()), ("shop", "g", "f"));
    let info = |md5: &str| v1::ConfigFilePublishInfo {
        release_name: text("r"),
        namespace: text("shop"),
        group: text("g"),
        file_name: text("f"),
        content: text("c"),
        md5: text(md5),
        tags: vec![tag.clone()],
        ..v1::ConfigFilePublishInfo::default()
    };
    let is_of_content = |md5: &str, content: &str| md5 == format!("md5 of {content}");
    for (md5, expected) in [("", None), ("md5 of c", None), ("md5 of b", Some("md5 of b"))] {
        let publish = publish_draft(&info(md5), is_of_content);
        assert_eq!(publish.md5.as_deref(), expected, "{md5}");
        assert_eq!((publish.file.name.as_str(), publish.release.file_name.as_str()), ("f", "f"));
        assert_eq!((publish.file.content.as_deref(), publish.release.name.as_deref()), (Some("c"), Some("r")));
    }
}
