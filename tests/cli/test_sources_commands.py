"""add, sources, show, edit, pause, resume, remove."""

from contextlib import closing

import pytest

from tests.cli.conftest import Cli
from tests.portals.feed import FeedSite


def test_add_prints_name_kind_and_url_and_the_next_step_on_stderr(cli: Cli) -> None:
    cli.write({"docs/a.md": "# A\n"})

    done = cli("add", "./docs", "--name", "mine", "--option", "hidden=true", "--option", "include=*.md")

    assert done.code == 0
    assert done.out == f"mine\tadded\tfiles\tfile://{cli.folder}/docs\n"
    assert "`rowen sync mine`" in done.err
    assert cli("show", "mine", "--json").facts[0]["options"] == {"hidden": True, "include": ["*.md"]}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("./nowhere",), "'./nowhere' cannot be read"),
        (("./docs", "--kind", "telepathy"), "The kinds are: "),
        (("./docs", "--option", "colour=red"), "Its options: "),
        (("./docs", "--option", "colour"), "KEY=VALUE"),
        (("./docs", "--option", "max_bytes=-1"), "Option 'max_bytes' of kind 'files'"),
        ((), "Missing argument"),
    ],
)
def test_an_address_that_cannot_be_added_is_a_usage_error_with_a_hint(
    cli: Cli, arguments: tuple[str, ...], said: str
) -> None:
    cli.write({"docs/a.md": "# A\n"})

    done = cli("--json", "add", *arguments)

    assert done.code == 2
    assert not done.out
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.error["exit_code"] == 2


def test_a_source_is_listed_edited_paused_resumed(docs: Cli) -> None:
    edited = docs("edit", "docs", "--rename", "papers", "--option", "language=de", "--json")
    paused = docs("pause", "papers", "--json")
    resumed = docs("resume", "papers")
    reset = docs("edit", "papers", "--reset", "language", "--json")

    assert (edited.facts[0]["name"], edited.facts[0]["options"]) == ("papers", {"language": "de"})
    assert paused.facts[0]["state"] == "paused"
    assert resumed.out.startswith("papers\tactive\t")
    assert reset.facts[0]["options"] == {}
    assert docs("sources").out.split("\t")[:4] == ["papers", "files", "active", "3"]


def test_an_edit_that_changes_nothing_is_a_usage_error(docs: Cli) -> None:
    assert docs("edit", "docs").code == 2


def test_remove_without_a_terminal_needs_yes(docs: Cli) -> None:
    refused = docs("remove", "docs", "--json")
    removed = docs("remove", "docs", "--yes", "--json")
    again = docs("remove", "docs", "--yes")

    assert refused.code == 5
    assert "--yes" in refused.error["hint"]
    assert removed.facts == [{"source": "docs", "removed": 3}]
    assert again.code == 4


def test_show_reports_the_polls_of_a_feed(cli: Cli) -> None:
    with closing(FeedSite()) as feed:
        feed.hub = "https://hub.example/"
        feed.fill(2)
        cli("add", feed.address, "--name", "blog")
        before = cli("show", "blog", "--json").facts[0]["following"]
        cli("sync", "blog", ROWEN_ALLOW_ADDRESSES="127.0.0.0/8")

        shown = cli("show", "blog").out
        told = cli("show", "blog", "--json").facts[0]["following"]

    assert (before["state"], before["last_poll_at"]) == ("replicating", None)
    assert "following" in shown
    assert "https://hub.example/" in shown
    assert (told["state"], told["hubs"], told["last_error"]) == ("following", ["https://hub.example/"], None)
    assert told["last_new_at"] is not None
