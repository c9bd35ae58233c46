//! Tests of `batches`, against a collector with scripted responses.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::*;
use crate::Export;

impl<T> Waiting<T> {
    pub(crate) fn into_items(mut self) -> Vec<T> {
        let mut items = Vec::new();
        while let Ok(item) = self.queued.try_recv() {
            items.push(item);
        }
        items
    }
}

/// A batch is its bytes.
impl Item for u8 {
    const FAILED: &'static str = "bytes were not exported";
    const RESUMED: &'static str = "bytes are exported again";

    fn encode(batch: Vec<u8>, _: &ResourceAttributesWithSchema) -> Vec<u8> {
        batch
    }
}

/// Returns a collector with these statuses (0: no response), then 200. Sends accepted batches.
async fn collector(statuses: &[u16]) -> (Collector, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/v1/bytes", listener.local_addr().unwrap());
    let statuses = Arc::new(Mutex::new(statuses.iter().copied().collect::<VecDeque<u16>>()));
    let (got, gets) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let (got, statuses) = (got.clone(), Arc::clone(&statuses));
            let serve = service_fn(move |request: Request<Incoming>| {
                let (got, statuses) = (got.clone(), Arc::clone(&statuses));
                async move {
                    let body = request.into_body().collect().await?.to_bytes();
                    let status = statuses.lock().pop_front().unwrap_or(200);
                    if status == 0 {
                        std::future::pending::<()>().await;
                    }
                    if status == 200 {
                        got.send(body.to_vec()).unwrap();
                    }
                    let mut response = Response::new(Full::<Bytes>::default());
                    *response.status_mut() = status.try_into().unwrap();
                    Ok::<_, hyper::Error>(response)
                }
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(tcp), serve));
        }
    });
    let made = Collector::new(&endpoint, &Export::default(), &Way::default());
    (made.unwrap(), gets)
}

fn lost(queue: &Queue<u8>) -> u64 {
    queue.lost.get()
}

async fn start(statuses: &[u16]) -> (Queue<u8>, mpsc::UnboundedReceiver<Vec<u8>>) {
    let (collector, gets) = collector(statuses).await;
    let (queue, waiting) = queue(Arc::default());
    tokio::spawn(waiting.export(collector));
    (queue, gets)
}

#[tokio::test]
async fn what_a_collector_refuses_for_now_is_sent_again_and_what_for_good_is_lost() {
    for passing in [429, 502, 503, 504] {
        let (queue, mut gets) = start(&[passing, passing]).await;
        queue.put(|| 7);
        assert_eq!(gets.recv().await.unwrap(), [7], "{passing}");
        assert_eq!(lost(&queue), 0);
    }
    for lasting in [400, 404, 500, 301] {
        let (queue, mut gets) = start(&[lasting]).await;
        for _ in 0..MAX_BATCH {
            queue.put(|| 7);
        }
        queue.put(|| 8);
        queue.end().await;
        assert_eq!(lost(&queue), MAX_BATCH as u64, "{lasting}");
        assert_eq!(gets.try_recv().unwrap(), [8]);
    }
}

#[tokio::test]
async fn a_full_queue_loses_what_comes_and_keeps_what_is_there() {
    let (collector, mut gets) = collector(&[]).await;
    let (queue, waiting) = queue(Arc::default());
    for number in 0..QUEUE_CAPACITY + 3 {
        queue.put(|| {
            assert!(number < QUEUE_CAPACITY, "what is lost is not even made");
            u8::try_from(number % 256).unwrap()
        });
    }
    assert_eq!(lost(&queue), 3);
    tokio::spawn(waiting.export(collector));
    let mut taken = Vec::new();
    while taken.len() < QUEUE_CAPACITY {
        let batch = gets.recv().await.unwrap();
        assert!(batch.len() <= MAX_BATCH);
        taken.extend(batch);
    }
    for (number, byte) in taken.into_iter().enumerate() {
        assert_eq!(usize::from(byte), number % 256);
    }
    assert_eq!(lost(&queue), 3);
}

#[tokio::test]
async fn an_end_tries_each_batch_once() {
    let (queue, mut gets) = start(&[503; 3]).await;
    for _ in 0..2 * MAX_BATCH {
        queue.put(|| 7);
    }
    queue.end().await;
    // The first batch may have been tried before the end, and no other twice.
    assert_eq!(lost(&queue), 2 * MAX_BATCH as u64);
    assert!(gets.try_recv().is_err());
}

#[tokio::test]
async fn an_end_is_in_time_where_the_collector_never_answers() {
    let (queue, _gets) = start(&[0]).await;
    queue.put(|| 7);
    let began = Instant::now();
    queue.end().await;
    assert!(began.elapsed() < 2 * SHUTDOWN_TIMEOUT, "{:?}", began.elapsed());
}
