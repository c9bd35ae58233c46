//! TLS on a live socket: the certificate, its replacement at runtime, and client certificates as
//! principals.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Gate, Upstream, json, until};

pub type Authority = CertifiedIssuer<'static, KeyPair>;
pub type Shown = (CertificateDer<'static>, Vec<u8>);

pub fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Replaces a file by renaming, like certificate tools do.
fn put(folder: &Path, name: &str, text: &str) {
    let fresh = folder.join("fresh");
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(fresh, folder.join(name)).unwrap();
}

pub fn write_server(folder: &Path, by: &Authority) {
    let key = KeyPair::generate().unwrap();
    let made =
        CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, by).unwrap();
    put(folder, "cert.pem", &made.pem());
    put(folder, "key.pem", &key.serialize_pem());
}

fn client(by: &Authority, name: &str) -> Shown {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.into()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    (params.signed_by(&key, by).unwrap().der().clone(), key.serialize_der())
}

/// Sends a request over TLS to a gateway with a certificate of this authority; returns the response
/// or the error.
pub async fn ask(
    gate: &Gate,
    by: &Authority,
    shown: Option<&Shown>,
    request: &Request,
) -> Result<String, String> {
    ask_at(gate.address, by, shown, request).await
}

/// Sends a request like `ask`, to an address.
pub async fn ask_at(
    address: SocketAddr,
    by: &Authority,
    shown: Option<&Shown>,
    request: &Request,
) -> Result<String, String> {
    let mut roots = RootCertStore::empty();
    roots.add(by.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots);
    let config = match shown {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::try_from(key.clone()).unwrap();
            config.with_client_auth_cert(vec![certificate.clone()], key).unwrap()
        }
    };
    let exchange = async {
        let socket = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
        stream.write_all(&request.bytes()).await?;
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer).await;
        // The gateway may close without `close_notify` after its response.
        if answer.is_empty() {
            read.and(Err(std::io::ErrorKind::UnexpectedEof.into()))
        } else {
            Ok(answer)
        }
    };
    let answer = exchange.await.map_err(|error: std::io::Error| error.to_string())?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn list() -> Request {
    Request::modern("/mcp", "tools/list", json!({}))
}

pub fn status(answer: &Result<String, String>) -> u16 {
    let answer = answer.as_deref().unwrap_or_default();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// Polls until a request gets this status.
async fn until_status(what: &str, wanted: u16, check: impl AsyncFn() -> Result<String, String>) {
    until(what, async || (status(&check().await) == wanted).then_some(())).await;
}

async fn start(
    folder: &Path,
    server: &Upstream,
    more: serde_json::Value,
    auth: serde_json::Value,
) -> Gate {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut tls = json!({"cert": path("cert.pem"), "key": path("key.pem")});
    for (name, value) in more.as_object().unwrap() {
        tls[name] = value.clone();
    }
    Gate::launch(json!({"servers": {"a": server.config()}, "http": {"tls": tls}, "auth": auth}))
        .await
}

#[tokio::test]
async fn a_replaced_certificate_is_served_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (authority("old"), authority("new"));
    write_server(folder.path(), &old);
    let server = Upstream::http(modern(&["t"])).await;
    let gate = start(folder.path(), &server, json!({}), json!({})).await;
    until_status("the gateway serves", 200, async || ask(&gate, &old, None, &list()).await).await;
    assert!(
        ask(&gate, &new, None, &list()).await.is_err(),
        "of an authority that the client does not know"
    );
    assert!(gate.log().contains(&format!("https://{}/readyz", gate.address)), "{}", gate.log());
    let plain = list().send(gate.address).await;
    assert_ne!(plain.status, 200, "no plain HTTP on this port");

    put(folder.path(), "key.pem", "garbage");
    until("the mistake is told", async || {
        gate.log().contains("previous one stays in use").then_some(())
    })
    .await;
    assert_eq!(status(&ask(&gate, &old, None, &list()).await), 200);
    write_server(folder.path(), &new);
    until_status("the new one is served", 200, async || ask(&gate, &new, None, &list()).await)
        .await;
    assert!(ask(&gate, &old, None, &list()).await.is_err());
}

#[tokio::test]
async fn client_certificates_are_principals_and_their_authority_can_change() {
    let folder = tempfile::tempdir().unwrap();
    let (own, clients, others) = (authority("own"), authority("clients"), authority("others"));
    write_server(folder.path(), &own);
    put(folder.path(), "ca.pem", &clients.pem());
    let server = Upstream::http(modern(&["t"])).await;
    let ca = json!({"client_ca": folder.path().join("ca.pem").display().to_string()});
    let gate = start(folder.path(), &server, ca, json!({})).await;
    let (ada, bob, eve) =
        (client(&clients, "ada.test"), client(&clients, "bob.test"), client(&others, "ada.test"));
    until_status("the gateway serves", 200, async || ask(&gate, &own, Some(&ada), &list()).await)
        .await;
    assert!(ask(&gate, &own, None, &list()).await.is_err(), "without a certificate");
    assert!(ask(&gate, &own, Some(&eve), &list()).await.is_err(), "of another authority");

    let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let opened = ask(&gate, &own, Some(&ada), &Request::bare("POST", "/mcp", body)).await.unwrap();
    let id =
        opened.split("mcp-session-id: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap();
    let ping = Request::legacy("/mcp", id, 1, "ping", &json!({}));
    assert_eq!(status(&ask(&gate, &own, Some(&ada), &ping).await), 200);
    assert_eq!(
        status(&ask(&gate, &own, Some(&bob), &ping).await),
        404,
        "the session is of another certificate"
    );
    let again = client(&clients, "ada.test");
    assert_eq!(
        status(&ask(&gate, &own, Some(&again), &ping).await),
        200,
        "the same holder, a renewed certificate"
    );

    put(folder.path(), "ca.pem", &others.pem());
    until_status("the new authority counts", 200, async || {
        ask(&gate, &own, Some(&eve), &list()).await
    })
    .await;
    assert!(ask(&gate, &own, Some(&ada), &list()).await.is_err());
    assert_eq!(
        status(&ask(&gate, &own, Some(&eve), &ping).await),
        404,
        "of the same name, but another authority's"
    );
}

#[tokio::test]
async fn an_optional_certificate_leaves_room_for_other_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let (own, clients) = (authority("own"), authority("clients"));
    write_server(folder.path(), &own);
    put(folder.path(), "ca.pem", &clients.pem());
    let server = Upstream::http(modern(&["t"])).await;
    let key = "correct-horse-battery-staple-9";
    let ca = json!({"client_ca": folder.path().join("ca.pem").display().to_string(), "client_auth": "optional"});
    let gate = start(folder.path(), &server, ca, json!({"key": key})).await;
    let ada = client(&clients, "ada.test");
    until_status("the gateway serves", 200, async || ask(&gate, &own, Some(&ada), &list()).await)
        .await;
    let bearer = |key: &str| list().with("Authorization", &format!("Bearer {key}"));
    assert_eq!(status(&ask(&gate, &own, None, &list()).await), 401);
    assert_eq!(status(&ask(&gate, &own, None, &bearer(key)).await), 200);
    assert_eq!(status(&ask(&gate, &own, Some(&ada), &bearer(key)).await), 200);
    assert_eq!(
        status(&ask(&gate, &own, Some(&ada), &bearer("wrong")).await),
        401,
        "a bad key is not overlooked"
    );
}
