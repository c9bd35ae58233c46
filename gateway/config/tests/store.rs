//! Tests of `store`, `redis` and `replicas`: locations, addresses of all gateways, the required
//! secret, and that messages reveal none.

use lockgate_store::StorePlace;

use super::TestConfig;

const KEY: &str = "0123456789abcdef0123456789abcdef";

fn place(given: &TestConfig) -> StorePlace {
    given.loaded().config.store.place
}

#[test]
fn the_store_is_a_file_beside_the_configuration_unless_something_says_otherwise() {
    let given = TestConfig::yaml("title: a\n").env("HOME", "/home/ann");
    assert_eq!(place(&given), StorePlace::File(given.path().join(".lockgate/lockgate.db")));
    let given = given.env("STATE_DIRECTORY", "/var/lib/lockgate:/var/lib/other");
    assert_eq!(place(&given), StorePlace::File("/var/lib/lockgate/lockgate.db".into()));
    let given = TestConfig::yaml("store: { file: data/own.db }");
    assert_eq!(place(&given), StorePlace::File(given.path().join("data/own.db")));
    let given = TestConfig::files(&[]).env("HOME", "/home/ann");
    assert_eq!(
        place(&given),
        StorePlace::File("/home/ann/.local/share/lockgate/lockgate.db".into())
    );
    let given = given.env("XDG_DATA_HOME", "/data");
    assert_eq!(place(&given), StorePlace::File("/data/lockgate/lockgate.db".into()));
}

#[test]
fn an_address_is_of_postgresql_and_is_never_shown() {
    let url = "postgres://gate:Tops3cret@db.example.com/lockgate?sslmode=verify-full";
    let given = TestConfig::yaml("store: { url: '${URL}' }").env("URL", url);
    assert_eq!(place(&given), StorePlace::Postgres(url.to_owned()));
    assert!(!format!("{:?}", given.loaded()).contains("Tops3cret"));
    let wrong =
        ["mysql://u:Tops3cret@a/b", "sqlite:///Tops3cret", "Tops3cret", "postgres:Tops3cret"];
    for url in wrong {
        let messages = TestConfig::yaml("store: { url: '${URL}' }").env("URL", url).messages();
        assert_eq!(messages.len(), 1, "{url}: {messages:?}");
        assert!(messages[0].contains("store.url") && !messages[0].contains("Tops3cret"));
    }
    let modes = ["disable", "prefer", "require"];
    for (given, wanted) in [
        ("postgres://u@db.example.com/l", "postgres://u@db.example.com/l?sslmode=verify-full"),
        ("postgres://u@10.0.0.7/l?a=b", "postgres://u@10.0.0.7/l?a=b&sslmode=verify-full"),
        ("postgres://u@localhost/l", "postgres://u@localhost/l"),
        ("postgres://u@[::1]:5432/l", "postgres://u@[::1]:5432/l"),
        ("postgres://%2Frun%2Fpg/l", "postgres://%2Frun%2Fpg/l"),
        ("postgres://u@db/l?host=/run/pg", "postgres://u@db/l?host=/run/pg"),
        (
            "postgres://u@localhost/l?host=db.example.com",
            "postgres://u@localhost/l?host=db.example.com&sslmode=verify-full",
        ),
    ] {
        let given = TestConfig::yaml("store: { url: '${URL}' }").env("URL", given);
        assert_eq!(place(&given), StorePlace::Postgres(wanted.to_owned()));
    }
    for mode in modes {
        let far = format!("postgres://u:Tops3cret@db.example.com/l?sslmode={mode}");
        let loaded = TestConfig::yaml("store: { url: '${URL}' }").env("URL", &far).loaded();
        assert_eq!(loaded.config.store.place, StorePlace::Postgres(far));
        assert_eq!(loaded.warnings.len(), 1, "{mode}");
        let near = format!("postgres://u@127.0.0.1/l?sslmode={mode}");
        let loaded = TestConfig::yaml("store: { url: '${URL}' }").env("URL", &near).loaded();
        assert!(loaded.warnings.is_empty(), "{mode}");
    }
    let unknown = "postgres://u@db.example.com/l?sslmode=Tops3cret";
    let unknown = TestConfig::yaml("store: { url: '${URL}' }").env("URL", unknown).messages();
    assert!(unknown[0].contains("sslmode") && !unknown[0].contains("Tops3cret"), "{unknown:?}");
    let both = TestConfig::yaml("store: { url: '${URL}', file: a.db }").env("URL", url).messages();
    assert!(both[0].contains("store.file") && both.len() == 1, "{both:?}");
}

#[test]
fn keys_are_a_ring_that_the_file_makes_or_one_variable() {
    let keys = |given: TestConfig| given.loaded().config.store.keys.0;
    assert!(keys(TestConfig::files(&[])).is_empty());
    assert_eq!(keys(TestConfig::files(&[]).env("MCP_ENCRYPTION_KEY", KEY)), [KEY]);
    let (new, old) = ("new-0123456789abcdef0123456789ab", "old-0123456789abcdef0123456789ab");
    let ring = TestConfig::yaml("store: { keys: ['${NEW}', 'file:old.key'] }").env("NEW", new);
    std::fs::write(ring.path().join("old.key"), format!("{old}\n")).unwrap();
    assert_eq!(keys(ring.env("MCP_ENCRYPTION_KEY", KEY)), [new, old]);
}

