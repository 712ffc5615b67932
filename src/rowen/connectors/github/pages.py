"""Issues, releases and discussions, listed in pages of a hundred rows; an unreadable row fails individually.

Pages of issues and releases have validators. A page is requested conditionally only while all its items are stored, so
that a 304 response confirms each of them. Discussions are available only by GraphQL, without validators: every run
requests every page.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rowen.connectors.base import parse_stored, unread_url
from rowen.connectors.github.api import GitHubApi, decoded
from rowen.connectors.github.options import RepositoryAddress
from rowen.errors import SourceError
from rowen.formats.json import payload_of
from rowen.model.items import Checkpoint, Document, Failed, Fetched, Incomplete, Observation, Unchanged, Validators
from rowen.model.text import UNREADABLE, attempt
from rowen.model.url import SEGMENT, quoted

MOST_PAGES = 10_000
"""Maximum number of pages: a million issues or releases, at a hundred a page."""

_TAG = "/" + SEGMENT
_QUERY = """
query($owner: String!, $name: String!, $after: String) {
  repository(owner: $owner, name: $name) {
    discussions(first: 100, after: $after, orderBy: {field: CREATED_AT, direction: ASC}) {
      pageInfo { hasNextPage endCursor }
      nodes { number title body createdAt author { login } category { name } answer { body } }
    }
  }
}
"""


@dataclass(slots=True)
class ApiRows:
    """The rows of one page as documents or failures; `nameless` is true if a failed row has no identifiable item."""

    documents: dict[str, Document] = field(default_factory=dict)
    failed: list[Failed] = field(default_factory=list)
    nameless: bool = False


def _read_rows(
    rows: Iterable[Any], document: Callable[[Any], Document | None], url_of: Callable[[Any], str], *, page: str
) -> ApiRows:
    """Read each row separately; a row without an identifier is quarantined under a URL built from `page`."""
    result = ApiRows()
    for row in rows:
        read = attempt(lambda row=row: document(row), str)  # type: ignore[misc]
        if isinstance(read, Document):
            # The validator is a hash of everything that is stored.
            validators = Validators(etag=read.record_hash.hex()[:32])
            result.documents[read.url] = replace(read, validators=validators)
        elif isinstance(read, str):
            url = attempt(lambda row=row: url_of(row), lambda _: None)  # type: ignore[misc]
            payload = payload_of(row)
            failed = Failed(url or unread_url(page, payload or b""), f"It cannot be read: {read}.", payload=payload)
            result.failed.append(failed)
            result.nameless = result.nameless or url is None
    return result


def _number_of(row: Any) -> int:
    """Return the number of an issue or a discussion; raise `ValueError` for an invalid number."""
    number = row["number"]
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError("its number is none")
    return number


@dataclass(frozen=True, slots=True)
class ApiPage:
    """One page as last read; `items` has the validator of each item, by URL."""

    etag: str | None
    more: bool
    items: Mapping[str, str]


class Pages:
    """A paged listing of complete items; `page` is the URL of the listing on the website."""

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

    async def pull(self, etags: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]:
        """Read the pages in order; an unchanged page costs one request without a body."""
        before = parse_stored(cursor, list[ApiPage]) or []
        pages: list[ApiPage] = []
        nameless = False
        while len(pages) < MOST_PAGES and (not pages or pages[-1].more):
            last = before[len(pages)] if len(pages) < len(before) else None
            is_stored = last is not None and all(etags.get(url) == stamp for url, stamp in last.items.items())
            path = f"{self._path}&per_page=100&page={len(pages) + 1}"
            response = await self._api.get(path, etag=last.etag if last and is_stored else None)
            rows = ApiRows()
            if response.not_modified and last:
                pages.append(last)
            else:
                content = decoded(response)
                if not isinstance(content, list):
                    raise SourceError(f"{response.url} answered with something that is no list.")
                rows = _read_rows(content, self._document, self._url_of, page=self._page)
                more = 'rel="next"' in response.headers.get("Link", "")
                stamps = {url: document.validators.etag or "" for url, document in rows.documents.items()}
                # A page with failed rows gets no validator, so that it is read again.
                pages.append(ApiPage(None if rows.failed else response.etag, more, stamps))
            for failed in rows.failed:
                yield failed
            for url, stamp in pages[-1].items.items():
                yield Unchanged(url) if etags.get(url) == stamp else Fetched(rows.documents[url])
            nameless = nameless or rows.nameless
        if pages[-1].more:
            yield Incomplete(f"There are more than {MOST_PAGES:,} pages of {self.name}.")
        elif nameless:
            yield Incomplete(f"Some {self.name} cannot be read, and are not identified.")
        else:
            yield Checkpoint([{"etag": page.etag, "more": page.more, "items": dict(page.items)} for page in pages])


def issues(api: GitHubApi, address: RepositoryAddress, language: str | None) -> Pages:
    """Return the listing of a repository's issues, oldest first, so that pages seldom change."""

    def url_of(row: Any) -> str:
        return f"{address.repository}/issues/{_number_of(row)}"

    def document(row: Any) -> Document | None:
        if "pull_request" in row:
            return None
        labels = [str(label["name"]) for label in row.get("labels") or ()]
        return Document(
            url_of(row),
            str(row["title"]),
            str(row.get("body") or ""),
            tuple(labels),
            {"number": row["number"], "state": row.get("state"), "labels": sorted(labels), **_origin(row)},
            language,
            "text/markdown",
        )

    path, page = "issues?state=all&sort=created&direction=asc", f"{address.repository}/issues"
    return Pages(api, "issues", path, page=page, document=document, url_of=url_of)


