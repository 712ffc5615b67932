"""JSON Feed 1.0 and 1.1."""

from collections.abc import Mapping
from html import escape
from typing import Any

from rowen.connectors.catalog.dates import iso
from rowen.connectors.feed.document import FeedDocument
from rowen.connectors.feed.entry import FeedEntry, entry_url, resolved, stamp_of
from rowen.connectors.unread import unread_url
from rowen.errors import SourceError
from rowen.formats.json import payload_of, read_json
from rowen.model.item import Failed
from rowen.model.outside import attempt

__all__ = ["read_json_feed"]

_TEXTS = frozenset({"content_html", "content_text"})


def read_json_feed(body: bytes, feed: str, url: str) -> FeedDocument:
    """What a document says; raises where it is no feed."""
    told = read_json(body, url)
    if not isinstance(told, dict) or not isinstance(told.get("items"), list):
        raise SourceError(
            f"{url} is no JSON Feed: it has no list of items.",
            hint="Name the address of an RSS, Atom or JSON feed, or add it as another kind.",
        )
    document = FeedDocument()
    document.link("next", resolved(url, _text(told.get("next_url"))))
    document.link("self", resolved(url, _text(told.get("feed_url"))))
    hubs = told.get("hubs")
    for hub in hubs if isinstance(hubs, list) else ():
        if isinstance(hub, dict) and _text(hub.get("type")).lower() == "websub":
            document.link("hub", resolved(url, _text(hub.get("url"))))
    language = _text(told.get("language")) or None
    for item in told["items"]:
        document.take(_attempted(item, feed, url, language))
    document.settle()
    return document


def _attempted(item: Any, feed: str, base: str, language: str | None) -> FeedEntry | Failed:
    return attempt(lambda: _entry(item, feed, base, language), lambda why: _unread(feed, item, why))


def _unread(feed: str, item: Any, why: str) -> Failed:
    payload = payload_of(item) or b""
    return Failed(unread_url(feed, payload), f"The entry cannot be read: {why}.", payload=payload)


def _entry(item: Any, feed: str, base: str, language: str | None) -> FeedEntry:
    if not isinstance(item, dict):
        raise ValueError("it is no object")
    identifier = _text(item.get("id"))
    link = resolved(base, _text(item.get("url")) or _text(item.get("external_url")))
    updated, published = iso(item.get("date_modified")), iso(item.get("date_published"))
    title, content = " ".join(_text(item.get("title")).split()), _content(item)
    record: Mapping[str, Any] = {
        "id": identifier or None,
        "link": link,
        "published": published,
        "updated": updated,
        "authors": _names(item.get("authors") or [item.get("author")]),
        "enclosures": _attached(item.get("attachments"), base),
        "entry": {name: value for name, value in item.items() if name not in _TEXTS},
    }
    tags = item.get("tags")
    return FeedEntry(
        entry_url(feed, identifier, link, [title, content, published]),
        title,
        content,
        base,
        link=link,
        stamp=stamp_of(updated, published),
        language=_text(item.get("language")) or language,
        tags=tuple(filter(None, map(_text, tags))) if isinstance(tags, list) else (),
        record=record,
    )


def _content(item: Mapping[str, Any]) -> str:
    if html := _text(item.get("content_html")):
        return html
    text = _text(item.get("content_text")) or _text(item.get("summary"))
    return "".join(f"<p>{escape(part.strip())}</p>" for part in text.split("\n\n") if part.strip())


def _names(authors: Any) -> list[str]:
    several = authors if isinstance(authors, list) else [authors]
    return [name for one in several if isinstance(one, dict) and (name := _text(one.get("name")))]


def _attached(attachments: Any, base: str) -> list[str]:
    several = attachments if isinstance(attachments, list) else ()
    return [url for one in several if isinstance(one, dict) and (url := resolved(base, _text(one.get("url"))))]


def _text(value: Any) -> str:
    """A text; of an identifier that is a number, its digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else ""
