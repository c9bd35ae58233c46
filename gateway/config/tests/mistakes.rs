//! The exact message for each mistake, with place and key, and all mistakes of a file at once. A
//! file of cases per layer.

mod authn;
mod keys;
mod listener;
mod proxy;
mod source;
mod telemetry;
mod upstream;

use super::TestConfig;

/// File name, text, and all messages.
type Case = (&'static str, &'static str, &'static [&'static str]);

fn hold(cases: &[Case]) {
    let mut wrong = Vec::new();
    for (name, text, expected) in cases {
        let given = TestConfig::files(&[(name, text)]);
        let folder = given.path().display().to_string();
        let messages: Vec<String> =
            given.messages().iter().map(|m| m.replace(&folder, "FOLDER")).collect();
        if messages != *expected {
            wrong.push(format!("{name}: {text:?}\n  {}", messages.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The start of a key encrypted in the legacy format.
const ENCRYPTED: &str = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n\
    -----END EC PRIVATE KEY-----\n";

/// Checks certificates, keys and CA certificates that no listener can start with.
#[test]
fn what_is_no_pem_is_told_with_its_file() {
    let (cert, key) = super::certificate();
    let (_, other) = super::certificate();
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let config = "http: { tls: { cert: c.pem, key: k.pem, client_ca: a.pem } }\negress: { ca_file: e.pem }
audit:
  file: a.jsonl
  syslog: { address: 'tls://logs', client_cert: s.pem, client_key: t.pem }
  webhook: { url: 'https://siem/in', secret: '${W:-whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}', client_cert: w.pem, client_key: x.pem }
";
    for (file, text, words) in [
        ("c.pem", "this is no PEM", "c.pem: it contains no certificate"),
        ("c.pem", garbage, "c.pem and "),
        ("c.pem", "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n", "c.pem: "),
        ("k.pem", "nor is this", "k.pem: it contains no private key, or an encrypted one"),
        ("k.pem", ENCRYPTED, "k.pem: it contains no private key, or an encrypted one"),
        ("k.pem", &other, "do not match"),
        ("a.pem", "nor this", "a.pem contains no client certificate authorities"),
        ("a.pem", garbage, "a.pem contains a certificate that cannot be used as an authority"),
        ("e.pem", "", "egress.ca_file: cannot be used: no certificate in this file"),
        ("e.pem", garbage, "egress.ca_file: cannot be used: "),
        (
            "s.pem",
            "no PEM",
            "audit.syslog.client_cert: cannot use FOLDER/s.pem: it contains no cert",
        ),
        (
            "t.pem",
            "no PEM",
            "audit.syslog.client_key: cannot use FOLDER/t.pem: it contains no private",
        ),
        ("t.pem", &other, "client_cert: FOLDER/s.pem and FOLDER/t.pem do not match"),
        ("w.pem", garbage, "audit.webhook.client_cert: FOLDER/w.pem and FOLDER/x.pem do not"),
        ("x.pem", ENCRYPTED, "audit.webhook.client_key: cannot use FOLDER/x.pem: it contains no"),
    ] {
        let mut files = vec![
            ("lockgate.yaml", config),
            ("c.pem", &cert),
            ("k.pem", &key),
            ("a.pem", &cert),
            ("e.pem", &cert),
            ("s.pem", &cert),
            ("t.pem", &key),
            ("w.pem", &cert),
            ("x.pem", &key),
        ];
        assert_eq!(TestConfig::files(&files).messages(), Vec::<String>::new());
        for known in &mut files {
            if known.0 == file {
                known.1 = text;
            }
        }
        let given = TestConfig::files(&files);
        let folder = given.path().display().to_string();
        let told = given.messages().join("\n").replace(&folder, "FOLDER");
        assert!(told.contains(words), "{file}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}
