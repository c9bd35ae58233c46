//! Tests of the `command` rule: the corpora, the parts of a parsed command, the messages of
//! refusals, and mistakes in rules.

use super::*;

const ATTACKS: &str = include_str!("../../../tests/corpora/command/attack.txt");
const BENIGN: &str = include_str!("../../../tests/corpora/command/benign.txt");

/// Attacks that a rule cannot detect, because only the file system resolves links. The tool has to
/// prevent them.
const LINKS: [&str; 6] = [
    "cat link-out",
    "cat folder-out/secret.txt",
    "find folder-out/ -name secret.txt",
    "ls folder-out/",
    "grep CANARY link-out",
    r#"["grep", "-r", "CANARY", "folder-out/"]"#,
];

fn rule() -> Command {
    Command::compile(&Spec::default()).unwrap()
}

fn own(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn refused(text: &str) -> String {
    rule().check(text).unwrap_err().0
}

fn lines(corpus: &str) -> impl Iterator<Item = &str> {
    corpus
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("# ") && !line.starts_with("## "))
}

/// Checks one corpus line, either as an argument vector (a JSON array) or as command text.
fn judge(rule: &Command, line: &str) -> Result<Invocation, Refusal> {
    if let Ok(argv) = serde_json::from_str::<Vec<String>>(line) {
        return rule.check_argv(&argv, None);
    }
    rule.check(&serde_json::from_str::<String>(line).unwrap_or_else(|_| line.to_owned()))
}

#[test]
fn no_attack_passes() {
    let rule = rule();
    let passed: Vec<_> =
        lines(ATTACKS).filter(|line| judge(&rule, line).is_ok() && !LINKS.contains(line)).collect();
    assert!(lines(ATTACKS).count() >= 150);
    assert!(passed.is_empty(), "{} passed:\n{}", passed.len(), passed.join("\n"));
}

#[test]
fn links_are_left_to_the_tool_and_their_paths_are_named() {
    for line in LINKS {
        assert!(lines(ATTACKS).any(|attack| attack == line), "{line}");
        let paths = judge(&rule(), line).unwrap().paths;
        assert!(
            paths.iter().any(|path| path.starts_with("link-out") || path.starts_with("folder-out")),
            "{paths:?}"
        );
    }
}

#[test]
fn what_people_mean_passes() {
    let rule = rule();
    let judged: Vec<_> = lines(BENIGN).map(|line| (line, judge(&rule, line))).collect();
    let refused: Vec<String> = judged
        .iter()
        .filter_map(|(line, judged)| judged.as_ref().err().map(|why| format!("{line}\n    {why}")))
        .collect();
    assert!(judged.len() >= 150);
    assert!(
        refused.len() * 100 <= judged.len(),
        "{} of {} refused:\n{}",
        refused.len(),
        judged.len(),
        refused.join("\n")
    );
}

