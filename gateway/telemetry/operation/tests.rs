//! Tests of `operation`: exported spans.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::batches::QUEUE_CAPACITY;
use crate::{Export, Format};

fn lost(tracer: &Tracer) -> u64 {
    tracer.queue.lost.get()
}

/// Returns a collector that answers with `status`, and forwards the path and body of each request.
async fn collector(status: u16) -> (Config, mpsc::Receiver<(String, Bytes)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let (got, gets) = mpsc::channel(8);
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let got = got.clone();
            let serve = service_fn(move |request: Request<Incoming>| {
                let got = got.clone();
                async move {
                    let path = request.uri().to_string();
                    let body = request.into_body().collect().await?.to_bytes();
                    got.send((path, body)).await.unwrap();
                    let mut response = Response::new(Empty::<Bytes>::new());
                    *response.status_mut() = status.try_into().unwrap();
                    Ok::<_, hyper::Error>(response)
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(tcp), serve),
            );
        }
    });
    (
        Config {
            level: "info".into(),
            format: Format::Text,
            export: Export { otlp: Some(endpoint), tools: 1, ..Export::default() },
            audit: None,
        },
        gets,
    )
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

/// Records a completed call.
fn end(tracer: &Tracer, parent: Option<&TraceContext>) -> TraceContext {
    let mut span = OperationSpan::server(tracer, parent, "tools/call");
    span.set_target("files__read", true);
    span.note(Note::Server, "files");
    span.ended(Ending::Failed(TOOL_ERROR), "");
    span.context().clone()
}

#[tokio::test]
async fn a_span_arrives_in_the_clients_trace_under_the_clients_span() {
    let (config, mut gets) = collector(200).await;
    let tracer = Tracer::start(&config, &Metrics::new(&config), &Way::default()).unwrap().unwrap();
    let parent =
        TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None)
            .unwrap();
    let context = end(&tracer, Some(&parent));
    tracer.flush().await;
    let (path, body) = gets.recv().await.unwrap();
    assert_eq!(path, "/v1/traces");
    // Protobuf: fields 1 (trace), 2 (span) and 4 (parent) of a span, with their lengths.
    assert!(contains(&body, &[&[0x0a, 16][..], &parent.trace_id().to_be_bytes()].concat()));
    assert!(contains(&body, &[&[0x12, 8][..], &context.span_id().to_be_bytes()].concat()));
    assert!(contains(&body, &[&[0x22, 8][..], &parent.span_id().to_be_bytes()].concat()));
    for text in [
        "tools/call files__read",
        "mcp.method.name",
        "lockgate.server",
        "gen_ai.tool.name",
        "tool_error",
        "execute_tool",
    ] {
        assert!(contains(&body, text.as_bytes()), "{text}");
    }
    assert_eq!(lost(&tracer), 0);
}

#[tokio::test]
async fn what_the_client_did_not_sample_is_not_exported() {
    let (config, mut gets) = collector(200).await;
    let tracer = Tracer::start(&config, &Metrics::new(&config), &Way::default()).unwrap().unwrap();
    end(&tracer, Some(&TraceContext::root(false)));
    tracer.flush().await;
    assert!(gets.try_recv().is_err());
    assert_eq!(lost(&tracer), 0);
}

#[tokio::test]
async fn spans_that_a_collector_refuses_are_counted_as_lost() {
    let (config, mut gets) = collector(400).await;
    let metrics = Metrics::new(&config);
    let tracer = Tracer::start(&config, &metrics, &Way::default()).unwrap().unwrap();
    end(&tracer, None);
    tracer.flush().await;
    assert!(gets.recv().await.is_some());
    assert_eq!(lost(&tracer), 1);
    assert!(metrics.render().contains("lockgate_spans_lost_total 1"));
}

#[tokio::test]
async fn spans_beyond_the_queue_are_counted_and_never_waited_for() {
    let (config, _gets) = collector(200).await;
    let tracer = Tracer::start(&config, &Metrics::new(&config), &Way::default()).unwrap().unwrap();
    // Without an await on this single-threaded runtime, the exporter cannot take any.
    for _ in 0..QUEUE_CAPACITY + 3 {
        end(&tracer, None);
    }
    assert_eq!(lost(&tracer), 3);
}

#[tokio::test]
async fn without_an_endpoint_there_is_no_tracer() {
    let config = Config {
        level: "info".into(),
        format: Format::Text,
        export: Export { tools: 1, ..Export::default() },
        audit: None,
    };
    assert!(Tracer::start(&config, &Metrics::new(&config), &Way::default()).unwrap().is_none());
}

#[tokio::test]
async fn a_collector_is_reached_through_the_proxy() {
    // Requests to a proxy have the whole URL in their request line.
    let (mut config, mut gets) = collector(200).await;
    let target = "http://collector.example:4318/v1/traces".to_owned();
    let proxy = config.export.otlp.replace(target).unwrap();
    let mut url = url::Url::parse(&proxy).unwrap();
    url.set_path("");
    url.set_username("ada").unwrap();
    let way = Way { proxy: Some((url, "localhost,other.example".into())), ca_file: None };
    let tracer = Tracer::start(&config, &Metrics::new(&config), &way).unwrap().unwrap();
    end(&tracer, None);
    tracer.flush().await;
    let (path, _) = gets.recv().await.unwrap();
    assert_eq!(path, "http://collector.example:4318/v1/traces");
    assert_eq!(lost(&tracer), 0);
}
