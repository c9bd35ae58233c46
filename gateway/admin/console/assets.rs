//! Files that pages load from `assets/`: the stylesheet, the scripts and the icon. Their addresses
//! contain a digest, so browsers may cache them indefinitely. The table replaces rust-embed, which
//! provides neither load order nor media types and would add three crates.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

/// Number of digest digits in an address.
const DIGITS: usize = 16;

pub(crate) struct Asset {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

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
    Asset { name: "htmx.min.js", media_type: SCRIPT, bytes: include_bytes!("assets/htmx.min.js") },
    Asset {
        name: "hx-csp.min.js",
        media_type: SCRIPT,
        bytes: include_bytes!("assets/hx-csp.min.js"),
    },
    Asset {
        name: "hx-sse.min.js",
        media_type: SCRIPT,
        bytes: include_bytes!("assets/hx-sse.min.js"),
    },
    Asset { name: "console.js", media_type: SCRIPT, bytes: include_bytes!("assets/console.js") },
];

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

#[cfg(test)]
mod tests;
