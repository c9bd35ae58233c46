//! Tests of `page` and `writer`.

use super::*;

fn markdown(html: &str) -> String {
    read(html, &base(), true).text
}

fn base() -> Url {
    Url::parse("https://example.com/docs/page").unwrap()
}

#[test]
fn what_a_person_reads_comes_out_as_markdown() {
    for (html, text) in [
        ("<h1>Title</h1><p>One  two\n three.</p><p>Four</p>", "# Title\n\nOne two three.\n\nFour"),
        (
            "<p>a <b>bold</b> and <em>soft</em> <code>x = 1</code> word</p>",
            "a **bold** and *soft* `x = 1` word",
        ),
        ("<p><b> x </b>y</p>", "**x** y"),
        ("<p>a<b></b>b</p>", "ab"),
        ("<ul><li>one<li>two<ul><li>deep</ul><li>three</ul>", "- one\n- two\n  - deep\n- three"),
        ("<ol><li>one</li><li>two</li></ol>after", "1. one\n2. two\n\nafter"),
        (
            "<p>see <a href='../a?b#c'>the page</a>.</p>",
            "see [the page](https://example.com/a?b#c).",
        ),
        ("<a href='#top'>up</a> <a href='javascript:x()'>run</a>", "up run"),
        (
            "<p>x</p><pre><code>let a = 1;\n  b</code></pre><p>y</p>",
            "x\n\n```\nlet a = 1;\n  b\n```\n\ny",
        ),
        ("<blockquote><p>said</p><p>more</p></blockquote>by", "> said\n> \n> more\n\nby"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "| a | b |\n|---|---|\n| 1 | 2 |"),
        (
            "<table><tr><td>a|b<td><code>x | y</code><td><a href='/q?a|b'>c</a></table>a|b",
            "| a\\|b | `x \\| y` | [c](https://example.com/q?a%7Cb) |\n|---|---|---|\n\na|b",
        ),
        ("<base href='/b/'><base href='/c/'><a href='rel'>x</a>", "[x](https://example.com/b/rel)"),
        (
            "<base href='javascript:x'><base target=_top><base href='//cdn.example/'><a href='rel'>x</a>",
            "[x](https://cdn.example/rel)",
        ),
        ("a<br>b<hr>c", "a\nb\n\n---\n\nc"),
        ("<p>&lt;b&gt; &amp; &eacute; &#x263A;</p>", "<b> & é ☺"),
        ("<img src=x alt='A lock'> text", "(image: A lock) text"),
    ] {
        assert_eq!(markdown(html), text, "{html}");
    }
    let plain =
        read("<h2>T</h2><p>a <b>b</b> <a href='/x'>c</a></p><ul><li>d</ul>", &base(), false).text;
    assert_eq!(plain, "T\n\na b c\n\n- d");
}

#[test]
fn menus_scripts_and_hidden_parts_are_left_out() {
    let html = "<title>A &amp; B</title><style>p{}</style><nav><a href='/menu'>Menu</a></nav><script>if (a<b) '<p>no</p>'</script>\
        <p>seen</p><div hidden>no</div><div style='color:red; DISPLAY: none'>no</div><span aria-hidden=true>no</span>\
        <template><p>no</p></template><!-- no --><noscript>no</noscript><p hidden>no</p><p>seen too</p><footer>no <a href=/terms>Terms</a></footer>";
    let page = read(html, &base(), true);
    assert_eq!(page.text, "seen\n\nseen too");
    assert_eq!(page.title, "A & B");
    let links: Vec<_> =
        page.links.iter().map(|link| (link.text.as_str(), link.url.as_str())).collect();
    assert_eq!(
        links,
        [("Menu", "https://example.com/menu"), ("Terms", "https://example.com/terms")]
    );
    assert_eq!(markdown("a\u{200b}b\u{202e}c\u{e0041}d\u{7}e"), "abcde");
}

