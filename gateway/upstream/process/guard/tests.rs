//! Tests of `process::guard`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::Plan;

fn plan(arguments: &[&str]) -> Plan {
    Plan {
        command: "node".into(),
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: vec![
            ("EMPTY".into(), "".into()),
            ("PATH".into(), OsString::from_vec(vec![b'/', 0xff])),
        ],
        cwd: None,
    }
}

#[test]
fn a_plan_arrives_as_it_was() {
    for arguments in [&[][..], &[""], &["", "", "a b"], &["-e", "line\nline", ""]] {
        for cwd in [None, Some("/srv/x".into())] {
            let sent = Plan { cwd, ..plan(arguments) };
            assert_eq!(Plan::decode(&sent.encode().unwrap()).unwrap(), sent);
        }
    }
}

#[test]
fn a_plan_that_no_program_can_be_started_with_is_none() {
    assert!(plan(&["a\0b"]).encode().is_none());
    for broken in
        [&b""[..], b"sh", b"sh\0", b"sh\0\0two", b"sh\x00\x002\x00one", b"sh\x00\x000\x00NAME"]
    {
        assert!(Plan::decode(broken).is_none(), "{broken:?}");
    }
}
