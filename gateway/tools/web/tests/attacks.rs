//! Attacks that must fail, and listeners that prove that no connection was made.

use super::*;

const ATTACKS: &str = include_str!("../../../../tests/corpora/url/attack.txt");
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

async fn get(web: &Rig, url: &str) -> Result<Value, String> {
    web.call("web/request", json!({"url": url})).await
}

#[tokio::test]
async fn loopback_is_refused_by_default_in_every_spelling() {
    let canary = Canary::at("127.0.0.1", 0);
    let port = canary.port();
    let named = config(&["localhost", "*.localhost", "*.example"]);
    let web = web(Config { ports: vec![port], ..named });
    for host in [
        "localhost",
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "a.localhost",
    ] {
        for tool in ["web/request", "web/fetch"] {
            web.call(tool, json!({"url": format!("http://{host}:{port}/")})).await.unwrap_err();
        }
    }
    canary.assert_untouched();
    let words = get(&web, &format!("http://localhost:{port}/")).await.unwrap_err();
    assert_eq!(
        words,
        "localhost resolves to this machine, which is not allowed for this tool; use a public host"
    );
}

#[tokio::test]
async fn no_attack_of_the_corpus_reaches_anything() {
    // Every name resolves to the canary, and the corpus states which ports are allowed.
    let canary = Canary::at("127.0.0.1", 0);
    let hosts = ["api.example.com", "*.example.org", "münchen.example"];
    let listed = scripted(&config(&hosts), &[&["127.0.0.1"]]);
    let any = scripted(&Config { any_host: true, ..config(&[]) }, &[&["127.0.0.1"]]);
    let mut tried = 0;
    for line in ATTACKS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (rule, url) = line.split_once(' ').unwrap();
        let url: String =
            if url.starts_with('"') { serde_json::from_str(url).unwrap() } else { url.to_owned() };
        let web = if rule == "any" { &any } else { &listed };
        for url in [url.clone(), url.replacen("example", &format!("example:{}", canary.port()), 1)]
        {
            for tool in ["web/request", "web/fetch"] {
                assert!(web.call(tool, json!({"url": url})).await.is_err(), "{url:?}");
            }
        }
        tried += 1;
    }
    assert!(tried >= 80, "{tried}");
    canary.assert_untouched();
}

