//! Compares docs/limits.md with the configuration reference: every configurable limit is in its
//! table, and every key in the table exists.

use std::collections::BTreeSet;

use crate::tree::files;

/// Prefixes of the keys that configure limits.
const BOUNDS: [&str; 6] = ["limits.", "http.", "servers.NAME.", "egress.", "audit.queue", "admin."];
/// Keys with these prefixes that limit nothing a request holds or waits for.
const OTHERS: [&str; 34] = [
    "http.hosts",
    "http.origins",
    "http.public_url",
    "http.trusted_proxies",
    "http.forwarded_header",
    "http.sse",
    "http.privileged_ports",
    "servers.NAME.auth.",
    "servers.NAME.command",
    "servers.NAME.args",
    "servers.NAME.env",
    "servers.NAME.cwd",
    "servers.NAME.inherit",
    "servers.NAME.url",
    "servers.NAME.transport",
    "servers.NAME.validate_arguments",
    "servers.NAME.headers",
    "servers.NAME.identity.audience",
    "servers.NAME.era",
    "servers.NAME.enabled",
    "servers.NAME.sessions",
    "egress.ca_file",
    "egress.from_environment",
    "egress.no_proxy",
    "egress.proxy.",
    "egress.organisations",
    "admin.api",
    "admin.scrape_token",
    "admin.operators",
    "admin.admins",
    "admin.grants",
    "admin.ready",
    "admin.sign_in.",
    "http.tls.",
];

/// Returns the texts in backticks in the third column of the page's table.
fn keys_of(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.split(" | ").nth(2));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

fn configured(reference: &str) -> BTreeSet<&str> {
    let rows = reference.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once("` |")).map(|(key, _)| key).collect()
}

/// Returns the keys that are on only one of the two pages.
fn differences(page: &str, reference: &str) -> Vec<String> {
    let (shown, all) = (keys_of(page), configured(reference));
    let mut offences = Vec::new();
    for key in &shown {
        if !all.contains(key) {
            offences.push(format!("`{key}` is no key of the configuration"));
        }
    }
    let is_bound = |key: &&&str| BOUNDS.iter().any(|start| key.starts_with(start));
    let is_other = |key: &str| {
        OTHERS.iter().any(|other| key == *other || other.ends_with('.') && key.starts_with(other))
    };
    for key in all.iter().filter(is_bound) {
        if !shown.contains(key) && !is_other(key) {
            offences.push(format!("`{key}` is missing"));
        }
    }
    offences
}

fn text(path: &str) -> &'static str {
    files().iter().find(|file| file.path == path).map_or("", |file| &file.text)
}

#[test]
fn every_bound_with_a_key_is_on_the_page() {
    let (page, reference) = (text("docs/limits.md"), text("docs/configuration.md"));
    assert!(keys_of(page).len() > 40, "the table is read");
    let offences = differences(page, reference);
    assert!(offences.is_empty(), "{offences:#?}");
}

#[test]
fn a_planted_difference_is_found() {
    let found = differences(
        "| what | 1 | `limits.gone` | waits | – |\n",
        "| `limits.new` | `1` | Something. |\n| `http.tls.cert` |  | A file. |\n",
    );
    assert_eq!(found, ["`limits.gone` is no key of the configuration", "`limits.new` is missing"]);
}
