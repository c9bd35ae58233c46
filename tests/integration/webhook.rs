//! The webhook of approvals: a signed message for each call that awaits approval by others, with a
//! link to a page where approvers authenticate.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::approvals::{ONE, OWN, Rig, modern_call};
use crate::principals::By;
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{HeardMessage, Say, Upstream, Value, json, until};

const SECRET: &[u8] = b"0f1e2d3c4b5a69788796a5b4c3d2e1f0";

fn whsec() -> String {
    format!("whsec_{}", STANDARD.encode(SECRET))
}

/// Starts a receiver that fails this many times before it accepts messages.
async fn receiver(failures: usize, status: u16) -> Upstream {
    let count = AtomicUsize::new(0);
    Upstream::http(move |_| {
        if count.fetch_add(1, Ordering::SeqCst) < failures {
            Say::Status(status, Vec::new(), json!({}))
        } else {
            Say::Status(204, Vec::new(), Value::Null)
        }
    })
    .await
}

async fn rig(receiver: &Upstream, policies: &str) -> Rig {
    let url = format!("http://{}/hook/with-a-secret-path", receiver.address);
    let more = json!({"approvals": {"webhook": {"url": url, "secret": whsec()}},
        "http": {"public_url": "http://127.0.0.1/gate"}});
    Rig::with(modern(&["drop", "wipe", "read"]), policies, more).await
}

/// Starts a call that awaits approval; returns its socket.
async fn begin(rig: &Rig, key: &str) -> tokio::net::TcpStream {
    let mut socket = tokio::net::TcpStream::connect(rig.gate.address).await.unwrap();
    let arguments = json!({"arguments": {"account": "DE02-1200-3000"}});
    let bytes = modern_call("a__wipe", arguments).by(key).bytes();
    tokio::io::AsyncWriteExt::write_all(&mut socket, &bytes).await.unwrap();
    socket
}

fn signature(heard: &HeardMessage) -> String {
    let [id, time] = ["webhook-id", "webhook-timestamp"].map(|name| heard.header(name).unwrap());
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let signed = format!("{id}.{time}.{}", heard.text);
    format!("v1,{}", STANDARD.encode(hmac::sign(&key, signed.as_bytes())))
}

async fn counted(rig: &Rig, key: &str, outcome: &str) -> bool {
    let metrics = Request::bare("GET", "/metrics", "").by(key).send(rig.gate.address).await.text();
    let line = format!("lockgate_approval_notifications_total{{outcome=\"{outcome}\"}} 1");
    metrics.contains(&line)
}

#[tokio::test]
async fn a_webhook_is_told_once_and_its_link_opens_the_call_for_approvers_alone() {
    let receiver = receiver(1, 503).await;
    let rig = rig(&receiver, &format!("{OWN}{ONE}")).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    // Approvals by the caller are not sent to the webhook.
    rig.call(&ann, "a__drop", json!({})).await.result();
    let _call = begin(&rig, &ann).await;
    // The first attempt fails and is retried.
    let heard = until("the message is sent again", async || {
        let all = receiver.heard();
        (all.len() == 2).then_some(all)
    })
    .await;
    assert_eq!(heard[0].text, heard[1].text);
    for message in &heard {
        assert_eq!(message.header("webhook-signature"), Some(&*signature(message)));
        assert_eq!(message.header("webhook-id"), heard[0].header("webhook-id"));
        assert_eq!(message.header("authorization"), None);
    }
    let body = &heard[1].body;
    let waiting = rig.waiting(&bob).await;
    let data = &body["data"];
    assert_eq!((&body["type"], &data["id"]), (&json!("approval.waiting"), &waiting["id"]));
    assert_eq!((&data["tool"], &data["server"]), (&json!("a__wipe"), &json!("a")));
    assert!(!heard[1].text.contains("DE02"), "arguments are for approvers: {body}");
    until("it is counted", async || counted(&rig, &bob, "delivered").await.then_some(())).await;
    // The link opens a page that shows no details by itself.
    let link = data["link"].as_str().unwrap();
    let path = link.strip_prefix("http://127.0.0.1/gate").expect("the public address");
    let page = Request::bare("GET", path, "").send(rig.gate.address).await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html")));
    let script = Request::bare("GET", "/approvals/page.js", "").send(rig.gate.address).await;
    assert_eq!((script.status, script.header("content-type")), (200, Some("text/javascript")));
    for file in [&page, &script] {
        let policy = file.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
    }
    assert!(!page.text().contains("DE02") && !page.text().contains("wipe"), "{}", page.text());
    let flipped =
        format!("{}{}", &path[..path.len() - 2], if path.ends_with("AA") { "BB" } else { "AA" });
    for bad in [
        &*flipped,
        path.split('?').next().unwrap(),
        &path.replace(&**data["id"].as_str().as_ref().unwrap(), "00"),
    ] {
        assert_eq!(Request::bare("GET", bad, "").send(rig.gate.address).await.status, 404, "{bad}");
    }
    // Only approvers can see the call.
    let one = path.split("/open").next().unwrap();
    let shown = Request::bare("GET", one, "").by(&bob).send(rig.gate.address).await;
    assert!(shown.json()["arguments"].as_str().unwrap().contains("DE02"), "{}", shown.text());
    assert_eq!(Request::bare("GET", one, "").send(rig.gate.address).await.status, 401);
    assert_eq!(Request::bare("GET", one, "").by(&ann).send(rig.gate.address).await.status, 404);
    // Answers are accepted from the page's own origin only.
    let approve = |origin: &str| {
        Request::bare("POST", &format!("{one}/approve"), "").by(&bob).with("Origin", origin)
    };
    assert_eq!(approve("http://evil.test").send(rig.gate.address).await.status, 403);
    // `GET` decides nothing, and there are only two decisions.
    for (method, path, status) in [
        ("GET", &*format!("{one}/approve"), 405),
        ("POST", "/approvals", 405),
        ("POST", &format!("{one}/perhaps"), 404),
    ] {
        let refused = Request::bare(method, path, "").by(&bob).send(rig.gate.address).await;
        assert_eq!(refused.status, status, "{method} {path}");
    }
    let done = approve("http://127.0.0.1").send(rig.gate.address).await;
    assert_eq!(done.json()["state"], "approved", "{}", done.text());
    let log = rig.gate.log();
    for secret in ["with-a-secret-path", "whsec_", "lg1.", "DE02"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    assert_eq!(receiver.heard().len(), 2);
}

/// A failing webhook does not delay the approval, and is reported.
#[tokio::test]
async fn a_webhook_that_fails_is_counted_and_logged_and_the_call_goes_on() {
    let receiver = receiver(usize::MAX, 410).await;
    let rig = rig(&receiver, ONE).await;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let _call = begin(&rig, &ann).await;
    let began = Instant::now();
    let id = rig.waiting(&bob).await["id"].clone();
    until("it is counted", async || counted(&rig, &bob, "failed").await.then_some(())).await;
    assert!(rig.gate.log().contains("the webhook was not notified"), "{}", rig.gate.log());
    assert!(!rig.gate.log().contains("with-a-secret-path"));
    // 410 means that the receiver is gone permanently.
    assert_eq!(receiver.heard().len(), 1);
    assert_eq!(rig.answer(&bob, &id, "approve").await.json()["state"], "approved");
    assert!(began.elapsed() < Duration::from_secs(10));
}
