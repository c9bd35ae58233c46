//! Checks of the path rule: an allowed path is plain, absolute and inside the reported root, and
//! its normalised form is allowed again.

use std::path::{Component, Path as Native};

use lockgate_policy::path::{Path, Spec};

thread_local! {
    static RULES: Vec<(Spec, Path)> = rules();
}

fn rules() -> Vec<(Spec, Path)> {
    let owned = crate::owned;
    let data =
        || Spec { roots: owned(&["/srv/data"]), base: Some("/srv/data".into()), ..Spec::default() };
    let all = [
        data(),
        Spec { roots: owned(&["/srv/data", "/home/ada/projects/"]), ..Spec::default() },
        Spec { roots: owned(&["/"]), ..Spec::default() },
        Spec { deny: owned(&[".git", ".env*", "*.pem", "/srv/data/private"]), ..data() },
        Spec { uris: true, ..data() },
    ];
    all.into_iter().map(|spec| (spec.clone(), Path::compile(&spec).unwrap())).collect()
}

/// Checks the rule on an input. Panics when a property does not hold.
pub fn check(data: &[u8]) {
    let Some((which, text)) = crate::split(data) else { return };
    RULES.with(|rules| {
        let (spec, rule) = &rules[which % rules.len()];
        let Some(checked) = crate::timed(|| rule.check(text)) else { return };
        let (path, root) = (Native::new(&checked.path), Native::new(&checked.root));
        assert!(spec.roots.iter().any(|known| Native::new(known) == root), "{text:?}: {checked:?}");
        assert!(path.starts_with(root), "{text:?}: {checked:?}");
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        assert!(path.components().all(plain), "{text:?}: {checked:?}");
        assert!(
            !checked.path.contains('\0') && !checked.path.contains("//"),
            "{text:?}: {checked:?}"
        );
        // A server that treats a backslash as a slash, or drops it, must also stay inside the root
        // and off denied names.
        for other in ["/", ""].map(|other| checked.path.replace('\\', other)) {
            assert!(
                Native::new(&other).starts_with(root) && !other.contains("/../"),
                "{text:?}: {checked:?}"
            );
            assert!(
                !spec.deny.contains(&".git".into()) || !other.contains("/.git/"),
                "{text:?}: {checked:?}"
            );
        }
        // A server that joins the relative path to the root must get the same path.
        let rest = path.strip_prefix(root).unwrap();
        assert_eq!(root.join(rest), path, "{text:?}: {checked:?}");
        if !spec.deny.is_empty() {
            let denied =
                |name: &str| name == ".git" || name.starts_with(".env") || name.ends_with(".pem");
            let mut names = path.components().filter_map(|part| part.as_os_str().to_str());
            assert!(!names.any(denied), "{text:?}: {checked:?}");
            assert!(!path.starts_with("/srv/data/private"), "{text:?}: {checked:?}");
        }
        // With `uris`, the decoded path may differ from the same text parsed as a path.
        if !spec.uris {
            let again =
                rule.check(&checked.path).map(|again| (again.path, again.root, again.went_up));
            assert_eq!(again, Ok((checked.path, checked.root, false)), "{text:?}");
        }
    });
}
