//! Lists that a server said have changed on the connection that all clients share, until they have
//! been read again. Clients are told of it then, also when a list reads as before.

use lockgate_protocol::method::Method;
use parking_lot::Mutex;

/// Tools, prompts, resources: which of them were announced since the lists were last read.
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
