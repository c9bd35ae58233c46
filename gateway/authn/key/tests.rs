//! Tests of `key`.

use super::*;

fn ring(keys: &[Key]) -> Ring {
    Ring::new(keys, |scopes| scopes.iter().map(|s| s.as_str().into()).collect())
}

fn find(ring: &Ring, text: &str, now: u64) -> Result<Principal, AuthnError> {
    ring.find(text, blake3::hash(text.as_bytes()), || now).map_err(|refused| refused.why)
}

#[test]
fn a_minted_key_is_long_unique_and_known_by_its_hash_alone() {
    let (key, text) = Key::mint(5).unwrap();
    let (other, second) = Key::mint(5).unwrap();
    assert!(key.id != other.id && text != second);
    assert_eq!(text.len(), PREFIX.len() + 16 + 1 + 64);
    assert!(is_id(&key.id) && text.starts_with(&format!("lg_{}_", key.id)));
    assert!(!format!("{key:?}").contains(&text[20..]));
    assert_eq!(parse_hash(&write_hash(&key.hash)), Some(key.hash));

    let ring = ring(&[key.clone(), other]);
    let found = find(&ring, &text, 10).unwrap();
    assert_eq!((&*found.issuer, &*found.subject), (KEY, key.id.as_str()));
    assert_ne!(found, find(&ring, &second, 10).unwrap());
}

#[test]
fn anything_but_the_whole_key_is_refused() {
    let (key, text) = Key::mint(0).unwrap();
    let (other, _) = Key::mint(0).unwrap();
    let ring = ring(&[key.clone(), other.clone()]);
    let last = if text.ends_with('0') { '1' } else { '0' };
    let altered = format!("{}{last}", &text[..text.len() - 1]);
    let swapped = text.replace(&key.id, &other.id);
    let cases = [
        "lg_",
        "lg__",
        "lg_é",
        "",
        &text[..text.len() - 1],
        &format!("{text}0"),
        &altered,
        &swapped,
        &text.to_uppercase(),
        &format!("lg_{}_{}", key.id, "0".repeat(64)),
        &write_hash(&key.hash),
        &format!("lg_{}_{}", key.id, hex::encode(&key.hash)),
    ];
    for case in cases {
        assert_eq!(find(&ring, case, 10).err(), Some(AuthnError::Invalid), "{case}");
    }
}

#[test]
fn expiry_and_revocation_are_told_to_the_holder_alone() {
    let (mut key, text) = Key::mint(0).unwrap();
    key.expires = Some(100);
    let wrong = format!("lg_{}_{}", key.id, "0".repeat(64));
    let ring_of = |key: &Key| ring(std::slice::from_ref(key));
    assert!(find(&ring_of(&key), &text, 99).is_ok());
    assert_eq!(find(&ring_of(&key), &text, 100).err(), Some(AuthnError::Expired));
    assert_eq!(find(&ring_of(&key), &wrong, 100).err(), Some(AuthnError::Invalid));
    assert_eq!((key.state(99), key.state(100)), ("active", "expired"));
    key.revoked = Some(50);
    assert_eq!(find(&ring_of(&key), &text, 10).err(), Some(AuthnError::Revoked));
    assert_eq!(find(&ring_of(&key), &wrong, 10).err(), Some(AuthnError::Invalid));
    assert_eq!(key.state(10), "revoked");
}

#[test]
fn times_are_read_as_people_write_them() {
    assert_eq!(parse_time("1970-01-02"), Some(86_400));
    assert_eq!(parse_time("1970-01-01T01:00:00+01:00"), Some(0));
    for bad in ["", "tomorrow", "2026-13-01", "2026-02-30", "1969-12-31", "20260101"] {
        assert_eq!(parse_time(bad), None, "{bad}");
    }
    assert_eq!(write_time(86_400), "1970-01-02T00:00:00Z");
    assert_eq!(parse_time(&write_time(1_900_000_000)), Some(1_900_000_000));
}

#[test]
fn hashes_are_read_strictly() {
    let good = write_hash(&[7; 32]);
    assert_eq!(parse_hash(&good), Some([7; 32]));
    for bad in [
        "",
        "blake3:",
        &good[..good.len() - 1],
        &good.replace("blake3", "sha256"),
        &format!("{good}0"),
    ] {
        assert_eq!(parse_hash(bad), None, "{bad}");
    }
}
