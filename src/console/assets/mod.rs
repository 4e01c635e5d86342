//! Assets of pages: embedded in the binary, named by their content, cached by browsers indefinitely.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

const STYLES: &str = include_str!("console.css");
const SCRIPT: &str = include_str!("console.js");
const ICON: &str = include_str!("icon.svg");
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

struct Asset {
    /// `NAME-DIGEST.SUFFIX`
    name: String,
    media_type: &'static str,
    text: &'static str,
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        asset("console", "css", "text/css; charset=utf-8", STYLES),
        asset("console", "js", "text/javascript; charset=utf-8", SCRIPT),
        asset("icon", "svg", "image/svg+xml", ICON),
    ]
});

fn asset(stem: &str, suffix: &str, media_type: &'static str, text: &'static str) -> Asset {
    let digest = hex::encode(&Sha256::digest(text)[..8]);
    Asset { name: format!("{stem}-{digest}.{suffix}"), media_type, text }
}

/// Returns the path of the asset `STEM.SUFFIX`.
pub(super) fn path(stem: &str, suffix: &str) -> String {
    let is_it = |asset: &&Asset| asset.name.starts_with(stem) && asset.name.ends_with(suffix);
    let asset = ASSETS.iter().find(is_it).expect("pages name what is embedded");
    format!("/ui/assets/{}", asset.name)
}

pub(super) async fn serve(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => ([(CONTENT_TYPE, asset.media_type), (CACHE_CONTROL, FOR_GOOD)], asset.text).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
