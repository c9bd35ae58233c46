//! `database/import`, `imports`, `drop_import`: imports CSV resources of any server as tables of
//! the caller's embedded database. A resource is read on behalf of the caller, subject to the
//! policy.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::connections::{EMBEDDED, Shared, columns_schema};
use super::csv::Sheet;
use super::embedded::{Embedded, Mode, Owner};
use crate::tool::{
    Arguments, Client, Effect, Output, STRICT, Tool, ToolError, ToolSpec, first_chars, list_schema,
};

fn table_argument() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": 63,
        "description": "Letters, digits and _, beginning with a letter",
    })
}

fn table(arguments: &Arguments) -> Result<&str, ToolError> {
    let name = arguments.text("table")?;
    let own = name.to_ascii_lowercase();
    if name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        || !name.starts_with(|c: char| c.is_ascii_alphabetic())
        || own.starts_with("sqlite_")
        || own.starts_with("lockgate_")
    {
        return Err(ToolError::new(
            "`table` must be letters, digits and _, begin with a letter, and not with sqlite_ or \
                lockgate_",
        ));
    }
    Ok(name)
}

pub(super) struct Import(pub(super) Arc<Shared>, pub(super) Embedded);

impl Tool for Import {
    fn spec(&self) -> ToolSpec {
        self.0.spec(
            "database/import",
            "Import CSV",
            "Creates a table from a CSV resource (`uri` as in your resource list), which `query` \
                then reads with connection `embedded`. The first line names the columns; types \
                are detected. The table belongs to your organisation.",
        )
        .input(json!({
            "uri": {"type": "string", "minLength": 1, "maxLength": 4096}, "table": table_argument(),
            "mode?": {"type": "string", "enum": ["replace", "append"], "default": "replace"},
        }))
        .output(json!({
            "connection": "string", "table": "string", "imported": "integer", "rows": "integer",
            "columns": columns_schema(),
        }))
        .effect(Effect::Writes { destructive: true, idempotent: false })
        .asks_servers()
        .permissions(&["database:import"])
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let name = table(&arguments)?.to_owned();
        let uri = arguments.text("uri")?.to_owned();
        let mode = if arguments.text("mode")? == "append" { Mode::Append } else { Mode::Replace };
        let Some(caller_view) = client.caller_view else {
            let words = "the call has no caller, so there is no resource to read";
            return Err(ToolError::new(words));
        };
        let resource = caller_view.read(&uri).await?;
        let text = csv_text(resource, self.0.limits.embedded.import_size)?;
        let owner = Owner::of(&client);
        let made = self.1.run(move |embedded| {
            let sheet = Sheet::read(text)?;
            embedded.import(&owner, &name, &uri, &sheet, mode)
        });
        let mut made = made.await?;
        made["connection"] = EMBEDDED.into();
        Ok(made.into())
    }
}

/// Returns the CSV text of a `resources/read` result. Frees the result, so that only one copy of
/// the text remains in memory.
#[allow(
    clippy::needless_pass_by_value,
    reason = "it is as large as the text, and no longer needed"
)]
fn csv_text(result: Bytes, most: usize) -> Result<String, ToolError> {
    let Ok(mut read) = STRICT.read(&result) else {
        return Err(ToolError::new("the server's answer cannot be read"));
    };
    drop(result);
    let contents = match read.get_mut("contents") {
        Some(Value::Array(contents)) => contents.as_mut_slice(),
        _ => &mut [],
    };
    let [content] = contents else {
        return Err(ToolError::new(
            "the resource must be one text; this one has several parts, or none",
        ));
    };
    let kind = content["mimeType"].as_str().unwrap_or("");
    let essence = kind.split(';').next().unwrap_or("");
    if !essence.trim().eq_ignore_ascii_case("text/csv") {
        return Err(ToolError::new(format!(
            "the resource is not text/csv but {}",
            first_chars(kind, 60).escape_default()
        )));
    }
    let text = match (take_text(content, "text"), take_text(content, "blob")) {
        (Some(text), _) => text,
        (None, Some(blob)) => decode_text(&blob)?,
        (None, None) => return Err(ToolError::new("the resource is empty")),
    };
    if text.len() > most {
        return Err(ToolError::new(format!("the CSV has {} bytes, more than {most}", text.len())));
    }
    Ok(text)
}

fn take_text(content: &mut Value, name: &str) -> Option<String> {
    match content.get_mut(name)?.take() {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn decode_text(base64: &str) -> Result<String, ToolError> {
    let Ok(bytes) = STANDARD.decode(base64) else {
        return Err(ToolError::new("the resource is not base64"));
    };
    String::from_utf8(bytes).map_err(|_| ToolError::new("the CSV is not UTF-8"))
}

pub(super) struct Imports(pub(super) Arc<Shared>, pub(super) Embedded);

impl Tool for Imports {
    fn spec(&self) -> ToolSpec {
        self.0
            .spec(
                "database/imports",
                "Imported tables",
                "Lists the tables that were imported for your organisation: name, source URI, rows \
                and time.",
            )
            .output(json!({
                "imports": list_schema(json!({
                    "table": "string", "uri": "string", "rows": "integer", "imported_at": "string",
                })),
            }))
    }

    async fn run(&self, _: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let owner = Owner::of(&client);
        let imports = self.1.run(move |embedded| embedded.list(&owner)).await?;
        Ok(json!({"imports": imports}).into())
    }
}

pub(super) struct DropImport(pub(super) Arc<Shared>, pub(super) Embedded);

impl Tool for DropImport {
    fn spec(&self) -> ToolSpec {
        self.0
            .spec(
                "database/drop_import",
                "Drop an imported table",
                "Deletes a table created by `import`, with its rows.",
            )
            .input(json!({"table": table_argument()}))
            .output(json!({"dropped": "string"}))
            .effect(Effect::Writes { destructive: true, idempotent: false })
            .permissions(&["database:import"])
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let owner = Owner::of(&client);
        let name = table(&arguments)?.to_owned();
        let dropped = name.clone();
        self.1.run(move |embedded| embedded.drop_table(&owner, &name)).await?;
        Ok(json!({"dropped": dropped}).into())
    }
}

#[cfg(test)]
mod tests;
