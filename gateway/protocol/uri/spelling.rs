//! Whether a URI is written in the one way in which everybody writes it: as the WHATWG's standard,
//! by which most servers read it, writes it again. Escapes may differ. It refuses to say what
//! another spelling would be.

use std::borrow::Cow;

use lockgate_text::percent::decode;
use url::Url;

/// Why a URI is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    #[error("the URI is empty")]
    Empty,
    #[error("the URI is too long")]
    TooLong,
    #[error("the URI has a control character or white space")]
    Character,
    #[error("the URI has a dot segment")]
    DotSegment,
    #[error("the URI has an encoded NUL")]
    Nul,
    #[error(
        "the URI can be written in another way: a server is asked for it only if it lists it as it \
            stands"
    )]
    Spelling,
}

/// The schemes that the standard knows, of which it takes many spellings.
const SPECIAL: [&str; 6] = ["file", "ftp", "http", "https", "ws", "wss"];

/// Checks how an own URI is written that its server does not list just so.
///
/// What has no scheme has one spelling. A URI with a scheme must stay what it is, escapes aside,
/// when the standard's parser writes it again: no scheme or host in upper case, no `\` for `/`, no
/// port that goes without saying, no dot segments, and of schemes such as `https` and `file` none
/// without `//`, with `localhost` or with user information.
///
/// # Errors
/// [`UriError::Spelling`].
pub fn check_spelling(uri: &str) -> Result<(), UriError> {
    let Some((scheme, _)) = split(uri) else { return Ok(()) };
    let special = SPECIAL.iter().any(|known| scheme.eq_ignore_ascii_case(known));
    // `c|` is the drive `c:` to the standard, though not to the parser.
    let drive = scheme.eq_ignore_ascii_case("file") && uri.contains('|');
    let usual = match Url::parse(uri) {
        Ok(url) => {
            let user = !url.username().is_empty() || url.password().is_some();
            !(drive || special && user) && plain(url.as_str()) == plain(uri)
        }
        // What the standard does not take, servers that go by it do not read at all.
        Err(_) => !special && !scheme.contains(|c: char| c.is_ascii_uppercase()),
    };
    if usual { Ok(()) } else { Err(UriError::Spelling) }
}

fn plain(uri: &str) -> Cow<'_, [u8]> {
    match decode(uri.as_bytes()) {
        Some(decoded) => Cow::Owned(decoded),
        None => Cow::Borrowed(uri.as_bytes()),
    }
}

/// Scheme and what follows its colon.
pub(super) fn split(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if is_scheme { Some((scheme, rest)) } else { None }
}
