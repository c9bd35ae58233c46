//! The built-in models of programs. Anything not listed is not allowed. In particular, nothing is
//! listed that starts another program, writes a file, follows links out of a folder, or reads file
//! names from a file.

use std::collections::BTreeMap;

use super::spec::{ModelSpec, Style, gnu, words};

pub(super) fn model(program: &str) -> Option<ModelSpec> {
    let spec = match program {
        "cat" => gnu(CAT, &["path..."]),
        "echo" => {
            ModelSpec { style: Style::Plain, operands: words(&["text..."]), ..ModelSpec::default() }
        }
        "find" => ModelSpec { style: Style::Words, ..gnu(FIND, &["path..."]) },
        "git" => git(),
        "grep" => ModelSpec {
            first_operand_unless: words(&["-e", "-f", "--regexp", "--file"]),
            ..gnu(GREP, &["text", "path..."])
        },
        "head" => gnu(HEAD, &["path..."]),
        "ls" => gnu(LS, &["path..."]),
        "pwd" => gnu("-L -P --logical --physical --help --version", &[]),
        "sort" => gnu(SORT, &["path..."]),
        // Without -f, which never ends.
        "tail" => gnu(HEAD, &["path..."]),
        // A second operand would be overwritten.
        "uniq" => gnu(UNIQ, &["path?"]),
        "wc" => gnu(
            "-c -m -l -L -w --bytes --chars --lines --max-line-length --words \
                --total=auto|always|only|never --help --version",
            &["path..."],
        ),
        // Without arguments, node waits for a program and yarn installs packages.
        "node" | "npm" | "pnpm" | "yarn" => {
            ModelSpec { need: words(&["-v", "--version"]), ..gnu("-v --version", &[]) }
        }
        _ => return None,
    };
    Some(spec)
}

const CAT: &str = "-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number \
    --squeeze-blank --show-tabs --show-nonprinting --help --version";

/// For `head` and `tail`.
const HEAD: &str = "-# -n=count -c=count -q -v -z --lines=count --bytes=count --quiet --silent \
    --verbose --zero-terminated --help --version";

const UNIQ: &str = "-c -d -D -f=number -i -s=number -u -w=number -z --count --repeated \
    --all-repeated?=none|prepend|separate --skip-fields=number \
    --group?=separate|prepend|append|both --ignore-case --skip-chars=number --unique \
    --zero-terminated --check-chars=number --help --version";

/// Without -o, -T, --compress-program, --random-source, --files0-from; without -S and --parallel,
/// which use memory.
const SORT: &str = "-b -d -f -g -i -M -h -n -R -r -V -c -C -k=text -m -s -t=text -u -z \
    --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort \
    --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort --random-sort --reverse \
    --sort=general-numeric|human-numeric|month|numeric|random|version --version-sort \
    --check?=quiet|silent|diagnose-first --key=text --merge --stable --field-separator=text \
    --unique --zero-terminated --debug --help --version";

/// Without -L, -H and --dereference, which follow links.
const LS: &str = "-a -A -b -B -c -C -d -f -F -g -G -h -i -I=text -k -l -m -n -N -o -p -q -Q -r -R \
    -s -S -t -T=number -u -U -v -w=number -x -X -Z -1 --all --almost-all --author --escape \
    --block-size=count --ignore-backups --color?=always|auto|never --directory \
    --classify?=always|auto|never --file-type \
    --format=across|commas|horizontal|long|single-column|verbose|vertical --full-time \
    --group-directories-first --no-group --human-readable --si --hide=text \
    --hyperlink?=always|auto|never --indicator-style=none|slash|file-type|classify --inode \
    --ignore=text --kibibytes --numeric-uid-gid --literal --hide-control-chars \
    --show-control-chars --quote-name --quoting-style=text --reverse --recursive --size \
    --sort=none|size|time|version|extension|width --time=text --time-style=text --tabsize=number \
    --width=number --context --zero --help --version";

/// Without -R and --dereference-recursive, which follow links.
const GREP: &str = "-# -E -F -G -P -e=text -f=path -i -v -w -x -c -L -l -m=number -o -q -s -b -H \
    -h -n -T -Z -A=number -B=number -C=number -a -I -r -U -z --extended-regexp --fixed-strings \
    --basic-regexp --perl-regexp --regexp=text --file=path --ignore-case --no-ignore-case \
    --invert-match --word-regexp --line-regexp --count --color?=always|auto|never \
    --colour?=always|auto|never --files-without-match --files-with-matches --max-count=number \
    --only-matching --quiet --silent --no-messages --byte-offset --with-filename --no-filename \
    --label=text --line-number --initial-tab --null --after-context=number --before-context=number \
    --context=number --text --binary-files=binary|text|without-match --exclude=text \
    --exclude-from=path --exclude-dir=text --include=text --recursive \
    --directories=read|recurse|skip -d=read|recurse|skip --line-buffered --binary --null-data \
    --help --version -V";

