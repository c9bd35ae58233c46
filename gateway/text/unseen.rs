//! Characters that nobody sees. Layers differ in what they do about them (refuse, take out, write
//! as an escape), and in which kinds concern them, but not in which characters they are.

/// Why a character cannot be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// A control character, line ends and tabs among them.
    Control,
    /// It takes no room.
    NoWidth,
    /// It turns the direction of text.
    Direction,
    /// A line or paragraph separator.
    LineBreak,
    /// A variation selector: part of the symbol before it.
    Selector,
    /// A tag character, which can carry hidden text.
    Tag,
    /// A private character, which looks as a font likes.
    Private,
}

/// What makes a character invisible; nothing for one that is seen.
#[must_use]
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

/// Whether a character takes no room by itself or changes how its neighbours stand. Selectors and
/// private characters do not count: they belong to what people write.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    !matches!(unseen(c), None | Some(Unseen::Selector | Unseen::Private))
}

#[cfg(test)]
mod tests;
