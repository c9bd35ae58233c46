//! Spellings of paths that programs read in different ways: encodings, invisible and lookalike
//! characters, expansions, and absolute paths of other systems. Each is refused with a suggestion.

use lockgate_text::percent;
use lockgate_text::unseen::is_unseen;

/// Characters that some programs convert to a slash or a backslash, or to text with one.
const SLASHES: [char; 13] = [
    '\u{2215}', '\u{2044}', '\u{29F8}', '\u{FF0F}', '\u{FF3C}', '\u{2216}', '\u{FE68}', '\u{29F5}',
    '\u{29F9}', '\u{2100}', '\u{2101}', '\u{2105}', '\u{2106}',
];
/// Characters that some programs convert to dots.
const DOTS: [char; 6] = ['\u{FF0E}', '\u{2024}', '\u{2025}', '\u{2026}', '\u{FE52}', '\u{FE19}'];
const COLONS: [char; 5] = [':', '\u{FF1A}', '\u{FE55}', '\u{A789}', '\u{2236}'];
const PERCENTS: [char; 2] = ['\u{FF05}', '\u{FE6A}'];
const TILDES: [char; 2] = ['~', '\u{FF5E}'];
/// The refusal of a URI that is not a path on this machine.
const NO_FILE: &str = "the URI must be file:/// and a plain path, without a host, ? and #";

/// Refuses a path that is not plain. `..` is plain, and with `literal` so is text that programs
/// would otherwise expand.
pub(super) fn check(text: &str, literal: bool) -> Result<(), String> {
    if text.is_empty() {
        return Err("the path is empty: name a file or a folder".into());
    }
    if text.trim() != text {
        return Err("the path begins or ends with white space: leave it out".into());
    }
    if let Some(bad) = text.chars().find(|&c| is_unseen(c)) {
        return Err(format!(
            "the path has the invisible character U+{:04X}: leave it out",
            u32::from(bad)
        ));
    }
    if !literal {
        backslashes(text)?;
    }
    if let Some(bad) = text.chars().find(|c| SLASHES.contains(c)) {
        return Err(format!(
            "the path has the character U+{:04X}, which may be converted to a slash: use /",
            u32::from(bad)
        ));
    }
    if text.starts_with("//") {
        return Err("the path begins with two slashes: begin with one".into());
    }
    encoded(text)?;
    foreign(text)?;
    if !literal {
        expanded(text)?;
    }
    text.split('/').try_for_each(name)
}

/// Refuses backslashes, except inside a name where they are harmless for programs that read them as
/// separators, drop them or decode escapes.
fn backslashes(text: &str) -> Result<(), String> {
    if text.starts_with('\\')
        || text.split('\\').skip(1).any(|after| after.is_empty() || begins_escape(after))
    {
        return Err("the path has a backslash: separate names with /".into());
    }
    Ok(())
}

/// Returns whether a backslash before this text is an escape in some language.
fn begins_escape(after: &str) -> bool {
    after.starts_with(|c: char| c.is_ascii_digit() || matches!(c, 'x' | 'X' | 'u' | 'U' | 'N'))
}

/// Refuses escapes that a program may decode.
fn encoded(text: &str) -> Result<(), String> {
    if text.contains(PERCENTS) {
        return Err(
            "the path has a character that may be converted to %: write the name itself".into()
        );
    }
    for after in text.split('%').skip(1) {
        let long = after.strip_prefix(['u', 'U']);
        if begins_hex(after, 2) || matches!(long, Some(long) if begins_hex(long, 4)) {
            return Err("the path has a percent escape: write the character itself".into());
        }
    }
    for after in text.split("&#").skip(1) {
        if after.starts_with(|c: char| c.is_ascii_digit() || matches!(c, 'x' | 'X')) {
            return Err("the path has an HTML escape: write the character itself".into());
        }
    }
    Ok(())
}

