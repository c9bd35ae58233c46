//! Tests of `lists`.

use serde_json::{Value, json};

use super::*;

#[test]
fn only_public_hosts_and_images_are_icons() {
    for source in [
        "https://example.com/a.png",
        "https://cdn.example.com:8443/a.svg?x=1",
        "https://93.184.215.14/a.png",
        "data:image/png;base64,AAAA",
        "DATA:IMAGE/svg+xml,<svg/>",
    ] {
        assert!(is_safe(source), "{source}");
    }
    for source in [
        "javascript:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,<script>",
        "http://example.com/a.png",
        "file:///etc/passwd",
        "ftp://example.com/a.png",
        "blob:https://example.com/x",
        "//example.com/a.png",
        "a.png",
        "",
        "https://localhost/a.png",
        "https://LOCALHOST./a.png",
        "https://x.localhost/a.png",
        "https://printer/a.png",
        "https://printer.local/a.png",
        "https://db.internal/a.png",
        "https://127.0.0.1/a.png",
        "https://127.1/a.png",
        "https://2130706433/a.png",
        "https://0x7f.0.0.1/a.png",
        "https://10.0.0.1/a.png",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/a.png",
        "https://[::ffff:10.0.0.1]/a.png",
        "https://user:word@example.com/a.png",
        "https://user@example.com/a.png",
    ] {
        assert!(!is_safe(source), "{source}");
    }
}

#[test]
fn icons_are_taken_out_and_the_rest_stays() {
    let good = json!({"src": "https://example.com/a.png", "sizes": ["48x48"]});
    let item = json!({"name": "t", "icons": [{"src": "javascript:alert(1)"}, good, {"src": "https://10.0.0.1/"}], "x": 1});
    let (text, dropped) = without_unsafe_icons(item.to_string().as_bytes()).unwrap();
    let left: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!((left, dropped), (json!({"name": "t", "icons": [good], "x": 1}), 2));
    let escaped = br#"{"name":"t","\u0069cons":[{"src":"javascript:x"}]}"#;
    assert_eq!(without_unsafe_icons(escaped), Some((br#"{"name":"t"}"#.to_vec(), 1)));
    for fine in [
        json!({"name": "t"}),
        json!({"name": "t", "icons": []}),
        json!({"name": "icons", "icons": [good]}),
    ] {
        assert_eq!(without_unsafe_icons(fine.to_string().as_bytes()), None, "{fine}");
    }
}

#[test]
fn a_description_is_bounded_wherever_it_stands() {
    let long = "é".repeat(50);
    let nested = json!({"name": "t", "inputSchema": {"properties": {"a": {"description": long}}}})
        .to_string();
    assert_eq!(too_long_description(nested.as_bytes(), 99), Some(100));
    assert_eq!(too_long_description(nested.as_bytes(), 100), None);
    let other = json!({"name": "t", "description": "short", "default": long}).to_string();
    assert_eq!(too_long_description(other.as_bytes(), 60), None);
}
