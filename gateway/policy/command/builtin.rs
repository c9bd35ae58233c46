//! The built-in models of programs. Anything not listed is not allowed. In particular, nothing is
//! listed that starts another program, writes a file, follows links out of a folder, or reads file
//! names from a file.

use super::git;
use super::spec::{ModelSpec, Style, gnu, words};

pub(super) fn model(program: &str) -> Option<ModelSpec> {
    let spec = match program {
        "cat" => gnu(CAT, &["path..."]),
        "echo" => {
            ModelSpec { style: Style::Plain, operands: words(&["text..."]), ..ModelSpec::default() }
        }
        "find" => ModelSpec { style: Style::Words, ..gnu(FIND, &["path..."]) },
        "git" => git::model(),
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
