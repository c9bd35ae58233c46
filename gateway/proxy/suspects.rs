//! Tools that operators should know of: new, changed, or with text that hides something.

use std::collections::HashSet;

use lockgate_policy::pin::{Finding, Pins, Reaction, Standing};

use crate::catalog::{Catalog, Entry};

/// Suspects that the log names at once; of the others it says how many there are.
const MAX_TOLD: usize = 50;

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

/// Tools that are new, have changed, hide something or give orders.
pub(crate) fn suspects(catalog: &Catalog) -> Vec<Suspect> {
    catalog.tools().filter_map(|entry| suspect(entry)).collect()
}

fn suspect(entry: &Entry) -> Option<Suspect> {
    let inspected = entry.inspected.as_ref()?;
    let approved = inspected.standing.is_none_or(|standing| standing == Standing::Approved);
    if approved && inspected.findings.is_empty() {
        return None;
    }
    Some(Suspect {
        server: entry.slug.to_string(),
        tool: entry.item.key.to_string(),
        standing: inspected.standing,
        fingerprint: inspected.fingerprint.clone(),
        quarantined: inspected.quarantined,
        findings: inspected.findings.clone(),
    })
}

/// Tells operators of suspects that were none in the catalog before.
pub(crate) fn log_new_suspects(before: &Catalog, after: &Catalog, pins: &Pins) {
    let known: HashSet<Suspect> = suspects(before).into_iter().collect();
    let mut fresh = suspects(after).into_iter().filter(|suspect| !known.contains(suspect));
    for suspect in fresh.by_ref().take(MAX_TOLD) {
        let Suspect { server, tool, standing, quarantined, findings, .. } = suspect;
        let told = standing
            .is_some_and(|s| s != Standing::Approved && pins.reaction(s) != Reaction::Allow);
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
        tracing::warn!(
            more,
            "look at further tools; `lockgate tools` and `lockgate pins diff` say which"
        );
    }
}
