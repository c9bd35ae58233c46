//! Properties of an HTTP connection, for traces and metrics.

use std::sync::atomic::Ordering::Relaxed;

use http::Version;
use lockgate_protocol::modern::SESSION_HEADER;

use super::HttpTransport;

impl HttpTransport {
    pub(crate) fn session(&self) -> Option<String> {
        let base = self.base.load();
        let session = base.headers.get(SESSION_HEADER)?;
        session.to_str().ok().map(str::to_owned)
    }

    /// Returns the HTTP version of the last response, such as `1.1`.
    pub(crate) fn version(&self) -> Option<&'static str> {
        match self.version.load(Relaxed) {
            1 => Some("1.1"),
            2 => Some("2"),
            _ => None,
        }
    }

    pub(super) fn note_version(&self, version: Version) {
        let number = match version {
            Version::HTTP_11 => 1,
            Version::HTTP_2 => 2,
            _ => 0,
        };
        self.version.store(number, Relaxed);
    }
}
