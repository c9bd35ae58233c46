//! Tests of URLs.

use super::*;

#[test]
fn the_parts_of_a_url_are_decoded_and_parameters_win() {
    let text = "postgres://ann%40x:p%25ss@db.example.com:6432/my%20data?sslmode=verify-ca\
        &sslrootcert=/ca.pem&options=-c%20geqo%3Doff&application_name=gate";
    let address = Address::parse(text).unwrap();
    assert_eq!((address.host.as_str(), address.port), ("db.example.com", 6432));
    assert_eq!((address.user.as_str(), address.password.as_str()), ("ann@x", "p%ss"));
    assert_eq!((address.database.as_str(), address.options.as_str()), ("my data", "-c geqo=off"));
    assert_eq!(address.application_name, "gate");
    assert_eq!(address.ssl_mode, SslMode::VerifyCa);
    assert_eq!(address.root_cert, Some("/ca.pem".into()));
    let text = "postgres://u@db/l?host=/run/pg&port=1&user=v&password=w&dbname=d";
    let address = Address::parse(text).unwrap();
    assert!(address.is_socket());
    assert_eq!((address.host.as_str(), address.port), ("/run/pg", 1));
    assert_eq!((address.user.as_str(), address.password.as_str()), ("v", "w"));
    assert_eq!(address.database, "d");
}

#[test]
fn hosts_are_names_addresses_and_folders() {
    for (text, host, is_socket) in [
        ("postgres://u@localhost/l", "localhost", false),
        ("postgres://u@[::1]:5432/l", "::1", false),
        ("postgres://u@%2Frun%2Fpg/l", "/run/pg", true),
        ("postgres://u@db/l?hostaddr=10.0.0.7", "10.0.0.7", false),
    ] {
        let address = Address::parse(text).unwrap();
        assert_eq!((address.host.as_str(), address.is_socket()), (host, is_socket));
        assert_eq!((address.port, address.database.as_str()), (5432, "l"));
        assert_eq!(address.ssl_mode, SslMode::Prefer);
    }
}

#[test]
fn mistakes_are_named_and_passwords_are_not() {
    for (text, mistake) in [
        ("Tops3cret", "is not a URL"),
        ("postgres://:Tops3cret@db/l", "names no user"),
        ("postgres://u:Tops3cret%zz@db/l", "percent"),
        ("postgres://u:Tops3cret@db/l?sslmode=maybe", "sslmode"),
        ("postgres://u:Tops3cret@db/l?sslcert=a.pem", "both sslcert and sslkey"),
        ("postgres://u:Tops3cret@db/l?port=70000", "port"),
    ] {
        let Err(error) = Address::parse(text) else { panic!("{text} is accepted") };
        let words = error.to_string();
        assert!(words.contains(mistake) && !words.contains("Tops3cret"), "{words}");
    }
}
