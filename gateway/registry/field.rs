//! Validation of body members: names, slugs, addresses, header names and credentials. Errors name
//! the member and the fix. Whether an address may be connected to is checked where connections are
//! made.

use http::HeaderName;
use lockgate_store::Secret;
use lockgate_text::unseen::is_unseen;
use url::Url;

use crate::actor::Warning;
use crate::error::InvalidField;

/// Maximum length of a name, in characters.
pub const NAME_CHARS: usize = 100;
/// Maximum length of a slug, as for servers of the configuration file.
pub const SLUG_CHARS: usize = 64;
const URL_BYTES: usize = 2048;
const HEADER_BYTES: usize = 64;
const CREDENTIALS_BYTES: usize = 8 * 1024;
/// Shorter credentials can be guessed, and match ordinary words when redacted from server output.
const MIN_CREDENTIALS: usize = 8;
const KEY_BYTES: usize = 255;

/// Headers that frame, route or interpret an exchange: credentials may not use them.
const RESERVED: [&str; 21] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "last-event-id",
    "lockgate-identity",
    "origin",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
/// Substrings of the names of secrets, in lower case and without punctuation.
const SECRET_PARTS: [&str; 8] =
    ["apikey", "credential", "passphrase", "passwd", "password", "secret", "signature", "token"];
const SECRET_ENDS: [&str; 1] = ["key"];
const SECRET_NAMES: [&str; 7] = ["auth", "authorization", "code", "jwt", "pass", "pwd", "sig"];
const RESERVED_STARTS: [&str; 4] = ["mcp-", "proxy-", "sec-", "x-forwarded-"];

/// Validates a display name, and trims surrounding blanks.
pub fn name(text: &str) -> Result<String, InvalidField> {
    let name = text.trim();
    if name.contains(|c: char| c.is_control() || is_unseen(c)) {
        let message = "has invisible characters";
        return Err(InvalidField::new("/name", message, "write it with letters, digits and signs"));
    }
    if name.is_empty() || name.chars().count() > NAME_CHARS {
        let message = format!("must have 1 to {NAME_CHARS} characters");
        return Err(InvalidField::new("/name", message, "choose another name"));
    }
    Ok(name.to_owned())
}

/// Returns the form in which names are compared.
pub fn name_key(name: &str) -> String {
    name.to_lowercase()
}

pub fn slug(text: &str) -> Result<String, InvalidField> {
    let is_fit = (1..=SLUG_CHARS).contains(&text.len());
    let is_slug = text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    if is_fit && is_slug {
        return Ok(text.to_owned());
    }
    let message = format!("must be 1 to {SLUG_CHARS} of a-z, 0-9 and -");
    Err(InvalidField::new("/slug", message, "leave it out to derive it from the name"))
}

/// Parses the address of a server, and returns it with its warnings.
pub fn url(text: &str) -> Result<(Url, Vec<Warning>), InvalidField> {
    let example = "write it like https://mcp.example.com/mcp";
    if text.len() > URL_BYTES {
        return Err(wrong_url("is longer than 2048 bytes", "shorten it"));
    }
    // The parser would silently remove blanks and line breaks.
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(wrong_url("has blanks or characters outside of ASCII", "escape them with %"));
    }
    let Ok(url) = Url::parse(text) else { return Err(wrong_url("is not an address", example)) };
    if !matches!(url.scheme(), "https" | "http") || url.host_str().unwrap_or("").is_empty() {
        return Err(wrong_url("must begin with https:// or http://", example));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong_url("contains a user or password", "put secrets into `credentials`"));
    }
    if url.fragment().is_some() {
        return Err(wrong_url(
            "has a fragment (#…), which is never sent to a server",
            "leave it out",
        ));
    }
    for (parameter, _) in url.query_pairs() {
        if is_secret_name(&parameter) {
            return Err(wrong_url(
                "seems to have a secret after the `?`, which is visible to the whole organisation",
                "move it to `credentials`, which are sent in a header; if the server accepts no \
                 header, the operator has to add it",
            ));
        }
    }
    let mut warnings = Vec::new();
    if url.scheme() == "http" {
        warnings.push(Warning {
            code: "INSECURE_URL".to_owned(),
            pointer: "/url".to_owned(),
            message: "credentials, arguments and results cross the network unencrypted; use \
                https:// if the server has it"
                .to_owned(),
        });
    }
    Ok((url, warnings))
}

/// Returns whether a parameter is named like a secret: `tavilyApiKey`, `subscription-key`.
fn is_secret_name(parameter: &str) -> bool {
    let mut name = parameter.to_ascii_lowercase();
    name.retain(|c| c.is_ascii_alphanumeric());
    SECRET_NAMES.contains(&name.as_str())
        || SECRET_PARTS.iter().any(|part| name.contains(part))
        || SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

/// Validates the name of a header that carries a credential, and returns it in lower case.
pub fn header_name(text: &str) -> Result<String, InvalidField> {
    let example = "write it like X-Api-Key";
    if text.len() > HEADER_BYTES {
        return Err(wrong_header("is longer than 64 bytes", example));
    }
    let Ok(name) = HeaderName::from_bytes(text.as_bytes()) else {
        return Err(wrong_header("is not the name of a header", example));
    };
    let name = name.as_str();
    let is_reserved = RESERVED.contains(&name);
    if is_reserved || RESERVED_STARTS.iter().any(|start| name.starts_with(start)) {
        return Err(wrong_header("is a header that the gateway sets", "use the server's own"));
    }
    Ok(name.to_owned())
}

/// Validates a credential. Valid credentials can be sent as a header's value.
pub fn credentials(secret: &Secret) -> Result<(), InvalidField> {
    let text = secret.expose();
    if text.len() < MIN_CREDENTIALS {
        return Err(wrong_credentials(
            "must have at least 8 bytes: shorter ones can be guessed, and cannot be removed from \
             the server's answers",
        ));
    }
    if text.len() > CREDENTIALS_BYTES {
        return Err(wrong_credentials("must have at most 8192 bytes"));
    }
    if !text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return Err(wrong_credentials(
            "has line breaks, control characters or characters outside of ASCII",
        ));
    }
    if text.starts_with(' ') || text.ends_with(' ') {
        return Err(wrong_credentials("begins or ends with a blank"));
    }
    Ok(())
}

fn wrong_url(message: &str, way_out: &str) -> InvalidField {
    InvalidField::new("/url", message, way_out)
}

fn wrong_header(message: &str, way_out: &str) -> InvalidField {
    InvalidField::new("/auth/header", message, way_out)
}

fn wrong_credentials(message: &str) -> InvalidField {
    let way_out = "give the key or the token alone, as the server's operator gave it to you";
    InvalidField::new("/credentials", message, way_out)
}

pub fn idempotency_key(text: &str) -> Result<(), InvalidField> {
    let is_fit = (1..=KEY_BYTES).contains(&text.len());
    if is_fit && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    let message = format!("must be 1 to {KEY_BYTES} ASCII letters, digits and signs");
    Err(InvalidField::new("Idempotency-Key", message, "send a random UUID"))
}

#[cfg(test)]
mod tests;
