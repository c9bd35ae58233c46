//! Handlers of a single type. Axum compiles dozens of functions for each type of handler, which for
//! 145 routes would be a tenth of the functions of this crate.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;

pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Any handler that is a function.
pub(crate) struct AnyHandler<S>(Arc<dyn Fn(Request, S) -> ResponseFuture + Send + Sync>);

impl<S> AnyHandler<S> {
    pub(crate) fn new<H, T>(handler: H) -> Self
    where
        H: Handler<T, S, Future = ResponseFuture>,
    {
        Self(Arc::new(move |request, state| handler.clone().call(request, state)))
    }
}

impl<S> Clone for AnyHandler<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: 'static> Handler<(), S> for AnyHandler<S> {
    type Future = ResponseFuture;

    fn call(self, request: Request, state: S) -> ResponseFuture {
        (self.0)(request, state)
    }
}
