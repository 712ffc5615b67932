"""held."""

from tests.cli.conftest import Cli

FEW = {"ROWEN_DELETION_FLOOR": "1"}


def lose(docs: Cli) -> tuple[str, str]:
    """Two files that vanish, too many to go unasked; their URLs."""
    for name in ("hay", "hens"):
        (docs.folder / f"docs/{name}.md").unlink()
    assert docs("sync", **FEW).code == 5
    return f"file://{docs.folder}/docs/hay.md", f"file://{docs.folder}/docs/hens.md"


def test_held_lists_pending_deletions_and_search_marks_them(docs: Cli) -> None:
    hay, hens = lose(docs)

    listed = docs("held", "docs", "--json")
    plain = docs("held")
    found = docs("search", "swallows")
    marked = docs("search", "swallows", "--json")

    assert [(fact["url"], fact["told"], fact["kept_at"]) for fact in listed.facts] == [
        (hay, False, None),
        (hens, False, None),
    ]
    assert "no longer listed" in plain.out
    assert "its deletion is pending" in found.out
    assert marked.facts[0]["held"] is True


def test_deletions_are_accepted_and_refused_one_by_one(docs: Cli) -> None:
    hay, hens = lose(docs)

    decided = docs("held", "docs", "--accept", hay, "--keep", hens, "--json")
    left = docs("held", "docs", "--json")
    synced = docs("sync", "--json", **FEW)

    assert decided.facts == [{"source": "docs", "accepted": 1, "kept": 1}]
    assert [(fact["url"], bool(fact["kept_at"])) for fact in left.facts] == [(hens, True)]
    assert (synced.code, synced.facts[0]["deletions_held"], synced.facts[0]["deleted"]) == (0, 0, 0)
    assert docs("sources", "--json").facts[0]["items"] == 2


def test_a_decision_needs_a_source_and_a_pending_deletion(docs: Cli) -> None:
    hay, _ = lose(docs)

    assert docs("held", "--accept", hay).code == 2
    assert docs("held", "docs", "--accept", "docs/none.md").code == 4
    assert docs("held", "nowhere").code == 4
    assert docs("held").out.count("\n") == 2


def test_a_dry_run_leaves_nothing_to_decide(docs: Cli) -> None:
    for name in ("hay", "hens"):
        (docs.folder / f"docs/{name}.md").unlink()

    assert docs("sync", "--dry-run", **FEW).code == 0
    assert "No deletions are pending." in docs("held").err