/// Tests and actions that only read and print: nothing that runs, writes, deletes, or reads names
/// from a file.
const FIND: &str = "! ( ) , -not -a -and -o -or -P -amin=text -anewer=path -atime=text -cmin=text \
    -cnewer=path -ctime=text -depth -d -daystart -empty -executable -false -fstype=text -gid=text \
    -group=text -ignore_readdir_race -noignore_readdir_race -ilname=text -iname=text -inum=text \
    -ipath=text -iregex=text -iwholename=text -links=text -lname=text -ls -maxdepth=number \
    -mindepth=number -mmin=text -mount -mtime=text -name=text -newer=path -newermt=text \
    -newerat=text -newerct=text -newermm=path -nogroup -noleaf -nouser -path=text -perm=text \
    -print -print0 -printf=text -prune -quit -readable -regex=text -regextype=text -samefile=path \
    -size=text -true -type=text -uid=text -used=text -user=text -warn -nowarn -wholename=text \
    -writable -xdev -xtype=text --help --version -help -version";

/// Options that callers commonly try, with the reason for the refusal; `git ` stands for all its
/// subcommands. Only for messages: these options are refused because no list above contains them.
const DANGERS: [(&str, &[&str], &str); 13] = [
    ("find", &["-exec", "-execdir", "-ok", "-okdir"], "starts other programs"),
    ("find", &["-delete"], "deletes files"),
    ("find", &["-fls", "-fprint", "-fprint0", "-fprintf"], "writes a file"),
    ("find", &["-L", "-H", "-follow"], "follows links to other folders"),
    ("find", &["-files0-from"], "reads unchecked paths from a file"),
    ("sort", &["-o", "--output"], "writes a file"),
    ("sort", &["--compress-program"], "starts another program"),
    ("grep", &["-R", "--dereference-recursive"], "follows links to other folders (use -r)"),
    (
        "git",
        &["-c", "--config-env", "--exec-path"],
        "changes settings, and settings of git can start programs",
    ),
    (
        "git",
        &["-C", "--git-dir", "--work-tree"],
        "leaves the working folder (give that folder as the working folder)",
    ),
    (
        "git ",
        &["-O", "--open-files-in-pager", "--ext-diff", "--textconv"],
        "starts other programs or reads other files",
    ),
    ("git ", &["--no-index"], "leaves the repository"),
    ("git ", &["--output"], "writes a file"),
];

pub(super) fn danger(program: &str, flag: &str) -> Option<&'static str> {
    if matches!(program, "node" | "npm" | "pnpm" | "yarn") {
        return Some(
            "could run code, and only `--version` is allowed unless the operator opts in to code \
                execution",
        );
    }
    for (name, flags, why) in DANGERS {
        let is_of_program = name == program || name.ends_with(' ') && program.starts_with(name);
        if is_of_program && flags.contains(&flag) {
            return Some(why);
        }
    }
    None
}

fn git() -> ModelSpec {
    let simple: [(&str, &str, &[&str]); 16] = [
        ("status", STATUS, &["path..."]),
        ("rev-parse", REV_PARSE, &["path..."]),
        ("ls-files", LS_FILES, &["path..."]),
        ("ls-tree", LS_TREE, &["path", "path..."]),
        ("blame", BLAME, &["path", "path..."]),
        ("shortlog", SHORTLOG, &["path", "path..."]),
        ("cat-file", "-t -s -p -e", &["path", "path?"]),
        (
            "merge-base",
            "-a --all --octopus --independent --is-ancestor --fork-point",
            &["path", "path..."],
        ),
        ("rev-list", REV_LIST, &["path..."]),
        (
            "describe",
            "--all --tags --contains --abbrev=number --always --long --match=text --exclude=text \
                --exact-match --first-parent --candidates=number",
            &["path..."],
        ),
        (
            "check-ignore",
            "-q -v -n --quiet --verbose --non-matching --no-index",
            &["path", "path..."],
        ),
        ("count-objects", "-v -H --verbose --human-readable", &[]),
        ("name-rev", "--tags --all --name-only --no-undefined --always --refs=text", &["path..."]),
        ("remote", "-v --verbose", &[]),
        (
            "show-ref",
            "--head --heads --tags --branches -d --dereference -s --hash?=number --verify \
                --abbrev?=number -q --quiet",
            &["text..."],
        ),
        ("version", "--build-options", &[]),
    ];
    let mut subcommands = BTreeMap::new();
    for (name, flags, operands) in simple {
        subcommands.insert(name.to_owned(), gnu(flags, operands));
    }
    for (name, flags) in [("log", [LOG, DIFF]), ("show", [LOG, DIFF]), ("diff", [DIFF, ONLY_DIFF])]
    {
        subcommands.insert(name.to_owned(), gnu(&flags.join(" "), &["path..."]));
    }
    let grep = ModelSpec {
        first_operand_unless: words(&["-e", "-f"]),
        ..gnu(GIT_GREP, &["text", "path..."])
    };
    subcommands.insert("grep".into(), grep);
    for (name, flags) in [("branch", BRANCH), ("tag", TAG)] {
        // Without --list, an operand is the name of a branch or tag to create.
        let list =
            ModelSpec { operands_need: words(&["--list", "-l"]), ..gnu(flags, &["text..."]) };
        subcommands.insert(name.to_owned(), list);
    }
    ModelSpec { subcommands, ..gnu(GLOBAL, &[]) }
}

