//! Lists in JSON log lines. The formatter supports only texts, numbers and flags, so a list is
//! logged as the text that `JsonList` writes. Other texts that look like lists stay texts.

use serde_json::Value;

/// Fields that contain lists.
pub(crate) const LISTS: [&str; 2] = ["stderr", "programs"];
/// Start of a list in a JSON line.
const LIST_START: &[u8] = b"\":\"[";

/// Converts the fields that contain lists to JSON arrays; returns `None` if there are none.
pub(crate) fn write_lists(line: &[u8]) -> Option<Vec<u8>> {
    // A cheap check, because most lines have no list.
    if !line.windows(LIST_START.len()).any(|part| part == LIST_START) {
        return None;
    }
    let mut fields: serde_json::Map<String, Value> = serde_json::from_slice(line).ok()?;
    for name in LISTS {
        if let Some(value) = fields.get_mut(name)
            && let Some(list) = value.as_str().and_then(read_list)
        {
            *value = list.into();
        }
    }
    let mut text = serde_json::to_vec(&fields).ok()?;
    text.push(b'\n');
    Some(text)
}

/// Parses the text of a field that contains a list.
pub(crate) fn read_list(text: &str) -> Option<Vec<String>> {
    serde_json::from_str(text).ok()
}
