//! Lists that a server announced as changed on the shared connection. Clients are notified once the
//! lists have been read again, even if a list reads as before.

use lockgate_protocol::method::Method;
use parking_lot::Mutex;

/// Flags for tools, prompts and resources announced since the lists were last read.
#[derive(Default)]
pub(crate) struct Announced(Mutex<[bool; 3]>);

impl Announced {
    pub(crate) fn add(&self, method: Method) {
        let at = match method {
            Method::ToolsChanged => 0,
            Method::PromptsChanged => 1,
            _ => 2,
        };
        self.0.lock()[at] = true;
    }

    pub(crate) fn take(&self) -> [bool; 3] {
        std::mem::take(&mut *self.0.lock())
    }
}