/// Options of git itself, before the subcommand.
const GLOBAL: &str = "-P --no-pager --version -v --no-optional-locks --literal-pathspecs \
    --glob-pathspecs --noglob-pathspecs --icase-pathspecs --no-replace-objects";

const STATUS: &str = "-s -b -v -u?=no|normal|all -z --short --branch --show-stash \
    --porcelain?=v1|v2|1|2 --long --verbose --untracked-files?=no|normal|all \
    --ignored?=traditional|no|matching --ahead-behind --no-ahead-behind --renames --no-renames \
    --find-renames?=text --null";

const REV_PARSE: &str = "--show-toplevel --abbrev-ref?=strict|loose --short?=number --verify -q \
    --quiet --git-dir --show-prefix --show-cdup --is-inside-work-tree --is-inside-git-dir \
    --is-bare-repository --is-shallow-repository --symbolic --symbolic-full-name --all \
    --branches?=text --tags?=text --remotes?=text --absolute-git-dir --git-common-dir \
    --show-object-format --revs-only --no-revs --flags --no-flags --not \
    --show-superproject-working-tree";

const LS_FILES: &str = "-c -d -m -o -i -s -u -k -z -t -v -f -x=text --cached --deleted --modified \
    --others --ignored --stage --unmerged --killed --directory --no-empty-directory --eol \
    --deduplicate --exclude=text --exclude-standard --error-unmatch --full-name --abbrev?=number \
    --format=text --resolve-undo --debug --sparse";

const LS_TREE: &str = "-d -r -t -l -z --long --name-only --name-status --object-only --full-name \
    --full-tree --abbrev?=number --format=text";

const BLAME: &str = "-L=text -l -t -s -e -n -f -w -p -c -M?=number -C?=number --show-email \
    --show-number --show-name --show-stats --score-debug --date=text --since=text --porcelain \
    --line-porcelain --root --reverse --first-parent --abbrev=number --incremental --minimal \
    --diff-algorithm=myers|minimal|patience|histogram";

const SHORTLOG: &str = "-s -n -e -c --summary --numbered --email --committer --group=fields \
    --format=format --since=text --after=text --until=text --before=text --author=text --no-merges \
    --merges --all --branches?=text --tags?=text --remotes?=text --first-parent -w?=text \
    --date=text";

const REV_LIST: &str = "-# -n=number --max-count=number --skip=number --count --all \
    --branches?=text --tags?=text --remotes?=text --no-merges --merges --first-parent --reverse \
    --since=text --after=text --until=text --before=text --author=text --committer=text \
    --grep=text --topo-order --date-order --left-right --cherry-pick --cherry --parents --children \
    --oneline --pretty?=format --format=format --abbrev-commit --ancestry-path --objects --no-walk \
    --not --full-history --simplify-merges";

