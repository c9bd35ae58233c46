//! The attributes of an element, and whether they hide it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use html5gum::{HtmlString, Spanned};

/// Elements that contain the whole page; attributes never hide them.
const WHOLE: [&str; 3] = ["body", "head", "html"];

pub(super) type Attributes = BTreeMap<HtmlString, Spanned<HtmlString, ()>>;

pub(super) fn attribute<'a>(attributes: &'a Attributes, name: &str) -> Option<Cow<'a, str>> {
    attributes.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value))
}

/// Returns whether an element is hidden from people, and therefore from models.
pub(super) fn is_hidden(name: &str, attributes: &Attributes) -> bool {
    if WHOLE.contains(&name) {
        return false;
    }
    if attributes.contains_key(&b"hidden"[..]) {
        return true;
    }
    if let Some(value) = attribute(attributes, "aria-hidden")
        && value.trim().eq_ignore_ascii_case("true")
    {
        return true;
    }
    attribute(attributes, "style").is_some_and(|style| style.split(';').any(hides))
}

/// Returns whether a style declaration, such as `opacity: 0`, hides the element.
fn hides(declaration: &str) -> bool {
    let Some((property, value)) = declaration.split_once(':') else { return false };
    let value = value.trim().to_ascii_lowercase();
    let value = value.trim_end_matches("!important").trim_end();
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    match &*property.trim().to_ascii_lowercase() {
        "display" => value == "none",
        "visibility" => matches!(value, "hidden" | "collapse"),
        "opacity" | "font-size" => number.trim().parse().is_ok_and(|number: f64| number < 0.01),
        _ => false,
    }
}
