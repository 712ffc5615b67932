"""Detects interstitials: a login, an error with status 200, a captive portal or a parked domain in place of pages.

If pages that differed before now all have the same text, or all redirect to one address, they were not edited. A
replaced text is lost as if the page were deleted, so the deletion guard limits how many texts may be lost. If there
are more, the changes are refused and the stored pages stay. To decide in time, pages wait until the walk ends, or
until many pages with other texts were read.
"""

import re
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from rowen.connectors.base import StoredState
from rowen.model.hashes import Hash, content_hash
from rowen.model.items import Document
from rowen.net.target import redact

# Two pages that become equal may be an edit; three are a pattern, and a small site has no more pages.
LEAST = 3
# Pages with one text that are refused on any site, since they must be kept in memory until then.
MOST_SAME = 1000
# The size of a group of a run: interstitials are detected far earlier, and memory use stays small.
MOST_WAITING, MOST_WAITING_CHARS = 500, 4_000_000
# A site has one interstitial or a few; each suspect costs requests.
MOST_SUSPECTS = 4

PERHAPS = (
    "perhaps a login, an error or a captive portal. Nothing was updated or deleted by it;"
    " --accept-deletions takes it as it is."
)

_PAGE_CHARS = 500  # approximate memory of a page without its text
_TARGET = re.compile(r"\]\([^()\s]*\)")

PageMark: TypeAlias = Hash | str
"""The property that such pages share: the hash of their text, or the URL that they redirect to."""


def mark_of(document: Document) -> Hash:
    """Return the hash of a page without its own address, which its links and its title may contain."""
    title = "" if unquote(document.url).endswith(document.title) else document.title
    return content_hash(title, _TARGET.sub("]", document.text), document.tags)


class Member(NamedTuple):
    """A page whose `document` would replace the stored pages `replaced`; with `shares_text`, `_Alike` has its text."""

    url: str
    depth: int
    replaced: tuple[StoredState, ...] = ()
    document: Document | None = None
    shares_text: bool = False

    @property
    def chars(self) -> int:
        """Return the approximate memory use of the page, in characters."""
        if self.document is None:
            return _PAGE_CHARS
        return _PAGE_CHARS + len(self.document.text) + sum(map(len, self.document.links))


@dataclass(slots=True)
class _Alike:
    """The waiting pages with one mark."""

    text: str | None = None
    members: list[Member] = field(default_factory=list)
    texts: set[Hash | None] = field(default_factory=set)
    chars: int = 0

    def add(self, member: Member) -> None:
        if member.document is not None and self.text is None:
            self.text = member.document.text
        elif member.document is not None and member.document.text == self.text:
            member = member._replace(document=replace(member.document, text=""), shares_text=True)
        self.members.append(member)
        self.texts.update(stored.content_hash for stored in member.replaced)
        self.chars += member.chars

    def documents(self) -> list[Document]:
        """Return the documents of all members, with their shared text."""
        pages = [(member.document, member.shares_text) for member in self.members if member.document is not None]
        return [replace(document, text=self.text or "") if shares else document for document, shares in pages]


class Interstitials:
    """Detects interstitials; `losable` is the number of texts that may be lost, or None for any number."""

    def __init__(self, losable: int | None) -> None:
        self.why: str | None = None
        self._losable = losable if losable is None else min(losable, MOST_SAME)
        self._waiting: OrderedDict[PageMark, _Alike] = OrderedDict()
        self._chars = 0
        self._refused: dict[PageMark, int] = {}
        self._suspected: set[PageMark] = set()

    @property
    def watches(self) -> bool:
        """Return whether the number of lost texts is limited."""
        return self._losable is not None

    def is_refused(self, mark: PageMark) -> bool:
        """Return whether pages with this mark are known interstitials."""
        return mark in self._refused

    def take(self, mark: PageMark, member: Member) -> tuple[list[Document], list[Member]]:
        """Queue a page until similar pages may have come; return the pages that are ready, and the refused pages."""
        if self._losable is None:
            return [member.document] if member.document is not None else [], []
        if mark in self._refused:
            return [], self._refuse(mark, [member])
        alike = self._waiting.setdefault(mark, _Alike())
        self._waiting.move_to_end(mark)
        before = alike.chars
        alike.add(member)
        self._chars += alike.chars - before
        too_many = len(alike.texts) - 1 > self._losable or alike.chars > MOST_WAITING_CHARS
        if too_many and len(alike.texts) >= LEAST:
            return [], self.refuse(mark)
        ready: list[Document] = []
        while len(self._waiting) > MOST_WAITING or self._chars > MOST_WAITING_CHARS:
            _, alike = self._waiting.popitem(last=False)
            self._chars -= alike.chars
            ready += alike.documents()
        return ready, []

    def refuse(self, mark: PageMark) -> list[Member]:
        """Refuse all pages with a mark, both waiting pages and later pages; return the waiting pages."""
        if isinstance(mark, str):
            # Drop the page that others redirect to, unless it is stored.
            for alike in self._waiting.values():
                alike.members = [
                    member
                    for member in alike.members
                    if member.url != mark or any(stored.url == mark for stored in member.replaced)
                ]
        alike = self._waiting.pop(mark, _Alike())
        self._chars -= alike.chars
        return self._refuse(mark, alike.members)

    def _refuse(self, mark: PageMark, members: list[Member]) -> list[Member]:
        count = self._refused[mark] = self._refused.get(mark, 0) + sum(len(member.replaced) for member in members)
        if members:
            same = f"redirect to {redact(mark)}" if isinstance(mark, str) else "answer with one and the same text"
            self.why = f"{count} pages that differed before now {same}, such as {redact(members[0].url)}: {PERHAPS}"
        return members

    def suspects(self) -> list[tuple[PageMark, list[Member]]]:
        """Return the marks whose pages would replace most texts, with these pages; return each mark only once."""
        fresh = [(mark, alike) for mark, alike in self._waiting.items() if alike.texts and mark not in self._suspected]
        fresh.sort(key=lambda suspect: -len(suspect[1].texts))
        self._suspected.update(mark for mark, _ in fresh)
        return [(mark, list(alike.members)) for mark, alike in fresh[:MOST_SUSPECTS]]

    def rest(self) -> list[Document]:
        """Return all pages that still wait at the end of a walk."""
        waiting, self._waiting, self._chars = self._waiting, OrderedDict(), 0
        return [document for alike in waiting.values() for document in alike.documents()]
