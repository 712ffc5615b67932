"""Pages that say "not found" with status 200: told by asking for something that cannot be there."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from difflib import SequenceMatcher
from hashlib import sha256

from rowen.concurrency import end
from rowen.model.items import Document
from rowen.net.target import parse

__all__ = ["SoftMissing"]

# An error page may repeat the address that was asked for, so that two of them are not equal letter by letter. At half
# of it, two pages of one template would count as the same, and a true page that says "not found" would be deleted.
ALIKE = 0.9
# Comparing so much took 17 ms, and takes time in the square of the length at worst.
COMPARED_CHARS = 2000
_APOLOGY = re.compile(
    r"\b404\b|not found|(?:does not|doesn.t|no longer) exist|no such page|nicht gefunden|introuvable|niet gevonden"
    r"|no encontrad|non trovat|não encontrad|nie znaleziono|не найден|見つかりません",
    re.IGNORECASE,
)


class SoftMissing:
    """Compares a page that sounds like an error with what the site answers for a page that never was.

    The site is asked once per origin, and only when some page sounds like an error: a site without such pages
    pays nothing.
    """

    def __init__(self, read: Callable[[str], Awaitable[Document | None]]) -> None:
        self._read = read
        self._answers: dict[str, asyncio.Task[Document | None]] = {}

    async def close(self) -> None:
        """Abandon the requests that are still running: their caller may have been cancelled."""
        await end(self._answers.values())

    async def is_missing(self, document: Document) -> bool:
        """Whether this is the site's way to say that there is no such page."""
        if not _APOLOGY.search(f"{document.title}\n{document.text[:500]}"):
            return False
        origin = parse(document.url).origin
        if origin not in self._answers:
            nowhere = f"{origin}/{sha256(origin.encode()).hexdigest()[:20]}"
            self._answers[origin] = asyncio.ensure_future(_read(self._read, nowhere))
        apology = await asyncio.shield(self._answers[origin])
        return apology is not None and apology.title == document.title and _alike(apology.text, document.text)


async def _read(read: Callable[[str], Awaitable[Document | None]], url: str) -> Document | None:
    return await read(url)


def _alike(one: str, other: str) -> bool:
    return SequenceMatcher(None, one[:COMPARED_CHARS], other[:COMPARED_CHARS]).ratio() >= ALIKE
