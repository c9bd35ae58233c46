//! Shapes of known secrets. Each begins with characters that ordinary text does not contain, so
//! that ordinary text is kept.

use std::sync::OnceLock;

use regex::{Captures, Regex, RegexSet, RegexSetBuilder};

/// Names and shapes of secrets. The groups `keep` and `end` of a match are kept.
const SHAPES: &[(&str, &str)] = &[
    ("AWS key", r"\b(?:AKIA|ASIA|AGPA|AROA|AIDA)[A-Z2-7]{16}\b"),
    (
        "AWS secret key",
        concat!(
            r#"(?i)(?P<keep>aws_?secret_?(?:access_?)?key["'\\]{0,3}\s{0,4}[:=]\s{0,4}"#,
            r#"["'\\]{0,3})[A-Za-z0-9/+=]{40}"#,
        ),
    ),
    ("Google key", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("Google token", r"\bya29\.[0-9A-Za-z_-]{20,}"),
    ("Azure key", r"(?P<keep>AccountKey=)[A-Za-z0-9+/]{64,88}={0,2}"),
    ("Azure signature", r"(?P<keep>[?&]sig=)[A-Za-z0-9%+/]{40,}={0,2}"),
    ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})"),
    ("GitLab token", r"\bgl(?:pat|ptt|dt|rt|cbt|soat)-[A-Za-z0-9_-]{20,}"),
    ("Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("Slack address", r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    ("Stripe key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("API key", r"\bsk-(?:proj-|ant-[a-z0-9]{2,8}-|or-v1-|svcacct-)?[A-Za-z0-9_-]{32,}"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}"),
    ("PyPI token", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}"),
    ("Hugging Face token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("SendGrid key", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("DigitalOcean token", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    ("Lockgate key", r"\blg_[0-9a-f]{16}_[0-9a-f]{32,64}"),
    ("Vault token", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    ("Telegram token", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    (
        "private key",
        concat!(
            r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----",
            r"(?s:.*?)(?:-----END [A-Z0-9 ]{1,64}-----|\z)",
        ),
    ),
    ("age key", r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}"),
    ("JWT", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    (
        "basic credentials",
        concat!(
            r#"(?i)(?P<keep>\bauthorization["'\\]{0,3}\s{0,4}[:=]\s{0,4}["'\\]{0,3}"#,
            r"basic\s{1,4})[A-Za-z0-9+/]{6,}={0,2}",
        ),
    ),
    ("bearer token", r"(?i)(?P<keep>\bbearer\s{1,4})[A-Za-z0-9._~+/-]{20,}={0,2}"),
    (
        "password",
        concat!(
            r"(?P<keep>\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@'\x22]{0,128}:)",
            r"[^\s/@'\x22]{1,256}(?P<end>@)",
        ),
    ),
    (
        "password",
        concat!(
            r"(?i)(?P<keep>\b(?:server|host|data source|user id|uid|user|username|database)",
            r"\s?=[^;\n]{1,128};[^\n]{0,256}?\b(?:password|pwd)\s?=\s?)[^;\s\x22']{1,128}",
        ),
    ),
];

/// All shapes, compiled once per process.
#[derive(Debug)]
pub(super) struct Shapes {
    any: RegexSet,
    each: Vec<(Regex, String)>,
    keyed: Regex,
}

impl Shapes {
    pub(super) fn get() -> Result<&'static Self, String> {
        static SHAPES: OnceLock<Result<Shapes, regex::Error>> = OnceLock::new();
        let compiled = SHAPES.get_or_init(Self::compile).as_ref();
        compiled.map_err(|error| format!("known secrets: {error}"))
    }

    fn compile() -> Result<Self, regex::Error> {
        let mut any = RegexSetBuilder::new(SHAPES.iter().map(|(_, shape)| shape));
        let any = any.size_limit(16 << 20).build()?;
        let mut each = Vec::with_capacity(SHAPES.len());
        for (name, shape) in SHAPES {
            let kept = if shape.contains("?P<keep>") { "${keep}" } else { "" };
            let end = if shape.contains("?P<end>") { "${end}" } else { "" };
            each.push((Regex::new(shape)?, format!("{kept}[redacted: {name}]{end}")));
        }
        Ok(Self { any, each, keyed: Regex::new(KEYED)? })
    }

    /// Redacts secrets; returns `None` if there are none.
    pub(super) fn replace(&self, text: &str) -> Option<String> {
        let found = self.any.matches(text);
        let mut out: Option<String> = None;
        for at in found {
            let Some((regex, with)) = self.each.get(at) else { continue };
            let before = out.as_deref().unwrap_or(text);
            out = Some(regex.replace_all(before, with.as_str()).into_owned());
        }
        self.replace_keyed(out.as_deref().unwrap_or(text)).or(out)
    }

    /// Redacts the value of a member if its name announces a secret.
    pub(super) fn replace_member(&self, name: &str, text: &str) -> Option<String> {
        // A text of several words is redacted on its own.
        if text.contains(char::is_whitespace) {
            return None;
        }
        self.replace_keyed(&format!("{name}: {text}"))?;
        Some("[redacted: password]".to_owned())
    }

    /// Redacts secrets that follow a word naming them; returns `None` if there are none.
    fn replace_keyed(&self, text: &str) -> Option<String> {
        let mut changed = false;
        let out = self.keyed.replace_all(text, |found: &Captures<'_>| {
            let head = part(found, "head");
            let between = part(found, "between");
            let value = part(found, "value");
            let is_place = PLACES.iter().any(|place| head.to_ascii_lowercase().contains(place));
            let long =
                found.name("sure").is_some() || value.len() >= MIN_AMBIGUOUS_SECRET && !is_place;
            if !long || !part(found, "after").is_empty() || !looks_secret(value) {
                return found.get(0).map_or(String::new(), |whole| whole.as_str().to_owned());
            }
            changed = true;
            format!("{head}{between}[redacted: password]")
        });
        changed.then(|| out.into_owned())
    }
}

// Secrets without a characteristic shape that follow a word naming them: `password: …`,
// `API_KEY=…`, `"client_secret": "…"`. Prose, types, references and placeholders after such a word
// are kept.

/// A word that announces a secret, the separator, and the value. Words with other meanings
/// (`token`, `secret`) count only alone or after a qualifying word: a token for the next page is
/// not a secret.
const KEYED: &str = r#"(?ix)
    (?P<head>
        (?P<sure> pass(?:word|wd|phrase) | \bpwd
          | (?:api|access|private|secret|encryption|signing)[_-]?key )
        | (?:^|[^a-z0-9_-]) (?:[a-z0-9]{1,20}[_-])?
          (?: (?:(?:access|auth|refresh|bearer|bot|deploy|api|personal|session)[_-]?)? token
            | (?:(?:client|app|api|shared|webhook|signing|jwt|consumer)[_-]?)? secret )
    )
    (?P<between> ["'\\]{0,3} [\x20\t]{0,4} (?: := | => | [:=] ) [\x20\t]{0,4} ["'`\\]{0,3} )
    (?P<value> [^\s"'`,;<>(){}\[\]\\]{6,256} )
    (?P<after> [(\[]? )
"#;
/// Minimum length of a secret after an ambiguous word, in bytes.
const MIN_AMBIGUOUS_SECRET: usize = 16;
/// Words that mark a token as a list position or a CSRF token, which is not redacted.
const PLACES: [&str; 6] = ["next", "page", "continuation", "sync", "cursor", "csrf"];

fn part<'a>(found: &'a Captures<'_>, name: &str) -> &'a str {
    found.name(name).map_or("", |part| part.as_str())
}

/// Returns whether a value is a secret rather than a word, reference, placeholder, path or address.
fn looks_secret(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',', '!', '?', ':', '*', '|']);
    let letters = value.contains(char::is_alphabetic);
    let digits = value.contains(|c: char| c.is_ascii_digit());
    let signs = value.contains(['!', '@', '#', '%', '^', '&', '*', '+', '?', '~', '|', '$']);
    let is_number = !letters && value.chars().all(|c| c.is_ascii_digit());
    let mixed = letters && (digits || signs) || is_number;
    value.chars().count() >= 6 && mixed && !is_reference(value) && !is_placeholder(value)
}

/// Returns whether a value is a variable, a path, a URL or an email address.
fn is_reference(value: &str) -> bool {
    let dotted = value.contains('.') && value.split('.').all(is_name);
    let is_path = ["/", "~/", "./", "../"].iter().any(|start| value.starts_with(start));
    let is_variable = matches!(value.strip_prefix('$'), Some(name) if is_name(name));
    let is_sigil = value.starts_with(['%', '@', '&', '*', '#', '!'])
        && !value.contains(|c: char| c.is_ascii_digit());
    dotted
        || is_mail(value)
        || is_path
        || is_variable
        || is_sigil
        || value.starts_with("${")
        || value.contains("://")
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_mail(value: &str) -> bool {
    let Some((user, host)) = value.split_once('@') else { return false };
    host.contains('.')
        && !user.is_empty()
        && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let first = value.chars().next();
    let words =
        ["redacted", "your_", "your-", "yourpass", "xxxx", "changeme", "placeholder", "example"];
    value.chars().all(|c| Some(c) == first) || words.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests;
