//! Checks of policy files. Loading ends in bounded time without a panic; decisions do not depend on
//! the order of policies; a policy that denies everything permits no call. If policies select tools
//! by words alone, the spelling of a name is irrelevant.

use std::path::Path;
use std::time::Instant;

use lockgate_policy::{
    Annotations, Config, Document, Policy, PolicyEntry, Question, Subject, Target, TargetKind,
};

thread_local! {
    static FOLDER: tempfile::TempDir = tempfile::tempdir().unwrap();
}

/// The name of the file for [`check`] to load.
pub const FILE: &str = "policy.yaml";

const DENY: &[u8] = b"policies: [{ name: fuzz-deny-everything, effect: deny }]";

const TOOLS: [&str; 6] =
    ["read_file", "query", "delete_all", "deleteAll", "DELETE-ALL", "Delete.all"];
/// The last entries of `TOOLS`, which consist of the same words.
const SPELLINGS: usize = 4;

fn read(data: &[u8], load: impl Fn(&Path) -> Result<Config, String>) -> Option<Config> {
    FOLDER.with(|folder| {
        std::fs::write(folder.path().join(FILE), data).unwrap();
        let began = Instant::now();
        let read = load(folder.path());
        assert!(began.elapsed() < crate::VERDICT_TIMEOUT, "{:?}", began.elapsed());
        if let Err(report) = &read {
            assert!(!report.is_empty() && report.len() < 1 << 20);
        }
        read.ok()
    })
}

/// Returns the decision on each of a few calls, for a known and an anonymous caller.
fn decisions(config: &Config) -> Vec<Result<String, String>> {
    let policy = Policy::compile(config).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let roles = ["analyst".into(), "editor".into()];
    let known = Subject { issuer: "key", subject: "ann", roles: &roles, ..Subject::default() };
    let mut all = Vec::new();
    for (subject, own) in
        [known, Subject::default()].iter().flat_map(|who| TOOLS.map(|own| (who, own)))
    {
        for server in ["db", "files"] {
            let exposed = format!("{server}__{own}");
            let target = Target {
                kind: TargetKind::Tool,
                server,
                organisation: None,
                exposed: &exposed,
                own,
                category: None,
                annotations: Annotations::default(),
            };
            let question = Question { subject, endpoint: "/mcp", target: &target };
            let verdict = policy.verdict(&policy.class(subject, "/mcp"), &question);
            let arguments = br#"{"sql": "SELECT 1", "path": "/srv/data/a.txt", "n": 3}"#;
            let judged = policy.evaluate(&verdict, &question, Some(arguments));
            assert!(verdict.is_visible() || judged.is_err(), "hidden, and allowed: {exposed}");
            all.push(
                judged
                    .map(|passed| passed.rule.to_string())
                    .map_err(|denied| denied.rule.to_string()),
            );
        }
    }
    all
}

/// Returns whether the policies select tools only by the words of their names.
fn goes_by_words(config: &Config) -> bool {
    let policies = config.documents.iter().flat_map(|document| &document.policies);
    policies
        .map(|entry| &entry.policy)
        .all(|policy| policy.what.tools.is_none() && policy.when.is_none())
}

/// Checks the loader and the policies on an input. `load` reads [`FILE`] in a folder, or returns a
/// report. Panics when a property does not hold.
pub fn check(data: &[u8], load: impl Fn(&Path) -> Result<Config, String>) {
    let Some(config) = read(data, &load) else { return };
    let decided = decisions(&config);
    if goes_by_words(&config) {
        for caller in decided.chunks(2 * TOOLS.len()) {
            let alike = &caller[2 * (TOOLS.len() - SPELLINGS)..];
            assert!(
                alike.chunks(2).all(|spelling| spelling == &alike[..2]),
                "a spelling matters: {alike:?}"
            );
        }
    }
    let mut turned = config.clone();
    turned.documents.iter_mut().for_each(|document: &mut Document| document.policies.reverse());
    turned.documents.reverse();
    let allowed =
        |all: &[Result<String, String>]| all.iter().map(Result::is_ok).collect::<Vec<_>>();
    assert_eq!(allowed(&decisions(&turned)), allowed(&decided), "the order matters");
    let mut denied = config;
    let Some(document) = denied.documents.first_mut() else { return };
    let name = |entry: &PolicyEntry| entry.policy.name.contains("fuzz-deny-everything");
    if !document.policies.iter().any(name) && document.policies.len() < 100 {
        let deny = read(DENY, load).unwrap().documents.remove(0).policies.remove(0);
        document.policies.push(deny);
        assert!(
            decisions(&denied).iter().all(Result::is_err),
            "something passes beside a policy that denies everything"
        );
    }
}
