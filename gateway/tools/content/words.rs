//! Text with placeholders: `{{name}}`, `{{name|json}}` (as a JSON string) and `{{name|quote}}`
//! (each line prefixed with `> `). Inserted values are never scanned for further placeholders.
//! `{{{{` is an escaped `{{`.

/// Maximum number of placeholders per text.
const MAX_PLACEHOLDERS: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Plain(String),
    Gap { name: String, form: Form },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Json,
    Quote,
}

impl Words {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            plain.push_str(before);
            if let Some(after) = after.strip_prefix("{{") {
                plain.push_str("{{");
                rest = after;
                continue;
            }
            let Some((inside, after)) = after.split_once("}}") else {
                return Err("a `{{` is not closed; write {{{{ for the two characters".into());
            };
            let (name, form) = inside.split_once('|').unwrap_or((inside, ""));
            let form = match form.trim() {
                "" => Form::Plain,
                "json" => Form::Json,
                "quote" => Form::Quote,
                _ => return Err("a placeholder has an unknown form; use json or quote".into()),
            };
            pieces.push(Piece::Plain(std::mem::take(&mut plain)));
            pieces.push(Piece::Gap { name: name.trim().to_owned(), form });
            if pieces.len() > 2 * MAX_PLACEHOLDERS {
                return Err(format!("there are more than {MAX_PLACEHOLDERS} placeholders"));
            }
            rest = after;
        }
        plain.push_str(rest);
        pieces.push(Piece::Plain(plain));
        Ok(Self(pieces))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Gap { name, .. } => Some(name.as_str()),
            Piece::Plain(_) => None,
        })
    }

    /// Fills every placeholder. Missing values are empty.
    pub(super) fn fill<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Plain(text) => out.push_str(text),
                Piece::Gap { name, form } => {
                    let value = value(name).unwrap_or("");
                    match form {
                        Form::Plain => out.push_str(value),
                        Form::Json => out.push_str(&serde_json::Value::from(value).to_string()),
                        Form::Quote => out.push_str(&quoted(value)),
                    }
                }
            }
        }
        out
    }
}

fn quoted(value: &str) -> String {
    let value = value.replace("\r\n", "\n");
    // A trailing line break does not start another line.
    let whole = value.strip_suffix(is_break).unwrap_or(&value);
    if value.is_empty() {
        return value;
    }
    let mut quoted = String::with_capacity(value.len() + 2);
    for line in whole.split(is_break) {
        if !quoted.is_empty() {
            quoted.push('\n');
        }
        quoted.push_str("> ");
        quoted.push_str(line);
    }
    quoted
}

/// Returns whether a reader may interpret the character as a line break.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}' | '\u{85}' | '\u{b}' | '\u{c}')
}
