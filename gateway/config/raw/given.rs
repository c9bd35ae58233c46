//! Conversions of raw values to the types of the layers: text, paths, lists and maps of text.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::leaf::{List, Text};

pub fn text_of(text: &Option<Text>) -> Option<String> {
    let Text(text) = text.as_ref()?;
    Some(text.clone())
}

pub fn text_or<'a>(text: &'a Option<Text>, default: &'a str) -> &'a str {
    match text {
        Some(Text(text)) => text,
        None => default,
    }
}

pub fn path_of(path: &Option<Text>) -> Option<PathBuf> {
    let Text(path) = path.as_ref()?;
    Some(PathBuf::from(path))
}

pub fn list_or(list: &Option<List>, default: &[&str]) -> Vec<String> {
    match list {
        Some(List(list)) => list.clone(),
        None => owned(default),
    }
}

pub fn owned(words: &[&str]) -> Vec<String> {
    let mut owned = Vec::with_capacity(words.len());
    for word in words {
        owned.push((*word).to_owned());
    }
    owned
}

pub fn texts_of(map: &BTreeMap<String, Text>) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for (name, Text(text)) in map {
        texts.insert(name.clone(), text.clone());
    }
    texts
}
