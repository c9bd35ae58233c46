//! Invisible characters. Layers differ in their treatment (reject, remove, escape) and in the kinds
//! that concern them, but not in the set of characters.

/// Why a character is invisible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// A control character, including line ends and tabs.
    Control,
    /// It has no width.
    NoWidth,
    /// It changes the direction of text.
    Direction,
    /// A line or paragraph separator.
    LineBreak,
    /// A variation selector: part of the preceding symbol.
    Selector,
    /// A tag character, which can carry hidden text.
    Tag,
    /// A private-use character, displayed as the font defines.
    Private,
}

/// Returns why a character is invisible; `None` for a visible character.
pub fn unseen(c: char) -> Option<Unseen> {
    if c.is_control() {
        return Some(Unseen::Control);
    }
    Some(match u32::from(c) {
        0x61c | 0x200e..=0x200f | 0x202a..=0x202e | 0x2066..=0x2069 => Unseen::Direction,
        0xad | 0x34f | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200d => {
            Unseen::NoWidth
        }
        0x2060..=0x2065 | 0x206a..=0x206f | 0x3164 | 0xfeff | 0xffa0 | 0xfff0..=0xfffb => {
            Unseen::NoWidth
        }
        0xfffe..=0xffff => Unseen::NoWidth,
        0x2028..=0x2029 => Unseen::LineBreak,
        0xfe00..=0xfe0f => Unseen::Selector,
        0xe0000..=0xe0fff => Unseen::Tag,
        0xe000..=0xf8ff | 0xf0000..=0x0010_ffff => Unseen::Private,
        _ => return None,
    })
}

/// Reports whether a character has no width of its own or changes the display of its neighbours.
/// Selectors and private-use characters do not count: they occur in ordinary text.
pub fn is_unseen(c: char) -> bool {
    !matches!(unseen(c), None | Some(Unseen::Selector | Unseen::Private))
}

#[cfg(test)]
mod tests;