#[tokio::test]
async fn a_name_that_rebinds_is_looked_up_and_judged_for_each_connection() {
    let site = Site::start(|_| OK.into());
    let canary = Canary::at("127.0.0.2", site.port);
    let url = format!("http://rebind.example:{}/", site.port);
    let answers: [&[&'static str]; 5] = [
        &["127.0.0.1"],
        &["127.0.0.2"],
        &["127.0.0.1", "127.0.0.2"],
        &["::ffff:127.0.0.2"],
        &["127.0.0.1", "169.254.169.254"],
    ];
    let web = scripted(&local(&[site.port]), &answers);
    assert_eq!(get(&web, &url).await.unwrap()["body"], "ok");
    for _ in 1..answers.len() {
        get(&web, &url).await.unwrap_err();
    }
    canary.assert_untouched();
    assert_eq!(site.requests().len(), 1);
}

#[tokio::test]
async fn a_redirect_is_judged_like_the_first_url() {
    let canary = Canary::at("127.0.0.2", 0);
    let port = canary.port();
    let site = Site::start(move |request| {
        let targets = [
            format!("http://127.0.0.2:{port}/"),
            format!("http://[::ffff:127.0.0.2]:{port}/"),
            format!("//localhost:{port}/"),
            format!("http://2130706434:{port}/"),
            format!("http://user@localhost:{port}/"),
            "file:///etc/passwd".to_owned(),
            "http://evil.invalid/".to_owned(),
            format!("http://rebind.example:{port}/"),
            "\\\\127.0.0.2\\share".to_owned(),
            "gopher://localhost/".to_owned(),
            "/loop".to_owned(),
        ];
        let number =
            request.split(['/', ' ']).nth(2).and_then(|n| n.parse::<usize>().ok()).unwrap_or(10);
        format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", targets[number])
    });
    let web = scripted(&local(&[site.port, port]), &[&["127.0.0.1"]]);
    for number in 0..10 {
        let url = format!("http://localhost:{}/{number}", site.port);
        // Targets 2 and 7 are allowed, but nothing listens at 127.0.0.1 on their port.
        let error = get(&web, &url).await.unwrap_err();
        assert!(error.contains("refused") || number == 7 || number == 2, "{number}: {error}");
    }
    let looped = get(&web, &format!("http://localhost:{}/loop", site.port)).await.unwrap_err();
    assert_eq!(looped, "there were more than 5 redirects");
    canary.assert_untouched();
    let url = format!("http://localhost:{}/0", site.port);
    let seen =
        web.call("web/request", json!({"url": url, "follow_redirects": false})).await.unwrap();
    assert_eq!((&seen["status"], &seen["redirects"]), (&json!(302), &json!([])));
}

#[tokio::test]
async fn credentials_and_bodies_stay_with_their_origin() {
    let other = Site::start(|_| OK.into());
    let to = other.port;
    let site = Site::start(move |request| {
        let status = if request.contains("/keep") { 307 } else { 302 };
        let target = if request.contains("/here") {
            "/end".to_owned()
        } else {
            format!("http://other.example:{to}/end")
        };
        if request.contains("/end") {
            OK.into()
        } else {
            format!("HTTP/1.1 {status} Moved\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n")
        }
    });
    let web = scripted(&local(&[site.port, other.port]), &[&["127.0.0.1"]]);
    let headers = json!({"Authorization": "Bearer secret", "X-Api-Key": "secret", "Accept": "a/b"});
    let url = |path: &str| format!("http://site.example:{}{path}", site.port);
    let reply =
        web.call("web/request", json!({"url": url("/there"), "headers": headers})).await.unwrap();
    assert_eq!(reply["redirects"], json!([url("/there")]));
    let seen = other.requests().pop().unwrap();
    assert!(!seen.contains("secret") && seen.contains("accept: a/b\r\n"), "{seen}");
    // The same origin receives them again; a POST becomes a GET without its body.
    web.call(
        "web/request",
        json!({"url": url("/here"), "method": "POST", "text": "body", "headers": headers}),
    )
    .await
    .unwrap();
    let seen = site.requests().pop().unwrap();
    assert!(
        seen.starts_with("GET /end ")
            && seen.contains("Bearer secret")
            && !seen.contains("content-type"),
        "{seen}"
    );
    // A body is not sent to another origin.
    let kept = json!({"url": url("/keep"), "method": "POST", "text": "body", "headers": headers});
    let reply = web.call("web/request", kept).await.unwrap();
    assert_eq!(reply["status"], 307);
    assert_eq!(other.requests().len(), 1);
    let kept =
        json!({"url": url("/keep/here"), "method": "POST", "text": "body", "headers": headers});
    web.call("web/request", kept).await.unwrap();
    let seen = site.requests().pop().unwrap();
    assert!(seen.starts_with("POST /end ") && seen.ends_with("\r\n\r\nbody"), "{seen}");
}

#[tokio::test]
async fn endless_bodies_and_compressed_bombs_end_at_the_bound() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..256 {
        bomb.write_all(&[b'a'; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    let site = Site::serve(move |request, stream| {
        if request.contains("/bomb") {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                bomb.len()
            );
            return stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(&bomb))
                .is_ok();
        }
        let kind = if request.contains("/empty") { "content-encoding: gzip\r\n" } else { "" };
        let piece = if kind.is_empty() {
            b"x".repeat(1000)
        } else {
            // Endless empty gzip members.
            flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default())
                .finish()
                .unwrap()
                .repeat(50)
        };
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n{kind}transfer-encoding: chunked\r\n\r\n"
        );
        while write!(stream, "{:x}\r\n", piece.len()).is_ok()
            && stream.write_all(&piece).is_ok()
            && stream.write_all(b"\r\n").is_ok()
        {}
        false
    });
    let web = web(local(&[site.port]));
    for path in ["/bomb", "/endless", "/empty"] {
        let began = Instant::now();
        let reply = get(&web, &format!("http://localhost:{}{path}", site.port)).await.unwrap();
        assert_eq!(reply["truncated"], true, "{path}");
        assert!(
            reply["size"].as_u64().unwrap() <= 1 << 20 && began.elapsed() < Duration::from_secs(15),
            "{path}"
        );
    }
    let page = web
        .call("web/fetch", json!({"url": format!("http://localhost:{}/endless", site.port)}))
        .await
        .unwrap();
    assert_eq!((&page["truncated"], &page["next"]), (&json!(true), &json!(20_000)));
}

#[tokio::test]
async fn slow_servers_run_into_the_one_deadline() {
    let site = Site::serve(|request, stream| {
        // Three slow responses: no head, a head byte by byte, a body byte by byte. Each byte would
        // reset a naive timeout.
        let text: &[u8] = match () {
            () if request.contains("/never") => b"",
            () if request.contains("/head") => b"HTTP/1.1 200 OK\r\nx-slow: ",
            () => b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n",
        };
        let _ = stream.write_all(text);
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(50));
            if !text.is_empty() && stream.write_all(b"a").is_err() {
                break;
            }
        }
        false
    });
    let web = web(local(&[site.port]));
    for path in ["/never", "/head", "/body"] {
        let began = Instant::now();
        let url = format!("http://localhost:{}{path}", site.port);
        let error =
            web.call("web/request", json!({"url": url, "timeout_ms": 400})).await.unwrap_err();
        assert!(error.starts_with("there was no complete response within "), "{path}: {error}");
        assert!(began.elapsed() < Duration::from_secs(5), "{path}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn garbage_is_an_error_and_the_server_goes_on() {
    let site = Site::start_bytes(|request| match request.split(['/', ' ']).nth(2) {
        Some("text") => b"hello\r\n\r\n".to_vec(),
        Some("torn") => b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhi".to_vec(),
        Some("twice") => {
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nhi".to_vec()
        }
        Some("head") => [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'x'; 1 << 20]].concat(),
        _ => OK.into(),
    });
    let web = web(local(&[site.port]));
    for path in ["text", "twice", "head"] {
        get(&web, &format!("http://localhost:{}/{path}", site.port)).await.unwrap_err();
    }
    let torn = json!({"url": format!("http://localhost:{}/torn", site.port), "timeout_ms": 500});
    web.call("web/request", torn).await.unwrap_err();
    assert_eq!(
        get(&web, &format!("http://localhost:{}/fine", site.port)).await.unwrap()["body"],
        "ok"
    );
}
