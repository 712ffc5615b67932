"""Words that changes are filtered by are bounded before the database nests them."""

from collections.abc import Awaitable, Callable

import pytest

from rowen import Rowen, UsageError
from rowen.server.admission import allowed_next
from tests.conftest import ScratchDatabase

ALLOWED, TOO_LONG = "hay " * 250, "hay " * 4_000

CALLS: dict[str, Callable[[Rowen, str], Awaitable[object]]] = {
    "saved search": lambda r, words: r.searches.save("hay", words),
    "changes": lambda r, words: r.changes.newest(query=words),
    "feed": lambda r, words: r.feeds.feed(query=words),
    "webhook": lambda r, words: r.webhooks.add("hay", "https://hay.example/", secret="env:HAY", query=words),
}


@pytest.mark.parametrize("name", CALLS)
async def test_words_that_would_exceed_the_stack_of_the_database_are_refused(
    database: ScratchDatabase, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAY", "whsec_" + "aGF5" * 12)
    async with database.open() as r:
        with pytest.raises(UsageError, match="16,000 characters; at most 1,000"):
            await CALLS[name](r, TOO_LONG)
        await CALLS[name](r, ALLOWED)


@pytest.mark.parametrize("path", ["//*[", "//[::1", "http://[x", "//\u2100.example/"])
def test_a_login_goes_on_to_no_address_that_no_parser_reads(path: str) -> None:
    assert allowed_next(path) == "/"
