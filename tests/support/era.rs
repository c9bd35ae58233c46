//! The revisions that a fixture serves.

use std::borrow::Cow;

use clap::ValueEnum;
use rmcp::model::ProtocolVersion;

/// The revisions that one fixture advertises and serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Era {
    /// 2024-11-05 to 2026-07-28.
    Both,
    /// 2026-07-28 alone: no `initialize`, no sessions.
    Modern,
    /// 2024-11-05 to 2025-11-25: no `server/discover`.
    Legacy,
}

impl Era {
    pub(crate) fn revisions(self) -> Cow<'static, [ProtocolVersion]> {
        match self {
            Self::Both => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
            Self::Modern => Cow::Owned(vec![ProtocolVersion::V_2026_07_28]),
            Self::Legacy => {
                Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
            }
        }
    }

    /// Returns the era of a revision.
    #[must_use]
    pub fn of(revision: &ProtocolVersion) -> Self {
        if *revision >= ProtocolVersion::V_2026_07_28 { Self::Modern } else { Self::Legacy }
    }

    pub(crate) fn has_sessions(self) -> bool {
        self != Self::Modern
    }
}
