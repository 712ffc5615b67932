"""Issues and releases: listings of a hundred at a time, each page with a validator of its own.

A page is asked for conditionally only while we hold all that it listed, so a 304 speaks for every item on it.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rowen.connectors.base import remembered
from rowen.connectors.github.address import RepositoryAddress
from rowen.connectors.github.api import GitHubApi, decoded
from rowen.connectors.github.rows import ApiRows, number_of, read_rows
from rowen.errors import SourceError
from rowen.model.item import Checkpoint, Document, Fetched, Incomplete, Observation, Unchanged
from rowen.model.url import SEGMENT, quoted
from rowen.net.response import Response

__all__ = ["MOST_PAGES", "Pages", "issues", "releases"]

MOST_PAGES = 10_000
"""A million issues or releases, at a hundred a page."""

_TAG = "/" + SEGMENT


@dataclass(frozen=True, slots=True)
class ApiPage:
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
    """A listing that brings whole items; `page` is where people find it."""

    def __init__(
        self,
        api: GitHubApi,
        name: str,
        path: str,
        *,
        page: str,
        document: Callable[[Any], Document | None],
        url_of: Callable[[Any], str],
    ) -> None:
        self.name = name
        self._api = api
        self._path = path
        self._page = page
        self._document = document
        self._url_of = url_of

    async def pull(self, held: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]:
        """Walk the pages; those that are the same cost a request without a body."""
        before = remembered(cursor, list[ApiPage]) or []
        pages: list[ApiPage] = []
        nameless = False
        while len(pages) < MOST_PAGES and (not pages or pages[-1].more):
            last = before[len(pages)] if len(pages) < len(before) else None
            etag = last.etag if last and last.is_held(held) else None
            response = await self._api.get(f"{self._path}&per_page=100&page={len(pages) + 1}", etag=etag)
            if response.not_modified and last:
                pages.append(last)
                rows = ApiRows()
            else:
                rows = self._rows(response)
                pages.append(_page(response, rows))
            for failed in rows.failed:
                yield failed
            for url, stamp in pages[-1].items.items():
                yield Unchanged(url) if held.get(url) == stamp else Fetched(rows.documents[url])
            nameless = nameless or rows.nameless
        if pages[-1].more:
            yield Incomplete(f"There are more than {MOST_PAGES:,} pages of {self.name}.")
        elif nameless:
            yield Incomplete(f"Some {self.name} cannot be read, nor told from others.")
        else:
            yield Checkpoint([page.to_json() for page in pages])

    def _rows(self, response: Response) -> ApiRows:
        rows = decoded(response)
        if not isinstance(rows, list):
            raise SourceError(f"{response.url} answered with something that is no list.")
        return read_rows(rows, self._document, self._url_of, page=self._page)


def _page(response: Response, rows: ApiRows) -> ApiPage:
    """The page as it is remembered; one with failures is asked for as a whole again."""
    more = 'rel="next"' in response.headers.get("Link", "")
    stamps = {url: document.validators.etag or "" for url, document in rows.documents.items()}
    return ApiPage(None if rows.failed else response.etag, more, stamps)


def issues(api: GitHubApi, address: RepositoryAddress, language: str | None) -> Pages:
    """The issues of a repository, oldest first: so pages seldom change."""

    def url_of(row: Any) -> str:
        return f"{address.repository}/issues/{number_of(row)}"

    def document(row: Any) -> Document | None:
        if "pull_request" in row:
            return None
        labels = [str(label["name"]) for label in row.get("labels") or ()]
        return Document(
            url_of(row),
            str(row["title"]),
            str(row.get("body") or ""),
            tuple(labels),
            {"number": row["number"], "state": row.get("state"), "labels": sorted(labels), **_told(row)},
            language,
            "text/markdown",
        )

    path, page = "issues?state=all&sort=created&direction=asc", f"{address.repository}/issues"
    return Pages(api, "issues", path, page=page, document=document, url_of=url_of)


def releases(api: GitHubApi, address: RepositoryAddress, language: str | None) -> Pages:
    """The notes of a repository's releases; drafts are not for everybody."""

    def url_of(row: Any) -> str:
        if not isinstance(row["tag_name"], str):
            raise TypeError("its tag is no text")
        return f"{address.repository}/releases/tag/{quoted(row['tag_name'], safe=_TAG)}"

    def document(row: Any) -> Document | None:
        if row.get("draft"):
            return None
        tag = row["tag_name"]
        return Document(
            url_of(row),
            str(row.get("name") or tag),
            str(row.get("body") or ""),
            (),
            {"tag": tag, "prerelease": bool(row.get("prerelease")), **_told(row)},
            language,
            "text/markdown",
        )

    page = f"{address.repository}/releases"
    return Pages(api, "releases", "releases?", page=page, document=document, url_of=url_of)


def _told(row: Any) -> dict[str, Any]:
    author = row.get("user") or row.get("author") or {}
    return {"author": author.get("login"), "at": row.get("published_at") or row.get("created_at")}
