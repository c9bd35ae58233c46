//! Calls with a credential that changes: one that the server refuses is made once more with
//! another, and calls end with their client.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use http::HeaderValue;

use super::Client;
use crate::call::{Answer, Call};
use crate::failure::{UpstreamError, UpstreamErrorKind};
use crate::identity_assertion::Authorization;

impl Client {
    /// Makes a call that the server refused before it has run once more, with another credential.
    pub(super) async fn call_again(
        &self,
        authorization: &dyn Authorization,
        used: Option<HeaderValue>,
        call: &Call<'_>,
        mut answered: Result<Answer, UpstreamError>,
    ) -> Result<Answer, UpstreamError> {
        if authorization.renew(used).await {
            answered = self.run_until_closed(call).await;
        }
        match answered {
            Err(failure) if failure.kind == UpstreamErrorKind::NeedsAuth => {
                Err(authorization.explain(failure).await)
            }
            answered => answered,
        }
    }

    /// Runs a call. One with a credential that may end is ended with the client.
    pub(super) async fn run_until_closed(&self, call: &Call<'_>) -> Result<Answer, UpstreamError> {
        let may_end = self.shared.around.authorization.is_some();
        let mut running = pin!(self.shared.run(call));
        let mut closing = pin!(may_end.then(|| self.shared.closing.cancelled()));
        poll_fn(|cx| {
            let answered = running.as_mut().poll(cx);
            if answered.is_pending()
                && let Some(closing) = closing.as_mut().as_pin_mut()
                && closing.poll(cx).is_ready()
            {
                // No prompt, after which the call would be made again.
                let words = "the account was disconnected during the call";
                let failure = UpstreamError::new(UpstreamErrorKind::Lost, words);
                return Poll::Ready(Err(failure.after_send()));
            }
            answered
        })
        .await
    }

    /// Waits for a credential that can be used. Returns `None` if the server may need none.
    pub(super) async fn prepare(
        &self,
        authorization: &dyn Authorization,
    ) -> Result<Option<HeaderValue>, UpstreamError> {
        match authorization.prepare().await {
            Ok(()) => Ok(authorization.header()),
            Err(words) => {
                let failure = UpstreamError::new(UpstreamErrorKind::NeedsAuth, words);
                Err(authorization.explain(failure).await)
            }
        }
    }
}
