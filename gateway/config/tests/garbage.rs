//! Any bytes in a file yield a configuration or a report.

use proptest::prelude::*;

use super::TestConfig;

const NAMES: [&str; 3] = ["lockgate.yaml", "lockgate.json", "lockgate.toml"];
const WHOLE: &str = r#"{ // c
  "name": "a", "servers": { "a": { "url": "https://a.example/mcp", "headers": { "x": "${A:-b}" } },
  "b": { "command": "sh", "args": ["\u00e9", "\"", ], "timeout": "2m", }, }, /* d */ "limits": { "depth": 64 } }"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}|[\\[\\]{}:,#&*!|>'\"%@`/=\\-\\n \\\\a0]{0,60}") {
        for name in NAMES {
            let _ = TestConfig::files(&[(name, &text)]).load();
        }
    }

    #[test]
    fn any_change_to_a_good_file_is_read_or_refused(at in 0..WHOLE.len(), change in "[\\[\\]{}:,\"/*\\\\$\\né]{0,3}", cut in 0..4_usize) {
        let end = (at + cut).min(WHOLE.len());
        let text = format!("{}{change}{}", &WHOLE[..at], &WHOLE[end..]);
        for name in NAMES {
            let _ = TestConfig::files(&[(name, &text)]).load();
        }
    }
}

#[test]
fn the_good_file_is_good() {
    assert_eq!(TestConfig::files(&[("lockgate.json", WHOLE)]).loaded().config.servers.len(), 2);
}
