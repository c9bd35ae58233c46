//! Skills (SEP-2640): entries and directories that a server returns for a single URI, under the
//! rules of the merged lists. Page: extensions/skills (ext-skills).

use bytes::Bytes;
use lockgate_policy::TargetKind;
use lockgate_policy::pin::HiddenText;
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::key::Key;
use lockgate_protocol::list::{self, Form, RESOURCE, Raw, SKILL, Shown};
use lockgate_protocol::method::Method;
use lockgate_protocol::scan::Scanner;
use lockgate_protocol::{code, uri, write};
use lockgate_upstream::Item;

use crate::authorize::Permitted;
use crate::catalog::template::Steps;
use crate::context::RequestContext;
use crate::inspect::{Inspector, has_hidden_text};
use crate::rescue::RequestError;
use crate::tokens;

const SCHEME: &str = "skill://";
/// Maximum number of entries on a page of a directory.
const MAX_CHILDREN: usize = 1000;

/// Returns whether a method of the extension is offered.
pub(crate) fn is_offered(method: Method, offers: &Offers) -> bool {
    if method == Method::DirectoryRead { offers.directory_read } else { offers.skills }
}

/// Rewrites the entry of a skill. A skill that the merged list would quarantine is unknown.
pub(crate) fn rewrite_skill(
    context: &RequestContext,
    permitted: &Permitted,
    entry: &[u8],
) -> Result<Vec<u8>, RequestError> {
    let server = &**permitted.server();
    let asked = context.request.param_str(Key::Uri).unwrap_or_default();
    let array = [b"[".as_slice(), entry, b"]"].concat();
    let Some(Raw { key, text }) = read(array, &SKILL, context)?.pop() else {
        return Err(permitted.broken("sent an entry that is not that of a skill"));
    };
    if *key != *permitted.target() {
        return Err(permitted.broken("sent the entry of another skill"));
    }
    let item = Item { key: key.into(), text, headers: None };
    let is_builtin = server.stats().is_none();
    let inspector = Inspector::new(&context.snapshot.config.pins);
    if inspector.inspect(server, &item, is_builtin, true).quarantined {
        tracing::warn!(
            server = server.slug(),
            skill = &*item.key,
            "skill quarantined; see `lockgate pins diff`"
        );
        return Err(RequestError::unknown_resource(&asked, context.missing_resource()));
    }
    let mut out = Vec::with_capacity(item.text.len() + 256);
    show(context, permitted, &item.text, &asked, &mut out);
    Ok(out)
}

/// Returns whether a request reads a file of a skill, of a server that is not built in.
pub(crate) fn reads_file(context: &RequestContext, permitted: &Permitted) -> bool {
    let server = &**permitted.server();
    if permitted.method() != Method::ResourcesRead || server.stats().is_none() {
        return false;
    }
    let uri = permitted.target();
    let scheme = uri.get(..SCHEME.len()).unwrap_or("");
    scheme.eq_ignore_ascii_case(SCHEME) || context.view.has_skill_of(server, uri)
}

/// Checks a file of a skill for invisible characters. Clients compare files with their digests, so
/// they cannot be removed: the file is refused, or only reported if the operator wants that.
pub(crate) fn check_file(
    context: &RequestContext,
    permitted: &Permitted,
    contents: &[u8],
) -> Result<(), RequestError> {
    if !reads_file(context, permitted) || !has_hidden_text(permitted.target(), contents) {
        return Ok(());
    }
    let server = permitted.server().slug();
    tracing::warn!(
        server,
        file = permitted.target(),
        "a file of a skill has invisible characters, or invalid base64"
    );
    if context.snapshot.config.pins.hidden_text == HiddenText::Report {
        return Ok(());
    }
    let what =
        "sent a file of a skill with invisible characters or invalid base64, which hide text";
    Err(permitted.broken(what))
}

/// Rewrites the children of a directory, without those that the caller may not read.
pub(crate) fn rewrite_children(
    context: &RequestContext,
    permitted: &Permitted,
    children: &[u8],
) -> Result<Vec<u8>, RequestError> {
    let slug = permitted.server().slug();
    let mut out = vec![b'['];
    let mut steps = Steps::of_request();
    let children = read(children.to_vec(), &RESOURCE, context)?;
    if children.len() > MAX_CHILDREN {
        let what = format!("sent a directory page with more than {MAX_CHILDREN} entries");
        return Err(permitted.broken(&what));
    }
    for Raw { key, text } in children {
        let shown = if context.view.namespaced { uri::expose(slug, &key) } else { (&*key).into() };
        if context.view.resource_within(&shown, TargetKind::Resource, &mut steps).is_none() {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        show(context, permitted, &text, &shown, &mut out);
    }
    out.push(b']');
    Ok(out)
}

fn read(array: Vec<u8>, form: &Form, context: &RequestContext) -> Result<Vec<Raw>, RequestError> {
    let array = Bytes::from(array);
    let depth = context.snapshot.config.limits.depth;
    let span = Scanner::new(&array, depth).and_then(|mut scanner| scanner.value());
    let items = span.and_then(|span| list::items(&array, span, form, depth));
    let (items, _) = items.map_err(|flaw| RequestError::new(code::INTERNAL, flaw.to_string()))?;
    Ok(items)
}

fn show(
    context: &RequestContext,
    permitted: &Permitted,
    text: &[u8],
    exposed: &str,
    out: &mut Vec<u8>,
) {
    let slug = context.view.namespaced.then(|| permitted.server().slug());
    let shown = Shown { key: ("uri", exposed), slug, revision: context.revision };
    // The item was just scanned.
    let _ = list::show(out, text, &shown);
}

/// Seals a server's cursor (JSON text of a string) for the directory of this request.
pub(crate) fn seal_cursor(context: &RequestContext, own: &[u8]) -> Result<Vec<u8>, RequestError> {
    let uri = context.request.param_str(Key::Uri).unwrap_or_default();
    let sealed = tokens::seal_cursor(context, &[Method::DirectoryRead.as_str(), &uri], own);
    let too_long = RequestError::new(code::INTERNAL, "the server's cursor is too long");
    Ok(write::quoted(&sealed.ok_or(too_long)?))
}

/// Opens the cursor of a request for a directory, if there is one.
pub(crate) fn open_cursor(
    context: &RequestContext,
    uri: &str,
) -> Result<Option<Vec<u8>>, RequestError> {
    let Some(cursor) = context.request.param(Key::Cursor) else { return Ok(None) };
    let of = [Method::DirectoryRead.as_str(), uri];
    tokens::open_cursor(context, &of, cursor).map(Some).ok_or_else(RequestError::stale_cursor)
}
