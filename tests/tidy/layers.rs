//! The table of permitted imports between layers, compared with every manifest and with
//! ARCHITECTURE.md.

use std::collections::BTreeMap;

use crate::tree::{File, files, hold};

/// Each layer with the layers it may import. `config` imports the layers that have settings;
/// the root package imports all of them.
const TABLE: [(&str, &[&str]); 20] = [
    ("text", &[]),
    ("admission", &[]),
    ("protocol", &["text"]),
    ("policy", &["text"]),
    ("postgres", &[]),
    ("search", &["text"]),
    ("telemetry", &["text"]),
    ("egress", &["text"]),
    ("authn", &["text", "admission", "egress"]),
    ("limits", &["text", "policy", "egress"]),
    ("upstream", &["text", "admission", "protocol", "egress", "telemetry"]),
    ("tools", &["text", "admission", "protocol", "policy", "postgres", "egress", "upstream"]),
    ("store", &["text", "postgres"]),
    ("accounts", &["text", "egress", "store"]),
    ("registry", &["text", "admission", "store"]),
    (
        "proxy",
        &["text", "admission", "protocol", "search", "authn", "policy", "upstream", "telemetry"],
    ),
    (
        "sessions",
        &["text", "admission", "protocol", "authn", "policy", "upstream", "proxy", "telemetry"],
    ),
    ("listener", &["text", "admission", "protocol", "authn", "proxy", "sessions", "telemetry"]),
    (
        "admin",
        &[
            "text",
            "admission",
            "accounts",
            "protocol",
            "authn",
            "policy",
            "upstream",
            "registry",
            "proxy",
            "telemetry",
        ],
    ),
    (
        "config",
        &[
            "text",
            "admission",
            "protocol",
            "policy",
            "postgres",
            "telemetry",
            "egress",
            "authn",
            "limits",
            "upstream",
            "tools",
            "store",
            "accounts",
            "registry",
            "proxy",
            "listener",
            "admin",
        ],
    ),
];

/// Layers without I/O, and the crates that would allow it.
const PURE: [&str; 4] = ["text", "protocol", "policy", "search"];
const EFFECTS: [&str; 9] = [
    "axum",
    "hyper",
    "hyper-util",
    "notify",
    "process-wrap",
    "reqwest",
    "rustix",
    "socket2",
    "tokio",
];

/// Limits the parsing of SQL by the CPU time of its thread.
const CLOCK: (&str, &str) = ("policy", "rustix");

const TESTS: &str = "lockgate-tests-";

/// The libraries that the product is built on.
const FOUNDATION: [&str; 10] = [
    "hyper",
    "tokio",
    "tower",
    "rustls",
    "serde_json",
    "figment",
    "governor",
    "moka",
    "opentelemetry",
    "reqwest",
];

/// Returns the names of a manifest's normal and build dependencies on all platforms.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let tables = platforms.into_iter().flatten().filter_map(|(_, platform)| platform.as_table());
    std::iter::once(manifest)
        .chain(tables)
        .flat_map(|table| [table.get("dependencies"), table.get("build-dependencies")])
        .flatten()
        .filter_map(toml::Value::as_table)
        .flat_map(|table| table.iter())
        // The key of a renamed dependency is an alias.
        .map(|(key, value)| {
            value.get("package").and_then(toml::Value::as_str).unwrap_or(key).to_owned()
        })
        .collect()
}

/// Returns the imports of a layer's manifest that the table does not permit.
fn forbidden_imports(layer: &str, manifest: &str) -> Vec<String> {
    let Ok(manifest) = manifest.parse::<toml::Table>() else { return vec!["is no TOML".into()] };
    let Some((_, allowed)) = TABLE.iter().find(|(name, _)| *name == layer) else {
        return vec![format!("the layer {layer} is not in the table")];
    };
    let mut offences = Vec::new();
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(toml::Value::as_str);
    if name != Some(&format!("lockgate-{layer}")) {
        offences.push(format!("is called {name:?}, not after its folder"));
    }
    for import in dependencies(&manifest) {
        match import.strip_prefix("lockgate-") {
            Some(ours) if !allowed.contains(&ours) => {
                offences.push(format!("{layer} must not import {ours}"))
            }
            None if (layer, import.as_str()) == CLOCK => {}
            None if PURE.contains(&layer) && EFFECTS.contains(&import.as_str()) => {
                offences.push(format!("{layer} only computes and must not use {import}"));
            }
            _ => {}
        }
    }
    offences
}

