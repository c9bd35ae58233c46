//! Tests of `sent_forms`.

use super::*;

fn key(number: usize) -> FormKey {
    SentForms::key_of("/console/keys/new", number.to_string().as_bytes())
}

#[test]
fn a_form_counts_once_until_it_is_forgotten() {
    let forms = SentForms::default();
    assert!(forms.remember(key(1)) && !forms.remember(key(1)) && forms.remember(key(2)));
    forms.forget(&key(1));
    assert!(forms.remember(key(1)));
    assert_ne!(SentForms::key_of("/a", b"bc"), SentForms::key_of("/ab", b"c"));
}

#[test]
fn a_form_whose_client_left_can_be_sent_again_but_not_by_a_second_click() {
    let forms = SentForms::default();
    assert!(forms.remember(key(1)));
    drop(forms.watch(key(1)));
    assert!(!forms.remember(key(1)), "a second click");
    let earlier = Instant::now().checked_sub(SECOND_CLICK);
    forms.0.lock().keys.insert(key(1), earlier);
    assert!(forms.remember(key(1)), "a later try");
    forms.watch(key(1)).disarm();
    assert_eq!(forms.0.lock().keys[&key(1)], None, "it has an answer");
    assert!(!forms.remember(key(1)));
}

#[test]
fn the_oldest_makes_room() {
    let forms = SentForms::default();
    for number in 0..=MAX_FORMS {
        assert!(forms.remember(key(number)));
    }
    assert!(!forms.remember(key(1)));
    assert!(forms.remember(key(0)));
}
