import time

import pytest

from rowen.content.chunks import split
from rowen.content.html import read_page

URL = "https://example.org/docs/page.html"


def text(html: str) -> str:
    return read_page(html, URL).text


def test_a_page_becomes_its_main_content():
    page = read_page(
        """<html lang="en-GB"><head><title>Install — Tool 1.2 documentation</title></head><body>
        <nav><a href="/">Home</a></nav><div class="sphinxsidebar">Side</div>
        <main><h1>Install<a class="headerlink" href="#install">¶</a></h1><p>Run <code>make</code>.</p></main>
        <footer>© 2026, version 1.2</footer></body></html>""",
        URL,
    )

    assert page.text == "# Install\n\nRun `make`."
    assert page.language == "en-GB"


def test_links_are_collected_before_anything_is_removed():
    page = read_page(
        """<nav><a href="../a">A</a></nav><a href="b?x=1#part">B</a><a href="../a#again">A</a><a href="#here">H</a>
        <a href="mailto:x@y">M</a><a href="javascript:run()">J</a><a href="http://other.org/" rel="nofollow">O</a>
        <a href="file:///etc">F</a>""",
        URL,
    )

    assert page.links == (
        "https://example.org/a",
        "https://example.org/docs/b?x=1",
        "https://example.org/docs/page.html",
        "file:///etc",
    )
    assert page.nofollow_links == ("http://other.org/",)
    assert "javascript" not in page.text


def test_a_base_element_moves_all_relative_links():
    page = read_page('<head><base href="/root/"></head><p><a href="x">X</a></p>', URL)

    assert page.links == ("https://example.org/root/x",)
    assert page.text == "[X](https://example.org/root/x)"


def test_robots_and_canonical_are_reported():
    page = read_page('<meta name="ROBOTS" content="noindex, Follow"><link rel="canonical" href="/c#x"><p>t', URL)

    assert (page.noindex, page.nofollow, page.canonical) == (True, False, "https://example.org/c")
    assert read_page('<meta name="robots" content="none">', URL).nofollow


@pytest.mark.parametrize(
    ("title", "heading", "expected"),
    [
        ("asyncio — Python 3.11.7 documentation", "asyncio", "asyncio"),
        ("PostgreSQL: Documentation: 15: 8.1. Numeric Types", "8.1. Numeric Types", "8.1. Numeric Types"),
        ("Checks — Django 3.2 documentation", "Django 3.2 documentation</h1><h1>Checks", "Checks"),
        ("A page", "Welcome", "A page"),
        ("", "Only a heading", "Only a heading"),
        ("Only a title", "", "Only a title"),
    ],
)
def test_the_title_is_the_pages_own_not_the_sites(title: str, heading: str, expected: str):
    assert read_page(f"<title>{title}</title><main><h1>{heading}</h1><p>t</p></main>", URL).title == expected


def test_the_body_is_taken_where_no_candidate_has_a_fair_share():
    html = "<article>teaser</article><div>" + "the story goes on " * 20 + "</div>"

    assert "the story" in text(html)
    assert "teaser" in text(html)


def test_a_box_called_sidebar_is_content():
    assert text('<main><p>a</p><div class="sidebar">kept</div></main>') == "a\n\nkept"


def test_cells_that_span_become_cells_of_a_regular_table():
    html = (
        "<table><tr><th>os</th><th colspan=2>versions</th></tr><tr><td rowspan=2>Linux</td><td>5</td><td>6</td></tr>"
        "<tr><td>7</td></tr></table>"
    )

    assert text(html) == "| os | versions |  |\n| --- | --- | --- |\n| Linux | 5 | 6 |\n| Linux | 7 |  |"


def test_a_table_whose_rows_differ_stays_a_table():
    assert text("<table><tr><th>A</tr><tr><td>1<td>2</tr></table>") == "| A |  |\n| --- | --- |\n| 1 | 2 |"


def test_emphasis_with_accents_stays_markdown():
    assert text("<p><em>é</em> <b>b</b> <strong>x <i>ü</i></strong></p>") == "*é* **b** **x *ü***"


@pytest.mark.parametrize(
    "html",
    [
        '<div class="highlight-python notranslate"><div class="highlight"><pre>x = 1</pre></div></div>',
        '<pre><code class="language-python">x = 1</code></pre>',
        '<div class="highlight highlight-source-python"><pre>x = 1</pre></div>',
        '<pre class="brush: python">x = 1</pre>',
        '<table class="highlighttable"><td class="linenos">1</td><td class="highlight-python"><pre>x = 1</pre></table>',
    ],
)
def test_code_knows_its_language_wherever_it_is_written(html: str):
    assert text(html) == "```python\nx = 1\n```"


