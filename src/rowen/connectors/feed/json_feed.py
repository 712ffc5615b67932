"""JSON Feed 1.0 and 1.1."""

from collections.abc import Mapping
from html import escape
from typing import Any

from rowen.connectors.base import unread_url
from rowen.connectors.catalog.dates import iso
from rowen.connectors.feed.document import FeedDocument, FeedEntry, entry_url, resolved, stamp_of
from rowen.errors import SourceError
from rowen.formats.json import payload_of, read_json
from rowen.model.items import Failed
from rowen.model.text import attempt

_TEXTS = frozenset({"content_html", "content_text"})


def read_json_feed(body: bytes, feed: str, url: str) -> FeedDocument:
    """Read a document; raise `SourceError` if it is no feed."""
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

        document.add(attempt(lambda item=item: _entry(item, feed, url, language), failure))  # type: ignore[misc]
    document.keep_latest()
    return document


def _entry(item: Any, feed: str, base: str, language: str | None) -> FeedEntry:
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
    """Return a text, or the digits of an identifier that is a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else ""
