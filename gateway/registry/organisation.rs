//! An organisation: a tenant, known by the name that credentials call it by.

use serde::{Deserialize, Serialize};

/// An organisation that was created, or that something is stored of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organisation {
    pub id: String,
    /// Milliseconds since 1970.
    pub created_at: i64,
    pub integrations: usize,
    pub agents: usize,
}
