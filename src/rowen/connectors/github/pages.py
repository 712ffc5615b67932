"""Issues and releases: listings of a hundred at a time, each page with a validator of its own.

A page is asked for conditionally only while we hold all that it listed, so a 304 speaks for every item on it.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rowen.connectors.git.listing import quoted
from rowen.connectors.github.address import Address
from rowen.connectors.github.api import Api, decoded
from rowen.connectors.remembered import remembered
from rowen.errors import SourceError
from rowen.fetch.response import Response
from rowen.model.item import Checkpoint, Document, Fetched, Incomplete, Observation, Unchanged, Validators

__all__ = ["MOST_PAGES", "Pages", "issues", "releases", "stamped"]

MOST_PAGES = 10_000
"""A million issues: the largest repository that we know of has a third of that."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page as it was last seen: the stamps of its items, by URL."""

    etag: str | None
    more: bool
    items: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """The page for a cursor."""
        return {"etag": self.etag, "more": self.more, "items": dict(self.items)}

    def is_held(self, held: Mapping[str, str | None]) -> bool:
        """Whether we hold every item of the page as it was."""
        return all(held.get(url) == stamp for url, stamp in self.items.items())


class Pages:
    """A listing that brings whole items."""

    def __init__(self, api: Api, name: str, path: str, document: Callable[[Any], Document | None]) -> None:
        self.name = name
        self._api = api
        self._path = path
        self._document = document

    async def pull(self, held: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]:
        """Walk the pages; those that are the same cost a request without a body."""
        before = remembered(cursor, list[Page]) or []
        pages: list[Page] = []
        while len(pages) < MOST_PAGES and (not pages or pages[-1].more):
            last = before[len(pages)] if len(pages) < len(before) else None
            etag = last.etag if last and last.is_held(held) else None
            response = await self._api.get(f"{self._path}&per_page=100&page={len(pages) + 1}", etag=etag)
            if response.not_modified and last:
                pages.append(last)
                documents: dict[str, Document] = {}
            else:
                documents = self._documents(response)
                pages.append(_page(response, documents))
            for url, stamp in pages[-1].items.items():
                yield Unchanged(url) if held.get(url) == stamp else Fetched(documents[url])
        if pages[-1].more:
            yield Incomplete(f"There are more than {MOST_PAGES:,} pages of {self.name}.")
        else:
            yield Checkpoint([page.to_json() for page in pages])

    def _documents(self, response: Response) -> dict[str, Document]:
        rows = decoded(response)
        if not isinstance(rows, list):
            raise SourceError(f"{response.url} answered with something that is no list.")
        try:
            found = [stamped(document) for row in rows if (document := self._document(row))]
        except (KeyError, TypeError, AttributeError) as problem:
            raise SourceError(f"{response.url} listed something that cannot be read: {problem!r}.") from None
        return {document.url: document for document in found}


def _page(response: Response, documents: Mapping[str, Document]) -> Page:
    more = 'rel="next"' in response.headers.get("Link", "")
    return Page(response.etag, more, {url: document.validators.etag or "" for url, document in documents.items()})


def stamped(document: Document) -> Document:
    """The same document with a validator: a hash of all that is stored of it."""
    return replace(document, validators=Validators(etag=document.record_hash.hex()[:32]))


def issues(api: Api, address: Address, language: str | None) -> Pages:
    """The issues of a repository, oldest first: so pages seldom change."""

    def document(row: Any) -> Document | None:
        if "pull_request" in row:
            return None
        labels = [str(label["name"]) for label in row.get("labels") or ()]
        return Document(
            f"{address.repository}/issues/{int(row['number'])}",
            str(row["title"]),
            str(row.get("body") or ""),
            tuple(labels),
            {"number": row["number"], "state": row.get("state"), "labels": sorted(labels), **_told(row)},
            language,
            "text/markdown",
        )

    return Pages(api, "issues", "issues?state=all&sort=created&direction=asc", document)


def releases(api: Api, address: Address, language: str | None) -> Pages:
    """The notes of a repository's releases; drafts are not for everybody."""

    def document(row: Any) -> Document | None:
        if row.get("draft"):
            return None
        tag = str(row["tag_name"])
        return Document(
            f"{address.repository}/releases/tag/{quoted(tag)}",
            str(row.get("name") or tag),
            str(row.get("body") or ""),
            (),
            {"tag": tag, "prerelease": bool(row.get("prerelease")), **_told(row)},
            language,
            "text/markdown",
        )

    return Pages(api, "releases", "releases?", document)


def _told(row: Any) -> dict[str, Any]:
    author = row.get("user") or row.get("author") or {}
    return {"author": author.get("login"), "at": row.get("published_at") or row.get("created_at")}
