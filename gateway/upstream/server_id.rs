//! Identifies a server. A slug is unique among the servers visible to an organisation; within the
//! whole gateway, it needs the owning organisation as well.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::Upstream;

/// A gateway-wide server id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId {
    /// The owning organisation; `None` for the operator's servers, which all share.
    pub organisation: Option<Arc<str>>,
    pub slug: Arc<str>,
}

impl ServerId {
    /// Returns the id of one of the operator's servers.
    pub fn shared(slug: &str) -> Self {
        Self { organisation: None, slug: slug.into() }
    }

    pub fn of(server: &dyn Upstream) -> Self {
        Self { organisation: server.organisation().cloned(), slug: server.slug().into() }
    }

    /// Reports whether this is the id of `server`.
    pub fn names(&self, server: &dyn Upstream) -> bool {
        *self.slug == *server.slug() && self.organisation.as_ref() == server.organisation()
    }
}

/// `slug`, or `organisation/slug`: slugs contain no `/`.
impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(organisation) = &self.organisation {
            write!(f, "{organisation}/")?;
        }
        f.write_str(&self.slug)
    }
}

impl dyn Upstream {
    /// Returns the server's gateway-wide name, in the format of [`ServerId`].
    pub fn qualified_name(&self) -> Cow<'_, str> {
        match self.organisation() {
            None => Cow::Borrowed(self.slug()),
            Some(organisation) => Cow::Owned(format!("{organisation}/{}", self.slug())),
        }
    }
}
