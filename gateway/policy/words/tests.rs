//! Tests of `words`: how names are split, the syntax of items, and the names that match.

use super::*;

/// Returns the words of a name, separated by blanks.
fn split(name: &str) -> String {
    let name = Name::split(name);
    let mut text = String::new();
    for (at, c) in name.letters.char_indices() {
        if at > 0 && name.is_edge(at) {
            text.push(' ');
        }
        text.push(c);
    }
    text
}

fn has(name: &str, item: &str) -> bool {
    let words = parse(item).unwrap_or_else(|words| panic!("{item}: {words}"));
    let alone = find(&words, name).is_some();
    let index = WordIndex::new(&[()], |_| Some(words.as_slice())).unwrap();
    assert_eq!(index.fits(name).contains(0), alone, "{name} {item}");
    alone
}

#[test]
fn names_are_split_at_separators_case_and_digits() {
    for (name, words) in [
        ("delete_file", "delete file"),
        ("delete-file.now/and:here", "delete file now and here"),
        ("deleteFile", "delete file"),
        ("DeleteFile", "delete file"),
        ("DELETE_FILE", "delete file"),
        ("getHTTPStatus", "get http status"),
        ("HTTPGet", "http get"),
        ("listPRs", "list p rs"),
        ("dropTable2", "drop table 2"),
        ("drop2tables", "drop 2 tables"),
        ("s3Delete", "s 3 delete"),
        ("__x__", "x"),
        ("löscheDatei", "lösche datei"),
        ("LÖSCHEDatei", "lösche datei"),
        ("удалитьФайл", "удалить файл"),
        ("删除_文件", "删除 文件"),
        ("ｄｅｌｅｔｅＡｌｌ", "delete all"),
        ("e\u{301}te\u{301}", "été"),
        ("de\u{200b}lete", "de lete"),
        ("", ""),
        ("_-.", ""),
    ] {
        assert_eq!(split(name), words, "{name}");
    }
}

#[test]
fn a_word_fits_every_spelling_and_no_part_of_another() {
    for name in [
        "delete",
        "delete_file",
        "file-delete",
        "files.delete",
        "deleteFile",
        "fileDelete",
        "DELETE_ALL",
        "ALL_DELETE",
        "fileDELETE",
        "delete2",
        "x2delete",
        "getAndDelete",
        "DBDelete",
        "deleteAFile",
        "de_lete",
        "deLete",
        "de\u{200b}lete",
        "ｄｅｌｅｔｅ",
    ] {
        assert!(has(name, "delete") && has(name, "Delete") && has(name, "DELETE"), "{name}");
    }
    for name in [
        "undelete",
        "deleted",
        "deletes",
        "undeleteFile",
        "DELETED",
        "bulkdelete",
        "delet_x",
        "dele",
        "",
        "délete",
        "d",
    ] {
        assert!(!has(name, "delete"), "{name}");
    }
    for name in ["listPRs", "list_prs", "PRS", "getPrsOf"] {
        assert!(has(name, "prs") && has(name, "PRs"), "{name}");
    }
    assert!(
        !has("listPRs", "pr")
            && has("listPR", "pr")
            && has("dropTable2", "table")
            && has("k8sGet", "k8s")
    );
    assert!(
        has("GraphQLRun", "graphql")
            && has("executeGraphql", "execute GraphQL")
            && has("macOSInfo", "macos")
    );
    assert!(has("删除", "删除") && !has("删除文件", "删除") && has("删除文件", "删除*"));
}

#[test]
fn words_of_one_item_stand_one_after_another() {
    for name in [
        "force_push",
        "git-force-push",
        "forcePush",
        "ForcePushAll",
        "FORCE_PUSH",
        "forcepush",
        "force.push",
    ] {
        assert!(
            has(name, "force push") && has(name, "force_push") && has(name, "forcePush"),
            "{name}"
        );
    }
    for name in ["push_force", "force_the_push", "enforce_push", "force_pushed", "forces_push"] {
        assert!(!has(name, "force push"), "{name}");
    }
    assert!(has("a_aa_b", "aa b") && has("x_a_a_a", "a a a$") && has("flushAll", "flushall"));
}

#[test]
fn an_item_may_be_held_to_the_beginning_or_the_end_and_have_alternatives() {
    for (item, fits, other) in [
        ("^get", "getFile", "file_get"),
        ("^get", "GET", "gets_x"),
        ("push$", "git_push", "push_image"),
        ("^tag$", "tag", "git_tag"),
        ("workflow*", "run_workflows", "reworkflow"),
        ("^list*", "listings_of", "x_list"),
        ("{create,update} {,a} {ref,git ref}$", "GITHUB_UPDATE_A_REF", "create_ref_x"),
        ("{create,update} {,a} {ref,git ref}$", "createGitRef", "create_the_ref"),
        ("^{,jira,git} {add,set}", "jira_add_comment", "other_add"),
        ("^{,jira,git} {add,set}", "set", "sets"),
        ("{a, b}c", "x_a_c", "ab"),
    ] {
        assert!(has(fits, item) && !has(other, item), "{item} {fits} {other}");
    }
    let words = parse("^{,jira} {add, set} x*").unwrap();
    let shown: Vec<String> = words.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["^add x*", "^jira add x*", "^set x*", "^jira set x*"]);
}

#[test]
fn what_is_no_word_is_a_mistake() {
    for (item, words) in [
        ("", "no letter"),
        ("^", "no letter"),
        ("_-.", "no letter"),
        ("{,jira}", "no letter"),
        ("{a,b", "without a `}`"),
        ("a}", "it has `}`"),
        ("{a,{b}}", "it has `{`"),
        ("a,b", "it has `,`"),
        ("*delete", "it has `*`"),
        ("de*te", "it has `*`"),
        ("a/b", "it has `/`"),
        ("a^", "it has `^`"),
        ("[ab]", "it has `[`"),
        ("a*$", "it has `*`"),
        ("a\u{200b}b", "it has `\\u{200b}`"),
    ] {
        let found = parse(item).unwrap_err();
        assert!(found.contains(words), "{item:?}: {found}");
    }
    assert!(parse(&"a".repeat(MAX_BYTES + 1)).is_err());
    assert!(parse(&"{a,b}".repeat(20)).unwrap_err().contains("more than"));
}

#[test]
fn a_long_name_is_looked_at_in_time() {
    let words = parse("{a,aa,aaa,b}{a,b}{a,b}*").unwrap();
    let index = WordIndex::new(&[()], |_| Some(words.as_slice())).unwrap();
    let began = std::time::Instant::now();
    assert!(index.fits(&"a_".repeat(100_000)).contains(0));
    assert!(began.elapsed().as_secs() < 5);
}
