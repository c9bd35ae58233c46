//! Tests of `form`.

use super::*;

fn is_own(given: &[(&'static str, &'static str)]) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert("host", "gate.example".parse().unwrap());
    for (name, value) in given {
        headers.insert(*name, value.parse().unwrap());
    }
    is_of_own_page(&Uri::from_static("/servers/a/reconnect"), &headers)
}

#[test]
fn a_form_has_to_say_that_a_page_of_the_console_has_sent_it() {
    assert!(is_own(&[("origin", "https://gate.example")]));
    assert!(is_own(&[("sec-fetch-site", "same-origin")]));
    assert!(is_own(&[("sec-fetch-site", "same-origin"), ("origin", "https://gate.example")]));
    for other in [
        &[][..],
        &[("origin", "null")],
        &[("origin", "https://evil.example")],
        &[("origin", "https://sub.gate.example")],
        &[("sec-fetch-site", "none")],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "cross-site"), ("origin", "https://gate.example")],
        &[("sec-fetch-site", "same-origin"), ("origin", "https://evil.example")],
    ] {
        assert!(!is_own(other), "{other:?}");
    }
}

#[test]
fn another_site_may_link_here_and_not_ask_in_the_background() {
    for (site, mode, expected) in [
        (None, None, false),
        (Some("none"), Some("navigate"), false),
        (Some("same-origin"), Some("cors"), false),
        (Some("cross-site"), Some("navigate"), false),
        (Some("cross-site"), None, false),
        (Some("cross-site"), Some("no-cors"), true),
        (Some("same-site"), Some("cors"), true),
        (Some("cross-site"), Some("websocket"), true),
    ] {
        let mut headers = HeaderMap::new();
        for (name, value) in [(SEC_FETCH_SITE, site), (SEC_FETCH_MODE, mode)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        assert_eq!(is_hidden_use(&headers), expected, "{site:?} {mode:?}");
    }
}

#[test]
fn only_the_form_of_a_key_mentions_its_secret() {
    assert!(refuse_again("/keys/new").detail.contains("shown only once"));
    assert!(!refuse_again("/agents").detail.contains("key"));
}

#[test]
fn a_form_of_many_small_fields_is_too_large() {
    let most = "a&".repeat(MAX_FIELDS - 1);
    assert!(!has_too_many_fields(most.as_bytes()));
    assert!(has_too_many_fields(format!("{most}a&").as_bytes()));
}

fn key(number: usize) -> FormKey {
    SentForms::key_of("/console/keys/new", number.to_string().as_bytes())
}

#[test]
fn a_form_counts_once_until_it_is_forgotten() {
    let forms = SentForms::default();
    let remember = |number| forms.remember(key(number), "acme");
    assert!(remember(1) && !remember(1) && remember(2));
    forms.forget(&key(1));
    assert!(remember(1));
    assert_ne!(SentForms::key_of("/a", b"bc"), SentForms::key_of("/ab", b"c"));
}

#[test]
fn a_form_whose_client_left_can_be_sent_again_but_not_by_a_second_click() {
    let sessions = Arc::new(Sessions::new().unwrap());
    let state = Arc::new(FormState { sent_forms: SentForms::default(), sessions });
    let forms = &state.sent_forms;
    assert!(forms.remember(key(1), "acme"));
    drop(PendingForm::new(Arc::clone(&state), key(1)));
    assert!(!forms.remember(key(1), "acme"), "a second click");
    let earlier = Instant::now().checked_sub(SECOND_CLICK);
    forms.0.lock()[0].left = earlier;
    assert!(forms.remember(key(1), "acme"), "a later try");
    PendingForm::new(Arc::clone(&state), key(1)).note_effect();
    assert_eq!(forms.0.lock()[0].left, None, "it has an answer");
    assert!(!forms.remember(key(1), "acme"));
}

#[test]
fn the_oldest_makes_room() {
    let forms = SentForms::default();
    for number in 0..=MAX_FORMS {
        assert!(forms.remember(key(number), "acme"));
    }
    assert!(!forms.remember(key(1), "acme"));
    assert!(forms.remember(key(0), "acme"));
}

#[test]
fn a_flood_of_one_organisation_drops_no_form_of_another() {
    let forms = SentForms::default();
    assert!(forms.remember(key(0), "acme"));
    for number in 1..MAX_FORMS + 8 {
        assert!(forms.remember(key(number), "globex"));
    }
    assert!(!forms.remember(key(0), "acme"), "it would be done twice");
}

#[test]
fn a_mistake_is_at_its_field_and_has_the_words_of_the_form() {
    const LABELS: [(&str, &str); 3] =
        [("slug", "Prefix of its tools"), ("credentials", "Key or token"), ("to", "Before")];
    let conflict = |detail: &'static str| Problem::new(StatusCode::CONFLICT, "TAKEN", detail);
    for (problem, field, words) in [
        (
            Problem::in_body("/slug", "`slug` must be short; put secrets into `credentials`"),
            "slug",
            "“Prefix of its tools” must be short; put secrets into “Key or token”.",
        ),
        (
            conflict("the slug `files` is taken; choose another").at("/slug"),
            "slug",
            "The prefix `files` is taken; choose another.",
        ),
        (Problem::in_query("`to`: is not a time"), "to", "“Before”: is not a time."),
        (
            Problem::in_body("/headerName", "`api_key` needs the name of the header"),
            "",
            "“Key in a header” needs the name of the header.",
        ),
        (Problem::in_body("/items/to/3", "has no server"), "to", "Has no server."),
    ] {
        let mistake = FormError::read(problem, &LABELS).unwrap();
        assert_eq!((mistake.field, mistake.words.as_str()), (field, words));
    }
    let missing = Problem::not_found("GONE", "it is gone").at("/slug");
    assert!(FormError::read(missing, &LABELS).is_err());
}

#[test]
fn a_failed_connection_is_at_the_address_or_the_credential() {
    const LABELS: [(&str, &str); 2] = [("serverUrl", "Address"), ("credentials", "Key or token")];
    for (stage, field) in [("dns", "serverUrl"), ("auth", "credentials")] {
        let fault = serde_json::to_value(Fault::new(stage, "search", "", "")).unwrap();
        let problem = Problem::in_body("", "").with("stage", stage.into()).with("fault", fault);
        let mistake = FormError::of(&problem, &LABELS);
        assert!(mistake.at(field).contains("search") && mistake.elsewhere().is_empty());
        assert!(FormError::of(&problem, &[]).elsewhere().is_empty(), "it is above the form");
    }
}
