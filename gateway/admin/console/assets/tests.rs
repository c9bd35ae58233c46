//! Tests of `assets`.

use aws_lc_rs::digest::{SHA256, digest};
use lockgate_text::hex;

use super::*;

const README: &str = include_str!("README.md");
/// Limit for scripts and stylesheet before compression: the transfer size, times the least ratio of
/// gzip for such files.
const MAX_BYTES: usize = 160 * 1024;

#[test]
fn what_others_have_made_is_as_it_was_published() {
    let mut pinned = 0;
    for asset in SCRIPTS.iter().filter(|asset| asset.name.ends_with(".min.js")) {
        let row = README.lines().find(|line| line.starts_with(&format!("| `{}`", asset.name)));
        let hash = hex::encode(digest(&SHA256, asset.bytes).as_ref());
        assert!(row.unwrap().contains(&hash), "{}: {hash}", asset.name);
        pinned += 1;
    }
    assert_eq!(pinned, 3);
}

#[test]
fn all_of_it_stays_small() {
    let scripts: usize = SCRIPTS.iter().map(|asset| asset.bytes.len()).sum();
    assert!(scripts + STYLE.bytes.len() < MAX_BYTES, "{scripts}");
}

#[tokio::test]
async fn an_asset_is_there_under_its_own_digest_alone() {
    let known = show_asset(Path((STYLE.digest(), STYLE.name.to_owned()))).await;
    assert_eq!(known.status(), StatusCode::OK);
    assert_eq!(known.headers()[CONTENT_TYPE], STYLE.media_type);
    for (digest, name) in [(ICON.digest(), STYLE.name), (STYLE.digest(), "README.md")] {
        let other = show_asset(Path((digest, name.to_owned()))).await;
        assert_eq!(other.status(), StatusCode::NOT_FOUND, "{name}");
    }
}
