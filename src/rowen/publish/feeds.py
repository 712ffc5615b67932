"""The change log for feed readers: Atom (RFC 4287, paged by RFC 5005) and JSON Feed 1.1."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from rowen.model.changes import (
    Change,
    DiffLine,
    FeedForm,
    FieldChange,
    FieldDiff,
    ItemDiff,
    Publication,
    PublishedChange,
    hunks_of,
)
from rowen.model.passages import excerpt, words_of
from rowen.model.text import each

# A few lines in the preview of a feed reader.
_SUMMARY_CHARS = 400
# Characters that XML 1.0 forbids, even escaped.
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WEB = ("http://", "https://")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MEDIA_TYPE_EVENTS = "text/event-stream; charset=utf-8"
_MARKS = {"same": " ", "removed": "-", "added": "+"}
_FIELD_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_ELEMENTS = {"removed": "del", "added": "ins"}


@dataclass(frozen=True, slots=True)
class PublicAddresses:
    """The addresses of the publications of one source, or of all sources together."""

    base: str
    source: str | None = None

    @property
    def root(self) -> str:
        """Return the common prefix of the addresses."""
        base = self.base.rstrip("/")
        return base if self.source is None else f"{base}/sources/{quote(self.source, safe='')}"

    def change(self, number: int) -> str:
        """Return the address of a line of the log; it does not depend on the source."""
        return f"{self.base.rstrip('/')}/changes/{number}"

    def feed(
        self,
        form: str,
        *,
        query: str | None = None,
        kinds: Sequence[str] = (),
        field: str | None = None,
        before: int | None = None,
    ) -> str:
        """Return the address of a feed; with `before`, of the page of lines below that number."""
        filters = [("query", query), *(("kind", kind) for kind in kinds), ("field", field), ("before", before)]
        parameters = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in filters if value is not None)
        return f"{self.root}/feeds/{form}" + (f"?{parameters}" if parameters else "")

    def stream(self, node: str = "") -> str:
        """Return the address of a node of the event stream: the first page, or `blocks/3`, `pages/17`."""
        return f"{self.root}/ldes" + (f"/{node}" if node else "")

    def catalog(self, form: str, after: str | None = None) -> str:
        """Return the address of the catalog of all datasets; with `after`, return the address of its next page."""
        return f"{self.root}/catalog/{form}" + (f"?after={quote(after, safe='')}" if after else "")


@dataclass(frozen=True, slots=True)
class FeedHead:
    """The filters of a feed: a source, kinds of changes, a field, and a query."""

    addresses: PublicAddresses
    query: str | None = None
    before: int | None = None
    kinds: tuple[str, ...] = ()
    field: str | None = None

    @property
    def title(self) -> str:
        """Return the title of the feed."""
        kinds = f" ({', '.join(self.kinds)})" if self.kinds else ""
        of = f" of {self.field}" if self.field else ""
        there = f" in {self.addresses.source}" if self.addresses.source else ""
        return f"Changes{kinds}{of}{there}" + (f" that match “{self.query}”" if self.query else "")

    def address(self, form: FeedForm, before: int | None = None) -> str:
        """Return the address of the feed; with `before`, of the page of lines below that number."""
        return self.addresses.feed(form, query=self.query, kinds=self.kinds, field=self.field, before=before)


def feed(form: FeedForm, head: FeedHead, changes: Sequence[PublishedChange], *, more: bool) -> Publication:
    """Return a page of a feed, newest line first; `more` says that older lines exist."""
    older = head.address(form, changes[-1].change.number) if more and changes else None
    if form == "atom":
        lines = [
            '<?xml version="1.0" encoding="utf-8"?>',
            '<feed xmlns="http://www.w3.org/2005/Atom">',
            f"<id>{_xml(head.address('atom'))}</id>",
            f"<title>{_xml(head.title)}</title>",
            f"<updated>{_time(changes[0].change.at if changes else _EPOCH)}</updated>",
            _link("self", head.address("atom", head.before)),
            *([_link("first", head.address("atom"))] if head.before is not None else []),
            *([_link("next", older)] if older else []),
            "<author><name>Rowen</name></author>",
            *each(changes, lambda published: _entry(head, published), name=_name),
            "</feed>\n",
        ]
        return Publication("\n".join(lines).encode(), "application/atom+xml; charset=utf-8")
    document = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": head.title,
        "feed_url": head.address("json", head.before),
        **({"next_url": older} if older else {}),
        "items": list(each(changes, lambda published: _item(head, published), name=_name)),
    }
    body = json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace")
    return Publication(body, "application/feed+json; charset=utf-8")


def summary(published: PublishedChange) -> str:
    """Return the beginning of an item's text as a summary."""
    return excerpt(words_of(published.text or ""), (), _SUMMARY_CHARS)


def diff_of_change(published: PublishedChange) -> ItemDiff | None:
    """Return the difference that a change made; None if one of the texts is not available."""
    if published.before is None or published.text is None:
        return None
    title, text, tags = published.before
    change, now = published.change, set(published.tags)
    return ItemDiff(
        change.url,
        change.source,
        published.revision - 1,
        published.revision,
        (title, change.title),
        tuple(sorted(now - set(tags))),
        tuple(sorted(set(tags) - now)),
        hunks_of(text, published.text),
    )


def field_lines(change: Change) -> list[str]:
    """Return the changed fields of extracted facts as lines such as `/price: 3 → 4`."""
    lines = []
    for field in change.diff or ():
        values = [json.dumps(field[side], ensure_ascii=False) for side in ("before", "after") if side in field]
        lines.append(f"{field.get('path', '')}: {' → '.join(values)}")
    return lines


