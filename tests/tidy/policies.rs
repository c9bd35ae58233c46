//! Every file of `policies/` is a whole configuration that loads, and allows and denies what its README says.

use lockgate_config::{Loaded, Sources, load};

use crate::tree::{files, root};

/// File, and for each tool whether it may be called.
const POLICIES: [(&str, &[(&str, bool)]); 3] = [
    ("deny-all.yaml", &[("files__read_file", false), ("time__get_current_time", false), ("system__status", false)]),
    (
        "developer.yaml",
        &[
            ("files__read_file", true),
            ("files__write_file", true),
            ("git__git_commit", true),
            ("git__git_push", false),
            ("files__delete_file", false),
            ("db__drop_table", false),
        ],
    ),
    (
        "read-only.yaml",
        &[
            ("files__read_file", true),
            ("files__list_directory", true),
            ("time__get_current_time", true),
            ("git__git_log", true),
            ("files__write_file", false),
            ("git__git_commit", false),
            ("files__unheard_of", false),
        ],
    ),
];

fn loaded(file: &str) -> Loaded {
    let sources = Sources { config: Some(file.into()), cwd: root().join("policies"), ..Sources::default() };
    load(&sources).unwrap_or_else(|report| panic!("policies/{file}: {report}"))
}

#[test]
fn policies_decide_as_they_say() {
    for (file, tools) in POLICIES {
        let rules = &loaded(file).config.policy;
        let policy = lockgate_policy::Policy::compile(rules).unwrap();
        for (tool, may) in tools {
            let (slug, own) = tool.split_once("__").unwrap();
            let decision = policy.tool(slug, tool, own);
            assert_eq!(decision == lockgate_policy::Decision::Allow, *may, "{file}: {tool}: {decision:?}");
        }
    }
}

#[test]
fn every_policy_is_tried_and_explained() {
    let there: Vec<&str> = files()
        .iter()
        .filter_map(|file| file.path.strip_prefix("policies/"))
        .filter(|file| file.ends_with(".yaml"))
        .collect();
    assert_eq!(there, POLICIES.map(|(file, _)| file), "files of policies/");
    let readme = files().iter().find(|file| file.path == "policies/README.md").map_or("", |file| &file.text);
    for file in there {
        assert!(readme.contains(file), "policies/README.md does not speak of {file}");
    }
}
