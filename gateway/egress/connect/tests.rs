//! Tests of `connect`.

#![allow(clippy::unwrap_used)]

use std::io::Write;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;

use super::*;
use crate::pool::Origin;
use crate::tests::scripted::{answer, config, post};

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 80)).collect()
}

#[test]
fn one_forbidden_address_refuses_the_name_wherever_it_stands() {
    for set in [
        ["169.254.169.254", "10.0.0.1"],
        ["10.0.0.1", "169.254.169.254"],
        ["8.8.8.8", "::ffff:169.254.1.1"],
    ] {
        assert!(
            matches!(
                checked(addresses(&set), |ip| Policy::Operator.permits(ip, false)),
                Err(ConnectError::Refused(_))
            ),
            "{set:?}"
        );
    }
    assert!(matches!(
        checked(addresses(&["8.8.8.8", "10.0.0.1"]), |ip| Policy::Public.permits(ip, false)),
        Err(ConnectError::Refused(_))
    ));
    assert!(
        checked(addresses(&["8.8.8.8", "1.1.1.1"]), |ip| Policy::Public.permits(ip, false)).is_ok()
    );
}

#[test]
fn addresses_beyond_the_attempts_are_checked_too() {
    let mut many = addresses(&["10.0.0.1"; 20]);
    assert_eq!(
        checked(many.clone(), |ip| Policy::Operator.permits(ip, false)).unwrap().len(),
        MAX_ATTEMPTS
    );
    many.extend(addresses(&["169.254.0.1"]));
    assert!(checked(many, |ip| Policy::Operator.permits(ip, false)).is_err());
    assert!(matches!(
        checked(Vec::new(), |ip| Policy::Operator.permits(ip, false)),
        Err(ConnectError::Resolve(_))
    ));
}

#[tokio::test]
async fn a_name_and_a_literal_are_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connector = Connector::new(&config()).unwrap();
    for host in ["localhost", "127.0.0.1"] {
        let target = Target::new(&Url::parse(&format!("http://{host}:{port}/")).unwrap()).unwrap();
        let (stream, _) =
            tokio::join!(connector.connect(&target, Policy::Operator), listener.accept());
        stream.unwrap().shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn loopback_is_refused_to_the_public_policy_before_anything_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connector = Connector::new(&config()).unwrap();
    for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"] {
        let target = Target::new(&Url::parse(&format!("http://{host}:{port}/")).unwrap()).unwrap();
        let error = connector.connect(&target, Policy::Public).await.unwrap_err();
        assert!(matches!(error, ConnectError::Refused(_)), "{host}: {error}");
    }
}

/// A resolver with a different result each time.
struct Changing(Mutex<Vec<&'static [&'static str]>>);

