//! Inspection of tools and skills when lists are merged: comparison with the lock file, and search
//! for hidden text. Quarantined ones are removed before any view is built, so that lists and calls
//! agree.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lockgate_policy::InputSchema;
use lockgate_policy::pin::{self, Finding, HiddenText, Pin, Pins, Reaction, Standing};
use lockgate_protocol::list;
use lockgate_protocol::strings::{self, StringRole};
use lockgate_upstream::{Item, Upstream};

/// Members with values for programs, which are never stripped.
const EXACT: [&str; 8] =
    ["name", "uri", "uriTemplate", "enum", "const", "default", "pattern", "examples"];
/// Endings of files of skills that models read.
const TEXT_ENDINGS: [&str; 12] =
    ["csv", "html", "js", "json", "md", "mdx", "py", "sh", "ts", "txt", "yaml", "yml"];

#[derive(Debug)]
pub(crate) struct Inspected {
    /// The definition as the server wrote it.
    original: Bytes,
    pub(crate) fingerprint: String,
    pub(crate) findings: Vec<Finding>,
    /// Whether it has invisible characters.
    unseen: bool,
    pub(crate) standing: Option<Standing>,
    pub(crate) quarantined: bool,
    pub(crate) arguments: ArgumentCheck,
}

/// Validation of a tool's arguments against its schema.
#[derive(Clone, Debug)]
pub(crate) enum ArgumentCheck {
    Off,
    Schema(Arc<InputSchema>),
    /// The schema cannot be used, which has been logged.
    Impossible,
}

impl ArgumentCheck {
    fn new(server: &str, item: &Item) -> Self {
        let schema = list::member(&item.text, "inputSchema").unwrap_or(b"{}");
        match InputSchema::compile(schema) {
            Ok(schema) => Self::Schema(Arc::new(schema)),
            Err(why) => {
                tracing::warn!(
                    server,
                    tool = &*item.key,
                    why,
                    "arguments of this tool are not checked"
                );
                Self::Impossible
            }
        }
    }
}

impl Inspected {
    pub(crate) fn original(&self) -> &[u8] {
        &self.original
    }
}

/// Returns the server's name in the lock file. `@` cannot begin a slug, and an organisation's `/`
/// is escaped, so that no organisation can approve tools of others.
pub(crate) fn name_in_lock(server: &dyn Upstream) -> Cow<'_, str> {
    match server.organisation() {
        None => Cow::Borrowed(server.slug()),
        Some(organisation) => {
            let organisation = organisation.replace('%', "%25").replace('/', "%2F");
            Cow::Owned(format!("@{organisation}/{}", server.slug()))
        }
    }
}

/// Inspects tools and skills. Knows the inspections of the previous catalog, by slug and the
/// server's own name.
pub(crate) struct Inspector<'a> {
    pub(crate) pins: &'a Pins,
    known: HashMap<(&'a str, &'a str), &'a Arc<Inspected>>,
}

impl<'a> Inspector<'a> {
    pub(crate) fn new(pins: &'a Pins) -> Self {
        Self { pins, known: HashMap::new() }
    }

    pub(crate) fn add(&mut self, slug: &'a str, own: &'a str, inspected: &'a Arc<Inspected>) {
        self.known.insert((slug, own), inspected);
    }

    /// Inspects a tool, or a skill, whose text cannot be cleaned; reuses an earlier inspection of
    /// the same text. Built-in tools are part of the release and are not pinned.
    pub(crate) fn inspect(
        &self,
        server: &dyn Upstream,
        item: &Item,
        is_builtin: bool,
        is_skill: bool,
    ) -> Arc<Inspected> {
        let Self { pins, known } = self;
        let known = known.get(&(server.slug(), &*item.key));
        let known = known.filter(|known| known.original == item.text);
        let (fingerprint, findings, unseen) = match known {
            Some(known) => (known.fingerprint.clone(), known.findings.clone(), known.unseen),
            None => look(&item.text),
        };
        let arguments = match known.map(|known| &known.arguments) {
            _ if is_skill || !server.validates_arguments() => ArgumentCheck::Off,
            Some(checked @ (ArgumentCheck::Schema(_) | ArgumentCheck::Impossible)) => {
                checked.clone()
            }
            _ => ArgumentCheck::new(server.slug(), item),
        };
        let standing = match &pins.lock {
            Some(lock) if !is_builtin => {
                Some(lock.standing(&name_in_lock(server), &item.key, &fingerprint))
            }
            _ => None,
        };
        let pinned = matches!(
            standing,
            Some(standing) if pins.reaction(standing) == Reaction::Quarantine
        );
        let hides = match pins.hidden_text {
            HiddenText::Quarantine => true,
            HiddenText::Strip => is_skill,
            HiddenText::Report => false,
        };
        let quarantined = pinned || unseen && !is_builtin && hides;
        Arc::new(Inspected {
            original: item.text.clone(),
            fingerprint,
            findings,
            unseen,
            standing,
            quarantined,
            arguments,
        })
    }
}

