//! A corporate network: servers behind a proxy with a password, and child processes that get the
//! proxy settings if configured.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::rig::gate::{command, program};
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, Value, json, until};

const ADA: &str = "Proxy-Authorization: Basic YWRhOnMzY3JldC9wYXNz";

/// A proxy that tunnels every request to the same server, independent of the requested host.
struct Proxy {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    async fn start(behind: &Upstream) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let address = behind.address;
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    let mut client = BufReader::new(client);
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") {
                        if client.read_line(&mut head).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let is_known = head.contains(ADA);
                    seen.lock().unwrap().push(head);
                    if !is_known {
                        let no = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
                        let _ = client.write_all(no).await;
                        return;
                    }
                    let Ok(mut server) = TcpStream::connect(address).await else { return };
                    if client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.is_ok() {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Self { port, heads }
    }

    fn config(&self) -> Value {
        json!({"url": format!("http://127.0.0.1:{}", self.port), "user": "ada",
            "password": "s3cret/pass"})
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Returns the variables that a child wrote.
async fn variables_of(folder: &Path) -> Vec<(String, String)> {
    let file = folder.join("variables");
    let text = until("the child wrote its variables", async || {
        std::fs::read_to_string(&file).ok().filter(|text| text.ends_with("done=\n"))
    })
    .await;
    let pair = |line: &str| line.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
    text.lines().filter_map(pair).collect()
}

/// Returns a server that writes its variables before it serves.
fn writer(more: Value) -> Value {
    let fixture = program("fixture-server");
    let script = format!(
        "env > variables.part; echo done= >> variables.part; mv variables.part variables; \
            exec {} --stdio",
        fixture.display()
    );
    let mut server = json!({"command": "sh", "args": ["-c", script], "cwd": "."});
    for (key, value) in more.as_object().unwrap() {
        server[key] = value.clone();
    }
    server
}

#[tokio::test]
async fn servers_are_reached_through_the_proxy_by_their_names() {
    let server = Upstream::http(modern(&["t"])).await;
    let proxy = Proxy::start(&server).await;
    let gate = Gate::start(json!({
        "servers": {"a": {"url": "http://mcp.corp.invalid:8123/mcp"}},
        "egress": {"proxy": proxy.config()},
    }))
    .await;
    assert_eq!(gate.call("a__t").await.code(), 0);
    let heads = proxy.heads();
    assert!(
        heads.iter().all(|head| head.starts_with("CONNECT mcp.corp.invalid:8123 ")),
        "{heads:?}"
    );
    assert!(heads.iter().all(|head| head.contains(ADA)), "{heads:?}");
    assert!(server.heard().iter().all(|heard| heard.header("proxy-authorization").is_none()));
    let log = gate.log();
    assert!(!log.contains("s3cret") && !log.contains("YWRhOnM"), "{log}");
}

#[tokio::test]
async fn what_is_named_in_no_proxy_and_this_machine_are_reached_directly() {
    let server = Upstream::http(modern(&["t"])).await;
    let proxy = Proxy::start(&server).await;
    let gate = Gate::launch(json!({
        "servers": {
            "here": server.config(),
            "named": {"url": "http://mcp.corp.invalid:8123/mcp"},
        },
        "egress": {"proxy": proxy.config(), "no_proxy": ["corp.invalid"]},
    }))
    .await;
    until("the server of this machine is called", async || {
        (gate.call("here__t").await.code() == 0).then_some(())
    })
    .await;
    until("the name is looked up here", async || {
        gate.log().contains("DNS lookup failed").then_some(())
    })
    .await;
    assert_eq!(proxy.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_as_the_reason() {
    let server = Upstream::http(modern(&["t"])).await;
    let proxy = Proxy::start(&server).await;
    let url = format!("http://127.0.0.1:{}", proxy.port);
    let gate = Gate::launch(json!({
        "servers": {"a": {"url": "http://mcp.corp.invalid:8123/mcp"}},
        "egress": {"proxy": {"url": url}},
    }))
    .await;
    until("the refusal is told", async || {
        let words = format!(
            "proxy 127.0.0.1:{}: it returned 407, while reaching mcp.corp.invalid:8123",
            proxy.port
        );
        gate.log().contains(&words).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_proxy_that_cannot_be_reached_is_named_with_what_it_was_to_reach() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gate = Gate::launch(json!({
        "servers": {"a": {"url": "https://mcp.corp.invalid/mcp"}},
        "egress": {"proxy": {"url": format!("http://{closed}")}},
    }))
    .await;
    let words = format!("proxy {closed}: connection refused, while reaching mcp.corp.invalid:443");
    until("the log names both", async || gate.log().contains(&words).then_some(())).await;
    let (_, listed) = gate.tools("/mcp").await;
    let told = listed["_meta"]["lockgate/degraded"].to_string();
    assert!(told.contains("the outbound proxy failed"), "{listed}");
    assert!(!told.contains(&closed.to_string()), "{listed}");
}

#[tokio::test]
async fn variables_of_the_environment_count_only_where_the_configuration_says_so() {
    let server = Upstream::http(modern(&["t"])).await;
    let proxy = Proxy::start(&server).await;
    let url = format!("http://ada:s3cret%2Fpass@127.0.0.1:{}", proxy.port);
    let variables = [("HTTPS_PROXY", url.as_str()), ("NO_PROXY", "other.invalid, 10.0.0.0/8")];
    let servers = json!({"a": {"url": "http://mcp.corp.invalid:8123/mcp"}});
    let closed = Gate::launch_with(json!({"servers": servers}), &variables).await;
    until("the name is looked up here", async || {
        closed.log().contains("DNS lookup failed").then_some(())
    })
    .await;
    let hint = "HTTPS_PROXY is set but not used";
    assert!(closed.log().contains(hint), "{}", closed.log());
    assert_eq!(proxy.heads(), Vec::<String>::new());
    let config = json!({"servers": servers, "egress": {"from_environment": true}});
    let open = Gate::launch_with(config, &variables).await;
    until("the server is called", async || (open.call("a__t").await.code() == 0).then_some(()))
        .await;
}

#[tokio::test]
async fn a_child_gets_the_network_only_where_the_configuration_lets_it() {
    let server = Upstream::http(modern(&["t"])).await;
    let proxy = Proxy::start(&server).await;
    let authority = rcgen::generate_simple_self_signed(["ca.invalid".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, authority.cert.pem()).unwrap();
    let variables = [
        ("UV_DEFAULT_INDEX", "https://index.invalid/"),
        ("SECRET_TOKEN", "canary"),
        ("PIP_CERT", "x"),
    ];
    let config = |server: Value| {
        json!({
            "servers": {"a": server},
            "egress": {"proxy": proxy.config(), "no_proxy": ".corp.invalid", "ca_file": ca_file},
        })
    };
    let gate = Gate::launch_with(config(writer(json!({}))), &variables).await;
    let closed = variables_of(gate.folder.path()).await;
    let of_network = ["PROXY", "CERT", "CA_", "INDEX", "SECRET"];
    for (name, _) in &closed {
        assert!(!of_network.iter().any(|part| name.to_uppercase().contains(part)), "{name}");
    }
    let open = writer(json!({"inherit": ["network"], "env": {"NODE_EXTRA_CA_CERTS": "own.pem"}}));
    let gate = Gate::launch_with(config(open), &variables).await;
    let open = variables_of(gate.folder.path()).await;
    let value = |name: &str| {
        let found = open.iter().find(|(found, _)| found == name);
        found.unwrap_or_else(|| panic!("no {name} in {open:?}")).1.clone()
    };
    let url = format!("http://ada:s3cret%2Fpass@127.0.0.1:{}", proxy.port);
    assert_eq!((value("HTTPS_PROXY"), value("http_proxy")), (url.clone(), url));
    assert_eq!(value("NO_PROXY"), "localhost,127.0.0.1,::1,.corp.invalid");
    assert_eq!(value("UV_DEFAULT_INDEX"), "https://index.invalid/");
    assert_eq!(value("NODE_EXTRA_CA_CERTS"), "own.pem", "what the server's own `env` says wins");
    assert!(open.iter().all(|(name, _)| name != "SECRET_TOKEN"));
    let bundle = std::fs::read_to_string(value("SSL_CERT_FILE")).unwrap();
    let own: String = authority.cert.pem().split_whitespace().collect();
    assert!(
        bundle.split_whitespace().collect::<String>().contains(&own),
        "the CA is in the bundle"
    );
    assert_eq!(value("PIP_CERT"), value("SSL_CERT_FILE"));
}

#[tokio::test]
async fn a_child_that_fails_without_the_network_is_told_of_what_was_withheld() {
    let server = json!({"command": "sh", "args": ["-c", "echo no route >&2; exit 7"]});
    let proxies = [("HTTPS_PROXY", "http://ada:s3cret@proxy.invalid:3128")];
    let gate = Gate::launch_with(json!({"servers": {"a": server}}), &proxies).await;
    let hint = "HTTPS_PROXY is set but not passed to the server";
    until("the log says it", async || gate.log().contains(hint).then_some(())).await;
    assert!(gate.log().contains("inherit: [network]"), "{}", gate.log());
    assert!(!gate.log().contains("s3cret"), "{}", gate.log());
}

#[test]
fn mistakes_are_named_with_their_key_and_without_the_password() {
    let folder = tempfile::tempdir().unwrap();
    for (egress, key, words) in [
        ("proxy: { url: 'https://p.invalid' }", "egress.proxy.url", "must be http://host:port"),
        ("proxy: { url: 'http://u:s3cret@p.invalid' }", "egress.proxy.url", "separate keys"),
        ("proxy: { url: 'http://p.invalid', password: '${PW}' }", "egress.proxy.user", "set the"),
        ("no_proxy: [a.invalid]", "egress.no_proxy", "no effect without `proxy`"),
        ("{ proxy: { url: 'http://p.invalid' }, no_proxy: ['a b'] }", "egress.no_proxy", "a host"),
        ("proxy: { host: p.invalid }", "egress.proxy", "host"),
        ("from_environment: true", "egress.from_environment", "HTTPS_PROXY is not"),
    ] {
        let text = if egress.starts_with('{') {
            format!("egress: {egress}\n")
        } else {
            format!("egress: {{ {egress} }}\n")
        };
        std::fs::write(folder.path().join("lockgate.yaml"), text).unwrap();
        let mut check = command();
        check.args(["check"]).current_dir(folder.path()).env("PW", "s3cret");
        check.env("HTTPS_PROXY", "socks5://ada:s3cret@p.invalid:1");
        let output = check.output().unwrap();
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!output.status.success(), "{egress}: {said}");
        assert!(said.contains(key) && said.contains(words), "{egress}: {said}");
        assert!(!said.contains("s3cret"), "{egress}: {said}");
    }
}
