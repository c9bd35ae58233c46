//! Tests of the lifetime of cached documents.

use super::*;

#[test]
fn documents_are_cached_within_limits() {
    for (value, seconds) in [
        ("", 3600),
        ("public", 3600),
        ("max-age=x", 3600),
        ("max-age=600", 600),
        ("public, Max-Age=\"600\"", 600),
        ("max-age=59", 60),
        ("max-age=0", 60),
        ("max-age=86400", 86_400),
        ("max-age=86401", 86_400),
        ("max-age=600, no-store", 60),
        ("no-cache", 60),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(value));
        assert_eq!(lifetime_of(&headers), Duration::from_secs(seconds), "{value}");
    }
    assert_eq!(lifetime_of(&HeaderMap::new()), Duration::from_secs(3600));
}
