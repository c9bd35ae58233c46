//! Tests of `keys`.
#![allow(clippy::disallowed_methods, reason = "looks at what was written")]

use super::*;

fn create(name: &str, scopes: &[&str], expires: Option<&str>) -> Command {
    let scopes = scopes.iter().map(ToString::to_string).collect();
    let grants = Grants {
        organisation: Some("acme: '#1'".into()),
        roles: vec!["dev".into()],
        scopes,
        agent: None,
    };
    let expires = expires.map(Into::into);
    Command::Create { name: name.into(), grants, expires, file: Named { file: None } }
}

fn ask(command: &Command, file: &Path) -> Value {
    serde_json::from_str(&run(command, file, true).unwrap()).unwrap()
}

const LIST: Command = Command::List { file: Named { file: None } };

fn revoke(key: &str) -> Command {
    Command::Revoke { key: key.into(), file: Named { file: None } }
}

#[test]
fn a_key_is_revoked_by_its_name_if_no_other_valid_key_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    let fail = |key: &str| run(&revoke(key), &file, false).unwrap_err().to_string();
    let mut made = ["ci", "ci", "lg_a"].map(|name| ask(&create(name, &[], None), &file));
    let ids = made.each_mut().map(|key| key["id"].as_str().unwrap().to_owned());
    let several = fail("ci");
    assert!(several.contains(&ids[0]) && several.contains(&ids[1]), "{several}");
    assert_eq!(ask(&revoke("lg_a"), &file)["id"], ids[2].as_str());
    assert_eq!(ask(&revoke(&ids[0]), &file)["id"], ids[0].as_str());
    assert_eq!(ask(&revoke("ci"), &file)["id"], ids[1].as_str(), "the other one is revoked");
    let none = fail("c_i");
    assert!(none.contains("no key c_i in") && none.contains("`lockgate keys list`"), "{none}");
    for secret in ["lg_0000000000000000_secret", "0000000000000000_secret"] {
        let none = fail(secret);
        assert!(none.contains("no key 0000000000000000 in"), "{none}");
    }
}

#[test]
fn a_missing_file_or_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.yaml");
    let list = Command::List { file: Named { file: Some(file.clone()) } };
    let error = run(&list, &file, true).unwrap_err().to_string();
    assert!(error.contains("none.yaml does not exist"), "{error}");
    assert_eq!(ask(&LIST, &file)["keys"], json!([]), "the configured file may not exist yet");
    let error = run(&create("a", &[], None), &folder.path().join("none/keys.yaml"), false);
    let error = error.unwrap_err().to_string();
    let missing = folder.path().join("none").display().to_string();
    assert!(error.ends_with(&format!("there is no folder {missing}")), "{error}");
}

#[test]
fn a_key_is_shown_once_and_can_be_revoked() {
    use std::os::unix::fs::PermissionsExt;
    for name in ["keys.yaml", "keys.json"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        let made = ask(&create("ci: \"main\" #1\\", &["mcp:call", "a'b"], Some("90d")), &file);
        let (id, secret) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
        assert!(secret.starts_with(&format!("lg_{id}_")));
        let stored = std::fs::read_to_string(&file).unwrap();
        assert!(!stored.contains(&secret[20..]), "{stored}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

        let second = run(&create("other", &[], None), &file, false).unwrap();
        assert!(second.starts_with("lg_") && second.contains("will not be shown again"));
        let listed = ask(&LIST, &file);
        assert_eq!(listed["keys"].as_array().unwrap().len(), 2);
        assert_eq!(listed["keys"][0]["name"], "ci: \"main\" #1\\");
        assert_eq!(listed["keys"][0]["organisation"], "acme: '#1'");
        assert_eq!(listed["keys"][0]["scopes"], json!(["mcp:call", "a'b"]));
        assert_eq!(listed["keys"][0]["state"], "active");
        let table = run(&LIST, &file, false).unwrap();
        for shown in [listed.to_string(), table] {
            assert!(!shown.contains("blake3") && !shown.contains(&secret[20..]), "{shown}");
        }
        assert_eq!(ask(&revoke(secret), &file)["id"], id);
        let again = ask(&revoke(id), &file)["revoked"].clone();
        let listed = ask(&LIST, &file);
        assert_eq!(
            (&listed["keys"][0]["state"], &listed["keys"][0]["revoked"]),
            (&json!("revoked"), &again)
        );
        assert_eq!(listed["keys"][1]["state"], "active");
        assert!(run(&revoke("0000000000000000"), &file, false).is_err());
    }
}

#[test]
fn notes_in_the_file_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    let ids = ["a", "# b"]
        .map(|name| ask(&create(name, &["x"], None), &file)["id"].as_str().unwrap().to_owned());
    let written = std::fs::read_to_string(&file).unwrap();
    let noted = written
        .replace(
            &format!("  - id: {:?}\n", ids[1]),
            &format!("\n  # Ask Bob first.\n  - id: {:?} # laptop\n", ids[1]),
        )
        .replace("keys:\n", "# Keys of acme.\nkeys:\n  # the first\n")
        + "# the end";
    std::fs::write(&file, &noted).unwrap();
    ask(&revoke(&ids[0]), &file);
    let third = ask(&create("c", &[], None), &file)["id"].as_str().unwrap().to_owned();
    let now = std::fs::read_to_string(&file).unwrap();
    let added: Vec<&str> =
        now.lines().filter(|line| !noted.lines().any(|old| old == *line)).collect();
    assert!(
        added[0].starts_with("    revoked: ") && added[1] == format!("  - id: {third:?}"),
        "{now}"
    );
    let kept: Vec<&str> =
        now.lines().filter(|line| noted.lines().any(|old| old == *line)).collect();
    // Lines that a new entry shares with older entries count as kept.
    assert_eq!(&kept[..noted.lines().count()], noted.lines().collect::<Vec<_>>(), "{now}");
    assert!(now.find("revoked:") < now.find("# Ask Bob first.\n  - id:"), "{now}");
    let states = ["revoked", "active", "active"].map(Value::from);
    let listed = ask(&LIST, &file);
    assert_eq!([0, 1, 2].map(|at| listed["keys"][at]["state"].clone()), states, "{now}");
    // A file with another layout is rewritten.
    std::fs::write(&file, now.replace("  - id", "  -  id").replace("    ", "     ")).unwrap();
    ask(&create("d", &[], None), &file);
    let (now, listed) = (std::fs::read_to_string(&file).unwrap(), ask(&LIST, &file));
    assert!(
        !now.contains("Bob") && listed["keys"].as_array().is_some_and(|keys| keys.len() == 4),
        "{now}"
    );
}

