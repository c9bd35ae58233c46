//! Tests of `echoed`.

use super::*;

const SECRET: &str = "canary/3f9a+K9=";

fn hide(words: &str, value: &str) -> String {
    match Credentials::new([value].into_iter()) {
        Some(credentials) => credentials.hide(words),
        None => words.to_owned(),
    }
}

#[test]
fn a_credential_is_hidden_in_every_encoding_that_is_cheap_to_find() {
    for said in [SECRET, "canary\\/3f9a+K9=", "canary%2F3f9a%2BK9%3D", "canary%2f3f9a%2bK9%3d"] {
        let shown = hide(&format!("bad token {said}!"), &format!("Bearer {SECRET}"));
        assert_eq!(shown, "bad token [redacted]!", "{said}");
    }
    for before in ["", "u", "me:", "Bearer ", "user:"] {
        for after in ["", "x", "xy", "xyz"] {
            for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                let said = engine.encode(format!("{before}{SECRET}{after}"));
                let shown = hide(&said, SECRET);
                assert!(shown.contains(HIDDEN), "{before}{after}: {said}");
                let bits = shown.replace(HIDDEN, "");
                let most = 6 + 2 * (before.len() + after.len());
                assert!(bits.len() <= most, "{before}{after}: {shown}");
            }
        }
    }
    let basic = format!("Basic {}", STANDARD.encode("me:pass\"word1"));
    let shown = hide(r#"{"a":"pass\"word1","b":"pass\"word2"}"#, &basic);
    assert_eq!(shown, r#"{"a":"[redacted]","b":"pass\"word2"}"#);
}

#[test]
fn short_values_and_other_words_stay() {
    assert_eq!(hide("the value en is short", "en"), "the value en is short");
    assert_eq!(hide("nothing of it", SECRET), "nothing of it");
}

#[test]
fn a_credential_is_hidden_wherever_an_answer_is_cut() {
    let other = "another-secret-K9";
    let credentials = Arc::new(Credentials::new([SECRET, other].into_iter()).unwrap());
    let text =
        format!("{SECRET}{{\"a\":\"{SECRET}{SECRET} {other}\",\"b\":\"canary/3f9a\"}}{SECRET}");
    let whole = credentials.hide(&text);
    assert_eq!(whole.matches(HIDDEN).count(), 5);
    for size in 1..text.len() {
        let mut filter = PieceFilter::new(Some(Arc::clone(&credentials)));
        let mut passed = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            passed.extend(filter.push(Bytes::copy_from_slice(piece)));
        }
        passed.extend(filter.finish());
        assert_eq!(String::from_utf8(passed).unwrap(), whole, "{size}");
    }
}

#[test]
fn a_message_without_credentials_is_not_copied() {
    let credentials = Credentials::new([SECRET].into_iter()).unwrap();
    let text = Bytes::from_static(b"{\"a\":1}");
    assert_eq!(credentials.hide_in(text.clone()).as_ptr(), text.as_ptr());
    let mut none = PieceFilter::new(None);
    assert_eq!(none.push(text.clone()).as_ptr(), text.as_ptr());
}

#[test]
fn credentials_are_told_from_other_settings() {
    let map = |entries: &[(&str, &str)]| {
        entries.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    };
    let http = |headers: &[(&str, &str)], url: &str| {
        let url = Url::parse(url).unwrap();
        Credentials::of(&Transport::Http { url, headers: map(headers) })
    };
    let plain = [
        ("accept-language", "en-GB,en"),
        ("x-tenant", "acme-production-eu-west-1"),
        ("x-key", "short"),
    ];
    assert!(http(&plain, "https://h/mcp?version=2025-11-25").is_none());
    for header in [("authorization", "Bearer s3cret-k9"), ("x-acme", "8f14e45fceea167a5a36")] {
        assert!(http(&[header], "https://h/mcp").is_some(), "{header:?}");
    }
    let by_url = http(&[], "https://h/mcp?api_key=8f14e45fceea").unwrap();
    assert_eq!(by_url.hide("of 8f14e45fceea"), "of [redacted]");
    let stdio = |env: &[(&str, &str)]| {
        let (command, args, cwd) = ("x".into(), Vec::new(), None);
        let env = map(env);
        Credentials::of(&Transport::Stdio { command, args, env, cwd, has_network: true })
    };
    let plain = [
        ("SORT_KEY", "created_at"),
        ("KEY_FILE", "/run/secrets/k3y"),
        ("GIT_AUTHOR_NAME", "Jane Doe"),
    ];
    assert!(stdio(&plain).is_none());
    assert!(stdio(&[("GITHUB_TOKEN", "ghp_16C7e42F292c6912")]).is_some());
}