#[test]
fn refusals_say_what_to_do() {
    for (text, words) in [
        (
            "ls | wc",
            "unquoted `|` would start a pipe; there is no shell here: send one program with its arguments, and put literal text in single quotes",
        ),
        ("ls *.rs", "unquoted `*` is a wildcard"),
        ("echo \"$X\"", "use single quotes"),
        ("echo 'x", "a ' is not closed; close the quote"),
        ("rm x", "the program `rm` is not allowed; allowed are: cat, echo"),
        ("/bin/ls", "`/bin/ls` is a path, not the name of a program"),
        ("A=1 ls", "`A=1` looks like a variable"),
        (
            "find . -exec x",
            "the option `-exec` of `find` is not allowed: it starts other programs; leave it out",
        ),
        ("sort --output=x y", "the option `--output` of `sort` is not allowed: it writes a file"),
        (
            "sort --compress x y",
            "the option `--compress` of `sort` is not allowed here; leave it out, or use another option in full",
        ),
        (
            "git log --output=x",
            "the option `--output` of `git log` is not allowed: it writes a file",
        ),
        ("git push", "`git push` is not allowed; allowed are: blame, branch"),
        ("git branch x", "`git branch` takes `x` only together with --list or -l"),
        ("uniq a b", "`uniq` takes at most 1 operands here; `b` is one too many"),
        ("head -n ten a", "`head -n` must have a number, such as 10 as its value, received `ten`"),
        ("head -n", "`head -n` needs a value: a number"),
        ("sort -k --x a", "write it in one word: `-k--x`"),
        ("cat a/../b", "`a/../b` goes up"),
        ("ls --color=x", "one of always, auto, never"),
        ("ls --all=x", "`ls --all` takes no value"),
        ("grep", "`grep` needs text here"),
        ("cat ../x", "`../x` goes up with `..`; use a relative path below the working folder"),
        ("cat /etc/passwd", "`/etc/passwd` is outside of the folders that may be used"),
        ("node -e 1", "only `--version` is allowed unless the operator opts in to code execution"),
        ("yarn", "`yarn` is allowed only with -v or --version"),
        (" ", "the command is empty"),
        ("ls\nls", "the command has a line break"),
        ("ls \u{1b}", "the control character U+001B"),
    ] {
        let found = refused(text);
        assert!(found.contains(words), "{text}: {found}");
    }
}

/// Each was observed to start `gpg.program`, except for `%%G`, which is refused anyway.
#[test]
fn what_git_prints_starts_no_gpg() {
    let rule = rule();
    for placeholder in [
        "%G?",
        "%GG",
        "%GS",
        "%+GK",
        "%-GF",
        "% GP",
        "%<(9)%GT",
        "%C(red)%G?",
        "a %h%x00%G?",
        "%%G",
    ] {
        for call in [
            "log --format=",
            "log --pretty=",
            "log --format=format:",
            "log --pretty=format:",
            "log --pretty=tformat:",
            "show --format=",
            "show --pretty=",
            "rev-list HEAD --format=",
            "rev-list HEAD --pretty=",
            "shortlog HEAD --format=",
            "shortlog HEAD --group=",
            "shortlog HEAD --group=format:",
            "log --format ",
            "shortlog HEAD --format ",
            "rev-list HEAD --format ",
        ] {
            let line = format!("git {call}'{placeholder}'");
            let refusal = rule.check(&line).map(|_| &line).unwrap_err().0;
            assert!(refusal.contains("gpg"), "{line}: {refusal}");
        }
    }
    for (option, values) in [
        (
            "format",
            &[
                "%(signature)",
                "%(*signature)",
                "%(signature:grade)",
                "%(if)%(signature)%(then)a%(end)",
            ][..],
        ),
        (
            "sort",
            &["signature", "-signature:key", "*signature", "version:signature", "-v:*signature"][..],
        ),
    ] {
        for (value, list) in
            values.iter().flat_map(|value| ["branch", "tag"].map(|list| (value, list)))
        {
            for line in [
                format!("git {list} --list '--{option}={value}'"),
                format!("git {list} --list --{option} '{value}' a"),
            ] {
                assert!(rule.check(&line).is_err(), "{line}");
            }
        }
    }
    // A name may be defined in the repository's configuration, where git also accepts prefixes.
    for name in ["mine", "one", "Oneline", "formats", "mine:a"] {
        for call in [
            "log --pretty=",
            "log --format=",
            "show --pretty=",
            "rev-list HEAD --format=",
            "shortlog --format ",
        ] {
            let refusal = rule.check(&format!("git {call}{name}")).unwrap_err().0;
            assert!(refusal.contains("one of oneline, short"), "{refusal}");
        }
    }
    for line in [
        "git log --pretty --date=format:%G-W%V -G '%G?'",
        "git log --format= --grep='%G?'",
        "git log --format='%h %s%n%(trailers:only)%(describe)'",
        "git log --format reference",
        "git show --pretty=format:'Got %h'",
        "git rev-list HEAD --format=tformat:%H",
        "git shortlog HEAD --group=author --group=trailer:co-authored-by",
        "git tag --list --format='%(refname) %(contents:signature)' --sort=-version:refname",
        "git ls-files --format='%(objectname) %(path)'",
    ] {
        assert!(rule.check(line).is_ok(), "{line}: {:?}", rule.check(line));
    }
}

