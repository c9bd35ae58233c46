//! Extracts the readable text of HTML in one pass over the tokens. There is no tree and no
//! recursion, so time and memory grow linearly with the page. Menus, scripts and hidden parts are
//! omitted; `<main>` or `<article>` is preferred.

use std::borrow::Cow;
use std::collections::BTreeMap;

use html5gum::{DefaultEmitter, HtmlString, Spanned, Token, Tokenizer};
use lockgate_text::unseen::is_unseen;
use url::Url;

use super::writer::Writer;
use crate::tool::first_chars;

/// Maximum number of links returned per page.
const MAX_LINKS: usize = 500;
/// Maximum length of the title and of a link's text, in characters.
const MAX_TEXT_CHARS: usize = 300;
/// Maximum length of a link's URL.
const URL_BYTES: usize = 2048;
/// A shorter main part, in bytes, is not taken for the page.
const MAIN_BYTES: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) links: Vec<Link>,
    /// Whether the text exceeded the limit.
    pub(super) cut: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) text: String,
    pub(super) url: String,
}

/// Elements without readable content.
const SILENT: [&str; 20] = [
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed",
    "canvas", "audio", "video", "select", "datalist", "textarea", "button", "nav", "footer",
    "aside", "dialog",
];
/// Silent elements with links that are still collected.
const WAYS: [&str; 3] = ["nav", "footer", "aside"];
/// Elements without content.
const VOID: [&str; 13] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
];
/// Elements with an optional end tag, and the elements that implicitly end them. Any block also
/// ends a paragraph.
const OPEN_ENDED: [(&[&str], &[&str]); 6] = [
    (&["p"], &["dl", "hr", "menu", "ol", "p", "table", "ul"]),
    (&["li"], &["li"]),
    (&["dd", "dt"], &["dd", "dt"]),
    (&["td", "th"], &["td", "th", "tr", "tbody", "tfoot", "thead"]),
    (&["tr"], &["tr", "tbody", "tfoot", "thead"]),
    (&["tbody", "tfoot", "thead", "option"], &["tbody", "tfoot", "thead", "option"]),
];
/// Elements with a required end tag, which also ends everything inside.
const BLOCKS: [&str; 22] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "details",
    "div",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "main",
    "nav",
    "pre",
    "search",
    "section",
];
/// Elements in which others of the same kind may nest.
const NESTS: [&str; 5] = ["dl", "menu", "ol", "table", "ul"];

/// Extracts a page fetched from `base`.
pub(super) fn read(html: &str, base: &Url, markdown: bool) -> Page {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut reader = Reader {
        base: Cow::Borrowed(base),
        writer: Writer::new(markdown),
        title: None,
        in_title: false,
        silent: None,
        link: None,
        links: Vec::new(),
        main: Part::default(),
        article: Part::default(),
    };
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) => {
                reader.start(&String::from_utf8_lossy(&tag.name), &tag.attributes)
            }
            Token::EndTag(tag) => reader.end(&String::from_utf8_lossy(&tag.name)),
            Token::String(text) => reader.text(&String::from_utf8_lossy(&text)),
            _ => {}
        }
        if reader.writer.full() {
            break;
        }
    }
    reader.page()
}

struct Reader<'a> {
    /// The base of relative links: the page's address, unless it has a `<base>`.
    base: Cow<'a, Url>,
    writer: Writer,
    title: Option<String>,
    in_title: bool,
    silent: Option<Silence>,
    link: Option<Link>,
    links: Vec<Link>,
    main: Part,
    article: Part,
}

/// The current silent element.
struct Silence {
    element: String,
    /// Number of open elements of the same name inside; if the end tag is optional, of open nests.
    depth: usize,
    /// Number of open blocks inside.
    blocks: usize,
    /// Whether its links are collected.
    ways: bool,
    /// Elements that implicitly end it.
    ended_by: Option<&'static [&'static str]>,
}