fn layer_of(file: &File) -> Option<&str> {
    file.path.strip_prefix("gateway/")?.strip_suffix("/Cargo.toml")
}

#[test]
fn layers_import_what_the_table_allows() {
    let is_layer = |file: &File| layer_of(file).is_some();
    hold(is_layer, TABLE.len(), |file| {
        forbidden_imports(layer_of(file).unwrap_or_default(), &file.text)
    });
}

#[test]
fn the_table_names_no_layer_that_is_gone() {
    let layers: Vec<&str> = files().iter().filter_map(layer_of).collect();
    let gone: Vec<_> = TABLE.iter().filter(|(layer, _)| !layers.contains(layer)).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

#[test]
fn the_layers_use_the_foundation() {
    let manifests = files().iter().filter(|file| layer_of(file).is_some());
    let used: Vec<_> =
        manifests.flat_map(|file| dependencies(&file.text.parse().unwrap())).collect();
    for library in FOUNDATION {
        assert!(used.iter().any(|name| name == library), "no layer uses {library}");
    }
}

#[test]
fn the_program_imports_no_test_crate() {
    hold(
        |file| file.path == "Cargo.toml" || layer_of(file).is_some(),
        TABLE.len() + 1,
        |file| {
            let imports = dependencies(&file.text.parse().unwrap());
            imports.into_iter().filter(|import| import.starts_with(TESTS)).collect()
        },
    );
}

#[test]
fn the_table_has_no_cycle() {
    let mut rank = BTreeMap::new();
    while rank.len() < TABLE.len() {
        let next = TABLE.iter().find(|(layer, imports)| {
            !rank.contains_key(layer) && imports.iter().all(|import| rank.contains_key(import))
        });
        let Some((layer, _)) = next else {
            panic!("a cycle among the layers that are not in {rank:?}")
        };
        rank.insert(layer, rank.len());
    }
}

#[test]
fn the_architecture_page_shows_the_table() {
    let page =
        files().iter().find(|file| file.path == "ARCHITECTURE.md").map_or("", |file| &file.text);
    for (layer, imports) in TABLE {
        let cell = match imports.len() {
            0 => "nothing".into(),
            n if n + 3 == TABLE.len() => {
                "every layer but `search` and `sessions`, for its settings".into()
            }
            _ => imports.iter().map(|import| format!("`{import}`")).collect::<Vec<_>>().join(", "),
        };
        let row = format!("| `{layer}` | {cell} |");
        assert!(page.contains(&row), "ARCHITECTURE.md lacks the row {row}");
    }
}

#[test]
fn a_planted_import_is_found() {
    let manifest = |layer: &str, import: &str| {
        format!(
            "[package]\nname = \"lockgate-{layer}\"\n[dependencies]\n{import}\n[dev-dependencies]\nlockgate-config = {{}}"
        )
    };
    assert!(
        forbidden_imports("upstream", &manifest("upstream", "lockgate-egress.workspace = true"))
            .is_empty()
    );
    let planted = [
        ("protocol", "lockgate-egress.workspace = true", "protocol must not import egress"),
        ("proxy", "lockgate-listener = { workspace = true }", "proxy must not import listener"),
        (
            "authn",
            "alias = { package = \"lockgate-proxy\", path = \"../proxy\" }",
            "authn must not import proxy",
        ),
        (
            "policy",
            "[target.'cfg(unix)'.dependencies]\nlockgate-config.workspace = true",
            "policy must not import config",
        ),
        ("policy", "tokio.workspace = true", "policy only computes and must not use tokio"),
        ("extra", "", "the layer extra is not in the table"),
    ];
    for (layer, import, words) in planted {
        assert_eq!(forbidden_imports(layer, &manifest(layer, import)), [words]);
    }
    assert_eq!(forbidden_imports("proxy", &manifest("relay", "")).len(), 1);
}
