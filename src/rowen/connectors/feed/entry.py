"""One entry of a feed, whatever its format, and the item that it becomes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import ada_url

from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.text import has_markup, one_line
from rowen.model.hashes import body_hash, canonical_json
from rowen.model.item import Raw
from rowen.model.url import quoted

__all__ = ["FeedEntry", "entry_url", "resolved", "stamp_of"]

_WEB = re.compile(r"https?://[^/?#\s]+[^#\s]*", re.IGNORECASE)
# Of an entry without a title: as much as a line of search results shows.
_TITLE_CHARS = 80
_DIGEST_LETTERS = 32  # half of a SHA-256: 128 bits, of which no two versions of an entry share all


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """What an entry says. `content` is HTML; relative addresses in it are relative to `base`.

    `stamp` tells when it was changed last, in a form that can be compared; None where the entry does not tell.
    """

    url: str
    title: str
    content: str
    base: str
    link: str | None = None
    stamp: str | None = None
    language: str | None = None
    tags: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The entry's own validator: over all that is made of it."""
        said = [self.title, self.content, self.base, self.link, self.language, list(self.tags), dict(self.record)]
        return body_hash(canonical_json(said)).hex()[:_DIGEST_LETTERS]

    @property
    def heading(self) -> str:
        """The title or, where it has none, how the entry begins."""
        if self.title:
            return self.title
        words = one_line(self.content)
        cut = words[:_TITLE_CHARS].rpartition(" ")[0] if len(words) > _TITLE_CHARS else words
        return f"{cut} …" if cut != words else words or self.link or self.url

    def raw(self, *, language: str | None) -> Raw:
        """The entry as a small page, which the flow reads. The digest stands in it: another record is another body."""
        digest = self.digest
        link = f'<p><a href="{escape(self.link)}">{escape(self.link)}</a></p>' if self.link else ""
        content = self.content if has_markup(self.content) else f"<p>{self.content}</p>"
        body = (
            f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(self.heading)}</title>'
            f'<base href="{escape(self.base)}"></head><body><main>{content}{link}</main><!-- {digest} --></body></html>'
        )
        return Raw(
            self.url,
            body.encode("utf-8", "replace"),
            media_type="text/html",
            charset="utf-8",
            title=self.heading,
            tags=self.tags,
            record=self.record,
            language=language or self.language,
            etag=digest,
            last_modified=self.stamp,
        )


def entry_url(feed: str, identifier: str | None, link: str | None, otherwise: Any = None) -> str:
    """The URL of an entry: its identifier, where that is an address; else one below the feed, made of the identifier.

    It depends on nothing but the entry. Links are no identifiers: several entries may share one, and they change.
    """
    if identifier and _WEB.fullmatch(identifier):
        return identifier
    if not identifier and link and _WEB.fullmatch(link):
        return link
    name = identifier or link or body_hash(canonical_json(otherwise)).hex()[:_DIGEST_LETTERS]
    return f"{feed.partition('#')[0]}#/entry/{quoted(name, safe=':@/!$,;=')}"


def resolved(base: str, address: str | None) -> str | None:
    """An address as it stands in a document of this base; None for one that is none."""
    if not (address := (address or "").strip()):
        return None
    try:
        return str(ada_url.join_url(base, address))
    except ValueError:
        return None


def stamp_of(*dates: Any) -> str | None:
    """The first of these dates that is one, in a form that sorts as time does."""
    found = next((at for date in dates if (at := moment(date)) is not None), None)
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if found else None
