"""A feed document in any format: its entries, links and deletions; reads JSON Feed 1.0 and 1.1."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import ada_url

from rowen.connectors.base import unread_url
from rowen.connectors.catalog.dates import iso, moment
from rowen.connectors.catalog.text import has_markup, one_line
from rowen.errors import SourceError
from rowen.formats.json import payload_of, read_json
from rowen.model.hashes import body_hash, canonical_json
from rowen.model.items import Failed, Raw
from rowen.model.text import attempt
from rowen.model.url import quoted

_WEB = re.compile(r"https?://[^/?#\s]+[^#\s]*", re.IGNORECASE)
_LINK = re.compile(r"<([^<>]*)>((?:\s*;\s*[\w*-]+\s*=\s*(?:\"[^\"]*\"|[^\s\",;]+))*)")
_REL = re.compile(r"\brel\s*=\s*(?:\"([^\"]*)\"|([^\s\",;]+))", re.IGNORECASE)
# For an entry without a title: the length of a line of search results.
_TITLE_CHARS = 80
_DIGEST_CHARS = 32  # half of a SHA-256: 128 bits, enough that no two versions of an entry share them


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """A feed entry. `content` is HTML with addresses relative to `base`; `stamp` is its sortable time of change."""

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
        """Return the validator of the entry: a hash of all its stored data."""
        parts = [self.title, self.content, self.base, self.link, self.language, list(self.tags), dict(self.record)]
        return body_hash(canonical_json(parts)).hex()[:_DIGEST_CHARS]

    @property
    def heading(self) -> str:
        """Return the title; without a title, the beginning of the content, or else the link."""
        if self.title:
            return self.title
        words = one_line(self.content)
        cut = words[:_TITLE_CHARS].rpartition(" ")[0] if len(words) > _TITLE_CHARS else words
        return f"{cut} …" if cut != words else words or self.link or self.url

    def raw(self, *, language: str | None) -> Raw:
        """Return the entry as a small HTML page that contains the digest, so that a changed record changes the body."""
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


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deleted entry (Atom tombstone, RFC 6721)."""

    url: str
    stamp: str | None


@dataclass(slots=True)
class FeedDocument:
    """A feed document. `older` is the previous archive (RFC 5005, section 4), `following` the next page.

    `trouble` is the reason why a document could not be read completely. Such a document is read again by the next run,
    whatever its validators.
    """

    entries: list[FeedEntry] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    deleted: list[Deletion] = field(default_factory=list)
    older: str | None = None
    following: str | None = None
    hubs: tuple[str, ...] = ()
    topic: str | None = None
    trouble: str | None = None

    def add(self, entry: FeedEntry | Failed) -> None:
        """Add an entry, or an entry that could not be read."""
        if isinstance(entry, Failed):
            self.failed.append(entry)
        else:
            self.entries.append(entry)

    def link(self, rel: str, address: str | None) -> None:
        """Record a link of the document by its relation; ignored if `address` is None."""
        if address is None:
            return
        match rel:
            case "prev-archive":
                self.older = self.older or address
            case "next":
                self.following = self.following or address
            case "self":
                self.topic = self.topic or address
            case "hub" if address not in self.hubs:
                self.hubs = (*self.hubs, address)

    def link_headers(self, lines: list[str], resolve: Callable[[str], Any]) -> None:
        """Record the hubs in the HTTP Link headers (WebSub, section 4), before the hubs named in the document."""
        links = [
            (rel.lower(), resolve(link[1]))
            for line in lines
            for link in _LINK.finditer(line)
            for name in _REL.findall(link[2])[:1]
            for rel in (name[0] or name[1]).split()
        ]
        hubs = tuple(dict.fromkeys(address for rel, address in links if rel == "hub" and address))
        self.hubs = (*hubs, *(hub for hub in self.hubs if hub not in hubs))
        self.topic = next((address for rel, address in links if rel == "self" and address), None) or self.topic

    def keep_latest(self) -> None:
        """Keep the latest version of each entry; of versions with the same time, keep the first."""
        latest: dict[str, FeedEntry] = {}
        for entry in self.entries:
            before = latest.get(entry.url)
            if before is None or (entry.stamp or "") > (before.stamp or ""):
                latest[entry.url] = entry
        self.entries = list(latest.values())


