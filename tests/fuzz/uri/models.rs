//! Models of fifteen kinds of servers: the parts of a URI that each removes, decodes and resolves,
//! and in which order. Such a server treats URIs with equal keys as one resource.

use url::Url;

type Model = fn(&str) -> Option<String>;

/// The models by name.
pub const MODELS: [(&str, Model); 15] = [
    ("Python urlparse, unquote", |uri| {
        let uri = without_controls(uri);
        let Parts { scheme, host, path } = split(&uri)?;
        let end = path.rfind('/').unwrap_or(0);
        let (folder, name) = path.split_at(end);
        let path = [folder, name.split(';').next()?].concat();
        key(&scheme.to_lowercase(), &hostname(host).to_lowercase(), &lossy(&path))
    }),
    ("Python unquote, urlparse, normpath", |uri| {
        let uri = lossy(&without_controls(uri));
        let Parts { scheme, host, path } = split(&uri)?;
        key(&scheme.to_lowercase(), &hostname(host).to_lowercase(), &resolved(path))
    }),
    ("Node URL, decodeURIComponent", |uri| {
        let url = Url::parse(uri).ok()?;
        let path = strict(url.path())?;
        key(url.scheme(), url.host_str().unwrap_or(""), &path)
    }),
    ("Node decodeURI, path.normalize", |uri| {
        let uri = strict(uri)?;
        let (scheme, rest) = uri.split_once(':')?;
        key(scheme, "", &resolved(rest.split(['?', '#']).next()?))
    }),
    ("Go net/url, path.Clean", |uri| {
        let Parts { scheme, host, path } = split(uri)?;
        key(&scheme.to_lowercase(), hostname(host), &resolved(&strict(path)?))
    }),
    ("Java URI.normalize, getPath", |uri| {
        if uri.contains(['\\', '{', '}', '|', '^', '`', '"', '<', '>', ' ']) {
            return None;
        }
        let Parts { scheme, host, path } = split(uri)?;
        key(&scheme.to_lowercase(), &hostname(host).to_lowercase(), &lossy(&resolved(path)))
    }),
    ("nginx merge_slashes", |uri| {
        let Parts { scheme, host, path } = split(uri)?;
        let host = hostname(host).trim_end_matches('.').to_lowercase();
        key(&scheme.to_lowercase(), &host, &resolved(&lossy(path)))
    }),
    ("Tomcat", |uri| {
        let Parts { scheme, host, path } = split(uri)?;
        let path = lossy(&without_parameters(path)).replace('\\', "/");
        key(&scheme.to_lowercase(), &hostname(host).to_lowercase(), &resolved(&path))
    }),
    ("Jetty behind a decoding proxy", |uri| {
        let uri = lossy(uri);
        let Parts { scheme, host, path } = split(&uri)?;
        let path = resolved(&without_parameters(path));
        key(&scheme.to_lowercase(), &hostname(host).to_lowercase(), &path)
    }),
    ("Rails", |uri| {
        let Parts { scheme, host, path } = split(uri)?;
        let path = lossy(&resolved(path).replace('+', " "));
        key(&scheme.to_lowercase(), &hostname(host).to_lowercase(), path.trim_end())
    }),
    ("PHP parse_url, urldecode", |uri| {
        let Parts { scheme, host, path } = split(uri)?;
        let path = lossy(&path.replace('+', " "));
        let path = path.split('\0').next()?;
        key(&scheme.to_lowercase(), hostname(host), &resolved(path))
    }),
    (".NET Uri on Windows", |uri| {
        let uri = uri.trim().replace('\\', "/");
        let Parts { scheme, host, path } = split(&uri)?;
        let path = resolved(&lossy(&resolved(path)).replace('\\', "/"));
        let trimmed = path.split('/').map(|segment| segment.trim_end_matches(['.', ' ']));
        let path = trimmed.collect::<Vec<_>>().join("/");
        key(&scheme.to_lowercase(), &hostname(host).to_lowercase(), &path)
    }),
    ("Rust url, path_segments", |uri| {
        let url = Url::parse(uri).ok()?;
        let segments = url.path().split('/').map(lossy).filter(|segment| !segment.is_empty());
        let path = segments.collect::<Vec<_>>().join("/");
        key(url.scheme(), url.host_str().unwrap_or(""), &path)
    }),
    ("two decoders, one of old UTF-8, and a file system that composes", |uri| {
        use unicode_normalization::UnicodeNormalization;
        let mut uri = uri.to_owned();
        for overlong in ["%c0%af", "%C0%AF", "%e0%80%af", "%E0%80%AF"] {
            uri = uri.replace(overlong, "/");
        }
        let uri = lossy(&lossy(&uri));
        let Parts { scheme, host, path } = split(&uri)?;
        key(scheme, hostname(host), &resolved(path).nfc().collect::<String>())
    }),
    ("a handler that cuts off the scheme", |uri| {
        let uri = without_controls(uri);
        let (scheme, rest) = uri.split_once(':')?;
        let rest = rest.split(['?', '#', ';']).next()?;
        key(scheme, "", &lossy(rest))
    }),
];

struct Parts<'a> {
    scheme: &'a str,
    host: &'a str,
    path: &'a str,
}

/// Splits a URI into scheme, authority and path.
fn split(uri: &str) -> Option<Parts<'_>> {
    let uri = uri.split(['?', '#']).next()?;
    let (scheme, rest) = uri.split_once(':')?;
    let Some(rest) = rest.strip_prefix("//") else {
        return Some(Parts { scheme, host: "", path: rest });
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some(Parts { scheme, host, path })
}

/// Returns the lookup key: scheme, host and path, without slashes around host and path.
fn key(scheme: &str, host: &str, path: &str) -> Option<String> {
    let whole = [host, path].concat();
    Some([scheme, ":", whole.trim_matches('/')].concat())
}

fn hostname(authority: &str) -> &str {
    let host = authority.rsplit('@').next().unwrap_or("");
    host.split(':').next().unwrap_or("")
}

fn without_controls(uri: &str) -> String {
    let uri = uri.replace(['\t', '\r', '\n'], "");
    uri.trim_matches(|c: char| c <= ' ').to_owned()
}

fn without_parameters(path: &str) -> String {
    let segments = path.split('/').map(|segment| segment.split(';').next().unwrap_or(""));
    segments.collect::<Vec<_>>().join("/")
}

/// Removes empty segments and resolves dot segments.
fn resolved(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    [root, &kept.join("/")].concat()
}

fn lossy(text: &str) -> String {
    String::from_utf8_lossy(&decode(text).0).into_owned()
}

/// Decodes like `decodeURIComponent`, which rejects malformed escapes and invalid UTF-8.
fn strict(text: &str) -> Option<String> {
    let (bytes, is_whole) = decode(text);
    String::from_utf8(bytes).ok().filter(|_| is_whole)
}

/// Decodes every escape once, and returns whether each `%` started an escape.
pub(super) fn decode(text: &str) -> (Vec<u8>, bool) {
    let (mut bytes, mut rest, mut is_whole) = (Vec::new(), text.as_bytes(), true);
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.filter(|_| *first == b'%').and_then(|d| std::str::from_utf8(d).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        is_whole &= *first != b'%' || byte.is_some();
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    (bytes, is_whole)
}
