//! Tests of `sessions`.

use lockgate_authn::{Identity, KEY};

use super::*;

fn principal(subject: &str) -> Principal {
    Principal::new(Identity::new(KEY, subject))
}

fn begin(sessions: &Sessions, id: &str, subject: &str, now: Instant) -> SessionKey {
    let key = key_of(id);
    sessions.begin_at(key, principal(subject), now);
    key
}

#[test]
fn a_session_ends_when_it_is_idle_or_old_or_told_to() {
    let sessions = Sessions::new().unwrap();
    let start = Instant::now();
    let idle = begin(&sessions, "idle", "ada", start);
    assert!(sessions.find_at(idle, start + MAX_IDLE / 2).is_some());
    assert!(sessions.find_at(idle, start + MAX_IDLE).is_some(), "it was used in between");
    assert!(sessions.find_at(idle, start + MAX_IDLE * 2).is_none());

    let old = begin(&sessions, "old", "ada", start);
    let mut now = start;
    while now + MAX_IDLE / 2 < start + MAX_AGE {
        now += MAX_IDLE / 2;
        assert!(sessions.find_at(old, now).is_some());
    }
    assert!(sessions.find_at(old, start + MAX_AGE).is_none());

    let told = begin(&sessions, "told", "ada", start);
    let visitor = sessions.find_at(told, start).unwrap();
    sessions.end(&visitor);
    assert!(sessions.find_at(told, start).is_none());
}

#[test]
fn a_principal_with_too_many_sessions_loses_its_own_idlest() {
    let sessions = Sessions::new().unwrap();
    let start = Instant::now();
    let other = begin(&sessions, "other", "grace", start);
    let first = begin(&sessions, "0", "ada", start);
    for number in 1..=MAX_OF_PRINCIPAL {
        begin(&sessions, &number.to_string(), "ada", start + Duration::from_secs(1));
    }
    let now = start + Duration::from_secs(2);
    assert!(sessions.find_at(first, now).is_none());
    assert!(sessions.find_at(other, now).is_some());
    assert_eq!(sessions.open.lock().len(), MAX_OF_PRINCIPAL + 1);
}

#[test]
fn all_sessions_together_are_bounded() {
    let sessions = Sessions::new().unwrap();
    let start = Instant::now();
    for number in 0..MAX_SESSIONS + 10 {
        let now = start + Duration::from_millis(number as u64);
        begin(&sessions, &number.to_string(), &format!("subject-{number}"), now);
    }
    assert_eq!(sessions.open.lock().len(), MAX_SESSIONS);
}

#[test]
fn a_token_of_a_form_is_that_of_one_session_of_one_process() {
    let sessions = Sessions::new().unwrap();
    let now = Instant::now();
    let one = sessions.find_at(begin(&sessions, "one", "ada", now), now).unwrap();
    let two = sessions.find_at(begin(&sessions, "two", "ada", now), now).unwrap();
    let local = Visitor::of_connection(principal("ada"));
    let token = sessions.form_token(&one);
    assert!(sessions.is_form_token(&one, &token));
    for stranger in [&two, &local] {
        assert!(!sessions.is_form_token(stranger, &token));
    }
    assert!(!sessions.is_form_token(&one, ""));
    assert!(!Sessions::new().unwrap().is_form_token(&one, &token));
}

#[test]
fn an_organisation_with_many_sessions_ends_none_of_others() {
    let sessions = Sessions::new().unwrap();
    let start = Instant::now();
    let operator = begin(&sessions, "operator", "grace", start);
    for number in 0..MAX_SESSIONS * 2 {
        let subject = format!("of-acme-{}", number / 8);
        let identity = Identity::new(KEY, &subject).in_organisation(Some("acme"));
        let key = key_of(&number.to_string());
        sessions.begin_at(key, Principal::new(identity), start + Duration::from_millis(1));
    }
    assert_eq!(sessions.open.lock().len(), MAX_SESSIONS);
    let now = start + Duration::from_secs(1);
    assert!(sessions.find_at(operator, now).is_some(), "the idlest of all, and of another one");
    let next = begin(&sessions, "next", "linus", now);
    assert!(sessions.find_at(next, now).is_some());
}

