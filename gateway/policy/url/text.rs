//! Splits a URL into its parts by the strictest reading. A URL that some parser would split
//! elsewhere is refused. The meaning of the parts is left to the parser.

use lockgate_text::percent;
use lockgate_text::unseen::{Unseen, unseen};

/// The parts of `scheme://host[:port][/path][?query][#fragment]`.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    /// In lower case.
    pub(super) scheme: String,
    /// As written; an IPv6 literal includes its brackets.
    pub(super) host: &'a str,
    pub(super) port: Option<u16>,
    /// From the first `/` to the query or the fragment; may be empty.
    pub(super) path: &'a str,
}

const FORM: &str = "write it as scheme://host/path";

impl<'a> Parts<'a> {
    pub(super) fn of(text: &'a str) -> Result<Self, String> {
        characters(text)?;
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("this is not an absolute URL: {FORM}"));
        };
        if scheme.is_empty()
            || !scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        {
            return Err(format!("this is not an absolute URL: {FORM}"));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        // Some parsers end the host only at the first slash, and would read another host after the
        // `@`.
        if matches!(rest.split('/').next(), Some(before) if before.contains('@')) {
            return Err(
                "user information in a URL is not allowed: leave out the part before the @, and \
                begin the path with /"
                    .into(),
            );
        }
        if authority.is_empty() {
            return Err(format!("the URL has no host: {FORM}"));
        }
        if authority.contains('%') {
            return Err("the host must not have escapes: write it in plain letters".into());
        }
        let (host, port) = cut_port(authority)?;
        let before = match tail.split_once('#') {
            Some((_, fragment)) if !is_plain_fragment(fragment) => {
                return Err(
                    "the part after # has special characters: leave it out, since it is never sent"
                        .into(),
                );
            }
            Some((before, _)) => before,
            None => tail,
        };
        let path = before.split('?').next().unwrap_or("");
        Ok(Self { scheme: scheme.to_ascii_lowercase(), host, port, path })
    }
}

/// Refuses characters that parsers drop, fold or read as separators.
fn characters(text: &str) -> Result<(), String> {
    for c in text.chars() {
        let words = match c {
            ' ' => "a space: write it as %20",
            '\\' => "a backslash, which some parsers read as /: write / or %5C",
            '"' | '<' | '>' | '`' | '^' | '{' | '|' | '}' => {
                "a character that is invalid in URLs: write its %-escape"
            }
            c if c.is_control() => "a control character: leave it out",
            c if is_invisible(c) => "an invisible character: leave it out",
            c if is_lookalike(c) => {
                "a character that may be converted to another: write it in plain ASCII"
            }
            _ => continue,
        };
        return Err(format!("the URL has {words}"));
    }
    Ok(())
}

/// Returns whether a character is invisible, or a space of another width.
fn is_invisible(c: char) -> bool {
    let space =
        matches!(c, '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}');
    space || !matches!(unseen(c), None | Some(Unseen::Private))
}

/// Returns whether compatibility folding turns a character into ASCII, or into text with `.`, `/`,
/// `:`, `@`, `?` or `#`.
fn is_lookalike(c: char) -> bool {
    matches!(u32::from(c),
        // Full-width forms, and the dots that IDNA reads as dots.
        0xff00..=0xff65 | 0xffe0..=0xffee | 0x3002
        // Superscripts, subscripts, enclosed and mathematical letters and digits.
        | 0xaa | 0xb2..=0xb3 | 0xb9..=0xba | 0x2070..=0x209f | 0x2460..=0x24ff
        | 0x1d400..=0x1d7ff | 0x1f100..=0x1f1ff
        // Letter-like symbols such as ℡ and ℆, dots such as …, slashes such as ∕, small forms such
        // as ﹫.
        | 0x2024..=0x2026 | 0x2044 | 0x2100..=0x214f | 0x2150..=0x218f | 0x2215 | 0x2216
        | 0x29f5..=0x29f9 | 0x2a74 | 0x3200..=0x33ff | 0xfb00..=0xfb06 | 0xfe10..=0xfe19
        | 0xfe30..=0xfe6f)
}

/// Splits off the port: digits without a leading zero, which some parsers read as octal or drop.
fn cut_port(authority: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(inside) => {
            let Some((_, after)) = inside.split_once(']') else {
                return Err("the [ of the host has no ]".into());
            };
            let host = &authority[..authority.len() - after.len()];
            if after.is_empty() {
                return Ok((host, None));
            }
            let Some(port) = after.strip_prefix(':') else {
                return Err("there is text between the host and its port".into());
            };
            (host, port)
        }
        None => match authority.split_once(':') {
            Some(cut) => cut,
            None => return Ok((authority, None)),
        },
    };
    let is_plain = (1..=5).contains(&port.len())
        && !port.starts_with('0')
        && port.bytes().all(|b| b.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(number) if is_plain => Ok((host, Some(number))),
        _ => Err("the port must be a number from 1 to 65535".into()),
    }
}

/// Returns whether a fragment is harmless in a parser that reads it as a part of the path.
fn is_plain_fragment(fragment: &str) -> bool {
    fragment.chars().all(is_harmless)
        && !fragment.contains("//")
        && same_everywhere(fragment).is_ok()
}

fn is_harmless(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:/?%".contains(c)
}

/// Returns whether a rule may contain this prefix of paths.
pub(super) fn is_plain_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains("//")
        && path.bytes().all(|b| b.is_ascii_graphic() && !b"?#%\\".contains(&b))
        && same_everywhere(path).is_ok()
}

/// Checks that all servers resolve the path alike: no dot segments, no disguised separators.
pub(super) fn same_everywhere(path: &str) -> Result<(), String> {
    match find_ambiguity(path) {
        Some(what) => Err(format!("the path has {what}: write the resolved path")),
        None => Ok(()),
    }
}

/// Describes the first part of a path that servers read differently.
fn find_ambiguity(path: &str) -> Option<&'static str> {
    let lower = path.to_ascii_lowercase();
    // Decoded once more, because some servers decode twice.
    let decoded = lower.replace("%25", "%");
    if ["%2f", "%5c", "%00", "%0a", "%0d"].iter().any(|escape| decoded.contains(escape)) {
        return Some("an escaped separator or line end");
    }
    // Some servers decode `%c0%ae` to a dot, and others `%u002e`.
    let is_text =
        percent::decode(path.as_bytes()).is_none_or(|bytes| std::str::from_utf8(&bytes).is_ok());
    if decoded.contains("%u") || !is_text {
        return Some("an escape that is not UTF-8");
    }
    if path.contains("//") {
        return Some("an empty segment");
    }
    for segment in decoded.replace("%2e", ".").split('/') {
        // Some servers first strip the parameters after a `;`.
        let name = segment.split([';', '?']).next().unwrap_or("");
        if matches!(name, "." | "..") {
            return Some("a dot segment");
        }
    }
    None
}

/// Formats a part of a URL for a message: shortened, with invisible characters escaped.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    format!("{short:?}")
}
