//! Mistakes in the documents themselves: syntax, references, imports.

use super::{Case, hold};

const CASES: &[Case] = &[
    (
        "lockgate.yaml",
        "name: a\nname2: &a [x]\nb: {{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{ a: 1",
        &[
            "lockgate.yaml:3:36: not valid YAML: recursion limit exceeded — the mistake is here or just before",
        ],
    ),
    (
        "lockgate.yaml",
        "a: 1\na: 2\n",
        &[
            "lockgate.yaml:2:1: not valid YAML: duplicate mapping key: a — the mistake is here or just before",
        ],
    ),
    (
        "lockgate.yaml",
        "name: [\n",
        &[
            "lockgate.yaml:1:7: not valid YAML: unclosed bracket '[' — the mistake is here or just before",
        ],
    ),
    ("lockgate.yaml", "- a\n", &["lockgate.yaml: must contain keys and values, not a list"]),
    (
        "lockgate.yaml",
        "name: a\n---\nname: b\n",
        &[
            "lockgate.yaml:3:1: not valid YAML: multiple YAML documents detected — the mistake is here or just before",
        ],
    ),
    (
        "lockgate.json",
        "{\n  \"name\": \"a\",\n  \"name\": \"b\"\n}",
        &["lockgate.json:3:3: duplicate key `name` — keep one of them"],
    ),
    (
        "lockgate.json",
        "{\n  \"name\": \n}",
        &["lockgate.json:3:1: not valid JSON: expected value — the mistake is here or just before"],
    ),
    (
        "lockgate.toml",
        "name = \n",
        &[
            "lockgate.toml:1:8: not valid TOML: string values must be quoted, expected literal string — the mistake is here or just before",
        ],
    ),
    (
        "lockgate.toml",
        "name = 'a'\nname = 'b'\n",
        &["lockgate.toml:2:1: not valid TOML: duplicate key — the mistake is here or just before"],
    ),
    (
        "lockgate.yaml",
        "auth: { key: '${NOT_SET}' }\nsecret: file:missing\nname: '${'\n",
        &[
            "lockgate.yaml:1:14: auth.key: the environment variable NOT_SET is not set — set it, or add a default: ${NOT_SET:-…}",
            "lockgate.yaml:2:9: secret: the file missing cannot be used: there is no such file — use a file that contains only the value",
            "lockgate.yaml:3:7: name: a `${` is not closed — write ${NAME}, or $${ for the two characters",
        ],
    ),
    (
        "lockgate.yaml",
        "import: [other.json]\n",
        &[
            "lockgate.yaml:1:10: import: there is no file other.json — the path is relative to the file that contains it",
        ],
    ),
];

#[test]
fn every_mistake_in_sources_is_reported_with_a_hint() {
    hold(CASES);
}