#[test]
fn what_styles_hide_is_left_out_whether_its_end_is_written_or_not() {
    for (html, seen) in [
        ("<p style='display:none'>no</p><p>a", "a"),
        ("<p hidden>no<p>a", "a"),
        ("<p hidden>no<div>a</div>b", "a b"),
        ("<div><p hidden>no</div>a", "a"),
        ("<ul><li hidden>no<ul><li>no</ul>no<li>a</ul>b", "- a b"),
        ("<ul><li style='display: none !important'><div>no</div>no</li><li>a</ul>", "- a"),
        ("<ul><li hidden><div>no</ul>a", "a"),
        ("<dl><dt hidden>no<dd>a<dd hidden>no</dl>b", "a b"),
        (
            "<p style='opacity:0'>no</p><p style='opacity:0%;color:red'>no</p><p style='opacity:.5'>a",
            "a",
        ),
        (
            "<p style='font-size:0px'>no</p><p style='font-size:0.9em'>a</p><span style='font-size: 0.875rem'>b</span>",
            "a b",
        ),
        (
            "<div style='backface-visibility:hidden'>a</div><div style='fill-opacity:0;color:red'>b</div>",
            "a b",
        ),
        ("<div style='VISIBILITY : Hidden'>no</div><div style='visibility:visible'>a</div>", "a"),
        ("<body hidden>a", "a"),
        ("<div hidden>no<div>no</div>no</div>a", "a"),
    ] {
        let words = markdown(html).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words, seen, "{html}");
    }
    let table = markdown(
        "<table><tr><th>a<th hidden>no<tr hidden><td>no<table><tr><td>no</table><td>no<tr><td>b</table>c",
    );
    assert!(
        !table.contains("no") && ["a", "b", "c"].iter().all(|word| table.contains(word)),
        "{table}"
    );
}

#[test]
fn the_main_part_is_the_page_when_it_has_substance() {
    let long = "word ".repeat(60);
    let html =
        format!("<header>Site</header><main><h1>T</h1><p>{long}</p></main><div>Related</div>");
    assert_eq!(markdown(&html), format!("# T\n\n{}", long.trim()));
    let articles = format!("<p>intro</p><article>{long}</article><article>two</article><p>end</p>");
    assert_eq!(markdown(&articles), format!("{}\n\ntwo", long.trim()));
    let thin = format!("<main>x</main><div>{long}</div>");
    assert!(markdown(&thin).contains("word word"));
}

#[test]
fn hostile_pages_take_time_and_memory_in_proportion() {
    let began = std::time::Instant::now();
    let many = |piece: &str| piece.repeat(40_000);
    for html in [
        many("<div>"),
        many("<b>"),
        many("<blockquote><ul><li>x"),
        many("<table><tr><td>"),
        many("<a href=x>"),
        many("<a href='/a'>y</a>"),
        many("<nav>"),
        many("</p></ul></table></b></pre>"),
        many("<pre>"),
        many("<main><article>"),
        many("&notanentity;"),
        many("<!--"),
        many("<p hidden style='a:b'>"),
        format!("<p {}>", many("a=b ")),
        format!("<p title='{}", many("x")),
        many("<title>"),
        format!("<base href='//x'>{}", many("<a href=?>z</a>")),
    ] {
        let page = read(&html, &base(), true);
        assert!(
            page.text.len() <= (4 << 20) + (1 << 20) && page.links.len() <= 500,
            "{}",
            &html[..40]
        );
    }
    // Debug builds on busy machines are slow; quadratic time would take hours.
    assert!(began.elapsed().as_secs() < 120, "{:?}", began.elapsed());
}

#[test]
fn no_prefix_of_a_page_is_a_problem() {
    let html = "<!doctype html><title>t</title><main><h1 id=a>x<a href='/b'>y</a></h1><table><tr><td>1</table><pre>é&amp;</pre></main>";
    for (at, _) in html.char_indices() {
        read(&html[..at], &base(), true);
        read(&html[at..], &base(), false);
    }
}
