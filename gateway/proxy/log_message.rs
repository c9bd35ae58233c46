//! Log messages of servers, in the form sent to clients.

use std::time::Instant;

use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::write::{self, Object};
use lockgate_upstream::LogLevel;

use crate::pace::LogPace;

/// Writes a log message for a client with this minimum level; the logger names the server. Returns
/// `None` if the message is below the level or over the rate limit.
pub(crate) fn write_log_message(
    slug: &str,
    note: &Request,
    level: LogLevel,
    pace: &LogPace,
) -> Option<Vec<u8>> {
    let severity = LogLevel::parse(&note.param_str(Key::Level)?)?;
    if severity < level || !pace.admits(severity, Instant::now()) {
        return None;
    }
    let mut params = Vec::with_capacity(note.text.len() + slug.len());
    let mut object = Object::open(&mut params);
    object.string("level", severity.as_str());
    match note.param_str(Key::Logger) {
        Some(logger) => object.string("logger", &format!("{slug}/{logger}")),
        None => object.string("logger", slug),
    }
    if let Some(data) = note.param(Key::Data) {
        object.raw("data", data);
    }
    object.close();
    Some(write::notification(Method::Message.as_str(), &params))
}