def test_no_break_spaces_are_spaces():
    assert text("<p>a&nbsp;b\xa0c&#160;d</p><p>&nbsp;e</p>") == "a b c d\n\ne"


def test_prose_that_looks_like_structure_stays_prose():
    page = text("<p># not a heading</p><p>- not a list</p><p>1. nor this</p><p>text<br># hash<br>===</p>")

    assert split(page)[0].heading == ()
    assert page.startswith("\\# not")


def test_prices_and_powers_keep_their_meaning():
    assert text("<p>10<sup>6</sup> H<sub>2</sub>O</p>") == "10^6 H2O"


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ('<h2 id="getting-started">Getting started</h2>', "## Getting started"),
        ('<h2 id="start">Getting started</h2>', "## Getting started {#start}"),
        ('<section id="s1"><h2>Words</h2></section>', "## Words {#s1}"),
        ('<div class="sect1" id="X"><div><div><h2>Words</h2></div></div></div>', "## Words {#X}"),
        ('<section id="m"><span id="s"></span><h2>Words</h2></section>', "## Words {#s}"),
        ('<section id="m"><p>before</p><h2>Words</h2></section>', "before\n\n## Words"),
        ('<h2><a name="old"></a>Words</h2>', "## Words {#old}"),
        ('<h2 id="w"><a class="header" href="#w">Words</a></h2>', "## Words {#w}"),
        ('<h2 id="a b">Words</h2>', "## Words"),
        ("<h2>Words</h2>", "## Words"),
    ],
)
def test_headings_keep_an_anchor_that_their_words_do_not_give(html: str, markdown: str):
    assert text(html) == markdown


def test_the_second_of_two_equal_headings_is_found_by_its_own_anchor():
    page = text('<h2 id="use">Use</h2><p>' + "a" * 1400 + '</p><h2 id="use-1">Use</h2><p>' + "b" * 1400 + "</p>")

    assert "{#" not in page
    assert [chunk.anchor for chunk in split(page)] == ["use", "use-1"]


def test_a_table_that_only_lays_out_a_page_is_no_table():
    assert text("<table><tr><td><h1>T</h1><p>a</p></td><td><p>b</p></td></tr></table>") == "# T\n\na\n\nb"


def test_the_label_of_a_note_is_no_heading():
    page = text('<main><h2>T</h2><div class="note"><h3 class="title">Note</h3><p>Mind.</p></div></main>')

    assert page == "## T\n\n**Note**\n\nMind."


def test_the_sites_header_is_left_out_and_the_articles_kept():
    html = "<header><h1>Site 3.2</h1><ul><li>menu</ul></header><article><header><h1>T</h1></header>text</article>"

    assert text(html) == "# T\n\ntext"


def test_blank_lines_are_kept_in_code_only():
    html = "<p>a</p><p></p><div><span></span></div><p>b</p><pre>x\n\n\n\ny</pre>"

    assert text(html) == "a\n\nb\n\n```\nx\n\n\n\ny\n```"


def test_a_link_without_words_leaves_nothing():
    assert text('<p>a <a href="/x"></a><a href="/y"><svg></svg></a> b</p>') == "a b"


def test_rewrapped_source_says_the_same():
    assert text("<p>one two\nthree</p>") == text("<p>one\n   two three</p>")


HOSTILE = {
    "nested divs": "<div>" * 100_000 + "x",
    "nested tables": "<table><tr><td>" * 10_000 + "x",
    "nested lists": "<ul><li>" * 10_000 + "x",
    "nested emphasis": "<em>" * 10_000 + "é",
    "many headings": "<h2 id=a>x</h2>" * 50_000,
    "empty headings": "<h2>" * 50_000,
    "many attributes": "<div " + " ".join(f"a{i}=1" for i in range(50_000)) + ">x",
    "a huge attribute": "<a href='" + "x" * 3_000_000 + "'>x</a>",
    "NULs": "\0" * 100_000 + "<p>a\0b</p>",
    "surrogates": "<p>\ud800 x \udfff</p>",
    "spans": "<table>" + "<tr><td colspan=1000 rowspan=1000>x</td></tr>" * 10_000,
    "one wide row": "<table><tr>" + "<td>x" * 20_000 + "<tr><td>x" * 20_000,
    "articles": "<article>" * 10_000 + "x",
    "sections": "<section id=s>" * 10_000 + "<h2>x",
    "open tags": "<" * 100_000,
    "an open comment": "<!--" + "-" * 100_000,
    "links": "".join(f"<a href=/{i}>x</a>" for i in range(50_000)),
    "code": "<pre>x</pre>" * 30_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_are_read_in_bounded_time(name: str):
    start = time.process_time()

    page = read_page(HOSTILE[name], URL)
    split(page.text)

    assert time.process_time() - start < 20
