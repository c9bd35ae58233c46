//! Checks of source files: their module docs, their length, and the length of their functions.

use crate::tree::{File, hold};

const HEAD: std::ops::RangeInclusive<usize> = 1..=6;
const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 60;

/// Checks that a file starts with a short module doc.
fn head(text: &str) -> Vec<String> {
    let lines = text.lines().take_while(|line| line.starts_with("//!")).count();
    if HEAD.contains(&lines) {
        vec![]
    } else {
        vec![format!("begins with {lines} lines of `//!`, not 1 to 6")]
    }
}

fn length(text: &str) -> Vec<String> {
    let lines = text.lines().count();
    if lines < FILE_LINES {
        vec![]
    } else {
        vec![format!("has {lines} lines, {FILE_LINES} or more")]
    }
}

/// Returns the functions that are too long. A function ends at a closing brace with the indentation
/// of its first line, as rustfmt formats it.
fn functions(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begins =
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, line, function(line)?)));
    begins
        .filter_map(|(at, line, name)| {
            let margin = &line[..line.len() - line.trim_start().len()];
            let end = lines[at..]
                .iter()
                .position(|line| line.strip_prefix(margin).is_some_and(closes))?;
            let long = end + 1;
            (long >= FUNCTION_LINES)
                .then(|| format!("fn {name} at line {} has {long} lines", at + 1))
        })
        .collect()
}

/// Returns whether a line at a function's indentation ends it: its brace, or the end of a
/// declaration or of a one-line function.
fn closes(line: &str) -> bool {
    let ends = line.ends_with(';') || line.ends_with('}');
    line == "}"
        || (ends
            && !line.starts_with([' ', '\t'])
            && (function(line).is_some() || line.starts_with(')')))
}

/// Returns the name of the function that starts on this line.
fn function(line: &str) -> Option<&str> {
    const BEFORE: [&str; 5] = ["pub", "async", "const", "unsafe", "extern"];
    let mut words = line.split_whitespace();
    let before = |word: &str| {
        BEFORE.contains(&word) || word.starts_with("pub(") || word.ends_with(')') || word == "\"C\""
    };
    let first = words.find(|word| !before(word))?;
    (first == "fn").then(|| words.next())?.and_then(|rest| rest.split(['(', '<']).next())
}

fn in_gateway(file: &File) -> bool {
    file.is_rust() && file.path.starts_with("gateway/")
}

/// Returns whether the file is a source of the gateway or of a test program, rather than a test.
fn sources(file: &File) -> bool {
    file.is_rust() && !file.is_test()
}

#[test]
fn every_file_says_what_it_is() {
    hold(in_gateway, 150, |file| head(&file.text));
}

#[test]
fn files_are_short() {
    hold(sources, 150, |file| length(&file.text));
}

#[test]
fn functions_are_short() {
    hold(sources, 150, |file| functions(&file.text));
}

#[test]
fn planted_files_are_found() {
    assert!(head("//! A word.\nuse std::fmt;").is_empty());
    assert_eq!(head("use std::fmt;\n//! Too late.").len(), 1);
    assert_eq!(head(&"//! Too much.\n".repeat(7)).len(), 1);
    assert!(length(&"\n".repeat(399)).is_empty());
    assert_eq!(length(&"\n".repeat(500)).len(), 1);
}

#[test]
fn planted_functions_are_found() {
    let body = |head: &str, lines: usize| {
        format!("    {head}\n{}    }}\n", "        step();\n".repeat(lines))
    };
    for head in [
        "fn long() {",
        "pub(crate) async fn long<T>(",
        "pub const fn long(&self) -> u8 {",
        "pub(in crate::a) fn long() {",
    ] {
        assert!(functions(&body(head, 57)).is_empty(), "{head}");
        assert_eq!(functions(&body(head, 58)), ["fn long at line 1 has 60 lines"], "{head}");
    }
    let trait_of = format!(
        "fn a();\n    fn one() -> u8 {{ 1 }}\n    fn two(\n        a: u8,\n    ) -> u8;\n{}",
        body("fn long() {", 70)
    );
    assert_eq!(functions(&trait_of), ["fn long at line 6 has 72 lines"]);
    assert!(functions("// a fn in words\nlet f = 1;\n").is_empty());
}
