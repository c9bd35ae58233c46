//! For whom a request to a server is made: servers over HTTP that want to know get it with every
//! request, as a header whose value they can verify. Nobody's header is sent to another server, and
//! none is logged.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that says for whom a request is made. The gateway alone writes it.
pub const IDENTITY_HEADER: &str = "lockgate-identity";

/// Says who somebody is: one caller, or the gateway itself.
pub trait Voucher: Send + Sync + 'static {
    /// A signed statement for this audience alone, which is good for a minute at most; none when
    /// the gateway has no key (any more). Without it the server has to refuse the request.
    fn vouch(&self, audience: &Arc<str>) -> Option<HeaderValue>;
}

/// How one connection to a server that wants to know says for whom its requests are.
#[derive(Clone)]
pub(crate) struct Identification {
    pub(crate) audience: Arc<str>,
    /// Whose the connection is: one client's, or the gateway's own where several share it.
    pub(crate) owner: Arc<dyn Voucher>,
}

impl Identification {
    /// Adds the header, for the caller of a request or else for whose the connection is.
    pub(crate) fn add(&self, headers: &mut HeaderMap, caller: Option<&dyn Voucher>) {
        static NAME: HeaderName = HeaderName::from_static(IDENTITY_HEADER);
        let voucher = caller.unwrap_or(&*self.owner);
        if let Some(mut value) = voucher.vouch(&self.audience) {
            value.set_sensitive(true);
            headers.insert(NAME.clone(), value);
        }
    }
}
