//! A form generated from the JSON Schema of arguments, and the arguments entered in it. It checks
//! only the constraints that it displays: required fields, bounds, patterns and counts. The gateway
//! and the server check the rest.

pub(crate) use input::{FieldKind, Rules};
use input::{default_text, describe, kind_of, resolve, rules_of};
use serde_json::{Map, Value};

use super::form::Fields;

mod input;

/// Maximum number of fields; further arguments are entered as JSON.
const MAX_FIELDS: usize = 200;
/// Maximum depth of objects and lists; deeper values are entered as JSON.
const MAX_DEPTH: usize = 5;
/// Maximum number of rows of a list.
const MAX_ROWS: usize = 50;
/// Memory of a form's texts and choices, in bytes, beyond which no field is added. References let
/// many fields share a large part of a schema, and each field copies it.
const MAX_BYTES: usize = 4 << 20;

/// An argument, or a part of an argument.
#[derive(Clone, Debug)]
pub(crate) struct FormField {
    /// The label.
    pub(crate) name: String,
    /// The name of the HTML input.
    pub(crate) input: String,
    pub(crate) kind: FieldKind,
    pub(crate) description: String,
    pub(crate) rules: Rules,
    /// The entered text, or the default.
    pub(crate) value: String,
    pub(crate) mistake: String,
    /// Members of an object, or rows of a list.
    children: Vec<Self>,
    /// A row of a list, which can be removed.
    is_row: bool,
    /// Whether the browser requires a value: members of an optional object may all be empty.
    pub(crate) is_demanded: bool,
}

