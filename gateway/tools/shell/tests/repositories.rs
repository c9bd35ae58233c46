//! Repositories that name programs to run: in their configuration, attributes, hooks and
//! submodules. Plain git runs each; the tool runs none, with and without Landlock.

use std::process::Command;

use super::*;

/// Runs git as users do.
#[allow(clippy::disallowed_methods, reason = "makes the repositories that the tests look at")]
fn git(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(folder).env_clear().stdin(std::process::Stdio::null());
    command.envs([
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ]);
    for name in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{name}_NAME"), "Ada")
            .env(format!("GIT_{name}_EMAIL"), "ada@example.com");
    }
    command.output().unwrap()
}

fn must(folder: &Path, arguments: &[&str]) {
    let ran = git(folder, arguments);
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Creates two commits, a branch `dev`, a tag, a stash, and the files named in the benign corpus.
pub(super) fn plain(place: &TestFolder) {
    let root = place.root();
    for file in [
        "README.md",
        "notes.txt",
        "log.txt",
        "config.txt",
        "data.csv",
        "sizes.txt",
        "versions.txt",
        "patterns.txt",
        "-dashed.txt",
        "file with spaces.txt",
        "it's.txt",
        "weird;name.txt",
        "My Documents/a.txt",
        "docs/a.md",
        "src/lib.rs",
    ] {
        std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        std::fs::write(root.join(file), "main needle error\n".repeat(20)).unwrap();
    }
    must(&root, &["init", "-q", "-b", "main"]);
    must(&root, &["add", "-A"]);
    must(&root, &["commit", "-qm", "First"]);
    for (at, text) in ["one", "two", "three"].iter().enumerate() {
        std::fs::write(root.join("README.md"), format!("needle {text}\n")).unwrap();
        must(&root, &["commit", "-qam", &format!("Change {at}")]);
    }
    must(&root, &["branch", "dev", "HEAD~1"]);
    must(&root, &["tag", "v1"]);
    std::fs::write(root.join("notes.txt"), "changed needle\n").unwrap();
    must(&root, &["stash", "-q"]);
    std::fs::write(root.join("notes.txt"), "changed again\n").unwrap();
}

/// The hostile repositories, and the plain command that triggers each.
const TRAPS: [(&str, &[&str]); 8] = [
    ("fsmonitor", &["status"]),
    ("textconv", &["diff"]),
    ("external", &["diff"]),
    ("clean", &["diff"]),
    ("process", &["diff"]),
    ("gpg", &["log", "--show-signature"]),
    ("submodule", &["status"]),
    ("pager", &["-p", "log"]),
];

const COMMANDS: [&str; 18] = [
    "git status",
    "git status --short --branch",
    "git status --porcelain=v2 --ignored",
    "git diff",
    "git diff HEAD",
    "git diff --cached --stat",
    "git diff HEAD~1 HEAD -- victim.txt",
    "git log -p",
    "git log --format='%h %s'",
    "git log -L 1,1:victim.txt",
    "git show HEAD",
    "git show HEAD:victim.txt",
    "git blame victim.txt",
    "git grep needle",
    "git grep --untracked needle",
    "git ls-files -m",
    "git shortlog -sn HEAD",
    "git describe --always --tags",
];

fn trap(place: &TestFolder, name: &str) {
    let root = place.root();
    let evil = root.join("evil");
    let (evil, set) =
        (evil.to_str().unwrap(), |key: &str, value: &str| must(&root, &["config", key, value]));
    must(&root, &["init", "-q", "-b", "main"]);
    must(&root, &["add", "victim.txt"]);
    must(&root, &["commit", "-qm", "First"]);
    std::fs::write(root.join("victim.txt"), "other\n").unwrap();
    must(&root, &["commit", "-qam", "Second"]);
    std::fs::write(root.join("victim.txt"), VICTIM).unwrap();
    match name {
        "fsmonitor" => set("core.fsmonitor", evil),
        "textconv" => {
            std::fs::write(root.join(".gitattributes"), "* diff=evil\n").unwrap();
            set("diff.evil.textconv", evil);
        }
        "external" => {
            std::fs::write(root.join(".gitattributes"), "* diff=evil\n").unwrap();
            set("diff.evil.command", evil);
            set("diff.external", evil);
        }
        "clean" | "process" => {
            std::fs::write(root.join(".git/info/attributes"), "* filter=evil\n").unwrap();
            set(&format!("filter.evil.{name}"), evil);
        }
        "gpg" => {
            set("gpg.program", evil);
            set("log.showSignature", "true");
            // The rule rejects such a format, but a repository may contain it.
            set("format.pretty", "%h %G? %GS %s");
            let signed = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nsigned\n";
            std::fs::write(root.join("commit"), signed).unwrap();
            must(&root, &["hash-object", "-w", "-t", "tree", "/dev/null"]);
            let made = git(&root, &["hash-object", "-w", "-t", "commit", "commit"]);
            must(
                &root,
                &["update-ref", "refs/heads/main", String::from_utf8_lossy(&made.stdout).trim()],
            );
        }
        "submodule" => {
            let inner = root.join("inner");
            std::fs::create_dir(&inner).unwrap();
            must(&inner, &["init", "-q"]);
            must(&inner, &["commit", "-q", "--allow-empty", "-m", "x"]);
            must(&root, &["add", "inner"]);
            must(&root, &["commit", "-qm", "Third"]);
            must(&inner, &["config", "core.fsmonitor", evil]);
            std::fs::write(
                root.join(".gitmodules"),
                "[submodule \"inner\"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n",
            )
            .unwrap();
        }
        _ => set("core.pager", evil),
    }
}

/// Returns the files that triggered traps have created, in any folder.
fn sprung(place: &TestFolder) -> Vec<PathBuf> {
    let mut all = Vec::new();
    list(place.folder.path(), &mut all);
    all.retain(|path| path.ends_with("pwned"));
    all
}

#[tokio::test]
async fn hostile_repositories_run_nothing() {
    for landlock in [Landlock::Required, Landlock::Off] {
        for (name, falls) in TRAPS {
            let place = TestFolder::new();
            trap(&place, name);
            // A pager requires a terminal, which is missing here.
            git(&place.root(), falls);
            let control = sprung(&place);
            assert!(!control.is_empty() || name == "pager", "plain git does not fall for {name}");
            control.iter().for_each(|path| std::fs::remove_file(path).unwrap());
            let rig = rig(place.config(landlock));
            for command in COMMANDS {
                let result = run(&rig, command).await;
                assert!(sprung(&place).is_empty(), "{name}, {landlock:?}: {command}: {result:?}");
                assert!(result.is_ok(), "{name}: {command}: {result:?}");
            }
            place.assert_quiet().await;
        }
    }
}

/// Checks that the arguments that `policies/commands.yaml` requires for other servers' git are
/// sufficient for its permitted subcommands.
#[test]
fn plain_git_runs_nothing_when_called_as_the_policy_wants_it() {
    let policy = include_str!("../../../../policies/commands.yaml");
    let words =
        policy.split_once("begins_with: [").and_then(|(_, rest)| rest.split_once(']')).unwrap().0;
    let words: Vec<&str> = words.split(',').map(str::trim).collect();
    assert!(words.len() > 30, "{words:?}");
    for (name, falls) in TRAPS {
        let place = TestFolder::new();
        trap(&place, name);
        git(&place.root(), falls);
        sprung(&place).iter().for_each(|path| std::fs::remove_file(path).unwrap());
        for command in [
            &["log"][..],
            &["log", "--oneline", "--graph", "--all", "-5"],
            &["log", "--format=%h %s", "victim.txt"],
            &["rev-parse", "--abbrev-ref", "HEAD"],
            &["ls-files", "victim.txt"],
            &["ls-tree", "-r", "-l", "HEAD"],
            &["show-ref", "--heads"],
            &["branch", "--list", "-a"],
            &["tag", "--list"],
        ] {
            let ran = git(&place.root(), &[&words, command].concat());
            assert!(sprung(&place).is_empty(), "{name}: {command:?}");
            let missing = command == ["tag", "--list"] || name == "gpg";
            assert!(
                ran.status.success() && (missing || !ran.stdout.is_empty()),
                "{name}: {command:?}: {ran:?}"
            );
        }
    }
}

#[tokio::test]
async fn repositories_above_a_root_are_not_found() {
    let place = TestFolder::new();
    must(place.folder.path(), &["init", "-q"]);
    for landlock in [Landlock::Required, Landlock::Off] {
        let result = run(&rig(place.config(landlock)), "git status").await.unwrap();
        assert_eq!(result["exitCode"], json!(128), "{result}");
    }
}
