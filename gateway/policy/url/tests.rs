//! Tests of `url`, with the corpora in `tests/corpora/url`.

use super::*;

const ATTACKS: &str = include_str!("../../../tests/corpora/url/attack.txt");
const BENIGN: &str = include_str!("../../../tests/corpora/url/benign.txt");

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|&entry| entry.to_owned()).collect()
}

/// Returns the rule that a corpus names.
fn rule(name: &str) -> Url {
    let listed = Spec {
        schemes: owned(&["http", "https"]),
        hosts: owned(&["api.example.com", "*.example.org", "münchen.example"]),
        ..Spec::default()
    };
    let spec = match name {
        "list" => listed,
        "any" => Spec { schemes: owned(&["http", "https"]), any_host: true, ..Spec::default() },
        "path" => Spec {
            hosts: owned(&["api.example.com"]),
            paths: owned(&["/v1", "/public/"]),
            ..Spec::default()
        },
        "port" => Spec { ports: vec![443, 8443], ..listed },
        "address" => Spec { addresses: owned(&["192.0.2.7", "2001:db8::/32"]), ..listed },
        other => panic!("the corpus names the rule {other:?}"),
    };
    Url::compile(&spec).unwrap()
}

/// Parses lines into rule and URL. A quoted URL is JSON, for invisible characters.
fn corpus(text: &'static str) -> Vec<(&'static str, String)> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &'static str| {
        let (rule, url) = line.split_once(' ').unwrap();
        (
            rule,
            if url.starts_with('"') { serde_json::from_str(url).unwrap() } else { url.to_owned() },
        )
    };
    lines.map(entry).collect()
}