def entry_url(feed: str, identifier: str | None, link: str | None, otherwise: Any = None) -> str:
    """Return the URL of an entry: its identifier if that is a URL, else a URL below the feed's URL.

    The URL depends only on the entry. The link is used only for an entry without an identifier, since several entries
    may share a link, and links change.
    """
    if identifier and _WEB.fullmatch(identifier):
        return identifier
    if not identifier and link and _WEB.fullmatch(link):
        return link
    name = identifier or link or body_hash(canonical_json(otherwise)).hex()[:_DIGEST_CHARS]
    return f"{feed.partition('#')[0]}#/entry/{quoted(name, safe=':@/!$,;=')}"


def resolved(base: str, address: str | None) -> str | None:
    """Return an address resolved against `base`; None if it is empty or invalid."""
    if not (address := (address or "").strip()):
        return None
    try:
        return str(ada_url.join_url(base, address))
    except ValueError:
        return None


def stamp_of(*dates: Any) -> str | None:
    """Return the first valid date, in a form that sorts chronologically; None if no date is valid."""
    first = next((at for date in dates if (at := moment(date)) is not None), None)
    return first.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if first else None


_TEXTS = frozenset({"content_html", "content_text"})


def read_json_feed(body: bytes, feed: str, url: str) -> FeedDocument:
    """Read a JSON Feed document; raise `SourceError` if it is no feed."""
    content = read_json(body, url)
    if not isinstance(content, dict) or not isinstance(content.get("items"), list):
        raise SourceError(
            f"{url} is no JSON Feed: it has no list of items.",
            hint="Name the address of an RSS, Atom or JSON feed, or add it as another kind.",
        )
    document = FeedDocument()
    document.link("next", resolved(url, _text(content.get("next_url"))))
    document.link("self", resolved(url, _text(content.get("feed_url"))))
    for hub in _list(content.get("hubs")):
        if isinstance(hub, dict) and _text(hub.get("type")).lower() == "websub":
            document.link("hub", resolved(url, _text(hub.get("url"))))
    language = _text(content.get("language")) or None
    for item in content["items"]:

        def failure(why: str, item: Any = item) -> Failed:
            payload = payload_of(item) or b""
            return Failed(unread_url(feed, payload), f"The entry cannot be read: {why}.", payload=payload)

        document.add(attempt(lambda item=item: _read_json_entry(item, feed, url, language), failure))  # type: ignore[misc]
    document.keep_latest()
    return document


def _read_json_entry(item: Any, feed: str, base: str, language: str | None) -> FeedEntry:
    if not isinstance(item, dict):
        raise ValueError("it is no object")
    identifier = _text(item.get("id"))
    link = resolved(base, _text(item.get("url")) or _text(item.get("external_url")))
    updated, published = iso(item.get("date_modified")), iso(item.get("date_published"))
    title = " ".join(_text(item.get("title")).split())
    content = _text(item.get("content_html"))
    if not content:
        text = _text(item.get("content_text")) or _text(item.get("summary"))
        content = "".join(f"<p>{escape(part.strip())}</p>" for part in text.split("\n\n") if part.strip())
    authors = item.get("authors") or [item.get("author")]
    authors = authors if isinstance(authors, list) else [authors]
    attachments = [entry for entry in _list(item.get("attachments")) if isinstance(entry, dict)]
    record: Mapping[str, Any] = {
        "id": identifier or None,
        "link": link,
        "published": published,
        "updated": updated,
        "authors": [name for author in authors if isinstance(author, dict) and (name := _text(author.get("name")))],
        "enclosures": [url for attachment in attachments if (url := resolved(base, _text(attachment.get("url"))))],
        "entry": {name: value for name, value in item.items() if name not in _TEXTS},
    }
    return FeedEntry(
        entry_url(feed, identifier, link, [title, content, published]),
        title,
        content,
        base,
        link=link,
        stamp=stamp_of(updated, published),
        language=_text(item.get("language")) or language,
        tags=tuple(filter(None, map(_text, _list(item.get("tags"))))),
        record=record,
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Return a string, or a number as digits; an empty string for any other value."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else ""
