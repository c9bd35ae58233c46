//! Tests of `sealed`.

#![allow(clippy::unwrap_used)]
use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

const NOW: u64 = 1_800_000_000;
const LATER: u64 = NOW + 60;
const BIND: &[&[u8]] = &[b"https://issuer|alice", b"/mcp", b"tools/list"];
const ALL: [Purpose; 5] =
    [Purpose::Cursor, Purpose::RequestState, Purpose::Task, Purpose::Session, Purpose::Approval];

fn sealer(byte: u8) -> Sealer {
    Sealer::new(&[byte; 32]).unwrap()
}

fn reason(
    sealer: &Sealer,
    purpose: Purpose,
    bind: &[&[u8]],
    now: u64,
    token: &str,
) -> Option<Reason> {
    sealer.open(purpose, bind, now, token).err().map(UnsealError::reason)
}

#[test]
fn a_token_opens_for_whom_it_was_sealed() {
    for plain in [&b""[..], b"x", b"{\"offset\":20}", &[0xff; 1000]] {
        for purpose in ALL {
            let token = sealer(1).seal(purpose, BIND, LATER, plain).unwrap();
            assert_eq!(sealer(1).open(purpose, BIND, NOW, &token).unwrap(), plain);
        }
    }
}

#[test]
fn tokens_have_the_documented_form_and_never_repeat() {
    let sealer = sealer(1);
    let token = sealer.seal(Purpose::Cursor, BIND, LATER, b"secret words").unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    assert_eq!((parts.len(), parts[0], parts[1]), (3, "lg1", sealer.newest.id.as_str()));
    assert_eq!(URL_SAFE_NO_PAD.decode(parts[2]).unwrap().len(), 12 + 8 + 12 + 16);
    assert!(
        token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)),
        "visible ASCII, fit for a header"
    );
    let many: HashSet<String> = (0..1000)
        .map(|_| sealer.seal(Purpose::Cursor, BIND, LATER, b"secret words").unwrap())
        .collect();
    assert_eq!(many.len(), 1000);
}

#[test]
fn a_token_opens_for_nothing_else() {
    let sealer = sealer(1);
    let token = sealer.seal(Purpose::Cursor, BIND, LATER, b"plain").unwrap();
    for purpose in ALL.into_iter().filter(|p| *p != Purpose::Cursor) {
        assert_eq!(reason(&sealer, purpose, BIND, NOW, &token), Some(Reason::Forged));
    }
    let others: [&[&[u8]]; 8] = [
        &[],
        &[b"https://issuer|bob", b"/mcp", b"tools/list"],
        &[b"https://issuer|alice", b"/mcp", b"prompts/list"],
        &[b"https://issuer|alice", b"/mcp"],
        &[b"https://issuer|alice", b"/mcp", b"tools/list", b""],
        &[b"https://issuer|alice", b"/mcptools/list"],
        &[b"https://issuer|alice", b"/mc", b"ptools/list"],
        &[b"/mcp", b"https://issuer|alice", b"tools/list"],
    ];
    for bind in others {
        assert_eq!(reason(&sealer, Purpose::Cursor, bind, NOW, &token), Some(Reason::Forged));
    }
}

#[test]
fn a_token_expires_at_its_second() {
    let sealer = sealer(1);
    let token = sealer.seal(Purpose::Task, BIND, NOW, b"plain").unwrap();
    let table = [
        (0, None),
        (NOW - 1, None),
        (NOW, Some(Reason::Expired)),
        (u64::MAX, Some(Reason::Expired)),
    ];
    for (now, expected) in table {
        assert_eq!(reason(&sealer, Purpose::Task, BIND, now, &token), expected, "{now}");
    }
}

#[test]
fn every_changed_character_is_refused() {
    let sealer = sealer(1);
    let token = sealer.seal(Purpose::RequestState, BIND, LATER, b"plain").unwrap();
    for at in 0..token.len() {
        for other in ['A', 'b', '0', '-', '_', '.', '=', '+', '/', ' ', 'é', '\0'] {
            let mut changed: Vec<char> = token.chars().collect();
            if changed[at] == other {
                continue;
            }
            changed[at] = other;
            let changed: String = changed.into_iter().collect();
            assert!(sealer.open(Purpose::RequestState, BIND, NOW, &changed).is_err(), "{changed}");
        }
        assert!(sealer.open(Purpose::RequestState, BIND, NOW, &token[..at]).is_err());
        assert!(sealer.open(Purpose::RequestState, BIND, NOW, &token[at + 1..]).is_err());
    }
    for after in ["A", "=", "==", ".", "\n", "AAAA"] {
        assert!(sealer.open(Purpose::RequestState, BIND, NOW, &format!("{token}{after}")).is_err());
    }
}

