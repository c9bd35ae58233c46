//! "Did you mean": suggests the nearest known word, unless it is too different.

/// Keys of other programs, with their equivalents.
const KNOWN_ELSEWHERE: &[(&str, &str)] = &[
    (
        "mcpservers",
        "put the entries of a client's file under `servers`, or list that file in `import` or \
            with --mcp-servers",
    ),
    ("disabled", "write `enabled: false`"),
    ("port", "write `listen: HOST:PORT`"),
    ("host", "write `listen: HOST:PORT`"),
    ("bind", "write `listen: HOST:PORT`"),
    ("serverurl", "write `url`"),
    ("httpurl", "write `url`"),
    ("api_key", "write `auth: { key: \"${LOCKGATE_KEY}\" }`"),
    ("apikey", "write `auth: { key: \"${LOCKGATE_KEY}\" }`"),
    ("database_url", "use ${DATABASE_URL} in the value that needs it"),
];

/// Returns the nearest of `known`, if near enough.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = plain(word);
    let mut nearest = None;
    for candidate in known {
        let Some(distance) = measure(&word, &plain(candidate)) else { continue };
        match nearest {
            Some((least, _)) if least <= distance => {}
            _ => nearest = Some((distance, candidate)),
        }
    }
    let (_, candidate) = nearest?;
    Some(candidate)
}

fn plain(word: &str) -> String {
    word.to_ascii_lowercase().replace(['-', '_', ' '], "")
}

/// Returns the distance between two words, if near enough.
fn measure(word: &str, known: &str) -> Option<usize> {
    if word.len() < 2 || known.len() < 2 {
        return None;
    }
    if word.len() >= 3 && known.starts_with(word) {
        return Some(1);
    }
    let distance = strsim::damerau_levenshtein(word, known);
    let near = (known.len().min(word.len()) / 3).max(1);
    if distance <= near { Some(distance) } else { None }
}

pub fn for_key(word: &str, known: &[&str]) -> String {
    let lower = word.to_ascii_lowercase();
    for (elsewhere, hint) in KNOWN_ELSEWHERE {
        if *elsewhere == lower {
            return (*hint).to_string();
        }
    }
    match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the keys here are {}", list(known)),
    }
}

pub fn for_word(word: &str, known: &[&str]) -> Option<String> {
    let near = nearest(word, known)?;
    Some(format!("did you mean `{near}`?"))
}

/// Formats `a, b or c`.
pub fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => format!("`{one}`"),
        [head @ .., last] => format!("{} or `{last}`", list(head)),
    }
}

fn list(words: &[&str]) -> String {
    let mut list = String::new();
    for word in words {
        let comma = if list.is_empty() { "" } else { ", " };
        list.push_str(&format!("{comma}`{word}`"));
    }
    list
}
