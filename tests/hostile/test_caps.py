"""Fields that are indexed or repeated have a length; what is left out is told by the item, and fails nothing."""

import asyncio
from dataclasses import replace
from pathlib import Path

from rowen.connectors.web.memory import Bridge, SiteCursor
from rowen.errors import SourceError
from rowen.model import text
from rowen.model.items import Complete, Document, Failed, Fetched, Raw, Validators
from rowen.model.passages import Chunk
from tests.cli.conftest import Cli
from tests.portals.scripted import Scripted, shows

WORDS = " ".join(f"word{number}" for number in range(20_000))


def page(head: str, body: str = "") -> str:
    paragraphs = "".join(f"<p>Paragraph {number} about hay and clover. {'mow ' * 60}</p>" for number in range(200))
    return f"<html lang=en><head>{head}</head><body><main>{body}{paragraphs}</main></body></html>"


async def harvested(database, folder: Path, content: str, name: str = "a.html"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content)
    async with database.open() as rowen:
        run = await rowen.sync(str(folder))
        again = await rowen.sync(str(folder), full=True)
        entry = await rowen.get(str(folder / name))
    assert (run.status, run.stats.failed, again.stats.rows_written) == ("completed", 0, 0)
    return entry


def index_bytes(database) -> int:
    return database.query("select sum(pg_column_size(tsv) + pg_column_size(heading)) from chunk")[0][0]


async def test_a_title_of_a_hundred_kilobytes_is_cut_and_says_so(database, tmp_path):
    content = page(f"<title>{WORDS}</title>")

    entry = await harvested(database, tmp_path / "site", content)

    assert len(entry.title) <= text.LONGEST_TITLE
    assert entry.title.startswith("word0 word1")
    assert entry.remarks == [f"Its title has {len(WORDS):,} characters; the first 1,000 are kept."]
    assert index_bytes(database) < 3 * len(content)
    assert max(len(title) for (title,) in database.query("select title from change")) <= text.LONGEST_TITLE


async def test_tags_are_counted_and_measured(database, tmp_path):
    many = ",".join(f"tag{number}" for number in range(30_000))

    entry = await harvested(database, tmp_path / "site", page(f"<meta name=keywords content='{many},{'x' * 5000}'>"))

    assert len(entry.tags) <= text.MOST_TAGS
    assert sum(map(len, entry.tags)) <= text.MOST_TAG_CHARS
    [remark] = entry.remarks
    assert "of its 30,001 tags" in remark


async def test_headings_and_anchors_of_any_length_cost_no_more_than_the_text(database, tmp_path):
    anchors = "".join(f"<h2 id={'a' * 20_000}{number}>Part {number}</h2><p>{'hay ' * 100}</p>" for number in range(20))
    content = page("<title>Hay</title>", f"<h1>{WORDS}</h1>{anchors}")

    entry = await harvested(database, tmp_path / "site", content)

    rows = database.query("select heading, anchor from chunk")
    assert all(len(part) <= text.LONGEST_HEADING for heading, _ in rows for part in heading)
    assert all(anchor is None or len(anchor) <= text.LONGEST_ANCHOR for _, anchor in rows)
    assert "part-1" in {anchor for _, anchor in rows}
    assert len(entry.text) < 1.5 * len(content)
    assert index_bytes(database) < 3 * len(content)


async def test_links_without_number_or_of_any_length_are_left_out(database, tmp_path):
    links = "".join(f"<a href=a{number}>x</a> " for number in range(text.MOST_LINKS + 1_000))
    long = f"<a href='https://example.org/{'y' * 20_000}'>y</a>"

    entry = await harvested(database, tmp_path / "site", page("<title>Hay</title>", long + links))

    [(stored,)] = database.query("select links from item_check")
    assert 1_000 < len(stored.split("\n")) <= text.MOST_LINKS
    assert len(stored) <= text.MOST_LINK_CHARS + text.MOST_LINKS
    assert "y" * 100 not in stored
    assert any("links were too long or too many" in remark for remark in entry.remarks)


