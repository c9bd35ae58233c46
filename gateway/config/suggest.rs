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
    let near = known.iter().filter_map(|known| Some((measure(&word, &plain(known))?, *known)));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
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
    (distance <= near).then_some(distance)
}

pub fn for_key(word: &str, known: &[&str]) -> String {
    let mut elsewhere = KNOWN_ELSEWHERE.iter();
    match elsewhere.find(|(elsewhere, _)| elsewhere.eq_ignore_ascii_case(word)) {
        Some((_, hint)) => (*hint).to_string(),
        None => {
            for_word(word, known).unwrap_or_else(|| format!("the keys here are {}", list(known)))
        }
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
    let quoted: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}
