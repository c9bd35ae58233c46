//! Tests of `tool_form`.

use serde_json::json;

use super::*;

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "The words to find", "minLength": 1},
            "count": {"type": "integer", "default": 10, "minimum": 1, "maximum": 50},
            "deep": {"type": "boolean"},
            "order": {"enum": ["up", "down", 3]},
            "filter": {"type": "object"},
            "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "day": {"type": "string", "format": "date"},
            "at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3},
            "people": {"type": "array", "items": {"$ref": "#/$defs/person"}},
            "owner": {"$ref": "#/$defs/person"},
        },
        "required": ["text"],
        "$defs": {"person": {
            "type": "object",
            "properties": {"a.b": {"type": "string"}, "age": {"type": "number"}},
            "required": ["a.b"],
        }},
    })
}

fn add_mistakes(fields: &[FormField<'_>], mistakes: &mut Vec<(String, String)>) {
    for field in fields {
        if !field.mistake.is_empty() {
            mistakes.push((field.input.clone(), field.mistake.clone()));
        }
        add_mistakes(&field.children, mistakes);
    }
}

fn read(typed: &str) -> (Option<Value>, Vec<(String, String)>) {
    let typed = Fields::parse(typed.as_bytes());
    let schema = schema();
    let mut fields = make_fields(&schema, &typed);
    let arguments = read_arguments(&mut fields);
    let mut mistakes = Vec::new();
    add_mistakes(&fields, &mut mistakes);
    assert_eq!(fields.iter().any(FormField::has_mistake), !mistakes.is_empty());
    (arguments, mistakes)
}

#[test]
fn what_is_typed_becomes_arguments_of_the_types_of_the_schema() {
    let (arguments, mistakes) = read(
        "arg.text=a+b&arg.count=3&arg.deep=false&arg.order=3&arg.filter=%7B%22x%22%3A1%7D\
         &arg.code=ABC&arg.day=2027-01-31&arg.at=2027-01-31T08:00\
         &count.arg.tags=2&arg.tags.0=x&arg.tags.1=y\
         &count.arg.people=1&arg.people.0.a%252Eb=Ada&arg.people.0.age=36.5",
    );
    assert_eq!(mistakes, []);
    let expected = json!({
        "text": "a b", "count": 3, "deep": false, "order": 3, "filter": {"x": 1}, "code": "ABC",
        "day": "2027-01-31", "at": "2027-01-31T08:00:00Z", "tags": ["x", "y"],
        "people": [{"a.b": "Ada", "age": 36.5}],
    });
    assert_eq!(arguments, Some(expected));
}

#[test]
fn each_rule_that_is_broken_is_said_beside_its_field() {
    for (typed, input, mistake) in [
        ("", "arg.text", "This is required."),
        ("arg.text=x&arg.count=many", "arg.count", "This must be a number."),
        ("arg.text=x&arg.count=0", "arg.count", "This must be at least 1."),
        ("arg.text=x&arg.count=51", "arg.count", "This must be at most 50."),
        ("arg.text=x&arg.count=1.5", "arg.count", "This must be a whole number."),
        ("arg.text=x&arg.code=abc", "arg.code", "This must match the pattern ^[A-Z]{3}$."),
        ("arg.text=x&arg.order=4", "arg.order", "This must be one of the choices."),
        ("arg.text=x&count.arg.tags=1&arg.tags.0=x", "arg.tags", "At least 2 items are required."),
        (
            "arg.text=x&count.arg.people=1&arg.people.0.age=1",
            "arg.people.0.a%2Eb",
            "This is required.",
        ),
    ] {
        let (arguments, mistakes) = read(typed);
        assert_eq!(arguments, None, "{typed}");
        assert_eq!(mistakes, [(input.to_owned(), mistake.to_owned())], "{typed}");
    }
    let (_, mistakes) = read("arg.text=x&arg.filter=%7B");
    assert!(mistakes[0].1.starts_with("This must be JSON"), "{mistakes:?}");
}

#[test]
fn limits_of_one_are_in_the_singular() {
    let check = |schema: &Value, count| check_range(range_of(schema, "Items"), count, " items");
    let one = json!({"minItems": 1});
    assert_eq!(check(&one, 0), Err("At least 1 item is required.".to_owned()));
    assert_eq!(hint_of(&one), "at least 1 item");
    let one = json!({"maxItems": 1});
    assert_eq!(check(&one, 2), Err("At most 1 item is allowed.".to_owned()));
    assert_eq!(hint_of(&json!({"minItems": 2, "maxItems": 3})), "2 to 3 items");
}

#[test]
fn numbers_have_inclusive_and_exclusive_bounds() {
    let bounds = json!({"exclusiveMinimum": 0, "exclusiveMaximum": 3});
    assert_eq!(hint_of(&bounds), "more than 0, less than 3");
    for (text, expected) in [
        ("0", Err("This must be more than 0.")),
        ("0.5", Ok(Some(json!(0.5)))),
        ("3", Err("This must be less than 3.")),
    ] {
        let read = input::read(FieldKind::Number, &bounds, true, text);
        assert_eq!(read, expected.map_err(str::to_owned));
    }
}

#[test]
fn empty_fields_are_left_out_and_defaults_are_there_from_the_start() {
    let (arguments, mistakes) = read("arg.text=x&count.arg.tags=0");
    assert_eq!((arguments, mistakes), (Some(json!({"text": "x", "count": 10})), vec![]));
    assert!(make_fields(&json!({"type": "object"}), &Fields::default()).is_empty());
    let (schema, blank) = (schema(), Fields::default());
    let fields = make_fields(&schema, &blank);
    let tags = fields.iter().find(|field| field.name == "tags").unwrap();
    assert_eq!(tags.children.len(), 2, "as many rows as there must be");
    assert_eq!(hint_of(fields[1].schema), "1 to 50");
}

#[test]
fn an_optional_object_may_be_empty_in_the_browser_and_is_checked_once_it_is_not() {
    let (schema, typed) = (schema(), Fields::parse(b"count.arg.people=1"));
    let mut fields = make_fields(&schema, &typed);
    let demanded = |fields: &[FormField<'_>], named: &str| {
        let field = fields.iter().find(|field| field.name == named).unwrap();
        field
            .children
            .iter()
            .flat_map(|child| &child.children)
            .chain(&field.children)
            .any(|of| of.is_demanded)
    };
    assert!(!demanded(&fields, "owner") && demanded(&fields, "people"));
    assert!(fields.iter_mut().any(|field| field.name == "text" && field.is_demanded));
    let (arguments, mistakes) = read("arg.text=x&arg.owner.age=3");
    assert_eq!(arguments, None);
    assert_eq!(mistakes, [("arg.owner.a%2Eb".to_owned(), "This is required.".to_owned())]);
}

#[test]
fn rows_are_added_and_removed_and_the_others_keep_their_values() {
    let schema = schema();
    let rows = |typed: &str| {
        let typed = Fields::parse(typed.as_bytes());
        let fields = make_fields(&schema, &typed);
        let tags = fields.into_iter().find(|field| field.name == "tags").unwrap();
        let rows = tags.children.into_iter();
        rows.map(|row| (row.input, row.value)).collect::<Vec<_>>()
    };
    let typed = "count.arg.tags=2&arg.tags.0=x&arg.tags.1=y";
    let pair = |input: &str, value: &str| (input.to_owned(), value.to_owned());
    let expected = [pair("arg.tags.0", "x"), pair("arg.tags.1", "y"), pair("arg.tags.2", "")];
    assert_eq!(rows(&format!("{typed}&add=arg.tags")), expected);
    assert_eq!(rows(&format!("{typed}&remove=arg.tags.0")), [pair("arg.tags.0", "y")]);
    assert_eq!(rows("count.arg.tags=1000").len(), MAX_ROWS);
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let schema = json!({
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "$defs": {"tree": {"properties": {"left": {"$ref": "#/$defs/tree"}}}},
    });
    let blank = Fields::default();
    let mut field = &make_fields(&schema, &blank)[0];
    let mut depth = 0;
    while let Some(child) = field.children.first() {
        field = child;
        depth += 1;
    }
    assert_eq!((depth, &field.kind), (MAX_DEPTH, &FieldKind::Json));
    let loops = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
    assert!(make_fields(&loops, &blank).is_empty());
}

/// A server could otherwise make a small schema take gigabytes, and a short pattern seconds.
#[test]
fn the_memory_and_time_of_a_form_are_bounded() {
    let mut properties = Map::new();
    for at in 0..MAX_FIELDS {
        properties.insert(at.to_string(), json!({"$ref": "#/$defs/shared"}));
    }
    for shared in [
        json!({"enum": vec![0; 100_000]}),
        json!({"type": "string", "default": "x".repeat(MAX_BYTES / 2)}),
        json!({"properties": {"x".repeat(MAX_BYTES / 2): {"type": "string"}}}),
    ] {
        let schema = json!({"properties": properties, "$defs": {"shared": shared}});
        assert!(make_fields(&schema, &Fields::default()).len() <= 2, "{}", properties.len());
    }
    let schema = json!({"properties": {"a": {"type": "string", "pattern": "b"}}});
    for (length, is_matched) in [(256, true), (257, false)] {
        let typed = format!("arg.a={}", "a".repeat(length));
        let typed = Fields::parse(typed.as_bytes());
        let mut fields = make_fields(&schema, &typed);
        assert_eq!(read_arguments(&mut fields).is_none(), is_matched, "{length}");
    }
}

fn add_focused(fields: &[FormField<'_>], focused: &mut Vec<String>) {
    for field in fields {
        if field.is_focused {
            focused.push(field.input.clone());
        }
        add_focused(&field.children, focused);
    }
}

fn focus(typed: &str) -> Vec<String> {
    let typed = Fields::parse(typed.as_bytes());
    let person = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "phones": {"type": "array", "items": {"type": "string"}},
    }});
    let nested = json!({"type": "array", "items": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {
        "people": {"type": "array", "items": person},
        "lists": {"type": "array", "items": nested},
    }});
    let mut focused = Vec::new();
    add_focused(&make_fields(&schema, &typed), &mut focused);
    focused
}