#[test]
fn of_organisations_with_equal_shares_the_oldest_session_ends() {
    let sessions = Sessions::new().unwrap();
    let now = Instant::now();
    for number in 0..=MAX_SESSIONS {
        let organisation = format!("of-{number:05}");
        let identity = Identity::new(KEY, "ada").in_organisation(Some(&organisation));
        sessions.begin_at(key_of(&number.to_string()), Principal::new(identity), now);
    }
    assert!(sessions.find_at(key_of(&MAX_SESSIONS.to_string()), now).is_some(), "the newest");
    assert!(sessions.find_at(key_of("0"), now).is_none());
}

#[tokio::test]
async fn a_session_is_ended_by_its_name_and_whoever_waits_for_that_hears_of_it() {
    let sessions = Sessions::new().unwrap();
    let now = Instant::now();
    let one = sessions.find_at(begin(&sessions, "one", "ada", now), now).unwrap();
    let two = sessions.find_at(begin(&sessions, "two", "ada", now), now).unwrap();
    let mut list = sessions.list();
    assert_eq!(list.len(), 2);
    list.retain(|session| session.name == name_of(&one.session.unwrap()));
    let [known] = &list[..] else { panic!("one has this name") };
    assert!(known.name.len() == NAME_DIGITS && known.began <= known.used);
    assert!(!sessions.has_ended(&one));
    let (ended, has_ended) =
        tokio::join!(sessions.wait_for_end(&one), async { sessions.end_named(&known.name) });
    assert_eq!((ended, has_ended), ((), true));
    assert!(sessions.has_ended(&one) && !sessions.has_ended(&two));
    assert!(!sessions.end_named(&known.name), "it has ended already");
    let local = Visitor::of_connection(principal("ada"));
    assert!(!sessions.has_ended(&local), "it never had one");
}

#[test]
fn a_browser_that_signs_in_anew_leaves_no_session_behind() {
    let sessions = Sessions::new().unwrap();
    let now = Instant::now();
    let old = begin(&sessions, "old", "ada", now);
    let other = begin(&sessions, "other", "ada", now);
    let mut headers = HeaderMap::new();
    headers.insert("cookie", "__Host-lockgate=old".parse().unwrap());
    sessions.replace(&headers);
    assert!(sessions.find_at(old, now).is_none());
    assert!(sessions.find_at(other, now).is_some());
}

#[test]
fn a_token_looks_different_on_each_page_and_is_the_same_token() {
    let sessions = Sessions::new().unwrap();
    let visitor = Visitor::of_connection(Principal::new(Identity::new("local", "a")));
    let token = sessions.form_token(&visitor);
    let (one, other) = (mask(&token).unwrap(), mask(&token).unwrap());
    assert!(one != other && !one.contains(&token));
    for good in [&token, &one, &other] {
        assert!(sessions.is_form_token(&visitor, good));
    }
    for bad in ["", &one[1..], &"0".repeat(128)] {
        assert!(!sessions.is_form_token(&visitor, bad), "{bad}");
    }
}

fn headers(host: &'static str, cookies: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, host.parse().unwrap());
    headers.insert(COOKIE, cookies.parse().unwrap());
    headers
}

#[test]
fn a_cookie_without_the_prefix_counts_on_this_machine_alone() {
    for host in ["localhost:3001", "127.0.0.1:3001", "127.8.8.8", "[::1]:3001", "LOCALHOST"] {
        assert_eq!(find_cookie(&headers(host, "a=b; lockgate=x")), Some("x"), "{host}");
    }
    for host in ["gate.example", "localhost.example", "10.0.0.1", "[::2]:3001", "127.0.0.1.nip.io"]
    {
        assert_eq!(find_cookie(&headers(host, "lockgate=x")), None, "{host}");
        assert_eq!(find_cookie(&headers(host, "__Host-lockgate=y; lockgate=x")), Some("y"));
    }
}
