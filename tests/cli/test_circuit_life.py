"""The life of a circuit through the program: opening, doubling after 429, half-open, opening again, closing."""

import itertools
import re
import time
from pathlib import Path

from tests.cli.conftest import Cli, leading_to
from tests.portals.embedder import Mood, Provider, status

LIMITS = {
    "CB_FAILURE_THRESHOLD": "2",
    "CB_RECOVERY_TIMEOUT_SECS": "0.5",
    "CB_SUCCESS_THRESHOLD": "2",
    "CB_RATE_LIMIT_BACKOFF_MULTIPLIER": "2",
    "CB_MAX_RECOVERY_TIMEOUT_SECS": "2",
}
ONE_BY_ONE = {
    "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8",
    "ROWEN_FETCH_TRIES": "1",
    "ROWEN_EMBEDDER_BATCH": "1",
    "ROWEN_EMBEDDER_CONCURRENCY": "1",
}


def test_embed_waits_out_the_circuit_of_a_busy_provider_and_never_longer_than_the_maximum(
    cli: Cli, provider: Provider, field: Path
) -> None:
    cli("sync", "./field")
    at: list[float] = []

    def timed(mood: Mood) -> Mood:
        def answer(data: list[dict[str, object]]) -> object:
            at.append(time.monotonic())
            return mood(data)

        return answer  # type: ignore[return-value]

    well: Mood = lambda data: data  # noqa: E731
    busy = status(429)
    provider.moods.extend(map(timed, [busy, busy, busy, busy, well, status(500), well, well, well]))
    done = cli("embed", "-v", "--json", **leading_to(provider), **LIMITS, **ONE_BY_ONE)

    assert done.code == 0
    assert {"embedded": 4, "pending": 0, "error": None}.items() <= done.facts[-1].items()
    # Each text was paid for once, and asked for again only after an answer that was none.
    assert len(at) == len(provider.asked_for) == 9
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    # The second failure opens it; a 429 doubles the pause once per opening, up to the maximum.
    assert [pauses[1] >= 1.0, pauses[2] >= 2.0, pauses[3] >= 2.0] == [True] * 3
    # Half-open, a failure after one success opens it again for as long as before; two successes close it.
    assert pauses[5] >= 2.0
    told = [float(found) for found in re.findall(r"waiting ([\d.]+) s for the embedder", done.err)]
    assert len(told) >= 4
    assert max(told) <= 2.0
