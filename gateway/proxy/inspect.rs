//! Tools are looked at when lists are merged: how they stand to the lock file, and what their texts hide. What is quarantined
//! is taken out before any view is made, so that lists and calls cannot disagree about it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use lockgate_policy::pin::{self, Finding, HiddenText, Pin, Pins, Reaction, Standing};
use lockgate_protocol::name::Slug;
use lockgate_protocol::strings::{self, Place};
use lockgate_upstream::Item;

use crate::catalog::{Catalog, Entry};

/// Members whose values mean something to programs, so that nothing is taken out of them.
const EXACT: [&str; 8] = ["name", "uri", "uriTemplate", "enum", "const", "default", "pattern", "examples"];

/// Suspects that the log names at once; of the others it says how many there are.
const MAX_TOLD: usize = 50;

/// A definition that was looked at.
#[derive(Debug)]
pub(crate) struct Inspected {
    /// As the server wrote it.
    original: Bytes,
    fingerprint: String,
    findings: Vec<Finding>,
    /// It has invisible characters.
    unseen: bool,
    standing: Option<Standing>,
    pub(crate) quarantined: bool,
}

/// A tool that operators should know of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Suspect {
    pub server: String,
    /// In the server's own words.
    pub tool: String,
    /// How it stands to the lock file, if there is one.
    pub standing: Option<Standing>,
    pub fingerprint: String,
    /// Neither listed nor callable.
    pub quarantined: bool,
    pub findings: Vec<Finding>,
}

/// Definitions that were looked at when the catalog before was merged.
pub(crate) struct Known<'a>(HashMap<(&'a str, &'a str), &'a Arc<Inspected>>);

impl<'a> Known<'a> {
    pub(crate) fn of(before: Option<&'a Catalog>) -> Self {
        let entries = before.into_iter().flat_map(Catalog::tools);
        Self(entries.filter_map(|e| Some(((e.slug.as_str(), &*e.item.key), e.inspected.as_ref()?))).collect())
    }

    /// Looks at a tool. Those that come with the gateway change with it, and are not pinned.
    pub(crate) fn inspect(&self, slug: &Slug, item: &Item, builtin: bool, pins: &Pins) -> Arc<Inspected> {
        let (fingerprint, findings, unseen) = match self.0.get(&(slug.as_str(), &*item.key)) {
            Some(known) if known.original == item.text => {
                (known.fingerprint.clone(), known.findings.clone(), known.unseen)
            }
            _ => look(&item.text),
        };
        let lock = pins.lock.as_ref().filter(|_| !builtin);
        let standing = lock.map(|lock| lock.standing(slug, &item.key, &fingerprint));
        let pinned = standing.is_some_and(|standing| pins.reaction(standing) == Reaction::Quarantine);
        let quarantined = pinned || unseen && !builtin && pins.hidden_text == HiddenText::Quarantine;
        Arc::new(Inspected { original: item.text.clone(), fingerprint, findings, unseen, standing, quarantined })
    }
}

fn look(text: &[u8]) -> (String, Vec<Finding>, bool) {
    match Pin::of(text) {
        Ok(pin) => (pin.fingerprint, pin::inspect(&pin.definition), cleaned(text).is_some()),
        // The item was scanned when it came in; what cannot be read twice is nothing that anybody approved.
        Err(_) => (String::new(), Vec::new(), false),
    }
}

/// An item as clients see it.
pub(crate) fn shown(item: &Item, pins: &Pins) -> Item {
    let text = (pins.hidden_text == HiddenText::Strip).then(|| cleaned(&item.text)).flatten();
    Item { text: text.map_or_else(|| item.text.clone(), Bytes::from), ..item.clone() }
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
    match pins.hidden_text {
        HiddenText::Report => Arc::clone(text),
        _ => pin::strip(text).map_or_else(|| Arc::clone(text), Arc::from),
    }
}

/// Tools that are new, have changed, hide something or give orders.
pub(crate) fn suspects(catalog: &Catalog) -> Vec<Suspect> {
    let suspect = |entry: &Arc<Entry>| {
        let inspected = entry.inspected.as_ref()?;
        let approved = inspected.standing.is_none_or(|standing| standing == Standing::Approved);
        (!approved || !inspected.findings.is_empty()).then(|| Suspect {
            server: entry.slug.to_string(),
            tool: entry.item.key.to_string(),
            standing: inspected.standing,
            fingerprint: inspected.fingerprint.clone(),
            quarantined: inspected.quarantined,
            findings: inspected.findings.clone(),
        })
    };
    catalog.tools().filter_map(suspect).collect()
}

/// Tells operators of suspects that were none in the catalog before.
pub(crate) fn tell(before: &Catalog, after: &Catalog, pins: &Pins) {
    let known: HashSet<Suspect> = suspects(before).into_iter().collect();
    let mut fresh = suspects(after).into_iter().filter(|suspect| !known.contains(suspect));
    for suspect in fresh.by_ref().take(MAX_TOLD) {
        let Suspect { server, tool, standing, quarantined, findings, .. } = suspect;
        let told = standing.is_some_and(|s| s != Standing::Approved && pins.reaction(s) != Reaction::Allow);
        let standing = standing.map_or("not pinned", Standing::as_str);
        let finding = findings.first().map(ToString::to_string);
        if quarantined {
            tracing::warn!(
                server,
                tool,
                standing,
                finding,
                "tool quarantined; `lockgate pins diff` says what is different"
            );
        } else if told || standing == "not pinned" {
            tracing::warn!(
                server,
                tool,
                standing,
                finding,
                "look at this tool; `lockgate tools` and `lockgate pins diff` say more"
            );
        }
    }
    let more = fresh.count();
    if more > 0 {
        tracing::warn!(more, "look at further tools; `lockgate tools` and `lockgate pins diff` say which");
    }
}
