//! Tests of `certificate`.

use rcgen::{CertificateParams, CertifiedIssuer, DnType, DnValue, KeyPair, SanType};

use super::*;

fn read(edit: impl FnOnce(&mut CertificateParams)) -> Result<Certificate, ClientCertificateError> {
    read_from(&[(DnType::CommonName, "Test CA".into())], edit)
}

fn read_from(
    name: &[(DnType, DnValue)],
    edit: impl FnOnce(&mut CertificateParams),
) -> Result<Certificate, ClientCertificateError> {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.distinguished_name = rcgen::DistinguishedName::new();
    name.iter()
        .for_each(|(kind, value)| authority.distinguished_name.push(kind.clone(), value.clone()));
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    edit(&mut params);
    let made = params.signed_by(&KeyPair::generate().unwrap(), &authority).unwrap();
    Certificate::read(made.der())
}

#[test]
fn the_most_telling_name_is_the_subject_and_says_its_kind() {
    let spiffe = SanType::URI("spiffe://acme/ci".try_into().unwrap());
    let dns = SanType::DnsName("CI.acme.test".try_into().unwrap());
    let mail = SanType::Rfc822Name("ci@acme.test".try_into().unwrap());
    let cases = [
        (vec![dns.clone(), mail.clone(), spiffe], "uri:spiffe://acme/ci"),
        (vec![mail.clone(), dns], "dns:ci.acme.test"),
        (vec![mail], "email:ci@acme.test"),
        (vec![], "cn:ci"),
    ];
    for (names, subject) in cases {
        let certificate = read(|params| {
            params.subject_alt_names = names;
            params.distinguished_name.push(DnType::CommonName, "ci");
            params.distinguished_name.push(DnType::OrganizationName, "Acme");
        });
        let certificate = certificate.unwrap();
        assert_eq!(&*certificate.identity.subject, subject);
        assert!(
            certificate.identity.issuer.starts_with("certificate:"),
            "{}",
            certificate.identity.issuer
        );
        assert!(certificate.identity.issuer.contains("CN=Test CA"));
        assert_eq!(certificate.identity.named_organisation(), Some("Acme"));
        assert_eq!(certificate.fingerprint.len(), 64);
        assert!(
            certificate.names.iter().any(|name| &**name == subject)
                && certificate.names.contains(&"cn:ci".into())
        );
    }
}

#[test]
fn a_common_name_cannot_pass_for_another_kind() {
    let certificate =
        read(|params| params.distinguished_name.push(DnType::CommonName, "uri:spiffe://acme/ci"));
    assert_eq!(&*certificate.unwrap().identity.subject, "cn:uri:spiffe://acme/ci");
}

#[test]
fn certificates_without_a_usable_name_are_nobody() {
    assert_eq!(read(|_| {}).unwrap_err(), ClientCertificateError::NoName);
    assert_eq!(
        read(|p| p.distinguished_name.push(DnType::CommonName, "a\nb")).unwrap_err(),
        ClientCertificateError::NoName
    );
    let long =
        |bytes: usize| read(|p| p.distinguished_name.push(DnType::CommonName, "a".repeat(bytes)));
    assert!(
        long(MAX_TEXT).is_ok() && long(MAX_TEXT + 1).unwrap_err() == ClientCertificateError::NoName
    );
    for garbage in [&b""[..], b"\x30\x03abc", &[0x30; 100]] {
        assert_eq!(Certificate::read(garbage).unwrap_err(), ClientCertificateError::Unreadable);
    }
}

#[test]
fn an_organisation_that_is_no_name_is_refused() {
    let of = |name: &str| {
        read(|params| {
            params.distinguished_name.push(DnType::CommonName, "ci");
            params.distinguished_name.push(DnType::OrganizationName, name);
        })
    };
    assert!(of("Acme, Inc.").is_ok());
    for name in ["Acme ", "a/b", "a\u{a0}b"] {
        let error = of(name).unwrap_err();
        assert!(matches!(error, ClientCertificateError::Organisation(_)), "{name:?}: {error}");
    }
}

/// Some programs read the first name, others the last.
#[test]
fn of_two_names_of_one_kind_none_counts() {
    let twice = |kind: DnType, number: u64| {
        read(|params| {
            params.subject_alt_names = vec![SanType::DnsName("ci.test".try_into().unwrap())];
            params.distinguished_name.push(kind, "ci");
            params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, number]), "root");
        })
        .unwrap()
    };
    assert_eq!(*twice(DnType::CommonName, 3).names, ["dns:ci.test".into()]);
    assert_eq!(twice(DnType::OrganizationName, 10).identity.named_organisation(), None);
    let apart = twice(DnType::CommonName, 10);
    assert_eq!((apart.names.len(), apart.identity.named_organisation()), (2, Some("root")));
}

/// An intermediate CA chooses its own name, which must not imitate another CA's.
#[test]
fn one_attribute_cannot_spell_out_two() {
    let issuer = |name: &[(DnType, DnValue)]| {
        let read =
            read_from(name, |params| params.distinguished_name.push(DnType::CommonName, "ci"))
                .unwrap();
        read.identity.issuer.strip_prefix("certificate:").unwrap().to_owned()
    };
    let organisation = |text: &str| issuer(&[(DnType::OrganizationName, text.into())]);
    let honest = issuer(&[
        (DnType::OrganizationName, "corp".into()),
        (DnType::CommonName, "Corp CA".into()),
    ]);
    assert_eq!(honest, "O=corp, CN=Corp CA");
    for (text, expected) in [
        ("corp, CN=Corp CA", "O=corp\\, CN=Corp CA"),
        ("corp + CN=Corp CA", "O=corp \\+ CN=Corp CA"),
        ("corp\\", "O=corp\\\\"),
        ("\"a\" <b>;", "O=\\\"a\\\" \\<b\\>\\;"),
        ("#0c0141", "O=\\#0c0141"),
        (" corp ", "O=\\ corp\\ "),
        (" ", "O=\\ "),
        ("a\0b\n", "O=a\\00b\\0a"),
        ("caf\u{e9} a#b =c", "O=caf\u{e9} a#b =c"),
    ] {
        assert_eq!(organisation(text), expected);
    }
    // Values other than text are shown as DER, and types without a name by their identifier.
    assert_eq!(issuer(&[(DnType::CustomDnType(vec![1, 2, 3, 4]), "x".into())]), "1.2.3.4=x");
    let wide = DnValue::BmpString("A, B".try_into().unwrap());
    assert_eq!(issuer(&[(DnType::CommonName, wide)]), "CN=A\\, B");
    let wider = DnValue::UniversalString("A".try_into().unwrap());
    assert_eq!(issuer(&[(DnType::CommonName, wider)]), "CN=#1c0400000041");
}
