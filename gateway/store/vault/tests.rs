//! Tests of `vault`: the fields and keys with which a value opens.

use super::*;

const FIELD: Field<'_> = Field { organisation: "acme", record: "int_1", field: "credentials" };

fn vault(keys: &[&str]) -> Vault {
    Vault::new(&Keys(keys.iter().map(|key| key.repeat(16)).collect())).unwrap()
}

fn secret() -> Secret {
    Secret::new("s3cr3t-canary".to_owned())
}

#[test]
fn what_was_sealed_opens_where_it_was_put_and_nowhere_else() {
    let vault = vault(&["k1"]);
    let sealed = vault.seal(&FIELD, &secret()).unwrap();
    assert_eq!(vault.open(&FIELD, &sealed), Ok(secret()));
    let elsewhere = [
        Field { organisation: "other", ..FIELD },
        Field { record: "int_2", ..FIELD },
        Field { field: "token", ..FIELD },
        // The same characters, split differently.
        Field { organisation: "acm", record: "eint_1", ..FIELD },
    ];
    for field in elsewhere {
        assert_eq!(vault.open(&field, &sealed), Err(VaultError::Altered), "{field:?}");
    }
}

#[test]
fn nothing_that_was_altered_opens() {
    let vault = vault(&["k1"]);
    let sealed = vault.seal(&FIELD, &secret()).unwrap();
    for at in 0..sealed.len() {
        let mut altered = sealed.clone();
        altered[at] ^= 1;
        assert!(vault.open(&FIELD, &altered).is_err(), "byte {at}");
        assert!(vault.open(&FIELD, &sealed[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn two_seals_of_one_secret_differ_and_hold_nothing_of_it() {
    let vault = vault(&["k1"]);
    let first = vault.seal(&FIELD, &secret()).unwrap();
    let second = vault.seal(&FIELD, &secret()).unwrap();
    assert_ne!(first, second);
    assert!(!first.windows(4).any(|window| secret().expose().as_bytes().starts_with(window)));
}

#[test]
fn the_first_key_seals_and_all_open() {
    let old = vault(&["k1"]);
    let both = vault(&["k2", "k1"]);
    let sealed = old.seal(&FIELD, &secret()).unwrap();
    assert_eq!(both.open(&FIELD, &sealed), Ok(secret()));
    assert!(old.is_current(&sealed));
    assert!(!both.is_current(&sealed));
    let again = both.seal(&FIELD, &secret()).unwrap();
    assert!(both.is_current(&again));
    assert_eq!(old.open(&FIELD, &again), Err(VaultError::UnknownKey));
}

#[test]
fn without_a_key_nothing_is_sealed() {
    let none = Vault::new(&Keys::default()).unwrap();
    assert!(!none.can_seal());
    assert_eq!(none.seal(&FIELD, &secret()), Err(VaultError::NoKey));
    let short = Vault::new(&Keys(vec!["k".repeat(31)]));
    assert_eq!(short.err(), Some(VaultError::ShortKey));
}

#[test]
fn neither_secrets_nor_keys_are_printed() {
    let keys = Keys(vec!["very-secret-key-that-nobody-may-see".to_owned()]);
    let vault = Vault::new(&keys).unwrap();
    let printed = format!("{:?} {keys:?} {vault:?}", secret());
    assert_eq!(printed, "Secret { .. } Keys(1) Vault { keys: 1 }");
}

#[test]
fn digests_tell_secrets_apart() {
    let vault = vault(&["k1"]);
    let own = vault.digests(&secret());
    assert_eq!(own, vault.digests(&secret()));
    assert_ne!(own, vault.digests(&Secret::new("other".to_owned())));
    let ring = Vault::new(&Keys(["k2", "k1"].map(|key| key.repeat(16)).into())).unwrap();
    assert_eq!(ring.digests(&secret())[1..], own);
}

/// Two gateways share a file; a later gateway must not create a key.
#[test]
fn a_key_that_was_made_is_found_by_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config {
        place: crate::StorePlace::File(folder.path().join("store.db")),
        own_key: Some(folder.path().join("vault.key")),
        makes_key: true,
        ..Config::default()
    };
    let [one, two] = [(); 2].map(|()| Vault::open_configured(&config).unwrap());
    let sealed = one.seal(&FIELD, &secret()).unwrap();
    assert_eq!(two.open(&FIELD, &sealed), Ok(secret()));
    assert!(two.is_current(&sealed));
    config.makes_key = false;
    let later = Vault::open_configured(&config).unwrap();
    assert_eq!(later.open(&FIELD, &sealed), Ok(secret()));
    config.own_key = Some(folder.path().join("other.key"));
    let none = Vault::open_configured(&config).unwrap();
    assert_eq!(none.seal(&FIELD, &secret()), Err(VaultError::NoKey));
}
