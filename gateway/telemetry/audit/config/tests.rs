//! Addresses of syslog receivers.

use super::*;

#[test]
fn an_address_has_a_host_and_maybe_a_port() {
    for (text, wanted) in [
        ("tls://logs.example.com", Some("https://logs.example.com:6514/")),
        ("tls://logs.example.com:7000", Some("https://logs.example.com:7000/")),
        ("tls://logs.example.com:443", Some("https://logs.example.com/")),
        ("tls://[::1]", Some("https://[::1]:6514/")),
        ("tls://[::1]:601", Some("https://[::1]:601/")),
        ("tcp://10.1.2.3", Some("http://10.1.2.3:601/")),
        ("tcp://10.1.2.3:", Some("http://10.1.2.3:601/")),
        ("tcp://10.1.2.3:80/", Some("http://10.1.2.3/")),
        ("udp://10.1.2.3", None),
        ("https://10.1.2.3", None),
        ("10.1.2.3:601", None),
        ("tls://", None),
        ("tls://host:0", None),
        ("tls://host:99999", None),
        ("tls://me@host", None),
        ("tls://me:secret@host", None),
        ("tls://host/path", None),
        ("tls://host?query", None),
        ("tls://host#part", None),
    ] {
        let url = Syslog { address: text.to_owned(), ..Syslog::default() }.url();
        assert_eq!(url.as_ref().map(Url::as_str), wanted, "{text}");
    }
}
