//! Tests of `response`: secrets of every shape are redacted, ordinary text is kept, and invalid
//! rules are refused.

use super::*;

fn secrets() -> Response {
    Response::compile(&Spec { secrets: true, ..Spec::default() }).unwrap()
}

#[test]
fn known_secrets_are_replaced_and_what_is_around_them_stays() {
    let letters = |n: usize| "aB3dE5gH7jK9mN1pQ".chars().cycle().take(n).collect::<String>();
    let cases = [
        ("AKIAIOSFODNN7EXAMPLE".replace('1', "2"), "AWS key"),
        (format!("aws_secret_access_key = \"{}\"", letters(40)), "AWS secret key"),
        (format!("AIza{}", letters(35)), "Google key"),
        (format!("AccountKey={}==", letters(86)), "Azure key"),
        (format!("ghp_{}", letters(36)), "GitHub token"),
        (format!("github_pat_{}", letters(60)), "GitHub token"),
        (format!("glpat-{}", letters(20)), "GitLab token"),
        (format!("xoxb-{}", letters(24)), "Slack token"),
        (format!("sk_live_{}", letters(24)), "Stripe key"),
        (format!("sk-proj-{}", letters(48)), "API key"),
        (format!("npm_{}", letters(36)), "npm token"),
        (format!("hf_{}", letters(34)), "Hugging Face token"),
        (format!("hvs.{}", letters(24)), "Vault token"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----".into(),
            "private key",
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb".into(), "private key"),
        ("-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----".into(), "private key"),
        (format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{}", letters(43)), "JWT"),
        (format!("Authorization: Bearer {}", letters(32)), "bearer token"),
        ("postgresql://app:s3cr3t!pw@db.internal:5432/app".into(), "password"),
        ("mongodb+srv://u:p%40ss@cluster0.example.net/x".into(), "password"),
        ("Server=tcp:x.example,1433;User Id=sa;Password=Sup3r!;Encrypt=true".into(), "password"),
    ];
    let rule = secrets();
    for (secret, name) in cases {
        let text = format!("before {secret} after");
        let out = rule.redact(&text).unwrap_or_else(|| panic!("{name}: {secret} stays"));
        assert!(out.contains(&format!("[redacted: {name}]")), "{name}: {out}");
        assert!(out.starts_with("before "), "{out}");
        for word in ["s3cr3t", "p%40ss", "Sup3r", "MIIE", "b3Blb", &letters(20)] {
            assert!(!out.contains(word), "{name}: {out}");
        }
    }
    let out = rule.redact("postgresql://app:s3cr3t!pw@db.internal:5432/app").unwrap();
    assert_eq!(out, "postgresql://app:[redacted: password]@db.internal:5432/app");
    let two = rule.redact(&format!("ghp_{0} and ghp_{0}", letters(36))).unwrap();
    assert_eq!(two, "[redacted: GitHub token] and [redacted: GitHub token]");
}

#[test]
fn ordinary_text_stays() {
    let rule = secrets();
    for text in [
        "",
        "a risk-adjusted return, sk-learn, task-1 and disk-usage",
        "https://example.com:8080/path?sig=1 and ftp://host/file@2",
        "user@example.com, git@github.com:owner/name.git, ssh://git@host:22/x",
        "the password is what you choose; password = strong",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "commit 0af7651916cd43dd8448eb211c80319c0af76519, sha512-abcdef==",
        "bearer of bad news arrived yesterday",
        "eyJ is how base64 of an object begins",
        "time 12:30:45, ratio 3:4, c:\\users\\x",
        "{\"token\": null, \"key\": \"value\"}",
    ] {
        assert_eq!(rule.redact(text), None, "{text}");
    }
}

#[test]
fn patterns_replace_texts_and_not_names() {
    let redact = |pattern: &str, replace: Option<&str>| Redact {
        pattern: pattern.into(),
        replace: replace.map(Into::into),
    };
    let spec = Spec {
        redact: vec![redact(r"\b\d{3}-\d{2}-\d{4}\b", None), redact("(a)b", Some("$1"))],
        ..Spec::default()
    };
    let rule = Response::compile(&spec).unwrap();
    assert_eq!(rule.redact("ssn 123-45-6789, ab").unwrap(), "ssn [redacted], $1");
    assert_eq!(rule.redact("nothing"), None);
    assert_eq!(rule.redact_key("123-45-6789"), None);
    assert!(rule.redacts() && !rule.judges_links());
}

#[test]
fn sizes_and_links_are_judged() {
    let spec = Spec {
        max_bytes: Some(10),
        link_schemes: Some(vec!["HTTPS".into(), "file".into()]),
        ..Spec::default()
    };
    let rule = Response::compile(&spec).unwrap();
    assert_eq!((rule.too_large(10), rule.too_large(11)), (None, Some(10)));
    assert!(rule.allows_link("https://x/") && rule.allows_link("FILE:///x") && rule.judges_links());
    assert!(
        !rule.allows_link("http://x/")
            && !rule.allows_link("javascript:alert(1)")
            && !rule.allows_link("x")
    );
    let other = Response::compile(&Spec {
        max_bytes: Some(5),
        secrets: true,
        link_schemes: Some(vec!["https".into()]),
        ..Spec::default()
    });
    let all = Response::all([&rule, &other.unwrap()]).unwrap();
    assert_eq!(all.too_large(6), Some(5));
    assert!(all.redacts() && all.allows_link("https://x/") && !all.allows_link("file:///x"));
    assert!(Response::all([]).is_none());
}

#[test]
fn rules_with_mistakes_are_refused() {
    let bad = [
        Spec { max_bytes: Some(0), ..Spec::default() },
        Spec { redact: vec![Redact { pattern: "(".into(), replace: None }], ..Spec::default() },
        Spec { redact: vec![Redact { pattern: "x*".into(), replace: None }], ..Spec::default() },
        Spec { redact: vec![Redact { pattern: String::new(), replace: None }], ..Spec::default() },
        Spec {
            redact: vec![Redact { pattern: "(?:a{1000}){1000}".into(), replace: None }],
            ..Spec::default()
        },
        Spec { link_schemes: Some(vec!["no scheme".into()]), ..Spec::default() },
    ];
    for spec in bad {
        assert!(Response::compile(&spec).is_err(), "{spec:?}");
    }
}
