//! State shared by all connections of one accept loop, and hyper's settings for them.

use std::sync::Arc;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioExecutor;
use lockgate_admission::future_pool::FuturePool;

use crate::config::Limits;
use crate::context::ListenerState;
use crate::exchange::{Answer, Arrival, answer_request};
use crate::exchange_handler::Handler;
use crate::fallback::Fallback;
use crate::tls::ServerCertificate;

/// Concurrent requests per HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// hyper's minimum read buffer.
const MIN_BUFFER: usize = 8 * 1024;
/// Read buffer space beyond the headers lets a body arrive in few reads.
const MAX_BUFFER: usize = 256 * 1024;

pub(super) struct LoopState<H> {
    pub(super) listener: Arc<ListenerState>,
    pub(super) handler: Arc<H>,
    pub(super) fallback: Fallback,
    pub(super) identity: Option<Arc<ServerCertificate>>,
    pub(super) http: Http,
    pub(super) futures: Arc<FuturePool<Arrival<H>, Answer>>,
}

pub(super) struct Http {
    pub(super) one: http1::Builder,
    pub(super) two: http2::Builder<TokioExecutor>,
}

impl Http {
    fn new(limits: &Limits) -> Self {
        let headers = limits.header_bytes;
        let mut one = http1::Builder::new();
        let mut two = http2::Builder::new(TokioExecutor::new());
        // The sweep in `connection` bounds the time for headers without a timer per request, and
        // probes whether a half-closed client has left. hyper's own detection would keep a read
        // buffer for each open stream, and drop a message whose client leaves at once.
        one.half_close(true)
            .header_read_timeout(None)
            .max_header_size(headers)
            .max_buf_size(headers.saturating_add(MIN_BUFFER).clamp(MIN_BUFFER, MAX_BUFFER));
        two.max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(u32::try_from(headers).unwrap_or(u32::MAX));
        Self { one, two }
    }
}

impl<H: Handler> LoopState<H> {
    pub(super) fn new(
        listener: Arc<ListenerState>,
        identity: Option<Arc<ServerCertificate>>,
        handler: Arc<H>,
        fallback: Fallback,
    ) -> Self {
        let http = Http::new(&listener.config.limits);
        let futures = FuturePool::new(answer_request);
        Self { listener, handler, fallback, identity, http, futures }
    }

    pub(super) fn reload_certificate(&self) {
        if let Some(identity) = &self.identity {
            Arc::clone(identity).reload_in_background();
        }
    }
}