impl Silence {
    fn new(name: &str) -> Self {
        let open_ended = OPEN_ENDED.iter().find(|(names, _)| names.contains(&name));
        let ended_by = open_ended.map(|(_, by)| *by);
        Self { element: name.to_owned(), depth: 0, blocks: 0, ways: WAYS.contains(&name), ended_by }
    }

    /// Handles a start tag. Returns whether it ends the silent element.
    fn start(&mut self, name: &str) -> bool {
        let block = BLOCKS.contains(&name);
        match self.ended_by {
            Some(by) if self.depth == 0 && (by.contains(&name) || self.element == "p" && block) => {
                return true;
            }
            Some(_) => {
                self.depth += usize::from(NESTS.contains(&name));
                self.blocks += usize::from(block);
            }
            None => self.depth += usize::from(self.element == name && !VOID.contains(&name)),
        }
        false
    }

    /// Handles an end tag. Returns `Some` if the silent element ends, `true` for its own tag.
    fn end(&mut self, name: &str) -> Option<bool> {
        let own = self.element == name;
        let open_ended = self.ended_by.is_some();
        let count = match () {
            () if own && self.depth == 0 => return Some(true),
            () if own && !open_ended || open_ended && NESTS.contains(&name) => &mut self.depth,
            () if open_ended && BLOCKS.contains(&name) => &mut self.blocks,
            () => return None,
        };
        match count.checked_sub(1) {
            Some(left) => *count = left,
            // The enclosing element ends.
            None => return Some(false),
        }
        None
    }
}

/// The range of an element in the text.
#[derive(Default)]
struct Part {
    depth: usize,
    range: Option<(usize, usize)>,
}

impl Part {
    /// Returns the element's text, if it is a large part of the whole.
    fn text<'a>(&self, whole: &'a str, cut: bool) -> Option<&'a str> {
        let (start, end) = self.range?;
        let end = if self.depth > 0 || cut { whole.len() } else { end.min(whole.len()) };
        let text = whole.get(start..end)?;
        if text.len() >= MAIN_BYTES || text.len() * 2 >= whole.len() { Some(text) } else { None }
    }

    fn start(&mut self, at: usize) {
        self.depth += 1;
        self.range.get_or_insert((at, at));
    }

    fn end(&mut self, at: usize) {
        self.depth = self.depth.saturating_sub(1);
        if let Some((_, end)) = &mut self.range {
            *end = at;
        }
    }
}

