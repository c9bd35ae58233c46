//! An organisation: a tenant, identified by its name in credentials.

use serde::{Deserialize, Serialize};

/// An organisation that was created, or that has stored records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organisation {
    pub id: String,
    /// Milliseconds since 1970.
    pub created_at: i64,
    pub integrations: usize,
    pub agents: usize,
}