#[test]
fn texts_that_are_no_tokens_are_refused_by_reason() {
    let sealer = sealer(1);
    let id = &sealer.newest.id;
    let table = [
        (String::new(), Reason::Malformed),
        ("lg1".into(), Reason::Malformed),
        ("lg1.".into(), Reason::Malformed),
        (format!("lg2.{id}.AAAA"), Reason::Malformed),
        (format!("LG1.{id}.AAAA"), Reason::Malformed),
        ("lg1..".into(), Reason::UnknownKey),
        ("lg1.00000000.AAAA".into(), Reason::UnknownKey),
        (format!("lg1.{id}."), Reason::Malformed),
        (format!("lg1.{id}.AAAA"), Reason::Malformed),
        (format!("lg1.{id}.AAAA="), Reason::Malformed),
        (format!("lg1.{id}.{}", "A".repeat(16)), Reason::Forged),
        (format!("lg1.{id}.{}", "A".repeat(100)), Reason::Forged),
        ("x".repeat(MAX_TOKEN), Reason::Malformed),
        ("x".repeat(MAX_TOKEN + 1), Reason::TooLong),
    ];
    for (token, expected) in table {
        assert_eq!(
            reason(&sealer, Purpose::Cursor, BIND, NOW, &token),
            Some(expected),
            "{token:.40}"
        );
    }
}

#[test]
fn what_can_be_sealed_can_be_opened_up_to_the_limit() {
    let sealer = sealer(1);
    let longest = (MAX_TOKEN - 13) * 3 / 4 - 12 - 8 - 16;
    let token = sealer.seal(Purpose::Cursor, BIND, LATER, &vec![7; longest]).unwrap();
    assert!(token.len() <= MAX_TOKEN && token.len() + 2 > MAX_TOKEN);
    assert_eq!(sealer.open(Purpose::Cursor, BIND, NOW, &token).unwrap().len(), longest);
    for length in [longest + 1, MAX_TOKEN, MAX_TOKEN * 2] {
        assert_eq!(
            sealer.seal(Purpose::Cursor, BIND, LATER, &vec![7; length]),
            Err(SealError::TooLong)
        );
    }
}

#[test]
fn the_newest_key_seals_and_all_keys_open() {
    let (old, new) = (sealer(1), sealer(2));
    let both = Sealer::with_ring([[2; 32], [1; 32]]).unwrap();
    let from_old = old.seal(Purpose::Cursor, BIND, LATER, b"old").unwrap();
    let from_both = both.seal(Purpose::Cursor, BIND, LATER, b"both").unwrap();
    assert_eq!(both.open(Purpose::Cursor, BIND, NOW, &from_old).unwrap(), b"old");
    assert_eq!(both.open(Purpose::Cursor, BIND, NOW, &from_both).unwrap(), b"both");
    assert_eq!(new.open(Purpose::Cursor, BIND, NOW, &from_both).unwrap(), b"both");
    assert_eq!(reason(&old, Purpose::Cursor, BIND, NOW, &from_both), Some(Reason::UnknownKey));
    let relabelled = from_old.replace(&old.newest.id, &new.newest.id);
    assert_eq!(reason(&both, Purpose::Cursor, BIND, NOW, &relabelled), Some(Reason::Forged));
}

#[test]
fn random_sealers_do_not_open_each_others_tokens() {
    let (a, b) = (Sealer::random().unwrap(), Sealer::random().unwrap());
    let token = a.seal(Purpose::Task, &[], LATER, b"x").unwrap();
    assert_eq!(a.open(Purpose::Task, &[], NOW, &token).unwrap(), b"x");
    assert_eq!(reason(&b, Purpose::Task, &[], NOW, &token), Some(Reason::UnknownKey));
}