#[test]
fn no_attack_passes() {
    let corpus = corpus(ATTACKS);
    assert!(corpus.len() >= 80, "{}", corpus.len());
    let passed: Vec<_> =
        corpus.iter().filter(|(name, url)| rule(name).check(url).is_ok()).collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn at_most_one_in_a_hundred_benign_urls_is_refused() {
    let corpus = corpus(BENIGN);
    assert!(corpus.len() >= 80, "{}", corpus.len());
    let refused: Vec<_> = corpus
        .iter()
        .filter_map(|(name, url)| rule(name).check(url).err().map(|why| (url, why)))
        .collect();
    assert!(refused.len() * 100 <= corpus.len(), "{refused:#?}");
}

#[test]
fn a_wide_network_does_not_take_this_machine_along() {
    let passes = |net: &str, url: &str| {
        let spec = Spec { schemes: owned(&["http"]), addresses: owned(&[net]), ..Spec::default() };
        Url::compile(&spec).unwrap().check(url).is_ok()
    };
    for host in
        ["127.0.0.1", "127.9.9.9", "169.254.169.254", "0.0.0.0", "100.100.100.200", "168.63.129.16"]
    {
        assert!(!passes("0.0.0.0/0", &format!("http://{host}/")), "{host}");
        assert!(passes(&format!("{host}/32"), &format!("http://{host}/")), "{host}");
    }
    for host in ["::1", "::", "fe80::1", "fd00:ec2::254", "fd20:ce::254"] {
        assert!(!passes("::/0", &format!("http://[{host}]/")), "{host}");
        assert!(passes(host, &format!("http://[{host}]/")), "{host}");
    }
    assert!(!passes("fd00:ec2::/32", "http://[fd00:ec2::254]/"));
    assert!(passes("0.0.0.0/0", "http://192.0.2.7/") && passes("10.0.0.0/8", "http://10.1.2.3/"));
    assert!(
        passes("127.0.0.0/8", "http://127.0.0.1/")
            && !passes("169.0.0.0/8", "http://169.254.169.254/")
    );
}

#[test]
fn an_address_in_another_one_is_never_meant() {
    let wide = Spec { addresses: owned(&["::/0"]), any_host: true, ..Spec::default() };
    let (listed, any) = (
        Url::compile(&wide).unwrap(),
        Url::compile(&Spec { any_host: true, ..Spec::default() }).unwrap(),
    );
    for inside in [
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:1::1",
        "2600::5efe:7f00:1",
        "2600::200:5efe:7f00:1",
        "::ffff:0:7f00:1",
    ] {
        let url = format!("https://[{inside}]/");
        assert!(listed.check(&url).is_err() && any.check(&url).is_err(), "{inside}");
    }
    assert!(listed.check("https://[2600::1]/").is_ok() && any.check("https://[2600::1]/").is_ok());
}

#[test]
fn a_url_has_a_longest() {
    let url = |bytes: usize| format!("https://api.example.com/{}", "a".repeat(bytes - 24));
    assert!(rule("list").check(&url(2048)).is_ok());
    assert!(rule("list").check(&url(2049)).unwrap_err().0.contains("2049 bytes"));
}

#[test]
fn what_is_allowed_is_told_within_bounds() {
    assert_eq!(
        rule("port").allowed(),
        "schemes: http, https; hosts: api.example.com, *.example.org, münchen.example; ports: 443, 8443"
    );
    assert!(rule("any").allowed().contains("hosts: any public host; ports: only the default port"));
    assert!(rule("address").allowed().contains("addresses in: 192.0.2.7/32, 2001:db8::/32"));
    let hosts: Vec<String> = (0..200).map(|n| format!("host{n}.example.com")).collect();
    let many = Url::compile(&Spec { hosts, ..Spec::default() }).unwrap().allowed();
    assert!(
        many.len() < 600 && many.contains("host0.example.com, host1") && many.contains(" more;"),
        "{many}"
    );
}

#[test]
fn a_refusal_shows_a_long_host_in_part() {
    let host = format!("{}ß{}", "a.".repeat(30), ".c0123456789".repeat(150));
    let refused = rule("list").check(&format!("https://{host}.com/")).unwrap_err();
    assert!(refused.0.contains("is read as \"a.a.a."), "{}", refused.0);
    assert!(refused.0.len() < 300, "{}", refused.0.len());
}

#[test]
fn a_refusal_is_a_sentence_that_says_what_to_do() {
    for (name, url, words) in [
        (
            "list",
            "https://evil.example/",
            "the host evil.example is not on the list of allowed hosts: use one of api.example.com, *.example.org, münchen.example",
        ),
        ("list", "ftp://api.example.com/", "the scheme \"ftp\" is not allowed: use http or https"),
        ("list", "https://api.example.com:22/", "the port 22 is not allowed: leave it out"),
        ("port", "https://api.example.com:22/", "the port 22 is not allowed: use one of 443, 8443"),
        (
            "port",
            "http://api.example.com/",
            "the URL has no port, and 80 is not allowed: write one of 443, 8443",
        ),
        (
            "list",
            "http://0x7f.1/",
            "the host \"0x7f.1\" is another form of the address 127.0.0.1: use the name of a host",
        ),
        (
            "path",
            "https://api.example.com/v12",
            "the path \"/v12\" is not allowed on this host: use one below /v1, /public/",
        ),
    ] {
        assert_eq!(rule(name).check(url).unwrap_err().0, words);
    }
    for (_, url) in corpus(ATTACKS) {
        let said = rule("list").check(&url).map_or_else(|why| why.0, |_| String::new());
        assert!(said.len() < 600 && !said.chars().any(char::is_control), "{said:?}");
    }
}

#[test]
fn what_is_allowed_depends_on_the_form_of_the_host() {
    let by = |name: &str, url: &str| rule(name).check(url);
    for (name, url) in [
        ("list", "https://api.example.com/"),
        ("any", "https://example.net/"),
        ("address", "http://192.0.2.7/"),
        ("any", "http://1.1.1.1/"),
        ("any", "http://127.0.0.1.example.com/"),
    ] {
        assert!(by(name, url).is_ok(), "{name} {url}");
    }
    assert!(by("list", "http://1.1.1.1/").is_err() && by("address", "http://1.1.1.1/").is_err());
    let checked = rule("list").check("HTTPS://API.example.com:443/a").unwrap();
    assert_eq!(checked.as_str(), "https://api.example.com/a");
}

#[test]
fn a_rule_that_means_nothing_does_not_compile() {
    let spec = |change: &dyn Fn(&mut Spec)| {
        let mut spec = Spec::default();
        change(&mut spec);
        Url::compile(&spec).unwrap_err()
    };
    for (host, words) in [
        ("*", "any_host"),
        ("api.*.com", "only at its beginning"),
        ("https://a.example", "without scheme"),
        ("a.example:80", "without scheme"),
        ("10.0.0.1", "addresses"),
        ("0x7f.1", "addresses"),
        ("", "not the name"),
        ("a..b", "not the name"),
        ("-a.example", "not the name"),
    ] {
        let why = spec(&|spec| spec.hosts = owned(&[host]));
        assert!(why.contains(words), "{host}: {why}");
    }
    assert!(spec(&|spec| spec.addresses = owned(&["10.0.0.0/33"])).contains("10.0.0.0/33"));
    assert!(spec(&|spec| spec.schemes = owned(&["file"])).contains("file"));
    assert!(spec(&|spec| spec.schemes.clear()).contains("at least one"));
    assert!(spec(&|spec| spec.paths = owned(&["v1"])).contains("v1"));
    assert!(spec(&|spec| spec.paths = owned(&["/a/../b"])).contains("dot segments"));
    assert!(spec(&|spec| spec.ports = vec![0]).contains("port"));
    assert!(spec(&|spec| spec.max_bytes = 0).contains("8192"));
    assert!(spec(&|spec| spec.hosts = vec!["a.example".into(); 1001]).contains("1000"));
}

#[test]
fn the_rule_as_written_has_defaults_and_no_unknown_keys() {
    let spec: Spec = serde_json::from_str(r#"{"hosts": ["api.example.com"]}"#).unwrap();
    assert_eq!((spec.schemes, spec.max_bytes), (owned(&["https"]), 2048));
    assert!(serde_json::from_str::<Spec>(r#"{"host": "api.example.com"}"#).is_err());
}

#[test]
fn nothing_but_the_url_of_a_listed_host_survives_any_edit() {
    // Every single-character edit of an allowed URL is refused or leads to the same host.
    let rule = rule("list");
    let url = "https://api.example.com/v1?q=1#a";
    for at in 0..=url.len() {
        for c in (0..=0xff_u8).map(char::from).chain("。．／＠：⑩ⓔ\u{ad}\u{200b}\u{202e}".chars())
        {
            for end in [at, (at + 1).min(url.len())] {
                let edited = format!("{}{c}{}", &url[..at], &url[end..]);
                if let Ok(checked) = rule.check(&edited) {
                    assert_eq!(checked.host_str(), Some("api.example.com"), "{edited:?}");
                }
            }
        }
    }
}
