//! A form generated from the JSON Schema of arguments, and the arguments entered in it. It checks
//! only the constraints that it displays: required fields, bounds, patterns and counts. The gateway
//! and the server check the rest.

use askama::Template;
use input::{FieldKind, check_range, default_text, describe, hint_of, kind_of, range_of, resolve};
use serde_json::{Map, Value};

use super::form::Fields;
use super::render::{plain_text, show_text};

mod input;

/// Maximum number of fields; further arguments are entered as JSON.
const MAX_FIELDS: usize = 200;
/// Maximum depth of objects and lists; deeper values are entered as JSON.
const MAX_DEPTH: usize = 5;
/// Maximum number of rows of a list.
const MAX_ROWS: usize = 50;
/// Size of a form's names, defaults and choices, in bytes, beyond which no field is added.
/// References let many fields share a large part of a schema.
const MAX_BYTES: usize = 4 << 20;

/// An argument, or a part of an argument.
#[derive(Clone, Debug, Template)]
#[template(path = "parts/field.html")]
pub(crate) struct FormField<'a> {
    /// The label.
    name: String,
    /// The name of the HTML input.
    input: String,
    kind: FieldKind<'a>,
    /// The schema of the argument, which is not a reference.
    schema: &'a Value,
    description: &'a str,
    is_required: bool,
    /// The entered text, or the default.
    value: String,
    mistake: String,
    /// Members of an object, or rows of a list.
    children: Vec<Self>,
    /// A row of a list, which can be removed.
    is_row: bool,
    /// Whether the browser requires a value: members of an optional object may all be empty.
    is_demanded: bool,
    /// It has the focus after a row was added or removed; of a list, its button has.
    is_focused: bool,
}

/// The inputs of form generation.
struct Source<'a> {
    root: &'a Value,
    typed: &'a Fields,
    /// The number of fields that may still be created.
    room: usize,
    /// The number of bytes that their names, defaults and choices may still take.
    bytes: usize,
}

/// The location of a field: its label, its input, and the input that holds its entered value.
struct Place {
    name: String,
    input: String,
    from: String,
}

impl Place {
    /// Returns the place of an object's member. Dots within names are escaped.
    fn member(&self, name: &str) -> Self {
        let escaped = name.replace('%', "%25").replace('.', "%2E");
        Self {
            name: name.to_owned(),
            input: format!("{}.{escaped}", self.input),
            from: format!("{}.{escaped}", self.from),
        }
    }

    fn row(&self, at: usize, from: usize) -> Self {
        Self {
            name: format!("{} {}", self.name, at + 1),
            input: format!("{}.{at}", self.input),
            from: format!("{}.{from}", self.from),
        }
    }
}

/// Returns the form of a schema, with the entered values.
pub(crate) fn make_fields<'a>(schema: &'a Value, typed: &'a Fields) -> Vec<FormField<'a>> {
    let mut source = Source { root: schema, typed, room: MAX_FIELDS, bytes: MAX_BYTES };
    let root = Place { name: String::new(), input: "arg".into(), from: "arg".into() };
    source.make_members(resolve(schema, schema), &root, None, 0)
}