impl Resolve for Changing {
    fn resolve<'a>(&'a self, _: &'a str, port: u16) -> crate::Addresses<'a> {
        let next = self.0.lock().pop();
        let all = next.expect("it is asked once for each connection").iter();
        let found = all.map(|text| SocketAddr::new(text.parse().unwrap(), port)).collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}

#[tokio::test]
async fn a_name_is_judged_by_what_it_leads_to_at_each_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = Url::parse(&format!("http://rebound.example:{port}/mcp")).unwrap();
    let policy = Policy::Organisation { private: false, loopback: true };
    assert_eq!(policy.check_url(&url), Ok(()));
    let later: [&[&str]; 4] = [
        &["169.254.169.254"],
        &["127.0.0.1", "10.0.0.1"],
        &["8.8.8.8", "::ffff:169.254.169.254"],
        &["127.0.0.1"],
    ];
    let resolver = Arc::new(Changing(Mutex::new(later.to_vec())));
    let connector = Connector { resolver, ..Connector::new(&config()).unwrap() };
    let target = Target::new(&url).unwrap();
    connector.connect(&target, policy).await.unwrap();
    for _ in 0..3 {
        let error = connector.connect(&target, policy).await.unwrap_err();
        assert!(matches!(error, ConnectError::Refused(_)), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_never_shakes_hands_runs_into_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connector =
        Connector::new(&Config { connect_timeout: Duration::from_millis(50), ..config() }).unwrap();
    let target = Target::new(&Url::parse(&format!("https://127.0.0.1:{port}/")).unwrap()).unwrap();
    assert!(matches!(
        connector.connect(&target, Policy::Operator).await,
        Err(ConnectError::Timeout)
    ));
}

/// Returns a server for `localhost`, and the file of its authority.
fn tls_server() -> (TlsAcceptor, NamedTempFile) {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(key.cert.pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let private =
        rustls_pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (TlsAcceptor::from(Arc::new(server)), file)
}

/// A TLS session accepts the end of a request before the socket does.
#[tokio::test]
async fn a_large_request_reaches_a_slow_tls_server() {
    let (acceptor, file) = tls_server();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let port = listener.local_addr().unwrap().port();
    let length = 2 << 20;
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut tls = acceptor.accept(tcp).await.unwrap();
        let mut received = 0;
        let mut buffer = vec![0; 16 << 10];
        while received < length {
            tokio::time::sleep(Duration::from_millis(1)).await;
            received += tls.read(&mut buffer).await.unwrap();
        }
        tls.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        tls.flush().await.unwrap();
        let _ = tls.read(&mut buffer).await;
    });
    let config = Config { ca_file: Some(file.path().to_owned()), ..config() };
    let url = Url::parse(&format!("https://localhost:{port}/mcp")).unwrap();
    let connector = Arc::new(Connector::new(&config).unwrap());
    let origin = Origin::new(connector, &url, Policy::Operator).unwrap();
    let body = bytes::Bytes::from(vec![b'x'; length]);
    let sent = origin.send(http::Request::post(url.as_str()).body(body.into()).unwrap());
    let response = tokio::time::timeout(Duration::from_secs(20), sent).await.unwrap().unwrap();
    assert_eq!(response.into_body().collect_limited(10).await.unwrap(), "ok");
}

#[tokio::test]
async fn tls_holds_for_the_name_in_the_url_and_the_authorities_given() {
    let (acceptor, file) = tls_server();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = seen.clone();
    tokio::spawn(async move {
        for _ in 0..3 {
            let (tcp, _) = listener.accept().await.unwrap();
            let Ok(mut tls) = acceptor.accept(tcp).await else {
                continue;
            };
            assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            answer(&mut tls, &["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"], &requests).await;
        }
    });
    let call = async |host: &str, config: Config| {
        let url = Url::parse(&format!("https://{host}:{port}/mcp")).unwrap();
        let origin =
            Origin::new(Arc::new(Connector::new(&config).unwrap()), &url, Policy::Operator)
                .unwrap();
        let response = origin.send(post(&origin, "secret")).await?;
        Ok::<_, crate::SendError>(response.into_body().collect_limited(10).await.unwrap())
    };
    let trusting = Config { ca_file: Some(file.path().to_owned()), ..config() };
    assert_eq!(call("localhost", trusting.clone()).await.unwrap(), "ok");
    // The right certificate for another name, and the right name with an unknown CA.
    for (host, config) in [("127.0.0.1", trusting), ("localhost", config())] {
        let error = call(host, config).await.unwrap_err();
        assert!(
            !error.sent && matches!(error.cause, crate::Cause::Connect(ConnectError::Tls(_))),
            "{error:?}"
        );
    }
    assert_eq!(seen.lock().len(), 1);
}

#[test]
fn an_authority_file_without_a_certificate_is_a_mistake() {
    let empty = NamedTempFile::new().unwrap();
    for path in [empty.path().to_owned(), "/nonexistent/ca.pem".into()] {
        let error =
            Connector::new(&Config { ca_file: Some(path.clone()), ..config() }).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}
