//! Secrets that have no shape of their own, but stand behind a word that says what they are: `password: …`, `API_KEY=…`,
//! `"client_secret": "…"`. Prose, types, references and placeholders behind such a word stay.

use regex::{Captures, Regex};

/// A word that says that what follows is secret, what stands between, and what follows. Words that also name other things
/// (`token`, `secret`) count alone or behind a word that makes them plain: a token for the next page is none.
const KEYED: &str = r#"(?ix)
    (?P<head>
        (?P<sure> pass(?:word|wd|phrase) | \bpwd | (?:api|access|private|secret|encryption|signing)[_-]?key )
        | (?:^|[^a-z0-9_-]) (?:[a-z0-9]{1,20}[_-])?
          (?: (?:(?:access|auth|refresh|bearer|bot|deploy|api|personal|session)[_-]?)? token
            | (?:(?:client|app|api|shared|webhook|signing|jwt|consumer)[_-]?)? secret )
    )
    (?P<between> ["'\\]{0,3} [\x20\t]{0,4} (?: := | => | [:=] ) [\x20\t]{0,4} ["'`\\]{0,3} )
    (?P<value> [^\s"'`,;<>(){}\[\]\\]{6,256} )
    (?P<after> [(\[]? )
"#;
/// Shortest secret behind a word that may mean something else.
const UNSURE: usize = 16;
/// A token behind such a prefix is a place in a list.
const PLACES: [&str; 6] = ["next", "page", "continuation", "sync", "cursor", "csrf"];

#[derive(Debug)]
pub(super) struct Keyed(Regex);

impl Keyed {
    pub(super) fn compile() -> Result<Self, regex::Error> {
        Regex::new(KEYED).map(Self)
    }

    /// The text without such secrets, if it has some.
    pub(super) fn replace(&self, text: &str) -> Option<String> {
        let mut changed = false;
        let out = self.0.replace_all(text, |found: &Captures<'_>| {
            let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
            let (head, between, value) = (part("head"), part("between"), part("value"));
            let is_place = PLACES.iter().any(|place| head.to_ascii_lowercase().contains(place));
            let long = found.name("sure").is_some() || value.len() >= UNSURE && !is_place;
            if !long || !part("after").is_empty() || !looks_secret(value) {
                return found.get(0).map_or("", |whole| whole.as_str()).to_owned();
            }
            changed = true;
            format!("{head}{between}[redacted: password]")
        });
        changed.then(|| out.into_owned())
    }
}

/// Whether this is somebody's secret, and no word, reference, placeholder, path or address.
fn looks_secret(value: &str) -> bool {
    let value = value.trim_end_matches(['.', ',', '!', '?', ':', '*', '|']);
    let is = |test: fn(char) -> bool| value.chars().any(test);
    let (letters, digits) = (is(|c| c.is_alphabetic()), is(|c| c.is_ascii_digit()));
    let signs = is(|c| matches!(c, '!' | '@' | '#' | '%' | '^' | '&' | '*' | '+' | '?' | '~' | '|' | '$'));
    let is_number = !letters && value.chars().all(|c| c.is_ascii_digit());
    let mixed = letters && (digits || signs) || is_number;
    value.chars().count() >= 6 && mixed && !is_reference(value) && !is_placeholder(value)
}

/// A variable, a path, a URL, an email address.
fn is_reference(value: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let dotted = value.contains('.') && value.split('.').all(is_name);
    let is_mail = value.split_once('@').is_some_and(|(user, host)| {
        host.contains('.') && !user.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
    });
    let is_path = ["/", "~/", "./", "../"].iter().any(|begin| value.starts_with(begin));
    let is_variable = value.starts_with('$') && value.get(1..).is_some_and(is_name);
    let is_sigil = value.starts_with(['%', '@', '&', '*', '#', '!']) && !value.bytes().any(|b| b.is_ascii_digit());
    dotted || is_mail || is_path || is_variable || is_sigil || value.starts_with("${") || value.contains("://")
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let first = value.chars().next();
    let words = ["redacted", "your_", "your-", "yourpass", "xxxx", "changeme", "placeholder", "example"];
    value.chars().all(|c| Some(c) == first) || words.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_be_secret_goes() {
        let keyed = Keyed::compile().unwrap();
        for (text, secret) in [
            ("password: hunter2", "hunter2"),
            ("Password:hunter2", "hunter2"),
            ("password=hunter2 user=x", "hunter2"),
            ("PASSWORD = \"hunter2\"", "hunter2"),
            ("DB_PASSWORD=s3cr3tpw", "s3cr3tpw"),
            ("dbPassword: 'P@ssw0rd!'", "P@ssw0rd"),
            ("\"password\":\"hunter2\"", "hunter2"),
            ("{\\\"password\\\": \\\"hunter2\\\"}", "hunter2"),
            ("'passwd' => 'abc123def'", "abc123def"),
            ("passphrase: tr0ub4dor&3", "tr0ub4dor&3"),
            ("pwd=Sup3rSecret;", "Sup3rSecret"),
            ("spring.datasource.password=q1w2e3r4", "q1w2e3r4"),
            ("--password=letmein99", "letmein99"),
            ("?user=a&password=letmein99&x=1", "letmein99"),
            ("password: 12345678", "12345678"),
            ("password: correct-horse!staple", "correct-horse!staple"),
            ("password := \"abc!def\"", "abc!def"),
            ("api_key: 9f8e7d6c5b4a3f2e1d0c", "9f8e7d6c5b4a3f2e1d0c"),
            ("X-Api-Key: 9f8e7d6c5b4a", "9f8e7d6c5b4a"),
            ("apiKey=\"a1b2c3d4e5f6\"", "a1b2c3d4e5f6"),
            ("SECRET_KEY='django-insecure-4f#k2'", "django-insecure-4f#k2"),
            ("client_secret: 8Q~7aBcD1eFgH2iJkL3mN", "8Q~7aBcD1eFgH2iJkL3mN"),
            ("\"clientSecret\": \"8Q7aBcD1eFgH2iJkL3mN\"", "8Q7aBcD1eFgH2iJkL3mN"),
            ("access_token=a1b2c3d4e5f6a7b8c9d0", "a1b2c3d4e5f6a7b8c9d0"),
            ("token: a1b2c3d4e5f6a7b8c9d0", "a1b2c3d4e5f6a7b8c9d0"),
            ("\"refreshToken\":\"1/a1b2c3d4e5f6a7b8c9d0\"", "a1b2c3d4e5f6a7b8c9d0"),
            ("secret: 0a1b2c3d4e5f60718293", "0a1b2c3d4e5f60718293"),
        ] {
            let out = keyed.replace(text).unwrap_or_else(|| panic!("{text} stays"));
            assert!(!out.contains(secret) && out.contains("[redacted: password]"), "{text}: {out}");
        }
        let out = keyed.replace("user: ada\npassword: hunter2\nhost: db").unwrap();
        assert_eq!(out, "user: ada\npassword: [redacted: password]\nhost: db");
    }

    /// What people and programs write behind the same words without giving anything away.
    #[test]
    fn prose_types_references_and_placeholders_stay() {
        let keyed = Keyed::compile().unwrap();
        for text in [
            "password: required",
            "Password: must be at least 8 characters",
            "password: 8 to 64 characters",
            "password: string",
            "password: str = Field(min_length=8)",
            "password: z.string().min(8)",
            "password VARCHAR(255) NOT NULL",
            "password: { type: string, minLength: 8 }",
            "\"password\": {\"type\": \"string\", \"format\": \"password\"}",
            "\"password\": null",
            "\"password\": true, \"token\": false",
            "password=${DB_PASSWORD1}",
            "password: $DB_PASSWORD",
            "password: <your password>",
            "password: your_password_1",
            "password: ********",
            "password: xxxxxxxx1",
            "password: [redacted]",
            "password: {{ vault.db1 }}",
            "password = os.environ[\"DB1\"]",
            "password = getpass2()",
            "password: process.env.DB1_PASSWORD",
            "password: config.db1.password",
            "password = settings.auth0_password.value",
            "the password is what you choose; password = strong",
            "Forgot password? Reset it: https://example.com/reset1",
            "password: https://example.com/help/2024",
            "wrong password: try again",
            "PWD=/home/user1/work",
            "pwd: /srv/data1",
            "passwords: 1234567",
            "password_length: 12, password_min: 8",
            "password_hash_rounds=100000",
            "max_tokens: 4096000",
            "tokens: 123456789",
            "token: identifier",
            "token: 42",
            "\"nextPageToken\": \"CAUQAA1234567890abcdef\"",
            "next_token=a1b2c3d4e5f6a7b8c9d0",
            "continuation_token: a1b2c3d4e5f6a7b8c9d0",
            "\"nextToken\":\"a1b2c3d4e5f6a7b8c9d0\"",
            "secretName: my-secret-1-of-the-cluster",
            "secret: my-secret",
            "secrets: 3 of 5",
            "keyboard: qwerty123, key: value12345",
            "primary_key: user_id1, foreign_key=order1",
            "password: user@example.com",
            "passport: X1234567",
            "the key to success: practice2win",
            "bypass: 123abc456",
            "api key: see section 2",
            "api_key: https://docs.example.com/v2",
        ] {
            assert_eq!(keyed.replace(text), None, "{text}");
        }
    }
}
