//! Tests of `catalogue`: addresses, authentication, and the place of each mistake.

use lockgate_registry::Auth;

use super::TestConfig;

#[test]
fn an_entry_is_an_address_and_what_the_server_wants() {
    let text = "catalogue:\n  plain: { url: 'https://a.example/mcp' }\n  keyed: { url: \
        'http://10.0.0.1:8080/', title: Keyed, auth: api_key, header: X-Api-Key }\n";
    let catalogue = TestConfig::yaml(text).loaded().config.catalogue;
    let found: Vec<_> = catalogue
        .iter()
        .map(|(slug, entry)| (slug.as_str(), entry.title.as_str(), entry.url.as_str(), &entry.auth))
        .collect();
    let header = "x-api-key".to_owned();
    assert_eq!(
        found,
        [
            ("keyed", "Keyed", "http://10.0.0.1:8080/", &Auth::ApiKey { header }),
            ("plain", "plain", "https://a.example/mcp", &Auth::None),
        ]
    );
}

#[test]
fn mistakes_of_the_catalogue_are_said_with_their_places() {
    for (entry, key, words) in [
        ("{ title: x }", "catalogue.a", "requires `url`"),
        ("{ url: 'ftp://a/' }", "catalogue.a.url", "http"),
        ("{ url: 'https://u:Tops3cret@a/' }", "catalogue.a.url", "user or password"),
        ("{ url: 'https://a/', auth: api_key }", "catalogue.a.auth", "requires `header`"),
        ("{ url: 'https://a/', header: x-key }", "catalogue.a.header", "auth: api_key"),
        (
            "{ url: 'https://a/', auth: api_key, header: host }",
            "catalogue.a.header",
            "the gateway sets",
        ),
        ("{ url: 'https://a/', title: '' }", "catalogue.a.title", "1 to 100"),
        ("{ url: 'https://a/', auht: none }", "catalogue.a.auht", "auth"),
    ] {
        let messages = TestConfig::yaml(&format!("catalogue: {{ a: {entry} }}")).messages();
        assert_eq!(messages.len(), 1, "{entry}: {messages:?}");
        assert!(messages[0].contains(key) && messages[0].contains(words), "{messages:?}");
        assert!(!messages[0].contains("Tops3cret"), "{messages:?}");
    }
    let named = TestConfig::yaml("catalogue: { A_B: { url: 'https://a/' } }").messages();
    assert!(named[0].contains("a-z, 0-9 and -"), "{named:?}");
}
