"""search, get, diff, history, changes."""

from tests.cli.conftest import PATIENCE_S, Cli
from tests.conftest import ScratchDatabase


def test_search_gives_an_object_for_each_item(docs: Cli) -> None:
    done = docs("search", "turn the hay", "--json")

    best = done.facts[0]
    assert done.code == 0
    assert best.keys() >= {"url", "title", "source", "heading", "text", "score", "link", "anchor"}
    assert (best["title"], best["source"]) == ("Hay", "docs")
    assert best["url"] == f"file://{docs.folder}/docs/hay.md"
    assert best["score"] > 0


def test_search_shows_title_source_snippet_and_link_without_colours_in_a_pipe(docs: Cli) -> None:
    done = docs("search", "swallows", "--source", "docs")

    assert done.out.splitlines()[0] == " 1  Hay  docs"
    assert "swallows fly high" in done.out
    assert done.out.splitlines()[-1] == f"    file://{docs.folder}/docs/hay.md"
    assert "\x1b" not in done.out


def test_no_results_are_a_message_and_no_failure(docs: Cli) -> None:
    done = docs("search", "submarine")

    assert (done.code, done.out) == (0, "")
    assert "No results for 'submarine'" in done.err
    assert docs("search", "hay", "--source", "nowhere").code == 4


def test_get_prints_the_text_and_nothing_else(docs: Cli) -> None:
    text = docs("get", "docs/hens.md")
    fact = docs("get", f"file://{docs.folder}/docs/hens.md", "--json")
    missing = docs("get", "docs/nothing.md")

    assert text.out == "# Hens\n\nClose the hatch at dusk. Nine perches for nine hens.\n"
    assert fact.facts[0]["title"] == "Hens"
    assert missing.code == 4
    assert "`rowen search`" in missing.err


def test_history_and_diff_show_what_changed(docs: Cli) -> None:
    docs.write({"docs/hens.md": "# Hens\n\nClose the hatch at dusk. Ten perches for nine hens.\n"})
    docs("sync")

    history = docs("history", "docs/hens.md", "--json")
    diff = docs("diff", "docs/hens.md")
    first = docs("diff", "docs/hens.md", "--to", "1", "--json")

    assert [(fact["number"], fact["current"]) for fact in history.facts] == [(1, False), (2, True)]
    assert "+Close the hatch at dusk. Ten perches for nine hens." in diff.out.splitlines()
    assert "-Close the hatch at dusk. Nine perches for nine hens." in diff.out.splitlines()
    assert (first.facts[0]["older"], first.facts[0]["newer"]) == (0, 1)
    assert docs("diff", "docs/hens.md", "--from", "7").code == 4


def test_changes_have_their_documented_fields_and_begin_after_since(docs: Cli) -> None:
    everything = docs("changes", "--json")
    later = docs("changes", "--since", "2", "--json")
    recent = docs("changes", "--since", "1h", "--limit", "1", "--json")
    future = docs("changes", "--since", "2999-01-01", "--json")
    newest = docs("changes", "--limit", "2", "--json")
    plain = docs("changes", "--source", "docs")

    assert [fact["number"] for fact in everything.facts] == [1, 2, 3]
    assert everything.facts[0].keys() >= {"number", "kind", "url", "title", "source", "at"}
    assert [fact["number"] for fact in later.facts] == [3]
    assert [fact["number"] for fact in recent.facts] == [1]
    assert future.facts == []
    assert [fact["number"] for fact in newest.facts] == [2, 3]
    assert docs("changes", "--since", "1D", "--json").facts == everything.facts
    assert plain.out.splitlines()[0].split("\t")[:2] == ["1", "created"]


def test_a_wrong_since_is_explained(cli: Cli) -> None:
    done = cli("changes", "--since", "yesteryear")

    assert done.code == 2
    assert "(2026-01-31)" in done.err


def test_following_shows_a_change_as_it_happens(docs: Cli) -> None:
    with docs.start("changes", "--follow", "--limit", "4", "--json") as follower:
        assert follower.stdout is not None
        before = [follower.stdout.readline() for _ in range(3)]
        docs.write({"docs/new.md": "# New\n"})
        docs("sync")
        after, _ = follower.communicate(timeout=PATIENCE_S)

    assert all('"created"' in line for line in before)
    assert '"number": 4' in after
    assert follower.returncode == 0


def test_search_in_a_version_needs_sources_that_have_one(docs: Cli, database: ScratchDatabase) -> None:
    without = docs("search", "hay", "--version", "2.x")
    database.execute("update source set version = '2.1'")
    found = docs("search", "hay", "--version", "2.x", "--json")
    shown = docs("show", "docs", "--json")

    assert (without.code, without.out) == (4, "")
    assert "no versions at all" in without.err
    assert found.facts[0]["title"] == "Hay"
    assert shown.facts[0]["version"] == "2.1"


def test_a_deleted_item_is_shown_from_its_last_copy_with_a_notice(docs: Cli) -> None:
    (docs.folder / "docs/hens.md").unlink()
    docs("sync")

    text = docs("get", "docs/hens.md")
    fact = docs("get", "docs/hens.md", "--json").facts[0]
    history = docs("history", "docs/hens.md", "--json").facts
    diff = docs("diff", "docs/hens.md", "--json").facts[0]

    assert (text.code, text.out.splitlines()[0]) == (0, "# Hens")
    assert "Deleted by docs on " in text.err
    assert (bool(fact["withdrawn_at"]), bool(history[0]["withdrawn_at"]), bool(diff["withdrawn_at"])) == (True,) * 3
    assert docs("search", "hatch", "--json").facts == []
