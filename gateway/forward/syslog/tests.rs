//! Messages in the format of RFC 5424 and RFC 6587.

use super::*;

fn messages(facility: Facility, lines: &str) -> String {
    let mut out = Vec::new();
    Sender::named(facility, "gate.example.com\n", 42).write(&mut out, lines.as_bytes());
    String::from_utf8(out).unwrap()
}

fn line(members: &str) -> String {
    format!("{{\"seq\":1,\"time\":\"2026-07-28T12:34:56.123456Z\",{members}}}\n")
}

#[test]
fn a_record_is_one_message_with_its_length_and_its_line() {
    let line = line(r#""kind":"decision","call":1,"decision":"allow","name":"ä""#);
    let head = "<110>1 2026-07-28T12:34:56.123456Z gate.example.com lockgate 42 decision - ";
    let text = line.trim_end();
    let wanted = format!("{} {head}{text}", head.len() + text.len());
    assert_eq!(messages(Facility::Audit, &line), wanted);
    assert_eq!(messages(Facility::Audit, &line.repeat(2)), wanted.repeat(2));
}

#[test]
fn severity_tells_denials_from_the_rest() {
    for (members, severity) in [
        (r#""kind":"decision","decision":"allow""#, 6),
        (r#""kind":"decision","decision":"deny""#, 4),
        (r#""kind":"refusal","reason":"host""#, 4),
        (r#""kind":"gap","lost":3"#, 4),
        (r#""kind":"outcome","outcome":"timeout""#, 6),
        (r#""kind":"anchor""#, 6),
        (r#""kind":"change","action":"create""#, 5),
        (r#""kind":"open","why":"start""#, 5),
    ] {
        for (facility, number) in [
            (Facility::Auth, 4),
            (Facility::Authpriv, 10),
            (Facility::Audit, 13),
            (Facility::Local0, 16),
            (Facility::Local7, 23),
        ] {
            let message = messages(facility, &line(members));
            let wanted = format!("<{}>1 ", number * 8 + severity);
            assert_eq!(message.split_once(' ').unwrap().1[..wanted.len()], wanted, "{members}");
        }
    }
}

#[test]
fn what_is_no_record_still_is_a_whole_message() {
    for line in ["garbage\n", "{\"seq\":1,\"time\":\"a\",\"kind\":\"two\\u0020words\"}\n"] {
        let message = messages(Facility::Audit, line);
        let (length, rest) = message.split_once(' ').unwrap();
        assert_eq!(length.parse::<usize>().unwrap(), rest.len());
        assert!(rest.starts_with("<110>1 - gate.example.com lockgate 42 - - "), "{rest}");
    }
    let long = "h".repeat(300);
    assert_eq!(Sender::named(Facility::Auth, &long, 1).host.len(), MAX_HOST);
    assert_eq!(Sender::named(Facility::Auth, "\n", 1).host, "-");
}