async def test_a_language_that_no_index_would_take_is_left_out(database, tmp_path):
    language = "".join(f"{number:x}" for number in range(9_000))

    entry = await harvested(database, tmp_path / "site", f"---\nlang: {language}\n---\n# Hay\n\nMow.", "a.md")

    assert entry.language is None
    assert entry.remarks == ["Its language is no language tag, and is left out."]


async def test_an_url_that_is_too_long_to_be_an_identity_costs_that_item(database, kinds):
    long = "https://example.org/" + "a" * 100_000
    good = Document("https://example.org/good", "Good", "Hay.")
    kinds(Scripted)
    shows(Fetched(Document(long, "Bad", "Hay.")), Fetched(Raw(long + "b", b"x")), Fetched(good), Complete())

    async with database.open() as rowen:
        run = await rowen.sync("scripted:one")
        again = await rowen.sync("scripted:one")
        cases = await rowen.items.quarantine()

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 1, 2)
    assert (again.stats.failed, again.stats.rows_written) == (2, 0)
    assert len({case.url for case in cases}) == 2
    assert all(len(case.url) < 300 and "100,0" in case.error for case in cases)


async def test_errors_and_hints_are_kept_in_part(database, kinds):
    kinds(Scripted)
    shows(Failed("https://example.org/a", "E" * 1_000_000, hint="H" * 1_000_000), Complete())

    async with database.open() as rowen:
        await rowen.sync("scripted:one")
        [case] = await rowen.items.quarantine()

    assert len(case.error) <= text.LONGEST_ERROR
    assert len(case.hint or "") <= text.LONGEST_ERROR


async def test_a_run_keeps_the_beginning_of_its_error(database, kinds):
    def script(known):
        raise SourceError("E" * 1_000_000)

    kinds(Scripted)
    Scripted.script = script

    async with database.open() as rowen:
        run = await rowen.sync("scripted:one")

    assert run.status == "failed"
    assert 100 < len(run.error or "") <= text.LONGEST_ERROR


def test_a_validator_without_end_proves_nothing_and_is_not_kept():
    assert Validators("e" * 5_000, "m" * 5_000) == Validators()
    assert Raw("https://example.org/", b"", etag="e" * 5_000).etag is None
    assert Validators('"abc"').etag == '"abc"'


def test_what_is_left_out_is_part_of_the_records_hash():
    title = "Hay " * 1_000
    cut = Document("https://example.org/", title, "")
    short = Document("https://example.org/", cut.title, "")

    assert (cut.title, cut.content_hash) == (short.title, short.content_hash)
    assert cut.record_hash != short.record_hash
    assert short.remarks == ()
    assert replace(cut, depth=3) == replace(cut, depth=3, validators=cut.validators)
    assert (replace(cut, depth=3).remarks, replace(cut, depth=3).record_hash) == (cut.remarks, cut.record_hash)


def test_passages_keep_what_they_are_found_by_within_limits():
    chunk = Chunk("Hay.", ("h" * 5_000, "Second"), "a" * 5_000)

    assert [len(part) for part in chunk.heading] == [text.LONGEST_HEADING, 6]
    assert chunk.anchor is None


def test_a_cursor_holds_so_many_bridges_and_tells_that_there_are_more():
    links = tuple(f"https://example.org/{'l' * 1_000}/{number}" for number in range(2_000))
    bridges = {f"https://example.org/{number}": Bridge(links) for number in range(30)}

    few, many = (
        SiteCursor(part, known=True).to_cursor() for part in ({"https://example.org/": Bridge(links)}, bridges)
    )

    assert (len(few["bridges"]), few["known"]) == (1, True)
    assert 5 < len(many["bridges"]) < 15
    assert many["known"] is False


def test_remarks_are_shown_by_get(database, tmp_path):
    folder = tmp_path / "site"
    asyncio.run(harvested(database, folder, page(f"<title>{WORDS}</title>")))
    cli = Cli(tmp_path, {"ROWEN_DATABASE_URL": database.conninfo, "ROWEN_HOME": str(database.home)})

    shown, told = cli("get", str(folder / "a.html")), cli("get", str(folder / "a.html"), "--json")

    assert "Its title has" in shown.err
    assert told.facts[0]["remarks"][0].startswith("Its title has")
