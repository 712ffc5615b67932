"""Discussions, which only GraphQL tells of: it knows no validators, so every page is asked for each time."""

from collections.abc import AsyncGenerator
from typing import Any

from rowen.connectors.github.address import RepositoryAddress
from rowen.connectors.github.api import GitHubApi
from rowen.connectors.github.pages import MOST_PAGES
from rowen.connectors.github.rows import ApiRows, number_of, read_rows
from rowen.errors import SourceError
from rowen.model.item import Document, Fetched, Incomplete, Observation, Unchanged
from rowen.model.outside import UNREADABLE

__all__ = ["Discussions"]

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


class Discussions:
    """The part of a source that people talk about."""

    name = "discussions"

    def __init__(self, api: GitHubApi, address: RepositoryAddress, language: str | None) -> None:
        self._api = api
        self._address = address
        self._language = language

    async def pull(self, held: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]:
        """Walk all of them."""
        after: str | None = None
        nameless = False
        for _ in range(MOST_PAGES):
            rows, following = await self._page(after)
            for failed in rows.failed:
                yield failed
            for url, document in rows.documents.items():
                yield Unchanged(url) if held.get(url) == document.validators.etag else Fetched(document)
            nameless = nameless or rows.nameless
            if following is None or following == after:
                if nameless:
                    yield Incomplete("Some discussions cannot be read, nor told from others.")
                return
            after = following
        yield Incomplete(f"There are more than {MOST_PAGES:,} pages of {self.name}.")

    async def _page(self, after: str | None) -> tuple[ApiRows, str | None]:
        names = {"owner": self._address.owner, "name": self._address.name, "after": after}
        answer = await self._api.graphql(_QUERY, names)
        try:
            page = answer["repository"]["discussions"]
            following = page["pageInfo"]["endCursor"] if page["pageInfo"]["hasNextPage"] else None
            nodes = [*page["nodes"]]
        except UNREADABLE as problem:
            raise SourceError(f"GitHub listed discussions that cannot be read: {problem!r}.") from None
        return read_rows(nodes, self._document, self._url_of, page=f"{self._address.repository}/discussions"), following

    def _url_of(self, node: Any) -> str:
        return f"{self._address.repository}/discussions/{number_of(node)}"

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