#[test]
fn commands_at_the_same_time_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let file = &file;
            scope.spawn(move || {
                for n in 0..5 {
                    run(&create(&format!("{worker}-{n}"), &[], None), file, false).unwrap();
                }
            });
        }
    });
    assert_eq!(ask(&LIST, &file)["keys"].as_array().unwrap().len(), 40);
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .filter_map(Result::ok)
        .map(|e| e.file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_link_stays_one_and_leads_to_the_same_keys() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("shared")).unwrap();
    std::os::unix::fs::symlink("shared/second.yaml", at("keys.yaml")).unwrap();
    std::os::unix::fs::symlink("real.yaml", at("shared/second.yaml")).unwrap();
    let made = ask(&create("first", &[], None), &at("keys.yaml"));
    ask(&create("second", &[], None), &at("shared/real.yaml"));
    ask(&revoke(made["id"].as_str().unwrap()), &at("keys.yaml"));
    for name in ["keys.yaml", "shared/second.yaml"] {
        assert!(at(name).is_symlink(), "{name}");
    }
    for name in ["keys.yaml", "shared/real.yaml"] {
        let keys = ask(&LIST, &at(name))["keys"].clone();
        assert_eq!(
            (&keys[0]["state"], &keys[1]["state"]),
            (&json!("revoked"), &json!("active")),
            "{name}"
        );
    }
    std::os::unix::fs::symlink("round.yaml", at("round.yaml")).unwrap();
    assert!(run(&create("a", &[], None), &at("round.yaml"), false).is_err());
}

/// Checks that owner and permissions stay, because the gateway may run as another user.
#[test]
fn the_file_stays_as_readable_as_it_was() {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    let id = ask(&create("first", &[], None), &file)["id"].as_str().unwrap().to_owned();
    std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    // Only root may change a file's owner.
    let other = if chown(&file, Some(65_534), Some(65_534)).is_ok() {
        65_534
    } else {
        file.metadata().unwrap().uid()
    };
    ask(&revoke(&id), &file);
    for name in ["keys.yaml", ".keys.yaml.lock"] {
        assert_eq!(folder.path().join(name).metadata().unwrap().uid(), other, "{name}");
    }
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
}

#[test]
fn mistakes_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    for (name, scopes, expires) in [
        ("", &[][..], None),
        ("a\nb", &[], None),
        ("a", &["b c"], None),
        ("a", &[], Some("1999-01-01")),
        ("a", &[], Some("soon")),
    ] {
        assert!(
            run(&create(name, scopes, expires), &file, false).is_err(),
            "{name:?} {scopes:?} {expires:?}"
        );
    }
    assert!(!file.exists());
    std::fs::write(&file, "keys: [{ id: nonsense }]").unwrap();
    let error = run(&create("a", &[], None), &file, false).unwrap_err().to_string();
    assert!(error.contains("keys.yaml:1:") && error.contains("hexadecimal"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "keys: [{ id: nonsense }]");
    for name in ["keys.toml", "keys"] {
        let error =
            run(&create("a", &[], None), &folder.path().join(name), false).unwrap_err().to_string();
        assert!(
            error.contains(".yaml, .yml or .json") && !folder.path().join(name).exists(),
            "{error}"
        );
    }
    let missing = folder.path().join("none").join("keys.yaml");
    assert!(
        run(&create("a", &[], None), &missing, false)
            .unwrap_err()
            .to_string()
            .contains("cannot be written")
    );
}
