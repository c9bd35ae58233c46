//! Validation of each member, and its error messages.

use super::*;

#[test]
fn names_are_plain_and_bounded() {
    assert_eq!(name("  GitHub Enterprise "), Ok("GitHub Enterprise".to_owned()));
    assert_eq!(name("中文"), Ok("中文".to_owned()));
    let long = "x".repeat(NAME_CHARS + 1);
    for wrong in ["", "   ", "a\nb", "a\u{200b}b", "a\u{202e}b", "\u{0}", &long] {
        assert_eq!(name(wrong).unwrap_err().pointer, "/name", "{wrong:?}");
    }
}

#[test]
fn slugs_are_as_those_of_the_file() {
    assert_eq!(slug("git-hub2"), Ok("git-hub2".to_owned()));
    for wrong in ["", "Git", "a_b", "a.b", "a/b", "ä", &"x".repeat(65)] {
        assert_eq!(slug(wrong).unwrap_err().pointer, "/slug", "{wrong:?}");
    }
}

#[test]
fn addresses_are_of_http_and_hold_no_secret() {
    let plain = "https://mcp.example.com/mcp?team=1&toolsets=keyboards,authors&codec=x";
    let (url, warnings) = url(plain).unwrap();
    assert_eq!((url.as_str(), warnings.len()), (plain, 0));
    let (_, warnings) = super::url("http://mcp.example.com/").unwrap();
    assert_eq!((warnings[0].code.as_str(), warnings[0].pointer.as_str()), ("INSECURE_URL", "/url"));
    let long = format!("https://example.com/{}", "x".repeat(2048));
    let wrong = [
        "",
        "mcp.example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "stdio://sh",
        "https://",
        "https://user:hunter2@example.com/",
        "https://user@example.com/",
        "https://example.com/#part",
        "https://exam\nple.com/",
        " https://example.com/",
        "https://example.com/a b",
        "https://mcp.tavily.com/mcp/?tavilyApiKey=hunter2",
        "https://example.com/?team=1&X-Subscription-Key=hunter2",
        "https://example.com/?access_token=hunter2",
        "https://example.com/?%74oken=hunter2",
        "https://example.com/?client%5Fsecret=hunter2",
        "https://example.com/?sig=hunter2",
        &long,
    ];
    for text in wrong {
        let error = super::url(text).unwrap_err();
        assert_eq!(error.pointer, "/url", "{text}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn headers_that_the_gateway_writes_are_refused() {
    assert_eq!(header_name("X-Api-Key"), Ok("x-api-key".to_owned()));
    assert_eq!(header_name("Authorization"), Ok("authorization".to_owned()));
    let long = "x".repeat(65);
    let wrong = [
        "",
        "x api",
        "x:y",
        "x\r\ny",
        "ä",
        "Host",
        "content-length",
        "Transfer-Encoding",
        "cookie",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
        "Proxy-Authorization",
        "X-Forwarded-For",
        "Sec-Fetch-Site",
        &long,
    ];
    for text in wrong {
        assert_eq!(header_name(text).unwrap_err().pointer, "/auth/header", "{text:?}");
    }
}

#[test]
fn credentials_that_could_inject_are_refused_and_never_quoted() {
    let secret = |text: &str| Secret::new(text.to_owned());
    assert_eq!(credentials(&secret("sk-123 abc~")), Ok(()));
    assert_eq!(credentials(&secret("8-bytes!")), Ok(()), "the shortest");
    let short = credentials(&secret("7-bytes")).unwrap_err();
    assert!(short.message.contains("at least 8 bytes"), "{short}");
    let long = "x".repeat(8193);
    for wrong in [
        "",
        "7-bytes",
        "long-enough\r\nX-Other: 1",
        "long-enough\n",
        "long\u{0}enough",
        "der-schlüssel",
        " long-enough",
        "long-enough ",
        &long,
    ] {
        let error = credentials(&secret(wrong)).unwrap_err();
        assert_eq!(error.pointer, "/credentials");
        assert!(!error.to_string().contains("X-Other"), "{error}");
    }
}