impl<'a> Source<'a> {
    fn make_members(
        &mut self,
        schema: &'a Value,
        place: &Place,
        default: Option<&'a Value>,
        depth: usize,
    ) -> Vec<FormField<'a>> {
        let Some(Value::Object(properties)) = schema.get("properties") else { return Vec::new() };
        let mut fields = Vec::new();
        for (name, property) in properties {
            if self.room == 0 {
                break;
            }
            let is_required = is_required(schema, name);
            let given = default.and_then(|default| default.get(name));
            let mut field = self.make(property, &place.member(name), given, (is_required, depth));
            if !is_required {
                field.leave_members_empty();
            }
            fields.push(field);
        }
        fields
    }

    fn make(
        &mut self,
        schema: &'a Value,
        place: &Place,
        given: Option<&'a Value>,
        (is_required, depth): (bool, usize),
    ) -> FormField<'a> {
        self.room = self.room.saturating_sub(1);
        let property = resolve(self.root, schema);
        let default = given.or_else(|| property.get("default"));
        let mut kind = kind_of(property, depth < MAX_DEPTH);
        let mut children = Vec::new();
        let mut is_focused = false;
        match kind {
            FieldKind::Group => {
                children = self.make_members(property, place, default, depth + 1);
                if children.is_empty() {
                    kind = FieldKind::Json;
                }
            }
            FieldKind::List => {
                children = self.make_rows(property, place, default, depth + 1);
                let removed = self.typed.get("remove").rsplit_once('.');
                let is_longer = self.typed.get("add") == place.from;
                is_focused = matches!(removed, Some((list, _)) if list == place.from)
                    || is_longer && !children.last_mut().is_some_and(FormField::focus);
            }
            _ => {}
        }
        let value = if self.typed.has(&place.from) {
            self.typed.get_exact(&place.from).to_owned()
        } else {
            default_text(default)
        };
        let bytes = value.len() + place.input.len() + size_of_val(kind.choices());
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.bytes == 0 {
            self.room = 0;
        }
        FormField {
            description: describe(schema, property),
            schema: property,
            name: place.name.clone(),
            input: place.input.clone(),
            mistake: String::new(),
            is_row: false,
            is_demanded: is_required,
            is_required,
            is_focused,
            kind,
            value,
            children,
        }
    }

    /// Creates the submitted rows, with a row added or removed by a button; otherwise the rows of
    /// the default, or the required minimum.
    fn make_rows(
        &mut self,
        schema: &'a Value,
        place: &Place,
        default: Option<&'a Value>,
        depth: usize,
    ) -> Vec<FormField<'a>> {
        let items = schema.get("items").unwrap_or(&Value::Null);
        let given = default.and_then(Value::as_array);
        let least = range_of(schema, "Items").0.unwrap_or(0);
        let typed = self.typed.get(&format!("count.{}", place.from)).parse();
        let count = typed.unwrap_or_else(|_| given.map_or(least, Vec::len));
        let mut rows: Vec<usize> = (0..usize::min(count, MAX_ROWS)).collect();
        let removed = self.typed.get("remove");
        rows.retain(|row| format!("{}.{row}", place.from) != removed);
        if self.typed.get("add") == place.from && rows.len() < MAX_ROWS {
            rows.push(rows.last().map_or(0, |last| last + 1).max(rows.len()));
        }
        let mut fields = Vec::new();
        for (at, from) in rows.into_iter().enumerate() {
            if self.room == 0 {
                break;
            }
            let given = given.and_then(|given| given.get(from));
            let mut row = self.make(items, &place.row(at, from), given, (false, depth));
            row.is_row = true;
            fields.push(row);
        }
        fields
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|given| given == name))
}

impl FormField<'_> {
    /// Lets the browser send an object without its required members, which omits the object.
    fn leave_members_empty(&mut self) {
        if self.kind == FieldKind::Group {
            for child in &mut self.children {
                child.is_demanded = false;
                child.leave_members_empty();
            }
        }
    }

    /// Focuses the first input. Returns `false` if there is none.
    fn focus(&mut self) -> bool {
        match self.kind {
            FieldKind::Group | FieldKind::List => self.children.iter_mut().any(Self::focus),
            _ => {
                self.is_focused = true;
                true
            }
        }
    }

    pub(crate) fn has_mistake(&self) -> bool {
        !self.mistake.is_empty() || self.children.iter().any(Self::has_mistake)
    }

    /// Returns the entered value, or `None` for an empty field. Mistakes are stored in their field.
    fn read(&mut self, is_good: &mut bool) -> Option<Value> {
        let read = match self.kind {
            FieldKind::Group if !self.is_required && self.is_blank() => Ok(None),
            FieldKind::Group => Ok(Some(read_members(&mut self.children, is_good).into())),
            FieldKind::List => self.read_rows(is_good),
            _ => input::read(self.kind, self.schema, self.is_required, &self.value),
        };
        read.unwrap_or_else(|mistake| {
            self.mistake = mistake;
            *is_good = false;
            None
        })
    }

    fn read_rows(&mut self, is_good: &mut bool) -> Result<Option<Value>, String> {
        let mut values = Vec::new();
        for child in &mut self.children {
            values.extend(child.read(is_good));
        }
        if values.is_empty() && !self.is_required {
            return Ok(None);
        }
        check_range(range_of(self.schema, "Items"), values.len(), " items")?;
        Ok(Some(Value::Array(values)))
    }

    /// Returns whether the field and its children are empty.
    fn is_blank(&self) -> bool {
        match self.kind {
            FieldKind::Group | FieldKind::List => self.children.iter().all(Self::is_blank),
            _ => self.value.is_empty(),
        }
    }
}

/// Returns the arguments of a form, or `None` if a field has a mistake, which the field stores.
pub(crate) fn read_arguments(fields: &mut [FormField<'_>]) -> Option<Value> {
    let mut is_good = true;
    let arguments = read_members(fields, &mut is_good);
    is_good.then_some(arguments.into())
}

fn read_members(fields: &mut [FormField<'_>], is_good: &mut bool) -> Map<String, Value> {
    let mut members = Map::new();
    for field in fields {
        if let Some(value) = field.read(is_good) {
            members.insert(field.name.clone(), value);
        }
    }
    members
}

/// Assigns an error of the gateway or the server, such as `/arguments/id: is no number`, to the
/// field that it names. Returns whether there is such a field.
pub(crate) fn note_mistake(fields: &mut [FormField<'_>], words: &str) -> bool {
    for field in fields {
        let marks = [format!("/{}", field.name), format!("`{}`", field.name)];
        if marks.iter().any(|mark| words.contains(mark.as_str())) {
            words.clone_into(&mut field.mistake);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
