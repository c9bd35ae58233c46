//! Tests of the hosts that are reached through the proxy.

use url::Url;

use super::*;

fn is_direct(entries: &[&str], url: &str) -> bool {
    let proxy = Proxy::new(&Url::parse("http://proxy.example:3128").unwrap(), None, false).unwrap();
    let direct = entries.iter().map(|entry| Direct::parse(entry).unwrap()).collect();
    let target = Target::new(&Url::parse(url).unwrap()).unwrap();
    Route::new(proxy, direct).via(&target).is_none()
}

#[test]
fn entries_say_which_hosts_are_reached_directly() {
    for (entry, url, direct) in [
        ("corp.example", "https://corp.example/", true),
        ("corp.example", "https://CORP.example./", true),
        ("corp.example", "https://a.b.corp.example:8443/", true),
        ("Corp.Example", "http://corp.example/", true),
        ("corp.example", "https://notcorp.example/", false),
        ("corp.example", "https://corp.example.com/", false),
        (".corp.example", "https://corp.example/", false),
        (".corp.example", "https://a.corp.example/", true),
        ("*.corp.example", "https://a.corp.example/", true),
        ("corp.example:8080", "http://corp.example:8080/", true),
        ("corp.example:8080", "http://corp.example/", false),
        ("corp.example:443", "https://corp.example/", true),
        ("10.0.0.0/8", "http://10.2.3.4/", true),
        ("10.0.0.0/8", "http://11.2.3.4/", false),
        ("10.2.3.4", "http://10.2.3.4/", true),
        ("10.2.3.4:81", "http://10.2.3.4/", false),
        ("fd00::/8", "http://[fd00::1]/", true),
        ("fd00::1", "http://[fd00::1]:9/", true),
        ("[fd00::1]:9", "http://[fd00::1]:9/", true),
        ("[fd00::1]:9", "http://[fd00::1]:8/", false),
        ("10.0.0.0/8", "http://ten.example/", false),
        ("*", "http://any.example/", true),
        ("other.example", "http://any.example/", false),
    ] {
        assert_eq!(is_direct(&[entry], url), direct, "{entry}: {url}");
    }
}

#[test]
fn this_machine_is_reached_directly() {
    for url in [
        "http://localhost:1/",
        "http://a.localhost/",
        "http://localhost./",
        "http://127.9.9.9/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
    ] {
        assert!(is_direct(&[], url), "{url}");
    }
    assert!(!is_direct(&[], "http://localhost.example/"));
}

#[test]
fn what_is_no_entry_is_refused() {
    for text in ["", ".", "*.", "a b", "http://a.example", "a.example:0", "a:b", "a.*.example", "/"]
    {
        assert_eq!(Direct::parse(text), None, "{text:?}");
    }
}
