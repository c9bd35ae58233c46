//! Where a call stands in a trace, as it is handed to the server that is called.

use parking_lot::Mutex;

use crate::operation::OperationSpan;
use crate::spans::Tracer;
use crate::trace::TraceContext;

/// See the module. A copy has no span of its own yet.
#[derive(Debug)]
pub struct CallTrace {
    /// What causes the call.
    parent: TraceContext,
    /// Who records the requests to the server; nobody where nothing is exported.
    tracer: Option<Tracer>,
    /// The request that is on its way.
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

    /// Whether somebody records what becomes of the request.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.tracer.is_some() && self.parent.is_sampled()
    }

    /// A request goes to the server now. Gives the context to send with it; `describe` is asked
    /// only where it is recorded.
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

    /// The request has ended; `describe` says how. Nothing is left to end after that.
    pub fn end(&self, describe: impl FnOnce(&mut OperationSpan)) {
        let span = self.span.lock().take();
        if let Some(mut span) = span {
            describe(&mut span);
        }
    }
}