#[test]
fn keys_that_can_be_guessed_are_refused_and_not_quoted() {
    for key in ["Tops3cret", "changeme-changeme-changeme-changeme", &"a".repeat(40)] {
        for given in [
            TestConfig::yaml("store: { keys: ['${KEY}'] }").env("KEY", key),
            TestConfig::files(&[]).env("MCP_ENCRYPTION_KEY", key),
        ] {
            let messages = given.messages();
            assert_eq!(messages.len(), 1, "{messages:?}");
            assert!(messages[0].contains("store.keys") && !messages[0].contains(key));
        }
    }
    let written = TestConfig::yaml(&format!("store: {{ keys: ['{KEY}'] }}")).messages();
    assert!(written[0].contains("written in plain text"), "{written:?}");
    let many = vec![format!("'{KEY}'"); 9].join(", ");
    let many = TestConfig::yaml(&format!("store: {{ keys: [{many}] }}")).messages();
    assert!(many.iter().any(|message| message.contains("more than 8")), "{many:?}");
}

#[test]
fn tools_cannot_reach_the_store() {
    let text = "store: { file: open/own.db }\nbuiltin: { file: { roots: [{ path: open }] } }";
    let messages = TestConfig::files(&[("lockgate.yaml", text), ("open/readme", "")]).messages();
    assert!(messages.iter().any(|message| message.contains("own.db")), "{messages:?}");
}

fn with_redis(text: &str, url: &str) -> TestConfig {
    TestConfig::yaml(text).env("URL", url).env("SECRET", KEY)
}

#[test]
fn rates_are_shared_where_an_address_says_so() {
    assert!(TestConfig::yaml("title: a").loaded().config.limits.is_none());
    let text = "redis: { url: '${URL}' }\nsecret: '${SECRET}'";
    let loaded = with_redis(text, "rediss://:Tops3cret@redis.example.com/1").loaded();
    let shown = format!("{loaded:?}");
    assert!(shown.contains("redis.example.com") && !shown.contains("Tops3cret"), "{shown}");
    let one = loaded.config.limits.unwrap();
    // A new secret has no effect until the old one is removed.
    let ring = "redis: { url: '${URL}' }\nsecret: '${NEW}'\nold_secrets: ['${SECRET}']";
    let new = with_redis(ring, "rediss://:Tops3cret@redis.example.com/1");
    let new = new.env("NEW", "new-0123456789abcdef0123456789ab").loaded();
    assert!(new.config.limits.unwrap() == one);
    let other = "redis: { url: '${URL}', prefix: other }\nsecret: '${SECRET}'";
    let other = with_redis(other, "rediss://:Tops3cret@redis.example.com/1").loaded();
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
        let messages = with_redis(text, url).messages();
        let [message] = messages.as_slice() else { panic!("{url}: {messages:?}") };
        assert!(message.contains(key) && message.contains(words), "{message}");
        assert!(!message.contains("Tops3cret"), "{message}");
    }
}

fn with_replicas(replicas: &str) -> TestConfig {
    let text = format!("listen: 127.0.0.1:3001\nsecret: '${{SECRET}}'\nreplicas: {replicas}");
    TestConfig::yaml(&text).env("SECRET", KEY)
}

#[test]
fn the_port_is_the_one_of_the_listener_unless_there_is_another() {
    assert!(TestConfig::yaml("title: a").loaded().config.proxy.replicas.is_none());
    let text = "{ address: 2001:db8::7, peers: [gate-peers.tools.svc, '10.0.0.8:3005'] }";
    let replicas = with_replicas(text).loaded().config.proxy.replicas.unwrap();
    assert_eq!(replicas.address.to_string(), "[2001:db8::7]:3001");
    let peers = [("gate-peers.tools.svc".to_owned(), 3001), ("10.0.0.8".to_owned(), 3005)];
    assert_eq!((replicas.peers.as_slice(), replicas.tls_name), (peers.as_slice(), None));
    let other = with_replicas("{ address: '10.0.0.7:3009', peers: gate }")
        .loaded()
        .config
        .proxy
        .replicas
        .unwrap();
    assert_eq!(other.address.to_string(), "10.0.0.7:3009");
}

#[test]
fn what_cannot_be_reached_is_an_error() {
    for (text, key, words) in [
        (
            "{ address: gate, peers: a }",
            "replicas.address",
            "is not a valid address of this gateway",
        ),
        (
            "{ address: 0.0.0.0, peers: a }",
            "replicas.address",
            "is not a valid address of this gateway",
        ),
        ("{ address: 10.0.0.7 }", "replicas.peers", "is required by `replicas.address`"),
        ("{ address: 10.0.0.7, peers: ['a b'] }", "replicas.peers", "is not a name or address"),
        ("{ address: 10.0.0.7, peers: ['a:0'] }", "replicas.peers", "is not a name or address"),
        ("{ address: 10.0.0.7, peers: 'http://a' }", "replicas.peers", "is not a name or address"),
        ("{ peers: a }", "replicas.peers", "without `replicas.address`"),
        ("{ address: 10.0.0.7, peers: a, tls_name: a }", "replicas.tls_name", "without `http.tls`"),
    ] {
        let messages = with_replicas(text).messages();
        let [message] = messages.as_slice() else { panic!("{text}: {messages:?}") };
        assert!(message.contains(key) && message.contains(words), "{message}");
    }
    let alone = TestConfig::yaml("replicas: { address: 10.0.0.7, peers: a }").messages();
    assert!(alone.iter().any(|message| message.contains("requires `secret`")), "{alone:?}");
}