fn look(text: &[u8]) -> (String, Vec<Finding>, bool) {
    match Pin::of(text) {
        Ok(pin) => (pin.fingerprint, pin::inspect(&pin.definition), cleaned(text).is_some()),
        // Not expected, since the item was scanned on receipt. An empty fingerprint matches no
        // approval.
        Err(_) => (String::new(), Vec::new(), false),
    }
}

/// Returns the item as clients see it.
pub(crate) fn shown(item: &Item, pins: &Pins) -> Item {
    if pins.hidden_text == HiddenText::Strip
        && let Some(text) = cleaned(&item.text)
    {
        return Item { text: text.into(), ..item.clone() };
    }
    item.clone()
}

/// Returns whether the contents of a skill's file have invisible characters, also in base64.
/// Base64 that cannot be decoded counts, because a lenient client may decode it.
pub(crate) fn has_hidden_text(uri: &str, contents: &[u8]) -> bool {
    let mut is_text = is_text_file(uri);
    let _ = strings::rewrite(contents, &mut |place, text| {
        is_text |= match place {
            StringRole::Value("uri") => is_text_file(text),
            StringRole::Value("mimeType") => starts_with_ignoring_case(text, "text/"),
            _ => false,
        };
        None
    });
    let mut is_hidden = false;
    let _ = strings::rewrite(contents, &mut |place, text| {
        is_hidden |= match place {
            StringRole::Value("text") => pin::strip(text).is_some(),
            StringRole::Value("blob") => match STANDARD.decode(text) {
                Ok(bytes) => is_hidden_in(&bytes, is_text),
                Err(_) => true,
            },
            _ => false,
        };
        None
    });
    is_hidden
}

/// Returns whether the bytes of a file have invisible characters. Invalid UTF-8 with a NUL is a
/// binary file, unless its name or type is that of a text; other invalid bytes are skipped.
fn is_hidden_in(bytes: &[u8], is_text: bool) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let is_binary = matches!(text, Cow::Owned(_)) && !is_text && bytes.contains(&0);
    !is_binary && pin::strip(&text).is_some()
}

/// Returns whether the name of a file is that of a text.
fn is_text_file(uri: &str) -> bool {
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    let (_, ending) = path.rsplit_once('.').unwrap_or(("", ""));
    TEXT_ENDINGS.iter().any(|text| ending.eq_ignore_ascii_case(text))
}

fn starts_with_ignoring_case(text: &str, beginning: &str) -> bool {
    let start = text.get(..beginning.len()).unwrap_or("");
    start.eq_ignore_ascii_case(beginning)
}

/// Returns the text without invisible characters, or `None` if it has none.
fn cleaned(text: &[u8]) -> Option<Vec<u8>> {
    if text.is_ascii() && memchr::memmem::find(text, b"\\u").is_none() {
        return None;
    }
    strings::rewrite(text, &mut |place, text| match place {
        StringRole::Value(key) if !EXACT.contains(&key) => pin::strip(text),
        _ => None,
    })
}

/// Returns a server's instructions as clients see them.
pub(crate) fn instructions(text: &Arc<str>, pins: &Pins) -> Arc<str> {
    if pins.hidden_text != HiddenText::Report
        && let Some(stripped) = pin::strip(text)
    {
        return stripped.into();
    }
    Arc::clone(text)
}

#[cfg(test)]
mod tests;
