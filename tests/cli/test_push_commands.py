"""Looking at what somebody names: sync --only, poke and push, as a user has them."""

from tests.cli.conftest import Cli
from tests.conftest import ScratchDatabase


def test_only_the_named_files_are_checked(docs: Cli) -> None:
    docs.write({"docs/hay.md": "# Hay\n\nOther words.\n", "docs/hens.md": "# Hens\n\nOther words, too.\n"})

    done = docs("sync", "docs", "--only", "docs/hay.md", "docs/cider.txt", "docs/new.md")
    nameless = docs("sync", "--only", "docs/hay.md")

    assert done.code == 0, done.err
    assert "1 updated" in done.out
    assert "1 unchanged" in done.out
    assert "1 URL left alone" in done.err
    assert nameless.code == 2
    assert "Name the source first" in nameless.err


def test_a_poke_is_done_by_the_next_worker(docs: Cli, database: ScratchDatabase) -> None:
    docs.write({"docs/hay.md": "# Hay\n\nOther words.\n"})

    poked = docs("poke", "./docs/hay.md", "--json")
    worked = docs("worker", "--until-idle")
    unknown = docs("poke", "https://elsewhere.example/")

    assert [(fact["source"], fact["urls"]) for fact in poked.facts] == [("docs", 1)]
    assert "rowen worker --until-idle" in poked.err
    assert "1 updated" in worked.out
    assert (unknown.code, "belongs to no source" in unknown.err) == (4, True)


def test_push_secret_shows_addresses_and_secrets(docs: Cli) -> None:
    keyless = docs("push", "secret", "docs")
    told = docs(
        "push", "secret", "docs", "--json", ROWEN_PUSH_KEY="sixteen letters!", ROWEN_PUBLIC_URL="https://rowen.example/"
    )
    empty = docs("push")

    assert "ROWEN_PUSH_KEY" in keyless.err
    assert [(fact["way"], fact["url"]) for fact in told.facts] == [("call", "https://rowen.example/push/call/docs")]
    assert told.facts[0]["secret"].startswith("whsec_")
    assert "There are no subscriptions" in empty.err
