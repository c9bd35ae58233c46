//! Legacy calls whose client has gone: they go on, because that client has not cancelled them, for
//! as long as nobody else wants their place at the server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lockgate_admission::Promise;
use lockgate_upstream::Upstream;

use futures_util::future::BoxFuture;

use crate::client_channel::CallChannel;
use crate::context::RequestContext;
use crate::rescue::RequestError;
use crate::session::{AWAY, Log};
use crate::transport::Text;

pub(super) type Work = BoxFuture<'static, (Box<RequestContext>, Result<Text, RequestError>)>;

/// A call that is handed to the runtime when it is dropped before its end: a legacy client that
/// goes away has not cancelled it. There it goes on for as long as nobody else wants its place.
pub(super) struct Detached {
    work: Option<Work>,
    server: Arc<dyn Upstream>,
    channel: Arc<CallChannel>,
}

impl Detached {
    pub(super) fn new(work: Work, server: Arc<dyn Upstream>, channel: Arc<CallChannel>) -> Self {
        Self { work: Some(work), server, channel }
    }

    pub(super) fn server(&self) -> Arc<dyn Upstream> {
        Arc::clone(&self.server)
    }

    /// The call, to be finished elsewhere.
    pub(super) async fn take(mut self) -> (Box<RequestContext>, Result<Text, RequestError>) {
        match self.work.take() {
            Some(work) => work.await,
            None => std::future::pending().await,
        }
    }
}

impl Future for Detached {
    type Output = (Box<RequestContext>, Result<Text, RequestError>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let output = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(output)
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.channel.record_departure();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let server = Arc::clone(&self.server);
        runtime.spawn(async move {
            tokio::select! {
                _ = work => {}
                _promise = reclaim(&*server, None) => {
                    tracing::info!(server = server.slug(), "a call was given up: its client is \
                        gone and others wait");
                }
            }
        });
    }
}

/// Ready when a call has to leave its place at a server: its client is gone, and somebody else
/// waits for it. What it gives is to be kept until the call has ended.
pub(super) async fn reclaim<'a>(server: &'a dyn Upstream, stream: Option<&Log>) -> Promise<'a> {
    loop {
        // A call with a client does not stand in the way of those without.
        while !is_abandoned(stream) {
            tokio::time::sleep(AWAY / 10).await;
        }
        let promise = server.calls().wanted().await;
        if is_abandoned(stream) {
            return promise;
        }
    }
}

/// Whether no client is there for a call, which may have a stream that its client could read.
fn is_abandoned(stream: Option<&Log>) -> bool {
    match stream {
        Some(stream) => stream.is_abandoned(),
        None => true,
    }
}