def releases(api: GitHubApi, address: RepositoryAddress, language: str | None) -> Pages:
    """Return the listing of a repository's release notes, without drafts."""

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
            {"tag": tag, "prerelease": bool(row.get("prerelease")), **_origin(row)},
            language,
            "text/markdown",
        )

    page = f"{address.repository}/releases"
    return Pages(api, "releases", "releases?", page=page, document=document, url_of=url_of)


def _origin(row: Any) -> dict[str, Any]:
    author = row.get("user") or row.get("author") or {}
    return {"author": author.get("login"), "at": row.get("published_at") or row.get("created_at")}


class Discussions:
    """The discussions of a repository."""

    name = "discussions"

    def __init__(self, api: GitHubApi, address: RepositoryAddress, language: str | None) -> None:
        self._api = api
        self._address = address
        self._language = language

    async def pull(self, etags: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]:
        """Read all pages."""
        after: str | None = None
        nameless = False
        for _ in range(MOST_PAGES):
            variables = {"owner": self._address.owner, "name": self._address.name, "after": after}
            answer = await self._api.graphql(_QUERY, variables)
            try:
                page = answer["repository"]["discussions"]
                following = page["pageInfo"]["endCursor"] if page["pageInfo"]["hasNextPage"] else None
                nodes = [*page["nodes"]]
            except UNREADABLE as problem:
                raise SourceError(f"GitHub listed discussions that cannot be read: {problem!r}.") from None
            rows = _read_rows(nodes, self._document, self._url_of, page=f"{self._address.repository}/discussions")
            for failed in rows.failed:
                yield failed
            for url, document in rows.documents.items():
                yield Unchanged(url) if etags.get(url) == document.validators.etag else Fetched(document)
            nameless = nameless or rows.nameless
            if following is None or following == after:
                if nameless:
                    yield Incomplete("Some discussions cannot be read, and are not identified.")
                return
            after = following
        yield Incomplete(f"There are more than {MOST_PAGES:,} pages of {self.name}.")

    def _url_of(self, node: Any) -> str:
        return f"{self._address.repository}/discussions/{_number_of(node)}"

    def _document(self, node: Any) -> Document:
        answer = (node.get("answer") or {}).get("body")
        return Document(
            self._url_of(node),
            str(node["title"]),
            str(node.get("body") or "") + (f"\n\n## Answer\n\n{answer}" if answer else ""),
            (str(node["category"]["name"]),) if node.get("category") else (),
            {
                "number": node["number"],
                "author": (node.get("author") or {}).get("login"),
                "at": node.get("createdAt"),
            },
            self._language,
            "text/markdown",
        )