#[test]
fn secrets_must_be_long_and_few() {
    assert_eq!(Sealer::new(&[1; 31]).unwrap_err(), SecretError::Short);
    assert_eq!(Sealer::with_ring::<&[u8]>([]).unwrap_err(), SecretError::None);
    assert_eq!(Sealer::with_ring([&[1u8; 32][..], b"short"]).unwrap_err(), SecretError::Short);
    assert_eq!(Sealer::with_ring(vec![[1u8; 32]; MAX_KEYS + 1]).unwrap_err(), SecretError::TooMany);
    assert!(Sealer::with_ring(vec![[1u8; 32]; MAX_KEYS]).is_ok());
}

#[test]
fn neither_debug_nor_errors_tell_anything() {
    let sealer = sealer(7);
    let shown = format!("{sealer:?}");
    assert_eq!(shown, format!("Sealer {{ key_ids: [\"{}\"], .. }}", sealer.newest.id));
    let refused =
        [Reason::TooLong, Reason::Malformed, Reason::UnknownKey, Reason::Forged, Reason::Expired]
            .map(UnsealError);
    for error in refused {
        assert_eq!(format!("{error} {error:?}"), "invalid or expired token UnsealError { .. }");
    }
    assert_eq!(
        refused.map(|r| r.reason().as_str()).into_iter().collect::<HashSet<_>>().len(),
        refused.len()
    );
}

#[test]
fn sealers_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Sealer>();
}

/// Pins the format, to detect a change that would invalidate all tokens in use. The token was
/// issued by another implementation.
#[test]
fn key_ids_and_labels_stay_the_same() {
    assert_eq!(sealer(1).newest.id, "40ed2bc1");
    assert_eq!(
        ALL.map(Purpose::as_str),
        ["cursor", "request state", "task", "session", "approval"]
    );
    let minted = "lg1.40ed2bc1.AAECAwQFBgcICQoL7QCrWcmbgJT2WIpG9Sog0q5-HpLR9pWuIOW_YlSl";
    assert_eq!(sealer(1).open(Purpose::Cursor, BIND, NOW, minted).unwrap(), b"pinned");
}

/// Pinned because gateways of different versions compare fingerprints. Computed with another
/// implementation.
#[test]
fn a_fingerprint_is_the_same_everywhere_and_of_one_secret() {
    let own = fingerprint(&[1; 32]).unwrap();
    assert_eq!(own, "9336cbd8c24fccd36a16f3f5a03ccbcbca71c43c74956bf724a0825a0160ab95");
    assert_ne!(fingerprint(&[2; 32]).unwrap(), own);
    assert!(!own.contains(&sealer(1).newest.id), "it shows nothing that tokens show");
}

proptest! {
    #[test]
    fn open_undoes_seal(
        plain in prop::collection::vec(any::<u8>(), 0..200),
        bind in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..10), 0..5),
        expires in 1u64..,
        secret in prop::collection::vec(any::<u8>(), 32..80),
    ) {
        let sealer = Sealer::new(&secret).unwrap();
        let bind: Vec<&[u8]> = bind.iter().map(Vec::as_slice).collect();
        let token = sealer.seal(Purpose::Task, &bind, expires, &plain).unwrap();
        prop_assert_eq!(sealer.open(Purpose::Task, &bind, expires - 1, &token).unwrap(), plain);
        prop_assert_eq!(reason(&sealer, Purpose::Task, &bind, expires, &token), Some(Reason::Expired));
    }

    #[test]
    fn parts_that_join_to_the_same_bytes_bind_differently(bytes in prop::collection::vec(any::<u8>(), 1..12), a in 0usize..12, b in 0usize..12) {
        let (a, b) = (a % (bytes.len() + 1), b % (bytes.len() + 1));
        let (one, two) = (bytes.split_at(a), bytes.split_at(b));
        let key = &sealer(1).newest;
        let (one, two) = (associated(key, Purpose::Task, &[one.0, one.1]), associated(key, Purpose::Task, &[two.0, two.1]));
        prop_assert_eq!(one == two, a == b);
        prop_assert_ne!(one, associated(key, Purpose::Task, &[&bytes]));
    }

    #[test]
    fn no_text_opens_or_panics(text in "\\PC{0,80}", payload in "[A-Za-z0-9_-]{0,100}") {
        let sealer = sealer(1);
        prop_assert!(sealer.open(Purpose::Cursor, BIND, NOW, &text).is_err());
        let token = format!("lg1.{}.{payload}", sealer.newest.id);
        prop_assert!(sealer.open(Purpose::Cursor, BIND, NOW, &token).is_err());
    }
}