def _content(published: PublishedChange) -> str:
    """Return the body of an entry as HTML: the difference if it is available, else a summary of the item."""
    change = published.change
    parts = [f"<p>{escape(change.kind)} in {escape(change.source)}</p>"]
    if change.moved_from:
        parts.append(f"<p>Before: {escape(change.moved_from)}</p>")
    if change.diff:
        parts.append("<ul>" + "".join(f"<li>{escape(line)}</li>" for line in field_lines(change)) + "</ul>")
    elif diff := diff_of_change(published):
        parts.append(as_html(diff))
    elif about := summary(published):
        parts.append(f"<p>{escape(about)}</p>")
    return "".join(parts)


def _entry(head: FeedHead, published: PublishedChange) -> str:
    change = published.change
    parts = [
        "<entry>",
        f"<id>{_xml(head.addresses.change(change.number))}</id>",
        f"<title>{_xml(change.title or change.url)}</title>",
        f"<updated>{_time(change.at)}</updated>",
        _link("alternate", change.url) if change.url.startswith(_WEB) else "",
        f"<category term={quoteattr(change.kind)}/>",
        f'<category scheme="urn:rowen:source" term={quoteattr(_writable(change.source))}/>',
        f'<content type="html">{_xml(_content(published))}</content>',
        "</entry>",
    ]
    return "\n".join(part for part in parts if part)


def _name(published: PublishedChange) -> str:
    return f"Change {published.change.number} ({published.change.url})"


def _item(head: FeedHead, published: PublishedChange) -> dict[str, object]:
    change = published.change
    return {
        "id": head.addresses.change(change.number),
        **({"url": change.url} if change.url.startswith(_WEB) else {}),
        "title": change.title or change.url,
        "content_html": _content(published),
        "date_published": _time(change.at),
        "tags": [change.kind, change.source],
        "_rowen": {
            "number": change.number,
            "kind": change.kind,
            "source": change.source,
            "url": change.url,
            "moved_from": change.moved_from,
            "schema": change.schema,
            "diff": change.diff,
        },
    }


def _link(relation: str, address: str) -> str:
    return f'<link rel="{relation}" href={quoteattr(_writable(address))}/>'


def _xml(text: str) -> str:
    return escape(_writable(text), quote=False)


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\ufffd", text)


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def event(change: Change) -> bytes:
    """Return one line of the log as a server-sent event; a client returns its number as `Last-Event-ID`."""
    data = {
        "number": change.number,
        "kind": change.kind,
        "url": change.url,
        "title": change.title,
        "source": change.source,
        "at": change.at.isoformat(),
        "moved_from": change.moved_from,
        "schema": change.schema,
        "diff": change.diff,
    }
    # JSON on one line: a line break inside would end the field.
    return f"id: {change.number}\nevent: {change.kind}\ndata: {json.dumps(data)}\n\n".encode()


def last_seen(last_event_id: str | None) -> int | None:
    """Return the number in a `Last-Event-ID`; None if it is missing or was not assigned by Rowen."""
    # A bigint has 19 digits; a larger number would be a database error.
    digits = (last_event_id or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


def as_html(diff: ItemDiff) -> str:
    """Return a difference as an HTML fragment: lines in `pre`, differing words in `del` and `ins`."""
    before, after = diff.title
    parts = []
    if before != after:
        removed = f"<del>{escape(before)}</del> " if before else ""
        parts.append(f"<p>{removed}<ins>{escape(after)}</ins></p>")
    tags = [f"<del>{escape(tag)}</del>" for tag in diff.tags_removed]
    tags += [f"<ins>{escape(tag)}</ins>" for tag in diff.tags_added]
    if tags:
        parts.append(f"<p>{' '.join(tags)}</p>")
    parts += ["<pre>" + "\n".join(_line(line) for line in hunk.lines) + "</pre>" for hunk in diff.hunks]
    return "\n".join(parts)


def _line(line: DiffLine) -> str:
    element = _ELEMENTS.get(line.kind)
    words = _MARKS[line.kind]
    for piece in line.pieces:
        text = escape(piece.text)
        words += f"<{element}>{text}</{element}>" if piece.changed and element else text
    return words


def as_text(diff: ItemDiff) -> str:
    """Return a difference as a unified diff without line numbers."""
    return "\n…\n".join("\n".join(_MARKS[line.kind] + line.text for line in hunk.lines) for hunk in diff.hunks)


def fields_as_html(diff: FieldDiff) -> str:
    """Return changed fields as an HTML table: pointer, removed value, added value."""
    rows = []
    for field in diff.fields:
        elements = {"added": ["ins"], "removed": ["del"], "changed": ["del", "ins"]}[field.op]
        values = zip(elements, _values(field), strict=True)
        cell = " ".join(f"<{element}>{escape(value)}</{element}>" for element, value in values)
        rows.append(f"<tr><th>{escape(field.path or '/')}</th><td>{cell}</td></tr>")
    return "\n".join(["<table>", *rows, "</table>"]) if rows else ""


def fields_as_text(diff: FieldDiff) -> str:
    """Return changed fields as text, one line for each field."""
    return "\n".join(
        f"{_FIELD_MARKS[field.op]} {field.path or '/'}\t{' → '.join(_values(field))}" for field in diff.fields
    )


def _values(change: FieldChange) -> list[str]:
    before = [] if change.op == "added" else [json.dumps(change.before, ensure_ascii=False)]
    return before if change.op == "removed" else [*before, json.dumps(change.after, ensure_ascii=False)]
