//! Tests of `web` through real calls, with listeners that detect unexpected connections.

mod attacks;
mod server;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lockgate_egress::Addresses;
use lockgate_upstream::ListKind;
use parking_lot::Mutex;
use serde_json::{Value, json};
use server::{Canary, Site};

use super::config::{Resolver, WebProxy};
use super::*;
use crate::tests::{Rig, rig};
use crate::{Builtin, Changes, Prepared};

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|&entry| entry.to_owned()).collect()
}

/// Returns the default settings for these hosts.
fn config(hosts: &[&str]) -> Config {
    Config {
        hosts: owned(hosts),
        headers: owned(&["accept", "authorization", "content-type", "range", "x-*"]),
        user_agent: "lockgate/0.1.0".into(),
        timeout: Duration::from_secs(20),
        ..Config::default()
    }
}

/// Returns the default settings with loopback allowed, on these ports.
fn local(ports: &[u16]) -> Config {
    let addresses = owned(&["127.0.0.1/32"]);
    Config { ports: ports.to_vec(), addresses, ..config(&["localhost", "*.example"]) }
}

fn web(config: Config) -> Rig {
    rig(&crate::Config { web: Some(config), ..crate::Config::none() })
}

/// A resolver with a different answer each time; the last answer repeats.
struct Script(Mutex<VecDeque<Vec<&'static str>>>);

impl Resolve for Script {
    fn resolve<'a>(&'a self, _: &'a str, port: u16) -> Addresses<'a> {
        let mut answers = self.0.lock();
        let next = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        let next = next.map(|all| {
            all.iter().map(|text| SocketAddr::new(text.parse().unwrap(), port)).collect()
        });
        Box::pin(async move { next.ok_or_else(|| io::Error::other("no answer")) })
    }
}

/// Starts a `web` server with a scripted resolver.
fn scripted(config: &Config, answers: &[&[&'static str]]) -> Rig {
    let rig = rig(&crate::Config::none());
    let script = Script(Mutex::new(answers.iter().map(|one| one.to_vec()).collect()));
    let made = resolving(config, &rig.builtin.about, Arc::new(script)).unwrap();
    install(&rig.builtin, made);
    rig
}

fn install(builtin: &Builtin, made: ServerDefinition) {
    let mut changes = Changes::new();
    builtin.part(&mut changes, "web", [&None, &Some(())], |()| Ok(made)).unwrap();
    builtin.adopt(Prepared { config: crate::Config::none(), changes });
}

#[tokio::test]
async fn a_request_goes_out_as_written_and_comes_back_whole() {
    let site = Site::start(|request| {
        assert!(request.contains("x-mark: 7\r\n"), "{request}");
        format!(
            "HTTP/1.1 201 Created\r\ncontent-type: application/json; charset=utf-8\r\nx-two: a\r\nx-two: b\r\ncontent-length: {}\r\n\r\n{{\"ok\": \"é\"}}",
            12
        )
    });
    let web = web(local(&[site.port]));
    let url = format!("http://localhost:{}/v1?q=1#part", site.port);
    let arguments = json!({"url": url, "method": "POST", "headers": {"X-Mark": "7"}, "json": {"a": [1, 2.5, "ü"]}});
    let reply = web.call("web/request", arguments).await.unwrap();
    assert_eq!(
        (&reply["status"], &reply["body"], &reply["encoding"]),
        (&json!(201), &json!("{\"ok\": \"é\"}"), &json!("text"))
    );
    assert_eq!(
        (&reply["headers"]["x-two"], &reply["size"], &reply["truncated"]),
        (&json!("a\nb"), &json!(12), &json!(false))
    );
    assert!(reply["duration_ms"].as_f64().unwrap() > 0.0);
    let sent = site.requests();
    assert!(sent[0].starts_with("POST /v1?q=1 HTTP/1.1\r\n"), "{sent:?}");
    for line in [
        "user-agent: lockgate/0.1.0",
        "content-type: application/json",
        "accept-encoding: gzip",
        "connection: close",
    ] {
        assert!(sent[0].contains(&format!("{line}\r\n")), "{line} in {sent:?}");
    }
    assert!(
        sent[0].contains(&format!("host: localhost:{}\r\n", site.port))
            && sent[0].ends_with("{\"a\":[1,2.5,\"ü\"]}"),
        "{sent:?}"
    );
}

#[tokio::test]
async fn bodies_are_json_form_or_text() {
    let site = Site::start(|_| "HTTP/1.1 204 No Content\r\n\r\n".into());
    let web = web(local(&[site.port]));
    let url = format!("http://localhost:{}/", site.port);
    for (body, kind, text) in [
        (
            json!({"form": {"a b": "1&2", "n": 3, "t": true}}),
            "application/x-www-form-urlencoded",
            "a+b=1%262&n=3&t=true",
        ),
        (json!({"text": "plain ü"}), "text/plain; charset=utf-8", "plain ü"),
        (
            json!({"text": "<a/>", "headers": {"content-type": "application/xml"}}),
            "application/xml",
            "<a/>",
        ),
        (json!({"json": null}), "application/json", "null"),
    ] {
        let mut arguments = body;
        arguments["url"] = json!(url);
        arguments["method"] = json!("PUT");
        assert_eq!(web.call("web/request", arguments).await.unwrap()["status"], 204);
        let sent = site.requests().pop().unwrap();
        assert!(
            sent.contains(&format!("content-type: {kind}\r\n"))
                && sent.ends_with(&format!("\r\n\r\n{text}")),
            "{sent}"
        );
    }
    for (arguments, words) in [
        (json!({"method": "PUT", "json": 1, "text": "x"}), "`json` and `text` are both given"),
        (json!({"method": "GET", "text": "x"}), "a GET request has no body"),
        (
            json!({"method": "PUT", "text": "x".repeat((1 << 20) + 1)}),
            "at most 1048576 may be sent",
        ),
        (json!({"method": "TRACE"}), "`method` must be one of"),
        (json!({"timeout_ms": 20_001}), "`timeout_ms` must be a whole number from 1 to 20000"),
        (json!({"headers": {"Host": "evil.example"}}), "set by the gateway alone"),
        (json!({"headers": {"Transfer-Encoding": "chunked"}}), "set by the gateway alone"),
        (json!({"headers": {"X-Forwarded-For": "127.0.0.1"}}), "set by the gateway alone"),
        (json!({"headers": {"Proxy-Authorization": "x"}}), "set by the gateway alone"),
        (json!({"headers": {"User-Agent": "x"}}), "set by the gateway alone"),
        (json!({"headers": {"Cookie": "a=b"}}), "not on the list"),
        (json!({"headers": {"X-A": "b\r\nX-C: d"}}), "without line ends"),
        (json!({"headers": {"a b": "c"}}), "not the name of a header"),
        (json!({"headers": {"X-A": "b", "x-a": "c"}}), "given twice"),
    ] {
        let mut arguments = arguments;
        arguments["url"] = json!(url);
        let error = web.call("web/request", arguments).await.unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(site.requests().len(), 4);
}

#[tokio::test]
async fn an_error_status_and_binary_content_are_results() {
    let site = Site::start(|request| {
        if request.contains("/missing") {
            "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nno"
                .into()
        } else {
            "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 3\r\n\r\n\u{1}\u{2}\u{3}"
                .into()
        }
    });
    let web = web(local(&[site.port]));
    let get = async |path: &str, tool: &str| {
        web.call(tool, json!({"url": format!("http://localhost:{}{path}", site.port)})).await
    };
    assert_eq!(get("/missing", "web/request").await.unwrap()["status"], 404);
    assert_eq!(get("/missing", "web/fetch").await.unwrap()["status"], 404);
    let image = get("/image", "web/request").await.unwrap();
    assert_eq!((&image["encoding"], &image["body"]), (&json!("base64"), &json!("AQID")));
    assert!(
        get("/image", "web/fetch").await.unwrap_err().contains("image/png of 3 bytes, not text")
    );
}

#[tokio::test]
async fn a_page_comes_as_text_in_parts_with_its_links() {
    let page = "<title>Locks</title><main><h1>Canal locks</h1><p>They lift <a href='/boats'>boats</a>.</p></main>";
    let site = Site::start(move |_| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}",
            page.len()
        )
    });
    let web = web(local(&[site.port]));
    let url = format!("http://localhost:{}/docs/", site.port);
    let fetched = web.call("web/fetch", json!({"url": url})).await.unwrap();
    let boats = format!("http://localhost:{}/boats", site.port);
    assert_eq!(fetched["content"], format!("# Canal locks\n\nThey lift [boats]({boats})."));
    assert_eq!(
        (&fetched["title"], &fetched["content_type"], &fetched["size"]),
        (&json!("Locks"), &json!("text/html"), &json!(page.len()))
    );
    assert_eq!(fetched["links"], json!([{"text": "boats", "url": boats}]));
    let part = web
        .call(
            "web/fetch",
            json!({"url": url, "format": "text", "start": 6, "max_chars": 5, "links": false}),
        )
        .await
        .unwrap();
    assert_eq!(
        (&part["content"], &part["next"], &part["chars"]),
        (&json!("locks"), &json!(11), &json!(29))
    );
    assert!(part.get("links").is_none());
    let about = |name: &str| {
        let catalog = web.server("web").catalog();
        let item = catalog
            .items(ListKind::Tools)
            .iter()
            .find(|item| *item.key == *name)
            .unwrap()
            .text
            .clone();
        serde_json::from_slice::<Value>(&item).unwrap()["description"].as_str().unwrap().to_owned()
    };
    for name in ["fetch", "request"] {
        let allowed = format!(
            "hosts: localhost, *.example; addresses in: 127.0.0.1/32; ports: {}.",
            site.port
        );
        assert!(about(name).ends_with(&allowed), "{}", about(name));
    }
    assert_eq!(
        web.call("web/fetch", json!({"url": url, "format": "raw"})).await.unwrap()["content"],
        page
    );
}

#[tokio::test]
async fn answers_that_are_not_taken_are_told_apart() {
    for (headers, words) in [(101, "more than 100 headers"), (0, "a response that is not HTTP")] {
        let site = Site::start(move |_| match headers {
            0 => "SSH-2.0-OpenSSH\r\n\r\n".into(),
            n => format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "x: y\r\n".repeat(n)),
        });
        let (web, url) = (web(local(&[site.port])), format!("http://localhost:{}/", site.port));
        let refused = web.call("web/request", json!({"url": url})).await.unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
}

#[tokio::test]
async fn text_is_read_by_its_charset_and_gzip_is_undone() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all("grün".as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let site = Site::start_bytes(move |request| {
        let (head, body) = if request.contains("/latin") {
            ("content-type: text/plain; charset=ISO-8859-1", b"gr\xfcn".to_vec())
        } else if request.contains("/odd") {
            ("content-encoding: br", b"xx".to_vec())
        } else if request.contains("/torn") {
            ("content-encoding: gzip", gzip[..gzip.len() - 6].to_vec())
        } else {
            ("content-type: text/plain\r\ncontent-encoding: gzip", gzip.clone())
        };
        let mut all =
            format!("HTTP/1.1 200 OK\r\n{head}\r\ncontent-length: {}\r\n\r\n", body.len())
                .into_bytes();
        all.extend(body);
        all
    });
    let web = web(local(&[site.port]));
    let get = async |path: &str| {
        web.call("web/request", json!({"url": format!("http://localhost:{}{path}", site.port)}))
            .await
    };
    assert_eq!(get("/latin").await.unwrap()["body"], "grün");
    assert_eq!(get("/gzip").await.unwrap()["body"], "grün");
    assert!(get("/odd").await.unwrap_err().contains("not requested"));
    assert!(get("/torn").await.unwrap_err().contains("breaks off"));
}

#[tokio::test]
async fn a_proxy_is_used_when_it_is_configured() {
    let proxy = Site::start(|request| {
        if request.starts_with("CONNECT ") {
            "HTTP/1.1 200 Connected\r\n\r\n".into()
        } else {
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nover".into()
        }
    });
    let proxied = |resolve| Config {
        proxy: Some(WebProxy {
            url: format!("http://127.0.0.1:{}", proxy.port),
            user: Some("ada".into()),
            password: Some("secret".into()),
            resolve,
        }),
        ..config(&["*.example"])
    };
    let web = scripted(&proxied(Resolver::Gateway), &[&["93.184.216.34"], &["10.0.0.1"]]);
    assert_eq!(
        web.call("web/request", json!({"url": "http://a.example/x"})).await.unwrap()["body"],
        "over"
    );
    let error = web.call("web/request", json!({"url": "http://b.example/x"})).await.unwrap_err();
    assert!(error.contains("not public"), "{error}");
    let sent = proxy.requests();
    assert!(
        sent[0].starts_with("CONNECT 93.184.216.34:80 ")
            && sent[0].contains("Proxy-Authorization: Basic YWRhOnNlY3JldA==\r\n"),
        "{sent:?}"
    );
    assert!(sent[1].starts_with("GET /x ") && sent.len() == 2, "{sent:?}");
    assert!(!format!("{:?}", proxied(Resolver::Proxy)).contains("secret"));
    let there = self::web(proxied(Resolver::Proxy));
    assert_eq!(
        there.call("web/request", json!({"url": "http://c.example/"})).await.unwrap()["body"],
        "over"
    );
    assert!(proxy.requests()[2].starts_with("CONNECT c.example:80 "));
}

#[test]
fn headers_that_frame_a_message_cannot_be_allowed() {
    for name in
        ["host", "Connection", "x-forwarded-host", "proxy-connection", "sec-fetch-mode", "a b"]
    {
        assert!(Headers::compile(&owned(&[name])).is_err(), "{name}");
    }
    assert!(Headers::compile(&owned(&["x-*", "cookie"])).is_ok());
}