/// Options of `log` and `show` that select and format commits.
const LOG: &str = "-# -n=number --max-count=number --skip=number --oneline --graph --no-graph \
    --decorate?=short|full|auto|no --no-decorate --decorate-refs=text --decorate-refs-exclude=text \
    --source --all --branches?=text --tags?=text --remotes?=text --exclude=text --since=text \
    --after=text --until=text --before=text --author=text --committer=text --grep=text --all-match \
    --invert-grep -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P --perl-regexp \
    --basic-regexp --no-merges --merges --min-parents=number --max-parents=number --first-parent \
    --not --reverse --date-order --author-date-order --topo-order --left-right --left-only \
    --right-only --cherry --cherry-pick --cherry-mark --boundary --simplify-by-decoration \
    --full-history --dense --sparse --simplify-merges --ancestry-path --show-pulls --format=format \
    --pretty?=format --abbrev-commit --no-abbrev-commit --encoding=text --no-notes --date=text \
    --relative-date --parents --children --no-walk?=sorted|unsorted --follow -L=text --full-diff \
    --log-size --clear-decorations --no-mailmap --mailmap --use-mailmap --expand-tabs?=number \
    --no-expand-tabs -c -m --cc --no-diff-merges -t \
    --diff-merges=off|none|on|first-parent|1|separate|m|combined|c|dense-combined|cc";

/// Options of `diff`, `log` and `show` that format differences.
const DIFF: &str = "-p -u -s -U=number -w -b -a -R -W -z -M?=text -C?=text -B?=text -D -l=number \
    -S=text -G=text -X?=text --patch --no-patch --unified=number --raw --patch-with-raw \
    --indent-heuristic --no-indent-heuristic --minimal --patience --histogram --anchored=text \
    --diff-algorithm=myers|minimal|patience|histogram|default --stat?=text --stat-width=number \
    --stat-count=number --compact-summary --numstat --shortstat --dirstat?=text --cumulative \
    --summary --patch-with-stat --name-only --name-status --color?=always|never|auto --no-color \
    --color-moved?=text --no-color-moved --word-diff?=color|plain|porcelain|none \
    --word-diff-regex=text --color-words?=text --no-renames --rename-empty --no-rename-empty \
    --check --ws-error-highlight=text --full-index --binary --abbrev?=number \
    --break-rewrites?=text --find-renames?=text --find-copies?=text --find-copies-harder \
    --irreversible-delete --diff-filter=text --find-object=text --pickaxe-all --pickaxe-regex \
    --relative?=path --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol \
    --ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines=text \
    -I=text --inter-hunk-context=number --function-context --exit-code --quiet --no-textconv \
    --no-ext-diff --src-prefix=text --dst-prefix=text --no-prefix --default-prefix \
    --line-prefix=text --ita-invisible-in-index";

const ONLY_DIFF: &str = "--cached --staged --merge-base -1 -2 -3 -0 --base --ours --theirs";

const GIT_GREP: &str = "-# -e=text -f=path -i -I -a -n -l -L -c -o -w -v -E -F -G -P -h -H -p -W \
    -z -q -m=number -A=number -B=number -C=number -r --cached --untracked --exclude-standard \
    --no-exclude-standard --text --ignore-case --word-regexp --invert-match --full-name \
    --extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number --column \
    --files-with-matches --name-only --files-without-match --null --only-matching --count \
    --color?=always|never|auto --no-color --break --heading --show-function --function-context \
    --max-depth=number --max-count=number --context=number --after-context=number \
    --before-context=number --and --or --not --all-match --quiet --recursive --no-recursive \
    --no-textconv --threads=number";

const BRANCH: &str = "-a -r -v -l -i --all --remotes --verbose --list --show-current \
    --contains~=text --no-contains~=text --merged~=text --no-merged~=text --sort=fields \
    --points-at=text --format=fields --color?=always|never|auto --no-color --abbrev=number \
    --no-abbrev --ignore-case --omit-empty --no-column";

const TAG: &str = "-l -i -n?=number --list --contains~=text --no-contains~=text --merged~=text \
    --no-merged~=text --sort=fields --points-at~=text --format=fields --color?=always|never|auto \
    --ignore-case --omit-empty --no-column";

/// Git's own formats. Any other name could be one defined in the repository's configuration.
pub(super) const FORMATS: [&str; 9] =
    ["oneline", "short", "medium", "full", "fuller", "reference", "email", "raw", "mboxrd"];

/// Returns whether a commit format starts no program: `%G?` and similar start gpg.
pub(super) fn is_format(value: &str) -> bool {
    let own = value.is_empty()
        || value.starts_with("format:")
        || value.starts_with("tformat:")
        || value.contains('%');
    (own || FORMATS.contains(&value)) && !checks(value)
}

/// Returns whether fields of references start no program. `contents:signature` is the text of a
/// signature, which is not verified.
pub(super) fn are_fields(value: &str) -> bool {
    !checks(value) && !value.replace("contents:signature", "").contains("signature")
}

/// Returns whether a format contains `%G`, with or without a modifier in between.
fn checks(value: &str) -> bool {
    let mut fields = value.split('%').skip(1);
    fields.any(|field| field.strip_prefix(['+', '-', ' ']).unwrap_or(field).starts_with('G'))
}
