//! Files that pages load from `assets/`: the stylesheet, the scripts and the icon. Their addresses
//! contain a digest, so browsers may cache them indefinitely. The table replaces rust-embed, which
//! provides neither load order nor media types and would add three crates.

use std::io::Write;
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::extract::Path;
use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Number of digest digits in an address.
const DIGITS: usize = 16;

pub(crate) struct Asset {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

pub(crate) static STYLE: Asset = Asset {
    name: "console.css",
    media_type: "text/css; charset=utf-8",
    bytes: include_bytes!("assets/console.css"),
};
pub(crate) static ICON: Asset = Asset {
    name: "icon.svg",
    media_type: "image/svg+xml",
    bytes: include_bytes!("assets/icon.svg"),
};
/// The scripts, in load order.
pub(crate) static SCRIPTS: [Asset; 4] = [
    script("htmx.min.js", include_bytes!("assets/htmx.min.js")),
    script("hx-csp.min.js", include_bytes!("assets/hx-csp.min.js")),
    script("hx-sse.min.js", include_bytes!("assets/hx-sse.min.js")),
    script("console.js", include_bytes!("assets/console.js")),
];

const fn script(name: &'static str, bytes: &'static [u8]) -> Asset {
    Asset { name, media_type: "text/javascript; charset=utf-8", bytes }
}

/// The addresses of all assets.
pub(crate) struct Addresses {
    pub(crate) style: String,
    pub(crate) icon: String,
    pub(crate) scripts: Vec<String>,
}

pub(crate) static ADDRESSES: LazyLock<Addresses> = LazyLock::new(|| Addresses {
    style: STYLE.address(),
    icon: ICON.address(),
    scripts: SCRIPTS.iter().map(Asset::address).collect(),
});

impl Asset {
    fn digest(&self) -> String {
        let hash = blake3::hash(self.bytes).to_hex();
        hash.chars().take(DIGITS).collect()
    }

    fn address(&self) -> String {
        format!("/console/assets/{}/{}", self.digest(), self.name)
    }
}

/// Returns an asset, without authentication. A digest other than the current one gives 404.
pub(crate) async fn show_asset(Path((digest, name)): Path<(String, String)>) -> Response {
    let mut all = SCRIPTS.iter().chain([&STYLE, &ICON]);
    let found = all.find(|asset| asset.name == name && asset.digest() == digest);
    let Some(asset) = found else { return StatusCode::NOT_FOUND.into_response() };
    let head =
        [(CONTENT_TYPE, asset.media_type), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (head, asset.bytes).into_response()
}

// Gzip compression for pages and assets of the console.

/// Minimum size of compressed bodies.
const MIN_BYTES: usize = 1 << 10;
const TYPES: [&str; 4] = ["text/html", "text/css", "text/javascript", "image/svg+xml"];

/// Returns whether the browser accepts gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|one| {
        let (name, quality) = one.split_once(';').unwrap_or((one, ""));
        let is_refused = matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Compresses a body if that makes it shorter, and sets the headers accordingly.
pub(crate) fn compress(head: &mut Parts, body: Bytes, accepts: bool) -> Bytes {
    let media_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_text = media_type.is_some_and(|name| TYPES.iter().any(|one| name.starts_with(one)));
    if !is_text || head.headers.contains_key(CONTENT_ENCODING) {
        return body;
    }
    head.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    if !accepts || body.len() < MIN_BYTES {
        return body;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    if encoder.write_all(&body).is_err() {
        return body;
    }
    match encoder.finish() {
        Ok(shorter) if shorter.len() < body.len() => {
            head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            shorter.into()
        }
        _ => body,
    }
}

#[cfg(test)]
mod tests;
