"""embed, and what status, doctor and db say about vectors."""

import re
import tempfile
import threading
from pathlib import Path
from typing import Any

from tests.cli.conftest import Cli, leading_to
from tests.portals.embedder import Provider


def test_a_sync_reports_pending_vectors_and_embed_creates_them(cli: Cli, provider: Provider, field: Path) -> None:
    there = {**leading_to(provider), "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_FETCH_TRIES": "1"}
    provider.down = True
    synced = cli("sync", "./field", **there)
    assert synced.code == 0
    assert "4 texts found by words only so far; `rowen embed`" in synced.err

    status = cli("status", **there)
    assert "embeddings\topenai:double\tactive\t0 vectors\t4 pending\t0 % of all passages" in status.out
    assert "embedding stopped" in status.err
    [source, _, _, model, _] = cli("status", "--json", **there).facts
    assert (source["coverage"], model["embeddings"]["coverage"]) == (0, 0)
    found = cli("search", "clover", **there)
    assert "0 % of what has the words has vectors so far" in found.err
    assert "so far" not in found.out

    provider.down = False
    done = cli("embed", "--json", **there)
    assert done.code == 0
    assert {"model": "openai:double", "embedded": 4, "pending": 0, "error": None}.items() <= done.facts[0].items()
    explained = cli("search", "clover", "--explain", **there)
    assert "so far" not in explained.err
    assert re.search(r"^coverage +1$", explained.out, re.MULTILINE)
    assert cli("search", "clover", "--explain", "--json", **there).facts[-1]["explanation"]["coverage"] == 1


def test_only_the_texts_of_a_source_are_embedded_and_nothing_is_switched_before_all_are(
    cli: Cli, provider: Provider, field: Path
) -> None:
    there = {**leading_to(provider), "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8"}
    cli.write({"barn/hay.md": "# Hay\n\nCut it dry.\n"})
    cli("sync", "./field", "./barn", ROWEN_EMBEDDER="none")

    barn = cli("embed", "--source", "barn", "--json", **there)
    asked = list(provider.received)
    other = cli("embed", "--source", "barn", "--model", "other", **there)
    [rest] = cli("embed", "--json", **there).facts
    unknown = cli("embed", "--source", "nobody", **there)

    assert {"embedded": 2, "pending": 0}.items() <= barn.facts[0].items()
    assert len(asked) == 2
    assert all("barley" not in text and "clover" not in text for text in asked)
    assert "openai:other: 2 embedded" in other.out
    assert "Search uses the previous model until all vectors are there" in other.err
    assert (rest["model"], rest["embedded"], rest["pending"]) == ("openai:double", 4, 0)
    assert unknown.code == 4


def test_a_provider_that_fails_is_an_error_with_exit_code_1(cli: Cli, provider: Provider, field: Path) -> None:
    cli("sync", "./field")
    done = cli("embed", **leading_to(provider), ROWEN_ALLOW_ADDRESSES="")

    assert done.code == 1
    assert "not a public address" in done.err
    assert "ROWEN_ALLOW_ADDRESSES" in done.err


def test_switching_is_reported_and_the_old_vectors_can_be_deleted(cli: Cli, provider: Provider, field: Path) -> None:
    there = {**leading_to(provider), "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8"}
    cli("sync", "./field", **there)
    switched = cli("embed", "--model", "other", **there)
    dropped = cli("embed", "--drop-old", **there)

    assert "to switch from openai:double" in switched.err
    assert "openai:other: 4 embedded" in switched.out
    assert "Search uses this model now" in switched.err
    assert "4 vectors" in dropped.out
    assert cli("db", "tidy", "--json", **there).facts == [{"kept": 0, "dropped": 0, "runs": 0, "answers": 0, "news": 0}]


def test_doctor_checks_the_embedder_and_reports_its_error(cli: Cli, provider: Provider) -> None:
    there = {**leading_to(provider), "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_FETCH_TRIES": "1"}
    well = cli("doctor", **there)
    provider.down = True
    ill = cli("doctor", **there)

    assert "embedder: openai:double gave 8 numbers" in well.out
    assert ill.code == 1
    assert "503" in ill.out


def test_the_demo_finds_by_meaning_with_no_key() -> None:
    with tempfile.TemporaryDirectory(prefix="rowen-test-") as folder:
        Path(folder).chmod(0o755)
        done = Cli(Path(folder), {})("demo", TMPDIR=folder, ROWEN_EMBEDDER="local")

    assert done.code == 0, done.err
    assert "The goat incident" in done.out.partition("none of these words")[2]


def test_a_killed_embed_again_is_finished_by_the_next_embed(cli: Cli, provider: Provider, field: Path) -> None:
    there = {**leading_to(provider), "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8"}
    there |= {"ROWEN_EMBEDDER_BATCH": "1", "ROWEN_EMBEDDER_CONCURRENCY": "1"}
    cli("sync", "./field", **there)
    provider.received.clear()
    third = threading.Event()

    def hold(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(provider.received) == 3:
            third.set()
            process.kill()
        return data

    provider.always = hold
    process = cli.start("embed", "--again", **there)
    with process:
        assert third.wait(60)
        process.communicate(timeout=60)
    killed = set(provider.received)
    provider.always = None
    status = cli("status", **there)
    [model] = [fact["embeddings"] for fact in cli("status", "--json", **there).facts if "embeddings" in fact]
    found = cli("search", "all clover", **there)
    [rest] = cli("embed", "--json", **there).facts
    nothing = cli("embed", "--json", **there)

    assert process.returncode == -9
    assert (len(killed), model["again"], model["pending"]) == (3, 2, 0)
    assert "2 to be embedded again" in status.out
    assert "2 texts to be embedded again, found by old vectors so far; `rowen embed` goes on" in status.err
    assert "clover" in found.out
    assert (rest["embedded"], rest["again"], nothing.facts[0]["embedded"]) == (2, 0, 0)
    assert sum(provider.repeated().values()) - len(provider.repeated()) <= 1, "what was in flight is asked once more"


def test_embedding_again_reports_its_cost_and_takes_only_texts_of_a_source(
    cli: Cli, provider: Provider, field: Path
) -> None:
    there = {**leading_to(provider), "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8"}
    cli.write({"barn/hay.md": "# Hay\n\nCut it dry.\n"})
    cli("sync", "./field", "./barn", **there)
    provider.received.clear()
    done = cli("embed", "--again", "--source", "barn", **there)

    assert done.code == 0, done.err
    assert "2 passages, 2 of them again, about" in done.err
    assert "at an unknown price" in done.err
    assert "2 embedded" in done.out
    assert len(provider.received) == 2
