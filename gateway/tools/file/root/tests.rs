//! Tests of opening paths below a held folder.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use super::*;

#[test]
fn no_step_leads_out_of_the_folder() {
    let top = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(top.path().join("held/inner")).unwrap();
    let held = fs::open(top.path().join("held"), FOLDER, Mode::empty()).unwrap();
    for path in ["..", "inner/..", "../held", "inner/../.."] {
        let opened = reach_step_by_step(&held, &split_names(path));
        assert_eq!(opened.unwrap_err(), Errno::XDEV, "{path}");
    }
    assert!(reach_step_by_step(&held, &split_names("inner")).is_ok());
}