#[test]
fn the_first_input_of_a_new_row_has_the_focus() {
    assert_eq!(focus("add=arg.people"), ["arg.people.0.name"]);
    let two = "count.arg.people=1&arg.people.0.name=Ada&add=arg.people";
    assert_eq!(focus(two), ["arg.people.1.name"]);
    let inner = "count.arg.people=1&add=arg.people.0.phones";
    assert_eq!(focus(inner), ["arg.people.0.phones.0"]);
    assert_eq!(focus("add=arg.lists"), ["arg.lists"], "a row without inputs");
}

#[test]
fn the_add_button_has_the_focus_after_a_row_was_removed() {
    let typed = "count.arg.people=2&arg.people.1.name=Ada&remove=arg.people.1";
    assert_eq!(focus(typed), ["arg.people"]);
    let inner = "count.arg.people=1&count.arg.people.0.phones=2&remove=arg.people.0.phones.1";
    assert_eq!(focus(inner), ["arg.people.0.phones"]);
    assert!(focus("").is_empty());
}

#[test]
fn a_form_shows_its_rows_with_their_buttons() {
    let (schema, typed) = (
        schema(),
        Fields::parse(b"count.arg.people=1&arg.people.0.age=1&arg.text=%3C&arg.order=up"),
    );
    let mut fields = make_fields(&schema, &typed);
    read_arguments(&mut fields);
    let shown: String = fields.iter().map(ToString::to_string).collect();
    for part in [
        "<textarea id=\"arg.text\" name=\"arg.text\" rows=\"1\" autocomplete=\"off\" required \
         aria-describedby=\"arg.text-hint\">&#60;</textarea>",
        "<input type=\"hidden\" name=\"count.arg.people\" value=\"1\">",
        "<textarea id=\"arg.people.0.a%2Eb\"",
        "required aria-invalid=\"true\" aria-describedby=\"arg.people.0.a%2Eb-mistake\" autofocus>",
        "name=\"remove\" value=\"arg.people.0\" formnovalidate>",
        "<option selected>up</option><option>down</option><option>3</option>",
        "pattern=\".*(?:^[A-Z]{3}$).*\" title=\"pattern ^[A-Z]{3}$\" ",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
}
