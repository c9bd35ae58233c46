//! Tests of the published policy files: each loads, and each has passing cases.

use std::path::PathBuf;

use lockgate_policy::cases::Asked;
use lockgate_policy::{Config, Policy, TargetKind};
use lockgate_tests_fuzz::corpora::{SPLICED_INPUTS, through};
use lockgate_tests_fuzz::file::{FILE, check};

use super::documents::root;
use crate::policies;

/// Policy files with their numbers of cases.
const POLICIES: [(&str, usize); 9] = [
    ("approvals.yaml", 13),
    ("commands.yaml", 28),
    ("databases.yaml", 21),
    ("deny-all.yaml", 5),
    ("developer.yaml", 173),
    ("filesystem.yaml", 97),
    ("rates.yaml", 7),
    ("read-only.yaml", 114),
    ("web.yaml", 20),
];

/// Case files that load several policies.
const TOGETHER: [(&str, usize); 2] = [("together-read-only.yaml", 12), ("together.yaml", 36)];

/// Resolves the item of a case without a catalog: its server, its own name and its exposed name.
fn asked(_: TargetKind, name: &str, _: &str) -> Result<Asked, String> {
    let (server, own) = name.split_once('/').ok_or("it is written as server/name")?;
    let exposed = format!("{server}__{own}");
    Ok(Asked { server: server.into(), own: own.into(), exposed, ..Asked::default() })
}

#[test]
fn policies_decide_as_their_cases_say() {
    let cwd = &root();
    for (name, count) in POLICIES.into_iter().chain(TOGETHER) {
        let path = cwd.join("policies/cases").join(name);
        let cases =
            policies::cases(&path, cwd).unwrap_or_else(|report| panic!("cases/{name}: {report}"));
        let mut named = cases.policies.clone();
        if named.is_empty() {
            named.push(format!("../{name}"));
        }
        let named: Vec<_> =
            named.iter().map(|name| cwd.join("policies/cases").join(name)).collect();
        let config = policies::load(&named, cwd).unwrap_or_else(|r| panic!("{name}: {r}"));
        let policy = Policy::compile(&config).unwrap();
        assert_eq!(cases.cases.len(), count, "cases of {name}");
        for case in &cases.cases {
            let outcome = case.decide(&policy, asked).unwrap();
            let differences = case.differences(&outcome);
            assert!(differences.is_empty(), "{name}: {}: {differences:?} {outcome:?}", case.name);
        }
    }
}

#[test]
fn every_policy_has_cases_and_is_explained() {
    let below = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.ends_with(".yaml"));
        names.sort_unstable();
        names
    };
    let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
    assert_eq!(below("policies/"), names, "files of policies/");
    let mut cases: Vec<&str> =
        names.iter().copied().chain(TOGETHER.map(|(name, _)| name)).collect();
    cases.sort_unstable();
    assert_eq!(below("policies/cases/"), cases, "files of policies/cases/");
    let readme = std::fs::read_to_string(root().join("policies/README.md")).unwrap();
    for name in names {
        assert!(readme.contains(name), "policies/README.md does not speak of {name}");
    }
}

/// Properties of policy files that hold for every input.
#[test]
fn any_policy_file_is_refused_or_decides_alike_in_any_order() {
    let load = |folder: &std::path::Path| -> Result<Config, String> {
        let files = [PathBuf::from(FILE)];
        policies::load(&files, folder).map_err(|report| report.to_string())
    };
    through("file", |data| check(data, load), SPLICED_INPUTS / 10);
}
