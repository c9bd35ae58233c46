//! Checks of the command rule: an allowed command runs a listed program with words that a shell
//! would not expand. The same command, quoted or as an argument vector, is allowed again.

use lockgate_policy::command::{Command, Spec};

thread_local! {
    static RULE: Command = Command::compile(&Spec::default()).unwrap();
}

/// Checks the rule on an input. Panics when a property does not hold.
pub fn check(data: &[u8]) {
    let Some((which, text)) = crate::split(data) else { return };
    RULE.with(|rule| {
        if which % 2 == 1 {
            let argv: Vec<String> = text.split('\n').map(str::to_owned).collect();
            let Some(one) = crate::timed(|| rule.check_argv(&argv, None)) else { return };
            assert!(rule.programs().any(|program| program == one.program), "{argv:?}");
            assert_eq!(argv.first().map(String::as_str), Some(&*one.program), "{argv:?}");
            return;
        }
        let Some(one) = crate::timed(|| rule.check(text)) else { return };
        assert!(rule.programs().any(|program| program == one.program), "{text:?}");
        let words = rule.words(text).unwrap();
        assert_eq!(words.first(), Some(&one.program), "{text:?}");
        assert!(words.iter().all(|word| !word.contains(['\0', '\n', '\r'])), "{text:?}: {words:?}");
        assert_eq!(rule.check_argv(&words, None).as_ref(), Ok(&one), "{text:?}: {words:?}");
        // The program's name must appear unquoted.
        let quote = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
        let quoted: Vec<String> = words.iter().skip(1).map(quote).collect();
        let line = format!("{} {}", words[0], quoted.join(" "));
        if let Ok(again) = rule.words(&line) {
            assert_eq!(again, words, "{text:?}: {line:?}");
        }
        shell_agrees(text, &words);
    });
}

/// Checks that a shell would expand or execute no character outside the quotes.
fn shell_agrees(text: &str, words: &[String]) {
    let (mut quote, mut escaped) = (None, false);
    for c in text.chars() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('"') | None, '\\') => escaped = true,
            (Some('"'), '$' | '`') => panic!("{text:?} would be expanded: {words:?}"),
            (None, '\'' | '"') => quote = Some(c),
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '\n') => {
                panic!("{text:?} would do more in a shell: {words:?}")
            }
            _ => {}
        }
    }
    assert!(quote.is_none() && !escaped, "{text:?} is not closed: {words:?}");
}