/// One step of rendering a form from start to end.
pub(crate) enum FormStep<'a> {
    Open(&'a FormField),
    Field(&'a FormField),
    /// The end of a list, with a button that adds a row.
    Add(&'a FormField),
    /// A button that removes a row.
    Remove(&'a FormField),
    Close,
}

/// The inputs of form generation.
struct Source<'a> {
    root: &'a Value,
    typed: &'a Fields,
    /// The number of fields that may still be created.
    room: usize,
    /// The number of bytes that their texts and choices may still take.
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
pub(crate) fn make_fields(schema: &Value, typed: &Fields) -> Vec<FormField> {
    let mut source = Source { root: schema, typed, room: MAX_FIELDS, bytes: MAX_BYTES };
    let root = Place { name: String::new(), input: "arg".into(), from: "arg".into() };
    source.make_members(resolve(schema, schema), &root, None, 0)
}

impl Source<'_> {
    fn make_members(
        &mut self,
        schema: &Value,
        place: &Place,
        default: Option<&Value>,
        depth: usize,
    ) -> Vec<FormField> {
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
        schema: &Value,
        place: &Place,
        given: Option<&Value>,
        (is_required, depth): (bool, usize),
    ) -> FormField {
        self.room = self.room.saturating_sub(1);
        let property = resolve(self.root, schema);
        let default = given.or_else(|| property.get("default"));
        let mut kind = kind_of(property, depth < MAX_DEPTH);
        let mut children = Vec::new();
        match kind {
            FieldKind::Group => {
                children = self.make_members(property, place, default, depth + 1);
                if children.is_empty() {
                    kind = FieldKind::Json;
                }
            }
            FieldKind::List => children = self.make_rows(property, place, default, depth + 1),
            _ => {}
        }
        let typed = self.typed.has(&place.from);
        let value = if typed {
            self.typed.get_exact(&place.from).to_owned()
        } else {
            default_text(default)
        };
        let field = FormField {
            description: describe(schema, property),
            rules: rules_of(property, is_required),
            name: place.name.clone(),
            input: place.input.clone(),
            mistake: String::new(),
            is_row: false,
            is_demanded: is_required,
            kind,
            value,
            children,
        };
        self.charge(field.bytes());
        field
    }

    /// Charges a field to the memory of the form.
    fn charge(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.bytes == 0 {
            self.room = 0;
        }
    }

    /// Creates the submitted rows, with a row added or removed by a button; otherwise the rows of
    /// the default, or the required minimum.
    fn make_rows(
        &mut self,
        schema: &Value,
        place: &Place,
        default: Option<&Value>,
        depth: usize,
    ) -> Vec<FormField> {
        let items = schema.get("items").unwrap_or(&Value::Null);
        let given = default.and_then(Value::as_array);
        let least = rules_of(schema, false).min_items.unwrap_or(0);
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

impl FormField {
    /// Returns the memory of the field's own texts and choices, in bytes.
    fn bytes(&self) -> usize {
        self.name.len()
            + self.input.len()
            + self.description.len()
            + self.value.len()
            + self.rules.pattern.len()
            + self.kind.bytes()
    }

    pub(crate) fn count(&self) -> usize {
        self.children.len()
    }

    /// Lets the browser send an object without its required members, which omits the object.
    fn leave_members_empty(&mut self) {
        if self.kind == FieldKind::Group {
            for child in &mut self.children {
                child.is_demanded = false;
                child.leave_members_empty();
            }
        }
    }

    /// Returns the ids of the elements that describe the input.
    pub(crate) fn described_by(&self) -> String {
        let mut ids = Vec::new();
        if !self.description.is_empty() || !self.rules.hint().is_empty() {
            ids.push(format!("{}-hint", self.input));
        }
        if !self.mistake.is_empty() {
            ids.push(format!("{}-mistake", self.input));
        }
        ids.join(" ")
    }

    fn add_steps<'a>(&'a self, steps: &mut Vec<FormStep<'a>>) {
        match self.kind {
            FieldKind::Group | FieldKind::List => {
                steps.push(FormStep::Open(self));
                for child in &self.children {
                    child.add_steps(steps);
                }
                if self.kind == FieldKind::List {
                    steps.push(FormStep::Add(self));
                }
                if self.is_row {
                    steps.push(FormStep::Remove(self));
                }
                steps.push(FormStep::Close);
            }
            _ => {
                steps.push(FormStep::Field(self));
                if self.is_row {
                    steps.push(FormStep::Remove(self));
                }
            }
        }
    }

    /// Returns the entered value, or `None` for an empty field. Mistakes are stored in their field.
    fn read(&mut self, is_good: &mut bool) -> Option<Value> {
        let read = match self.kind {
            FieldKind::Group => Ok(self.read_members(is_good)),
            FieldKind::List => self.read_rows(is_good),
            _ => input::read(&self.kind, &self.rules, &self.value),
        };
        read.unwrap_or_else(|mistake| {
            self.mistake = mistake;
            *is_good = false;
            None
        })
    }

    fn read_members(&mut self, is_good: &mut bool) -> Option<Value> {
        let is_blank = self.is_blank();
        if is_blank && !self.rules.is_required {
            return None;
        }
        let mut members = Map::new();
        for child in &mut self.children {
            if let Some(value) = child.read(is_good) {
                members.insert(child.name.clone(), value);
            }
        }
        Some(Value::Object(members))
    }

    fn read_rows(&mut self, is_good: &mut bool) -> Result<Option<Value>, String> {
        let mut values = Vec::new();
        for child in &mut self.children {
            values.extend(child.read(is_good));
        }
        self.rules.check_count(values.len())?;
        let is_left_out = values.is_empty() && !self.rules.is_required;
        Ok((!is_left_out).then_some(Value::Array(values)))
    }

    /// Returns whether the field and its children are empty.
    fn is_blank(&self) -> bool {
        match self.kind {
            FieldKind::Group | FieldKind::List => self.children.iter().all(Self::is_blank),
            _ => self.value.is_empty(),
        }
    }
}

pub(crate) fn list_steps(fields: &[FormField]) -> Vec<FormStep<'_>> {
    let mut steps = Vec::new();
    for field in fields {
        field.add_steps(&mut steps);
    }
    steps
}

/// Returns the arguments of a form, or `None` if a field has a mistake, which the field stores.
pub(crate) fn read_arguments(fields: &mut [FormField]) -> Option<Value> {
    let mut arguments = Map::new();
    let mut is_good = true;
    for field in fields {
        if let Some(value) = field.read(&mut is_good) {
            arguments.insert(field.name.clone(), value);
        }
    }
    is_good.then_some(Value::Object(arguments))
}

/// Assigns an error of the gateway or the server, such as `/arguments/id: is no number`, to the
/// field that it names. Returns whether there is such a field.
pub(crate) fn note_mistake(fields: &mut [FormField], words: &str) -> bool {
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
