//! Tests of entries of skills.

use serde_json::{Value, json};

use crate::list::form::*;

fn file(uri: &str, size: u64) -> Value {
    json!({"uri": uri, "digest": format!("sha256:{:064x}", size), "size": size})
}

fn entry(name: &str, files: impl Into<Value>) -> Value {
    let files: Value = files.into();
    json!({"uri": format!("skill://a/{name}/SKILL.md"), "resources": files,
        "frontmatter": {"name": name, "description": "d", "license": "MIT"}})
}

fn fault(entry: &Value) -> Option<String> {
    check(entry.as_object()?).err()
}

#[test]
fn a_complete_entry_is_accepted() {
    let files = json!([file("skill://a/x/SKILL.md", 1), file("skill://a/x/b/c.md", 2)]);
    assert_eq!(fault(&entry("x", files)), None);
    assert_eq!(fault(&entry("x", json!("dynamic"))), None);
}

#[test]
fn each_mistake_has_its_message() {
    let own = file("skill://a/x/SKILL.md", 1);
    let mut nameless = entry("x", json!([own]));
    nameless["frontmatter"]["description"] = json!("");
    let mut elsewhere = entry("x", json!([own]));
    elsewhere["uri"] = json!("skill://a/x/README.md");
    let mut renamed = entry("x", json!([own]));
    renamed["frontmatter"]["name"] = json!("y");
    let digest = json!({"uri": "skill://a/x/SKILL.md", "digest": "sha256:AB", "size": 1});
    let sizeless = json!({"uri": "skill://a/x/SKILL.md", "digest": own["digest"]});
    for (entry, words) in [
        (nameless, "needs a `name` and a `description`"),
        (elsewhere, "does not end in /SKILL.md"),
        (renamed, "is not named as"),
        (entry("x", json!("stable")), "must be a list or"),
        (entry("x", json!(null)), "must be a list or"),
        (entry("x", json!([])), "lack its SKILL.md"),
        (entry("x", json!([own, own])), "once"),
        (entry("x", json!([own, file("skill://a/xy/b", 1)])), "below it"),
        (entry("x", json!([digest])), "64 hexadecimal digits"),
        (entry("x", json!([sizeless])), "no `size`"),
    ] {
        let fault = fault(&entry).unwrap_or_default();
        assert!(fault.contains(words), "{fault}: {entry}");
    }
}

#[test]
fn limits_hold_at_their_edges() {
    let sized = |bytes| entry("x", json!([file("skill://a/x/SKILL.md", bytes)]));
    assert_eq!(fault(&sized(MAX_BYTES)), None);
    assert!(fault(&sized(MAX_BYTES + 1)).unwrap_or_default().contains("more than 16777216"));
    let many = |count: usize| {
        let mut files = vec![file("skill://a/x/SKILL.md", 1)];
        files.extend((1..count).map(|at| file(&format!("skill://a/x/{at}"), 1)));
        entry("x", files)
    };
    assert_eq!(fault(&many(MAX_FILES)), None);
    assert!(fault(&many(MAX_FILES + 1)).unwrap_or_default().contains("more than 512"));
}

#[test]
fn a_root_is_the_folder_of_the_skill() {
    assert_eq!(root("skill://a/x/SKILL.md"), Some("skill://a/x/"));
    for other in
        ["skill://a/x/SKILL.mdx", "SKILL.md", "skill://a/x/SKILL.md?q", "skill://xSKILL.md"]
    {
        assert_eq!(root(other), None, "{other}");
    }
}