fn begins_hex(text: &str, count: usize) -> bool {
    text.as_bytes().get(..count).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Rejects URIs and non-Unix paths, such as those with a drive letter.
fn foreign(text: &str) -> Result<(), String> {
    let mut start = text.chars();
    let letter = matches!(start.next(), Some(c) if c.is_ascii_alphabetic() || is_wide_letter(c));
    if letter && matches!(start.next(), Some(c) if COLONS.contains(&c)) {
        return Err("the path begins with a drive letter: use a path that begins with /".into());
    }
    if is_uri(text) || text.contains("://") {
        return Err("the path is a URI: use the path of the file itself".into());
    }
    if text.contains(":$") {
        return Err("the path names a stream of a file: name the file itself".into());
    }
    Ok(())
}

/// Returns whether a text begins with a scheme and continues with a path or a file.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-'))
        && (rest.starts_with('/') || scheme.eq_ignore_ascii_case("file"))
}

fn is_wide_letter(c: char) -> bool {
    matches!(c, '\u{FF21}'..='\u{FF3A}' | '\u{FF41}'..='\u{FF5A}')
}

/// Refuses text that shells and libraries expand.
fn expanded(text: &str) -> Result<(), String> {
    if text.starts_with(TILDES) {
        return Err(
            "the path begins with ~, which a program may expand: write ./ before it if it \
            is a name"
                .into(),
        );
    }
    let first = text.split('/').find(|name| !name.is_empty()).unwrap_or("");
    if is_variable(first) {
        return Err(
            "the path begins with a variable, which a program may expand: write ./ before it if it \
                is a name".into()
        );
    }
    let what = if text.contains("$(") || text.contains("${") || text.contains('`') {
        "a substitution"
    } else if has_braces(text) {
        "braces"
    } else {
        return Ok(());
    };
    Err(format!("the path has {what}, which a program may expand: write the path itself"))
}

/// Returns whether a name is a variable, such as `$HOME` or `%HOME%`.
fn is_variable(name: &str) -> bool {
    let variable = name.strip_prefix('$').unwrap_or("");
    variable.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '{'))
        || name.len() > 2 && name.starts_with('%') && name.ends_with('%')
}

/// Returns whether a text contains `{a,b}` or `{1..9}`.
fn has_braces(text: &str) -> bool {
    for rest in text.split('{').skip(1) {
        let Some((inside, _)) = rest.split_once('}') else { continue };
        if inside.contains("..") || inside.contains(',') {
            return true;
        }
    }
    false
}

/// Checks a name for dots and white space that some systems strip, and for lookalike dots.
fn name(name: &str) -> Result<(), String> {
    if name == "." || name == ".." || name.is_empty() {
        return Ok(());
    }
    let bare = name.split(';').next().unwrap_or("").trim();
    let dots = !bare.is_empty()
        && bare.chars().all(|c| c == '.' || c.is_whitespace() || DOTS.contains(&c));
    if dots || bare.is_empty() {
        return Err(format!(
            "the name {name:?} can be read as `..`: use names with other characters than dots and \
                spaces"
        ));
    }
    Ok(())
}

/// Decodes the path of a `file:` URI once; returns `None` for other text.
pub(super) fn decode_uri(text: &str) -> Result<Option<String>, String> {
    let Some((scheme, rest)) = text.split_once(':') else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case("file") {
        return Ok(None);
    }
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let path = match path.strip_prefix("localhost") {
        Some(rest) if rest.starts_with('/') => rest,
        _ => path,
    };
    if !path.starts_with('/') || path.contains(['?', '#', '\\']) {
        return Err(NO_FILE.into());
    }
    for (at, _) in path.match_indices('%') {
        let Some(byte) = percent::byte(path.as_bytes(), at) else { return Err(NO_FILE.into()) };
        if matches!(byte, b'/' | b'\\' | b'%' | b'.' | 0) {
            return Err(
                "the URI has an encoded separator, dot or %: write the character itself".into()
            );
        }
    }
    let Some(bytes) = percent::decode_strictly(path) else { return Err(NO_FILE.into()) };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| "the URI is not UTF-8: write the name in UTF-8".into())
}
