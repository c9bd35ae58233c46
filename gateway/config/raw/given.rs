//! Conversions of raw values to the types of the layers: text, paths, lists and maps of text.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::leaf::{List, Text};

pub fn text_of(text: &Option<Text>) -> Option<String> {
    let Text(text) = text.as_ref()?;
    Some(text.clone())
}

pub fn text_or<'a>(text: &'a Option<Text>, default: &'a str) -> &'a str {
    text.as_ref().map_or(default, |Text(text)| text)
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
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub fn texts_of(map: &BTreeMap<String, Text>) -> BTreeMap<String, String> {
    map.iter().map(|(name, Text(text))| (name.clone(), text.clone())).collect()
}
