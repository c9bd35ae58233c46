//! Tests of `redis`: an address, the required secret, and that messages reveal neither.

use super::TestConfig;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn given(text: &str, url: &str) -> TestConfig {
    TestConfig::yaml(text).env("URL", url).env("SECRET", SECRET)
}

#[test]
fn rates_are_shared_where_an_address_says_so() {
    assert!(TestConfig::yaml("title: a").loaded().config.limits.is_none());
    let text = "redis: { url: '${URL}' }\nsecret: '${SECRET}'";
    let loaded = given(text, "rediss://:Tops3cret@redis.example.com/1").loaded();
    let shown = format!("{loaded:?}");
    assert!(shown.contains("redis.example.com") && !shown.contains("Tops3cret"), "{shown}");
    let one = loaded.config.limits.unwrap();
    // A new secret has no effect until the old one is removed.
    let ring = "redis: { url: '${URL}' }\nsecret: '${NEW}'\nold_secrets: ['${SECRET}']";
    let new = given(ring, "rediss://:Tops3cret@redis.example.com/1");
    let new = new.env("NEW", "new-0123456789abcdef0123456789ab").loaded();
    assert!(new.config.limits.unwrap() == one);
    let other = "redis: { url: '${URL}', prefix: other }\nsecret: '${SECRET}'";
    let other = given(other, "rediss://:Tops3cret@redis.example.com/1").loaded();
    assert!(other.config.limits.unwrap() != one);
}

#[test]
fn what_cannot_be_shared_is_said_without_the_secret() {
    let with_secret = "redis: { url: '${URL}' }\nsecret: '${SECRET}'";
    for (text, url, key, words) in [
        (with_secret, "http://:Tops3cret@h", "redis.url", "a URL of Redis or Valkey"),
        (with_secret, "redis://:Tops3cret@h/x", "redis.url", "a database number"),
        (with_secret, "redis://Tops3cret@h", "redis.url", "a user without a password"),
        ("redis: { url: '${URL}' }", "redis://:Tops3cret@h", "redis.url", "requires `secret`"),
        ("redis: { prefix: a }", "", "redis.prefix", "without `redis.url`"),
        (
            "redis: { url: '${URL}', prefix: 'a b' }\nsecret: '${SECRET}'",
            "redis://h",
            "redis.prefix",
            "letters, digits",
        ),
    ] {
        let messages = given(text, url).messages();
        let [message] = messages.as_slice() else { panic!("{url}: {messages:?}") };
        assert!(message.contains(key) && message.contains(words), "{message}");
        assert!(!message.contains("Tops3cret"), "{message}");
    }
}
