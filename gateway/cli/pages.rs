//! Shell completions and manual pages, generated from the definition of the command line.

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::arguments::Cli;

pub(super) fn write_completions(shell: Shell) -> String {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lockgate", &mut out);
    String::from_utf8_lossy(&out).trim_end().to_string()
}

/// Writes the manual page of a command such as `keys create`, or of the program if `words` is
/// empty. Returns `None` for an unknown command.
pub(super) fn write_manual(words: &[String]) -> Option<String> {
    let mut command = find(&whole(), words)?;
    let mut title = vec!["lockgate"];
    title.extend(words.iter().map(String::as_str));
    command = command.display_name(title.join("-")).bin_name(title.join(" "));
    let mut out = Vec::new();
    clap_mangen::Man::new(command).title(title.join("-")).render(&mut out).ok()?;
    Some(String::from_utf8_lossy(&out).trim_end().to_string())
}

/// Lists the commands that have a page, such as `keys create`. The program's line is empty.
pub(super) fn list_commands() -> String {
    let mut lines = Vec::new();
    list(&whole(), &mut Vec::new(), &mut lines);
    lines.join("\n")
}

/// Returns the command line with its global flags in every command.
fn whole() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn find(command: &Command, words: &[String]) -> Option<Command> {
    match words.split_first() {
        None => Some(command.clone()),
        Some((first, rest)) => find(command.find_subcommand(first)?, rest),
    }
}

fn list<'a>(command: &'a Command, words: &mut Vec<&'a str>, lines: &mut Vec<String>) {
    lines.push(words.join(" "));
    for below in command.get_subcommands() {
        if below.get_name() == "help" || below.is_hide_set() {
            continue;
        }
        words.push(below.get_name());
        list(below, words, lines);
        words.pop();
    }
}
