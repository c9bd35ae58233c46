//! Tests of `answer`.

use super::*;

const ISSUER: &str = "https://as.test";

fn read(query: &str) -> Option<Answer> {
    Answer::read(url::form_urlencoded::parse(query.as_bytes()).into_owned())
}

fn code(query: &str, is_announced: bool) -> Result<String, SignInError> {
    read(query).unwrap().code(ISSUER, is_announced).map(str::to_owned)
}

#[test]
fn an_answer_names_its_issuer_where_that_was_announced() {
    assert_eq!(code("code=c&state=s", false), Ok("c".into()));
    assert_eq!(code("code=c&state=s", true), Err(SignInError::Issuer));
    for is_announced in [true, false] {
        assert_eq!(code("code=c&iss=https://as.test", is_announced), Ok("c".into()));
        for other in ["https://evil.test", "https://as.test/", "", "HTTPS://as.test"] {
            let found = code(&format!("code=c&iss={other}"), is_announced);
            assert_eq!(found, Err(SignInError::Issuer), "{other}");
            // An error from another issuer is not evaluated either.
            let found = code(&format!("error=access_denied&iss={other}"), is_announced);
            assert_eq!(found, Err(SignInError::Issuer), "{other}");
        }
    }
}

#[test]
fn errors_are_words_of_the_specification_or_nothing() {
    for (query, expected) in [
        ("error=access_denied", SignInError::Refused),
        ("error=access_denied&code=c", SignInError::Refused),
        ("error=login_required", SignInError::Provider("login_required".into())),
        ("error=unauthorized_client", SignInError::Client),
        ("error=<script>", SignInError::Malformed),
        ("error=", SignInError::Malformed),
        ("error=Call+0900", SignInError::Malformed),
        ("", SignInError::Malformed),
        ("code=", SignInError::Malformed),
    ] {
        assert_eq!(code(query, false), Err(expected), "{query}");
    }
    assert_eq!(code(&format!("code={}", "c".repeat(4096)), false).map(|c| c.len()), Ok(4096));
    let long = format!("code={}", "c".repeat(4097));
    assert_eq!(code(&long, false), Err(SignInError::Malformed));
}

#[test]
fn an_answer_that_says_a_thing_twice_is_none() {
    for query in ["code=a&code=b", "state=a&state=a", "iss=a&code=c&iss=b", "error=a&error=b"] {
        assert!(read(query).is_none(), "{query}");
    }
    assert!(read("code=c&other=a&other=b&session_state=x").is_some());
}
