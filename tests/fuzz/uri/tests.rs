//! Tests of the corpus, and of denied URIs with edits that servers undo.

use super::*;

/// Generated inputs.
const MADE: usize = 200_000;
/// Minimum of inputs that a model equates with a denied URI, and of canonical inputs among them.
const FOUND: usize = 50_000;
const CANONICAL: usize = 2_000;

#[test]
fn no_attack_passes_and_nothing_benign_is_denied() {
    let attacks = include_str!("../../corpora/uri/attack.txt");
    let passed: Vec<&str> = attacks.lines().filter(|uri| passes(uri)).collect();
    assert!(attacks.lines().count() >= 100 && passed.is_empty(), "{passed:#?}");
    let benign = include_str!("../../corpora/uri/benign.txt");
    let is_denied = |uri: &&str| EXACT.with(|policy| !shows(policy, uri));
    let denied: Vec<&str> = benign.lines().filter(is_denied).collect();
    assert!(denied.is_empty(), "{denied:#?}");
    // Segment parameters are permitted only in URIs that a server lists.
    let others = benign.lines().filter(|uri| !uri.contains(';') && uri::form(uri) == Form::Other);
    let others: Vec<&str> = others.collect();
    assert!(benign.lines().count() >= 40 && others.is_empty(), "{others:#?}");
}

#[test]
fn nothing_that_is_denied_is_found_by_any_model() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut found, mut canonical) = (0, 0);
    let mut passed = Vec::new();
    for _ in 0..MADE {
        let mut text = DENIED[random.below(DENIED.len())].to_owned();
        for _ in 0..=random.below(4) {
            text = edit(&text, &mut random);
        }
        let Some((model, denied)) = found_by(&text) else { continue };
        found += 1;
        canonical += usize::from(uri::form(&text) != Form::Other);
        let hidden = |policy: &'static std::thread::LocalKey<Policy>| {
            policy.with(|policy| !shows(policy, &text))
        };
        let is_known =
            uri::validate(&text, uri::MAX_URI).is_ok() && uri::form(&text) != Form::Other;
        if is_known && !(hidden(&EXACT) && hidden(&GLOB)) {
            passed.push(format!("{text:?} is {denied} to {model}"));
        }
    }
    assert!(passed.is_empty(), "{}: {:#?}", passed.len(), &passed[..passed.len().min(20)]);
    assert!(found > FOUND && canonical > CANONICAL, "{found} {canonical}");
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const ENDS: [&str; 24] = [
    "/",
    "//",
    "/.",
    "/;",
    ";x",
    ";v=1",
    ";%2fx",
    "%3B",
    "?",
    "?x=1",
    "?a/../b",
    "#",
    "#y",
    "%3Fx",
    "%23y",
    "%00",
    "%00.png",
    "%20",
    ".",
    "+",
    "%0A",
    "%2F",
    "%2F..%2Fx",
    "/x/..",
];
const SEPARATORS: [&str; 22] = [
    "\\",
    "//",
    "/./",
    "%2F",
    "%2f",
    "%5C",
    "%5c",
    "%252F",
    "%25252f",
    "%c0%af",
    "%E0%80%AF",
    ";/",
    ";x=1/",
    "/;/",
    "/a/../",
    "/a/..;/",
    "/a//..;/",
    "/%2e/",
    "/a/%2E%2e/",
    "/.;/",
    "\u{ff0f}",
    "/+/",
];
const INSERTED: [&str; 14] = [
    "%09",
    "\t",
    "\n",
    "%00",
    ";",
    ";x",
    "%3b",
    "%",
    "%E2%80%8B",
    "\u{ad}",
    "%C2%85",
    " ",
    "+",
    "%25",
];

/// Applies an edit that some server undoes.
fn edit(uri: &str, random: &mut Random) -> String {
    let Some(colon) = uri.find(':').map(|at| at + 1) else { return uri.to_owned() };
    let (scheme, rest) = uri.split_at(colon);
    let at = |text: &str, random: &mut Random| {
        let at = random.below(text.len() + 1);
        (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
    };
    match random.below(10) {
        0 => [uri, random.one(&ENDS)].concat(),
        1 => {
            let slashes: Vec<usize> = uri.match_indices('/').map(|(at, _)| at).collect();
            let Some(&place) = slashes.get(random.below(slashes.len().max(1))) else {
                return uri.to_owned();
            };
            [&uri[..place], random.one(&SEPARATORS), &uri[place + 1..]].concat()
        }
        // An unnecessary escape, in either case, once or twice.
        2 | 3 => {
            let place = at(rest, random);
            let (before, after) = rest.split_at(place);
            let Some(first) = after.chars().next() else { return uri.to_owned() };
            let mut escape = String::new();
            for byte in first.to_string().bytes() {
                escape += &match random.below(3) {
                    0 => format!("%{byte:02x}"),
                    1 => format!("%{byte:02X}"),
                    _ => format!("%25{byte:02X}"),
                };
            }
            [scheme, before, &escape, &after[first.len_utf8()..]].concat()
        }
        4 => {
            let tail = rest.trim_start_matches('/');
            [scheme, random.one(&["", "/", "//", "///", "////", "\\\\", "//localhost/"]), tail]
                .concat()
        }
        5 => match rest.strip_prefix("//") {
            Some(rest) => {
                let user = random.one(&["u@", "u:p@", "u%40", "@", "[::1]@"]);
                [scheme, "//", user, rest].concat()
            }
            None => uri.to_owned(),
        },
        6 => match rest.strip_prefix("//") {
            Some(rest) => {
                let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let end =
                    random.one(&[":80", ":443", ":8443", ":", ".", "..", "%2E", "%3A80", ".:80"]);
                [scheme, "//", host, end, path].concat()
            }
            None => uri.to_owned(),
        },
        7 => {
            let (head, tail) = uri.split_at(at(uri, random));
            match random.below(2) {
                0 => [&head.to_uppercase(), tail].concat(),
                _ => [head, &tail.to_uppercase()].concat(),
            }
        }
        8 => {
            let form = random.one(&["\u{e4}", "a\u{308}", "a%CC%88", "%c3%a4", "%C3%A4"]);
            uri.replace("%C3%A4", form)
        }
        _ => {
            let place = at(uri, random);
            [&uri[..place], random.one(&INSERTED), &uri[place..]].concat()
        }
    }
}