#[test]
fn a_command_is_taken_apart() {
    let found = rule().check("git --no-pager log -n5 --relative=docs 'a b' -- src").unwrap();
    assert_eq!(found.program, "git");
    assert_eq!(
        found.arguments,
        own(&["--no-pager", "log", "-n5", "--relative=docs", "a b", "--", "src"])
    );
    assert_eq!(found.subcommands, own(&["log"]));
    assert_eq!(found.paths, own(&["docs", "a b", "src"]));
    let paths = |text: &str| rule().check(text).unwrap().paths;
    assert_eq!(paths("grep -vf list x a b"), own(&["list", "x", "a", "b"]));
    assert_eq!(paths("grep x a - b"), own(&["a", "b"]));
    assert_eq!(paths("find a b -newer c -name d"), own(&["c", "a", "b"]));
    assert_eq!(paths("echo /etc/passwd"), own(&[]));
}

#[test]
fn roots_and_a_folder_bound_paths() {
    let rule =
        Command::compile(&Spec { roots: own(&["/data/a", "/data/./b/"]), ..Spec::default() })
            .unwrap();
    let ok = |argv: &[&str], folder: Option<&str>| rule.check_argv(&own(argv), folder).is_ok();
    assert!(
        ok(&["cat", "/data/a/x"], None)
            && ok(&["cat", "/data/b"], None)
            && ok(&["cat", "x/y"], None)
    );
    assert!(
        !ok(&["cat", "/data/ab"], None)
            && !ok(&["cat", "/data"], None)
            && !ok(&["cat", "/data/a/../c"], None)
            && !ok(&["cat", "../b/../../c"], Some("/data/a/deep"))
    );
    assert!(
        ok(&["cat", "../x"], Some("/data/a/deep"))
            && ok(&["cat", "../../b/x"], Some("/data/a/deep"))
    );
    assert!(
        !ok(&["cat", "../x"], Some("/data/a"))
            && !ok(&["cat", "../../../../../../x"], Some("/data/a"))
    );
    assert_eq!(locate("../b/./x", Some("/data/a"), &rule.roots).unwrap(), "/data/b/x");
    let all = Command::compile(&Spec { roots: own(&["/"]), ..Spec::default() }).unwrap();
    assert!(all.check("cat /etc/hostname").is_ok());
}

#[test]
fn code_runs_only_by_its_named_opt_in() {
    let spec = Spec { allow_code_execution: own(&["node"]), ..Spec::default() };
    let rule = Command::compile(&spec).unwrap();
    let found = rule.check("node -e '1 + 1; 2'").unwrap();
    assert!(found.paths.is_empty());
    assert!(rule.check("node -e 1; 2").is_err());
    assert!(rule.check("npm test").is_err());
}

#[test]
fn programs_and_models_of_ones_own() {
    let spec: Spec = serde_json::from_str(
        r#"{"programs": ["jq", "/usr/bin/ls", "tool"],
            "models": {
                "jq": {"flags": ["-r", "--arg=text", "--indent=number"], "operands": ["text", "path..."]},
                "tool": {"flags": ["-q"], "subcommands": {"show": {"flags": ["--as=json|text"], "operands": ["path?"]}}}}}"#,
    )
    .unwrap();
    let rule = Command::compile(&spec).unwrap();
    for text in
        ["jq -r . a.json", "jq --indent=2 '.[0]' a b", "/usr/bin/ls -l", "tool -q show --as json x"]
    {
        assert!(rule.check(text).is_ok(), "{text}: {:?}", rule.check(text));
    }
    for text in [
        "jq --rawfile x y .",
        "jq --indent=x .",
        "jq",
        "ls",
        "/usr/bin/ls /",
        "tool -q hide",
        "tool show --as xml",
        "tool show a b",
    ] {
        assert!(rule.check(text).is_err(), "{text}");
    }
}

