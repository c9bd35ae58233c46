//! Tools are looked at when lists are merged: how they stand to the lock file, and what their texts
//! hide. What is quarantined is taken out before any view is made, so that lists and calls cannot
//! disagree about it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lockgate_policy::InputSchema;
use lockgate_policy::pin::{self, Finding, HiddenText, Pin, Pins, Reaction, Standing};
use lockgate_protocol::list;
use lockgate_protocol::name::Slug;
use lockgate_protocol::strings::{self, Place};
use lockgate_upstream::{Item, Upstream};

/// Members whose values mean something to programs, so that nothing is taken out of them.
const EXACT: [&str; 8] =
    ["name", "uri", "uriTemplate", "enum", "const", "default", "pattern", "examples"];

/// A definition that was looked at.
#[derive(Debug)]
pub(crate) struct Inspected {
    /// As the server wrote it.
    original: Bytes,
    pub(crate) fingerprint: String,
    pub(crate) findings: Vec<Finding>,
    /// It has invisible characters.
    unseen: bool,
    pub(crate) standing: Option<Standing>,
    pub(crate) quarantined: bool,
    /// What arguments are held against.
    pub(crate) arguments: ArgumentCheck,
}

/// Whether the arguments of a tool are held against its schema.
#[derive(Clone, Debug)]
pub(crate) enum ArgumentCheck {
    Off,
    Schema(Arc<InputSchema>),
    /// The schema cannot be used; the log has said so.
    Impossible,
}

impl ArgumentCheck {
    fn new(slug: &Slug, item: &Item) -> Self {
        let schema = list::member(&item.text, "inputSchema").unwrap_or(b"{}");
        match InputSchema::compile(schema) {
            Ok(schema) => Self::Schema(Arc::new(schema)),
            Err(why) => {
                let server = slug.as_str();
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
    /// The definition as the server wrote it.
    pub(crate) fn original(&self) -> &[u8] {
        &self.original
    }
}

/// How a server is called in the lock file. No slug begins with `@`, and no name of an organisation
/// has a `/` there, so that nobody approves for others.
pub(crate) fn name_in_lock(server: &dyn Upstream) -> Cow<'_, str> {
    match server.organisation() {
        None => Cow::Borrowed(server.slug()),
        Some(organisation) => {
            let organisation = organisation.replace('%', "%25").replace('/', "%2F");
            Cow::Owned(format!("@{organisation}/{}", server.slug()))
        }
    }
}

/// How a tool is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Looking<'a> {
    /// It comes with the gateway.
    pub(crate) builtin: bool,
    /// Its server wants arguments held against its schema.
    pub(crate) validates: bool,
    pub(crate) pins: &'a Pins,
}

/// Definitions that were looked at when the catalog before was merged, by the server's slug and its
/// name for the tool.
#[derive(Default)]
pub(crate) struct Known<'a>(HashMap<(&'a str, &'a str), &'a Arc<Inspected>>);

impl<'a> Known<'a> {
    pub(crate) fn add(&mut self, slug: &'a str, own: &'a str, inspected: &'a Arc<Inspected>) {
        self.0.insert((slug, own), inspected);
    }

    /// Looks at a tool of a server, which has a slug and a name among all servers. Tools that come
    /// with the gateway change with it, and are not pinned.
    pub(crate) fn inspect(
        &self,
        (slug, server): (&Slug, &str),
        item: &Item,
        how: Looking<'_>,
    ) -> Arc<Inspected> {
        let Looking { builtin, validates, pins } = how;
        let known = self.0.get(&(slug.as_str(), &*item.key));
        let known = known.filter(|known| known.original == item.text);
        let (fingerprint, findings, unseen) = match known {
            Some(known) => (known.fingerprint.clone(), known.findings.clone(), known.unseen),
            None => look(&item.text),
        };
        let arguments = match known.map(|known| &known.arguments) {
            _ if !validates => ArgumentCheck::Off,
            Some(checked @ (ArgumentCheck::Schema(_) | ArgumentCheck::Impossible)) => {
                checked.clone()
            }
            _ => ArgumentCheck::new(slug, item),
        };
        let standing = match &pins.lock {
            Some(lock) if !builtin => Some(lock.standing(server, &item.key, &fingerprint)),
            _ => None,
        };
        let pinned = matches!(
            standing,
            Some(standing) if pins.reaction(standing) == Reaction::Quarantine
        );
        let quarantined =
            pinned || unseen && !builtin && pins.hidden_text == HiddenText::Quarantine;
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
        // The item was scanned when it came in; what cannot be read twice is nothing that anybody
        // approved.
        Err(_) => (String::new(), Vec::new(), false),
    }
}

/// An item as clients see it.
pub(crate) fn shown(item: &Item, pins: &Pins) -> Item {
    if pins.hidden_text == HiddenText::Strip
        && let Some(text) = cleaned(&item.text)
    {
        return Item { text: text.into(), ..item.clone() };
    }
    item.clone()
}

/// The text without invisible characters, if it has some.
fn cleaned(text: &[u8]) -> Option<Vec<u8>> {
    if text.is_ascii() && memchr::memmem::find(text, b"\\u").is_none() {
        return None;
    }
    strings::rewrite(text, &mut |place, text| match place {
        Place::Value(key) if !EXACT.contains(&key) => pin::strip(text),
        _ => None,
    })
}

/// What a server says of itself, as clients see it.
pub(crate) fn instructions(text: &Arc<str>, pins: &Pins) -> Arc<str> {
    if pins.hidden_text != HiddenText::Report
        && let Some(stripped) = pin::strip(text)
    {
        return stripped.into();
    }
    Arc::clone(text)
}
