//! Pulls by clients that accept gzip.

use std::io::Read;

use flate2::read::GzDecoder;

use super::*;

const FORMS: [&str; 5] = [
    "/configs/app/default/application",
    "/configs/app/default/application.properties",
    "/configfiles/app/default/application",
    "/configfiles/json/app/default/application",
    "/configfiles/raw/app/default/page.html",
];

fn served() -> Served {
    let served = Served::new();
    let pairs: String = (0..100).map(|number| format!("key.{number}=value of the key {number}\n")).collect();
    served.source.publish("default", "application", &pairs);
    served.source.publish("default", "page.html", &"<p>line</p>\n".repeat(200));
    served.source.publish("default", "small", "a=1");
    served
}

fn read(body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(body).read_to_end(&mut plain).expect("gzip");
    plain
}

#[tokio::test(start_paused = true)]
async fn who_accepts_gzip_gets_the_same_compressed() {
    let served = served();
    for path in FORMS {
        let plain = served.get(path).await;
        assert_eq!((plain.header("content-encoding"), plain.header("vary")), (None, Some("accept-encoding")), "{path}");
        let got = served.get_with(path, &[("accept-encoding", "gzip, deflate")]).await;
        assert_eq!((got.header("content-encoding"), got.header("vary")), (Some("gzip"), Some("accept-encoding")));
        assert_eq!(got.header("content-type"), plain.header("content-type"), "{path}");
        assert_eq!(got.header("content-length"), Some(got.body.len().to_string().as_str()), "{path}");
        assert!(got.body.len() * 4 < plain.body.len(), "{path}: {} of {}", got.body.len(), plain.body.len());
        assert_eq!(read(&got.body), plain.body, "{path}");
        for refusing in ["", "gzip;q=0", "br", "identity", "*;q=0"] {
            let got = served.get_with(path, &[("accept-encoding", refusing)]).await;
            assert_eq!((got.header("content-encoding"), &got.body), (None, &plain.body), "{path} {refusing}");
        }
    }
}

/// A form is compressed on the first request that accepts gzip; the cache counts the compressed bytes in addition.
#[tokio::test(start_paused = true)]
async fn a_form_is_compressed_once_and_costs_no_more_than_its_bytes() {
    let served = served();
    let path = FORMS[0];
    served.get(path).await;
    let plain_alone = served.metrics.render_cache_bytes.get();
    let first = served.get_with(path, &[("accept-encoding", "gzip")]).await;
    let with_both = served.metrics.render_cache_bytes.get();
    assert!(with_both - plain_alone <= first.body.len() as i64 + 128, "{plain_alone} {with_both}");
    let (misses, hits) = (served.metrics.render_cache_misses.get(), served.metrics.render_cache_hits.get());
    for _ in 0..10 {
        assert_eq!(served.get_with(path, &[("accept-encoding", "gzip")]).await.body, first.body);
    }
    assert_eq!(served.metrics.render_cache_misses.get(), misses);
    assert_eq!(served.metrics.render_cache_hits.get(), hits + 10, "one look each");
    served.source.publish("default", "application", &"b=2\n".repeat(400));
    let changed = served.get_with(path, &[("accept-encoding", "gzip")]).await;
    assert!(read(&changed.body).ends_with(br#"{"b":"2"},"releaseKey":"default-app-application-2"}"#));
}

#[tokio::test(start_paused = true)]
async fn small_files_names_in_other_letters_and_304_are_left_as_they_are() {
    let served = served();
    for path in ["/configs/app/default/small", "/configs/app/default/APPLICATION"] {
        let got = served.get_with(path, &[("accept-encoding", "gzip")]).await;
        assert_eq!((got.status, got.header("content-encoding")), (StatusCode::OK, None), "{path}");
        got.json();
    }
    let path = format!("{}?releaseKey=default-app-application-1", FORMS[0]);
    let got = served.get_with(&path, &[("accept-encoding", "gzip")]).await;
    assert_eq!((got.status, got.body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!((got.header("content-encoding"), got.header("vary")), (None, Some("accept-encoding")));
    let got = served.get_with("/configs/app/default/small", &[("accept-encoding", "gzip, identity;q=0")]).await;
    assert_eq!(got.header("content-encoding"), Some("gzip"));
    assert!(read(&got.body).starts_with(b"{\"appId\":\"app\""));
    let missing = served.get_with("/configs/app/default/none", &[("accept-encoding", "gzip")]).await;
    assert_eq!((missing.status, missing.header("content-encoding")), (StatusCode::NOT_FOUND, None));
}

#[tokio::test(start_paused = true)]
async fn without_a_cache_nothing_is_compressed() {
    let served = Served::with(Hub::new(10), |settings| settings.render_cache_bytes = 0);
    served.source.publish("default", "application", &"b=2\n".repeat(400));
    let got = served.get_with(FORMS[0], &[("accept-encoding", "gzip")]).await;
    assert_eq!((got.status, got.header("content-encoding")), (StatusCode::OK, None));
}