/// Each requirement of a model, with a call that satisfies it and calls that do not.
#[test]
fn a_model_is_held_in_every_part() {
    for (model, good, bad) in [
        (
            r#"{"begins_with": ["-c", "a=b"], "operands": ["text?"]}"#,
            "x -c a=b y",
            &["x", "x y", "x -c", "x -c a=c"][..],
        ),
        (r#"{"subcommands": {"do": {}}}"#, "x do", &["x -- do", "x -- other", "x --"]),
        (
            r#"{"subcommands": {"do": {"need": ["-v"], "flags": ["-v"]}}, "flags": ["-v"]}"#,
            "x do -v",
            &["x do", "x -v do"],
        ),
        (
            r#"{"style": "words", "flags": ["!", "-a=number"], "operands": ["path?"]}"#,
            "x ! -a 1",
            &["x -a b", "x -- a"],
        ),
        (
            r#"{"style": "words", "flags": ["not=number"], "operands": ["path?"]}"#,
            "x not 1",
            &["x not y", "x not"],
        ),
        (r#"{"style": "plain", "operands": ["path"]}"#, "x -rf", &["x", "x ../y", "x a b"]),
        (
            r##"{"flags": ["-#"], "operands": ["path?"]}"##,
            "x -5 y",
            &["x -5a", "x -a", "x -99999999999999999999"],
        ),
        (
            r#"{"flags": ["-a"], "operands": ["path?"]}"#,
            "x -a -",
            &["x -5", "x -b", "x -ab", "x --a", "x -a=1"],
        ),
        (r#"{"flags": ["--all"]}"#, "x --all", &["x --all=", "x --all=1", "x --al", "x --all y"]),
        (r#"{"flags": ["-o=text"]}"#, "x -o y", &["x -o -y", "x -o --", "x -o"]),
        (r#"{"flags": ["-n=number"]}"#, "x -n5", &["x -n -5", "x -n y", "x -n5k", "x -n="]),
        (r#"{"flags": ["-o=path"]}"#, "x -o y", &["x -o ../y", "x -o../y", "x -o /y"]),
        (r#"{"flags": ["-v"], "need": ["-v"]}"#, "x -v", &["x"]),
        (
            r#"{"flags": ["-v"], "operands_need": ["-v"], "operands": ["text?"]}"#,
            "x -v y",
            &["x y"],
        ),
        (
            r#"{"flags": ["-e=text"], "first_operand_unless": ["-e"], "operands": ["text", "path"]}"#,
            "x -e a b",
            &["x a", "x -e a", "x -e a ../b", "x -e a b c"],
        ),
        (r#"{"operands": ["text", "path..."]}"#, "x ../a b c", &["x", "x a b ../c", "x a /b"]),
    ] {
        let text = format!(r#"{{"programs": ["x"], "models": {{"x": {model}}}}}"#);
        let rule = Command::compile(&serde_json::from_str(&text).unwrap()).unwrap();
        assert!(rule.check(good).is_ok(), "{model} {good}: {:?}", rule.check(good));
        for call in bad {
            assert!(rule.check(call).is_err(), "{model} {call}");
        }
    }
}

#[test]
fn mistakes_in_a_rule_are_named() {
    for (spec, words) in [
        (r#"{"programs": ["jq"]}"#, "`jq` has no built-in model"),
        (r#"{"programs": ["./ls"]}"#, "must be the name of a program, or its absolute path"),
        (
            r#"{"programs": ["ls"], "allow_code_execution": ["node"]}"#,
            "`node` is not in `programs`",
        ),
        (r#"{"models": {"jq": {}}}"#, "models: `jq` is not in `programs`"),
        (r#"{"roots": ["data"]}"#, "must be an absolute path"),
        (r#"{"max_bytes": 0}"#, "max_bytes: must be from 1"),
        (r#"{"max_arguments": 5000}"#, "max_arguments: must be from 1"),
        (r#"{"models": {"ls": {"flags": ["-all"]}}}"#, "`-all` is not a flag"),
        (r#"{"models": {"ls": {"flags": ["--n=int"]}}}"#, "`int` is not a kind of value"),
        (
            r#"{"models": {"ls": {"operands": ["path...", "text"]}}}"#,
            "only the last operand may repeat",
        ),
        (r#"{"models": {"ls": {"need": ["-v"]}}}"#, "`-v` is not among the flags"),
        (
            r#"{"models": {"ls": {"operands": ["text"], "subcommands": {"a": {}}}}}"#,
            "style gnu and no operands",
        ),
        (r#"{"models": {"ls": {"style": "plain", "flags": ["-a"]}}}"#, "style plain has no flags"),
    ] {
        let found = Command::compile(&serde_json::from_str(spec).unwrap()).unwrap_err();
        assert!(found.contains(words), "{spec}: {found}");
    }
    assert!(serde_json::from_str::<Spec>(r#"{"programs": [], "shell": true}"#).is_err());
}

#[test]
fn bounds_hold() {
    let rule =
        Command::compile(&Spec { max_bytes: 20, max_arguments: 3, ..Spec::default() }).unwrap();
    assert!(rule.check("echo 1 2 3").is_ok());
    assert!(rule.check("echo 1 2 3 4").unwrap_err().0.contains("has 4 arguments; at most 3"));
    assert!(rule.check("echo 12345678901234567890").unwrap_err().0.contains("at most 20"));
    assert!(rule.check_argv(&own(&["echo", "1234567890", "1234567890"]), None).is_err());
}

/// Splits a command line with a real shell; returns `None` if the shell reports an error.
#[allow(clippy::disallowed_methods, reason = "a real shell is what the tokenizer is held against")]
fn as_a_shell(shell: &str, text: &str) -> Option<Vec<String>> {
    let script = format!("set -- {text}\nprintf '%s\\0' \"$@\"");
    let ran = std::process::Command::new(shell).args(["-c", &script]).env_clear().output().unwrap();
    let words = String::from_utf8(ran.stdout).ok()?;
    let words =
        words.strip_suffix('\0').map(|words| words.split('\0').map(str::to_owned).collect());
    ran.status.success().then_some(words?)
}

#[test]
fn words_are_those_of_a_real_shell() {
    let pieces = [
        "a", "b", " ", "  ", "'", "\"", "\\", "$", "`", "|", ";", "&", "*", "?", "~", "#", "=",
        "!", "{", "}", "[", "]", "(", ")", "<", ">", "-", "/", ":", "^", "%", "@", "é", "\t", ",",
        ".", "x y", "'q r'", "\"s t\"", "\\ ", "\\'",
    ];
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 33).unwrap()
    };
    let mut held = 0;
    for _ in 0..20_000 {
        let text: String = (0..1 + next() % 9).map(|_| pieces[next() % pieces.len()]).collect();
        let Ok(words) = judge::split(&text) else { continue };
        if words.is_empty() || held >= 400 {
            continue;
        }
        held += 1;
        for shell in ["sh", "bash"] {
            assert_eq!(as_a_shell(shell, &text).as_ref(), Some(&words), "{shell}: {text}");
        }
    }
    assert_eq!(held, 400);
    for line in lines(BENIGN).filter(|line| !line.starts_with('[')) {
        assert_eq!(as_a_shell("sh", line), judge::split(line).ok(), "{line}");
    }
}

#[test]
fn any_text_ends_in_an_answer() {
    let rule = rule();
    let words = [
        "git", "find", "log", "-", "--", "-n", "=", "\u{0}", "é", "-é", "--é=", "'", "", "-#",
        "-5", "..", "/", "--color=", "grep", "-e",
    ];
    let mut seed = 88_172_645_463_325_252_u64;
    for _ in 0..50_000 {
        let mut argv = Vec::new();
        for _ in 0..6 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            argv.push(words[usize::try_from(seed >> 40).unwrap() % words.len()].to_owned());
        }
        let _ = rule.check_argv(&argv, Some("/a"));
        let _ = rule.check(&argv.join(" "));
    }
}

#[test]
fn a_list_passes_where_the_rule_asks_for_one() {
    let rule = |form| Command::compile(&Spec { form, ..Spec::default() }).unwrap();
    let text = serde_json::json!("cat a");
    let list = serde_json::json!(["cat", "`id`"]);
    for (form, takes_text, takes_list) in
        [(Form::Text, true, false), (Form::Argv, false, true), (Form::Either, true, true)]
    {
        let rule = rule(form);
        assert_eq!(rule.check_value(&text).is_ok(), takes_text, "{form:?}");
        assert_eq!(rule.check_value(&list).is_ok(), takes_list, "{form:?}");
        for other in [
            serde_json::json!(["cat", 1]),
            serde_json::json!([["cat"]]),
            serde_json::json!([]),
            Value::Null,
        ] {
            assert!(rule.check_value(&other).is_err(), "{form:?} {other}");
        }
    }
    assert_eq!(Spec::default().form, Form::Text);
}

/// A search pattern may look like an option; grep never reads it as an option.
#[test]
fn what_is_looked_for_may_begin_with_a_dash() {
    for line in
        ["grep -e -v a.txt", "grep -ie --all a.txt", "grep --regexp -x a.txt", "git grep -e --all"]
    {
        assert!(rule().check(line).is_ok(), "{line}: {:?}", rule().check(line));
    }
    let call = rule().check("grep -e -f a.txt").unwrap();
    assert_eq!((call.paths, call.arguments), (own(&["a.txt"]), own(&["-e", "-f", "a.txt"])));
    for line in [
        "grep -f -v a.txt",
        "grep -A -e x",
        "sort -t -o a.txt",
        "git log --grep --output=a",
        "grep -e",
        "grep -e x -S",
    ] {
        assert!(rule().check(line).is_err(), "{line}");
    }
    let mut models = BTreeMap::new();
    models.insert("rg".to_owned(), ModelSpec { flags: own(&["-e=text"]), ..ModelSpec::default() });
    let other =
        Command::compile(&Spec { programs: own(&["rg"]), models, ..Spec::default() }).unwrap();
    assert!(other.check("rg -e -v").unwrap_err().0.contains("begins with a dash"));
}

/// A name before `..` may be a link, so that the path leads elsewhere than its text indicates.
#[test]
fn no_path_goes_up_behind_a_name() {
    let rooted = Command::compile(&Spec { roots: own(&["/srv/data"]), ..Spec::default() }).unwrap();
    for path in [
        "a/../b",
        "./a/../b",
        "/srv/data/a/../b",
        "/srv/data/..",
        "/srv/../srv/data",
        "a/b/..",
        "a//..",
    ] {
        assert!(locate(path, None, &rooted.roots).is_err(), "{path}");
    }
    // With a folder, the caller resolves links.
    let folder = Some("/srv/data");
    assert_eq!(locate("./a/../b", folder, &rooted.roots), Ok("/srv/data/b".to_owned()));
    assert!(locate("a/../../b", folder, &rooted.roots).is_err());
    for (path, found) in
        [("../b", "/srv/data/b"), (".././b", "/srv/data/b"), ("a..b/c", "/srv/data/a/a..b/c")]
    {
        assert_eq!(
            locate(path, Some("/srv/data/a"), &rooted.roots),
            Ok(found.to_owned()),
            "{path}"
        );
    }
}
