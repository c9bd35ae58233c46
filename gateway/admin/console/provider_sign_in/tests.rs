//! Tests of `provider_sign_in`.

use axum::http::header::LOCATION;

use super::*;
use crate::console::sign_in::SignInFailure;

fn all_errors() -> Vec<SignInError> {
    use SignInError as E;
    vec![
        E::Unreachable("https://as.test/?secret".into()),
        E::NoKeys,
        E::Busy,
        E::Refused,
        E::Provider("login_required".into()),
        E::Client,
        E::Code,
        E::Malformed,
        E::Issuer,
        E::Token,
        E::Clock,
        E::Audience,
        E::Nonce,
        E::NoSubject,
        E::NoOrganisation("org".into()),
        E::Scopes,
    ]
}

fn explain(why: &str, provider: &str) -> String {
    SignInFailure { why, provider }.to_string()
}

#[test]
fn every_error_has_a_sentence_and_no_address_has_its_words() {
    for error in all_errors() {
        let code = code_of(&error);
        let words = explain(code, "login.test");
        assert!(words.ends_with('.') && !words.starts_with(' '), "{code}: {words}");
        let ProviderStep::Refused(response, record) = refuse(&error, "/console/keys") else {
            panic!("{error}");
        };
        assert_eq!(record, error.to_string());
        let address = response.headers()[LOCATION].to_str().unwrap();
        assert_eq!(address, format!("/console/sign-in?next=%2Fconsole%2Fkeys&why={code}"));
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert_eq!(response.headers()[REFERRER_POLICY], "no-referrer");
    }
    assert!(!explain("begun", "login.test").is_empty());
    for unknown in ["", "x", "<script>alert(1)</script>"] {
        assert_eq!(explain(unknown, "login.test"), "");
    }
}

#[test]
fn nobody_comes_back_to_another_place() {
    for next in ["https://evil.test", "//evil.test", "/console/sign-in/start", "/api/servers"] {
        assert_eq!(sign_in_address("", next), "/console/sign-in?next=%2Fconsole");
        let arrival = Arrival {
            principal: Principal::new(lockgate_authn::Identity::new("https://as.test", "ada")),
            next: next.into(),
            is_secure: true,
            attempt: "lockgate-sign-in-0".into(),
        };
        let response = arrival.begin(&Sessions::new().unwrap(), &HeaderMap::new()).unwrap();
        assert_eq!(response.headers()[LOCATION], "/console");
    }
}

#[test]
fn links_of_other_sites_lead_to_the_form() {
    for (site, expected) in [
        (None, false),
        (Some("same-origin"), false),
        (Some("none"), false),
        (Some("same-site"), true),
        (Some("cross-site"), true),
    ] {
        let mut headers = HeaderMap::new();
        if let Some(site) = site {
            headers.insert("sec-fetch-site", HeaderValue::from_static(site));
        }
        assert_eq!(is_of_other_site(&headers), expected, "{site:?}");
    }
}
