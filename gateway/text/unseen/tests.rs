//! Tests of `unseen`.

use super::*;

#[test]
fn what_nobody_sees_is_known_by_its_kind() {
    for (c, kind) in [
        ('\n', Unseen::Control),
        ('\u{9b}', Unseen::Control),
        ('\u{200b}', Unseen::NoWidth),
        ('\u{ad}', Unseen::NoWidth),
        ('\u{180e}', Unseen::NoWidth),
        ('\u{202e}', Unseen::Direction),
        ('\u{200f}', Unseen::Direction),
        ('\u{61c}', Unseen::Direction),
        ('\u{2028}', Unseen::LineBreak),
        ('\u{fe0f}', Unseen::Selector),
        ('\u{e0041}', Unseen::Tag),
        ('\u{e000}', Unseen::Private),
        ('\u{10ffff}', Unseen::Private),
    ] {
        assert_eq!(unseen(c), Some(kind), "{c:?}");
        assert_eq!(is_unseen(c), !matches!(kind, Unseen::Selector | Unseen::Private), "{c:?}");
    }
    for c in ['a', ' ', 'é', '😀', '文', '\u{a0}', '\u{301}'] {
        assert_eq!((unseen(c), is_unseen(c)), (None, false), "{c:?}");
    }
}
