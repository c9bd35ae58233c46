//! The position of a call in a trace, passed to the called server.

use parking_lot::Mutex;

use crate::operation::OperationSpan;
use crate::spans::Tracer;
use crate::trace::TraceContext;

/// The trace of a call. A clone does not have its own span yet.
#[derive(Debug)]
pub struct CallTrace {
    parent: TraceContext,
    /// The recorder of requests to the server; `None` without an export.
    tracer: Option<Tracer>,
    span: Mutex<Option<OperationSpan>>,
}

impl Clone for CallTrace {
    fn clone(&self) -> Self {
        Self::new(self.parent.clone(), self.tracer.clone())
    }
}

impl CallTrace {
    #[must_use]
    pub fn new(parent: TraceContext, tracer: Option<Tracer>) -> Self {
        Self { parent, tracer, span: Mutex::default() }
    }

    /// Returns whether the request's span is recorded.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.tracer.is_some() && self.parent.is_sampled()
    }

    /// Starts the span of a request to the server. Returns the context to send with it; `describe`
    /// is called only if the span is recorded.
    pub fn begin(
        &self,
        method: &'static str,
        describe: impl FnOnce(&mut OperationSpan),
    ) -> TraceContext {
        let Some(tracer) = self.tracer.as_ref().filter(|_| self.parent.is_sampled()) else {
            return self.parent.child();
        };
        let mut span = OperationSpan::client(tracer, &self.parent, method);
        describe(&mut span);
        let context = span.context().clone();
        *self.span.lock() = Some(span);
        context
    }

    /// Ends the request's span after `describe`. Later calls have no effect.
    pub fn end(&self, describe: impl FnOnce(&mut OperationSpan)) {
        let span = self.span.lock().take();
        if let Some(mut span) = span {
            describe(&mut span);
        }
    }
}
