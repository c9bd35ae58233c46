//! The dated revisions of the protocol and their two eras.

use std::fmt;

lockgate_text::words! {
    /// A dated revision, ordered from the oldest.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Revision {
        V2024_11_05 = "2024-11-05",
        V2025_03_26 = "2025-03-26",
        V2025_06_18 = "2025-06-18",
        V2025_11_25 = "2025-11-25",
        V2026_07_28 = "2026-07-28",
    }
}

lockgate_text::words! {
    /// A group of revisions: with `initialize` and a session, or with self-describing requests.
    #[derive(Hash)]
    pub enum Era {
        Legacy = "legacy",
        Modern = "modern",
    }
}

impl Revision {
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;
    /// Modern revisions, newest first, then legacy ones, for `server/discover` and -32022.
    pub const OFFERED: [Self; 5] = [
        Self::V2026_07_28,
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    pub fn era(self) -> Era {
        if self >= Self::V2026_07_28 { Era::Modern } else { Era::Legacy }
    }

    /// Returns the index in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
