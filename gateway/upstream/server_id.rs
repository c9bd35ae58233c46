//! Which server something is about. A slug names one server among those that an organisation sees;
//! of all servers of the gateway, the organisation that a server belongs to has to be said too.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::Upstream;

/// A server among all: see the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId {
    /// The organisation that it belongs to; none for the operator's, which all share.
    pub organisation: Option<Arc<str>>,
    pub slug: Arc<str>,
}

impl ServerId {
    /// One of the operator's servers.
    #[must_use]
    pub fn shared(slug: &str) -> Self {
        Self { organisation: None, slug: slug.into() }
    }

    #[must_use]
    pub fn of(server: &dyn Upstream) -> Self {
        Self { organisation: server.organisation().cloned(), slug: server.slug().into() }
    }

    /// Whether it is this server's.
    #[must_use]
    pub fn names(&self, server: &dyn Upstream) -> bool {
        *self.slug == *server.slug() && self.organisation.as_ref() == server.organisation()
    }
}

/// `slug`, or `organisation/slug`: slugs have no `/`.
impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(organisation) = &self.organisation {
            write!(f, "{organisation}/")?;
        }
        f.write_str(&self.slug)
    }
}

impl dyn Upstream {
    /// Its name among all servers, as [`ServerId`] writes it.
    #[must_use]
    pub fn qualified_name(&self) -> Cow<'_, str> {
        match self.organisation() {
            None => Cow::Borrowed(self.slug()),
            Some(organisation) => Cow::Owned(format!("{organisation}/{}", self.slug())),
        }
    }
}
