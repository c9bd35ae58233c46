//! Writes the text of a page, as Markdown or plain: line breaks, lists, tables and emphasis for
//! start and end tags. `page` resolves links and omits elements.

/// Maximum size of the text in bytes.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Maximum depth of lists, quotes and emphasis.
const MAX_DEPTH: usize = 16;

pub(super) struct Writer {
    markdown: bool,
    out: String,
    /// Whether a space is due before the next word.
    space: bool,
    /// Number of line breaks due before the next word.
    breaks: usize,
    /// The open lists; for an ordered list, the number of its last item.
    lists: Vec<Option<usize>>,
    quotes: usize,
    pre: usize,
    /// Open marks and their positions.
    marks: Vec<(&'static str, usize)>,
    /// Position of the open link's bracket.
    link: Option<usize>,
    table: Table,
}

#[derive(Default)]
struct Table {
    depth: usize,
    rows: usize,
    cells: usize,
    in_cell: bool,
}

impl Writer {
    pub(super) fn new(markdown: bool) -> Self {
        Self {
            markdown,
            out: String::new(),
            space: false,
            breaks: 0,
            lists: Vec::new(),
            quotes: 0,
            pre: 0,
            marks: Vec::new(),
            link: None,
            table: Table::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns whether the size limit is reached.
    pub(super) fn full(&self) -> bool {
        self.out.len() >= MAX_TEXT_BYTES
    }

    pub(super) fn finish(mut self) -> String {
        if self.pre > 0 && self.markdown {
            self.out.push_str("\n```");
        }
        self.out
    }

    pub(super) fn start(&mut self, name: &str) {
        match name {
            "br" if self.pre > 0 => self.out.push('\n'),
            "br" => self.lines(1),
            "hr" => {
                self.lines(2);
                self.word(if self.markdown { "---" } else { "" });
                self.lines(2);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.lines(2);
                self.sign(&"#".repeat(name[1..].parse().unwrap_or(1)), true);
            }
            "ul" | "ol" | "menu" => {
                self.lines(if self.lists.is_empty() { 2 } else { 1 });
                if self.lists.len() < MAX_DEPTH {
                    self.lists.push((name == "ol").then_some(0));
                }
            }
            "li" => self.item(),
            "blockquote" => {
                self.lines(2);
                self.quotes = (self.quotes + 1).min(MAX_DEPTH);
            }
            "pre" => {
                self.lines(2);
                if self.pre == 0 {
                    self.sign("```", false);
                    self.out.push('\n');
                }
                self.pre += 1;
            }
            "table" | "tr" | "td" | "th" | "caption" => self.open_table(name),
            "dt" | "dd" | "div" | "section" | "option" | "label" | "summary" | "figcaption" => {
                self.lines(1)
            }
            _ if is_block(name) => self.lines(2),
            _ => self.mark(name),
        }
    }

    pub(super) fn end(&mut self, name: &str) {
        match name {
            "ul" | "ol" | "menu" => {
                self.lists.pop();
                self.lines(if self.lists.is_empty() { 2 } else { 1 });
            }
            "blockquote" => {
                self.quotes = self.quotes.saturating_sub(1);
                self.lines(2);
            }
            "pre" if self.pre > 0 => {
                self.pre -= 1;
                if self.pre == 0 && self.markdown {
                    let end = if self.out.ends_with('\n') { "```" } else { "\n```" };
                    self.out.push_str(end);
                }
                self.lines(2);
            }
            "table" | "tr" | "td" | "th" | "caption" => self.close_table(name),
            "li" | "dt" | "dd" | "div" | "section" | "summary" | "figcaption" => self.lines(1),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.lines(2),
            _ if is_block(name) => self.lines(2),
            _ => self.unmark(name),
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.pre > 0 && self.link.is_none() {
            self.flush();
            self.out.push_str(text);
            return;
        }
        for (at, word) in text.split(char::is_whitespace).enumerate() {
            if at > 0 {
                self.space = true;
            }
            if !word.is_empty() {
                self.word(word);
            }
        }
    }

    pub(super) fn open_link(&mut self) {
        if self.markdown && self.pre == 0 {
            self.flush();
            self.link = Some(self.out.len());
            self.out.push('[');
        }
    }

    /// Ends a link; without an address only its text remains.
    pub(super) fn close_link(&mut self, url: Option<&str>) {
        let Some(at) = self.link.take() else { return };
        let empty = self.out.len() <= at + 1;
        match url {
            Some(url) if !empty => {
                // Parentheses would end the address, and a bar would end the table cell.
                let url = url.replace('(', "%28").replace(')', "%29").replace('|', "%7C");
                self.out.push_str(&format!("]({url})"));
            }
            _ => {
                self.out.remove(at);
            }
        }
    }

    fn word(&mut self, word: &str) {
        self.flush();
        if self.markdown && self.table.in_cell && word.contains('|') {
            self.out.push_str(&word.replace('|', "\\|"))
        } else {
            self.out.push_str(word)
        }
    }

    /// Requires at least this many line breaks before the next word; a space in cells and links.
    fn lines(&mut self, count: usize) {
        if self.table.in_cell || self.link.is_some() {
            self.space = true;
        } else {
            self.breaks = self.breaks.max(count);
        }
    }

    /// Writes the due whitespace.
    fn flush(&mut self) {
        let begins = self.out.is_empty();
        if self.breaks > 0 && !begins {
            for _ in 0..self.breaks.min(2) {
                self.out.push('\n');
                if self.markdown {
                    self.out.push_str(&"> ".repeat(self.quotes));
                }
            }
        } else if begins && self.markdown {
            self.out.push_str(&"> ".repeat(self.quotes));
        } else if self.space && !self.out.ends_with([' ', '\n', '[']) && !self.after_mark() {
            self.out.push(' ');
        }
        self.breaks = 0;
        self.space = false;
    }

    /// Returns whether the text ends with an open mark.
    fn after_mark(&self) -> bool {
        match self.marks.last() {
            Some((mark, at)) => at + mark.len() == self.out.len() && self.out.ends_with(mark),
            None => false,
        }
    }

    /// Writes a Markdown sign at the beginning of a line.
    fn sign(&mut self, sign: &str, spaced: bool) {
        self.flush();
        if self.markdown && !self.table.in_cell && self.link.is_none() {
            self.out.push_str(sign);
            if spaced {
                self.out.push(' ');
            }
        }
    }

    fn item(&mut self) {
        self.lines(1);
        if self.table.in_cell || self.link.is_some() {
            return;
        }
        let depth = self.lists.len().saturating_sub(1);
        let sign = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{number}. ")
            }
            _ => "- ".to_owned(),
        };
        self.flush();
        self.out.push_str(&"  ".repeat(depth));
        self.out.push_str(&sign);
    }

    fn open_table(&mut self, name: &str) {
        match name {
            "table" => {
                self.table = Table { depth: self.table.depth + 1, ..Table::default() };
                self.lines(2);
            }
            "tr" => {
                self.end_row();
                self.lines(1);
            }
            "td" | "th" => {
                self.end_cell();
                self.flush();
                self.out.push_str(if self.table.cells == 0 { "| " } else { " | " });
                self.table.cells += 1;
                self.table.in_cell = true;
            }
            _ => self.lines(2),
        }
    }

    fn close_table(&mut self, name: &str) {
        match name {
            "td" | "th" => self.end_cell(),
            "tr" => self.end_row(),
            "table" => {
                self.end_row();
                self.table =
                    Table { depth: self.table.depth.saturating_sub(1), ..Table::default() };
                self.lines(2);
            }
            _ => self.lines(1),
        }
    }

    fn end_cell(&mut self) {
        self.table.in_cell = false;
        self.space = false;
    }

    fn end_row(&mut self) {
        self.end_cell();
        if self.table.cells == 0 {
            return;
        }
        self.out.push_str(" |");
        if self.table.rows == 0 && self.markdown {
            self.out.push('\n');
            self.out.push_str(&"|---".repeat(self.table.cells.min(256)));
            self.out.push('|');
        }
        self.table.rows += 1;
        self.table.cells = 0;
        self.lines(1);
    }

    fn mark(&mut self, name: &str) {
        if self.markdown
            && self.pre == 0
            && self.marks.len() < MAX_DEPTH
            && let Some(mark) = sign_of(name)
        {
            self.flush();
            self.marks.push((mark, self.out.len()));
            self.out.push_str(mark);
        }
    }

    fn unmark(&mut self, name: &str) {
        if !self.markdown {
            return;
        }
        let Some(mark) = sign_of(name) else { return };
        let Some((_, at)) = self.marks.pop_if(|(open, _)| *open == mark) else { return };
        if self.out.len() == at + mark.len() {
            self.out.truncate(at);
        } else {
            self.out.push_str(mark);
        }
    }
}

fn sign_of(name: &str) -> Option<&'static str> {
    match name {
        "b" | "strong" => Some("**"),
        "i" | "em" => Some("*"),
        "code" | "kbd" | "samp" => Some("`"),
        "del" | "s" => Some("~~"),
        _ => None,
    }
}

fn is_block(name: &str) -> bool {
    const BLOCKS: [&str; 12] = [
        "p", "article", "main", "header", "hgroup", "dl", "figure", "address", "fieldset", "form",
        "details", "body",
    ];
    BLOCKS.contains(&name)
}