impl Reader<'_> {
    fn start(&mut self, name: &str, attributes: &Attributes) {
        let void = VOID.contains(&name);
        if let Some(silence) = &mut self.silent {
            if !silence.start(name) {
                if silence.ways && name == "a" {
                    self.open_link(attributes);
                }
                return;
            }
            self.silent = None;
        }
        if !void && (SILENT.contains(&name) || is_hidden(name, attributes)) {
            self.silent = Some(Silence::new(name));
            return;
        }
        match name {
            "title" => self.in_title = self.title.is_none(),
            "base" => self.rebase(attributes),
            "main" => self.main.start(self.writer.len()),
            "article" => self.article.start(self.writer.len()),
            "a" => {
                self.close_link();
                self.open_link(attributes);
                self.writer.open_link();
                return;
            }
            "img" => {
                if let Some(words) = attribute(attributes, "alt")
                    && !words.trim().is_empty()
                {
                    self.text(&format!("(image: {})", first_chars(words.trim(), MAX_TEXT_CHARS)));
                }
                return;
            }
            _ => {}
        }
        self.writer.start(name);
    }

    fn end(&mut self, name: &str) {
        if let Some(silence) = &mut self.silent {
            let ways = silence.ways;
            let ended = silence.end(name);
            if ended.is_some() {
                self.silent = None;
            }
            if ways && (name == "a" || self.silent.is_none()) {
                self.keep_link();
            }
            // An enclosing block's end tag also ends the block itself, below.
            if ended != Some(false) {
                return;
            }
        }
        match name {
            "title" => self.in_title = false,
            "main" => self.main.end(self.writer.len()),
            "article" => self.article.end(self.writer.len()),
            "a" => return self.close_link(),
            _ => {}
        }
        self.writer.end(name);
    }

    fn text(&mut self, text: &str) {
        let text: String = text.chars().filter(|c| !is_invisible(*c)).collect();
        if self.in_title && self.silent.is_none() {
            let title = self.title.get_or_insert_default();
            if title.len() < MAX_TEXT_CHARS * 4 {
                title.push_str(&text);
            }
            return;
        }
        if let Some(link) = &mut self.link
            && link.text.len() < MAX_TEXT_CHARS * 4
        {
            link.text.push_str(&text);
        }
        if self.silent.is_none() {
            self.writer.text(&text);
        }
    }

    /// Sets the base of relative links. The first `<base href>` counts, as in browsers.
    fn rebase(&mut self, attributes: &Attributes) {
        let Cow::Borrowed(page) = self.base else { return };
        if let Some(href) = attribute(attributes, "href")
            && href.len() <= URL_BYTES
            && let Ok(base) = page.join(href.trim())
            && matches!(base.scheme(), "http" | "https")
        {
            self.base = Cow::Owned(base);
        }
    }

    fn open_link(&mut self, attributes: &Attributes) {
        let url = attribute(attributes, "href").and_then(|href| self.target(href.trim()));
        self.link =
            Some(Link { text: String::new(), url: url.map(String::from).unwrap_or_default() });
    }

    /// Resolves a link, if it leads to another page over HTTP.
    fn target(&self, href: &str) -> Option<Url> {
        if href.is_empty() || href.starts_with('#') || href.len() > URL_BYTES {
            return None;
        }
        let url = self.base.join(href).ok()?;
        let fits = matches!(url.scheme(), "http" | "https") && url.as_str().len() <= URL_BYTES;
        if fits { Some(url) } else { None }
    }

    fn close_link(&mut self) {
        if self.link.is_some() {
            let url = self.keep_link();
            self.writer.close_link(url.as_deref());
        }
    }

    /// Adds the open link to the list and returns its URL.
    fn keep_link(&mut self) -> Option<String> {
        let link = self.link.take()?;
        if link.url.is_empty() {
            return None;
        }
        let kept = Link { text: short(&link.text), url: link.url };
        let url = kept.url.clone();
        if self.links.len() < MAX_LINKS && !self.links.contains(&kept) {
            self.links.push(kept);
        }
        Some(url)
    }

    fn page(mut self) -> Page {
        self.close_link();
        let title = self.title.as_deref().map(short).unwrap_or_default();
        let cut = self.writer.full();
        let whole = self.writer.finish();
        let main = self.main.text(&whole, cut);
        let text = main.or_else(|| self.article.text(&whole, cut)).unwrap_or(&whole);
        Page { title, text: text.trim().to_owned(), links: self.links, cut }
    }
}

/// Returns whether a character is invisible. Line breaks and tabs do not count.
fn is_invisible(c: char) -> bool {
    !matches!(c, '\n' | '\t' | '\u{2028}' | '\u{2029}') && is_unseen(c)
}

/// Collapses whitespace, and shortens a text.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    first_chars(&words.join(" "), MAX_TEXT_CHARS).to_owned()
}

/// Elements that contain the whole page; attributes never hide them.
const WHOLE: [&str; 3] = ["body", "head", "html"];

type Attributes = BTreeMap<HtmlString, Spanned<HtmlString, ()>>;

fn attribute<'a>(attributes: &'a Attributes, name: &str) -> Option<Cow<'a, str>> {
    attributes.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value))
}

/// Returns whether an element is hidden from people, and therefore from models.
fn is_hidden(name: &str, attributes: &Attributes) -> bool {
    if WHOLE.contains(&name) {
        return false;
    }
    let aria = attribute(attributes, "aria-hidden").unwrap_or_default();
    let style = attribute(attributes, "style").unwrap_or_default();
    attributes.contains_key(&b"hidden"[..])
        || aria.trim().eq_ignore_ascii_case("true")
        || style.split(';').any(hides)
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

#[cfg(test)]
mod tests;
